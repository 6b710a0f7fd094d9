//! Changes of the workspace: quotas, intents and recorded effects.

use super::*;

#[tokio::test]
async fn b4_read_only_means_no_change_of_any_kind() {
    let mut writer = Guest::new(ROOMY).await;
    writer.put("file", b"content").await;
    let mut guest = writer.read_only();
    for how in [OpenFlags::TRUNCATE, OpenFlags::CREATE, OpenFlags::CREATE | OpenFlags::TRUNCATE] {
        assert_eq!(guest.open("file", how, READ).await.unwrap_err(), ErrorCode::ReadOnly);
    }
    assert_eq!(guest.open("file", none(), WRITE).await.unwrap_err(), ErrorCode::ReadOnly);
    assert_eq!(guest.mkdir("x").await.unwrap_err(), ErrorCode::ReadOnly);
    assert_eq!(guest.unlink("file").await.unwrap_err(), ErrorCode::ReadOnly);
    assert_eq!(guest.rename("file", "x").await.unwrap_err(), ErrorCode::ReadOnly);
    let fd = guest.open("file", none(), READ).await.unwrap();
    assert_eq!(guest.write(fd, b"x", 0).await.unwrap_err(), ErrorCode::ReadOnly);
    assert_eq!(code(guest.view().set_size(borrow(fd), 0).await.unwrap_err()), ErrorCode::ReadOnly);
    assert_eq!(code(guest.view().append_via_stream(borrow(fd)).err().unwrap()), ErrorCode::ReadOnly);
    let times = guest.view().set_times(borrow(fd), NewTimestamp::Now, NewTimestamp::Now).await;
    assert_eq!(code(times.unwrap_err()), ErrorCode::ReadOnly);
    assert!(guest.access.take_effects().contains(&effect("file_denied", "file: the workspace is read-only")));
    assert_eq!(guest.get("file").await.unwrap(), b"content");

    let fd = writer.open("file", OpenFlags::TRUNCATE, WRITE).await.unwrap();
    writer.view().set_times(borrow(fd), NewTimestamp::Now, NewTimestamp::Now).await.map_err(code).unwrap();
    assert_eq!(writer.get("file").await.unwrap(), b"");
}

#[tokio::test]
async fn a_file_opened_for_reading_is_not_written() {
    let mut guest = Guest::new(ROOMY).await;
    guest.put("file", b"content").await;
    let fd = guest.open("file", none(), READ).await.unwrap();
    assert_eq!(guest.write(fd, b"x", 0).await.unwrap_err(), ErrorCode::BadDescriptor);
    assert_eq!(code(guest.view().set_size(borrow(fd), 0).await.unwrap_err()), ErrorCode::BadDescriptor);
    assert_eq!(code(guest.view().write_via_stream(borrow(fd), 0).err().unwrap()), ErrorCode::BadDescriptor);
    assert_eq!(guest.get("file").await.unwrap(), b"content");
}

#[tokio::test]
async fn t11_what_is_read_is_told_where_a_tool_is_tried_out() {
    let mut guest = Guest::new(ROOMY).await;
    guest.put("a", b"1").await;
    guest.access.take_effects();
    guest.get("a").await.unwrap();
    assert_eq!(guest.access.take_effects(), []);
    guest.workspace = guest.workspace.clone().with_read_effects();
    let mut trying = guest.sibling();
    trying.get("a").await.unwrap();
    trying.put("b", b"2").await;
    assert_eq!(trying.access.take_effects(), [effect("workspace_write", "b"), effect("workspace_read", "a")]);
}

#[tokio::test]
async fn b2_writes_are_charged_by_what_the_file_grows() {
    let mut guest = Guest::new(Quota { bytes: 10, files: 5 }).await;
    let fd = guest.create("f").await.unwrap();
    guest.write(fd, b"12345", 0).await.unwrap();
    guest.write(fd, b"abcde", 0).await.unwrap();
    guest.write(fd, b"67890", 5).await.unwrap();
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 10, files: 1 });
    assert_eq!(guest.access.exceeded_limit(), None);
    assert_eq!(guest.write(fd, b"x", 10).await.unwrap_err(), ErrorCode::Quota);
    assert_eq!(guest.access.exceeded_limit(), Some(LimitName::WorkspaceBytes));
    assert!(guest.access.take_effects().contains(&effect("quota_exceeded", "f: workspace_bytes")));
    guest.view().set_size(borrow(fd), 3).await.map_err(code).unwrap();
    assert_eq!(guest.usage().bytes, 3);
    guest.write(fd, b"7654321", 3).await.unwrap();
    assert_eq!(guest.usage().bytes, 10);
}

