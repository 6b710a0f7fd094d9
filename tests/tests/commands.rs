//! Administration by command line: operator, owner and approver, mistakes included.
//!
//! Each test runs the program against a running daemon, and checks exit status, standard output and standard error.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

#[path = "commands/author.rs"]
mod author;
#[path = "commands/terminal.rs"]
mod terminal;
#[path = "commands/every.rs"]
mod every;

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use toolgate_tests::daemon::run_to_end_in;
use toolgate_tests::upstream::{Upstream, answer};
use toolgate_tests::{Value, json};

use terminal::{PROGRAM, Terminal, expect};

/// Document of an agent that needs approval for every change.
const SUPERVISED: &str = r#"{"enabled": ["files/*"], "autonomy": "supervised"}"#;

#[test]
fn a_policy_is_put_shown_and_replaced_with_its_warnings() {
    let terminal = Terminal::new();
    terminal.file("acme.json", r#"{"enabled": ["files/*", "txet/*"]}"#);
    expect(&terminal.fail(&["policy", "put", "acme", "acme.json"]), &["no organization `acme`"]);
    expect(&terminal.fail(&["policy", "show", "platform"]), &["no policy"]);
    terminal.run_ok(&["org", "put", "acme"]);

    let strict = terminal.fail(&["policy", "put", "acme", "acme.json", "--strict"]);
    expect(&strict, &["`txet/*`", "(`/enabled/1`)", "did you mean `text/*`?"]);
    expect(&terminal.fail(&["policy", "show", "acme"]), &["acme"]);

    let put = terminal.run_as("operator", &["policy", "put", "acme", "acme.json"]);
    assert_eq!((put.status.code(), put.stdout.as_str()), (Some(0), "the policy of `acme` is set\n"));
    expect(&put.stderr, &["warning: ", "(`/enabled/1`)", "did you mean `text/*`?"]);

    let shown = terminal.run_as("operator", &["policy", "show", "acme"]);
    assert_eq!(
        serde_json::from_str::<Value>(&shown.stdout).expect("json"),
        json!({"enabled": ["files/*", "txet/*"]})
    );
    expect(&shown.stderr, &["did you mean `text/*`?"]);
    let machine = terminal.read_json(&["policy", "show", "acme"]);
    assert_eq!(machine["warnings"][0]["nearest"], "text/*");

    terminal.file("acme.json", r#"{"enabled": "*"}"#);
    let replaced = terminal.read_json(&["policy", "put", "acme", "acme.json", "--strict"]);
    assert_eq!(replaced["warnings"], json!([]));
    assert_ne!(replaced["etag"], machine["etag"]);
    assert_eq!(terminal.read_json(&["policy", "show", "acme"])["document"], json!({"enabled": "*"}));
}

#[test]
fn an_invalid_document_is_refused_with_its_place_and_the_nearest_name() {
    let terminal = Terminal::with_agent(SUPERVISED);
    terminal.file("platform.json", r#"{"profiles": {"reader": ["files/read"]}}"#);
    terminal.run_ok(&["policy", "put", "platform", "platform.json"]);
    for (document, parts) in [
        (r#"{"profile": "raeder"}"#, ["`raeder` (`/profile`)", "did you mean `reader`?"]),
        (r#"{"enabeld": []}"#, ["`enabeld` (`/enabeld`)", "did you mean `enabled`?"]),
        (r#"{"enabled": }"#, ["is not JSON", "line 1"]),
    ] {
        terminal.file("bot.json", document);
        expect(&terminal.fail(&["policy", "put", "acme/bot", "bot.json"]), &parts);
        expect(&terminal.fail(&["policy", "diff", "acme/bot", "bot.json"]), &parts);
    }
    terminal.file("bot.json", r#"{"profile": "reader"}"#);
    terminal.run_ok(&["policy", "put", "acme/bot", "bot.json", "--strict"]);
    expect(&terminal.fail(&["policy", "put", "acme/bot", "nosuch.json"]), &["cannot read `nosuch.json`"]);
}

#[test]
fn a_policy_diff_shows_changes_and_applies_none() {
    let terminal = Terminal::with_agent(SUPERVISED);
    terminal.file("blocked.json", r#"{"blocked": ["files/delete"]}"#);
    let diff = terminal.run_as("operator", &["policy", "diff", "platform", "blocked.json"]);
    assert_eq!(diff.status.code(), Some(0), "{}", diff.stderr);
    let rows: Vec<&str> = diff.stdout.lines().collect();
    assert_eq!(rows.len(), 2, "{}", diff.stdout);
    expect(rows[1], &["acme/bot", "files/delete", "needs approval", "refused", "platform", "blocked", "all"]);
    terminal.fail(&["policy", "show", "platform"]);
    let before = terminal.run_ok(&["policy", "explain", "acme/bot", "files/delete"]);
    expect(&before, &["acme/bot calls files/delete: needs approval"]);

    assert_eq!(
        terminal.run_ok(&["policy", "diff", "acme", "everything.json"]),
        "nothing changes about who may call what\n"
    );
    let machine = terminal.read_json(&["policy", "diff", "acme/bot", "everything.json"]);
    assert_eq!(machine["agents"][0]["agent"], "acme/bot");
    terminal.fail(&["policy", "diff", "nosuch", "everything.json"]);
}

#[test]
fn the_deciding_rule_is_marked_and_platform_rules_stay_hidden_from_owners() {
    let terminal = Terminal::with_agent(SUPERVISED);
    terminal.file(
        "platform.json",
        r#"{"blocked": ["files/delete"], "channels": {"sms": {"blocked": ["files/write"]}}}"#,
    );
    terminal.run_ok(&["policy", "put", "platform", "platform.json"]);
    terminal.new_token("owner", &["--role", "owner", "--organization", "acme"]);
    let marked = |who: &str, words: &[&str]| {
        let out = terminal.run_ok_as(who, &[&["policy", "explain", "acme/bot"], words].concat());
        let marked: Vec<String> =
            out.lines().filter(|line| line.starts_with('→')).map(str::to_owned).collect();
        assert_eq!(marked.len(), 1, "{out}");
        (out.lines().next().unwrap_or_default().to_owned(), marked[0].clone())
    };
    let (verdict, rule) = marked("operator", &["files/delete"]);
    expect(&verdict, &["acme/bot calls files/delete: refused (TOOL_DISABLED)"]);
    expect(&rule, &["✘", "platform", "blocked", "`files/delete`"]);
    let (verdict, rule) = marked("owner", &["files/delete"]);
    expect(&verdict, &["refused (TOOL_DISABLED)"]);
    expect(&rule, &["✘", "platform", "-"]);
    assert!(!rule.contains("blocked"), "{rule}");
    let (_, rule) = marked("owner", &["files/write", "--channel", "sms"]);
    expect(&rule, &["✘", "session", "channel", "sms"]);
    let (verdict, rule) = marked("owner", &["files/append"]);
    expect(&verdict, &["needs approval"]);
    expect(&rule, &["?", "agent", "autonomy"]);
    let (verdict, rule) = marked("owner", &["files/read"]);
    expect(&verdict, &["allowed"]);
    expect(&rule, &["✔", "agent", "enabled"]);

    let table = terminal.run_ok(&["policy", "explain", "acme/bot"]);
    let verdicts: Vec<u8> = table
        .lines()
        .skip(1)
        .map(|line| match line {
            line if line.contains("  allowed  ") => 0,
            line if line.contains("  needs approval  ") => 1,
            _ => 2,
        })
        .collect();
    assert!(verdicts.is_sorted() && verdicts.contains(&0) && verdicts.contains(&2), "{table}");
    expect(&terminal.fail(&["policy", "explain", "acme/nobody"]), &["no agent `acme/nobody`"]);
    expect(&terminal.fail_as("owner", &["policy", "put", "platform", "platform.json"]), &["owner"]);
}

#[test]
fn a_call_is_approved_by_another_token_as_shown_and_only_once() {
    let terminal = Terminal::with_agent(SUPERVISED);
    terminal.new_token("second", &["--role", "operator"]);
    let session = terminal.session();
    let arguments = "{\"path\": \"a.txt\",  \"content\": \"pay \u{202e}eb\u{200b}\"}";
    let approval = terminal.request_approval(&session, arguments);
    expect(&terminal.run_ok(&["approval", "list", "--org", "acme", "--state", "pending"]), &[&approval]);
    assert_eq!(terminal.read_json(&["approval", "list", "--state", "denied"]), json!({"items": []}));

    let shown = terminal.run_ok(&["approval", "show", &approval]);
    expect(
        &shown,
        &[r#"{"path": "a.txt",  "content": "pay \u{202e}eb\u{200b}"}"#, "sha256:", "acme/bot", "autonomy"],
    );
    let machine = terminal.read_json(&["approval", "show", &approval]);
    assert_eq!(machine["arguments"]["content"], "pay \u{202e}eb\u{200b}");

    expect(
        &terminal.fail(&["approval", "approve", &approval]),
        &["the token that opened the session", "another token"],
    );
    expect(&terminal.fail_as("second", &["approval", "approve", &approval, "--uses", "0"]), &["`uses` is 0"]);
    let approved = terminal.run_ok_as("second", &["approval", "approve", &approval, "--reason", "fine"]);
    expect(&approved, &["pay \\u{202e}eb", &format!("approval `{approval}` is approved: 1 call, until ")]);
    for again in [&["approval", "approve", &approval][..], &["approval", "deny", &approval]] {
        expect(&terminal.fail_as("second", again), &["it is decided already: `approved`"]);
    }
    terminal.run_ok(&["call", "--session", &session, "files/append", arguments]);
    expect(&terminal.run_ok(&["approval", "show", &approval]), &["state         used", "reason        fine"]);
    assert_ne!(terminal.request_approval(&session, arguments), approval);
    expect(&terminal.fail(&["approval", "show", "a_nosuch"]), &["no approval `a_nosuch`"]);
}

#[test]
fn calls_that_match_a_schema_are_approved_and_others_are_denied() {
    let terminal = Terminal::with_agent(SUPERVISED);
    terminal.new_token("second", &["--role", "operator"]);
    let session = terminal.session();
    let append = |content: &str| format!(r#"{{"path": "a.txt", "content": "{content}"}}"#);
    let approval = terminal.request_approval(&session, &append("one"));
    let shape = r#"{"/content": {"type": "string", "maxLength": 5}}"#;
    let approve = ["approval", "approve", &approval, "--uses", "2", "--expires-in", "600", "--arguments"];
    let misspelt = terminal.fail_as("second", &[&approve[..], &[r#"{"/contnt": {}}"#]].concat());
    expect(&misspelt, &["`/contnt`"]);
    expect(&terminal.run_ok_as("second", &[&approve[..], &[shape]].concat()), &["approved: 2 calls"]);
    terminal.run_ok(&["call", "--session", &session, "files/append", &append("one")]);
    terminal.run_ok(&["call", "--session", &session, "files/append", &append("two")]);
    let other = terminal.request_approval(&session, &append("three and more"));
    assert_ne!(other, approval);

    let denied = terminal.run_ok_as("second", &["approval", "deny", &other, "--reason", "wrong file"]);
    assert_eq!(denied, format!("approval `{other}` is denied\n"));
    expect(
        &terminal.run_ok(&["approval", "show", &other]),
        &["state         denied", "reason        wrong file"],
    );
}

#[test]
fn a_session_is_opened_shown_and_ended_and_its_tools_are_disabled() {
    let terminal = Terminal::with_agent(r#"{"enabled": ["files/*"], "autonomy": "autonomous"}"#);
    let opened = terminal.run_ok(&["session", "open", "acme/bot", "--user", "u-17", "--conversation", "c-9"]);
    expect(&opened, &["acme/bot", "u-17", "c-9", "call_files_read", "Reads a text file"]);
    let session = terminal.session();
    expect(&terminal.run_ok(&["session", "show", &session]), &[&session, "call_files_read"]);
    expect(&terminal.run_ok(&["session", "tools", &session]), &["call_files_read"]);
    let selected = terminal.run_ok(&["session", "tools", &session, "--message", "read a file"]);
    expect(&selected, &["call_files_read", "broker is off"]);
    let form = terminal.run_ok(&["session", "tools", &session, "--format", "openai"]);
    assert_eq!(serde_json::from_str::<Value>(&form).expect("json")[0]["type"], "function");

    let list = ["call", "--session", &session, "files/list"];
    terminal.run_ok(&["session", "disable", &session, "files/list"]);
    expect(&terminal.fail(&list), &["TOOL_DISABLED"]);
    let out = terminal.read_json(&["policy", "explain", "acme/bot", "files/list", "--session", &session]);
    assert_eq!(
        (&out["tools"][0]["layer"], &out["tools"][0]["rule"]),
        (&json!("session"), &json!("disabled"))
    );
    terminal.run_ok(&["session", "enable", &session, "files/list"]);
    terminal.run_ok(&list);
    expect(&terminal.fail(&["session", "disable", &session, "files/lsit"]), &["no such tool"]);

    terminal.file("june.csv", "a,b\r\n1,2\r\n");
    terminal.run_ok(&["session", "files", "put", &session, "data/june.csv", "june.csv"]);
    expect(&terminal.run_ok(&["session", "files", "list", &session]), &["data/june.csv", "file", "10"]);
    assert_eq!(terminal.run_ok(&["session", "files", "get", &session, "data/june.csv"]), "a,b\r\n1,2\r\n");
    terminal.fail(&["session", "files", "put", &session, "data/june.csv", "june.csv", "--new"]);
    terminal.run_ok(&["session", "files", "rm", &session, "data/june.csv"]);
    terminal.fail(&["session", "files", "get", &session, "data/june.csv"]);

    terminal.run_ok(&["session", "end", &session]);
    for gone in
        [&["session", "show", &session][..], &["session", "end", &session], &["session", "tools", &session]]
    {
        terminal.fail(gone);
    }
    expect(&terminal.fail(&["session", "open", "acme/nobody"]), &["no agent `acme/nobody`"]);
    expect(&terminal.fail(&["session", "open", "acme/bot", "--channel", "fax"]), &["no channel `fax`"]);
}

#[test]
fn events_are_followed_until_the_session_ends_or_a_signal_arrives() {
    let terminal = Terminal::with_agent(r#"{"enabled": ["files/*"], "autonomy": "autonomous"}"#);
    let session = terminal.session();
    let mut of_all = terminal.follow(&["events", "acme", "--json"]);
    let of_session = terminal.follow(&["session", "events", &session]);
    terminal.run_ok(&["call", "--session", &session, "files/list"]);
    let first: Value = serde_json::from_str(&of_all.line()).expect("a document a line");
    assert_eq!((&first["event"], &first["tool"]), (&json!("tool_call"), &json!("files/list")));

    terminal.run_ok(&["session", "end", &session]);
    let (lines, status) = of_session.rest();
    assert_eq!(status, Some(0), "{lines}");
    expect(&lines, &["tool_call", "tool_result", "acme/bot", "files/list", "ok"]);

    // SIGTERM, since a background process group may ignore SIGINT.
    kill_process(Pid::from_child(&of_all.child), Signal::TERM).expect("a process");
    assert_eq!(of_all.rest().1, None, "the signal did not end it");
    expect(&terminal.fail(&["events", "nosuch"]), &["no organization `nosuch`"]);
    expect(&terminal.fail(&["session", "events", "s_nosuch"]), &["session"]);
}

/// OpenAPI document with two operations, one of them unsupported.
const SHOP: &str = "\
openapi: 3.1.0
info: {title: Shop, description: What the shop has., version: '2'}
servers: [{url: 'https://api.upstream.test:8443/shop'}]
components:
  securitySchemes: {key: {type: apiKey, in: header, name: X-Api-Key}}
security: [{key: []}]
paths:
  /orders:
    get:
      operationId: listOrders
      summary: Lists orders.
      tags: [orders]
      parameters: [{name: state, in: query, schema: {type: string, enum: [open, paid]}}]
      responses: {'200': {description: They are listed.}}
  /files:
    post:
      operationId: sendFile
      tags: [orders]
      requestBody: {required: true, content: {multipart/form-data: {schema: {type: object}}}}
      responses: {'200': {description: It is there.}}
";

#[test]
fn c2_c3_an_openapi_document_is_imported_granted_tried_called_and_removed() {
    let upstream = Upstream::start();
    upstream.resolve_api();
    upstream.answer(|_| answer(200, &[("Content-Type", "application/json")], br#"{"orders": ["o_1"]}"#));
    let terminal = Terminal::with_settings(&upstream.settings());
    terminal.run_ok(&["org", "put", "acme", "--enabled", "shop/*"]);
    terminal.run_ok(&["agent", "put", "acme/bot", "--enabled", "shop/*"]);
    terminal.file("shop.yaml", SHOP);

    let import = ["plugin", "import", "openapi", "shop.yaml"];
    expect(
        &terminal.fail(&[&import[..], &["acme/shop", "--select", "tag:ordres"]].concat()),
        &["none of the 2 operations is selected"],
    );
    let wrong = terminal.run_as("operator", &[&import[..], &["acme"]].concat());
    assert_eq!(wrong.status.code(), Some(2), "{}", wrong.stderr);
    // Without a target, the definition is printed and nothing is created.
    let shown: Value = serde_json::from_str(&terminal.run_ok(&import)).expect("a definition");
    assert_eq!(shown["actions"][0]["name"], "listOrders");
    assert_eq!(terminal.read_json(&["tool", "list", "acme"])["items"], json!([]));
    // The agent is supervised, so without `--safe-methods` a GET would need approval.
    let options = ["acme/shop", "--select", "tag:orders", "--safe-methods"];
    let made = terminal.run_as("operator", &[&import[..], &options].concat());
    expect(
        &made.stdout,
        &["shop is active: call_shop_list_orders; asks for https://api.upstream.test:8443/shop"],
    );
    expect(&made.stderr, &["left out: ", "POST /files", "1 actions of 2"]);

    let tried = ["tool", "try", "acme/shop/list_orders", r#"{"state": "open"}"#];
    expect(&terminal.fail(&tried), &["INTEGRATION_MISSING", "the integration `shop` is not connected"]);
    terminal.file("key", "sk_live_of_the_shop_77a1");
    let grant = json!({"network": [{"host": "api.upstream.test", "port": 8443}], "credentials": ["shop"]});
    terminal.file("grant.json", &upstream.grant(grant).to_string());
    terminal.run_ok(&["tool", "grant", "acme/shop", "grant.json"]);
    terminal.run_ok(&[
        "credential",
        "put",
        "acme/shop",
        "--provider",
        "shop",
        "--kind",
        "api_key",
        "--header",
        "x-api-key",
        "--to",
        "https://api.upstream.test:8443/shop/",
        "--secret-file",
        "key",
    ]);
    let sent = terminal.run_as("operator", &tried);
    assert_eq!(serde_json::from_str::<Value>(&sent.stdout).expect("a result"), json!({"orders": ["o_1"]}));
    expect(
        &sent.stderr,
        &["> GET https://api.upstream.test:8443/shop/orders?state=open", "> x-api-key: ***", "< 200"],
    );

    let list = terminal.run_ok(&["tool", "list", "acme"]);
    expect(&list, &["NAMESPACE", "shop", "http", "active"]);
    terminal.run_ok(&["call", "acme/bot", "shop/list_orders", "{}"]);
    terminal.run_ok(&["tool", "remove", "acme/shop"]);
    expect(&terminal.fail(&tried), &["TOOL_NOT_FOUND", "there is no tool `shop/list_orders`"]);
}

/// O6: a folder of documents, and earlier revisions of them.
#[test]
fn o6_a_folder_is_applied_whole_or_not_at_all_and_documents_return() {
    let terminal = Terminal::new();
    let apply = |more: &[&'static str]| [&["apply", "-f", "set"][..], more].concat();
    terminal.file("set/orgs/acme/organization.json", r#"{"display_name": "Acme"}"#);
    terminal.file("set/orgs/acme/policy.json", r#"{"enabled": ["files/*"]}"#);
    terminal.file("set/orgs/acme/agents/bot.json", r#"{"enabled": ["files/read"]}"#);

    expect(
        &terminal.run_ok(&apply(&["--dry-run"])),
        &["create organization `acme`", "create agent `acme/bot`"],
    );
    expect(&terminal.fail(&apply(&[])), &["nothing was applied", "--yes"]);
    expect(&terminal.fail(&["org", "show", "acme"]), &["no organization `acme`"]);
    expect(&terminal.run_ok(&apply(&["--yes"])), &["3 written, 0 deleted"]);
    assert_eq!(terminal.run_ok(&apply(&["--yes"])), "nothing to change\n");

    // A wrong file, and a document that only the daemon can refuse, change nothing.
    let policy = || terminal.read_json(&["policy", "show", "acme"])["document"].clone();
    let before = policy();
    terminal.file("set/orgs/acme/policy.json", r#"{"enabled": ["files/*", "text/*"]}"#);
    for (wrong, part) in [(r#"{"enabeld": []}"#, "wrong.json"), (r#"{"profile": "nosuch"}"#, "`nosuch`")] {
        terminal.file("set/orgs/acme/agents/wrong.json", wrong);
        expect(&terminal.fail(&apply(&["--yes"])), &["nothing was applied", part]);
        assert_eq!(policy(), before, "{wrong}");
    }
    fs::remove_file(terminal.folder.path().join("set/orgs/acme/agents/wrong.json")).expect("removed");
    let webhook = r#"{"url": "https://hooks.example.org/a"}"#;
    for (file, document, part) in [
        ("set/grants/nosuch.json", "{}", "grant of plugin `nosuch`"),
        ("set/orgs/acme/webhooks/chat.json", webhook, "webhook `acme/chat`"),
    ] {
        terminal.file(file, document);
        expect(&terminal.fail(&apply(&["--yes"])), &["nothing was applied", part]);
        fs::remove_file(terminal.folder.path().join(file)).expect("removed");
    }
    expect(&terminal.run_ok(&apply(&["--yes"])), &["change policy of `acme`", "+ /enabled/*: \"text/*\""]);

    // A grant is there before the tool that needs it.
    let grant = r#"{"network": [{"host": "shop.example"}]}"#;
    let shop = json!({"description": "A shop.", "base_url": "https://shop.example", "actions": [
        {"name": "list", "description": "Lists.", "method": "GET", "path": "/", "input_schema": {"type": "object"}}]});
    terminal.file("set/orgs/acme/grants/shop.json", grant);
    terminal.file("set/orgs/acme/tools/shop.json", &shop.to_string());
    let made = ["create grant of tool `acme/shop`", "create tool `acme/shop`", "2 written"];
    expect(&terminal.run_ok(&apply(&["--yes"])), &made);
    assert_eq!(terminal.run_ok(&apply(&["--yes"])), "nothing to change\n");

    // A document that the folder lacks is deleted only with `--prune`.
    fs::remove_file(terminal.folder.path().join("set/orgs/acme/agents/bot.json")).expect("removed");
    assert_eq!(terminal.run_ok(&apply(&["--yes"])), "nothing to change\n");
    expect(&terminal.run_ok(&apply(&["--yes", "--prune"])), &["delete agent `acme/bot`", "1 deleted"]);
    terminal.fail(&["agent", "show", "acme/bot"]);

    let history = terminal.read_json(&["policy", "history", "acme"]);
    let revisions = history["items"].as_array().expect("revisions");
    assert_eq!(revisions.len(), 4, "four refused applies left none, the taken back one two: {history}");
    assert!(revisions.iter().all(|revision| revision["author"].is_string()), "{history}");
    let first = revisions.last().expect("a revision")["revision"].to_string();
    let shown = terminal.run_ok(&["policy", "history", "acme", "--revision", &first]);
    assert_eq!(serde_json::from_str::<Value>(&shown).expect("json"), before);
    expect(&terminal.fail(&["policy", "rollback", "acme", "--to", &first]), &["was not rolled back"]);
    terminal.run_ok(&["policy", "rollback", "acme", "--to", &first, "--yes"]);
    assert_eq!(policy(), before);
    // A deleted document returns as well.
    terminal.run_ok(&["agent", "rollback", "acme/bot", "--yes"]);
    assert_eq!(terminal.read_json(&["agent", "show", "acme/bot"]), json!({"enabled": ["files/read"]}));

    // What the daemon has changes nothing when it is applied.
    expect(&terminal.run_ok(&["export", "kept"]), &["5 documents are in `kept`"]);
    assert_eq!(terminal.run_ok(&["apply", "-f", "kept", "--yes"]), "nothing to change\n");
    expect(&terminal.fail(&["export", "kept"]), &["nothing was written", "`orgs`", "empty folder"]);

    expect(&terminal.fail(&["org", "remove", "acme"]), &["organization `acme` was not deleted", "--yes"]);
    terminal.run_ok(&["org", "remove", "acme", "--yes"]);
    terminal.fail(&["policy", "history", "acme"]);
}

/// 9.14: the sample policy can be tried.
#[test]
fn o6_the_sample_policy_is_tested_applied_and_exported() {
    let terminal = Terminal::new();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/sample_policy");
    expect(&terminal.run_ok(&["policy", "test", sample]), &["2 assertions", "7 agents", "0 broken"]);
    expect(&terminal.run_ok(&["apply", "-f", sample, "--yes"]), &["11 written, 0 deleted"]);
    expect(&terminal.run_ok(&["export", "office", "--organization", "office"]), &["9 documents"]);
    expect(&terminal.run_ok(&["export", "all"]), &["11 documents"]);
    assert_eq!(terminal.run_ok(&["apply", "-f", "all", "--yes"]), "nothing to change\n");
    // A stricter policy: the plan tells which decisions change.
    terminal.file("all/orgs/office/agents/system.json", r#"{"enabled": [], "subtype": "system"}"#);
    let plan = terminal.run_ok(&["apply", "-f", "all", "--dry-run"]);
    expect(&plan, &["change agent `office/system`"]);
}

/// O6: two applies at once do not mix.
#[test]
fn o6_of_two_applies_at_once_the_documents_of_one_are_in_force() {
    let terminal = Terminal::new();
    terminal.run_ok(&["org", "put", "acme"]);
    for round in 0..3 {
        for set in ["a", "b"] {
            let tools = format!(r#"{{"enabled": ["files/*", "{set}{round}/*"]}}"#);
            terminal.file(&format!("{set}/orgs/acme/policy.json"), &tools);
            terminal.file(&format!("{set}/orgs/acme/agents/bot.json"), &tools);
        }
        let both = ["a", "b"].map(|set| {
            Command::new(PROGRAM)
                .args(terminal.line("operator", &["apply", "-f", set, "--yes"]))
                .current_dir(terminal.folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program runs")
        });
        let ended = both.map(|apply| apply.wait_with_output().expect("an end"));
        let errors = ended.each_ref().map(|apply| String::from_utf8_lossy(&apply.stderr).into_owned());
        for (apply, error) in ended.iter().zip(&errors).filter(|(apply, _)| !apply.status.success()) {
            let parts = ["nothing was applied", "changed by another write", "apply the folder again"];
            assert!(parts.iter().all(|part| error.contains(part)), "{:?}: {error}", apply.status);
        }
        let policy = terminal.read_json(&["policy", "show", "acme"])["document"].clone();
        let agent = terminal.read_json(&["agent", "show", "acme/bot"]);
        assert_eq!(policy, agent, "round {round}: {errors:?}");
    }
}

/// O6: a context keeps server and token of a daemon.
#[test]
fn o6_a_login_is_a_context_that_later_commands_use() {
    let terminal = Terminal::new();
    let home = terminal.folder.path().display().to_string();
    let run = |words: &[&str]| {
        run_to_end_in(PROGRAM, words, terminal.folder.path(), &[("XDG_CONFIG_HOME", home.as_str())])
    };
    terminal.file("wrong", "tg_wrong");
    let refused = run(&["login", "dev", "--token-file", "wrong", &terminal.server]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
    assert!(!terminal.folder.path().join("toolgate/contexts.json").exists());
    let far =
        run(&["login", "far", "--offline", "--token-file", "wrong", "--server", "http://tools.example.org"]);
    expect(&far.stderr, &["the token is sent unencrypted"]);

    let stored = run(&["login", "dev", "--token-file", "operator", &terminal.server]);
    assert_eq!((stored.status.code(), stored.stderr.as_str()), (Some(0), ""));
    let made = run(&["org", "put", "acme"]);
    assert_eq!(made.status.code(), Some(0), "{}", made.stderr);
    // An option is stronger than the context.
    assert_eq!(run(&["org", "list", "--token-file", "wrong"]).status.code(), Some(1));
    let elsewhere = run(&["org", "list", "--context", "dev", "--server", "http://127.0.0.1:1"]);
    expect(&elsewhere.stderr, &["context `dev` is of another server"]);
    run(&["context", "use", "far"]);
    expect(&run(&["context", "list"]).stdout, &["far"]);
    let again = run(&["context", "use", "dev"]);
    assert_eq!(again.status.code(), Some(0), "{}", again.stderr);
    assert_eq!(run(&["org", "show", "acme"]).status.code(), Some(0));
    let list = run(&["context", "list"]);
    assert!(list.stdout.contains("dev") && !list.stdout.contains("tg_"), "{}", list.stdout);
    assert_eq!(run(&["context", "remove", "dev"]).status.code(), Some(0));
    assert_eq!(run(&["org", "list", "--context", "dev"]).status.code(), Some(2));
}

#[test]
fn an_invalid_command_is_a_usage_error() {
    let terminal = Terminal::new();
    for words in [
        &["policy", "show"][..],
        &["policy", "explain", "acme"],
        &["policy", "put", "acme"],
        &["approval", "approve"],
        &["approval", "list", "--state", "perhaps"],
        &["approval", "approve", "a_1", "--arguments", "{/a: 1}"],
        &["session", "open", "acme"],
        &["session", "tools", "s_1", "--format", "yaml"],
    ] {
        let ended = terminal.run_as("operator", words);
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {}", ended.stderr);
        assert!(!ended.stderr.is_empty() && ended.stdout.is_empty(), "{words:?}");
    }
}
