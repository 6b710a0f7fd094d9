//! Access rights: every operation of the OpenAPI document, with every kind of token.
//!
//! Expectations come from the document (`security`, `x-toolgate-roles`), which the daemon derives from its guards. The
//! test finds a guard without effect, a handler that ignores ownership and, through the reviewed file
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

/// Plugin that the organization loads for itself.
const OWNED: &str = "owned";

/// Webhook of the organization.
const WEBHOOK: &str = "chat";

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
    /// The targets are another organization's, or another agent's.
    Foreign,
}

/// An operation of the OpenAPI document.
struct Operation {
    id: String,
    method: String,
    path: String,
    /// `None` for operations without a token.
    roles: Option<Vec<String>>,
    needs_body: bool,
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
        let oauth = "[oauth]\nresource = \"http://127.0.0.1/mcp\"\n[[oauth.issuers]]\nissuer = \"http://127.0.0.1:9\"\n";
        let webhooks = "[webhooks]\nplain_http = [\"127.0.0.1:9\"]\n";
        let settings = format!("{webhooks}[credentials]\npublic_url = \"https://127.0.0.1\"\n{oauth}");
        let daemon = Daemon::start(PROGRAM, &settings);
        let operator = daemon.operator();
        for agent in ["acme/bot", "acme/other", "rival/bot"] {
            operator.make_agent(agent, &json!({"enabled": ["*"]}));
        }
        operator.make("/v1/platform/policy", &json!({"owners_load_plugins": true})).expect(201);
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
        let mcp = json!({"role": "agent", "organization": ORGANIZATION, "agents": ["other"]});
        let caller = |name, client, role, reach| Caller { name, client, role, reach };
        vec![
            caller("no-token", self.daemon.anonymous(), None, Reach::Own),
            caller("unknown", unknown, None, Reach::Own),
            caller("operator", self.operator.clone(), Some("operator"), Reach::Own),
            caller("auditor", token(json!({"role": "auditor"})), Some("auditor"), Reach::Own),
            caller("acme:owner", of("owner", ORGANIZATION), Some("owner"), Reach::Own),
            caller("acme:orchestrator", of("orchestrator", ORGANIZATION), Some("orchestrator"), Reach::Own),
            caller("acme:auditor", of("auditor", ORGANIZATION), Some("auditor"), Reach::Own),
            caller("acme:approver", of("approver", ORGANIZATION), Some("approver"), Reach::Own),
            caller("acme:other-agent", token(one_agent), Some("orchestrator"), Reach::Foreign),
            caller("acme:agent", token(mcp), Some("agent"), Reach::Foreign),
            caller("rival:owner", of("owner", "rival"), Some("owner"), Reach::Foreign),
            caller("rival:orchestrator", of("orchestrator", "rival"), Some("orchestrator"), Reach::Foreign),
            caller("rival:approver", of("approver", "rival"), Some("approver"), Reach::Foreign),
            caller("rival:auditor", of("auditor", "rival"), Some("auditor"), Reach::Foreign),
        ]
    }

    /// Sends a request about existing targets, and checks the response against the document.
    fn ask(&mut self, operation: &Operation, caller: &Caller, names_nothing: &mut BTreeSet<String>) -> Reply {
        let targets = self.targets(operation);
        let sent = request(operation, &targets);
        let reply = sent.send(&caller.client, &operation.method);
        let who = format!("{} {} by {}: {}", operation.method, operation.path, caller.name, reply.text());
        match (&operation.roles, caller.role) {
            // The callback of an OAuth flow works once, and no flow was started here.
            (None, _) if operation.id == "finish_connecting" => return reply.expect_refusal(410, "EXPIRED"),
            // There is no OpenID provider here; `console/provider.rs` has one.
            (None, _) if operation.id.ends_with("_sign_in") => return reply.expect_refusal(404, "NOT_FOUND"),
            // The callback of a webhook is signed, and this one is not.
            (None, _) if operation.id == "decide_by_webhook" => {
                return reply.expect_refusal(401, "UNAUTHENTICATED");
            }
            (None, _) => assert_eq!(reply.status, 200, "{who}"),
            (Some(_), None) => {
                assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{who}");
                return reply.expect_refusal(401, "UNAUTHENTICATED");
            }
            (Some(roles), Some(role)) if !roles.iter().any(|name| name == role) => {
                assert_eq!(reply.status, 403, "{who}");
                return reply.expect_refusal(403, "FORBIDDEN");
            }
            // No MCP server is mounted here; `mcp/mounts.rs` has one.
            _ if caller.reach == Reach::Own && finds_nothing_that_waits(&operation.id) => {
                return reply.expect_refusal(409, "CONFLICT");
            }
            _ if caller.reach == Reach::Own => {
                assert!((200..300).contains(&reply.status), "{who}");
            }
            _ => {
                let missing = targets.missing(&operation.id);
                if request(operation, &missing) == sent {
                    names_nothing.insert(operation.id.clone());
                } else if operation.id == "open_session" && caller.name == "acme:other-agent" {
                    // A token bound to another agent may know that its organization has this one.
                    assert_eq!(reply.status, 403, "{who}");
                } else {
                    let answer = request(operation, &missing).send(&caller.client, &operation.method);
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
        session.call_as("asked", "user/ask", json!({"question": "Which?"}));
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
        self.make_documents(operation, &credential);
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

    /// Creates the documents and plugins that only some operations need. `name` is that of the publisher's keys.
    fn make_documents(&self, operation: &Operation, name: &str) {
        if operation.path.contains("/publisher-keys") {
            for scope in ["platform".to_owned(), format!("orgs/{ORGANIZATION}")] {
                let place = format!("/v1/{scope}/publisher-keys/{name}");
                self.operator.make(&place, &publisher_key()).expect(201);
            }
        }
        if operation.path.contains("/webhooks") {
            let place = format!("/v1/orgs/{ORGANIZATION}/webhooks/{WEBHOOK}");
            let json = [("Content-Type", "application/json")];
            self.operator.send("PUT", &place, &json, webhook().to_string().as_bytes());
        }
        if operation.path.contains("/policy/assertions") {
            for scope in ["platform".to_owned(), format!("orgs/{ORGANIZATION}")] {
                let place = format!("/v1/{scope}/policy/assertions");
                if self.operator.get(&place).header("etag").is_none() {
                    self.operator.make(&place, &json!({"assertions": []})).expect(201);
                }
            }
        }
        let is_of_tool =
            ["/tools/{namespace}", "/enabled/{namespace}"].iter().any(|path| operation.path.contains(path));
        if is_of_tool {
            let tool = format!("/v1/orgs/{ORGANIZATION}/tools/shop");
            let enabled = format!("/v1/orgs/{ORGANIZATION}/enabled/shop");
            let documents =
                [(tool.clone(), shop()), (format!("{tool}/grant"), json!({})), (enabled, json!({}))];
            for (place, document) in documents {
                if self.operator.get(&place).header("etag").is_none() {
                    self.operator.make(&place, &document).expect(201);
                }
            }
        }
        if operation.path.starts_with("/v1/orgs/{org}/plugins") {
            let place = format!("/v1/orgs/{ORGANIZATION}/plugins/{OWNED}");
            let wasm = [("Content-Type", "application/wasm")];
            // Two versions, for a rollback.
            for version in ["1.0.0", "1.0.1"] {
                self.operator.send("PUT", &place, &wasm, &plugin(OWNED, version)).expect(200);
            }
        }
        if operation.path.starts_with("/v1/plugins/{namespace}") {
            // Two versions, for a rollback.
            for version in ["1.0.0", "1.0.1"] {
                self.operator.load("answer", &plugin("answer", version));
            }
            let grant = "/v1/plugins/answer/grant";
            if self.operator.get(grant).header("etag").is_none() {
                self.operator.make(grant, &json!({})).expect(201);
            }
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

/// Builds the request of an operation from its path and its body. A new path parameter or body must be added here.
fn request(operation: &Operation, targets: &Targets) -> Request {
    let mut headers = Vec::new();
    if operation.responses["428"].is_object() {
        headers.push(("If-Match", "*"));
    }
    let body = match operation.id.as_str() {
        "put_plugin" => {
            headers.push(("Content-Type", "application/wasm"));
            plugin("answer", "1.0.2")
        }
        "put_owned_plugin" => {
            headers.push(("Content-Type", "application/wasm"));
            plugin(OWNED, "1.0.0")
        }
        "write_file" => b"other text".to_vec(),
        id => body(id, targets).map_or_else(Vec::new, |body| {
            headers.push(("Content-Type", "application/json"));
            body.to_string().into_bytes()
        }),
    };
    let (id, path) = (&operation.id, path(operation, targets));
    assert!(!operation.needs_body || !body.is_empty(), "add the body of `{id}`");
    assert!(!path.contains('{'), "add the parameters of `{path}`");
    Request { path, headers, body }
}

fn path(operation: &Operation, targets: &Targets) -> String {
    let Targets { organization, agent, session, token, namespace, approval, credential, .. } = targets;
    let path = &operation.path;
    let resource = path.split('/').nth(2).unwrap_or_default();
    let id = match resource {
        "sessions" => session,
        "approvals" => approval,
        _ => token,
    };
    let namespace = match resource {
        "plugins" => namespace,
        _ if path.starts_with("/v1/orgs/{org}/plugins") => OWNED,
        _ => "shop",
    };
    let call = if operation.id == "post_client_result" { "asked" } else { "c1" };
    let query = match operation.id.as_str() {
        "list_approvals" => format!("?organization={organization}"),
        "export_audit" => format!("?organization={organization}"),
        "list_catalogue" => format!("?org={organization}"),
        "get_document_history" => format!("?kind=policy&organization={organization}"),
        "search_audit" => format!("?organization={organization}&limit=1"),
        "finish_connecting" => "?state=none&code=none".to_owned(),
        _ => String::new(),
    };
    let name = if path.contains("/webhooks/") { WEBHOOK } else { credential.as_str() };
    let parameters = [
        ("{org}", organization.as_str()),
        ("{agent}", agent),
        ("{id}", id),
        ("{namespace}", namespace),
        ("{name}", name),
        ("{call}", call),
        ("{path}", "a.txt"),
        ("{tool}", "call_time_now"),
    ];
    parameters.iter().fold(path.clone(), |path, (name, value)| path.replace(name, value)) + &query
}

/// JSON body of an operation.
fn body(operation: &str, targets: &Targets) -> Option<Value> {
    let Targets { organization, agent, root_key, .. } = targets;
    let calculation = json!({"expression": "6*7"});
    Some(match operation {
        "put_plugin_grant" => json!({"filesystem": "none"}),
        "put_organization" => json!({"display_name": "Acme"}),
        "put_organization_policy" | "put_agent" => json!({"enabled": "*"}),
        "preview_organization_policy" | "preview_agent" => json!({"enabled": []}),
        "preview_platform_policy" => json!({"allowed": []}),
        "put_platform_policy"
        | "put_custom_tool_grant"
        | "connect_credential"
        | "rotate_root_key"
        | "begin_sign_in" => {
            json!({})
        }
        "finish_sign_in" => json!({"device_code": "unknown"}),
        "decide_approval" => json!({"decision": "deny"}),
        "select_session_tools" => json!({"message": "what is 6*7"}),
        "switch_session_tool" => json!({"disabled": true}),
        "post_client_result" => json!({"status": "error", "message": "no"}),
        "import_custom_tool" => {
            let paths = json!({"/items": {"get": {"operationId": "items", "responses": {}}}});
            let document =
                json!({"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": paths});
            json!({"namespace": "imported", "base_url": "https://shop.example", "document": document, "dry_run": true})
        }
        "put_enabled_plugin" => json!({"config": {}}),
        "put_custom_tool" => shop(),
        "approve_custom_tool" | "approve_plugin" | "approve_owned_plugin" => {
            json!({"digest": format!("sha256:{}", "0".repeat(64))})
        }
        "try_tool" => {
            json!({"organization": organization, "tool": "arithmetic/evaluate", "arguments": calculation})
        }
        // An address that the daemon does not connect to.
        "discover_authorization_server" => {
            json!({"url": "https://127.0.0.1:1/", "organization": organization})
        }
        "put_credential" => secret(),
        "put_webhook" => webhook(),
        "decide_by_webhook" => json!({"token": "none", "decision": "deny"}),
        "put_platform_assertions" | "put_organization_assertions" => json!({"assertions": []}),
        "put_publisher_key" | "put_org_publisher_key" => publisher_key(),
        "rotate_credential" => json!({"secret": "another"}),
        "unseal" => json!({"key": root_key}),
        "create_token" => json!({"role": "orchestrator", "organization": organization}),
        "open_session" => json!({"agent": format!("{organization}/{agent}")}),
        "call_tools" => json!({"calls": [{"tool": "arithmetic/evaluate", "arguments": calculation}]}),
        _ => return None,
    })
}

/// Webhook whose endpoint refuses connections.
fn webhook() -> Value {
    json!({"url": "http://127.0.0.1:9/"})
}

/// Credential document.
fn secret() -> Value {
    json!({"provider": "stripe", "kind": "bearer", "secret": "sk_test", "bound_to": [{"host": "api.stripe.com"}]})
}

/// Document of a publisher's key.
fn publisher_key() -> Value {
    json!({"publisher": "acme", "public_key": "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=", "namespaces": "*"})
}

/// Custom tool document.
fn shop() -> Value {
    let action = json!({"name": "list", "description": "Lists.", "method": "GET", "path": "/", "input_schema": {"type": "object"}});
    json!({"description": "A shop.", "base_url": "https://shop.example", "actions": [action]})
}

fn finds_nothing_that_waits(operation: &str) -> bool {
    ["refresh_custom_tool", "approve_custom_tool", "approve_plugin", "approve_owned_plugin"]
        .contains(&operation)
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
                needs_body: operation["requestBody"]["required"] == true,
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

/// Asserts that the text equals the reviewed file.
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

fn plugin(namespace: &str, version: &str) -> Vec<u8> {
    PluginFile::new(namespace).with_member("version", json!(version)).build()
}