#[tokio::test]
async fn b2_emptying_a_file_as_it_is_opened_gives_its_room_back() {
    let mut guest = Guest::new(Quota { bytes: 10, files: 1 }).await;
    guest.put("f", b"1234567890").await;
    let fd = guest.open("f", OpenFlags::TRUNCATE, WRITE).await.unwrap();
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 0, files: 1 });
    guest.write(fd, b"0987654321", 0).await.unwrap();
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 10, files: 1 });
}

#[tokio::test]
async fn b2_holes_count_in_full() {
    let mut guest = Guest::new(Quota { bytes: 1000, files: 5 }).await;
    let fd = guest.create("sparse").await.unwrap();
    for size in [1001, 1 << 40, i64::MAX as u64, u64::MAX] {
        assert_eq!(
            code(guest.view().set_size(borrow(fd), size).await.unwrap_err()),
            ErrorCode::Quota,
            "{size}"
        );
    }
    for offset in [1000, 1 << 40, i64::MAX as u64] {
        assert_eq!(guest.write(fd, b"x", offset).await.unwrap_err(), ErrorCode::Quota, "{offset}");
    }
    assert_eq!(guest.write(fd, b"x", u64::MAX).await.unwrap_err(), ErrorCode::FileTooLarge);
    assert_eq!(guest.usage().bytes, 0);
    guest.write(fd, b"x", 998).await.unwrap();
    guest.view().set_size(borrow(fd), 1000).await.map_err(code).unwrap();
    assert_eq!(guest.usage().bytes, 1000);
    assert_eq!(fs::metadata(guest.host("sparse")).unwrap().len(), 1000);
}

#[tokio::test]
async fn b2_files_and_folders_are_counted_and_released() {
    let mut guest = Guest::new(Quota { bytes: 10, files: 3 }).await;
    guest.mkdir("d").await.unwrap();
    guest.put("a", b"1").await;
    guest.put("d/b", b"2").await;
    assert_eq!(guest.create("c").await.unwrap_err(), ErrorCode::Quota);
    assert_eq!(guest.mkdir("c").await.unwrap_err(), ErrorCode::Quota);
    assert_eq!(guest.access.exceeded_limit(), Some(LimitName::WorkspaceFiles));
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 2, files: 3 });
    guest.create("a").await.unwrap();
    guest.unlink("d/b").await.unwrap();
    guest.rmdir("d").await.unwrap();
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 1, files: 1 });
    guest.mkdir("c").await.unwrap();
    assert_eq!(guest.rmdir("missing").await.unwrap_err(), ErrorCode::NoEntry);
    assert_eq!(guest.unlink("c").await.unwrap_err(), ErrorCode::IsDirectory);
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 1, files: 2 });
}

#[tokio::test]
async fn b2_many_small_files_end_at_the_quota_of_files() {
    let mut guest = Guest::new(Quota { bytes: 10, files: 150 }).await;
    for number in 0..150 {
        guest.put(&format!("f{number}"), b"").await;
    }
    assert_eq!(guest.create("one more").await.unwrap_err(), ErrorCode::Quota);
    assert_eq!(guest.list().await.len(), 150);
    let effects = guest.access.take_effects();
    assert_eq!(effects.len(), 33);
    assert_eq!(effects[32], effect("file_effects_left_out", "119 more"));
}

#[tokio::test]
async fn b2_a_rename_releases_what_it_replaces() {
    let mut guest = Guest::new(Quota { bytes: 10, files: 4 }).await;
    guest.put("a", b"1234").await;
    guest.put("b", b"56789").await;
    guest.rename("a", "b").await.unwrap();
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 4, files: 1 });
    guest.rename("b", "b").await.unwrap();
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 4, files: 1 });
    guest.mkdir("d").await.unwrap();
    guest.mkdir("e").await.unwrap();
    guest.rename("d", "e").await.unwrap();
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 4, files: 2 });
    assert_eq!(guest.get("b").await.unwrap(), b"1234");
}

