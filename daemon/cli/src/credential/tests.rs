use clap::Parser;

use super::super::testing::{Run, run_with};
use super::*;
use crate::client::testing::Canned;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: CredentialCommand,
}

async fn run_line(words: &[&str], answers: Vec<Canned>) -> Run {
    let line =
        Line::try_parse_from([&["credential"], words].concat()).unwrap_or_else(|error| panic!("{error}"));
    run_with(answers, false, async |client, printer| run(line.command, client, printer).await).await
}

fn secret_file(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    std::fs::write(&path, text).expect("written");
    (folder, path.to_string_lossy().into_owned())
}

fn sent_body(run: &Run) -> Value {
    serde_json::from_str(&run.asked[0].body).expect("json")
}

#[tokio::test]
async fn a_credential_is_set_with_its_secret_from_a_file() {
    let (_folder, file) = secret_file("sk_canary\n");
    let words = [
        "put",
        "acme/stripe",
        "--provider",
        "stripe",
        "--kind",
        "bearer",
        "--to",
        "https://api.stripe.com/v1/",
        "--secret-file",
        &file,
    ];
    let run = run_line(&words, vec![Canned::json(201, json!({}))]).await;
    run.result.as_ref().expect("done");
    assert_eq!(run.asked[0].line(), "PUT /v1/orgs/acme/credentials/stripe");
    assert_eq!(
        sent_body(&run),
        json!({
            "provider": "stripe", "kind": "bearer", "secret": "sk_canary",
            "bound_to": [{"scheme": "https", "host": "api.stripe.com", "path": "/v1/"}],
        })
    );
    assert!(!run.out.contains("canary") && !run.notes.contains("canary"));
}

#[tokio::test]
async fn a_document_gets_its_secret_from_elsewhere() {
    let (_one, document) = secret_file(r#"{"provider":"drive","kind":"oauth2_authorization_code"}"#);
    let (_other, file) = secret_file("cs_canary");
    let words = ["put", "acme/drive", &document, "--secret-file", &file];
    let run = run_line(&words, vec![Canned::json(201, json!({}))]).await;
    assert_eq!(
        sent_body(&run),
        json!({"provider": "drive", "kind": "oauth2_authorization_code", "secret": "cs_canary"})
    );
}

#[tokio::test]
async fn a_credential_can_name_where_in_a_vault_its_secret_is() {
    let (_folder, document) = secret_file(r#"{"provider":"stripe"}"#);
    let words = ["put", "acme/stripe", &document, "--vault", "kv/tenants/acme/stripe#key"];
    let run = run_line(&words, vec![Canned::json(201, json!({}))]).await;
    run.result.as_ref().expect("done");
    assert_eq!(sent_body(&run), json!({"provider": "stripe", "vault": "kv/tenants/acme/stripe#key"}));
}

#[tokio::test]
async fn a_credential_of_a_command_line_without_a_secret_is_wrong_usage() {
    let words =
        ["put", "acme/stripe", "--provider", "stripe", "--kind", "bearer", "--to", "https://api.stripe.com"];
    let run = run_line(&words, Vec::new()).await;
    assert!(run.result.expect_err("no secret").hint().contains("--secret-file"));
    assert!(run.asked.is_empty());
    let words = [&words[..], &["--vault", "kv/acme/stripe#key"]].concat();
    run_line(&words, vec![Canned::json(201, json!({}))]).await.result.expect("it is in the vault");
}

#[tokio::test]
async fn a_rotation_without_a_secret_is_wrong_usage() {
    let run = run_line(&["rotate", "acme/stripe"], vec![]).await;
    assert!(run.result.expect_err("no secret").hint().contains("--secret-file"));
    let (_folder, file) = secret_file("new");
    let run =
        run_line(&["rotate", "acme/stripe", "--secret-file", &file], vec![Canned::json(200, json!({}))])
            .await;
    run.result.as_ref().expect("done");
    assert_eq!(sent_body(&run), json!({"secret": "new"}));
}

#[tokio::test]
async fn a_list_shows_how_each_stands() {
    let item = json!({
        "name": "stripe", "provider": "stripe", "kind": "bearer", "user": null, "state": "sealed", "version": 3,
        "last_used_ms": null, "bound_to": [], "shared": true, "created_ms": 0, "changed_ms": 0, "expires_ms": null,
    });
    let answer = Canned::json(200, json!({"items": [item], "next_cursor": null}));
    let run = run_line(&["list", "acme"], vec![answer]).await;
    let row = "stripe  stripe    bearer  -     sealed  3        1970-01-01T00:00:00.000Z  -          -";
    assert!(run.out.contains(row), "{}", run.out);
}

#[tokio::test]
async fn connecting_prints_the_address_alone() {
    let answer = Canned::json(
        200,
        json!({"url": "https://idp.example/?state=x", "scopes": ["read"], "expires_ms": 0}),
    );
    let run = run_line(&["connect", "acme/drive"], vec![answer]).await;
    run.result.as_ref().expect("done");
    assert_eq!(run.out, "https://idp.example/?state=x\n");
    assert!(run.notes.contains("read"));
}

#[tokio::test]
async fn a_rotation_of_the_root_key_that_is_not_finished_says_what_is_left() {
    let rotated = |going: Value| Canned::json(200, json!({"serving": "ab", "rewrapped": 1, "going": going}));
    let run = run_line(&["rotate-root"], vec![rotated(json!("cd"))]).await;
    assert!(run.notes.contains("put the new one where the settings say"), "{}", run.notes);
    let run = run_line(&["rotate-root"], vec![rotated(Value::Null)]).await;
    assert_eq!((run.notes.as_str(), run.out.as_str()), ("", "the root key `ab` serves\n"));
}

#[test]
fn a_secret_is_no_argument_and_a_name_has_two_parts() {
    for words in [
        &["credential", "rotate", "acme/stripe", "--secret", "sk"][..],
        &["credential", "rotate", "acme/stripe", "sk"],
        &["credential", "rotate", "acme/stripe", "--secret-file", "a", "--secret-env", "B"],
        &["credential", "put", "acme/stripe"],
        &["credential", "put", "acme/stripe", "d.json", "--vault", "kv/a#b", "--secret-file", "a"],
        &["credential", "put", "acme/stripe", "d.json", "--kind", "bearer"],
    ] {
        assert!(Line::try_parse_from(words).is_err(), "{words:?}");
    }
    for name in ["stripe", "acme/stripe/more"] {
        assert!(path(name).is_err(), "{name}");
    }
    assert!(binding("api.stripe.com").is_err() && binding("https://a.example/?q").is_err());
    assert_eq!(binding("https://a.example:8443").expect("an address")["port"], 8443);
    assert_eq!(binding("https://a.example/v1/b").expect("an address")["path"], "/v1/b");
    assert!(binding("https://a.example/v1/../").is_err() && binding("https://a.example/v1/./b").is_err());
}
