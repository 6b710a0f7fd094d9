//! Access rights: every operation of the OpenAPI document, with every kind of token.
//!
//! Expectations come from the document (`security`, `x-toolgate-roles`), which the daemon derives from its guards. The
//! test finds a guard without effect, a handler that ignores ownership and, through the reviewed_path file
//! `rights/matrix.txt`, every change of rights. `TOOLGATE_BLESS=1` rewrites that file.
//!
//! - No token or an unknown token: 401. A role that the document does not list: 403.
//! - A listed role: success.
//! - A listed role of another organization: the response for a missing target, except for the name. Operations without
//!   a target need a reason in `rights/names-nothing.txt`.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use toolgate_tests::{Client, Daemon, PluginFile, Reply, Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Organization that owns the targets.
const ORGANIZATION: &str = "acme";

/// A kind of caller.
struct Caller {
    name: &'static str,
    client: Client,
    /// `None` without a valid token.
    role: Option<&'static str>,
    reach: Reach,
}

/// Whether the caller may see the targets.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    /// The targets are the caller's own, or the caller sees all.
    Own,
    /// They are another organization's, or another agent's.
    Foreign,
}

/// An operation of the OpenAPI document.
struct Operation {
    id: String,
    method: String,
    path: String,
    /// `None` for operations without a token.
    roles: Option<Vec<String>>,
    responses: Value,
}

/// Names in a request, existing or missing.
#[derive(Clone)]
struct Targets {
    organization: String,
    agent: String,
    session: String,
    token: String,
    namespace: String,
    approval: String,
    credential: String,
    /// Hexadecimal.
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
    /// Makes calls that another token decides about.
    orchestrator: Client,
    /// Counter for unused names.
    made: u32,
}

