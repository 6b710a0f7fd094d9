//! Calls that wait for somebody and are not wanted any more: each has one end, and nothing runs after it (R6, G6).

use toolgate_tests::events::Stream;
use toolgate_tests::{CallReply, Reply, Value, json};

use crate::{Agent, with_fixture};

fn supervised() -> Value {
    json!({"enabled": ["pay/*", "user/ask"], "autonomy": "supervised"})
}

impl Agent {
    fn wants_to_pay(&self, id: &str) -> CallReply {
        self.session.call_as(id, "pay/send", json!({"to": "bob", "amount": 1}))
    }

    fn wants_an_answer(&self, id: &str) -> CallReply {
        self.session.call_as(id, "user/ask", json!({"question": "Which?"}))
    }

    fn says_yes(&self, waiting: &CallReply) -> Reply {
        let approval = waiting.0["approval"]["id"].as_str().expect("an approval");
        self.owner.post(&format!("/v1/approvals/{approval}"), &json!({"decision": "approve"}))
    }

    fn answers(&self, id: &str) -> Reply {
        let path = self.session.path(&format!("/calls/{id}/result"));
        self.session.client.post(&path, &json!({"status": "ok", "output": {"answer": "this"}}))
    }

    fn statuses(&self, id: &str) -> Vec<Value> {
        let rows = self.owner.audit(&format!("kind=call&session={}&call={id}", self.session.id));
        rows.iter().map(|row| row["status"].clone()).collect()
    }

    /// The agent's session as its owner sees it.
    fn listen(&self) -> Stream {
        Stream::open(&self.owner, &format!("/v1/orgs/{}/events", self.organization))
    }
}

fn names_of(stream: &mut Stream, count: usize) -> Vec<(String, Value, Value)> {
    let event = |(name, body): (String, Value)| (name, body["call"].clone(), body["error_type"].clone());
    (0..count).map(|_| event(stream.next().expect("an event"))).collect()
}

#[test]
fn r6_a_call_that_waits_for_a_person_is_cancelled_and_no_approval_lets_it_run() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised());
        let mut stream = agent.listen();
        let waiting = agent.wants_to_pay("c1");
        assert_eq!(stream.names(2), ["tool_call", "approval"]);
        agent.session.cancel("c1").expect(204);
        assert_eq!(names_of(&mut stream, 1), [("tool_error".into(), json!("c1"), json!("CANCELLED"))]);
        assert_eq!(agent.session.get_call("c1").expect_error("CANCELLED").0["executed"], "no");
        agent.says_yes(&waiting).expect_refusal(410, "APPROVAL_EXPIRED");
        agent.wants_to_pay("c1").expect_error("CANCELLED");
        // Cancelled again, it has no second end.
        agent.session.cancel("c1").expect(204);
        assert_eq!(agent.statuses("c1"), ["cancelled", "approval_required"]);
        // The same payment under another id is asked for anew, and runs once a person says yes.
        let other = agent.wants_to_pay("c2");
        agent.says_yes(&other).expect(200);
        assert_eq!(agent.wants_to_pay("c2").status(), "ok");
        assert_eq!(stream.names(4), ["tool_call", "approval", "approval", "tool_result"]);
    });
}

#[test]
fn r6_a_call_that_waits_for_its_client_is_cancelled_and_no_result_is_taken() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised());
        let mut stream = agent.listen();
        assert_eq!(agent.wants_an_answer("c1").status(), "client_required");
        assert_eq!(stream.names(2), ["tool_call", "client"]);
        agent.session.cancel("c1").expect(204);
        assert_eq!(names_of(&mut stream, 1), [("tool_result".into(), json!("c1"), json!("CANCELLED"))]);
        assert_eq!(agent.session.get_call("c1").expect_error("CANCELLED").0["executed"], "yes");
        agent.answers("c1").expect_refusal(409, "CONFLICT");
        agent.wants_an_answer("c1").expect_error("CANCELLED");
        assert_eq!(agent.statuses("c1"), ["cancelled", "client_required"]);
        // One that has ended stays as it ended.
        agent.wants_an_answer("c2");
        agent.answers("c2").expect(200);
        agent.session.cancel("c2").expect(204);
        assert_eq!(agent.session.get_call("c2").status(), "ok");
        assert_eq!(stream.names(3), ["tool_call", "client", "tool_result"]);
        agent.session.cancel("nothing").expect_refusal(404, "NOT_FOUND");
    });
}

/// Two calls of the same kind wait for one approval.
#[test]
fn r6_a_cancelled_call_leaves_the_approval_to_the_other_that_waits_for_it() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised());
        let waiting = agent.wants_to_pay("c1");
        assert_eq!(agent.wants_to_pay("c2").0["approval"]["id"], waiting.0["approval"]["id"]);
        agent.session.cancel("c1").expect(204);
        agent.says_yes(&waiting).expect(200);
        agent.wants_to_pay("c1").expect_error("CANCELLED");
        assert_eq!(agent.wants_to_pay("c2").status(), "ok");
    });
}

#[test]
fn g6_calls_that_wait_have_an_end_when_their_session_has_one() {
    with_fixture(|fixture| {
        type End = fn(&Agent);
        let by_hand: End = |agent| drop(agent.session.client.delete(&agent.session.path("")).expect(204));
        let with_its_agent: End = |agent| {
            let shown = agent.owner.get(&agent.document()).expect(200);
            let tag = shown.header("etag").expect("a tag");
            agent.owner.send("DELETE", &agent.document(), &[("If-Match", tag)], b"").expect(204);
        };
        for end in [by_hand, with_its_agent] {
            let agent = fixture.agent(&supervised());
            let mut stream = agent.listen();
            agent.wants_to_pay("paid");
            agent.wants_an_answer("asked");
            assert_eq!(stream.names(4), ["tool_call", "approval", "tool_call", "client"]);
            end(&agent);
            let mut ends = names_of(&mut stream, 2);
            ends.sort_by_key(|(name, ..)| name.clone());
            let cancelled = |name: &str, call: &str| (name.into(), json!(call), json!("CANCELLED"));
            assert_eq!(ends, [cancelled("tool_error", "paid"), cancelled("tool_result", "asked")]);
            agent.answers("asked").expect_refusal(410, "EXPIRED");
        }
    });
}
