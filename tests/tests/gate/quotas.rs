//! Quotas and usage (O4).

use toolgate_tests::{Client, Daemon, Session, Value, json, wait};

use crate::{PROGRAM, with_fixture};

/// No test runs into the end of this period.
const LONG: u32 = 31_622_400;

fn quota(name: &str, measure: &str, amount: u64) -> Value {
    json!({"name": name, "measure": measure, "amount": amount, "seconds": LONG})
}

fn with(mut quota: Value, more: Value) -> Value {
    let (Some(quota_members), Some(more)) = (quota.as_object_mut(), more.as_object()) else {
        panic!("objects")
    };
    quota_members.extend(more.clone());
    quota
}

fn set_quotas(client: &Client, organization: &str, quotas: &Value) {
    let policy = json!({"enabled": "*", "quotas": quotas});
    client.replace(&format!("/v1/orgs/{organization}/policy"), &policy).expect(200);
}

fn calculate(session: &Session) -> Result<(), (String, Value)> {
    let reply = session.call("arithmetic/evaluate", json!({"expression": "1 + 1"}));
    match reply.status() {
        "ok" => Ok(()),
        _ => Err((reply.error_type().unwrap_or_default().to_owned(), reply.0["error"]["details"].clone())),
    }
}

fn calls(client: &Client, query: &str) -> Vec<(String, u64)> {
    let report = client.get(&format!("/v1/usage?{query}")).expect(200).json();
    let items = report["items"].as_array().cloned().unwrap_or_default();
    let name = |item: &Value| {
        let named = ["agent", "user", "tool"].iter().filter_map(|property| item[property].as_str());
        named.collect::<Vec<_>>().join(" ")
    };
    items.iter().map(|item| (name(item), item["calls"].as_u64().expect("a number"))).collect()
}

#[test]
fn o4_a_quota_is_used_up_is_named_and_outlives_the_daemon() {
    let mut daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": "*"}));
    operator.make_agent("acme/other", &json!({"enabled": "*"}));
    set_quotas(&operator, "acme", &json!([with(quota("yearly", "calls", 2), json!({"per": ["agent"]}))]));
    let session = operator.open_session("acme/bot");
    assert_eq!([calculate(&session), calculate(&session)], [Ok(()), Ok(())]);
    let (error_type, details) = calculate(&session).expect_err("the third");
    assert_eq!(
        (&*error_type, &details["quota"], &details["layer"]),
        ("QUOTA_EXCEEDED", &json!("yearly"), &json!("organization"))
    );
    assert!(details["retry_after_ms"].as_u64().expect("a time") <= u64::from(LONG) * 1_000, "{details}");
    let refused = operator.audit("organization=acme&error_type=QUOTA_EXCEEDED");
    assert_eq!(refused[0]["call"]["reason"], json!({"layer": "rate", "rule": "quota"}));
    assert_eq!(calculate(&operator.open_session("acme/other")), Ok(()), "each agent has its own");

    daemon.terminate();
    daemon.wait_for_exit();
    let daemon = daemon.crash_and_restart();
    let operator = daemon.operator();
    let session = operator.open_session("acme/bot");
    assert_eq!(calculate(&session).expect_err("still used up").0, "QUOTA_EXCEEDED");
    assert_eq!(calculate(&operator.open_session("acme/other")), Ok(()), "one of two was used");
    set_quotas(&operator, "acme", &json!([with(quota("yearly", "calls", 3), json!({"per": ["agent"]}))]));
    assert_eq!(calculate(&session), Ok(()), "a greater amount counts at once");
}

#[test]
fn o4_a_call_over_a_rate_is_refused_or_waits_as_its_quota_says() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": "*"}));
        let rate = json!({"name": "pace", "measure": "calls", "amount": 1, "seconds": 2});
        set_quotas(&agent.owner, &agent.organization, &json!([rate]));
        // Consecutive calls exceed one in two seconds, unless the machine is busy.
        let (error, _) = wait::until("a call over the rate", || calculate(&agent.session).err());
        assert_eq!(error, "RATE_LIMITED");
        set_quotas(&agent.owner, &agent.organization, &json!([with(rate, json!({"action": "wait"}))]));
        assert_eq!([(); 3].map(|()| calculate(&agent.session)), [Ok(()), Ok(()), Ok(())]);
    });
}