#[test]
fn every_operation_answers_every_caller_as_documented() {
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
            operation.assert_documented(&reply, caller);
            write!(row, " {:>width$}", reply.status, width = caller.name.len()).expect("text");
        }
        matrix += row.trim_end();
        matrix.push('\n');
    }
    assert_reviewed("matrix.txt", &matrix);
    assert_reasons("names-nothing.txt", &names_nothing);
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
        // The same format with another secret.
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

    /// Sends a request about existing targets, and checks the response against the document.
    fn ask(&mut self, operation: &Operation, caller: &Caller, names_nothing: &mut BTreeSet<String>) -> Reply {
        let targets = self.targets(operation);
        let sent = request(&operation.id, &targets);
        let reply = sent.send(&caller.client, &operation.method);
        let who = format!("{} {} by {}: {}", operation.method, operation.path, caller.name, reply.text());
        match (&operation.roles, caller.role) {
            // The callback of an OAuth flow works once, and no flow was started here.
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
            // No MCP server is mounted here; `mounts.rs` has one.
            _ if caller.reach == Reach::Own && needs_mcp_server(&operation.id) => {
                return reply.expect_refusal(409, "CONFLICT");
            }
            _ if caller.reach == Reach::Own => {
                assert!((200..300).contains(&reply.status), "{who}");
            }
            _ => {
                let missing = targets.missing(&operation.id);
                if request(&operation.id, &missing) == sent {
                    names_nothing.insert(operation.id.clone());
                } else if operation.id == "open_session" && caller.name == "acme:other-agent" {
                    // A token bound to another agent may know that its organization has this one.
                    assert_eq!(reply.status, 403, "{who}");
                } else {
                    let answer = request(&operation.id, &missing).send(&caller.client, &operation.method);
                    assert_same_response(&who, &reply, &answer, &targets, &missing);
                }
            }
        }
        reply
    }

    /// Creates targets that the operation may change or delete.
    fn targets(&mut self, operation: &Operation) -> Targets {
        self.made += 1;
        let agent = format!("bot-{}", self.made);
        self.operator.make_agent(&format!("{ORGANIZATION}/{agent}"), &json!({"enabled": ["*"]}));
        let session = self.operator.open_session(&format!("{ORGANIZATION}/{agent}"));
        session.put_file("a.txt", b"text").expect(204);
        session.call_as("c1", "arithmetic/evaluate", json!({"expression": "6*7"}));
        session.call_as("sent", "user/ask", json!({"question": "Which?"}));
        let supervised = format!("{ORGANIZATION}/asker-{}", self.made);
        self.operator.make_agent(&supervised, &json!({"enabled": ["files/*"], "autonomy": "supervised"}));
        let write = json!({"path": "b.txt", "content": "b"});
        let waiting = self.orchestrator.open_session(&supervised).call("files/write", write);
        let approval = waiting.approval();
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
        let document = if operation.id == "connect_credential" { user_credential() } else { secret() };
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
            // Two versions, for a rollback.
            for version in ["1.0.0", "1.0.1"] {
                self.operator.load("answer", &plugin(version));
            }
            let grant = "/v1/plugins/answer/grant";
            if self.operator.get(grant).status == 404 {
                self.operator.make(grant, &json!({})).expect(201);
            }
        }
        Targets {
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

impl Targets {
    /// Missing names of the same form. Names shared by all organizations stay the same.
    fn missing(&self, operation: &str) -> Self {
        let other = |name: &str| -> String {
            name.chars().map(|letter| if letter.is_ascii_digit() { '9' } else { 'q' }).collect()
        };
        // A session is addressed by its own id, an agent through its organization.
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

    fn mask_names(&self, text: &str) -> String {
        [&self.session, &self.token, &self.approval, &self.credential, &self.agent, &self.organization]
            .into_iter()
            .fold(text.to_owned(), |text, name| text.replace(name.as_str(), "?"))
    }
}

/// Builds the request of an operation. A new operation must be added here.
fn request(operation: &str, targets: &Targets) -> Request {
    let Targets { organization, agent, session, token, namespace, approval, credential, root_key } = targets;
    let of = |path: String| Request { path, headers: Vec::new(), body: Vec::new() };
    let json = |path: String, body: Value| Request {
        path,
        headers: vec![("Content-Type", "application/json")],
        body: body.to_string().into_bytes(),
    };
    let put = |path: String, body: Value| {
        let mut request = json(path, body);
        request.headers.push(("If-Match", "*"));
        request
    };
    let delete = |path: String| Request { headers: vec![("If-Match", "*")], ..of(path) };
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
        "put_plugin_grant" => put(format!("{plugins}/grant"), json!({"filesystem": "none"})),
        "rollback_plugin" => of(format!("{plugins}/rollback")),
        "disable_plugin" => of(format!("{plugins}/disable")),
        "enable_plugin" => of(format!("{plugins}/enable")),
        "list_organizations" => of("/v1/orgs".into()),
        "get_organization" => of(organizations),
        "put_organization" => put(organizations, json!({"display_name": "Acme"})),
        "delete_organization" => delete(organizations),
        "get_organization_policy" => of(format!("{organizations}/policy")),
        "put_organization_policy" => put(format!("{organizations}/policy"), json!({"enabled": "*"})),
        "get_organization_policy_warnings" => of(format!("{organizations}/policy/warnings")),
        "preview_organization_policy" => json(format!("{organizations}/policy/diff"), json!({"enabled": []})),
        "get_platform_policy" => of("/v1/platform/policy".into()),
        "put_platform_policy" => put("/v1/platform/policy".into(), json!({})),
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
            json(format!("{sessions}/calls/sent/result"), json!({"status": "error", "message": "no"}))
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
        "put_custom_tool" => put(format!("{tools}/shop"), shop()),
        "delete_custom_tool" => delete(format!("{tools}/shop")),
        "refresh_custom_tool" => of(format!("{tools}/shop/refresh")),
        "approve_custom_tool" => {
            json(format!("{tools}/shop/approve"), json!({"digest": format!("sha256:{}", "0".repeat(64))}))
        }
        "get_custom_tool_grant" => of(format!("{tools}/shop/grant")),
        "put_custom_tool_grant" => put(format!("{tools}/shop/grant"), json!({})),
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
        "put_agent" => put(format!("{agents}/{agent}"), json!({"enabled": "*"})),
        "delete_agent" => delete(format!("{agents}/{agent}")),
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
        other => panic!("add `{other}` to `request`"),
    }
}

/// Credential document.
fn secret() -> Value {
    json!({"provider": "stripe", "kind": "bearer", "secret": "sk_test", "bound_to": [{"host": "api.stripe.com"}]})
}

/// Custom tool document.
fn shop() -> Value {
    let action = json!({"name": "list", "description": "Lists.", "method": "GET", "path": "/", "input_schema": {"type": "object"}});
    json!({"description": "A shop.", "base_url": "https://shop.example", "actions": [action]})
}

fn needs_mcp_server(operation: &str) -> bool {
    ["refresh_custom_tool", "approve_custom_tool"].contains(&operation)
}

/// Credential that a user connects.
fn user_credential() -> Value {
    json!({
        "provider": "drive", "kind": "oauth2_authorization_code", "client_id": "toolgate",
        "token_url": "https://idp.example/token", "authorization_url": "https://idp.example/authorize",
        "bound_to": [{"host": "drive.example"}],
    })
}

/// The root key that the daemon generated. An unsealed daemon accepts it again.
fn root_key(daemon: &Daemon) -> String {
    let key = fs::read(daemon.data().join("keys/root")).expect("a root key");
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Request {
    fn send(&self, client: &Client, method: &str) -> Reply {
        let pending = client.start(method, &self.path, &self.headers, &self.body);
        // An event stream does not end.
        if self.path.ends_with("/events") { pending.head() } else { pending.reply() }
    }
}

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.body) == (&other.path, &other.body)
    }
}

