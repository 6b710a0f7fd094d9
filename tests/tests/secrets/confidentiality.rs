//! Confidentiality of secrets, and the effects of a credential on its integration.

use std::fs;
use std::path::Path;

use super::*;

fn bytes_below(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            bytes.extend(bytes_below(&path));
        } else if path.is_file() {
            bytes.extend(fs::read(&path).expect("a file"));
        }
    }
    bytes
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn k1_a_secret_is_in_no_response_log_record_or_file() {
    let (mut daemon, operator) = daemon("[log]\nlevel = \"trace\"\n");
    let mut answers = String::new();
    let mut note = |reply: toolgate_tests::Reply| {
        answers += &reply.text();
        reply
    };
    note(put(&operator, STRIPE, &bearer(CANARY))).expect(201);
    note(operator.get(STRIPE)).expect(200);
    note(operator.get("/v1/orgs/acme/credentials")).expect(200);
    note(operator.post(&format!("{STRIPE}/rotate"), &json!({"secret": CANARY}))).expect(200);
    // Secrets in invalid documents are confidential too.
    for wrong in [
        json!({"kind": CANARY}),
        json!(CANARY),
        json!([CANARY]),
        json!({"provider": "stripe", "kind": "bearer", "secret": {"is": CANARY}, "bound_to": []}),
        json!({"provider": "stripe", "kind": "bearer", "secret": format!("{CANARY}\n"), "bound_to": [{"host": "a.example"}]}),
    ] {
        note(put(&operator, STRIPE, &wrong)).expect_refusal(400, "INVALID_REQUEST");
    }
    note(operator.post("/v1/unseal", &json!({"key": CANARY}))).expect_refusal(400, "INVALID_REQUEST");
    let records = operator.audit("kind=admin&limit=100");
    let records = Value::Array(records).to_string();
    assert!(records.contains("credential.put") && records.contains("acme/stripe"), "{records}");
    daemon.crash();
    let files = bytes_below(&daemon.data());
    for (place, bytes) in [
        ("answers", answers.as_bytes()),
        ("audit", records.as_bytes()),
        ("log", daemon.log_text().as_bytes()),
    ] {
        assert!(!holds(bytes, CANARY), "the {place} hold the secret");
    }
    assert!(!holds(&files, CANARY), "a file holds the secret");
    // Positive twin of the search.
    assert!(holds(&files, "api.stripe.com") && holds(daemon.log_text().as_bytes(), "serving"));
}

#[test]
fn g8_a_credential_connects_its_integration_in_open_sessions() {
    let (_daemon, operator) = daemon("");
    let session = operator.open_session("acme/bot");
    session.call("pay/answer", json!({})).expect_error("INTEGRATION_MISSING");
    assert!(!has_tool(&session));
    put(&operator, STRIPE, &bearer(CANARY)).expect(201);
    assert!(has_tool(&session));
    assert_eq!(*session.call("pay/answer", json!({})).output(), json!(1));
    operator.delete(STRIPE).expect(204);
    session.call("pay/answer", json!({})).expect_error("INTEGRATION_MISSING");
}

#[test]
fn g8_an_integration_ends_when_its_credential_expires() {
    let (_daemon, operator) = daemon("");
    let session = operator.open_session("acme/bot");
    // On a busy machine a credential may expire before the tools are listed.
    toolgate_tests::wait::until_true("a credential that is good", || {
        let now_ms = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis();
        let mut document = bearer(CANARY);
        document["expires_ms"] = json!(u64::try_from(now_ms).expect("a time") + 1_500);
        put(&operator, STRIPE, &document);
        has_tool(&session)
    });
    toolgate_tests::wait::until_true("the credential to end", || !has_tool(&session));
    assert_eq!(operator.get(STRIPE).expect(200).json()["state"], "expired");
}

/// K2: a secret that is too short to be masked is refused, as is a binding to plain HTTP that no operator named (K4).
#[test]
fn k2_a_secret_too_short_to_be_masked_is_refused() {
    let (_daemon, operator) = daemon("[credentials]\nplain_http = [\"localhost:8080\"]");
    operator.make(STRIPE, &bearer("abc12")).expect_refusal(400, "INVALID_REQUEST");
    let mut plain = bearer("abc123");
    plain["bound_to"] = json!([{"scheme": "http", "host": "localhost", "port": 8081}]);
    let refused = operator.make(STRIPE, &plain).expect_refusal(400, "INVALID_REQUEST");
    assert!(refused.text().contains("`localhost:8081` in `credentials.plain_http`"), "{}", refused.text());
    operator.get(STRIPE).expect_refusal(404, "NOT_FOUND");
    plain["bound_to"][0]["port"] = json!(8080);
    operator.make(STRIPE, &plain).expect(201);
    operator
        .post(&format!("{STRIPE}/rotate"), &json!({"secret": "abc12"}))
        .expect_refusal(400, "INVALID_REQUEST");
    operator.post(&format!("{STRIPE}/rotate"), &json!({"secret": "abc124"})).expect(200);
}

#[test]
fn a_credential_is_replaced_only_with_its_etag_if_sent() {
    let (_daemon, operator) = daemon("");
    let first = put(&operator, STRIPE, &bearer(CANARY)).expect(201);
    let tag = first.header("etag").expect("a tag").to_owned();
    put(&operator, STRIPE, &bearer("another")).expect(200);
    let headers = [("Content-Type", "application/json"), ("If-Match", tag.as_str())];
    let body = bearer("latest").to_string();
    operator.send("PUT", STRIPE, &headers, body.as_bytes()).expect_refusal(412, "CONFLICT");
    operator.make(STRIPE, &bearer("latest")).expect_refusal(412, "CONFLICT");
    let shown = operator.replace(STRIPE, &bearer("thirdly")).expect(200).json();
    assert_eq!((&shown["version"], &shown["state"]), (&json!(3), &json!("connected")));
}

#[test]
fn deleting_an_organization_deletes_its_credentials() {
    let (_daemon, operator) = daemon("");
    put(&operator, STRIPE, &bearer(CANARY)).expect(201);
    let tag = operator.get("/v1/orgs/acme").expect(200).header("etag").expect("a tag").to_owned();
    operator.send("DELETE", "/v1/orgs/acme", &[("If-Match", &tag)], b"").expect(204);
    operator.get(STRIPE).expect_refusal(404, "NOT_FOUND");
    operator.make_organization("acme");
    operator.get(STRIPE).expect_refusal(404, "NOT_FOUND");
}