#[test]
fn o4_a_layer_narrows_and_what_waiting_never_lifts_is_not_retryable() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({
            "enabled": "*",
            "quotas": [with(quota("none", "calls", 0), json!({"tools": ["text/*"]}))],
        }));
        set_quotas(&agent.owner, &agent.organization, &json!([quota("some", "calls", 1_000)]));
        let refused = agent.session.call("text/count", json!({"text": "a"}));
        let error = &refused.0["error"];
        assert_eq!(
            (&error["retryable"], &error["details"]["layer"]),
            (&json!(false), &json!("agent")),
            "{error}"
        );
        assert_eq!(error["details"].get("retry_after_ms"), None);
        assert_eq!(calculate(&agent.session), Ok(()), "another tool");
        for (quota, place) in [
            (json!({"name": "a", "measure": "calls", "amount": 1}), "/quotas/0/seconds"),
            (json!({"name": "a", "measure": "cals", "amount": 1, "seconds": 1}), "/quotas/0/measure"),
        ] {
            let policy = json!({"enabled": "*", "quotas": [quota]});
            let path = format!("/v1/orgs/{}/policy", agent.organization);
            let refused = agent.owner.replace(&path, &policy).expect(422).json();
            assert_eq!(refused["details"]["pointer"], place, "{refused}");
        }
    });
}

/// A quota of fuel bounds what a call gets, and an endless one uses what was left.
#[test]
fn o4_fuel_is_given_out_up_to_the_quota() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": "*"}));
        set_quotas(&agent.owner, &agent.organization, &json!([quota("fuel", "fuel", 50_000_000)]));
        assert_eq!(calculate(&agent.session), Ok(()));
        agent.session.call("hostile/spin", json!({})).expect_error("QUOTA_EXCEEDED");
        assert_eq!(calculate(&agent.session).expect_err("no fuel").0, "QUOTA_EXCEEDED");
    });
}

/// A trap loses what the guest counted last, so a call that crashed used all that it reserved.
#[test]
fn o4_a_crash_uses_the_fuel_that_the_call_reserved() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": "*", "limits": {"fuel": 100_000_000}}));
        set_quotas(&agent.owner, &agent.organization, &json!([quota("fuel", "fuel", 150_000_000)]));
        assert_eq!(calculate(&agent.session), Ok(()), "gives back what it did not use");
        agent.session.call("hostile/spin", json!({})).expect_error("FUEL_EXHAUSTED");
        set_quotas(&agent.owner, &agent.organization, &json!([quota("other", "fuel", 150_000_000)]));
        agent.session.call("hostile/panic", json!({"message": "goodbye"})).expect_error("TOOL_CRASHED");
        let rest = agent.session.call("hostile/spin", json!({})).expect_error("QUOTA_EXCEEDED");
        let details = &rest.0["error"]["details"];
        assert_eq!((&details["quota"], &details["layer"]), (&json!("other"), &json!("organization")));
        assert!(details["retry_after_ms"].is_u64(), "{details}");
    });
}

/// The totals of usage are those of the audit log.
#[test]
fn o4_usage_is_the_sum_of_the_log_by_whatever_is_asked() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": "*"}));
        for _ in 0..3 {
            assert_eq!(calculate(&agent.session), Ok(()));
        }
        agent.session.call("text/count", json!({"text": "a"}));
        agent.session.call("text/count", json!({"no": "argument"})).expect_error("INVALID_ARGUMENTS");
        agent.session.call("hostile/recurse", json!({}));
        let by = |by: &str| calls(&agent.owner, &format!("by={by}"));
        assert_eq!(by("agent"), [("bot".to_owned(), 5)], "the refused call did not run");
        assert_eq!(by("tool")[0], ("arithmetic/evaluate".to_owned(), 3));
        let rows = agent.owner.audit("kind=call&limit=100");
        let report = agent.owner.get("/v1/usage").expect(200).json();
        let report = &report["items"][0];
        for sum in ["fuel", "cpu_us", "duration_us", "egress_bytes", "cost"] {
            let logged: u64 = rows.iter().filter_map(|row| row["outcome"]["usage"][sum].as_u64()).sum();
            assert_eq!(report[sum], logged, "{sum}");
        }
        assert_eq!(report["failed"], 1, "{report}");
        let day = agent.owner.get("/v1/usage?by=day").expect(200).json();
        assert_eq!(day["items"][0]["day"].as_str().map(str::len), Some(10), "{day}");
        assert_eq!(calls(&agent.owner, "until_ms=0"), []);

        let csv = agent.owner.get("/v1/usage?by=agent&format=csv").expect(200);
        assert!(
            csv.text().starts_with("agent,calls,failed,") && csv.text().contains("\"bot\",5,1,"),
            "{}",
            csv.text()
        );
        let lines = agent.owner.get("/v1/usage?by=tool&format=json_lines").expect(200).text();
        assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{lines}");
        agent.owner.get("/v1/usage?by=planet").expect(400);
        agent.owner.get("/v1/usage?organization=another").expect(404);
    });
}
