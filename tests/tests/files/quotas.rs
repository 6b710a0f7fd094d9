//! Quotas of a session: bytes, files, open descriptors, nesting.

use super::*;
use toolgate_tests::{process, wait};

#[test]
fn the_byte_quota_applies_during_a_write() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let reply = fixture
            .call(&session, "write_for_ever", json!({"path": "/workspace/a"}))
            .expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("workspace_bytes"));
        let written = session.get_file("a").expect(200).body.len();
        assert!((3 << 20..=4 << 20).contains(&written), "{written}");
        let reply = fixture.call(&session, "write", json!({"path": "/workspace/b", "bytes": 1 << 20}));
        assert_eq!(reply.expect_error("RESOURCE_EXCEEDED").limit(), Some("workspace_bytes"));
        session.put_file("c", &vec![0; 1 << 20]).expect_refusal(413, "TOO_LARGE");
        assert!(
            fixture.effects(&session).iter().any(|(kind, _)| kind == "quota_exceeded"),
            "{:?}",
            fixture.effects(&session)
        );
        // Removing a file frees its bytes.
        fixture.call(&session, "remove", json!({"path": "/workspace/a"})).output();
        fixture.call(&session, "write", json!({"path": "/workspace/b", "bytes": 1 << 20})).output();
    });
}

#[test]
fn a_sparse_file_counts_with_its_full_size() {
    with_fixture(|fixture| {
        let session = fixture.session();
        for bytes in [5 << 20, 1_u64 << 40, u64::from(u32::MAX) << 20] {
            let reply = fixture.call(&session, "sparse", json!({"path": "/workspace/a", "bytes": bytes}));
            assert_eq!(reply.expect_error("RESOURCE_EXCEEDED").limit(), Some("workspace_bytes"));
        }
        fixture.call(&session, "sparse", json!({"path": "/workspace/a", "bytes": 3 << 20})).output();
        let reply = fixture.call(&session, "write", json!({"path": "/workspace/b", "bytes": 2 << 20}));
        reply.expect_error("RESOURCE_EXCEEDED");
    });
}

#[test]
fn the_number_of_files_is_limited() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let reply =
            fixture.call(&session, "make_files", json!({"folder": "/workspace/many", "files": 1_000_000}));
        assert_eq!(reply.expect_error("RESOURCE_EXCEEDED").limit(), Some("workspace_files"));
        let other = fixture.session();
        fixture.call(&other, "make_files", json!({"folder": "/workspace/few", "files": 50})).output();
    });
}

#[test]
fn the_number_of_open_files_is_limited() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fixture.call(&session, "open_many", json!({"path": "/workspace/a", "count": 50})).output();
        let reply = fixture.call(&session, "open_many", json!({"path": "/workspace/a", "count": 100_000}));
        // The file operation fails; the plugin decides about its own error.
        assert!(matches!(reply.error_type(), Some("RESOURCE_EXCEEDED" | "TOOL_FAILED")), "{}", reply.0);
    });
}

#[test]
fn concurrent_calls_share_one_quota() {
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

/// Uploads obey the limits of organization and agent as calls do. Files that are there already stay, and can be removed.
#[test]
fn an_agents_lower_quota_binds_its_calls_and_its_uploads() {
    with_fixture(|fixture| {
        let session = fixture.daemon.session_within("acme/narrow", &json!({}));
        session.call("fs-attacker/list", json!({"path": "/workspace"})).output();
        session.put_file("large", &[b'x'; 2000]).expect(204);
        let operator = fixture.daemon.operator();
        let limits = json!({"workspace_bytes": 1000, "workspace_files": 3});
        let agent = json!({"enabled": "*", "autonomy": "autonomous", "limits": limits});
        operator.replace("/v1/orgs/acme/agents/narrow", &agent).expect(200);
        let reply = fixture
            .call(&session, "write", json!({"path": "/workspace/small", "bytes": 1}))
            .expect_error("RESOURCE_EXCEEDED");
        assert_eq!(
            (reply.limit(), &reply.0["error"]["details"]["allowed"]),
            (Some("workspace_bytes"), &json!(1000))
        );
        session.put_file("small", b"x").expect_refusal(413, "TOO_LARGE");
        assert_eq!(session.get_file("large").expect(200).body.len(), 2000);
        session.client.delete(&session.path("/files/large")).expect(204);
        session.put_file("small", &[b'x'; 1001]).expect_refusal(413, "TOO_LARGE");
        session.put_file("small", &[b'x'; 990]).expect(204);
        session.put_file("a/b", b"x").expect(204);
        session.put_file("c", b"x").expect_refusal(413, "TOO_LARGE");
        fixture.call(&session, "write", json!({"path": "/workspace/small", "bytes": 995})).output();
    });
}

#[test]
fn the_open_files_limit_can_only_be_lowered() {
    with_fixture(|fixture| {
        let opens = |count: usize| json!({"path": "/workspace/a", "count": count});
        let limits =
            [(json!({}), 128), (json!({"open_files": 10}), 10), (json!({"open_files": 100_000}), 128)];
        for (at, (limits, allowed)) in limits.into_iter().enumerate() {
            let session = fixture.daemon.session_within(&format!("acme/open-{at}"), &limits);
            session.call("fs-attacker/list", json!({"path": "/workspace"})).output();
            fixture.call(&session, "open_many", opens(allowed - 1)).output();
            let reply =
                fixture.call(&session, "open_many", opens(allowed + 1)).expect_error("RESOURCE_EXCEEDED");
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
        let reply = fixture.call(&session, "open_many", opens(6)).expect_error("RESOURCE_EXCEEDED");
        assert_eq!((reply.limit(), &reply.0["error"]["details"]["allowed"]), (Some("open_files"), &json!(5)));
        fixture.call(&session, "open_many", opens(4)).output();
    });
}

/// All handles of the workspace share one descriptor of the daemon.
#[test]
fn all_workspace_handles_share_one_descriptor() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fixture.call(&session, "workspace_handles", json!({"count": 50})).output();
        let reply = fixture
            .call(&session, "workspace_handles", json!({"count": 100_000}))
            .expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("resources"));
        let leak_check = LeakCheck::start(&fixture.daemon);
        let open = process::open_files(fixture.daemon.pid());
        let staying =
            session.start("c1", "fs-attacker/keep_workspace_handles", json!({"count": 100, "path": "here"}));
        wait::until_true("the guest to hold its handles", || fixture.folder(&session).join("here").exists());
        let held = process::open_files(fixture.daemon.pid()).saturating_sub(open);
        assert!(held < 20, "{held} descriptors for 200 handles");
        session.cancel("c1").expect(204);
        staying.reply().expect(200);
        leak_check.assert_none(&mut fixture.daemon);
    });
}

