//! Root key: sealed starts, and rotation under load and kill.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use toolgate_tests::daemon::Options;
use toolgate_tests::{compiled_code, sync_faults, wait};

use super::*;

const KEY: &str = "6b1f0c5a9d3e27488bb0c2d94e61f7a05c3d8e9f1a2b4c6d7e8f90a1b2c3d4e5";
const OTHER: &str = "00112233445566778899aabbccddeeff102132435465768798a9bacbdcedfe0f";

/// Upper bound on the syncs of a start and a rotation.
const SYNCS: usize = 80;

#[test]
fn a_sealed_daemon_serves_calls_without_secrets_and_can_be_unsealed() {
    let settings = "[credentials]\nroot_key_environment = \"TOOLGATE_TEST_ROOT\"\n".to_owned();
    let with_key = ["env".to_owned(), format!("TOOLGATE_TEST_ROOT={KEY}")];
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    compiled_code::restore(Path::new(PROGRAM), &data).expect("the compiled code is copied");
    let start = |under: &[String]| {
        let (settings, data) = (settings.clone(), Some(data.clone()));
        let options = Options { settings, data, under: under.to_vec(), ..Options::default() };
        Daemon::start_with(PROGRAM, options)
    };
    let daemon = start(&with_key);
    assert_eq!(daemon.anonymous().get("/readyz").expect(200).json()["status"], "ok");
    prepare(&daemon.operator());
    put(&daemon.operator(), STRIPE, &bearer(CANARY)).expect(201);
    drop(daemon);

    let daemon = start(&[]);
    let operator = daemon.operator();
    assert_eq!(daemon.anonymous().get("/readyz").expect(200).json()["status"], "sealed");
    assert_eq!(operator.get(STRIPE).expect(200).json()["state"], "sealed");
    put(&operator, STRIPE, &bearer("another")).expect_refusal(503, "UNAVAILABLE");
    let session = operator.open_session("acme/bot");
    assert_eq!(session.call("arithmetic/evaluate", json!({"expression": "6*7"})).status(), "ok");
    session.call("pay/answer", json!({})).expect_error("INTEGRATION_MISSING");

    operator.post("/v1/unseal", &json!({"key": OTHER})).expect_refusal(400, "INVALID_REQUEST");
    operator.post("/v1/unseal", &json!({"key": KEY})).expect(200);
    assert_eq!(daemon.anonymous().get("/readyz").expect(200).json()["status"], "ok");
    assert_eq!(*session.call("pay/answer", json!({})).output(), json!(1));
    assert!(!daemon.log_text().contains(KEY));
}

#[test]
fn k1_the_root_key_is_rotated_while_credentials_are_read_and_written() {
    let (daemon, operator) = daemon("");
    for index in 0..300 {
        put(&operator, &format!("{STRIPE}-{index}"), &bearer(CANARY)).expect(201);
    }
    let key = || std::fs::read(daemon.data().join("keys/root")).expect("a key");
    let (before, done, written) = (key(), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let version = written.load(Ordering::Relaxed) + 1;
                let shown = put(&operator, STRIPE, &bearer(CANARY));
                assert_eq!(shown.json()["version"], version, "{}", shown.text());
                written.store(version, Ordering::Relaxed);
            }
        });
        for _ in 0..5 {
            let mark = written.load(Ordering::Relaxed);
            wait::until_true("a write between two rotations", || written.load(Ordering::Relaxed) > mark + 1);
            let rotated = operator.post("/v1/keys/rotate", &json!({})).expect(200).json();
            assert!(rotated["rewrapped"].as_u64() >= Some(300) && rotated["going"].is_null(), "{rotated}");
        }
        done.store(true, Ordering::Relaxed);
        writing.join().expect("a writer");
    });
    assert_ne!(before, key());
    let daemon = daemon.crash_and_restart();
    assert_eq!(daemon.anonymous().get("/readyz").expect(200).json()["status"], "ok");
    let rotated = daemon.operator().post("/v1/keys/rotate", &json!({})).expect(200).json();
    assert_eq!(rotated["rewrapped"], 301);
}

/// A rotation unwraps every data key, so a second one after the crash shows that all of them can be opened.
#[test]
fn k1_a_kill_at_any_sync_of_a_rotation_loses_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let kill_at = sync_faults::kill_at(folder.path());
    let data = folder.path().join("data");
    compiled_code::restore(Path::new(PROGRAM), &data).expect("the compiled code is copied");
    let start = |under: Vec<String>| {
        Daemon::try_start_with(PROGRAM, Options { data: Some(data.clone()), under, ..Options::default() })
    };
    let daemon = start(Vec::new()).expect("it starts");
    prepare(&daemon.operator());
    for index in 0..3 {
        put(&daemon.operator(), &format!("{STRIPE}-{index}"), &bearer(CANARY)).expect(201);
    }
    drop(daemon);
    let mut killed = 0;
    for at in 1..SYNCS {
        let Some(daemon) = start(kill_at(at)) else { continue };
        let headers = [("Content-Type", "application/json")];
        let rotated = daemon.operator().try_send("POST", "/v1/keys/rotate", &headers, b"{}");
        drop(daemon);
        let daemon =
            start(Vec::new()).unwrap_or_else(|| panic!("it does not start after a kill at sync {at}"));
        assert_eq!(daemon.anonymous().get("/readyz").expect(200).json()["status"], "ok", "sync {at}");
        let again = daemon.operator().post("/v1/keys/rotate", &json!({})).expect(200).json();
        assert_eq!((&again["rewrapped"], &again["going"]), (&json!(3), &Value::Null), "sync {at}");
        if rotated.is_ok_and(|reply| reply.status == 200) {
            assert!(killed > 2, "only {killed} kills");
            return;
        }
        killed += 1;
    }
    panic!("the rotation never completes");
}
