//! Loads that nobody waits for, and that are under way when the daemon is told to stop.

use super::*;

/// Longer than any load takes.
const PATIENT: &str = "drain_seconds = 600";

fn begin(daemon: &Daemon, namespace: &str, file: &[u8]) {
    let headers = [("Content-Type", "application/wasm"), ("Prefer", "respond-async")];
    daemon.operator().send("PUT", &format!("/v1/plugins/{namespace}"), &headers, file).expect(202);
}

fn stop(daemon: &Daemon) {
    daemon.terminate();
    daemon.wait_for_log("that it stops", |line| line.contains("stopping"));
}

#[test]
fn a_stop_lets_a_load_end() {
    let mut daemon = Daemon::start(PROGRAM, PATIENT);
    begin(&daemon, "answers", &PluginFile::new("answers").build());
    stop(&daemon);
    assert!(daemon.wait_for_exit().success());
    let daemon = daemon.crash_and_restart();
    assert_eq!(daemon.operator().get("/v1/plugins/answers").expect(200).json()["state"], "active");
    assert_eq!(daemon.operator().audit("kind=admin&limit=1")[0]["admin"]["action"], "plugin.load");
}

/// Whoever asks twice does not want to wait for changes either. Compiling this one takes many seconds.
#[test]
fn a_second_signal_waits_for_no_load() {
    let mut daemon = Daemon::start(PROGRAM, PATIENT);
    begin(&daemon, "bomb", &bombs::compile_bomb());
    stop(&daemon);
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    assert!(daemon.log_text().contains("changes were still being made"), "{}", daemon.log_text());
    let daemon = daemon.crash_and_restart();
    daemon.operator().get("/v1/plugins/bomb").expect_refusal(404, "NOT_FOUND");
}