impl Operation {
    /// Asserts that the document lists the status and the code of the response.
    fn assert_documented(&self, reply: &Reply, caller: &Caller) {
        let response = &self.responses[reply.status.to_string()];
        let who = format!("{} {} by {}", self.method, self.path, caller.name);
        assert!(response.is_object(), "{who}: the document does not list {}", reply.status);
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
            assert_eq!(
                needs_token,
                roles.is_some(),
                "{method} {path}: `security` and `x-toolgate-roles` disagree"
            );
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

/// Asserts that two responses differ only in the requested names, which the caller knew.
fn assert_same_response(who: &str, theirs: &Reply, other: &Reply, targets: &Targets, missing: &Targets) {
    assert_eq!((theirs.status, other.status), (404, 404), "{who}, of a missing target: {}", other.text());
    let names = |reply: &Reply| reply.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(theirs), names(other), "{who}");
    assert_eq!(targets.mask_names(&theirs.text()), missing.mask_names(&other.text()), "{who}");
}

fn heading(callers: &[Caller]) -> String {
    let mut text = "\
# HTTP status of each operation for each kind of caller, on targets of the organization `acme`.
# Generated by `rights.rs`, which defines the expectations. Rewrite with `TOOLGATE_BLESS=1` and review the difference.
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

/// Asserts that the text equals the reviewed_path file.
fn assert_reviewed(file: &str, text: &str) {
    let path = reviewed_path(file);
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

/// Asserts that the file has a reason for each of these, and no others.
fn assert_reasons(file: &str, found: &BTreeSet<String>) {
    let text = fs::read_to_string(reviewed_path(file)).expect("a file of reasons");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let reasons: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(": ")).collect();
    let known: BTreeSet<String> = reasons.keys().map(|id| (*id).to_owned()).collect();
    assert!(reasons.values().all(|reason| reason.len() > 20), "a reason is missing in `{file}`");
    assert_eq!(*found, known, "`{file}` differs (left: found, right: in the file)");
}

fn reviewed_path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rights").join(file)
}

fn plugin(version: &str) -> Vec<u8> {
    PluginFile::new("answer").describing("version", json!(version)).build()
}
