//! Workspace isolation: a guest reaches the files of its session, no others, and within its quota (B4).
//!
//! Canary files lie beside the workspace, above it and in another session. Each test checks that they are unchanged,
//! and that no message contains a host path.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

mod session_end;
mod planted;
mod races;
mod quotas;
mod concurrent_calls;

use std::fs;
use std::path::PathBuf;

use toolgate_tests::{CallReply, Daemon, LeakCheck, Session, Shared, Value, guests, json, wait};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

const CANARY: &str = "a canary, as it was";

/// Small quotas, so that they are soon used up.
const SETTINGS: &str = "
[limits]
workspace_bytes = 4_194_304
workspace_files = 100
";

static FIXTURE: Shared<Fixture> = Shared::new();

struct Fixture {
    daemon: Daemon,
    agents: u32,
    neighbour: Session,
    canaries: Vec<PathBuf>,
}

impl Fixture {
    fn start() -> Self {
        let daemon = Daemon::start(PROGRAM, SETTINGS);
        daemon.operator().load("fs-attacker", guests::FS_ATTACKER);
        let neighbour = daemon.session_within("acme/neighbour", &json!({}));
        neighbour.put_file("canary.txt", CANARY.as_bytes()).expect(204);
        let workspaces = daemon.data().join("workspaces");
        let canaries = vec![
            workspaces.join("canary.txt"),
            daemon.data().join("canary.txt"),
            daemon.folder.path().join("canary.txt"),
            workspaces.join(&neighbour.id).join("canary.txt"),
        ];
        for canary in &canaries {
            fs::write(canary, CANARY).expect("a canary");
        }
        let mut fixture = Self { daemon, agents: 0, neighbour, canaries };
        fixture.daemon.operator().audit("limit=1");
        let warm = fixture.session();
        warm.call("fs-attacker/make_files", json!({"folder": "/workspace/w", "files": 20}));
        fixture
    }

    /// Opens a session of a new agent. Its workspace stays open until it ends.
    fn session(&mut self) -> Session {
        self.agents += 1;
        let session = self.daemon.session_within(&format!("acme/a{}", self.agents), &json!({}));
        session.call("fs-attacker/list", json!({"path": "/workspace"})).output();
        session
    }

    /// Host path of a session's workspace.
    fn folder(&self, session: &Session) -> PathBuf {
        self.daemon.data().join("workspaces").join(&session.id)
    }

    /// Asserts that the canaries are unchanged.
    fn assert_canaries_intact(&self) {
        for canary in &self.canaries {
            assert_eq!(fs::read_to_string(canary).expect("the canary"), CANARY, "{}", canary.display());
        }
    }

    /// Makes a call, and checks canaries, error message, audit row and leaks.
    fn call(&mut self, session: &Session, tool: &str, arguments: Value) -> CallReply {
        let leak_check = LeakCheck::start(&self.daemon);
        let reply = session.call(&format!("fs-attacker/{tool}"), arguments);
        self.assert_canaries_intact();
        let shown = reply.0.to_string();
        let folder = self.daemon.folder.path().display().to_string();
        assert!(!shown.contains(&folder) && !shown.contains(&self.neighbour.id), "{shown}");
        assert!(!shown.contains(CANARY), "{shown}");
        let row = session.audit_row(&self.daemon.operator(), reply.id());
        assert_eq!(row["outcome"]["error_type"].as_str(), reply.error_type(), "{row}");
        assert_ne!(reply.error_type(), Some("INTERNAL"), "{row}");
        leak_check.assert_none(&mut self.daemon);
        reply
    }

    /// Effects of the session in the audit log.
    fn effects(&self, session: &Session) -> Vec<(String, String)> {
        let rows = self.daemon.operator().audit(&format!("kind=effect&session={}", session.id));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        rows.iter().map(|row| (text(&row["effect"]["effect"]), text(&row["effect"]["detail"]))).collect()
    }
}

fn with_fixture(test: impl FnOnce(&mut Fixture)) {
    FIXTURE.with(Fixture::start, test);
}

#[test]
fn a_written_file_is_visible_to_the_next_call_and_over_http() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fixture.call(&session, "write", json!({"path": "/workspace/a.txt", "bytes": 3})).output();
        assert_eq!(fixture.call(&session, "read", json!({"path": "/workspace/a.txt"})).output(), "xxx");
        assert_eq!(session.get_file("a.txt").expect(200).text(), "xxx");
        session.put_file("folder/b.txt", b"yy").expect(204);
        assert_eq!(
            fixture.call(&session, "list", json!({"path": "/workspace"})).output(),
            &json!(["a.txt", "folder"])
        );
        let written = ("workspace_write".to_owned(), "a.txt".to_owned());
        assert!(fixture.effects(&session).contains(&written), "{:?}", fixture.effects(&session));
    });
}

