//! Who may do what: every operation of the OpenAPI document, asked with every kind of token.
//!
//! What is expected is read from the document itself (`security`, `x-toolgate-roles`), which the daemon makes from the
//! guards that hold it. So this finds a guard that does not hold, a handler that forgets whose a thing is, and, by the
//! reviewed file `rights/matrix.txt`, every change of rights. Write that file anew with `TOOLGATE_BLESS=1`.
//!
//! - No token, or an unknown one: 401. A role that is not in the list: 403.
//! - A role that is in the list: let in, and what it asked for is done.
//! - Such a role of another organization: the answer for what does not exist at all, but for the name asked for.
//!   Where an operation names nothing of anybody, `rights/names-nothing.txt` says why that is as it should be.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use toolgate_tests::{Client, Daemon, PluginFile, Reply, Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Whose things are asked for.
const ORGANIZATION: &str = "acme";

/// Who asks.
struct Caller {
    name: &'static str,
    client: Client,
    /// None without a token that the daemon knows.
    role: Option<&'static str>,
    reach: Reach,
}

/// What a caller can see of the things that are asked for.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    /// They are its own, or it sees all.
    Own,
    /// They are another organization's, or another agent's.
    Foreign,
}

/// An operation of the document.
struct Operation {
    id: String,
    method: String,
    path: String,
    /// None where no token is needed.
    roles: Option<Vec<String>>,
    responses: Value,
}

/// What an operation is asked about: names of what is there, or of nothing.
#[derive(Clone)]
struct Things {
    organization: String,
    agent: String,
    session: String,
    token: String,
    namespace: String,
    approval: String,
    credential: String,
    /// In hexadecimal digits.
    root_key: String,
}

struct Request {
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
}

struct Fixture {
    daemon: Daemon,
    operator: Client,
    /// Makes calls that somebody else decides about.
    orchestrator: Client,
    /// Makes names that were not there before.
    made: u32,
}

#[test]
fn every_operation_holds_for_every_caller_what_the_document_says() {
    let mut fixture = Fixture::start();
    let callers = fixture.callers();
    let operations = operations(&fixture.daemon.anonymous().get("/openapi.json").expect(200).json());
    assert!(operations.len() > 30, "{} operations", operations.len());
    let mut names_nothing = BTreeSet::new();
    let mut matrix = heading(&callers);
    for operation in &operations {
        let mut row = format!("{:<52}", format!("{} {}", operation.method, operation.path));
        for caller in &callers {
            let reply = fixture.ask(operation, caller, &mut names_nothing);
            operation.documents(&reply, caller);
            write!(row, " {:>width$}", reply.status, width = caller.name.len()).expect("text");
        }
        matrix += row.trim_end();
        matrix.push('\n');
    }
    is_reviewed("matrix.txt", &matrix);
    are_reasoned("names-nothing.txt", &names_nothing);
}

impl Fixture {
    fn start() -> Self {
        let daemon = Daemon::start(PROGRAM, "");
        let operator = daemon.operator();
        for agent in ["acme/bot", "acme/other", "rival/bot"] {
            operator.make_agent(agent, &json!({"enabled": ["*"]}));
        }
        operator.make("/v1/platform/policy", &json!({})).expect(201);
        let orchestrator = json!({"role": "orchestrator", "organization": ORGANIZATION});
        Self { orchestrator: operator.with_new_token(&orchestrator), daemon, operator, made: 0 }
    }

    fn callers(&self) -> Vec<Caller> {
        let token = |request: Value| self.operator.with_new_token(&request);
        let of = |role: &str, organization: &str| token(json!({"role": role, "organization": organization}));
        let mut unknown = self.operator.clone();
        // The same form with another secret.
        unknown.token = unknown.token.map(|token| {
            let (start, end) = token.split_at(token.len() - 10);
            let other = if end.starts_with('A') { 'B' } else { 'A' };
            format!("{start}{other}{}", &end[1..])
        });
        let one_agent = json!({"role": "orchestrator", "organization": ORGANIZATION, "agents": ["other"]});
        let caller = |name, client, role, reach| Caller { name, client, role, reach };
        vec![
            caller("no-token", self.daemon.anonymous(), None, Reach::Own),
            caller("unknown", unknown, None, Reach::Own),
            caller("operator", self.operator.clone(), Some("operator"), Reach::Own),
            caller("auditor", token(json!({"role": "auditor"})), Some("auditor"), Reach::Own),
            caller("acme:owner", of("owner", ORGANIZATION), Some("owner"), Reach::Own),
            caller("acme:orchestrator", of("orchestrator", ORGANIZATION), Some("orchestrator"), Reach::Own),
            caller("acme:auditor", of("auditor", ORGANIZATION), Some("auditor"), Reach::Own),
            caller("acme:other-agent", token(one_agent), Some("orchestrator"), Reach::Foreign),
            caller("rival:owner", of("owner", "rival"), Some("owner"), Reach::Foreign),
            caller("rival:orchestrator", of("orchestrator", "rival"), Some("orchestrator"), Reach::Foreign),
            caller("rival:auditor", of("auditor", "rival"), Some("auditor"), Reach::Foreign),
        ]
    }

