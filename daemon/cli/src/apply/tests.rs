use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::problem::Problem;

use super::super::testing::{Run, run_with};
use super::*;
use crate::TlsFiles;
use crate::client::testing::{Canned, FakeDaemon};
use crate::folder::tests::{TOOL, folder};

const FILES: [(&str, &str); 2] = [
    ("orgs/acme/policy.json", r#"{"enabled": ["files/*"]}"#),
    ("orgs/acme/agents/bot.json", r#"{"enabled": ["files/read"]}"#),
];

async fn apply(files: &[(&str, &str)], dry_run: bool, answers: Vec<Canned>) -> Run {
    apply_with(files, dry_run, false, answers).await
}

async fn apply_with(files: &[(&str, &str)], dry_run: bool, prune: bool, answers: Vec<Canned>) -> Run {
    let folder = folder(files);
    let options = FolderOptions { folder: folder.path().to_owned(), dry_run, prune, owner: None };
    run_with(answers, false, async |client, printer| run(options, client, printer).await).await
}

fn missing() -> Canned {
    Canned::refusal(CallError::new(ErrorType::NotFound, "none", ""))
}

fn stored_document(text: &str, etag: &'static str) -> Canned {
    Canned::json(200, serde_json::from_str(text).expect("json")).with_etag(etag)
}

/// The answer to a tag that is no longer current.
fn stale_tag() -> Canned {
    Canned::json(412, json!(Problem::new(CallError::new(ErrorType::Conflict, "changed", ""), 412)))
}

/// The answer to a dry run.
fn acceptance() -> Canned {
    Canned::json(200, json!({"warnings": []}))
}

fn preview() -> Canned {
    Canned::json(
        200,
        json!({"warnings": [], "members": ["enabled"], "agents": [], "unchanged": 1, "complete": true}),
    )
}

#[tokio::test]
async fn a_wrong_file_is_named_and_nothing_is_sent() {
    let files = [FILES[0], ("orgs/acme/agents/bad.json", r#"{"enabeld": []}"#)];
    let run = apply(&files, false, vec![]).await;
    let failure = run.result.expect_err("a wrong file");
    assert!(failure.to_string().starts_with("nothing was applied"), "{failure}");
    assert!(run.notes.contains("bad.json") && run.notes.contains("enabled"), "{}", run.notes);
    assert!(run.asked.is_empty());
}

#[tokio::test]
async fn changes_are_shown_and_written_on_the_tags_that_were_read() {
    let before = stored_document(r#"{"enabled": ["a/*"]}"#, "\"3\"");
    let written = || Canned::json(200, json!({"warnings": []})).with_etag("\"9\"");
    let tool = json!({"tool": "a/b", "before": "allowed", "after": "refused", "layer": "organization"});
    let agents = json!([{"agent": "acme/bot", "tools": [tool]}]);
    let preview = json!({"warnings": [], "members": [], "agents": agents, "unchanged": 1, "complete": true});
    let preview = Canned::json(200, preview);
    let run = apply(
        &FILES,
        false,
        vec![before, missing(), acceptance(), preview, acceptance(), written(), written()],
    )
    .await;
    run.result.expect("applied");
    assert!(run.out.contains("\n    acme/bot: a/b: allowed → refused\n"), "{}", run.out);
    assert_eq!(run.asked[2].line(), "PUT /v1/orgs/acme/policy?dry_run=true");
    assert_eq!(run.asked[3].line(), "POST /v1/orgs/acme/policy/diff");
    assert_eq!(run.asked[4].line(), "PUT /v1/orgs/acme/agents/bot?dry_run=true");
    assert_eq!(run.asked[5].line(), "PUT /v1/orgs/acme/policy");
    assert_eq!(run.asked[5].header("if-match"), Some("\"3\""));
    assert_eq!(run.asked[6].line(), "PUT /v1/orgs/acme/agents/bot");
    assert_eq!(run.asked[6].header("if-none-match"), Some("*"));
    assert!(run.out.contains("change policy of `acme`\n    - /enabled/*: \"a/*\""), "{}", run.out);
    assert!(run.out.contains("create agent `acme/bot`"), "{}", run.out);
    assert!(run.out.ends_with("2 written, 0 deleted\n"), "{}", run.out);
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let answers = vec![missing(), missing(), acceptance(), preview(), acceptance()];
    let run = apply(&FILES, true, answers).await;
    run.result.expect("shown");
    let writes = run.asked.iter().filter(|asked| asked.method == "PUT");
    assert!(writes.into_iter().all(|asked| asked.line().ends_with("?dry_run=true")), "{:?}", run.asked);
    assert!(run.out.contains("create policy of `acme`"), "{}", run.out);
}

#[tokio::test]
async fn settings_of_a_plugin_are_written_without_its_consent() {
    let files = [("orgs/acme/settings/mail.json", r#"{"region": "eu"}"#)];
    let view = json!({"namespace": "mail", "config": {"region": "us"}, "consent": "accepted"});
    let answers =
        vec![Canned::json(200, view).with_etag("\"3\""), acceptance(), Canned::json(200, json!({}))];
    let run = apply(&files, false, answers).await;
    run.result.expect("applied");
    assert_eq!(run.asked[2].line(), "PUT /v1/orgs/acme/enabled/mail");
    assert_eq!(run.asked[2].body, r#"{"config":{"region": "eu"}}"#);
    assert!(run.out.contains("- /config/region: \"us\""), "{}", run.out);
}

#[tokio::test]
async fn a_folder_that_is_in_force_changes_nothing() {
    let answers = vec![stored_document(FILES[0].1, "\"3\""), stored_document(FILES[1].1, "\"4\"")];
    let run = apply(&FILES, false, answers).await;
    run.result.expect("nothing to do");
    assert_eq!((run.asked.len(), run.out.as_str()), (2, "nothing to change\n"));
}

#[tokio::test]
async fn a_concurrent_change_is_told_and_what_was_written_is_taken_back() {
    let before = stored_document(r#"{"enabled": ["a/*"]}"#, "\"3\"");
    let written = Canned::json(200, json!({"warnings": []})).with_etag("\"9\"");
    let restored = Canned::json(200, json!({"warnings": []})).with_etag("\"10\"");
    let run = apply(
        &FILES,
        false,
        vec![before, missing(), acceptance(), preview(), acceptance(), written, stale_tag(), restored],
    )
    .await;
    let failure = run.result.expect_err("raced");
    assert!(failure.to_string().contains("agent `acme/bot` was changed by another write"), "{failure}");
    let last = run.asked.last().expect("a request");
    assert_eq!((last.line(), last.header("if-match")), ("PUT /v1/orgs/acme/policy".into(), Some("\"9\"")));
    assert_eq!(last.body, r#"{"enabled":["a/*"]}"#);
}

#[tokio::test]
async fn pruning_deletes_what_the_folder_does_not_have_on_the_tags_that_were_read() {
    let list = |items: Value| Canned::json(200, json!({"items": items, "next_cursor": null}));
    let answers = vec![
        list(json!([{"name": "bot", "etag": "\"7\"", "document": {}}])),
        list(json!([])),
        list(json!([])),
        Canned::json(200, json!({"items": []})),
        missing(),
        stored_document(FILES[1].1, "\"7\""),
        stored_document(FILES[0].1, "\"3\""),
        Canned::empty(204),
    ];
    let run = apply_with(&FILES[..1], false, true, answers).await;
    run.result.expect("pruned");
    let last = run.asked.last().expect("a request");
    assert_eq!(
        (last.line(), last.header("if-match")),
        ("DELETE /v1/orgs/acme/agents/bot".into(), Some("\"7\""))
    );
    assert_eq!(run.out, "delete agent `acme/bot`\n0 written, 1 deleted\n");
}

#[tokio::test]
async fn pruning_for_an_owner_deletes_what_its_token_wrote_last_and_no_webhook() {
    let folder = folder(&FILES[..1]);
    let options = FolderOptions {
        folder: folder.path().to_owned(),
        dry_run: false,
        prune: true,
        owner: Some("pipeline".to_owned()),
    };
    let list = |items: Value| Canned::json(200, json!({"items": items, "next_cursor": null}));
    let written_by = |labels: &[&str]| {
        let items: Vec<_> = labels
            .iter()
            .map(|label| json!({"revision": 1, "author": "t", "author_label": label, "written_at": 1, "deleted": false}))
            .collect();
        Canned::json(200, json!({"items": items}))
    };
    let answers = vec![
        list(json!([{"name": "bot"}, {"name": "made-by-hand"}])),
        list(json!([])),
        list(json!([])),
        Canned::json(
            200,
            json!({"items": [{"name": "chat", "url": "https://chat.test", "events": [], "state": "active", "created_at": 1, "changed_at": 1}]}),
        ),
        missing(),
        written_by(&["pipeline", "desk"]),
        written_by(&["desk", "pipeline"]),
        stored_document(FILES[1].1, "\"7\""),
        stored_document(FILES[0].1, "\"3\""),
        Canned::empty(204),
    ];
    let run = run_with(answers, false, async |client, printer| run(options, client, printer).await).await;
    run.result.expect("pruned");
    assert_eq!(run.asked[5].line(), "GET /v1/history?kind=agent&organization=acme&name=bot");
    assert_eq!(run.out, "delete agent `acme/bot`\n0 written, 1 deleted\n");
}

/// Standard error of a person who closed it.
struct Closed;

impl std::io::Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_closed_standard_error_leaves_no_half_of_a_folder() {
    let before = stored_document(r#"{"enabled": ["a/*"]}"#, "\"3\"");
    let warning =
        json!({"code": "UNRESOLVED_TOOL", "message": "no tool `files/*` is loaded", "path": "/enabled/0"});
    let written = Canned::json(200, json!({"warnings": [warning]})).with_etag("\"9\"");
    let restored = Canned::json(200, json!({"warnings": []})).with_etag("\"10\"");
    let daemon = FakeDaemon::start(vec![
        before,
        missing(),
        acceptance(),
        preview(),
        acceptance(),
        written,
        stale_tag(),
        restored,
    ])
    .await;
    let client = Client::new(daemon.server(), None, &TlsFiles::default()).expect("a client");
    let folder = folder(&FILES);
    let options =
        FolderOptions { folder: folder.path().to_owned(), dry_run: false, prune: false, owner: None };
    let mut out = Vec::new();
    let failure =
        run(options, &client, &mut Printer::new(&mut out, &mut Closed, false).assume_yes(true)).await;
    failure.expect_err("raced");
    let lines: Vec<_> = daemon.requests().iter().skip(5).map(|asked| asked.line()).collect();
    let policy = "PUT /v1/orgs/acme/policy";
    assert_eq!(lines, [policy, "PUT /v1/orgs/acme/agents/bot", policy]);
}

#[tokio::test]
async fn a_write_without_a_response_is_not_called_undone() {
    let before = stored_document(r#"{"enabled": ["a/*"]}"#, "\"3\"");
    let written = Canned::json(200, json!({"warnings": []})).with_etag("\"9\"");
    let answers = vec![
        before,
        missing(),
        acceptance(),
        preview(),
        acceptance(),
        written.clone(),
        Canned::hang_up(),
        written,
    ];
    let run = apply(&FILES, false, answers).await;
    let failure = run.result.expect_err("no response").to_string();
    assert!(failure.starts_with("agent `acme/bot` may be written, and no other document is"), "{failure}");
    assert_eq!(run.asked.last().map(|asked| asked.line()), Some("PUT /v1/orgs/acme/policy".into()));
}

#[tokio::test]
async fn the_secret_of_a_new_webhook_is_shown_if_a_deletion_fails() {
    let list = |items: Value| Canned::json(200, json!({"items": items, "next_cursor": null}));
    let answers = vec![
        list(json!([{"name": "bot", "etag": "\"7\"", "document": {}}])),
        list(json!([])),
        list(json!([])),
        Canned::json(200, json!({"items": []})),
        missing(),
        stored_document(FILES[1].1, "\"7\""),
        missing(),
        acceptance(),
        Canned::json(201, json!({"secret": "shown-once"})),
        stale_tag(),
    ];
    let files = [("orgs/acme/webhooks/chat.json", r#"{"url": "https://chat.example.org"}"#)];
    let run = apply_with(&files, false, true, answers).await;
    let failure = run.result.expect_err("raced").to_string();
    assert!(failure.starts_with("everything is written, 0 documents are deleted"), "{failure}");
    assert!(run.notes.contains("shown-once"), "{}", run.notes);
}

/// A policy that names a new tool, the tool, and the grant by which its server may be asked for its tools.
const NEW_TOOL: [(&str, &str); 3] = [
    ("orgs/acme/policy.json", r#"{"enabled": ["shop/*"]}"#),
    ("orgs/acme/tools/shop.json", TOOL),
    ("orgs/acme/grants/shop.json", r#"{"network": [{"host": "api.shop.example"}]}"#),
];

/// The answers to the reads and checks of [`NEW_TOOL`].
fn answers_to_checks() -> Vec<Canned> {
    let denial = refusal(ErrorType::NetworkDenied);
    vec![missing(), stored_document("{}", "\"3\""), missing(), acceptance(), acceptance(), denial]
}

#[tokio::test]
async fn a_tool_is_written_after_its_grant_and_the_policy_that_names_it() {
    let unresolved = |entry: usize, tool: &str| {
        let message = format!("no loaded tool answers to `{tool}`");
        json!({"code": "UNRESOLVED_TOOL", "path": format!("/enabled/{entry}"), "message": message, "tool": tool})
    };
    let (known, other, misspelt) =
        (unresolved(0, "shop/*"), unresolved(1, "shup/*"), unresolved(2, "shop/serch"));
    let mut answers = answers_to_checks();
    answers.push(Canned::json(201, json!({"warnings": []})).with_etag("\"4\""));
    let before = json!({"warnings": [known, other, misspelt]});
    answers.push(Canned::json(200, before).with_etag("\"5\""));
    answers.push(Canned::json(201, json!({})).with_etag("\"6\""));
    answers.push(Canned::json(200, json!({"warnings": [other, misspelt]})));
    let run = apply(&NEW_TOOL, false, answers).await;
    run.result.expect("applied");
    let lines: Vec<_> = run.asked.iter().skip(6).map(|asked| asked.line()).collect();
    let tool = "PUT /v1/orgs/acme/tools/shop";
    let warnings = "GET /v1/orgs/acme/policy/warnings";
    assert_eq!(lines, [&*format!("{tool}/grant"), "PUT /v1/orgs/acme/policy", tool, warnings]);
    let shown = ["shop/*", "shup/*", "shop/serch"].map(|tools| run.notes.matches(tools).count());
    assert_eq!(shown, [0, 1, 1], "{}", run.notes);
}

#[tokio::test]
async fn a_grant_of_a_tool_that_is_refused_allows_nothing() {
    let written = || Canned::json(200, json!({"warnings": []})).with_etag("\"9\"");
    let mut answers = answers_to_checks();
    answers.extend([written(), written(), refusal(ErrorType::NetworkDenied), written(), written()]);
    let run = apply(&NEW_TOOL, false, answers).await;
    run.result.expect_err("refused");
    let last = run.asked.last().expect("a request");
    assert_eq!((last.line(), &*last.body), ("PUT /v1/orgs/acme/tools/shop/grant".into(), "{}"));
    assert!(run.notes.contains("grant of tool `acme/shop` stays, and allows nothing"), "{}", run.notes);
}

#[tokio::test]
async fn a_new_grant_goes_with_its_tool() {
    let files = [
        NEW_TOOL[1],
        NEW_TOOL[2],
        ("orgs/acme/webhooks/chat.json", r#"{"url": "https://chat.example.org"}"#),
    ];
    let written = || Canned::json(201, json!({})).with_etag("\"9\"");
    let mut answers = vec![missing(), missing(), missing(), acceptance(), acceptance(), acceptance()];
    answers.extend([written(), written(), refusal(ErrorType::NetworkDenied), Canned::empty(204)]);
    let run = apply(&files, false, answers).await;
    run.result.expect_err("refused");
    let last = run.asked.last().expect("a request");
    assert_eq!((last.line(), run.asked.len()), ("DELETE /v1/orgs/acme/tools/shop".into(), 10));
    assert!(run.notes.contains("grant of tool `acme/shop` is as it was before"), "{}", run.notes);
}

/// The answer to a document that the daemon refuses.
fn refusal(error_type: ErrorType) -> Canned {
    Canned::refusal(CallError::new(error_type, "refused", ""))
}

#[tokio::test]
async fn a_document_that_the_daemon_refuses_is_found_before_the_first_write() {
    let files = [FILES[0], ("orgs/acme/webhooks/chat.json", r#"{"url": "https://chat.example.org"}"#)];
    let answers = vec![missing(), missing(), acceptance(), preview(), refusal(ErrorType::NetworkDenied)];
    let run = apply(&files, false, answers).await;
    let failure = run.result.expect_err("refused").to_string();
    assert!(failure.starts_with("nothing was applied: webhook `acme/chat`"), "{failure}");
    let writes = run.asked.iter().filter(|asked| asked.method == "PUT");
    assert!(writes.into_iter().all(|asked| asked.line().ends_with("?dry_run=true")), "{:?}", run.asked);
}

#[tokio::test]
async fn a_document_of_an_organization_that_the_folder_makes_is_checked_when_it_is_written() {
    let files = [
        ("orgs/acme/organization.json", "{}"),
        ("orgs/acme/webhooks/chat.json", r#"{"url": "https://chat.example.org"}"#),
    ];
    let written = || Canned::json(201, json!({}));
    let answers = vec![missing(), missing(), acceptance(), missing(), written(), written()];
    let run = apply(&files, false, answers).await;
    run.result.expect("applied");
    assert!(run.out.ends_with("2 written, 0 deleted\n"), "{}", run.out);
}
