//! Bounds of tokens: an end, addresses, and their last use.

use toolgate_tests::{Client, Daemon, Value, json, wait};

use crate::PROGRAM;

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("a time")
}

#[test]
fn a_token_is_good_until_it_expires() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    // On a busy machine a token may expire before its first use.
    let short = wait::until("a token that is good", || {
        let made = operator.post("/v1/tokens", &json!({"role": "operator", "expires_at": now_ms() + 1_500}));
        let short = Client::new(daemon.address, made.json()["token"].as_str());
        (made.status == 201 && short.get("/v1/orgs").status == 200).then_some(short)
    });
    wait::until("the token to expire", || (short.get("/v1/orgs").status == 401).then_some(()));
    operator.post("/v1/tokens", &json!({"role": "operator", "expires_at": 1})).expect(400);
    // Only tokens that last count where the last operator is kept.
    let first =
        operator.get("/v1/tokens").expect(200).json()["items"][0]["id"].as_str().expect("an id").to_owned();
    operator.post("/v1/tokens", &json!({"role": "operator", "expires_at": now_ms() + 600_000})).expect(201);
    operator.delete(&format!("/v1/tokens/{first}")).expect(409);
}

/// K1: a token ends by default, and lasts where its maker says so. The first operator's lasts, and can be rotated.
#[test]
fn k1_a_token_ends_by_default_and_the_first_one_is_replaced_in_its_file() {
    let daemon = Daemon::start(PROGRAM, "[tokens]\ndefault_days = 30\n");
    let operator = daemon.operator();
    let make = |members: Value| {
        let mut request = json!({"role": "auditor"});
        request.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        operator.post("/v1/tokens", &request)
    };
    let before_ms = now_ms();
    let end_ms = make(json!({})).expect(201).json()["expires_at"].as_u64().expect("an end");
    let life_ms = 30 * 86_400_000;
    assert!((before_ms + life_ms..=now_ms() + life_ms).contains(&end_ms), "{end_ms}");
    assert_eq!(make(json!({"never_expires": true})).expect(201).json()["expires_at"], Value::Null);
    let named_ms = now_ms() + 600_000;
    assert_eq!(make(json!({"expires_at": named_ms})).expect(201).json()["expires_at"], named_ms);
    make(json!({"expires_at": named_ms, "never_expires": true})).expect_refusal(400, "INVALID_REQUEST");

    let old = daemon.operator_token().trim().to_owned();
    let file = daemon.data().join("operator.token");
    let rotated = std::process::Command::new(PROGRAM)
        .args(["token", "rotate", &old[3..19], "--out"])
        .arg(&file)
        .env("TOOLGATE_SERVER", format!("http://{}", daemon.address))
        .env("TOOLGATE_TOKEN", &old)
        .output()
        .expect("a process");
    assert!(rotated.status.success(), "{rotated:?}");
    operator.get("/v1/tokens").expect_refusal(401, "UNAUTHENTICATED");
    let new = std::fs::read_to_string(&file).expect("a token");
    let tokens = Client::new(daemon.address, Some(new.trim())).get("/v1/tokens").expect(200).json();
    let own = |token: &&Value| token["id"] == new[3..19];
    let own = tokens["items"].as_array().and_then(|items| items.iter().find(own)).expect("its token");
    assert_eq!((&own["role"], &own["expires_at"]), (&json!("operator"), &Value::Null));
}

/// K1: tokens and credentials that end within a week are told once at the start, and no others.
#[test]
fn k1_what_ends_within_a_week_is_logged_once() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.make("/v1/orgs/acme", &json!({})).expect(201);
    let in_days = |days: u64| now_ms() + days * 86_400_000;
    for (label, days) in [("soon", 6), ("later", 8)] {
        let token = json!({"role": "auditor", "label": label, "expires_at": in_days(days)});
        operator.post("/v1/tokens", &token).expect(201);
        let credential = json!({
            "provider": label, "kind": "bearer", "secret": "sk_0123456789", "expires_ms": in_days(days),
            "bound_to": [{"host": "api.example.com"}],
        });
        operator.make(&format!("/v1/orgs/acme/credentials/{label}"), &credential).expect(201);
    }
    let daemon = daemon.crash_and_restart();
    for event in ["token_ends", "credential_ends"] {
        let line = daemon.wait_for_log(event, |line| line.contains(event));
        assert!(line.contains("soon"), "{line}");
        assert_eq!(daemon.log_text().matches(event).count(), 1);
    }
}

