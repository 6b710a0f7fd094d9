//! The gate from the command line: what an operator, an owner and an approver type, the wrong turns included.
//!
//! Each command is the program itself against a running daemon, so exit status, standard output and standard error are
//! what a person or a script sees.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use toolgate_tests::daemon::{ProgramOutput, run_to_end};
use toolgate_tests::upstream::{Upstream, answer};
use toolgate_tests::{Daemon, Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// A terminal with a daemon to talk to, and the token files of those who sit at it.
struct Terminal {
    daemon: Daemon,
    folder: tempfile::TempDir,
    /// The option that names the daemon.
    server: String,
}

/// A document of an agent that must ask before it changes anything.
const SUPERVISED: &str = r#"{"enabled": ["files/*"], "autonomy": "supervised"}"#;

impl Terminal {
    fn new() -> Self {
        Self::with_settings("")
    }

    fn with_settings(settings: &str) -> Self {
        let daemon = Daemon::start(PROGRAM, settings);
        let server = format!("--server=http://{}", daemon.address);
        let terminal = Self { daemon, folder: tempfile::tempdir().expect("a folder"), server };
        terminal.file("operator", &terminal.daemon.operator_token());
        terminal
    }

    /// The same with an organization that has every tool, and an agent.
    fn with_agent(document: &str) -> Self {
        let terminal = Self::new();
        terminal.file("everything.json", r#"{"enabled": "*"}"#);
        terminal.file("bot.json", document);
        terminal.does(&["org", "put", "acme"]);
        terminal.does(&["policy", "put", "acme", "everything.json"]);
        terminal.does(&["policy", "put", "acme/bot", "bot.json"]);
        terminal
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("a file");
    }

    /// Writes the token of a new principal into a file of that name.
    fn new_token(&self, name: &str, options: &[&str]) {
        self.file(name, &self.does(&[&["token", "create", "--label", name], options].concat()));
    }

    /// Types a command as somebody.
    fn types_as(&self, who: &str, words: &[&str]) -> ProgramOutput {
        run_to_end(PROGRAM, &self.line(who, words), self.folder.path())
    }

    fn line<'a>(&'a self, who: &'a str, words: &[&'a str]) -> Vec<&'a str> {
        [words, &["--token-file", who, &self.server]].concat()
    }

    /// Standard output of a command of the operator's that succeeds.
    #[track_caller]
    fn does(&self, words: &[&str]) -> String {
        self.does_as("operator", words)
    }

    #[track_caller]
    fn does_as(&self, who: &str, words: &[&str]) -> String {
        let ended = self.types_as(who, words);
        assert_eq!(ended.status.code(), Some(0), "{words:?}: {}\n{}", ended.stdout, ended.stderr);
        ended.stdout
    }

    /// The same as JSON.
    #[track_caller]
    fn gets(&self, words: &[&str]) -> Value {
        let out = self.does(&[words, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{words:?}: {error}: {out}"))
    }

    /// Standard error of a command that is refused: a message and a hint.
    #[track_caller]
    fn fails_as(&self, who: &str, words: &[&str]) -> String {
        let ended = self.types_as(who, words);
        assert_eq!(ended.status.code(), Some(1), "{words:?}: {}\n{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains("error: ") && ended.stderr.contains("\n hint: "), "{}", ended.stderr);
        ended.stderr
    }

    #[track_caller]
    fn fails(&self, words: &[&str]) -> String {
        self.fails_as("operator", words)
    }

    fn session(&self) -> String {
        text(&self.gets(&["session", "open", "acme/bot"])["session"])
    }

    /// The approval that a call waits for.
    fn asks(&self, session: &str, arguments: &str) -> String {
        let error = self.fails(&["call", "--session", session, "files/append", arguments]);
        has(&error, &["the call waits for a person"]);
        error.split('`').nth(1).expect("the approval's name").to_owned()
    }

    /// Starts a command that goes on, and waits until it listens.
    fn follows(&self, words: &[&str]) -> Followed {
        let mut child = Command::new(PROGRAM)
            .args(self.line("operator", words))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut notes = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut first = String::new();
        notes.read_line(&mut first).expect("a note");
        assert!(first.starts_with("listening"), "{first}");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Followed { child, out }
    }
}

struct Followed {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Followed {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line
    }

    /// What came until the end, and the exit status.
    fn rest(mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("text");
        (rest, self.child.wait().expect("an end").code())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}`: {text}");
    }
}

#[test]
fn a_policy_is_put_shown_and_replaced_and_what_is_odd_about_it_is_said() {
    let terminal = Terminal::new();
    terminal.file("acme.json", r#"{"enabled": ["files/*", "txet/*"]}"#);
    has(&terminal.fails(&["policy", "put", "acme", "acme.json"]), &["no organization `acme`"]);
    has(&terminal.fails(&["policy", "show", "platform"]), &["no policy"]);
    terminal.does(&["org", "put", "acme"]);

    let strict = terminal.fails(&["policy", "put", "acme", "acme.json", "--strict"]);
    has(&strict, &["`txet/*`", "(`/enabled/1`)", "did you mean `text/*`?"]);
    has(&terminal.fails(&["policy", "show", "acme"]), &["acme"]);

    let put = terminal.types_as("operator", &["policy", "put", "acme", "acme.json"]);
    assert_eq!((put.status.code(), put.stdout.as_str()), (Some(0), "the policy of `acme` is set\n"));
    has(&put.stderr, &["warning: ", "(`/enabled/1`)", "did you mean `text/*`?"]);

    let shown = terminal.types_as("operator", &["policy", "show", "acme"]);
    assert_eq!(
        serde_json::from_str::<Value>(&shown.stdout).expect("json"),
        json!({"enabled": ["files/*", "txet/*"]})
    );
    has(&shown.stderr, &["did you mean `text/*`?"]);
    let machine = terminal.gets(&["policy", "show", "acme"]);
    assert_eq!(machine["warnings"][0]["nearest"], "text/*");

    terminal.file("acme.json", r#"{"enabled": "*"}"#);
    let replaced = terminal.gets(&["policy", "put", "acme", "acme.json", "--strict"]);
    assert_eq!(replaced["warnings"], json!([]));
    assert_ne!(replaced["etag"], machine["etag"]);
    assert_eq!(terminal.gets(&["policy", "show", "acme"])["document"], json!({"enabled": "*"}));
}

#[test]
fn a_document_that_is_not_sound_is_refused_with_its_place_and_the_nearest_name() {
    let terminal = Terminal::with_agent(SUPERVISED);
    terminal.file("platform.json", r#"{"profiles": {"reader": ["files/read"]}}"#);
    terminal.does(&["policy", "put", "platform", "platform.json"]);
    for (document, parts) in [
        (r#"{"profile": "raeder"}"#, ["`raeder` (`/profile`)", "did you mean `reader`?"]),
        (r#"{"enabeld": []}"#, ["`enabeld` (`/enabeld`)", "did you mean `enabled`?"]),
        (r#"{"enabled": }"#, ["is not JSON", "line 1"]),
    ] {
        terminal.file("bot.json", document);
        has(&terminal.fails(&["policy", "put", "acme/bot", "bot.json"]), &parts);
        has(&terminal.fails(&["policy", "diff", "acme/bot", "bot.json"]), &parts);
    }
    terminal.file("bot.json", r#"{"profile": "reader"}"#);
    terminal.does(&["policy", "put", "acme/bot", "bot.json", "--strict"]);
    has(&terminal.fails(&["policy", "put", "acme/bot", "nosuch.json"]), &["cannot read `nosuch.json`"]);
}

#[test]
fn what_a_policy_would_change_is_shown_and_nothing_is_put_in_force() {
    let terminal = Terminal::with_agent(SUPERVISED);
    terminal.file("blocked.json", r#"{"blocked": ["files/delete"]}"#);
    let diff = terminal.types_as("operator", &["policy", "diff", "platform", "blocked.json"]);
    assert_eq!(diff.status.code(), Some(0), "{}", diff.stderr);
    let rows: Vec<&str> = diff.stdout.lines().collect();
    assert_eq!(rows.len(), 2, "{}", diff.stdout);
    has(rows[1], &["acme/bot", "files/delete", "needs approval", "refused", "platform", "blocked", "all"]);
    terminal.fails(&["policy", "show", "platform"]);
    let before = terminal.does(&["policy", "explain", "acme/bot", "files/delete"]);
    has(&before, &["acme/bot calls files/delete: needs approval"]);

    assert_eq!(
        terminal.does(&["policy", "diff", "acme", "everything.json"]),
        "nothing changes about who may call what\n"
    );
    let machine = terminal.gets(&["policy", "diff", "acme/bot", "everything.json"]);
    assert_eq!(machine["agents"][0]["agent"], "acme/bot");
    terminal.fails(&["policy", "diff", "nosuch", "everything.json"]);
}

#[test]
fn the_rule_that_decides_is_marked_and_an_owner_sees_of_the_platform_that_it_decided() {
    let terminal = Terminal::with_agent(SUPERVISED);
    terminal.file(
        "platform.json",
        r#"{"blocked": ["files/delete"], "channels": {"sms": {"blocked": ["files/write"]}}}"#,
    );
    terminal.does(&["policy", "put", "platform", "platform.json"]);
    terminal.new_token("owner", &["--role", "owner", "--organization", "acme"]);
    let marked = |who: &str, words: &[&str]| {
        let out = terminal.does_as(who, &[&["policy", "explain", "acme/bot"], words].concat());
        let marked: Vec<String> =
            out.lines().filter(|line| line.starts_with('→')).map(str::to_owned).collect();
        assert_eq!(marked.len(), 1, "{out}");
        (out.lines().next().unwrap_or_default().to_owned(), marked[0].clone())
    };
    let (verdict, rule) = marked("operator", &["files/delete"]);
    has(&verdict, &["acme/bot calls files/delete: refused (TOOL_DISABLED)"]);
    has(&rule, &["✘", "platform", "blocked", "`files/delete`"]);
    let (verdict, rule) = marked("owner", &["files/delete"]);
    has(&verdict, &["refused (TOOL_DISABLED)"]);
    has(&rule, &["✘", "platform", "-"]);
    assert!(!rule.contains("blocked"), "{rule}");
    let (_, rule) = marked("owner", &["files/write", "--channel", "sms"]);
    has(&rule, &["✘", "session", "channel", "sms"]);
    let (verdict, rule) = marked("owner", &["files/append"]);
    has(&verdict, &["needs approval"]);
    has(&rule, &["?", "agent", "autonomy"]);
    let (verdict, rule) = marked("owner", &["files/read"]);
    has(&verdict, &["allowed"]);
    has(&rule, &["✔", "agent", "enabled"]);

    let table = terminal.does(&["policy", "explain", "acme/bot"]);
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
    has(&terminal.fails(&["policy", "explain", "acme/nobody"]), &["no such agent"]);
    has(&terminal.fails_as("owner", &["policy", "put", "platform", "platform.json"]), &["owner"]);
}

#[test]
fn a_call_is_approved_by_somebody_else_as_it_was_shown_and_only_once() {
    let terminal = Terminal::with_agent(SUPERVISED);
    terminal.new_token("second", &["--role", "operator"]);
    let session = terminal.session();
    let arguments = "{\"path\": \"a.txt\",  \"content\": \"pay \u{202e}eb\u{200b}\"}";
    let approval = terminal.asks(&session, arguments);
    has(&terminal.does(&["approval", "list", "--org", "acme", "--state", "pending"]), &[&approval]);
    assert_eq!(terminal.gets(&["approval", "list", "--state", "denied"]), json!({"items": []}));

    let shown = terminal.does(&["approval", "show", &approval]);
    has(
        &shown,
        &[r#"{"path": "a.txt",  "content": "pay \u{202e}eb\u{200b}"}"#, "sha256:", "acme/bot", "autonomy"],
    );
    let machine = terminal.gets(&["approval", "show", &approval]);
    assert_eq!(machine["arguments"]["content"], "pay \u{202e}eb\u{200b}");

    has(
        &terminal.fails(&["approval", "approve", &approval]),
        &["whoever opened the session", "another token"],
    );
    has(&terminal.fails_as("second", &["approval", "approve", &approval, "--uses", "0"]), &["`uses` is 0"]);
    let approved = terminal.does_as("second", &["approval", "approve", &approval, "--reason", "fine"]);
    has(&approved, &["pay \\u{202e}eb", &format!("approval `{approval}` is approved: 1 call, until ")]);
    for again in [&["approval", "approve", &approval][..], &["approval", "deny", &approval]] {
        has(&terminal.fails_as("second", again), &["it is decided already: `approved`"]);
    }
    terminal.does(&["call", "--session", &session, "files/append", arguments]);
    has(&terminal.does(&["approval", "show", &approval]), &["state         used", "reason        fine"]);
    assert_ne!(terminal.asks(&session, arguments), approval);
    has(&terminal.fails(&["approval", "show", "a_nosuch"]), &["no approval `a_nosuch`"]);
}

#[test]
fn calls_of_a_shape_are_approved_and_others_are_asked_about_and_denied() {
    let terminal = Terminal::with_agent(SUPERVISED);
    terminal.new_token("second", &["--role", "operator"]);
    let session = terminal.session();
    let append = |content: &str| format!(r#"{{"path": "a.txt", "content": "{content}"}}"#);
    let approval = terminal.asks(&session, &append("one"));
    let shape = r#"{"/content": {"type": "string", "maxLength": 5}}"#;
    let approve = ["approval", "approve", &approval, "--uses", "2", "--expires-in", "600", "--arguments"];
    let misspelt = terminal.fails_as("second", &[&approve[..], &[r#"{"/contnt": {}}"#]].concat());
    has(&misspelt, &["`/contnt`"]);
    has(&terminal.does_as("second", &[&approve[..], &[shape]].concat()), &["approved: 2 calls"]);
    terminal.does(&["call", "--session", &session, "files/append", &append("one")]);
    terminal.does(&["call", "--session", &session, "files/append", &append("two")]);
    let other = terminal.asks(&session, &append("three and more"));
    assert_ne!(other, approval);

    let denied = terminal.does_as("second", &["approval", "deny", &other, "--reason", "wrong file"]);
    assert_eq!(denied, format!("approval `{other}` is denied\n"));
    has(&terminal.does(&["approval", "show", &other]), &["state         denied", "reason        wrong file"]);
}

#[test]
fn a_session_is_opened_shown_and_ended_and_its_tools_are_switched() {
    let terminal = Terminal::with_agent(r#"{"enabled": ["files/*"], "autonomy": "autonomous"}"#);
    let opened = terminal.does(&["session", "open", "acme/bot", "--user", "u-17", "--conversation", "c-9"]);
    has(&opened, &["acme/bot", "u-17", "c-9", "call_files_read", "Reads a text file"]);
    let session = terminal.session();
    has(&terminal.does(&["session", "show", &session]), &[&session, "call_files_read"]);
    has(&terminal.does(&["session", "tools", &session]), &["call_files_read"]);
    let selected = terminal.does(&["session", "tools", &session, "--message", "read a file"]);
    has(&selected, &["call_files_read", "broker is off"]);
    let form = terminal.does(&["session", "tools", &session, "--format", "openai"]);
    assert_eq!(serde_json::from_str::<Value>(&form).expect("json")[0]["type"], "function");

    let list = ["call", "--session", &session, "files/list"];
    terminal.does(&["session", "disable", &session, "files/list"]);
    has(&terminal.fails(&list), &["TOOL_DISABLED"]);
    let out = terminal.gets(&["policy", "explain", "acme/bot", "files/list", "--session", &session]);
    assert_eq!(
        (&out["tools"][0]["layer"], &out["tools"][0]["rule"]),
        (&json!("session"), &json!("disabled"))
    );
    terminal.does(&["session", "enable", &session, "files/list"]);
    terminal.does(&list);
    has(&terminal.fails(&["session", "disable", &session, "files/lsit"]), &["no such tool"]);

    terminal.does(&["session", "end", &session]);
    for gone in
        [&["session", "show", &session][..], &["session", "end", &session], &["session", "tools", &session]]
    {
        terminal.fails(gone);
    }
    has(&terminal.fails(&["session", "open", "acme/nobody"]), &["no such agent"]);
    has(&terminal.fails(&["session", "open", "acme/bot", "--channel", "fax"]), &["no channel `fax`"]);
}

#[test]
fn events_are_followed_until_the_session_or_the_person_ends_it() {
    let terminal = Terminal::with_agent(r#"{"enabled": ["files/*"], "autonomy": "autonomous"}"#);
    let session = terminal.session();
    let mut of_all = terminal.follows(&["events", "acme", "--json"]);
    let of_session = terminal.follows(&["session", "events", &session]);
    terminal.does(&["call", "--session", &session, "files/list"]);
    let first: Value = serde_json::from_str(&of_all.line()).expect("a document a line");
    assert_eq!((&first["event"], &first["tool"]), (&json!("tool_call"), &json!("files/list")));

    terminal.does(&["session", "end", &session]);
    let (lines, status) = of_session.rest();
    assert_eq!(status, Some(0), "{lines}");
    has(&lines, &["tool_call", "tool_result", "acme/bot", "files/list", "ok"]);

    // Whoever runs the tests in the background has them ignore Ctrl-C.
    kill_process(Pid::from_child(&of_all.child), Signal::TERM).expect("a process");
    assert_eq!(of_all.rest().1, None, "it ends by the signal");
    has(&terminal.fails(&["events", "nosuch"]), &["no such organization"]);
    has(&terminal.fails(&["session", "events", "s_nosuch"]), &["session"]);
}

/// A document of an API with two operations, of which one can be taken.
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
fn c2_c3_a_tool_is_made_of_an_openapi_document_granted_tried_called_and_removed() {
    let upstream = Upstream::start();
    upstream.dns.set_answers("api.upstream.test", &[&[&upstream.address.to_string()]]);
    upstream.answer(|_| answer(200, &[("Content-Type", "application/json")], br#"{"orders": ["o_1"]}"#));
    let settings = format!("[egress]\nname_servers = [\"{}\"]\n", upstream.dns.address);
    let terminal = Terminal::with_settings(&settings);
    terminal.does(&["org", "put", "acme", "--enabled", "shop/*"]);
    terminal.does(&["agent", "put", "acme/bot", "--enabled", "shop/*"]);
    terminal.file("shop.yaml", SHOP);

    let import = ["plugin", "import", "openapi", "shop.yaml"];
    has(
        &terminal.fails(&[&import[..], &["acme/shop", "--select", "tag:ordres"]].concat()),
        &["none of the 2 operations is selected"],
    );
    let wrong = terminal.types_as("operator", &[&import[..], &["acme"]].concat());
    assert_eq!(wrong.status.code(), Some(2), "{}", wrong.stderr);
    // Without a place the definition is shown, and nothing is made.
    let shown: Value = serde_json::from_str(&terminal.does(&import)).expect("a definition");
    assert_eq!(shown["actions"][0]["name"], "listOrders");
    assert_eq!(terminal.gets(&["tool", "list", "acme"])["items"], json!([]));
    // The agent is supervised: without the flag it would be asked about a call that only reads.
    let options = ["acme/shop", "--select", "tag:orders", "--safe-methods"];
    let made = terminal.types_as("operator", &[&import[..], &options].concat());
    has(
        &made.stdout,
        &["shop is active: call_shop_list_orders; asks for https://api.upstream.test:8443/shop"],
    );
    has(&made.stderr, &["left out: ", "POST /files", "1 actions of 2"]);

    let tried = ["tool", "try", "acme/shop/list_orders", r#"{"state": "open"}"#];
    has(&terminal.fails(&tried), &["INTEGRATION_MISSING", "the integration `shop` is not connected"]);
    terminal.file("key", "sk_live_of_the_shop_77a1");
    terminal.file(
        "grant.json",
        &json!({
            "network": [{"host": "api.upstream.test", "port": 8443}], "credentials": ["shop"],
            "private_networks": [format!("{}/32", upstream.address)], "extra_ca": [upstream.authority],
        })
        .to_string(),
    );
    terminal.does(&["tool", "grant", "acme/shop", "grant.json"]);
    terminal.does(&[
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
    let sent = terminal.types_as("operator", &tried);
    assert_eq!(serde_json::from_str::<Value>(&sent.stdout).expect("a result"), json!({"orders": ["o_1"]}));
    has(
        &sent.stderr,
        &["> GET https://api.upstream.test:8443/shop/orders?state=open", "> x-api-key: ***", "< 200"],
    );

    let list = terminal.does(&["tool", "list", "acme"]);
    has(&list, &["NAMESPACE", "shop", "http", "active"]);
    terminal.does(&["call", "acme/bot", "shop/list_orders", "{}"]);
    terminal.does(&["tool", "remove", "acme/shop"]);
    has(&terminal.fails(&tried), &["TOOL_NOT_FOUND", "there is no tool `shop/list_orders`"]);
}

#[test]
fn a_command_that_is_not_understood_is_wrong_usage() {
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
        let ended = terminal.types_as("operator", words);
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {}", ended.stderr);
        assert!(!ended.stderr.is_empty() && ended.stdout.is_empty(), "{words:?}");
    }
}