#[test]
fn no_file_outside_the_workspace_can_be_read() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("here.txt", b"here").expect(204);
        let data = fixture.daemon.data().display().to_string();
        let paths = [
            "/etc/passwd".to_owned(),
            "/proc/self/environ".to_owned(),
            "/workspace/../canary.txt".to_owned(),
            "/workspace/../../canary.txt".to_owned(),
            "/workspace/x/../../canary.txt".to_owned(),
            "../canary.txt".to_owned(),
            format!("{data}/operator.token"),
            format!("/workspace/{data}/operator.token"),
            format!("/workspace/../{}/canary.txt", fixture.neighbour.id),
            "/workspace/here.txt/../../canary.txt".to_owned(),
            "/workspace/\\..\\canary.txt".to_owned(),
            "/workspace/%2e%2e/canary.txt".to_owned(),
            "/workspace/here.txt\0/../canary.txt".to_owned(),
        ];
        for path in paths {
            for tool in ["read", "list"] {
                let reply = fixture.call(&session, tool, json!({"path": path}));
                assert!(reply.error_type().is_some(), "{path}: {}", reply.0);
            }
        }
        assert_eq!(fixture.call(&session, "read", json!({"path": "/workspace/here.txt"})).output(), "here");
        let denied: Vec<_> =
            fixture.effects(&session).into_iter().filter(|(kind, _)| kind == "file_denied").collect();
        assert!(denied.iter().any(|(_, path)| path.starts_with("../canary.txt")), "{denied:?}");
    });
}

#[test]
fn no_file_outside_the_workspace_can_be_written_moved_or_removed() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("here.txt", b"here").expect(204);
        let neighbour = format!("/workspace/../{}", fixture.neighbour.id);
        for path in [
            "/workspace/../canary.txt".to_owned(),
            format!("{neighbour}/canary.txt"),
            "/tmp/toolgate-tests-canary".to_owned(),
        ] {
            let attempts = [
                ("write", json!({"path": path, "bytes": 10})),
                ("sparse", json!({"path": path, "bytes": 10})),
                ("remove", json!({"path": path})),
                ("rename", json!({"from": path, "to": "/workspace/stolen.txt"})),
                ("rename", json!({"from": "/workspace/here.txt", "to": path})),
            ];
            for (tool, arguments) in attempts {
                let reply = fixture.call(&session, tool, arguments.clone());
                assert!(reply.error_type().is_some(), "{tool} {arguments}: {}", reply.0);
            }
        }
        assert!(!PathBuf::from("/tmp/toolgate-tests-canary").exists());
        let inside = json!({"from": "/workspace/here.txt", "to": "/workspace/there.txt"});
        fixture.call(&session, "rename", inside).output();
        fixture.call(&session, "remove", json!({"path": "/workspace/there.txt"})).output();
    });
}

#[test]
fn a_guest_cannot_create_links() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("here.txt", b"here").expect(204);
        for target in ["/etc/passwd", "../canary.txt", "here.txt"] {
            fixture
                .call(&session, "symlink", json!({"target": target, "link": "link"}))
                .expect_error("TOOL_FAILED");
        }
        for from in ["here.txt", "../canary.txt", "/etc/passwd"] {
            fixture
                .call(&session, "hard_link", json!({"from": from, "to": "link"}))
                .expect_error("TOOL_FAILED");
        }
        assert_eq!(
            fixture.call(&session, "list", json!({"path": "/workspace"})).output(),
            &json!(["here.txt"])
        );
    });
}

#[test]
fn unusual_names_are_files_or_are_refused() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let long = "x".repeat(300);
        for name in [
            "with space",
            "..hidden",
            "naïve",
            "-rf",
            "a\nb",
            "\u{202e}gnp",
            "CON",
            "a\\b",
            "*",
            "%00",
            &long,
            "a//b",
            ".",
        ] {
            let reply =
                fixture.call(&session, "write", json!({"path": format!("/workspace/{name}"), "bytes": 1}));
            assert!(matches!(reply.error_type(), None | Some("TOOL_FAILED")), "{name:?}: {}", reply.0);
        }
        fixture.call(&session, "write", json!({"path": "/workspace/plain", "bytes": 1})).output();
    });
}

