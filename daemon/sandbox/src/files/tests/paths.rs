//! The entries that a path may lead to.

use super::*;

#[tokio::test]
async fn b4_a_guest_finds_its_workspace_and_reads_and_writes_in_it() {
    let mut guest = Guest::new(ROOMY).await;
    let names: Vec<_> =
        preopens::Host::get_directories(&mut guest.view()).unwrap().into_iter().map(|it| it.1).collect();
    assert_eq!(names, ["/workspace", "."]);
    guest.mkdir("notes").await.unwrap();
    guest.put("notes/today.txt", b"hello").await;
    assert_eq!(guest.get("notes/./x/../today.txt").await.unwrap(), b"hello");
    assert_eq!(guest.list().await, ["notes"]);
    assert_eq!(fs::read(guest.host("notes/today.txt")).unwrap(), b"hello");
}

#[tokio::test]
async fn b4_without_a_workspace_there_is_nothing_to_open() {
    let (mut table, mut ctx) = (ResourceTable::new(), WasiFilesystemCtx::default());
    let mut access = FileAccess::new(None, OPEN_FILES, BeforeEffect::forbidden(), &CopyMeter::default());
    let wasi = WasiFilesystemCtxView { ctx: &mut ctx, table: &mut table };
    assert!(preopens::Host::get_directories(&mut FilesView::new(wasi, &mut access)).unwrap().is_empty());
    assert_eq!(access.take_effects(), []);
    assert_eq!(access.unfinished_operations(), 0);
}

#[tokio::test]
async fn b4_paths_out_of_the_workspace_are_refused_and_noted() {
    let around = TempDir::new().unwrap();
    let canary = around.path().join("canary");
    fs::write(&canary, "canary").unwrap();
    let mut guest = Guest::within(around.path(), ROOMY).await;
    guest.mkdir("a").await.unwrap();
    for path in ["..", "../canary", "a/../../canary", "/etc/passwd", "/", "//etc", "a/../.."] {
        assert_eq!(guest.open(path, none(), READ).await.unwrap_err(), ErrorCode::NotPermitted, "{path}");
        assert_eq!(guest.create(path).await.unwrap_err(), ErrorCode::NotPermitted, "{path}");
        assert_eq!(guest.mkdir(path).await.unwrap_err(), ErrorCode::NotPermitted, "{path}");
        assert_eq!(guest.unlink(path).await.unwrap_err(), ErrorCode::NotPermitted, "{path}");
        assert_eq!(guest.rmdir(path).await.unwrap_err(), ErrorCode::NotPermitted, "{path}");
        assert_eq!(guest.rename(path, "x").await.unwrap_err(), ErrorCode::NotPermitted, "{path}");
        assert_eq!(guest.rename("a", path).await.unwrap_err(), ErrorCode::NotPermitted, "{path}");
        let top = guest.top();
        assert_eq!(
            code(guest.view().stat_at(top, FOLLOW, path.into()).await.unwrap_err()),
            ErrorCode::NotPermitted
        );
    }
    let effects = guest.access.take_effects();
    assert!(effects.contains(&effect("file_denied", "../canary: it leads out of the workspace")));
    assert!(effects.contains(&effect("file_denied", "/etc/passwd: it is absolute")));
    assert_eq!(guest.list().await, ["a"]);
    assert_eq!(fs::read(&canary).unwrap(), b"canary");
}

#[tokio::test]
async fn b4_a_descriptor_of_a_folder_does_not_lead_above_that_folder() {
    let mut guest = Guest::new(ROOMY).await;
    guest.mkdir("a").await.unwrap();
    guest.put("secret", b"x").await;
    guest.put("a/mine", b"y").await;
    let folder = guest.open("a", OpenFlags::DIRECTORY, READ).await.unwrap();
    let up = guest.view().open_at(borrow(folder), FOLLOW, "../secret".into(), none(), READ).await;
    assert_eq!(code(up.unwrap_err()), ErrorCode::NotPermitted);
    assert_eq!(
        guest.access.take_effects().last().unwrap().detail,
        "a/../secret: it leads out of the workspace"
    );
    guest.view().open_at(borrow(folder), FOLLOW, "mine".into(), none(), READ).await.map_err(code).unwrap();
}

