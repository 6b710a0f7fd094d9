//! Entries of a workspace that a guest cannot create: links, pipes, devices, sockets, hard links, names that are not
//! UTF-8. An operator or another program of the host created them.

use super::*;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

/// Every tool that takes a path, with arguments that would do harm outside.
fn attempts(name: &str) -> Vec<(&'static str, Value)> {
    let path = format!("/workspace/{name}");
    vec![
        ("read", json!({"path": path})),
        ("list", json!({"path": path})),
        ("write", json!({"path": path, "bytes": 10})),
        ("sparse", json!({"path": path, "bytes": 10})),
        ("open_many", json!({"path": path, "count": 2})),
        ("rename", json!({"from": path, "to": "/workspace/stolen"})),
        ("empty_for_reading", json!({"path": name})),
        ("grow_for_reading", json!({"path": name, "bytes": 10})),
        ("write_at", json!({"path": name, "offset": 0})),
        ("read_whole", json!({"path": name})),
        ("touch", json!({"path": name})),
    ]
}

fn modified_time(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|metadata| metadata.modified()).expect("a time")
}

/// Only a process of the host can create a link; it is not followed.
#[test]
fn an_existing_link_is_not_followed() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("folder/here.txt", b"here").expect(204);
        let workspace = fixture.folder(&session);
        let link = |target: &str, at: &str| symlink(target, workspace.join(at)).expect("a link");
        link("../canary.txt", "file");
        link("..", "folder/up");
        link("file", "chain");
        link("/proc/self", "proc");
        for path in ["file", "chain", "folder/up/canary.txt", "proc/environ", "file/"] {
            let path = format!("/workspace/{path}");
            for (tool, arguments) in [
                ("read", json!({"path": path})),
                ("write", json!({"path": path, "bytes": 1})),
                ("list", json!({"path": path})),
            ] {
                let reply = fixture.call(&session, tool, arguments);
                assert!(reply.error_type().is_some(), "{tool} {path}: {}", reply.0);
            }
        }
        for path in ["file", "chain", "folder/up/canary.txt"] {
            assert_ne!(session.get_file(path).status, 200, "{path}");
            assert_ne!(session.put_file(path, b"x").status, 204, "{path}");
        }
        assert_eq!(session.get_file("folder/here.txt").expect(200).text(), "here");
    });
}

#[test]
fn no_tool_follows_a_planted_link() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let workspace = fixture.folder(&session);
        let around = tempfile::tempdir_in(fixture.daemon.folder.path()).expect("a folder outside");
        fs::write(around.path().join("canary.txt"), CANARY).expect("a canary");
        for (target, at) in [
            (around.path().join("canary.txt").as_path(), "file"),
            (around.path(), "out"),
            (&around.path().join("not-there"), "dangling"),
            (Path::new("loop"), "loop"),
            (Path::new("/proc/self/root"), "root"),
            (Path::new("/proc/self/cwd"), "cwd"),
            (Path::new("/proc/self/fd"), "fd"),
            (Path::new("/dev/zero"), "zero"),
        ] {
            symlink(target, workspace.join(at)).expect("a link");
        }
        let was = modified_time(&around.path().join("canary.txt"));
        for name in [
            "file",
            "dangling",
            "loop",
            "out/canary.txt",
            "out/new",
            "root/etc/hostname",
            "fd/0",
            "zero",
            "cwd/x",
        ] {
            for (tool, arguments) in attempts(name) {
                fixture.call(&session, tool, arguments).expect_error("TOOL_FAILED");
            }
            session.get_file(name).expect_refusal(400, "INVALID_REQUEST");
            session.put_file(name, b"x").expect_refusal(400, "INVALID_REQUEST");
        }
        session.put_file("here.txt", b"here").expect(204);
        for to in ["out/here.txt", "root/tmp/here.txt"] {
            let rename = json!({"from": "/workspace/here.txt", "to": format!("/workspace/{to}")});
            fixture.call(&session, "rename", rename).expect_error("TOOL_FAILED");
        }
        for (tool, arguments) in [
            ("remove", json!({"path": "/workspace/out/canary.txt"})),
            ("remove_folder", json!({"path": "/workspace/out"})),
            ("nest", json!({"folder": "/workspace/out/n", "levels": 2})),
            ("make_files", json!({"folder": "/workspace/out/l", "files": 2})),
        ] {
            fixture.call(&session, tool, arguments).expect_error("TOOL_FAILED");
        }
        let left: Vec<_> = fs::read_dir(around.path()).expect("a folder").collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(fs::read_to_string(around.path().join("canary.txt")).expect("the canary"), CANARY);
        assert_eq!(modified_time(&around.path().join("canary.txt")), was);
        // A link can be listed and removed; then its name is free.
        assert_eq!(fixture.call(&session, "kind", json!({"path": "file"})).output(), "link");
        fixture.call(&session, "remove", json!({"path": "/workspace/file"})).output();
        fixture.call(&session, "write", json!({"path": "/workspace/file", "bytes": 1})).output();
        session.client.delete(&session.path("/files/out")).expect(204);
        assert!(around.path().join("canary.txt").exists());
        fixture
            .call(&session, "rename", json!({"from": "/workspace/here.txt", "to": "/workspace/out"}))
            .output();
    });
}