#[test]
fn a_byte_at_a_high_offset_counts_with_the_gap() {
    with_fixture(|fixture| {
        let session = fixture.session();
        for offset in [5_u64 << 20, 1 << 40, i64::MAX as u64 - 1] {
            let reply = fixture.call(&session, "write_at", json!({"path": "a", "offset": offset}));
            assert_eq!(reply.expect_error("RESOURCE_EXCEEDED").limit(), Some("workspace_bytes"), "{offset}");
        }
        // Beyond the largest file offset.
        fixture
            .call(&session, "write_at", json!({"path": "a", "offset": u64::MAX}))
            .expect_error("TOOL_FAILED");
        assert_eq!(session.get_file("a").expect(200).body.len(), 0);
        fixture.call(&session, "write_at", json!({"path": "a", "offset": 1 << 20})).output();
        assert_eq!(session.get_file("a").expect(200).body.len(), (1 << 20) + 1);
    });
}

#[test]
fn a_huge_read_returns_one_piece() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fixture.call(&session, "sparse", json!({"path": "/workspace/a", "bytes": 4 << 20})).output();
        let reply = fixture.call(&session, "read_whole", json!({"path": "a"}));
        let piece = reply.output().as_u64().expect("a number");
        assert!((1..=1 << 20).contains(&piece), "{piece}");
    });
}

/// A read-only open can truncate a file. That is recorded as a change and frees the bytes.
#[test]
fn truncation_by_a_read_only_open_is_a_change() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("full", &vec![b'x'; 3 << 20]).expect(204);
        fixture
            .call(&session, "write", json!({"path": "/workspace/b", "bytes": 2 << 20}))
            .expect_error("RESOURCE_EXCEEDED");
        fixture
            .call(&session, "grow_for_reading", json!({"path": "full", "bytes": 0}))
            .expect_error("TOOL_FAILED");
        assert_eq!(session.get_file("full").expect(200).body.len(), 3 << 20);
        assert_eq!(fixture.call(&session, "empty_for_reading", json!({"path": "full"})).output(), 0);
        let effects = fixture.effects(&session);
        assert!(effects.contains(&("workspace_write".to_owned(), "full".to_owned())), "{effects:?}");
        fixture.call(&session, "write", json!({"path": "/workspace/b", "bytes": 2 << 20})).output();
    });
}

#[test]
fn the_nesting_of_folders_is_limited() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fixture.call(&session, "nest", json!({"folder": "/workspace/n", "levels": 60})).output();
        let other = fixture.session();
        fixture
            .call(&other, "nest", json!({"folder": "/workspace/n", "levels": 90}))
            .expect_error("TOOL_FAILED");
        // Moving a folder does not bypass the limit either.
        let below = format!("/workspace/n{}", "/d".repeat(59));
        fixture.call(&session, "nest", json!({"folder": "/workspace/m", "levels": 9})).output();
        fixture
            .call(&session, "rename", json!({"from": "/workspace/m", "to": format!("{below}/m")}))
            .expect_error("TOOL_FAILED");
        for session in [session, other] {
            session.client.delete(&session.path("")).expect(204);
            assert!(!fixture.folder(&session).exists());
        }
    });
}
