//! What lies in a workspace that no guest could have put there: links, pipes, devices, sockets, second names, names
//! that are no text. Somebody on the machine did, or another program that shares the folder.

use super::*;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

/// Every tool that takes one path, with arguments that would do harm where it leads out.
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

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|metadata| metadata.modified()).expect("a time")
}

/// Nobody but an operator of the machine can put one there; it is still not followed.
#[test]
fn a_link_that_is_there_is_not_followed() {
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
                let reply = fixture.after(&session, tool, arguments);
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
fn no_tool_goes_through_a_planted_link() {
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
        let was = modified(&around.path().join("canary.txt"));
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
                fixture.after(&session, tool, arguments).expect_error("TOOL_FAILED");
            }
            session.get_file(name).expect_refusal(400, "INVALID_REQUEST");
            session.put_file(name, b"x").expect_refusal(400, "INVALID_REQUEST");
        }
        session.put_file("here.txt", b"here").expect(204);
        for to in ["out/here.txt", "root/tmp/here.txt"] {
            let rename = json!({"from": "/workspace/here.txt", "to": format!("/workspace/{to}")});
            fixture.after(&session, "rename", rename).expect_error("TOOL_FAILED");
        }
        for (tool, arguments) in [
            ("remove", json!({"path": "/workspace/out/canary.txt"})),
            ("remove_folder", json!({"path": "/workspace/out"})),
            ("nest", json!({"folder": "/workspace/out/n", "levels": 2})),
            ("make_files", json!({"folder": "/workspace/out/l", "files": 2})),
        ] {
            fixture.after(&session, tool, arguments).expect_error("TOOL_FAILED");
        }
        let left: Vec<_> = fs::read_dir(around.path()).expect("a folder").collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(fs::read_to_string(around.path().join("canary.txt")).expect("the canary lives"), CANARY);
        assert_eq!(modified(&around.path().join("canary.txt")), was);
        // A link can be seen as one, and removed; then the name is as good as any.
        assert_eq!(fixture.after(&session, "kind", json!({"path": "file"})).output(), "link");
        fixture.after(&session, "remove", json!({"path": "/workspace/file"})).output();
        fixture.after(&session, "write", json!({"path": "/workspace/file", "bytes": 1})).output();
        session.client.delete(&session.path("/files/out")).expect(204);
        assert!(around.path().join("canary.txt").exists());
        fixture
            .after(&session, "rename", json!({"from": "/workspace/here.txt", "to": "/workspace/out"}))
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
            eprintln!("not tried: a device, which takes a right that this user does not have");
        }
        for name in names {
            for (tool, arguments) in attempts(name) {
                let reply = fixture.after(&session, tool, arguments).expect_error("TOOL_FAILED");
                assert!(reply.usage("duration_us") < 5_000_000, "{tool} {name}: {}", reply.0);
            }
            session.get_file(name).expect_refusal(400, "INVALID_REQUEST");
            session.put_file(name, b"x").expect_refusal(400, "INVALID_REQUEST");
            let listed = session.client.get(&session.path("/files")).expect(200).text();
            assert!(!listed.contains(name), "{listed}");
            assert_eq!(fixture.after(&session, "kind", json!({"path": name})).output(), "other");
            fixture.after(&session, "remove", json!({"path": format!("/workspace/{name}")})).output();
            fixture
                .after(&session, "write", json!({"path": format!("/workspace/{name}"), "bytes": 3}))
                .output();
            assert_eq!(session.get_file(name).expect(200).text(), "xxx");
        }
    });
}

#[test]
fn a_file_with_a_second_name_outside_is_not_touched() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let workspace = fixture.folder(&session);
        let canary = fixture.canaries[0].clone();
        let was = modified(&canary);
        fs::hard_link(&canary, workspace.join("second")).expect("a second name");
        for (tool, arguments) in attempts("second").into_iter().filter(|(tool, _)| *tool != "rename") {
            fixture.after(&session, tool, arguments).expect_error("TOOL_FAILED");
        }
        session.get_file("second").expect_refusal(400, "INVALID_REQUEST");
        assert_eq!(modified(&canary), was, "a file outside was touched");
        // A whole file put in its place takes the name and leaves the other.
        session.put_file("second", b"mine").expect(204);
        fixture.canaries_live();
        assert_eq!(fixture.after(&session, "read", json!({"path": "/workspace/second"})).output(), "mine");
        // So does removing it.
        fs::hard_link(&canary, workspace.join("third")).expect("a third name");
        fixture.after(&session, "remove", json!({"path": "/workspace/third"})).output();
        fixture.after(&session, "touch", json!({"path": "second"})).output();
    });
}

#[test]
fn names_that_are_no_text_hide_nothing_and_break_nothing() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let workspace = fixture.folder(&session);
        let names: [&[u8]; 6] =
            [b"not \xff text", b"new\nline", b"\x1b[2J", b"\xe2\x80\xaegnp", b"plain", b"-rf"];
        for name in names {
            fs::write(workspace.join(OsStr::from_bytes(name)), "x").expect("a file");
        }
        let told = fixture.after(&session, "list", json!({"path": "/workspace"}));
        assert_eq!(told.output().as_array().map(Vec::len), Some(names.len() - 1), "{}", told.0);
        let listed = session.client.get(&session.path("/files")).expect(200).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(names.len()), "{listed}");
        session.get_file("not%20%ff%20text").expect_refusal(400, "INVALID_REQUEST");
        assert_eq!(session.get_file("new%0aline").expect(200).text(), "x");
        assert_eq!(fixture.after(&session, "read", json!({"path": "/workspace/new\nline"})).output(), "x");
        // What is audited is one line of plain text.
        fixture.after(&session, "write", json!({"path": "/workspace/new\nline", "bytes": 2})).output();
        let effects = fixture.effects(&session);
        assert!(effects.contains(&("workspace_write".to_owned(), "new\\nline".to_owned())), "{effects:?}");
        session.client.delete(&session.path("")).expect(204);
        assert!(!workspace.exists());
    });
}

/// More entries than a listing holds, and more than the session may have.
#[test]
fn a_folder_full_of_files_is_refused_to_be_listed_and_still_served() {
    with_fixture(|fixture| {
        let session = fixture.daemon.session_within("acme/full", &json!({}));
        let workspace = fixture.folder(&session);
        fs::create_dir_all(&workspace).expect("a folder");
        for at in 0..66_000 {
            fs::File::create(workspace.join(format!("f{at}"))).expect("a file");
        }
        session.call("fs-attacker/kind", json!({"path": "f1"})).output();
        fixture.after(&session, "list", json!({"path": "/workspace"})).expect_error("TOOL_FAILED");
        let write = json!({"path": "/workspace/new", "bytes": 1});
        assert_eq!(
            fixture.after(&session, "write", write).expect_error("RESOURCE_EXCEEDED").limit(),
            Some("workspace_files")
        );
        let listed = session.client.get(&session.path("/files")).expect(200).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(10_000));
        assert_eq!(listed["truncated"], true);
        assert_eq!(fixture.after(&session, "read", json!({"path": "/workspace/f7"})).output(), "");
        session.client.delete(&session.path("")).expect(204);
        assert!(!workspace.exists());
    });
}