#[test]
fn a_pipe_a_socket_and_a_device_are_refused_at_once() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let workspace = fixture.folder(&session);
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, workspace.join("pipe"), FileType::Fifo, mode, 0).expect("a pipe");
        mknodat(CWD, workspace.join("socket"), FileType::Socket, mode, 0).expect("a socket");
        let mut names = vec!["pipe", "socket"];
        if mknodat(CWD, workspace.join("device"), FileType::CharacterDevice, mode, makedev(1, 5)).is_ok() {
            names.push("device");
        } else {
            eprintln!("SKIPPED: this user may not create a device");
        }
        for name in names {
            for (tool, arguments) in attempts(name) {
                let reply = fixture.call(&session, tool, arguments).expect_error("TOOL_FAILED");
                assert!(reply.usage("duration_us") < 5_000_000, "{tool} {name}: {}", reply.0);
            }
            session.get_file(name).expect_refusal(400, "INVALID_REQUEST");
            session.put_file(name, b"x").expect_refusal(400, "INVALID_REQUEST");
            let listed = session.client.get(&session.path("/files")).expect(200).text();
            assert!(!listed.contains(name), "{listed}");
            assert_eq!(fixture.call(&session, "kind", json!({"path": name})).output(), "other");
            fixture.call(&session, "remove", json!({"path": format!("/workspace/{name}")})).output();
            fixture
                .call(&session, "write", json!({"path": format!("/workspace/{name}"), "bytes": 3}))
                .output();
            assert_eq!(session.get_file(name).expect(200).text(), "xxx");
        }
    });
}

#[test]
fn a_file_with_a_hard_link_outside_is_not_changed() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let workspace = fixture.folder(&session);
        let canary = fixture.canaries[0].clone();
        let was = modified_time(&canary);
        fs::hard_link(&canary, workspace.join("second")).expect("a second name");
        for (tool, arguments) in attempts("second").into_iter().filter(|(tool, _)| *tool != "rename") {
            fixture.call(&session, tool, arguments).expect_error("TOOL_FAILED");
        }
        session.get_file("second").expect_refusal(400, "INVALID_REQUEST");
        assert_eq!(modified_time(&canary), was, "a file outside was touched");
        // Replacing the file unlinks the name and leaves the other one intact.
        session.put_file("second", b"mine").expect(204);
        fixture.assert_canaries_intact();
        assert_eq!(fixture.call(&session, "read", json!({"path": "/workspace/second"})).output(), "mine");
        // Removing it does too.
        fs::hard_link(&canary, workspace.join("third")).expect("a third name");
        fixture.call(&session, "remove", json!({"path": "/workspace/third"})).output();
        fixture.call(&session, "touch", json!({"path": "second"})).output();
    });
}

#[test]
fn names_that_are_not_utf8_are_handled() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let workspace = fixture.folder(&session);
        let names: [&[u8]; 6] =
            [b"not \xff text", b"new\nline", b"\x1b[2J", b"\xe2\x80\xaegnp", b"plain", b"-rf"];
        for name in names {
            fs::write(workspace.join(OsStr::from_bytes(name)), "x").expect("a file");
        }
        let reply = fixture.call(&session, "list", json!({"path": "/workspace"}));
        assert_eq!(reply.output().as_array().map(Vec::len), Some(names.len() - 1), "{}", reply.0);
        let listed = session.client.get(&session.path("/files")).expect(200).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(names.len()), "{listed}");
        session.get_file("not%20%ff%20text").expect_refusal(400, "INVALID_REQUEST");
        assert_eq!(session.get_file("new%0aline").expect(200).text(), "x");
        assert_eq!(fixture.call(&session, "read", json!({"path": "/workspace/new\nline"})).output(), "x");
        // The audit log has one line of plain text.
        fixture.call(&session, "write", json!({"path": "/workspace/new\nline", "bytes": 2})).output();
        let effects = fixture.effects(&session);
        assert!(effects.contains(&("workspace_write".to_owned(), "new\\nline".to_owned())), "{effects:?}");
        session.client.delete(&session.path("")).expect(204);
        assert!(!workspace.exists());
    });
}

/// More entries than a listing returns and than the quota allows.
#[test]
fn a_folder_over_the_listing_limit_is_not_listed_but_still_usable() {
    with_fixture(|fixture| {
        let session = fixture.daemon.session_within("acme/full", &json!({}));
        let workspace = fixture.folder(&session);
        fs::create_dir_all(&workspace).expect("a folder");
        for at in 0..66_000 {
            fs::File::create(workspace.join(format!("f{at}"))).expect("a file");
        }
        session.call("fs-attacker/kind", json!({"path": "f1"})).output();
        fixture.call(&session, "list", json!({"path": "/workspace"})).expect_error("TOOL_FAILED");
        let write = json!({"path": "/workspace/new", "bytes": 1});
        assert_eq!(
            fixture.call(&session, "write", write).expect_error("RESOURCE_EXCEEDED").limit(),
            Some("workspace_files")
        );
        let listed = session.client.get(&session.path("/files")).expect(200).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(10_000));
        assert_eq!(listed["truncated"], true);
        assert_eq!(fixture.call(&session, "read", json!({"path": "/workspace/f7"})).output(), "");
        session.client.delete(&session.path("")).expect(204);
        assert!(!workspace.exists());
    });
}
