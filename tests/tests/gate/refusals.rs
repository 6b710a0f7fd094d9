//! Calls that end before they begin are recorded (9.18), and unconfirmed hints lift no approval (9.11).

use toolgate_tests::wait;

use super::*;

#[test]
fn r9_18_a_call_given_up_in_the_queue_is_recorded_and_its_id_may_be_used_again() {
    let daemon = Daemon::start(PROGRAM, "[sandbox]\ninstances = 1");
    let operator = daemon.operator();
    operator.load("hostile", guests::HOSTILE);
    operator.make_agent("acme/long", &json!({"enabled": "*"}));
    operator.make_agent("acme/short", &json!({"enabled": "*", "limits": {"deadline_ms": 200}}));
    let dozing = operator.open_session("acme/long").start_dozing("d1");
    let session = operator.open_session("acme/short");
    session.call_as("c1", "time/now", json!({})).expect_error("DEADLINE_EXCEEDED");
    let row = session.audit_row(&operator, "c1");
    assert_eq!(row["call"]["reason"], json!({"layer": "queue", "rule": "deadline"}), "{row}");
    assert_eq!((&row["call"]["tool"], &row["call"]["verdict"]), (&json!("time/now"), &json!("refused")));
    assert_eq!(
        (&row["outcome"]["error_type"], &row["outcome"]["executed"]),
        (&json!("DEADLINE_EXCEEDED"), &json!("no"))
    );
    dozing.hang_up();
    wait::until("the slot to be free", || {
        let again = session.call_as("c1", "time/now", json!({}));
        (again.error_type() != Some("DEADLINE_EXCEEDED")).then_some(())
    });
}

/// The counted refusals of a session, and the number of records that name one each.
fn refusals(operator: &Client, session: &str) -> (u64, usize) {
    let rows = operator.audit(&format!("kind=call&session={session}&limit=500"));
    let repeated = rows.iter().filter_map(|row| row["call"]["repeated"].as_u64()).sum();
    (repeated, rows.iter().filter(|row| row["call"]["repeated"].is_null()).count())
}

#[test]
fn r9_18_a_flood_of_equal_refusals_is_one_record_with_a_count() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/quote"]}));
        let operator = &fixture.operator;
        for _ in 0..60 {
            agent.session.call("pay/send", json!({"to": "bob", "amount": 1})).expect_error("ACCESS_DENIED");
        }
        // A call of another kind writes the count before its own record.
        assert_eq!(agent.session.call("pay/quote", json!({"to": "bob", "amount": 1})).status(), "ok");
        assert_eq!(refusals(operator, &agent.session.id), (40, 21));
        let rows = operator.audit(&format!("kind=call&session={}&limit=500", agent.session.id));
        let repeated: Vec<&Value> = rows.iter().filter(|row| !row["call"]["repeated"].is_null()).collect();
        assert_eq!(repeated.len(), 1, "{repeated:?}");
        assert_eq!(repeated[0]["call"]["tool"], "pay/send");
        assert_eq!(repeated[0]["outcome"]["error_type"], "ACCESS_DENIED");
        assert_eq!(operator.get("/v1/audit/verify").expect(200).json()["ok"], true);
    });
}

#[test]
fn r9_18_a_flood_of_calls_over_the_rate_is_one_record_too() {
    let daemon = Daemon::start(PROGRAM, "[rates]\ncalls_per_second = 1\nburst = 1\n");
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["time/now"]}));
    let session = operator.open_session("acme/bot");
    let answers: Vec<_> = (0..100).map(|_| session.call("time/now", json!({}))).collect();
    let limited = answers.iter().filter(|answer| answer.error_type() == Some("RATE_LIMITED")).count();
    assert!(limited >= 40, "{limited}");
    session.call("files/list", json!({})).expect_error("ACCESS_DENIED");
    let (counted, rows) = refusals(&operator, &session.id);
    assert!(counted >= 20, "{counted}");
    assert_eq!(counted + u64::try_from(rows).expect("a number"), 101);
}

