//! A call that is to wait for a person waits once that is on disk. What is decided or cancelled until then counts (G11, R6).

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use toolgate_tests::client::Pending;
use toolgate_tests::events::Stream;
use toolgate_tests::{Client, Daemon, Options, Session, Value, json, sync_faults, wait};

use crate::{PROGRAM, payments};

/// A daemon whose audit log reaches the disk when the test lets it.
struct Held {
    _daemon: Daemon,
    operator: Client,
    owner: Client,
    session: Session,
    held: PathBuf,
    _folder: TempDir,
}

impl Held {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let held = folder.path().join("held");
        let under = sync_faults::hold_audit_while(folder.path(), &held);
        let daemon = Daemon::start_with(PROGRAM, Options { under, ..Options::default() });
        let operator = daemon.operator();
        operator.load("pay", &payments("1.0.0"));
        operator.make_agent("acme/bot", &json!({"enabled": ["pay/*"], "autonomy": "supervised"}));
        let owner =
            operator.with_new_token(&json!({"role": "owner", "organization": "acme", "label": "owner"}));
        let session = operator.open_session("acme/bot");
        Self { _daemon: daemon, operator, owner, session, held, _folder: folder }
    }

    /// A call whose question a person can see, and whose record is not on disk.
    fn asks(&self) -> (Pending, String) {
        fs::write(&self.held, "").expect("the log is held");
        let call = self.session.start("c1", "pay/send", json!({"to": "bob", "amount": 1}));
        let approval = wait::until("the question to be there", || {
            let listed = self.owner.get("/v1/approvals?state=pending").expect(200).json();
            listed["items"][0]["id"].as_str().map(str::to_owned)
        });
        (call, approval)
    }

    fn let_go(&self) {
        fs::remove_file(&self.held).expect("the log goes on");
    }

    fn state_of(&self, approval: &str) -> Value {
        self.owner.get(&format!("/v1/approvals/{approval}")).expect(200).json()["state"].clone()
    }
}

#[test]
fn g11_what_is_decided_before_a_call_waits_is_told_and_counts() {
    for (decision, state, told) in [("approve", "approved", "approval"), ("deny", "denied", "approval")] {
        let held = Held::start();
        let mut stream = Stream::open(&held.owner, "/v1/orgs/acme/events");
        let (call, approval) = held.asks();
        let path = format!("/v1/approvals/{approval}");
        let body = json!({"decision": decision}).to_string();
        let headers = [("Content-Type", "application/json")];
        let deciding = held.owner.start("POST", &path, &headers, body.as_bytes());
        wait::until("the decision to be kept", || (held.state_of(&approval) == state).then_some(()));
        held.let_go();
        deciding.reply().expect(200);
        call.reply().expect(200);
        let mut events = (0..3).map(|_| stream.next().expect("an event"));
        let names = |(name, body): (String, Value)| (name, body["approval"]["state"].clone());
        assert_eq!(names(events.next().expect("it is attempted")).0, "tool_call");
        assert_eq!(names(events.next().expect("it waits")), ("approval".into(), json!("pending")));
        assert_eq!(names(events.next().expect("it is decided")), (told.into(), json!(state)));
        let again = held.session.call_as("c1", "pay/send", json!({"to": "bob", "amount": 1}));
        match decision {
            "approve" => drop(again.output()),
            _ => drop(again.expect_error("APPROVAL_DENIED")),
        }
    }
}

#[test]
fn r6_a_call_that_is_cancelled_before_it_waits_asks_nobody_and_is_recorded_as_cancelled() {
    let held = Held::start();
    let (call, approval) = held.asks();
    assert_eq!(held.state_of(&approval), "pending");
    held.session.cancel("c1").expect(204);
    held.let_go();
    let answer = call.reply().expect(200).json();
    assert_eq!(answer["results"][0]["error"]["error_type"], "CANCELLED", "{answer}");
    assert_eq!(held.state_of(&approval), "void");
    let rows = held.operator.audit(&format!("kind=call&session={}&call=c1", held.session.id));
    let statuses: Vec<_> = rows.iter().filter_map(|row| row["status"].as_str()).collect();
    assert_eq!(statuses, ["cancelled", "approval_required"]);
    let path = format!("/v1/approvals/{approval}");
    held.owner.post(&path, &json!({"decision": "approve"})).expect_refusal(410, "APPROVAL_EXPIRED");
}