    /// Asks about things that are there, and holds the answer to what the document says of such a caller.
    fn ask(&mut self, operation: &Operation, caller: &Caller, names_nothing: &mut BTreeSet<String>) -> Reply {
        let things = self.things(operation);
        let asked = request(&operation.id, &things);
        let reply = asked.send(&caller.client, &operation.method);
        let who = format!("{} {} by {}: {}", operation.method, operation.path, caller.name, reply.text());
        match (&operation.roles, caller.role) {
            // What a browser comes back with is good once, and nobody was sent away here.
            (None, _) if operation.id == "finish_connecting" => return reply.expect_refusal(410, "EXPIRED"),
            (None, _) => assert_eq!(reply.status, 200, "{who}"),
            (Some(_), None) => {
                assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{who}");
                return reply.expect_refusal(401, "UNAUTHENTICATED");
            }
            (Some(roles), Some(role)) if !roles.iter().any(|name| name == role) => {
                assert_eq!(reply.status, 403, "{who}");
                return reply.expect_refusal(403, "FORBIDDEN");
            }
            // No server is mounted here; `egress/mounted.rs` has one.
            _ if caller.reach == Reach::Own && is_about_a_mount(&operation.id) => {
                return reply.expect_refusal(409, "CONFLICT");
            }
            _ if caller.reach == Reach::Own => {
                assert!((200..300).contains(&reply.status), "{who}");
            }
            _ => {
                let nothing = things.nothing(&operation.id);
                if request(&operation.id, &nothing) == asked {
                    names_nothing.insert(operation.id.clone());
                } else if operation.id == "open_session" && caller.name == "acme:other-agent" {
                    // That its organization has the agent is nothing that it may not know.
                    assert_eq!(reply.status, 403, "{who}");
                } else {
                    let answer = request(&operation.id, &nothing).send(&caller.client, &operation.method);
                    are_alike(&who, &reply, &answer, &things, &nothing);
                }
            }
        }
        reply
    }

    /// Things that the operation may change or destroy without harm to the next one.
    fn things(&mut self, operation: &Operation) -> Things {
        self.made += 1;
        let agent = format!("bot-{}", self.made);
        self.operator.make_agent(&format!("{ORGANIZATION}/{agent}"), &json!({"enabled": ["*"]}));
        let session = self.operator.open_session(&format!("{ORGANIZATION}/{agent}"));
        session.put_file("a.txt", b"text").expect(204);
        session.call_as("c1", "arithmetic/evaluate", json!({"expression": "6*7"}));
        session.call_as("asked", "user/ask", json!({"question": "Which?"}));
        let supervised = format!("{ORGANIZATION}/asker-{}", self.made);
        self.operator.make_agent(&supervised, &json!({"enabled": ["files/*"], "autonomy": "supervised"}));
        let write = json!({"path": "b.txt", "content": "b"});
        let waiting = self.orchestrator.open_session(&supervised).call("files/write", write);
        let approval = waiting.0["approval"]["id"].as_str().expect("an approval").to_owned();
        let token = json!({"role": "owner", "organization": ORGANIZATION});
        let token = self.operator.post("/v1/tokens", &token).expect(201).json();
        let organization = if operation.id == "delete_organization" {
            let spare = format!("spare-{}", self.made);
            self.operator.make_organization(&spare);
            spare
        } else {
            ORGANIZATION.to_owned()
        };
        let credential = format!("stripe-{}", self.made);
        let place = format!("/v1/orgs/{ORGANIZATION}/credentials/{credential}");
        let document = if operation.id == "connect_credential" { of_a_person() } else { secret() };
        self.operator.make(&place, &document).expect(201);
        if operation.path.contains("/tools/{namespace}") {
            let tool = format!("/v1/orgs/{ORGANIZATION}/tools/shop");
            for (place, document) in [(tool.clone(), shop()), (format!("{tool}/grant"), json!({}))] {
                if self.operator.get(&place).status == 404 {
                    self.operator.make(&place, &document).expect(201);
                }
            }
        }
        if operation.path.starts_with("/v1/plugins/{namespace}") {
            // Two versions, so that there is one to go back to.
            for version in ["1.0.0", "1.0.1"] {
                self.operator.load("answer", &plugin(version));
            }
            let grant = "/v1/plugins/answer/grant";
            if self.operator.get(grant).status == 404 {
                self.operator.make(grant, &json!({})).expect(201);
            }
        }
        Things {
            organization,
            agent,
            session: session.id,
            token: token["id"].as_str().expect("an id").to_owned(),
            namespace: "answer".into(),
            approval,
            credential,
            root_key: root_key(&self.daemon),
        }
    }
}

