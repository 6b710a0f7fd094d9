//! Commands that no other test runs against a daemon, each with its effect.

use std::fs;

use toolgate_tests::{PluginFile, json};

use super::terminal::{Terminal, expect, text};

/// Settings of a daemon whose organizations accept the plugins of others.
const SETTINGS: &str = "[consent]\nrequired = true\n[webhooks]\nhosts = [\"hooks.example.org\"]\n";

/// O6: with the other tests, each command has run once (`every_command_runs_in_a_test` of the daemon).
#[test]
fn o6_the_commands_that_no_other_test_runs_have_their_effects() {
    let terminal = Terminal::with_settings(SETTINGS);
    terminal.run_ok(&["org", "put", "acme", "--enabled", "*"]);
    use_plugins(&terminal);
    use_sessions(&terminal);
    use_tools(&terminal);
    use_secrets(&terminal);
    use_documents(&terminal);
}

fn use_plugins(terminal: &Terminal) {
    for version in ["1.0.0", "1.1.0"] {
        let file = PluginFile::new("sums").with_member("version", json!(version)).build();
        fs::write(terminal.folder.path().join("sums.wasm"), file).expect("a file");
        terminal.run_ok(&["plugin", "load", "sums.wasm", "--yes"]);
    }
    let shown = |member: &str| text(&terminal.read_json(&["plugin", "show", "sums"])[member]);
    terminal.run_ok(&["plugin", "rollback", "sums"]);
    assert_eq!(shown("version"), "1.0.0");
    terminal.run_ok(&["plugin", "use", "sums@1.1.0"]);
    assert_eq!(shown("version"), "1.1.0");
    terminal.run_ok(&["plugin", "disable", "sums"]);
    assert_eq!(shown("state"), "disabled");
    terminal.run_ok(&["plugin", "enable", "sums"]);
    assert_eq!(shown("state"), "active");

    let changed = PluginFile::new("sums").with_member("version", json!("1.2.0"));
    let changed = changed.with_member("purpose", json!("Answers otherwise.")).build();
    terminal.daemon.operator().upload("sums", &changed).expect(200);
    assert_eq!(shown("version"), "1.1.0", "the version before serves");
    terminal.run_ok(&["plugin", "approve", "sums", "--yes"]);
    assert_eq!(shown("version"), "1.2.0");

    expect(&terminal.run_ok(&["catalogue", "--organization", "acme", "sums"]), &["sums"]);
    let operator = terminal.daemon.operator();
    let consent = || text(&operator.get("/v1/orgs/acme/enabled/sums").expect(200).json()["consent"]);
    terminal.run_ok(&["org", "enable", "acme", "sums", "--accept", "--yes"]);
    assert_eq!(consent(), "accepted");
    terminal.run_ok(&["org", "withdraw", "acme", "sums"]);
    assert_eq!(consent(), "missing");

    let key = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    let put = ["plugin", "key", "put", "tests", "--publisher", "acme", "--namespace", "crm"];
    terminal.run_ok(&[&put[..], &["--public-key", key]].concat());
    expect(&terminal.run_ok(&["plugin", "key", "show", "tests"]), &["crm", key]);
    terminal.run_ok(&["plugin", "remove", "sums"]);
    expect(&terminal.fail(&["plugin", "show", "sums"]), &["sums"]);
}