#[test]
fn a_token_is_good_from_its_addresses_only_and_shows_its_last_use() {
    let mut daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let token = |addresses| operator.with_new_token(&json!({"role": "operator", "addresses": addresses}));
    token(json!(["10.0.0.0/8", "127.0.0.0/8"])).get("/v1/orgs").expect(200);
    let refused = token(json!(["10.0.0.0/8"])).get("/v1/orgs").expect_refusal(403, "FORBIDDEN").text();
    assert!(refused.contains("127.0.0.1"), "{refused}");
    for addresses in [json!([]), json!(["10.0.0.1"]), json!(["everywhere"])] {
        operator.post("/v1/tokens", &json!({"role": "operator", "addresses": addresses})).expect(400);
    }
    let listed = |client: &Client| {
        client.get("/v1/tokens").expect(200).json()["items"].as_array().cloned().unwrap_or_default()
    };
    let tokens = listed(&operator);
    assert!(
        tokens[1]["last_used_ms"]
            .as_u64()
            .is_some_and(|at_ms| at_ms >= tokens[1]["created_ms"].as_u64().unwrap_or(0))
    );
    assert_eq!(tokens[1]["addresses"], json!(["10.0.0.0/8", "127.0.0.0/8"]));
    let before = tokens[1]["last_used_ms"].clone();
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    let daemon = daemon.crash_and_restart();
    assert_eq!(listed(&daemon.operator())[1]["last_used_ms"], before, "it outlives a restart");
}

/// 9.18, O3: a token that is refused leaves a record with its address. Equal ones within a minute are counted.
#[test]
fn o3_a_request_that_is_refused_for_its_token_is_recorded_once_and_counted() {
    let mut daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.make("/v1/orgs/acme", &json!({})).expect(201);
    let elsewhere = operator.with_new_token(&json!({"role": "operator", "addresses": ["10.0.0.0/8"]}));
    elsewhere.get("/v1/orgs").expect(403);
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    owner.make("/v1/platform/policy", &json!({})).expect(403);
    // Another organization's is refused for what it asks for, and not for its token.
    owner.get("/v1/orgs/acme/agents").expect(200);
    let revoked = operator.with_new_token(&json!({"role": "operator"}));
    let id = |client: &Client| client.token.as_deref().expect("a token")[3..19].to_owned();
    operator.delete(&format!("/v1/tokens/{}", id(&revoked))).expect(204);
    for _ in 0..4 {
        revoked.get("/v1/orgs").expect(401);
    }
    Client::new(daemon.address, None).get("/v1/orgs").expect(401);
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    let daemon = daemon.crash_and_restart();
    let rows = daemon.operator().audit("action=request.refuse");
    let told: Vec<_> = rows
        .iter()
        .rev()
        .map(|row| {
            (
                &row["admin"]["principal"],
                &row["admin"]["target"],
                &row["admin"]["outcome"],
                &row["admin"]["details"],
            )
        })
        .collect();
    let details = |reason: &str| json!({"reason": reason, "address": "127.0.0.1"});
    let claimed = |more: Value| {
        let mut details = details("unknown_token");
        details["claimed"] = json!(id(&revoked));
        details.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        details
    };
    let expected = [
        (json!(id(&elsewhere)), json!("GET /v1/orgs"), json!("FORBIDDEN"), details("network")),
        (json!(id(&owner)), json!("PUT /v1/platform/policy"), json!("FORBIDDEN"), details("role")),
        (json!("unknown"), json!("GET /v1/orgs"), json!("UNAUTHENTICATED"), claimed(json!({}))),
        (json!("unknown"), json!(""), json!("UNAUTHENTICATED"), claimed(json!({"repeated": 3}))),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(who, target, outcome, details)| (who, target, outcome, details)).collect();
    assert_eq!(told, expected);
    assert_eq!(rows[1]["admin"]["organization"], Value::Null, "{rows:?}");
}
