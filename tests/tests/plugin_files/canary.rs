//! Canary releases (O1): a share of the calls, and the automatic return of a version that fails.

use super::*;

/// Sessions call a failing tool again and again here.
const SETTINGS: &str = "[calls]\nbreaker_failures = 1_000\nrounds_per_session = 100_000\n";

const CRASH: &str = "(unreachable)";

/// A plugin with a serving version, which returns 1, and a session that calls it.
struct Canaries {
    daemon: Daemon,
    session: Session,
}

impl Canaries {
    fn start() -> Self {
        let daemon = Daemon::start(PROGRAM, SETTINGS);
        daemon.operator().load("versioned", &version(1).build());
        let session = daemon.session_within("acme/bot", &json!({}));
        Self { daemon, session }
    }

    fn load(&self, percent: u32, file: &PluginFile) -> Reply {
        let path = format!("/v1/plugins/versioned?canary={percent}");
        let headers = [("Content-Type", "application/wasm")];
        self.daemon.operator().send("PUT", &path, &headers, &file.build())
    }

    fn act(&self, action: &str) -> Reply {
        self.daemon.operator().post(&format!("/v1/plugins/versioned/{action}"), &json!({}))
    }

    /// The newest version as `GET` shows it: the canary, if there is one.
    fn newest(&self) -> Value {
        self.plugin_view()["versions"][0].clone()
    }

    fn plugin_view(&self) -> Value {
        self.daemon.operator().get("/v1/plugins/versioned").expect(200).json()
    }

    /// Calls the tool so many times. Returns how often each version answered, and checks that each result names the version
    /// that made it.
    fn count_answers(&self, calls: usize) -> (usize, usize) {
        let mut counts = (0, 0);
        for _ in 0..calls {
            let reply = self.session.call("versioned/answer", json!({}));
            let answer = reply.output().as_u64().expect("a number");
            assert_eq!(reply.0["plugin"]["version"], format!("{answer}.0.0"), "{}", reply.0);
            match answer {
                1 => counts.0 += 1,
                _ => counts.1 += 1,
            }
        }
        counts
    }

    fn restart(self) -> Self {
        let daemon = self.daemon.crash_and_restart();
        Self { session: daemon.operator().open_session("acme/bot"), daemon }
    }
}

/// A version that returns its number.
fn version(number: usize) -> PluginFile {
    let file = PluginFile::new("versioned").with_result(&number.to_string());
    file.with_member("version", json!(format!("{number}.0.0")))
}

#[test]
fn o1_a_canary_takes_its_share_until_it_is_approved() {
    let canaries = Canaries::start();
    let loaded = canaries.load(50, &version(2)).expect(200).json();
    assert_eq!((&loaded["state"], &loaded["version"]), (&json!("active"), &json!("1.0.0")), "{loaded}");
    let (old, new) = canaries.count_answers(200);
    assert!(old > 50 && new > 50, "{old} and {new}");
    let newest = canaries.newest();
    assert_eq!((&newest["state"], &newest["version"]), (&json!("canary"), &json!("2.0.0")), "{newest}");
    let counts =
        json!({"percent": 50, "calls": new, "failures": 0, "serving_calls": old, "serving_failures": 0});
    assert_eq!(newest["canary"], counts);
    let operator = canaries.daemon.operator();
    operator
        .approve("versioned", &json!(format!("sha256:{}", "0".repeat(64))))
        .expect_refusal(409, "CONFLICT");
    operator.approve("versioned", &newest["digest"]).expect(200);
    assert_eq!(canaries.count_answers(20), (0, 20));
    let shown = canaries.plugin_view();
    assert_eq!((&shown["state"], &shown["version"]), (&json!("active"), &json!("2.0.0")), "{shown}");
    assert_eq!(shown["versions"].as_array().map(Vec::len), Some(2), "{shown}");
    canaries.act("rollback").expect(200);
    assert_eq!(canaries.count_answers(20), (20, 0));
}

#[test]
fn o1_the_audit_log_names_the_version_that_ran() {
    let canaries = Canaries::start();
    canaries.load(50, &version(2)).expect(200);
    let operator = canaries.daemon.operator();
    for number in 0..10 {
        let id = format!("c{number}");
        let reply = canaries.session.call_as(&id, "versioned/answer", json!({}));
        let row = canaries.session.audit_row(&operator, &id);
        assert_eq!(row["call"]["plugin"]["digest"], reply.0["plugin"]["digest"], "{row}");
    }
}

#[test]
fn o1_a_canary_that_fails_more_often_is_returned() {
    let canaries = Canaries::start();
    canaries.load(50, &version(2).with_call(CRASH)).expect(200);
    let failed = wait::until("the canary to be returned", || {
        canaries.session.call("versioned/answer", json!({}));
        Some(canaries.newest()).filter(|newest| newest["state"] == "failed")
    });
    let failures = failed["canary"]["failures"].as_u64().expect("a number");
    assert!(failures >= 20 && failed["canary"]["serving_failures"] == 0, "{failed}");
    assert!(failed["reason"].as_str().is_some_and(|reason| reason.contains("failed")), "{failed}");
    assert_eq!(canaries.count_answers(40), (40, 0));
    // The daemon acts by itself, and records the outcome after the effect.
    let rows = wait::until("the outcome", || {
        let rows = canaries.daemon.operator().audit("kind=admin&action=plugin.canary_return");
        assert_eq!(rows.len(), 1, "{rows:?}");
        (rows[0]["admin"]["outcome"] == "ok").then_some(rows)
    });
    assert_eq!(rows[0]["admin"]["target"], "versioned");
    assert_eq!(rows[0]["admin"]["source"], "daemon", "{rows:?}");
    assert_eq!(rows[0]["admin"]["details"]["digest"], failed["digest"]);
    canaries.daemon.wait_for_log("the return", |line| line.contains("canary_returned"));
    let canaries = canaries.restart();
    assert_eq!(canaries.newest()["state"], "failed");
    assert_eq!(canaries.count_answers(20), (20, 0));
    // A better version replaces it.
    canaries.load(50, &version(3)).expect(200);
    assert_eq!(canaries.newest()["version"], "3.0.0");
    assert_eq!(canaries.plugin_view()["versions"].as_array().map(Vec::len), Some(2));
}

