//! How much of the disk and of the daemon's descriptors a session may take, whoever takes it and however.

use super::*;
use toolgate_tests::{process, wait};

#[test]
fn the_share_of_bytes_holds_while_the_guest_writes() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let reply = fixture
            .after(&session, "write_for_ever", json!({"path": "/workspace/a"}))
            .expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("workspace_bytes"));
        let written = session.get_file("a").expect(200).body.len();
        assert!((3 << 20..=4 << 20).contains(&written), "{written}");
        let reply = fixture.after(&session, "write", json!({"path": "/workspace/b", "bytes": 1 << 20}));
        assert_eq!(reply.expect_error("RESOURCE_EXCEEDED").limit(), Some("workspace_bytes"));
        session.put_file("c", &vec![0; 1 << 20]).expect_refusal(413, "TOO_LARGE");
        assert!(
            fixture.effects(&session).iter().any(|(kind, _)| kind == "quota_exceeded"),
            "{:?}",
            fixture.effects(&session)
        );
        // Removing makes room.
        fixture.after(&session, "remove", json!({"path": "/workspace/a"})).output();
        fixture.after(&session, "write", json!({"path": "/workspace/b", "bytes": 1 << 20})).output();
    });
}

#[test]
fn a_sparse_file_counts_as_large_as_it_says() {
    with_fixture(|fixture| {
        let session = fixture.session();
        for bytes in [5 << 20, 1_u64 << 40, u64::from(u32::MAX) << 20] {
            let reply = fixture.after(&session, "sparse", json!({"path": "/workspace/a", "bytes": bytes}));
            assert_eq!(reply.expect_error("RESOURCE_EXCEEDED").limit(), Some("workspace_bytes"));
        }
        fixture.after(&session, "sparse", json!({"path": "/workspace/a", "bytes": 3 << 20})).output();
        let reply = fixture.after(&session, "write", json!({"path": "/workspace/b", "bytes": 2 << 20}));
        reply.expect_error("RESOURCE_EXCEEDED");
    });
}

#[test]
fn many_small_files_are_refused_by_their_number() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let reply =
            fixture.after(&session, "make_files", json!({"folder": "/workspace/many", "files": 1_000_000}));
        assert_eq!(reply.expect_error("RESOURCE_EXCEEDED").limit(), Some("workspace_files"));
        let other = fixture.session();
        fixture.after(&other, "make_files", json!({"folder": "/workspace/few", "files": 50})).output();
    });
}

#[test]
fn files_held_open_without_end_are_refused() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fixture.after(&session, "open_many", json!({"path": "/workspace/a", "count": 50})).output();
        let reply = fixture.after(&session, "open_many", json!({"path": "/workspace/a", "count": 100_000}));
        // The file call fails; what the plugin makes of it is its own.
        assert!(matches!(reply.error_type(), Some("RESOURCE_EXCEEDED" | "TOOL_FAILED")), "{}", reply.0);
    });
}

#[test]
fn calls_that_run_at_once_share_one_count() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let make_files = |folder: &str| json!({"tool": "fs-attacker/make_files", "arguments": {"folder": folder, "files": 80}});
        let leak_check = LeakCheck::start(&fixture.daemon);
        let replies = session.calls(&[make_files("/workspace/a"), make_files("/workspace/b")]);
        assert!(replies.iter().any(|reply| reply.limit() == Some("workspace_files")), "{replies:?}");
        let listed = session.client.get(&session.path("/files")).expect(200).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(100), "{listed}");
        leak_check.assert_none(&mut fixture.daemon);
        let other = fixture.session();
        let few =
            json!({"tool": "fs-attacker/make_files", "arguments": {"folder": "/workspace/a", "files": 40}});
        other.calls(&[few]).remove(0).output();
    });
}

/// Whoever opens the workspace first does not bind those who come after.
#[test]
fn a_narrow_share_is_that_of_its_calls_alone() {
    with_fixture(|fixture| {
        let session = fixture.daemon.session_within("acme/narrow", &json!({"workspace_bytes": 1000}));
        session.call("fs-attacker/list", json!({"path": "/workspace"})).output();
        let large = json!({"path": "/workspace/large", "bytes": 2000});
        let reply = fixture.after(&session, "write", large).expect_error("RESOURCE_EXCEEDED");
        assert_eq!(
            (reply.limit(), &reply.0["error"]["details"]["allowed"]),
            (Some("workspace_bytes"), &json!(1000))
        );
        session.put_file("large", &[b'x'; 2000]).expect(204);
        assert_eq!(session.get_file("large").expect(200).body.len(), 2000);
        fixture
            .after(&session, "write", json!({"path": "/workspace/small", "bytes": 1}))
            .expect_error("RESOURCE_EXCEEDED");
        session.client.delete(&session.path("/files/large")).expect(204);
        fixture.after(&session, "write", json!({"path": "/workspace/small", "bytes": 1000})).output();
    });
}