fn use_sessions(terminal: &Terminal) {
    terminal.run_ok(&["agent", "put", "acme/bot", "--enabled", "user/ask"]);
    let session = terminal.session();
    let id = session.as_str();
    expect(&terminal.run_ok(&["session", "list", "--agent", "acme/bot"]), &[id, "open"]);
    let ask = |call: &str| json!({"id": call, "tool": "user/ask", "arguments": {"question": "Which day?"}});
    let calls = json!({"calls": [ask("answered"), ask("withdrawn")]});
    terminal.daemon.operator().post(&format!("/v1/sessions/{id}/calls"), &calls).expect(200);
    terminal.run_ok(&["session", "result", id, "answered", r#"{"answer": "Monday"}"#]);
    terminal.run_ok(&["session", "cancel", id, "withdrawn"]);
    let call = |call: &str| terminal.read_json(&["session", "call", id, call]);
    assert_eq!(call("answered")["output"]["answer"], "Monday");
    assert_eq!(call("withdrawn")["error"]["error_type"], "CANCELLED");
    expect(&terminal.run_ok(&["session", "calls", id]), &["answered", "withdrawn", "CANCELLED"]);

    let made = text(&terminal.read_json(&["token", "create", "--role", "auditor"])["id"]);
    let rotated = text(&terminal.read_json(&["token", "rotate", &made])["id"]);
    assert!(!terminal.run_ok(&["token", "list"]).contains(&made));
    terminal.run_ok(&["token", "revoke", &rotated]);
    let left = terminal.run_ok(&["token", "list"]);
    assert!(!left.contains(&made), "{left}");
}

fn use_tools(terminal: &Terminal) {
    let tool = |description: &str| {
        let action =
            json!({"name": "orders", "description": "Lists orders.", "method": "GET", "path": "/orders"});
        let tool =
            json!({"description": description, "base_url": "https://api.example.com", "actions": [action]});
        terminal.file("shop.json", &tool.to_string());
        terminal.run_ok(&["tool", "put", "acme/shop", "shop.json"]);
    };
    tool("A shop.");
    tool("Another shop.");
    let revisions = terminal.read_json(&["tool", "history", "acme/shop"]);
    assert_eq!(revisions["items"].as_array().map(Vec::len), Some(2), "{revisions}");
    terminal.run_ok(&["tool", "rollback", "acme/shop", "--yes"]);
    assert_eq!(terminal.read_json(&["tool", "show", "acme/shop"])["description"], "A shop.");

    terminal.run_ok(&["webhook", "put", "acme/chat", "https://hooks.example.org/a"]);
    expect(&terminal.run_ok(&["webhook", "list", "acme"]), &["chat"]);
    expect(&terminal.run_ok(&["webhook", "show", "acme/chat"]), &["https://hooks.example.org/a"]);
    terminal.run_ok(&["webhook", "remove", "acme/chat"]);
    terminal.fail(&["webhook", "show", "acme/chat"]);
}

fn use_secrets(terminal: &Terminal) {
    terminal.file("key", "sk_live_of_the_shop_77a1");
    terminal.file("next-key", "sk_live_of_the_shop_88b2");
    let put = ["credential", "put", "acme/shop", "--provider", "shop", "--kind", "bearer"];
    let bounds = ["--to", "https://api.example.com/", "--secret-file", "key"];
    terminal.run_ok(&[&put[..], &bounds].concat());
    terminal.run_ok(&["credential", "rotate-root"]);
    terminal.run_ok(&["credential", "rotate", "acme/shop", "--secret-file", "next-key"]);
    expect(&terminal.run_ok(&["credential", "list", "acme"]), &["shop"]);
    let shown = terminal.run_ok(&["credential", "show", "acme/shop"]);
    assert!(shown.contains("api.example.com") && !shown.contains("sk_live"), "{shown}");
    terminal.run_ok(&["credential", "remove", "acme/shop"]);
    terminal.fail(&["credential", "show", "acme/shop"]);
}

fn use_documents(terminal: &Terminal) {
    terminal.run_ok(&["org", "put", "acme", "--display-name", "Acme"]);
    let revisions = terminal.read_json(&["org", "history", "acme"]);
    assert_eq!(revisions["items"].as_array().map(Vec::len), Some(2), "{revisions}");
    terminal.run_ok(&["org", "rollback", "acme", "--yes"]);
    assert_eq!(terminal.read_json(&["org", "show", "acme"])["display_name"], json!(null));

    let assertion = json!({"name": "no-deletes", "never": {"tools": ["files/delete"]}});
    terminal.file("assertions.json", &json!({"assertions": [assertion]}).to_string());
    terminal.run_ok(&["policy", "assertions", "put", "acme", "assertions.json"]);
    expect(&terminal.run_ok(&["policy", "assertions", "show", "acme"]), &["no-deletes"]);
    terminal.run_ok(&["policy", "assertions", "remove", "acme"]);

    expect(&terminal.run_ok(&["agent", "list", "acme"]), &["bot"]);
    let revisions = terminal.read_json(&["agent", "history", "acme/bot"]);
    assert_eq!(revisions["items"].as_array().map(Vec::len), Some(1), "{revisions}");
    terminal.run_ok(&["org", "delete-data", "acme", "--yes"]);
    terminal.run_ok(&["agent", "remove", "acme/bot"]);
    terminal.fail(&["agent", "show", "acme/bot"]);
}