#[test]
fn o1_a_canary_that_fails_as_often_as_the_serving_version_stays() {
    let daemon = Daemon::start(PROGRAM, SETTINGS);
    daemon.operator().load("versioned", &version(1).with_call(CRASH).build());
    let session = daemon.session_within("acme/bot", &json!({}));
    let canaries = Canaries { daemon, session };
    canaries.load(50, &version(2).with_call(CRASH)).expect(200);
    for _ in 0..120 {
        canaries.session.call("versioned/answer", json!({})).expect_error("TOOL_CRASHED");
    }
    let newest = canaries.newest();
    assert_eq!(newest["state"], "canary", "{newest}");
    assert!(newest["canary"]["failures"].as_u64() >= Some(20), "{newest}");
}

#[test]
fn o1_a_canary_must_look_like_the_serving_version() {
    let canaries = Canaries::start();
    let other_text = version(2).with_tool("description", json!("Answers better."));
    let refused = canaries.load(10, &other_text).expect_refusal(409, "CONFLICT");
    assert!(refused.text().contains("description"), "{}", refused.text());
    canaries.load(10, &version(1)).expect_refusal(409, "CONFLICT");
    for percent in [0, 51, 100] {
        canaries.load(percent, &version(2)).expect_refusal(400, "INVALID_REQUEST");
    }
    let operator = canaries.daemon.operator();
    let headers = [("Content-Type", "application/wasm")];
    let alone = PluginFile::new("alone").build();
    operator.send("PUT", "/v1/plugins/alone?canary=10", &headers, &alone).expect_refusal(409, "CONFLICT");
    assert_eq!(canaries.plugin_view()["versions"].as_array().map(Vec::len), Some(1));
    assert_eq!(canaries.count_answers(10), (10, 0));
    canaries.load(10, &version(2)).expect(200);
}

#[test]
fn o1_a_rollback_ends_the_trial_alone() {
    let canaries = Canaries::start();
    canaries.load(50, &version(2)).expect(200);
    canaries.act("rollback").expect(200);
    let newest = canaries.newest();
    assert_eq!((&newest["state"], &newest["reason"]), (&json!("disabled"), &json!("rolled back")));
    assert_eq!(canaries.count_answers(20), (20, 0));
    canaries.act("rollback").expect_refusal(409, "CONFLICT");
    canaries.load(50, &version(2)).expect(200);
    assert!(canaries.count_answers(60).1 > 0);
}

#[test]
fn o1_a_restart_keeps_the_trial_and_counts_anew() {
    let canaries = Canaries::start();
    canaries.load(50, &version(2)).expect(200);
    canaries.count_answers(10);
    let canaries = canaries.restart();
    let newest = canaries.newest();
    assert_eq!(newest["state"], "canary", "{newest}");
    assert_eq!(
        (&newest["canary"]["percent"], &newest["canary"]["calls"]),
        (&json!(50), &json!(0)),
        "{newest}"
    );
    let (old, new) = canaries.count_answers(60);
    assert!(old > 0 && new > 0, "{old} and {new}");
}

#[test]
fn o1_a_new_version_ends_the_trial() {
    let canaries = Canaries::start();
    canaries.load(50, &version(2)).expect(200);
    canaries.daemon.operator().load("versioned", &version(3).build());
    assert_eq!(canaries.count_answers(30), (0, 30));
    assert_eq!(canaries.newest()["version"], "3.0.0");
    let components = canaries.daemon.data().join("components");
    wait::until_true("the file of the canary to be removed", || {
        fs::read_dir(&components).expect("a folder").count() == 2
    });
}

/// People approve the version that serves.
#[test]
fn o1_an_approved_call_runs_on_the_serving_version() {
    let canaries = Canaries::start();
    let operator = canaries.daemon.operator();
    operator.make_agent("acme/careful", &json!({"enabled": ["*"], "autonomy": "supervised"}));
    let orchestrator = operator.with_new_token(&json!({"role": "orchestrator", "organization": "acme"}));
    let session = orchestrator.open_session("acme/careful");
    canaries.load(50, &version(2)).expect(200);
    for number in 0..8 {
        let id = format!("c{number}");
        let approval = session.call_as(&id, "versioned/answer", json!({})).approval();
        operator.post(&format!("/v1/approvals/{approval}"), &json!({"decision": "approve"})).expect(200);
        let reply = session.call_as(&id, "versioned/answer", json!({}));
        assert_eq!(reply.output(), 1);
        assert_eq!(reply.0["plugin"]["version"], "1.0.0");
    }
}