#[test]
fn open_files_are_a_limit_with_a_name_that_narrows_and_never_widens() {
    with_fixture(|fixture| {
        let opens = |count: usize| json!({"path": "/workspace/a", "count": count});
        let limits =
            [(json!({}), 128), (json!({"open_files": 10}), 10), (json!({"open_files": 100_000}), 128)];
        for (at, (limits, allowed)) in limits.into_iter().enumerate() {
            let session = fixture.daemon.session_within(&format!("acme/open-{at}"), &limits);
            session.call("fs-attacker/list", json!({"path": "/workspace"})).output();
            fixture.after(&session, "open_many", opens(allowed - 1)).output();
            let reply =
                fixture.after(&session, "open_many", opens(allowed + 1)).expect_error("RESOURCE_EXCEEDED");
            assert_eq!(reply.limit(), Some("open_files"));
            assert_eq!(reply.0["error"]["details"]["allowed"], allowed, "{}", reply.0);
            let effects = fixture.effects(&session);
            let exceeded = ("quota_exceeded".to_owned(), "a: open_files".to_owned());
            assert!(effects.contains(&exceeded), "{effects:?}");
        }
        let operator = fixture.daemon.operator();
        operator.make_organization("thrifty");
        let policy = json!({"enabled": "*", "limits": {"open_files": 5}});
        operator.replace("/v1/orgs/thrifty/policy", &policy).expect(200);
        let session = fixture.daemon.session_within("thrifty/bot", &json!({"open_files": 50}));
        session.call("fs-attacker/list", json!({"path": "/workspace"})).output();
        let reply = fixture.after(&session, "open_many", opens(6)).expect_error("RESOURCE_EXCEEDED");
        assert_eq!((reply.limit(), &reply.0["error"]["details"]["allowed"]), (Some("open_files"), &json!(5)));
        fixture.after(&session, "open_many", opens(4)).output();
    });
}

/// The workspace itself is one descriptor of the daemon, however many handles of it a guest holds.
#[test]
fn the_workspace_asked_for_again_and_again_is_opened_once() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fixture.after(&session, "workspace_handles", json!({"count": 50})).output();
        let reply = fixture
            .after(&session, "workspace_handles", json!({"count": 100_000}))
            .expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("resources"));
        let leak_check = LeakCheck::start(&fixture.daemon);
        let open = process::open_files(fixture.daemon.pid());
        let staying =
            session.start("c1", "fs-attacker/keep_workspace_handles", json!({"count": 100, "path": "here"}));
        wait::until("the guest to hold its handles", || {
            fixture.folder(&session).join("here").exists().then_some(())
        });
        let held = process::open_files(fixture.daemon.pid()).saturating_sub(open);
        assert!(held < 20, "{held} descriptors for 200 handles");
        session.cancel("c1").expect(204);
        staying.reply().expect(200);
        leak_check.assert_none(&mut fixture.daemon);
    });
}

#[test]
fn a_byte_far_into_a_file_counts_as_all_before_it() {
    with_fixture(|fixture| {
        let session = fixture.session();
        for offset in [5_u64 << 20, 1 << 40, i64::MAX as u64 - 1] {
            let reply = fixture.after(&session, "write_at", json!({"path": "a", "offset": offset}));
            assert_eq!(reply.expect_error("RESOURCE_EXCEEDED").limit(), Some("workspace_bytes"), "{offset}");
        }
        // No file has such a place, whatever room there is.
        fixture
            .after(&session, "write_at", json!({"path": "a", "offset": u64::MAX}))
            .expect_error("TOOL_FAILED");
        assert_eq!(session.get_file("a").expect(200).body.len(), 0);
        fixture.after(&session, "write_at", json!({"path": "a", "offset": 1 << 20})).output();
        assert_eq!(session.get_file("a").expect(200).body.len(), (1 << 20) + 1);
    });
}

#[test]
fn a_file_asked_for_at_once_is_given_in_pieces() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fixture.after(&session, "sparse", json!({"path": "/workspace/a", "bytes": 4 << 20})).output();
        let reply = fixture.after(&session, "read_whole", json!({"path": "a"}));
        let piece = reply.output().as_u64().expect("a number");
        assert!((1..=1 << 20).contains(&piece), "{piece}");
    });
}

/// Opening a file for reading can empty it. That is a change like any other: recorded, and its room comes back.
#[test]
fn what_is_emptied_by_opening_it_for_reading_is_a_change() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("full", &vec![b'x'; 3 << 20]).expect(204);
        fixture
            .after(&session, "write", json!({"path": "/workspace/b", "bytes": 2 << 20}))
            .expect_error("RESOURCE_EXCEEDED");
        fixture
            .after(&session, "grow_for_reading", json!({"path": "full", "bytes": 0}))
            .expect_error("TOOL_FAILED");
        assert_eq!(session.get_file("full").expect(200).body.len(), 3 << 20);
        assert_eq!(fixture.after(&session, "empty_for_reading", json!({"path": "full"})).output(), 0);
        let effects = fixture.effects(&session);
        assert!(effects.contains(&("workspace_write".to_owned(), "full".to_owned())), "{effects:?}");
        fixture.after(&session, "write", json!({"path": "/workspace/b", "bytes": 2 << 20})).output();
    });
}

#[test]
fn folders_are_nested_so_deep_and_no_deeper() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fixture.after(&session, "nest", json!({"folder": "/workspace/n", "levels": 60})).output();
        let other = fixture.session();
        fixture
            .after(&other, "nest", json!({"folder": "/workspace/n", "levels": 90}))
            .expect_error("TOOL_FAILED");
        // A folder moved into another does not make it deeper either.
        let below = format!("/workspace/n{}", "/d".repeat(59));
        fixture.after(&session, "nest", json!({"folder": "/workspace/m", "levels": 9})).output();
        fixture
            .after(&session, "rename", json!({"from": "/workspace/m", "to": format!("{below}/m")}))
            .expect_error("TOOL_FAILED");
        for session in [session, other] {
            session.client.delete(&session.path("")).expect(204);
            assert!(!fixture.folder(&session).exists());
        }
    });
}
