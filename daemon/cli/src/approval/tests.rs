use serde_json::{Value, json};
use toolgate_api::error::{CallError, ErrorType};

use super::super::testing::{Run, parse, run_with};
use super::*;
use crate::client::testing::Canned;
use crate::remote::ConnectedGroup;

async fn run_line(words: &[&str], answers: Vec<Canned>) -> Run {
    let options: ConnectedGroup<ApprovalCommand> = parse(words);
    let json = options.remote.json;
    run_with(answers, json, async |client, printer| run(options.command, client, printer).await).await
}

/// Numbers, key order and spaces that a parse and a serialization would change, and hidden characters.
const ARGUMENTS: &str = "{\"z\":1.0,  \"a\":1E2,\"to\":\"me\u{202e}\u{200b}\"}";

fn body(state: &str, uses_left: u64) -> String {
    format!(
        r#"{{"id":"a_1","state":"{state}","organization":"acme","agent":"bot","session":"s_1","call":"c1","user":"u-17",
        "conversation":null,"channel":"sms","tool":"mail/send","plugin_version":"1.2.0","plugin_digest":"sha256:ab",
        "arguments":{ARGUMENTS},"rules":{{"rule":"autonomy"}},"asked_by":"t1","created_at":0,"expires_at":60000,
        "uses_left":{uses_left}}}"#
    )
}

fn answer(state: &str, uses_left: u64) -> Canned {
    Canned { body: body(state, uses_left), ..Canned::json(200, json!(null)) }
}

#[tokio::test]
async fn everything_that_is_bound_is_shown_and_nothing_is_written_anew() {
    let run = run_line(&["show", "a_1"], vec![answer("pending", 0)]).await;
    run.result.expect("shown");
    assert_eq!(run.asked[0].line(), "GET /v1/approvals/a_1");
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(
        lines,
        [
            "approval      a_1",
            "state         pending",
            "tool          mail/send",
            r#"arguments     {"z":1.0,  "a":1E2,"to":"me\u{202e}\u{200b}"}"#,
            "plugin        1.2.0 sha256:ab",
            r#"rules         {"rule":"autonomy"}"#,
            "agent         acme/bot",
            "user          u-17",
            "channel       sms",
            "session       s_1",
            "call          c1",
            "asked         1970-01-01T00:00:00.000Z by token t1",
            "expires       1970-01-01T00:01:00.000Z",
        ]
    );
}

#[tokio::test]
async fn a_machine_gets_the_bytes_of_the_arguments() {
    let run = run_line(&["show", "a_1", "--json"], vec![answer("pending", 0)]).await;
    run.result.expect("shown");
    assert!(run.out.contains(r#""arguments": {"z":1.0,  "a":1E2,"to":"me\u202e\u200b"}"#), "{}", run.out);
    let expected: Value = serde_json::from_str(&body("pending", 0)).expect("json");
    assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json"), expected);
}

#[tokio::test]
async fn a_list_is_asked_for_and_shown_in_short() {
    let page = |next: &str| Canned {
        body: format!(r#"{{"items":[{}],"next_cursor":{next}}}"#, body("pending", 0)),
        ..Canned::json(200, json!(null))
    };
    let words = ["list", "--org", "acme", "--state", "pending"];
    let run = run_line(&words, vec![page("\"a/1\""), page("null")]).await;
    run.result.expect("listed");
    assert_eq!(run.asked[1].line(), "GET /v1/approvals?organization=acme&state=pending&cursor=a%2F1");
    assert_eq!(run.out.lines().count(), 3, "{}", run.out);
    assert!(run.out.contains("a_1  pending  acme/bot  mail/send  1970-01-01T00:00:00.000Z"), "{}", run.out);

    let run = run_line(&["list", "--json"], vec![page("null")]).await;
    assert!(run.out.contains(r#""z":1.0,  "a":1E2"#), "{}", run.out);
    assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json")["items"][0]["id"], "a_1");
}

#[tokio::test]
async fn what_is_approved_is_shown_first() {
    let run = run_line(&["approve", "a_1"], vec![answer("pending", 0), answer("approved", 1)]).await;
    run.result.expect("approved");
    assert_eq!(run.asked[1].line(), "POST /v1/approvals/a_1");
    assert_eq!(run.asked[1].body, r#"{"decision":"approve"}"#);
    assert!(run.out.starts_with("approval      a_1\n"), "{}", run.out);
    assert!(
        run.out.ends_with("approval `a_1` is approved: 1 call, until 1970-01-01T00:01:00.000Z\n"),
        "{}",
        run.out
    );
}

#[tokio::test]
async fn an_approval_of_a_shape_says_how_many_how_long_and_what_may_vary() {
    let shape = r#"{"/z": {"maximum": 1e2}}"#;
    let words = [
        "approve",
        "a_1",
        "--uses",
        "3",
        "--expires-in",
        "60",
        "--arguments",
        shape,
        "--reason",
        "r",
        "--json",
    ];
    let run = run_line(&words, vec![answer("pending", 0), answer("approved", 3)]).await;
    run.result.expect("approved");
    let sent = &run.asked[1].body;
    assert!(sent.contains(&format!(r#""arguments":{shape}"#)), "{sent}");
    let sent: Value = serde_json::from_str(sent).expect("json");
    assert_eq!((&sent["uses"], &sent["reason"]), (&json!(3), &json!("r")));
    assert!(sent["expires_at"].as_u64().expect("a time") > now_ms(), "{sent}");
    assert_eq!(serde_json::from_str::<Value>(&run.out).expect("one document")["state"], "approved");
}

#[tokio::test]
async fn a_shape_that_is_not_json_is_refused_before_anything_is_asked() {
    let run = run_line(&["approve", "a_1", "--arguments", "{/z: 1}"], vec![]).await;
    run.result.expect_err("no JSON");
    assert!(run.asked.is_empty());
}

#[tokio::test]
async fn a_denial_carries_its_reason() {
    let run = run_line(&["deny", "a_1", "--reason", "no \"such\" customer"], vec![answer("denied", 0)]).await;
    run.result.expect("denied");
    assert_eq!(run.asked[0].body, r#"{"decision":"deny","reason":"no \"such\" customer"}"#);
    assert_eq!(run.out, "approval `a_1` is denied\n");
}

#[tokio::test]
async fn a_decision_that_is_refused_is_told_in_the_daemons_words() {
    let refused = CallError::new(ErrorType::Conflict, "it is decided already: `denied`", "look at it");
    let run = run_line(&["approve", "a_1"], vec![answer("denied", 0), Canned::refusal(refused)]).await;
    let failure = run.result.expect_err("refused");
    assert_eq!(
        (failure.to_string().as_str(), failure.hint()),
        ("it is decided already: `denied`", "look at it")
    );
}

#[tokio::test]
async fn an_answer_of_some_other_program_is_called_strange() {
    let run = run_line(&["show", "a_1"], vec![Canned::json(200, json!({"id": "a_1"}))]).await;
    assert!(run.result.expect_err("strange").to_string().contains("not one of a daemon"));
}