impl Things {
    /// NameServer of the same form that nothing has. What belongs to all is the same.
    fn nothing(&self, operation: &str) -> Self {
        let other = |name: &str| -> String {
            name.chars().map(|letter| if letter.is_ascii_digit() { '9' } else { 'q' }).collect()
        };
        // The session of another organization is asked for with its own id; the agent of one, with the organization's.
        let agent = if operation.ends_with("_agent") { other(&self.agent) } else { self.agent.clone() };
        Self {
            organization: "nosuch".into(),
            agent,
            session: format!("s_{}", other(&self.session[2..])),
            token: other(&self.token),
            namespace: self.namespace.clone(),
            approval: other(&self.approval),
            credential: other(&self.credential),
            root_key: self.root_key.clone(),
        }
    }

    fn hidden_in(&self, text: &str) -> String {
        [&self.session, &self.token, &self.approval, &self.credential, &self.agent, &self.organization]
            .into_iter()
            .fold(text.to_owned(), |text, name| text.replace(name.as_str(), "?"))
    }
}

/// How an operation is asked about things. One that is not here fails the test: say how it is asked.
fn request(operation: &str, things: &Things) -> Request {
    let Things { organization, agent, session, token, namespace, approval, credential, root_key } = things;
    let of = |path: String| Request { path, headers: Vec::new(), body: Vec::new() };
    let json = |path: String, body: Value| Request {
        path,
        headers: vec![("Content-Type", "application/json")],
        body: body.to_string().into_bytes(),
    };
    let documents = |path: String, body: Value| {
        let mut request = json(path, body);
        request.headers.push(("If-Match", "*"));
        request
    };
    let deleted = |path: String| Request { headers: vec![("If-Match", "*")], ..of(path) };
    let organizations = format!("/v1/orgs/{organization}");
    let agents = format!("/v1/orgs/{organization}/agents");
    let plugins = format!("/v1/plugins/{namespace}");
    let sessions = format!("/v1/sessions/{session}");
    let credentials = format!("{organizations}/credentials/{credential}");
    let tools = format!("{organizations}/tools");
    match operation {
        "get_health" => of("/healthz".into()),
        "get_readiness" => of("/readyz".into()),
        "get_openapi" => of("/openapi.json".into()),
        "list_plugins" => of("/v1/plugins".into()),
        "get_plugin" | "delete_plugin" => of(plugins),
        "put_plugin" => Request {
            path: plugins,
            headers: vec![("Content-Type", "application/wasm")],
            body: plugin("1.0.2"),
        },
        "get_plugin_grant" => of(format!("{plugins}/grant")),
        "put_plugin_grant" => documents(format!("{plugins}/grant"), json!({"filesystem": "none"})),
        "rollback_plugin" => of(format!("{plugins}/rollback")),
        "disable_plugin" => of(format!("{plugins}/disable")),
        "enable_plugin" => of(format!("{plugins}/enable")),
        "list_organizations" => of("/v1/orgs".into()),
        "get_organization" => of(organizations),
        "put_organization" => documents(organizations, json!({"display_name": "Acme"})),
        "delete_organization" => deleted(organizations),
        "get_organization_policy" => of(format!("{organizations}/policy")),
        "put_organization_policy" => documents(format!("{organizations}/policy"), json!({"enabled": "*"})),
        "get_organization_policy_warnings" => of(format!("{organizations}/policy/warnings")),
        "preview_organization_policy" => json(format!("{organizations}/policy/diff"), json!({"enabled": []})),
        "get_platform_policy" => of("/v1/platform/policy".into()),
        "put_platform_policy" => documents("/v1/platform/policy".into(), json!({})),
        "get_platform_policy_warnings" => of("/v1/platform/policy/warnings".into()),
        "preview_platform_policy" => json("/v1/platform/policy/diff".into(), json!({"allowed": []})),
        "list_agents" => of(agents),
        "get_agent_warnings" => of(format!("{agents}/{agent}/warnings")),
        "explain_agent" => of(format!("{agents}/{agent}/explain")),
        "preview_agent" => json(format!("{agents}/{agent}/policy/diff"), json!({"enabled": []})),
        "list_approvals" => of(format!("/v1/approvals?organization={organization}")),
        "get_approval" => of(format!("/v1/approvals/{approval}")),
        "decide_approval" => json(format!("/v1/approvals/{approval}"), json!({"decision": "deny"})),
        "follow_events" => of("/v1/events".into()),
        "follow_organization_events" => of(format!("{organizations}/events")),
        "follow_session_events" => of(format!("{sessions}/events")),
        "select_session_tools" => json(format!("{sessions}/tools/select"), json!({"message": "what is 6*7"})),
        "switch_session_tool" => json(format!("{sessions}/tools/call_time_now"), json!({"disabled": true})),
        "post_client_result" => {
            json(format!("{sessions}/calls/asked/result"), json!({"status": "error", "message": "no"}))
        }
        "import_custom_tool" => {
            let paths = json!({"/items": {"get": {"operationId": "items", "responses": {}}}});
            let document =
                json!({"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": paths});
            let body = json!({"namespace": "imported", "base_url": "https://shop.example", "document": document, "dry_run": true});
            json(format!("{tools}/import"), body)
        }
        "list_custom_tools" => of(tools),
        "get_custom_tool" => of(format!("{tools}/shop")),
        "put_custom_tool" => documents(format!("{tools}/shop"), shop()),
        "delete_custom_tool" => deleted(format!("{tools}/shop")),
        "refresh_custom_tool" => of(format!("{tools}/shop/refresh")),
        "approve_custom_tool" => {
            json(format!("{tools}/shop/approve"), json!({"digest": format!("sha256:{}", "0".repeat(64))}))
        }
        "get_custom_tool_grant" => of(format!("{tools}/shop/grant")),
        "put_custom_tool_grant" => documents(format!("{tools}/shop/grant"), json!({})),
        "try_tool" => {
            let arguments = json!({"expression": "6*7"});
            json(
                "/v1/try".into(),
                json!({"organization": organization, "tool": "arithmetic/evaluate", "arguments": arguments}),
            )
        }
        "list_credentials" => of(format!("{organizations}/credentials")),
        "get_credential" | "delete_credential" => of(credentials),
        "put_credential" => json(credentials, secret()),
        "connect_credential" => json(format!("{credentials}/connect"), json!({})),
        "finish_connecting" => of("/v1/oauth/callback?state=none&code=none".into()),
        "rotate_credential" => json(format!("{credentials}/rotate"), json!({"secret": "another"})),
        "rotate_root_key" => json("/v1/keys/rotate".into(), json!({})),
        "unseal" => json("/v1/unseal".into(), json!({"key": root_key})),
        "get_agent" => of(format!("{agents}/{agent}")),
        "put_agent" => documents(format!("{agents}/{agent}"), json!({"enabled": "*"})),
        "delete_agent" => deleted(format!("{agents}/{agent}")),
        "list_tokens" => of("/v1/tokens".into()),
        "create_token" => {
            json("/v1/tokens".into(), json!({"role": "orchestrator", "organization": organization}))
        }
        "revoke_token" => of(format!("/v1/tokens/{token}")),
        "open_session" => json("/v1/sessions".into(), json!({"agent": format!("{organization}/{agent}")})),
        "get_session" | "end_session" => of(sessions),
        "list_session_tools" => of(format!("{sessions}/tools")),
        "call_tools" => {
            let call = json!({"tool": "arithmetic/evaluate", "arguments": {"expression": "6*7"}});
            json(format!("{sessions}/calls"), json!({"calls": [call]}))
        }
        "get_call" | "cancel_call" => of(format!("{sessions}/calls/c1")),
        "list_files" => of(format!("{sessions}/files")),
        "read_file" | "delete_file" => of(format!("{sessions}/files/a.txt")),
        "write_file" => Request { body: b"other text".to_vec(), ..of(format!("{sessions}/files/a.txt")) },
        "search_audit" => of(format!("/v1/audit?organization={organization}&limit=1")),
        "verify_audit" => of("/v1/audit/verify".into()),
        other => panic!("say in `request` how `{other}` is asked"),
    }
}

