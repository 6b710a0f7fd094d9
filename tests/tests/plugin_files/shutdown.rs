//! Asynchronous loads that are in progress when the daemon is stopped.

use super::*;

/// Drain timeout that is longer than any load.
const LONG_DRAIN: &str = "drain_seconds = 600";

fn start_load(daemon: &Daemon, namespace: &str, file: &[u8]) {
    let headers = [("Content-Type", "application/wasm"), ("Prefer", "respond-async")];
    daemon.operator().send("PUT", &format!("/v1/plugins/{namespace}"), &headers, file).expect(202);
}

fn stop(daemon: &Daemon) {
    daemon.terminate();
    daemon.wait_for_log("the stop", |line| line.contains("stopping"));
}

#[test]
fn a_stop_waits_for_a_load() {
    let mut daemon = Daemon::start(PROGRAM, LONG_DRAIN);
    start_load(&daemon, "answers", &PluginFile::new("answers").build());
    stop(&daemon);
    assert!(daemon.wait_for_exit().success());
    let daemon = daemon.crash_and_restart();
    assert_eq!(daemon.operator().get("/v1/plugins/answers").expect(200).json()["state"], "active");
    assert_eq!(daemon.operator().audit("kind=admin&limit=1")[0]["admin"]["action"], "plugin.load");
}

#[test]
fn o3_a_load_that_was_running_at_a_crash_is_one_act_with_an_unknown_outcome() {
    let daemon = Daemon::start(PROGRAM, "");
    start_load(&daemon, "bomb", &bombs::compile_bomb());
    let outcomes = |daemon: &Daemon| -> Vec<Value> {
        let rows = daemon.operator().audit("kind=admin&action=plugin.load");
        rows.iter().map(|row| row["admin"]["outcome"].clone()).collect()
    };
    wait::until_true("the intent", || outcomes(&daemon) == ["UNKNOWN"]);
    let daemon = daemon.crash_and_restart();
    assert_eq!(outcomes(&daemon), ["UNKNOWN"]);
    daemon.operator().get("/v1/plugins/bomb").expect_refusal(404, "NOT_FOUND");
    let ended = daemon.operator().audit("kind=admin&status=unknown&error_type=UNKNOWN");
    assert_eq!(ended.len(), 1, "{ended:?}");
}

/// A second signal skips the drain. Compiling this plugin takes many seconds.
#[test]
fn a_second_signal_does_not_wait_for_a_load() {
    let mut daemon = Daemon::start(PROGRAM, LONG_DRAIN);
    start_load(&daemon, "bomb", &bombs::compile_bomb());
    stop(&daemon);
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    daemon.wait_for_log("the load", |line| line.contains("changes were still being made"));
    let daemon = daemon.crash_and_restart();
    daemon.operator().get("/v1/plugins/bomb").expect_refusal(404, "NOT_FOUND");
}