#[tokio::test]
async fn b4_planted_links_are_not_followed_by_anything() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("canary"), "canary").unwrap();
    let mut guest = Guest::new(ROOMY).await;
    guest.put("file", b"inside").await;
    symlink(outside.path().join("canary"), guest.host("link")).unwrap();
    symlink(outside.path(), guest.host("out")).unwrap();
    symlink("link", guest.host("chain")).unwrap();
    symlink("file", guest.host("harmless")).unwrap();
    symlink("/proc/self/root", guest.host("proc")).unwrap();
    symlink("loop", guest.host("loop")).unwrap();
    for path in
        ["link", "out/canary", "chain", "harmless", "proc/etc/passwd", "proc", "loop", "out/", "out/new"]
    {
        assert_eq!(guest.open(path, none(), READ).await.unwrap_err(), ErrorCode::Loop, "{path}");
        assert_eq!(guest.create(path).await.unwrap_err(), ErrorCode::Loop, "{path}");
        assert_eq!(
            guest.open(path, OpenFlags::TRUNCATE, WRITE).await.unwrap_err(),
            ErrorCode::Loop,
            "{path}"
        );
        let top = guest.top();
        assert_eq!(
            code(guest.view().stat_at(top, FOLLOW, path.into()).await.unwrap_err()),
            ErrorCode::Loop,
            "{path}"
        );
        let top = guest.top();
        assert_eq!(
            code(guest.view().readlink_at(top, path.into()).await.unwrap_err()),
            ErrorCode::Loop,
            "{path}"
        );
    }
    for path in ["out/canary", "out/new"] {
        assert_eq!(guest.unlink(path).await.unwrap_err(), ErrorCode::Loop);
        assert_eq!(guest.mkdir(path).await.unwrap_err(), ErrorCode::Loop);
        assert_eq!(guest.rename("file", path).await.unwrap_err(), ErrorCode::Loop);
    }
    assert_eq!(guest.rename("link", "moved").await.unwrap_err(), ErrorCode::Loop);
    assert!(
        guest
            .access
            .take_effects()
            .contains(&effect("file_denied", "out/canary: it leads through a symbolic link"))
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read(outside.path().join("canary")).unwrap(), b"canary");

    // A link can be listed and removed; then its name is free.
    let top = guest.top();
    let stat = guest.view().stat_at(top, PathFlags::empty(), "link".into()).await.map_err(code).unwrap();
    assert_eq!(stat.type_, types::DescriptorType::SymbolicLink);
    guest.unlink("link").await.unwrap();
    guest.put("link", b"mine").await;
    assert_eq!(guest.get("link").await.unwrap(), b"mine");
    assert_eq!(fs::read(outside.path().join("canary")).unwrap(), b"canary");
}

#[tokio::test]
async fn b4_a_link_to_a_folder_of_the_same_workspace_is_not_followed_either() {
    let mut guest = Guest::new(ROOMY).await;
    guest.mkdir("real").await.unwrap();
    guest.put("real/file", b"x").await;
    symlink("real", guest.host("alias")).unwrap();
    assert_eq!(guest.get("alias/file").await.unwrap_err(), ErrorCode::Loop);
    assert_eq!(guest.create("alias/new").await.unwrap_err(), ErrorCode::Loop);
    assert_eq!(guest.mkdir("alias/new").await.unwrap_err(), ErrorCode::Loop);
    assert_eq!(guest.unlink("alias/file").await.unwrap_err(), ErrorCode::Loop);
    assert_eq!(guest.get("real/file").await.unwrap(), b"x");
}

