//! Scripts that call other tools (T13): each inner call is gated, limited and recorded like any other.

use toolgate_tests::events::Stream;
use toolgate_tests::{CallReply, Client, Daemon, Value, guests, json};

use crate::{Agent, PROGRAM, with_fixture};

/// Loads the script guest with its grant.
pub fn load_script_guest(operator: &Client) {
    let loaded = operator.load("scripted", guests::SCRIPTED);
    let grant = json!({"calls": true, "confirmed_hints": loaded["digest"]});
    operator.make("/v1/plugins/scripted/grant", &grant).expect(201);
}

fn payment(amount: u64) -> Value {
    json!({"to": "bob", "amount": amount})
}

impl Agent {
    fn script(&self, id: &str, calls: Value) -> CallReply {
        self.session.call_as(id, "scripted/run", json!({"calls": calls}))
    }
}

#[test]
fn t13_a_script_calls_tools_and_each_call_is_a_child_in_the_log() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*", "scripted/*"]}));
        let mut events = Stream::open(&agent.owner, &format!("/v1/orgs/{}/events", agent.organization));
        let reply = agent.script("c1", json!([["pay/send", payment(5)], ["call_pay_quote", payment(6)]]));
        let results = &reply.output()["results"];
        assert_eq!(results, &json!([{"output": {"done": true}}, {"output": {"done": true}}]));

        let query = format!("kind=call&session={}&call=c1%20%231", agent.session.id);
        let inner = fixture.operator.audit(&query).remove(0);
        assert_eq!((&inner["call"]["parent"], &inner["call"]["tool"]), (&json!("c1"), &json!("pay/send")));
        assert_eq!((&inner["status"], &inner["call"]["arguments"]), (&json!("ok"), &payment(5)));
        assert_eq!(agent.session.audit_row(&fixture.operator, "c1")["call"]["parent"], Value::Null);
        let mut seen = Vec::new();
        while seen.len() < 6 {
            let (name, event) = events.next().expect("an event");
            seen.push((name, event["parent"].as_str().unwrap_or("-").to_owned()));
        }
        let seen: Vec<(&str, &str)> =
            seen.iter().map(|(name, parent)| (name.as_str(), parent.as_str())).collect();
        assert_eq!(
            seen,
            [
                ("tool_call", "-"),
                ("tool_call", "c1"),
                ("tool_result", "c1"),
                ("tool_call", "c1"),
                ("tool_result", "c1"),
                ("tool_result", "-"),
            ]
        );
    });
}

#[test]
fn t13_a_script_reads_refusals_as_errors_and_the_log_has_them() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/quote", "scripted/*"]}));
        let reply = agent.script("c1", json!([
            ["pay/send", payment(5)], ["pay/quote", {"amount": "x"}], ["no/tool", {}], ["pay/quote", payment(1)],
            ["scripted/run", {"calls": []}],
        ]));
        let results = reply.output()["results"].as_array().cloned().unwrap_or_default();
        let codes: Vec<&str> = results.iter().map(|result| result["code"].as_str().unwrap_or("ok")).collect();
        assert_eq!(codes, ["ACCESS_DENIED", "INVALID_ARGUMENTS", "TOOL_NOT_FOUND", "ok", "ACCESS_DENIED"]);
        assert!(
            results[4]["message"].as_str().is_some_and(|text| text.contains("another script")),
            "{results:?}"
        );
        let refused = format!("kind=call&session={}&call=c1%20%231", agent.session.id);
        assert_eq!(fixture.operator.audit(&refused)[0]["call"]["verdict"], "refused");
    });
}

#[test]
fn t13_a_script_without_the_grant_calls_nothing() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("scripted", guests::SCRIPTED);
    operator.make_agent("acme/bot", &json!({"enabled": ["scripted/*", "time/*"]}));
    let session = operator.open_session("acme/bot");
    let now = json!({"calls": [["time/now", {}]]});
    let refused = session.call("scripted/run", now.clone());
    assert_eq!(refused.output()["results"][0]["code"], "ACCESS_DENIED");
    operator.make("/v1/plugins/scripted/grant", &json!({"calls": true})).expect(201);
    let reply = session.call("scripted/run", now);
    assert!(reply.output()["results"][0]["output"].is_object(), "{}", reply.0);
}

#[test]
fn t13_an_inner_call_that_needs_approval_ends_the_script_which_runs_again_after_it() {
    with_fixture(|fixture| {
        let document = json!({"enabled": ["pay/*", "scripted/*"], "require_approval_for": ["pay/send"]});
        let agent = fixture.agent(&document);
        let calls = json!([
            ["pay/quote", {"to": "bob", "amount": "$random"}], ["pay/send", {"to": "bob", "amount": "$now"}],
            ["pay/quote", payment(7)],
        ]);
        let waiting = agent.script("c1", calls.clone());
        assert_eq!(waiting.status(), "approval_required", "{}", waiting.0);
        let approval = waiting.approval();
        let shown = agent.owner.get(&format!("/v1/approvals/{approval}")).expect(200).json();
        assert_eq!(shown["tool"], "pay/send", "the person sees the inner call");
        assert_eq!(
            agent.script("c1", calls.clone()).approval(),
            approval,
            "asked again, it waits for the same one"
        );
        agent.approve(&approval);
        let done = agent.script("c1", calls.clone());
        assert_eq!(done.output()["results"].as_array().map(Vec::len), Some(3), "{}", done.0);
        // The quote ran once, and the payment once.
        for (number, statuses) in
            [(1, vec!["ok"]), (2, vec!["ok", "approval_required", "approval_required"]), (3, vec!["ok"])]
        {
            let rows = fixture
                .operator
                .audit(&format!("kind=call&session={}&call=c1%20%23{number}", agent.session.id));
            let seen: Vec<&str> = rows.iter().filter_map(|row| row["status"].as_str()).collect();
            assert_eq!(seen, statuses, "call {number}");
        }
        assert_eq!(agent.script("c1", calls).output(), done.output(), "the recorded result");
    });
}

#[test]
fn t13_a_denied_or_cancelled_inner_call_ends_the_script() {
    with_fixture(|fixture| {
        let document = json!({"enabled": ["pay/*", "scripted/*"], "require_approval_for": ["pay/send"]});
        let agent = fixture.agent(&document);
        let calls = json!([["pay/send", payment(5)]]);
        let denied = agent.script("c1", calls.clone()).approval();
        agent.decide(&denied, json!({"decision": "deny", "reason": "no"})).expect(200);
        agent.script("c1", calls.clone()).expect_error("APPROVAL_DENIED");
        let withdrawn = agent.script("c2", calls).approval();
        agent.session.cancel("c2").expect(204);
        agent.decide(&withdrawn, json!({"decision": "approve"})).expect_refusal(410, "APPROVAL_EXPIRED");
    });
}

#[test]
fn t13_a_script_that_makes_another_call_after_an_approval_ends_as_a_conflict() {
    with_fixture(|fixture| {
        let enabled = json!(["pay/*", "scripted/*", "time/now"]);
        let agent = fixture.agent(&json!({"enabled": enabled, "require_approval_for": ["pay/send"]}));
        for (id, amount, disabled) in [("c1", 5, true), ("c2", 6, false)] {
            let calls =
                json!([["pay/quote", {"to": "bob", "amount": "$tools"}], ["pay/send", payment(amount)]]);
            agent.session.set_disabled("time%2Fnow", false).expect(204);
            let approval = agent.script(id, calls.clone()).approval();
            agent.session.set_disabled("time%2Fnow", disabled).expect(204);
            agent.approve(&approval);
            let again = agent.script(id, calls.clone());
            match disabled {
                true => drop(again.expect_error("CONFLICT")),
                false => drop(again.output().clone()),
            }
        }
        let paid = fixture.operator.audit(&format!("kind=call&session={}&call=c1%20%232", agent.session.id));
        assert_eq!(paid.len(), 1, "the approved call did not run: {paid:?}");
    });
}

#[test]
fn t13_inner_calls_run_in_the_slot_of_the_script_and_within_what_it_has_left() {
    let daemon = Daemon::start(PROGRAM, "[sandbox]\ninstances = 1");
    let operator = daemon.operator();
    operator.load("hostile", guests::HOSTILE);
    load_script_guest(&operator);
    let limits = json!({"inner_calls": 3, "fuel": 300_000_000u64});
    let enabled = ["scripted/*", "hostile/spin", "files/write", "time/now"];
    operator.make_agent("acme/bot", &json!({"enabled": enabled, "limits": limits}));
    let session = operator.open_session("acme/bot");
    let write = |text: &str| json!(["files/write", {"path": "a.txt", "content": text}]);
    let reply = session
        .call("scripted/run", json!({"calls": [write("a"), write("b"), ["time/now", {}], ["time/now", {}]]}));
    let results = reply.output()["results"].as_array().cloned().unwrap_or_default();
    assert_eq!(results.len(), 4);
    assert!(results[..3].iter().all(|result| result["output"].is_object()), "{results:?}");
    assert_eq!((&results[3]["code"], &results[3]["retryable"]), (&json!("QUOTA_EXCEEDED"), &json!(false)));
    // Fuel of inner calls is the script's own.
    let spins = json!({"calls": [["hostile/spin", {}], ["time/now", {}]]});
    session.call("scripted/run", spins).expect_error("FUEL_EXHAUSTED");
    // A list is charged for each tool that it looks at, also for those that the agent does not have.
    let fuel_of_list = || session.call("scripted/list", json!({})).0["usage"]["fuel"].as_u64().expect("fuel");
    let before = fuel_of_list();
    operator.load("conformance", guests::CONFORMANCE);
    let grown = fuel_of_list().saturating_sub(before);
    assert!(grown >= 10_000, "{grown} more for the 13 tools of the plugin");
}

#[test]
fn t13_a_script_lists_and_describes_the_tools_that_it_may_call() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*", "scripted/*", "user/ask"]}));
        let listed = agent.session.call("scripted/list", json!({}));
        let names: Vec<&str> = listed
            .output()
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        assert_eq!(names, ["pay/quote", "pay/send"], "neither a client's tool nor the script's own");
        let described = agent.session.call("scripted/describe", json!({"tool": "pay/send"}));
        let text = described.output().as_str().unwrap_or_default().to_owned();
        assert!(
            text.starts_with("tools.pay.send({amount: number, to: string}): Promise<unknown>\n"),
            "{text}"
        );
        agent.session.call("scripted/describe", json!({"tool": "time/now"})).expect_error("TOOL_FAILED");

        let path = agent.session.path("/tools?code=true");
        let list = agent.session.client.get(&path).expect(200).json();
        let tools = list["tools"].as_array().cloned().unwrap_or_default();
        assert_eq!(tools.len(), 1, "{list}");
        assert!(tools[0].to_string().contains("tools.pay.quote("), "{list}");
    });
}

#[test]
fn t13_calls_that_a_script_makes_at_once_run_at_once_and_answer_in_their_order() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("hostile", guests::HOSTILE);
    load_script_guest(&operator);
    let enabled = ["scripted/*", "hostile/*", "files/*", "time/now"];
    operator.make_agent("acme/bot", &json!({"enabled": enabled}));
    let session = operator.open_session("acme/bot");
    let mut events = Stream::open(&operator, &session.path("/events"));
    let calls = json!([["hostile/rest", {"ms": 400}], ["hostile/fail", {"message": "no"}], ["hostile/rest", {"ms": 400}], ["no/tool", {}]]);
    let reply = session.call("scripted/run_all", json!({"calls": calls}));
    let results = reply.output().as_array().cloned().unwrap_or_default();
    let codes: Vec<&str> = results.iter().map(|result| result["code"].as_str().unwrap_or("ok")).collect();
    assert_eq!(codes, ["ok", "TOOL_FAILED", "ok", "TOOL_NOT_FOUND"], "{results:?}");
    let mut seen = Vec::new();
    while seen.len() < 10 {
        let (name, event) = events.next().expect("an event");
        seen.push((name, event["call"].as_str().unwrap_or_default().to_owned()));
    }
    let place =
        |name: &str, call: &str| seen.iter().position(|(kind, id)| kind == name && id.ends_with(call));
    let (first_ends, third_begins) = (place("tool_result", "#1"), place("tool_call", "#3"));
    assert!(third_begins.is_some() && third_begins < first_ends, "{seen:?}");

    // Edits of one file do not lose each other.
    session.put_file("list.txt", b"a b c d e f g h").expect(204);
    let edit = |letter: char| {
        let edit =
            json!({"path": "list.txt", "old": letter.to_string(), "new": letter.to_uppercase().to_string()});
        json!(["files/edit", edit])
    };
    let edits: Vec<Value> = "abcdefgh".chars().map(edit).collect();
    session.call("scripted/run_all", json!({"calls": edits})).output();
    assert_eq!(session.get_file("list.txt").expect(200).text(), "A B C D E F G H");
    let nine: Vec<Value> = (0..9).map(|_| json!(["time/now", {}])).collect();
    let results = session.call("scripted/run_all", json!({"calls": nine})).output().clone();
    assert_eq!((results[7]["output"].is_object(), &results[8]["code"]), (true, &json!("QUOTA_EXCEEDED")));
}

#[test]
fn t13_of_calls_at_once_the_others_end_when_one_waits_for_an_approval() {
    with_fixture(|fixture| {
        let document = json!({"enabled": ["pay/*", "scripted/*"], "require_approval_for": ["pay/send"]});
        let agent = fixture.agent(&document);
        let calls = json!([
            ["pay/quote", payment(1)],
            ["pay/send", payment(2)],
            ["pay/send", payment(3)],
            ["pay/quote", payment(4)]
        ]);
        let run = || agent.session.call_as("c1", "scripted/run_all", json!({"calls": calls}));
        let first = run().approval();
        let ok = |number: u64| {
            let query = format!("kind=call&session={}&call=c1%20%23{number}", agent.session.id);
            fixture.operator.audit(&query).iter().filter(|row| row["status"] == "ok").count()
        };
        assert_eq!([ok(1), ok(2), ok(3), ok(4)], [1, 0, 0, 1], "the quotes have ended");
        agent.approve(&first);
        let second = run().approval();
        assert_ne!(first, second);
        agent.approve(&second);
        assert_eq!(run().output().as_array().map(Vec::len), Some(4));
        assert_eq!([ok(1), ok(2), ok(3), ok(4)], [1, 1, 1, 1], "each has run once");
    });
}

/// G18: a script has the output alone; the model reads the note beside the script's result.
#[test]
fn g18_the_note_of_changed_arguments_stands_beside_the_result_of_a_script() {
    with_fixture(|fixture| {
        let document = json!({"enabled": ["pay/*", "scripted/*"], "require_approval_for": ["pay/send"]});
        let agent = fixture.agent(&document);
        let calls = json!([["pay/send", payment(5)]]);
        let approval = agent.script("c1", calls.clone()).approval();
        let decision = json!({"decision": "approve", "arguments_instead": payment(4)});
        agent.decide(&approval, decision).expect(200);
        let ended = agent.script("c1", calls);
        assert_eq!(ended.output()["results"], json!([{"output": {"done": true}}]));
        let note = ended.0["content"][0]["text"].as_str().unwrap_or_default();
        assert!(note.contains("The approver changed the arguments") && note.contains(":4"), "{}", ended.0);
    });
}
