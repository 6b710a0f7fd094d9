//! A call waits for approval only after its record is on disk, and a decision counts only after its own. A decision or
//! cancellation before that is not lost (G11, R6).

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use toolgate_tests::client::Pending;
use toolgate_tests::events::Stream;
use toolgate_tests::{Client, Daemon, Options, Session, Value, json, sync_faults, wait};

use crate::{PROGRAM, payments};

/// Daemon whose audit log is synced only when the test allows it.
struct SlowAudit {
    _daemon: Daemon,
    operator: Client,
    owner: Client,
    session: Session,
    log: PathBuf,
    _folder: TempDir,
}

impl SlowAudit {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("held");
        let under = sync_faults::hold_audit_while(folder.path(), &log);
        let daemon = Daemon::start_with(PROGRAM, Options { under, ..Options::default() });
        let operator = daemon.operator();
        operator.load("pay", &payments("1.0.0"));
        operator.make_agent("acme/bot", &json!({"enabled": ["pay/*"], "autonomy": "supervised"}));
        let owner =
            operator.with_new_token(&json!({"role": "owner", "organization": "acme", "label": "owner"}));
        let session = operator.open_session("acme/bot");
        Self { _daemon: daemon, operator, owner, session, log, _folder: folder }
    }

    /// Makes a call whose approval is visible while its record is not yet on disk.
    fn make_waiting_call(&self) -> (Pending, String) {
        fs::write(&self.log, "").expect("the marker is written");
        let call = self.session.start("c1", "pay/send", json!({"to": "bob", "amount": 1}));
        let approval = wait::until("the approval to be listed", || {
            let listed = self.owner.get("/v1/approvals?state=pending").expect(200).json();
            listed["items"][0]["id"].as_str().map(str::to_owned)
        });
        (call, approval)
    }

    fn release(&self) {
        fs::remove_file(&self.log).expect("the marker is removed");
    }

    fn approval_state(&self, approval: &str) -> Value {
        self.owner.get(&format!("/v1/approvals/{approval}")).expect(200).json()["state"].clone()
    }
}

#[test]
fn g11_a_decision_made_before_the_call_waits_is_emitted_and_counts() {
    for (decision, state, next_event) in [("approve", "approved", "approval"), ("deny", "denied", "approval")]
    {
        let log = SlowAudit::start();
        let mut stream = Stream::open(&log.owner, "/v1/orgs/acme/events");
        let (call, approval) = log.make_waiting_call();
        let path = format!("/v1/approvals/{approval}");
        let body = json!({"decision": decision}).to_string();
        let headers = [("Content-Type", "application/json")];
        let deciding = log.owner.start("POST", &path, &headers, body.as_bytes());
        assert_eq!(log.approval_state(&approval), "pending", "a decision waits until its intent is on disk");
        log.release();
        deciding.reply().expect(200);
        call.reply().expect(200);
        let mut events = (0..3).map(|_| stream.next().expect("an event"));
        let names = |(name, body): (String, Value)| (name, body["approval"]["state"].clone());
        assert_eq!(names(events.next().expect("the attempt")).0, "tool_call");
        assert_eq!(names(events.next().expect("the wait")), ("approval".into(), json!("pending")));
        assert_eq!(names(events.next().expect("the decision")), (next_event.into(), json!(state)));
        let again = log.session.call_as("c1", "pay/send", json!({"to": "bob", "amount": 1}));
        match decision {
            "approve" => drop(again.output()),
            _ => drop(again.expect_error("APPROVAL_DENIED")),
        }
    }
}

#[test]
fn r6_a_call_cancelled_before_it_waits_is_recorded_as_cancelled() {
    let log = SlowAudit::start();
    let (call, approval) = log.make_waiting_call();
    assert_eq!(log.approval_state(&approval), "pending");
    log.session.cancel("c1").expect(204);
    log.release();
    let answer = call.reply().expect(200).json();
    assert_eq!(answer["results"][0]["error"]["error_type"], "CANCELLED", "{answer}");
    assert_eq!(log.approval_state(&approval), "void");
    let rows = log.operator.audit(&format!("kind=call&session={}&call=c1", log.session.id));
    let statuses: Vec<_> = rows.iter().filter_map(|row| row["status"].as_str()).collect();
    assert_eq!(statuses, ["cancelled", "approval_required"]);
    let path = format!("/v1/approvals/{approval}");
    log.owner.post(&path, &json!({"decision": "approve"})).expect_refusal(410, "APPROVAL_EXPIRED");
}