#[test]
fn paths_over_http_stay_inside_the_workspace() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("here.txt", b"here").expect(204);
        let paths = [
            "../canary.txt",
            "%2e%2e/canary.txt",
            "..%2fcanary.txt",
            "x/../../canary.txt",
            "%2fetc%2fpasswd",
            "/etc/passwd",
            "here.txt/x",
            "a%00b",
        ];
        for path in paths {
            for reply in [
                session.get_file(path),
                session.put_file(path, b"x"),
                session.client.delete(&session.path(&format!("/files/{path}"))),
            ] {
                assert!((400..500).contains(&reply.status), "{path}: {}", reply.text());
                assert!(!reply.text().contains(CANARY));
            }
        }
        fixture.assert_canaries_intact();
        let read = session.get_file("here.txt").expect(200);
        assert_eq!(read.text(), "here");
        assert_eq!(read.header("x-content-type-options"), Some("nosniff"));
        session.client.delete(&session.path("/files/here.txt")).expect(204);
        session.get_file("here.txt").expect_refusal(404, "NOT_FOUND");
    });
}

#[test]
fn a_plugin_reaches_no_network() {
    let mut daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("caller", guests::CALLER);
    let session = daemon.session_within("acme/bot", &json!({}));
    // A listener would notice a connection.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    listener.set_nonblocking(true).expect("not waiting");
    let address = listener.local_addr().expect("an address").to_string();
    session.call("caller/header", json!({"bytes": 100})).output();
    operator.audit("limit=1");
    let leak_check = LeakCheck::start(&daemon);
    let reply = session.call_as("c1", "caller/reach", json!({"authority": address, "path": "/?key=secret"}));
    reply.expect_error("NETWORK_DENIED");
    let effects = operator.audit(&format!("kind=effect&session={}", session.id));
    assert_eq!(effects.len(), 1, "{effects:?}");
    assert_eq!(effects[0]["effect"]["effect"], "network_denied");
    assert!(effects[0]["effect"]["detail"].as_str().is_some_and(|detail| detail.contains("127.0.0.1")));
    assert!(!effects[0].to_string().contains("secret"), "{effects:?}");
    let reply = session.call("caller/look_up", json!({"name": "localhost"}));
    assert!(reply.error_type().is_some(), "{}", reply.0);
    let reply = session.call("caller/header", json!({"bytes": 1 << 20})).expect_error("RESOURCE_EXCEEDED");
    assert_eq!(reply.limit(), Some("header_bytes"));
    assert!(listener.accept().is_err(), "a packet left");
    leak_check.assert_none(&mut daemon);
}

/// 9.18: what a client does to the files is recorded, also what is refused.
#[test]
fn o3_changes_of_files_over_http_are_recorded() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("a.txt", b"one").expect(204);
        session.client.delete(&session.path("/files/a.txt")).expect(204);
        session.client.delete(&session.path("/files/a.txt")).expect_refusal(404, "NOT_FOUND");
        let target = format!("{} a.txt", session.id);
        let outcomes = |action: &str| -> Vec<Value> {
            let rows = fixture.daemon.operator().audit(&format!("kind=admin&action={action}"));
            let own = rows.iter().filter(|row| row["admin"]["target"] == target);
            own.map(|row| row["admin"]["outcome"].clone()).collect()
        };
        assert_eq!(outcomes("file.write"), ["ok"]);
        assert_eq!(outcomes("file.delete"), ["NOT_FOUND", "ok"]);
    });
}

/// The operator grants the workspace to an uploaded plugin, and until then its errors say that it has none.
#[test]
fn b5_an_uploaded_plugin_has_no_files_without_a_grant() {
    let daemon = Daemon::start(PROGRAM, "");
    let (operator, grant) = (daemon.operator(), "/v1/plugins/fs-attacker/grant");
    let loaded = operator.upload("fs-attacker", guests::FS_ATTACKER).expect(200).json();
    assert_eq!(loaded["warnings"][0]["code"], "WITHHELD", "{loaded}");
    let held = operator.get(grant).expect(200);
    assert_eq!((held.header("etag"), &held.json()["filesystem"]), (None, &json!("none")), "{}", held.text());
    let session = daemon.session_within("acme/bot", &json!({}));
    let write = || session.call("fs-attacker/write", json!({"path": "/workspace/a.txt", "bytes": 1}));
    let refused = write().expect_error("TOOL_FAILED");
    let hint = refused.0["error"]["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("not granted") && hint.contains(r#"{"filesystem":"workspace"}"#), "{hint}");
    operator.make(grant, &json!({"filesystem": "workspace"})).expect(201);
    write().output();
    assert!(operator.get(grant).expect(200).header("etag").is_some());
}
