//! Cancelled calls that wait for a person or a client: one end event, and no execution afterwards (R6, G6).

use toolgate_tests::events::Stream;
use toolgate_tests::{CallReply, Reply, Value, json};

use crate::{Agent, with_fixture};

fn supervised_document() -> Value {
    json!({"enabled": ["pay/*", "user/ask"], "autonomy": "supervised"})
}

impl Agent {
    fn pay_once(&self, id: &str) -> CallReply {
        self.session.call_as(id, "pay/send", json!({"to": "bob", "amount": 1}))
    }

    fn ask_user(&self, id: &str) -> CallReply {
        self.session.call_as(id, "user/ask", json!({"question": "Which?"}))
    }

    fn approve_call(&self, waiting: &CallReply) -> Reply {
        self.decide(&waiting.approval(), json!({"decision": "approve"}))
    }

    fn post_answer(&self, id: &str) -> Reply {
        let path = self.session.path(&format!("/calls/{id}/result"));
        self.session.client.post(&path, &json!({"status": "ok", "output": {"answer": "this"}}))
    }

    fn statuses(&self, id: &str) -> Vec<Value> {
        let rows = self.owner.audit(&format!("kind=call&session={}&call={id}", self.session.id));
        rows.iter().map(|row| row["status"].clone()).collect()
    }

    /// Opens the organization's event stream as owner.
    fn open_events(&self) -> Stream {
        Stream::open(&self.owner, &format!("/v1/orgs/{}/events", self.organization))
    }
}

fn read_ends(stream: &mut Stream, count: usize) -> Vec<(String, Value, Value)> {
    let event = |(name, body): (String, Value)| (name, body["call"].clone(), body["error_type"].clone());
    (0..count).map(|_| event(stream.next().expect("an event"))).collect()
}

#[test]
fn r6_a_cancelled_call_cannot_be_approved() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let mut stream = agent.open_events();
        let waiting = agent.pay_once("c1");
        assert_eq!(stream.names(2), ["tool_call", "approval"]);
        agent.session.cancel("c1").expect(204);
        assert_eq!(read_ends(&mut stream, 1), [("tool_error".into(), json!("c1"), json!("CANCELLED"))]);
        assert_eq!(agent.session.get_call("c1").expect_error("CANCELLED").0["executed"], "no");
        agent.approve_call(&waiting).expect_refusal(410, "APPROVAL_EXPIRED");
        agent.pay_once("c1").expect_error("CANCELLED");
        // A second cancellation emits no second end event.
        agent.session.cancel("c1").expect(204);
        assert_eq!(agent.statuses("c1"), ["cancelled", "approval_required"]);
        // The same payment with another id needs a new approval, and runs once approved.
        let other = agent.pay_once("c2");
        agent.approve_call(&other).expect(200);
        assert_eq!(agent.pay_once("c2").status(), "ok");
        assert_eq!(stream.names(4), ["tool_call", "approval", "approval", "tool_result"]);
    });
}

#[test]
fn r6_a_cancelled_client_call_accepts_no_result() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let mut stream = agent.open_events();
        assert_eq!(agent.ask_user("c1").status(), "client_required");
        assert_eq!(stream.names(2), ["tool_call", "client"]);
        agent.session.cancel("c1").expect(204);
        assert_eq!(read_ends(&mut stream, 1), [("tool_result".into(), json!("c1"), json!("CANCELLED"))]);
        assert_eq!(agent.session.get_call("c1").expect_error("CANCELLED").0["executed"], "yes");
        agent.post_answer("c1").expect_refusal(409, "CONFLICT");
        agent.ask_user("c1").expect_error("CANCELLED");
        assert_eq!(agent.statuses("c1"), ["cancelled", "client_required"]);
        // A finished call is not changed.
        agent.ask_user("c2");
        agent.post_answer("c2").expect(200);
        agent.session.cancel("c2").expect(204);
        assert_eq!(agent.session.get_call("c2").status(), "ok");
        assert_eq!(stream.names(3), ["tool_call", "client", "tool_result"]);
        agent.session.cancel("nothing").expect_refusal(404, "NOT_FOUND");
    });
}

/// Two calls with the same arguments share one approval.
#[test]
fn r6_a_cancelled_call_leaves_its_approval_to_another_call() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let waiting = agent.pay_once("c1");
        assert_eq!(agent.pay_once("c2").approval(), waiting.approval());
        agent.session.cancel("c1").expect(204);
        agent.approve_call(&waiting).expect(200);
        agent.pay_once("c1").expect_error("CANCELLED");
        assert_eq!(agent.pay_once("c2").status(), "ok");
    });
}

#[test]
fn g6_waiting_calls_end_with_their_session() {
    with_fixture(|fixture| {
        type End = fn(&Agent);
        let end_session: End = |agent| drop(agent.session.client.delete(&agent.session.path("")).expect(204));
        let delete_agent: End = |agent| {
            let shown = agent.owner.get(&agent.document()).expect(200);
            let tag = shown.header("etag").expect("a tag");
            agent.owner.send("DELETE", &agent.document(), &[("If-Match", tag)], b"").expect(204);
        };
        for end in [end_session, delete_agent] {
            let agent = fixture.agent(&supervised_document());
            let mut stream = agent.open_events();
            agent.pay_once("paid");
            agent.ask_user("asked");
            assert_eq!(stream.names(4), ["tool_call", "approval", "tool_call", "client"]);
            end(&agent);
            let mut ends = read_ends(&mut stream, 2);
            ends.sort_by_key(|(name, ..)| name.clone());
            let cancelled = |name: &str, call: &str| (name.into(), json!(call), json!("CANCELLED"));
            assert_eq!(ends, [cancelled("tool_error", "paid"), cancelled("tool_result", "asked")]);
            agent.post_answer("asked").expect_refusal(410, "EXPIRED");
        }
    });
}