#[tokio::test]
async fn a_rename_is_recorded_with_both_names() {
    let mut guest = Guest::new(Quota { bytes: 10, files: 4 }).await;
    guest.put("draft", b"1234").await;
    guest.access.take_effects();
    guest.rename("draft", "final").await.unwrap();
    let named: Vec<String> = guest.access.take_effects().into_iter().map(|effect| effect.detail).collect();
    assert_eq!(named, ["draft", "final"]);
}

#[tokio::test]
async fn b2_a_removed_file_that_is_still_open_cannot_grow_past_the_quota() {
    let mut guest = Guest::new(Quota { bytes: 10, files: 2 }).await;
    let fd = guest.create("f").await.unwrap();
    guest.write(fd, b"12345", 0).await.unwrap();
    guest.unlink("f").await.unwrap();
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 5, files: 1 });
    guest.write(fd, b"67890", 5).await.unwrap();
    assert_eq!(guest.write(fd, b"x", 10).await.unwrap_err(), ErrorCode::Quota);
    let other = guest.create("g").await.unwrap();
    assert_eq!(guest.write(other, b"x", 0).await.unwrap_err(), ErrorCode::Quota);
    guest.close(fd);
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 0, files: 1 });
    guest.write(other, b"1234567890", 0).await.unwrap();
}

#[tokio::test]
async fn b2_opening_and_removing_again_and_again_ends_at_the_quota() {
    let mut guest = Guest::new(Quota { bytes: 100, files: 5 }).await;
    let mut open = 0;
    let refused = loop {
        match guest.create("f").await {
            Ok(fd) => {
                open += 1;
                guest.write(fd, b"1234567890", 0).await.unwrap();
                guest.unlink("f").await.unwrap();
            }
            Err(error) => break error,
        }
    };
    assert_eq!((refused, open), (ErrorCode::Quota, 5));
    let workspace = guest.workspace.clone();
    drop(guest);
    assert_eq!(workspace.usage(), WorkspaceUsage::default());
}

#[tokio::test]
async fn b2_one_call_removes_what_another_holds_open() {
    let mut one = Guest::new(Quota { bytes: 10, files: 2 }).await;
    let mut other = one.sibling();
    let fd = one.create("f").await.unwrap();
    one.write(fd, b"123456", 0).await.unwrap();
    other.unlink("f").await.unwrap();
    other.put("g", b"1234").await;
    let g = other.open("g", none(), WRITE).await.unwrap();
    assert_eq!(other.write(g, b"5", 4).await.unwrap_err(), ErrorCode::Quota);
    drop(one);
    other.write(g, b"567890", 4).await.unwrap();
    assert_eq!(other.usage(), WorkspaceUsage { bytes: 10, files: 1 });
}

#[tokio::test]
async fn b2_a_call_holds_a_limited_number_of_files_open() {
    let mut guest = Guest::new(ROOMY).await;
    guest.put("f", b"x").await;
    let mut open = Vec::new();
    let refused = loop {
        match guest.open("f", none(), READ).await {
            Ok(fd) => open.push(fd),
            Err(error) => break error,
        }
    };
    assert_eq!((refused, open.len()), (ErrorCode::InsufficientMemory, 128));
    assert_eq!(guest.open(".", none(), READ).await.unwrap_err(), ErrorCode::InsufficientMemory);
    guest.close(open.pop().unwrap());
    guest.open("f", none(), READ).await.unwrap();
}

#[tokio::test]
async fn folders_are_not_nested_deeper_by_moving_them() {
    let mut guest = Guest::new(ROOMY).await;
    let (mut left, mut right) = ("l".to_owned(), "r".to_owned());
    for _ in 0..40 {
        guest.mkdir(&left).await.unwrap();
        guest.mkdir(&right).await.unwrap();
        left.push_str("/x");
        right.push_str("/x");
    }
    let deep = left.trim_end_matches("/x").to_owned() + &"/x".repeat(39);
    let held = guest.open("r", OpenFlags::DIRECTORY, READ).await.unwrap();
    assert_eq!(guest.rename("r", &format!("{deep}/r")).await.unwrap_err(), ErrorCode::NameTooLong);
    guest.rename("r", "l/x/x/r").await.unwrap();
    // The directory is deeper now than when it was opened; the depth on disk counts.
    let below = format!("{}y", "x/".repeat(39));
    guest.view().create_directory_at(borrow(held), below.clone()).await.map_err(code).unwrap();
    let mut chain = below;
    let refused = loop {
        chain.push_str("/y");
        if let Err(error) = guest.view().create_directory_at(borrow(held), chain.clone()).await {
            break code(error);
        }
    };
    assert_eq!(refused, ErrorCode::NameTooLong);
    assert_eq!(chain.split('/').count() + "l/x/x/r".split('/').count(), 65);
}