#[tokio::test]
async fn b4_links_are_not_made() {
    let mut guest = Guest::new(ROOMY).await;
    guest.put("file", b"x").await;
    let (top, same) = (guest.top(), guest.top());
    let hard = guest.view().link_at(top, PathFlags::empty(), "file".into(), same, "second".into()).await;
    assert_eq!(code(hard.unwrap_err()), ErrorCode::NotPermitted);
    let top = guest.top();
    let soft = guest.view().symlink_at(top, "file".into(), "soft".into()).await;
    assert_eq!(code(soft.unwrap_err()), ErrorCode::NotPermitted);
    assert!(
        guest
            .access
            .take_effects()
            .contains(&effect("file_denied", "soft: links are not made in a workspace"))
    );
    assert_eq!(guest.list().await, ["file"]);
}

#[tokio::test]
async fn b4_a_file_with_a_second_name_is_refused_until_it_has_one() {
    let outside = TempDir::new().unwrap();
    let canary = outside.path().join("canary");
    fs::write(&canary, "canary").unwrap();
    let mut guest = Guest::new(ROOMY).await;
    fs::hard_link(&canary, guest.host("second")).unwrap();
    assert_eq!(guest.open("second", OpenFlags::TRUNCATE, WRITE).await.unwrap_err(), ErrorCode::NotPermitted);
    assert_eq!(guest.get("second").await.unwrap_err(), ErrorCode::NotPermitted);
    assert_eq!(fs::read(&canary).unwrap(), b"canary");
    fs::remove_file(&canary).unwrap();
    assert_eq!(guest.get("second").await.unwrap(), b"canary");
}

#[tokio::test]
async fn b4_pipes_and_devices_are_refused_at_once() {
    let mut guest = Guest::new(ROOMY).await;
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, guest.host("pipe"), FileType::Fifo, mode, 0).unwrap();
    mknodat(CWD, guest.host("socket"), FileType::Socket, mode, 0).unwrap();
    let mut names = vec!["pipe", "socket"];
    // Creating a device needs a privilege that tests do not always have.
    if mknodat(CWD, guest.host("zero"), FileType::CharacterDevice, mode, rustix::fs::makedev(1, 5)).is_ok() {
        names.push("zero");
    }
    for name in names {
        for flags in [READ, WRITE, READ | WRITE] {
            assert_eq!(guest.open(name, none(), flags).await.unwrap_err(), ErrorCode::NotPermitted, "{name}");
        }
        assert_eq!(guest.create(name).await.unwrap_err(), ErrorCode::NotPermitted, "{name}");
        assert_eq!(guest.rename(name, "moved").await.unwrap_err(), ErrorCode::NotPermitted, "{name}");
        guest.unlink(name).await.unwrap();
        guest.put(name, b"a file now").await;
    }
}

#[tokio::test]
async fn a_trailing_slash_means_a_folder() {
    let mut guest = Guest::new(ROOMY).await;
    guest.put("file", b"x").await;
    guest.mkdir("folder/").await.unwrap();
    assert_eq!(guest.open("file/", none(), READ).await.unwrap_err(), ErrorCode::NotDirectory);
    assert_eq!(guest.create("new/").await.unwrap_err(), ErrorCode::IsDirectory);
    assert_eq!(guest.unlink("file/").await.unwrap_err(), ErrorCode::NotDirectory);
    assert_eq!(guest.rename("file", "other/").await.unwrap_err(), ErrorCode::NotDirectory);
    guest.open("folder/", none(), READ).await.unwrap();
    guest.rename("folder/", "other/").await.unwrap();
    assert_eq!(guest.list().await, ["file", "other"]);
}