#[test]
fn r9_18_counted_refusals_survive_an_orderly_stop() {
    let mut daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["time/now"]}));
    let session = operator.open_session("acme/bot");
    for _ in 0..30 {
        session.call("files/list", json!({})).expect_error("ACCESS_DENIED");
    }
    daemon.terminate();
    daemon.wait_for_exit();
    let daemon = daemon.crash_and_restart();
    assert_eq!(refusals(&daemon.operator(), &session.id), (10, 20));
}

#[test]
fn r9_18_a_flood_of_equal_refused_openings_is_counted() {
    let mut daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["time/now"]}));
    operator.make_agent("acme/idle", &json!({"enabled": []}));
    let open = |agent: &str| operator.post("/v1/sessions", &json!({"agent": agent}));
    for _ in 0..40 {
        open("acme/nosuch").expect_refusal(404, "NOT_FOUND");
        open("acme/idle").expect_refusal(409, "NO_TOOLS");
    }
    open("acme/bot").expect(201);
    open("acme/bot").expect(201);
    daemon.terminate();
    daemon.wait_for_exit();
    let daemon = daemon.crash_and_restart();
    let rows = daemon.operator().audit("kind=admin&action=session.open&limit=500");
    let recorded = |agent: &str, outcome: &str| {
        let of_agent =
            rows.iter().filter(|row| row["admin"]["target"] == agent && row["admin"]["outcome"] == outcome);
        let counts: Vec<u64> =
            of_agent.map(|row| row["admin"]["details"]["repeated"].as_u64().unwrap_or(1)).collect();
        (counts.iter().sum::<u64>(), counts.len())
    };
    for (agent, outcome) in [("acme/nosuch", "NOT_FOUND"), ("acme/idle", "NO_TOOLS")] {
        let (attempts, records) = recorded(agent, outcome);
        assert_eq!(attempts, 40, "{agent}: {rows:?}");
        assert!(records < 10, "{agent}: {records}");
    }
    assert_eq!(recorded("acme/bot", "ok"), (2, 2));
}

#[test]
fn r9_11_an_uploads_hints_count_once_an_operator_has_confirmed_them_for_its_digest() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let digest = operator.load("pay", &payments("1.0.0"))["digest"].clone();
    operator.make_agent("acme/bot", &json!({"enabled": ["pay/*", "time/*"], "autonomy": "supervised"}));
    let session = operator.open_session("acme/bot");
    let quote = |id: &str| session.call_as(id, "pay/quote", json!({"to": "bob", "amount": 1}));
    let state = || {
        let tools = operator.get("/v1/plugins/pay").expect(200).json()["tools"].clone();
        let quote =
            tools.as_array().and_then(|tools| tools.iter().find(|tool| tool["name"] == "quote")).cloned();
        quote.unwrap_or_default()["hints_state"].clone()
    };
    assert_eq!((quote("c1").status(), state()), ("approval_required", json!("unconfirmed")));
    assert_eq!(session.call("time/now", json!({})).status(), "ok", "built-in plugins come confirmed");
    let grant = "/v1/plugins/pay/grant";
    operator.make(grant, &json!({"confirmed_hints": "yes"})).expect_refusal(422, "INVALID_POLICY");
    operator.make(grant, &json!({"confirmed_hints": digest})).expect(201);
    assert_eq!((quote("c2").status(), state()), ("ok", json!("confirmed")));
    let explained = operator.get("/v1/orgs/acme/agents/bot/explain?tool=pay/quote").expect(200).json();
    assert_eq!(explained["tools"][0]["details"]["hints_state"], "confirmed");
    // Another version is not confirmed.
    operator.load("pay", &payments("1.0.1"));
    assert_eq!((quote("c3").status(), state()), ("approval_required", json!("unconfirmed")));
}