/// A credential, as one is written.
fn secret() -> Value {
    json!({"provider": "stripe", "kind": "bearer", "secret": "sk_test", "bound_to": [{"host": "api.stripe.com"}]})
}

/// A tool of an organization.
fn shop() -> Value {
    let action = json!({"name": "list", "description": "Lists.", "method": "GET", "path": "/", "input_schema": {"type": "object"}});
    json!({"description": "A shop.", "base_url": "https://shop.example", "actions": [action]})
}

fn is_about_a_mount(operation: &str) -> bool {
    ["refresh_custom_tool", "approve_custom_tool"].contains(&operation)
}

/// One that a person connects.
fn of_a_person() -> Value {
    json!({
        "provider": "drive", "kind": "oauth2_authorization_code", "client_id": "toolgate",
        "token_url": "https://idp.example/token", "authorization_url": "https://idp.example/authorize",
        "bound_to": [{"host": "drive.example"}],
    })
}

/// The key that the daemon made for itself: one that is not sealed takes it again.
fn root_key(daemon: &Daemon) -> String {
    let key = fs::read(daemon.data().join("keys/root")).expect("a root key");
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Request {
    fn send(&self, client: &Client, method: &str) -> Reply {
        let pending = client.start(method, &self.path, &self.headers, &self.body);
        // A stream of events has no end.
        if self.path.ends_with("/events") { pending.head() } else { pending.reply() }
    }
}

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.body) == (&other.path, &other.body)
    }
}