#[tokio::test]
async fn the_intent_is_recorded_once_and_before_the_first_change_only() {
    let mut guest = Guest::new(ROOMY).await;
    guest.put("f", b"x").await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let host_file = guest.host("new");
    let before = BeforeEffect::new(move || {
        assert!(!host_file.exists(), "changed before it was recorded");
        counter.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    });
    let mut guest = guest.with_access(access(&guest.workspace, before, &CopyMeter::default()));
    assert_eq!(guest.get("f").await.unwrap(), b"x");
    assert_eq!(guest.list().await, ["f"]);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    guest.put("new", b"y").await;
    guest.unlink("f").await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    assert_eq!(
        guest.access.take_effects(),
        [effect("workspace_write", "new"), effect("workspace_write", "f")]
    );
}

#[tokio::test]
async fn nothing_changes_when_the_intent_cannot_be_recorded() {
    let mut allowed = Guest::new(ROOMY).await;
    allowed.put("f", b"x").await;
    let unrecordable = BeforeEffect::new(|| async { Err("full".into()) });
    let mut guest = allowed.with_access(access(&allowed.workspace, unrecordable, &CopyMeter::default()));
    assert_eq!(guest.get("f").await.unwrap(), b"x");
    assert!(!guest.access.intent_failed());
    assert_eq!(guest.create("g").await.unwrap_err(), ErrorCode::Io);
    assert_eq!(guest.open("f", none(), WRITE).await.unwrap_err(), ErrorCode::Io);
    assert_eq!(guest.unlink("f").await.unwrap_err(), ErrorCode::Io);
    assert_eq!(guest.mkdir("d").await.unwrap_err(), ErrorCode::Io);
    assert!(guest.access.intent_failed());
    assert_eq!(guest.list().await, ["f"]);
    assert_eq!(guest.access.take_effects(), []);
    allowed.unlink("f").await.unwrap();
}

#[tokio::test]
async fn a_guest_can_ask_about_what_it_holds() {
    let mut guest = Guest::new(ROOMY).await;
    guest.put("f", b"hello").await;
    let (one, two) =
        (guest.open("f", none(), READ).await.unwrap(), guest.open("f", none(), READ).await.unwrap());
    assert_eq!(guest.view().stat(borrow(one)).await.map_err(code).unwrap().size, 5);
    assert!(guest.view().is_same_object(borrow(one), borrow(two)).await.unwrap());
    let top = guest.top();
    assert!(!guest.view().is_same_object(borrow(one), top).await.unwrap());
    assert_eq!(guest.view().get_flags(borrow(one)).await.map_err(code).unwrap(), READ);
    assert_eq!(
        guest.view().read(borrow(one), u64::MAX, 3).await.map_err(code).unwrap(),
        (b"lo".to_vec(), false)
    );
    let top = guest.top();
    guest.view().sync(top).await.map_err(code).unwrap();
    let top = guest.top();
    guest.view().set_times(top, NewTimestamp::Now, NewTimestamp::Now).await.map_err(code).unwrap();
    for path in ["f", "."] {
        let top = guest.top();
        let mut view = guest.view();
        let set =
            view.set_times_at(top, PathFlags::empty(), path.into(), NewTimestamp::Now, NewTimestamp::Now);
        set.await.map_err(code).unwrap();
    }
    let top = guest.top();
    assert_eq!(code(guest.view().readlink_at(top, "f".into()).await.unwrap_err()), ErrorCode::Invalid);
}

#[tokio::test]
async fn what_an_ended_call_was_waiting_for_is_over_or_counted() {
    let mut guest = Guest::new(ROOMY).await;
    let lock = guest.workspace.lock().await;
    let mut other = guest.sibling();
    {
        let mut waiting = Box::pin(other.create("f"));
        assert!(wasmtime_wasi::runtime::poll_noop(waiting.as_mut()).is_none());
    }
    assert_eq!(other.access.unfinished_operations(), 0);
    drop(lock);
    guest.put("g", b"").await;
    assert_eq!(guest.list().await, ["g"]);
}
