//! Write-ahead audit: no request is sent unless its call is recorded, neither with a full log nor on a failing disk.

use std::fs;
use std::path::Path;

use toolgate_tests::disk::SmallDisk;
use toolgate_tests::{CallReply, Daemon, Options, Session, compiled_code, guests, json, sync_faults, wait};

use super::{API, Fixture, PROGRAM, grant, with_fixture};

/// Starts a daemon, optionally on this data folder and under this command, with a plugin that may reach the upstream.
fn start_daemon(fixture: &Fixture, data: Option<&Path>, under: Vec<String>) -> (Daemon, Session) {
    let settings =
        fixture.upstream.settings() + "[audit]\nsegment_bytes = 1_048_576\nreserve_bytes = 262_144\n";
    if let Some(data) = data {
        compiled_code::restore(Path::new(PROGRAM), data).expect("the compiled code is copied");
    }
    let options = Options { settings, data: data.map(Path::to_owned), under, ..Options::default() };
    let daemon = Daemon::start_with(PROGRAM, options);
    daemon.operator().load("caller", guests::CALLER);
    daemon.operator().make("/v1/plugins/caller/grant", &grant(&fixture.upstream)).expect(201);
    let session = daemon.session_within("acme/bot", &json!({}));
    (daemon, session)
}

/// Sends a request whose call takes some space in the log.
fn post(session: &Session) -> CallReply {
    let body = "x".repeat(9_000);
    let arguments = json!({"method": "POST", "url": format!("{API}/"), "headers": [], "body": body});
    session.call("caller/fetch", arguments)
}

#[test]
#[cfg_attr(not(has = "mount"), ignore = "needs permission to mount a file system")]
fn no_request_is_sent_while_the_log_is_full() {
    with_fixture(|fixture| {
        let disk = SmallDisk::mount("512m");
        let (mut daemon, session) = start_daemon(fixture, Some(&disk.path().join("data")), Vec::new());
        post(&session).output();
        disk.fill();
        let (refused, connections) = wait::until("the log to be full", || {
            let before = fixture.upstream.connections();
            let reply = post(&session);
            (reply.status() != "ok").then_some((reply, before))
        });
        refused.expect_error("UNAVAILABLE");
        assert_eq!(fixture.upstream.connections(), connections, "a request was sent");
        assert!(daemon.is_running());
        disk.free();
        wait::until_true("calls to run again", || post(&session).status() == "ok");
        assert!(fixture.upstream.connections() > connections);
    });
}

#[test]
fn no_request_is_sent_before_the_intent_is_on_disk() {
    with_fixture(|fixture| {
        let folder = tempfile::tempdir().expect("a folder");
        let broken = folder.path().join("broken");
        let (daemon, session) = start_daemon(fixture, None, sync_faults::fail_while(folder.path(), &broken));
        post(&session).output();
        fs::write(&broken, "").expect("syncs fail");
        let before = fixture.upstream.connections();
        post(&session).expect_error("UNAVAILABLE");
        assert_eq!(fixture.upstream.connections(), before, "a request was sent");
        fs::remove_file(&broken).expect("syncs succeed");
        // The disk works again, and a restart lets the next request out.
        let daemon = daemon.crash_and_restart();
        let session = Session { client: daemon.operator(), id: session.id };
        post(&session).output();
        assert_eq!(fixture.upstream.connections(), before + 1);
    });
}