impl Operation {
    /// The answer is one that the document has, with its code.
    fn documents(&self, reply: &Reply, caller: &Caller) {
        let response = &self.responses[reply.status.to_string()];
        let who = format!("{} {} by {}", self.method, self.path, caller.name);
        assert!(response.is_object(), "{who}: the document has no {}", reply.status);
        if reply.status >= 400 {
            let codes = response["x-toolgate-error-types"].as_array().expect("codes");
            assert!(codes.iter().any(|code| *code == reply.error_type()), "{who}: {}", reply.text());
        }
    }
}

fn operations(document: &Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let needs_token = operation["security"].as_array().is_some_and(|schemes| !schemes.is_empty());
            let roles = operation["x-toolgate-roles"].as_array();
            assert_eq!(needs_token, roles.is_some(), "{method} {path}: `security` and roles say two things");
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            operations.push(Operation {
                id: text(&operation["operationId"]),
                method: method.to_uppercase(),
                path: path.clone(),
                roles: roles.map(|roles| roles.iter().map(text).collect()),
                responses: operation["responses"].clone(),
            });
        }
    }
    operations
}

/// The two answers differ in nothing but the names that were asked for, which the caller knew.
fn are_alike(who: &str, theirs: &Reply, nothing: &Reply, things: &Things, no_things: &Things) {
    assert_eq!((theirs.status, nothing.status), (404, 404), "{who}, and of nothing: {}", nothing.text());
    let names = |reply: &Reply| reply.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(theirs), names(nothing), "{who}");
    assert_eq!(things.hidden_in(&theirs.text()), no_things.hidden_in(&nothing.text()), "{who}");
}

fn heading(callers: &[Caller]) -> String {
    let mut text = "\
# What each operation answers to each kind of caller, about things of the organization `acme`: the HTTP status.
# Made by `rights.rs`, which says what must be where; write it anew with `TOOLGATE_BLESS=1` and read the difference.
"
    .to_owned();
    let mut row = format!("{:<52}", "");
    for caller in callers {
        write!(row, " {}", caller.name).expect("text");
    }
    text += &row;
    text.push('\n');
    text
}

/// The text is that of the reviewed file.
fn is_reviewed(file: &str, text: &str) {
    let path = reviewed(file);
    if std::env::var_os("TOOLGATE_BLESS").is_some() {
        fs::write(&path, text).expect("the file is written");
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let differences: Vec<String> = text
        .lines()
        .filter(|line| !known.lines().any(|known| known == *line))
        .map(|line| format!("+ {line}"))
        .chain(
            known
                .lines()
                .filter(|known| !text.lines().any(|line| line == *known))
                .map(|line| format!("- {line}")),
        )
        .collect();
    assert!(known == text, "rights have changed against `{}`:\n{}", path.display(), differences.join("\n"));
}

/// Each of these, and no other, is in the file, with a reason.
fn are_reasoned(file: &str, found: &BTreeSet<String>) {
    let text = fs::read_to_string(reviewed(file)).expect("a file of reasons");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let reasons: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(": ")).collect();
    let known: BTreeSet<String> = reasons.keys().map(|id| (*id).to_owned()).collect();
    assert!(reasons.values().all(|reason| reason.len() > 20), "a reason is missing in `{file}`");
    assert_eq!(*found, known, "`{file}` has too much or too little (left: found, right: in the file)");
}

fn reviewed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rights").join(file)
}

fn plugin(version: &str) -> Vec<u8> {
    PluginFile::new("answer").describing("version", json!(version)).build()
}