#[tokio::test]
async fn strange_names_are_just_names() {
    let mut guest = Guest::new(ROOMY).await;
    let names = ["new\nline", "tab\tand \u{202e}turn", "C:\\x", "%2e%2e", "…", "-rf", "...", " "];
    for name in names {
        guest.put(name, name.as_bytes()).await;
        assert_eq!(guest.get(name).await.unwrap(), name.as_bytes());
    }
    assert_eq!(guest.list().await.len(), names.len());
    let effects = guest.access.take_effects();
    assert_eq!(effects[0], effect("workspace_write", "new\\nline"));
    assert!(effects.iter().all(|effect| !effect.detail.contains(char::is_control)));
    assert_eq!(guest.create(&"n".repeat(300)).await.unwrap_err(), ErrorCode::NameTooLong);
    assert_eq!(guest.create("nul\0byte").await.unwrap_err(), ErrorCode::Invalid);
    assert_eq!(guest.create("").await.unwrap_err(), ErrorCode::NoEntry);
}

#[tokio::test]
async fn a_name_that_is_not_text_does_not_hide_the_others() {
    let mut guest = Guest::new(ROOMY).await;
    for name in [&b"not \xff text"[..], b"a", b"b"] {
        fs::write(guest.folder.path().join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
    }
    assert_eq!(guest.list().await, ["a", "b"]);
}

#[tokio::test]
async fn b4_another_sessions_folder_is_out_of_reach() {
    let mut one = Guest::new(ROOMY).await;
    let mut other = Guest::new(ROOMY).await;
    other.put("secret", b"theirs").await;
    let name = other.folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    for path in [format!("../{name}/secret"), other.host("secret").to_str().unwrap().to_owned()] {
        assert_eq!(one.get(&path).await.unwrap_err(), ErrorCode::NotPermitted);
    }
    assert_eq!(other.get("secret").await.unwrap(), b"theirs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_a_folder_exchanged_for_a_link_while_it_is_opened_never_leads_out() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("file"), "outside").unwrap();
    let mut guest = Guest::new(ROOMY).await;
    guest.mkdir("d").await.unwrap();
    guest.put("d/file", b"inside").await;
    let folder = guest.host("d");
    let away = guest.host("away");
    symlink(outside.path(), guest.host("link")).unwrap();
    let link = guest.host("link");
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let exchanger = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            fs::rename(&folder, &away).unwrap();
            fs::rename(&link, &folder).unwrap();
            fs::rename(&folder, &link).unwrap();
            fs::rename(&away, &folder).unwrap();
        }
    });
    let (mut inside, mut opened) = (0, 0);
    // On a busy machine the thread may rest while the folder is away.
    while opened < 2000 || inside == 0 {
        opened += 1;
        assert!(opened < 1_000_000, "no file is read");
        match guest.get("d/file").await {
            Ok(read) => {
                assert_eq!(read, b"inside");
                inside += 1;
            }
            Err(error) => assert!(
                matches!(error, ErrorCode::Loop | ErrorCode::NoEntry | ErrorCode::NotDirectory),
                "{error:?}"
            ),
        }
    }
    stop.store(true, Ordering::Relaxed);
    exchanger.join().unwrap();
    assert_eq!(guest.get("d/file").await.unwrap(), b"inside");
}

#[tokio::test]
async fn a_record_has_the_path_itself_and_no_padding() {
    let mut guest = Guest::new(ROOMY).await;
    guest.mkdir("a").await.unwrap();
    guest.access.take_effects();
    let padding = "./".repeat(300);
    guest.put(&format!("{padding}a/.{}/../secret", "/x/..".repeat(20)), b"x").await;
    assert_eq!(guest.access.take_effects(), [effect("workspace_write", "secret")]);
    // Folder after folder, each opened below the one before.
    let mut folder = guest.open("a", OpenFlags::DIRECTORY, READ).await.unwrap();
    for _ in 0..100 {
        let path = format!("x{}/..", "y".repeat(200));
        let next =
            guest.view().open_at(borrow(folder), FOLLOW, path, none(), READ).await.map_err(code).unwrap();
        guest.close(folder);
        folder = next.rep();
    }
    let access::Descriptor::Folder { path, .. } = &guest.access.open[&folder] else { panic!("no folder") };
    assert_eq!(&**path, "a");
}
