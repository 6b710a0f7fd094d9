//! The OpenAPI document is correct and complete.
//!
//! schemathesis (schemathesis.readthedocs.io) tests correctness: it sends valid and invalid requests built from the
//! document, and checks status, code, content type, schema, headers, authentication and methods of each response.
//! `.ci/run` installs it; without it those tests print a note and pass. Its settings are in `tests/schemathesis`.
//!
//! The tests below check completeness.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use toolgate_tests::{Client, Daemon, Options, PluginFile, Session, Value, json, process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Fixed seed, so that every run sends the same requests.
const SEED: &str = "7300";
/// Generated requests per operation, in addition to the schema's examples.
const EXAMPLES: &str = "6";

#[test]
#[cfg_attr(not(has = "schemathesis"), ignore = "needs schemathesis, which `.ci/run` installs")]
fn an_operators_requests_get_documented_responses() {
    let schemathesis = schemathesis();
    let fixture = Fixture::start();
    let operator = fixture.operator.clone();
    fixture.run(&schemathesis, &operator, true);
}

#[test]
#[cfg_attr(not(has = "schemathesis"), ignore = "needs schemathesis, which `.ci/run` installs")]
fn an_orchestrators_requests_get_documented_responses() {
    let schemathesis = schemathesis();
    let fixture = Fixture::start();
    let token = json!({"role": "orchestrator", "organization": "tenant"});
    let orchestrator = fixture.operator.with_new_token(&token);
    fixture.run(&schemathesis, &orchestrator, false);
}

/// Root key of the daemon, to unseal it, and another one to rotate to.
const ROOT_KEY: &str = "6b1f0c5a9d3e27488bb0c2d94e61f7a05c3d8e9f1a2b4c6d7e8f90a1b2c3d4e5";
const OTHER_ROOT_KEY: &str = "00112233445566778899aabbccddeeff102132435465768798a9bacbdcedfe0f";

/// Daemon with one resource of each kind to use, and one to delete.
struct Fixture {
    daemon: Daemon,
    operator: Client,
    session: Session,
    spare_session: Session,
    spare_token: String,
    approval: String,
}

impl Fixture {
    fn start() -> Self {
        // Missing request bodies run into the timeout. Loads that are in progress hold memory for as many bytes as a file may have.
        let http = "[http]\nbody_timeout_ms = 2000\nbodies_bytes = 4_294_967_296\n";
        // Unreachable name server: no generated host name is resolved. An issuer that is not there is enough for the metadata.
        let others = "[oauth]\nresource = \"http://127.0.0.1/mcp\"\n[[oauth.issuers]]\nissuer = \"http://127.0.0.1:9\"\n[credentials]\npublic_url = \"https://127.0.0.1\"\nroot_key_environment = \"ROOT_KEY\"\n[egress]\nname_servers = [\"127.0.0.1:9\"]\n[webhooks]\nplain_http = [\"127.0.0.1:9\"]\n";
        let options = Options {
            settings: format!("{http}{others}"),
            under: vec!["env".into(), format!("ROOT_KEY={ROOT_KEY}")],
            ..Options::default()
        };
        let daemon = Daemon::start_with(PROGRAM, options);
        let operator = daemon.operator();
        for agent in ["tenant/bot", "tenant/spare", "spare/bot", "archive/bot"] {
            operator.make_agent(agent, &json!({"enabled": ["*"]}));
        }
        let policy = json!({"channels": {"webchat": {}}, "owners_load_plugins": true});
        operator.make("/v1/platform/policy", &policy).expect(201);
        operator.make_agent("tenant/supervised", &json!({"enabled": ["files/*"], "autonomy": "supervised"}));
        let asking = operator.with_new_token(&json!({"role": "orchestrator", "organization": "tenant"}));
        let write = json!({"path": "b.txt", "content": "b"});
        let waiting = asking.open_session("tenant/supervised").call("files/write", write);
        let approval = waiting.approval();
        for (namespace, version) in [("answer", "1.0.0"), ("answer", "1.0.1"), ("spare", "1.0.0")] {
            operator.load(namespace, &plugin(namespace, version));
        }
        operator.make("/v1/plugins/answer/grant", &json!({})).expect(201);
        let session = operator.open_session("tenant/bot");
        session.call_as("c1", "arithmetic/evaluate", json!({"expression": "6*7"}));
        session.call_as("asked", "user/ask", json!({"question": "Which?"}));
        for path in ["a.txt", "folder/b.txt", "spare.txt"] {
            session.put_file(path, b"text").expect(204);
        }
        // The rotation stays in progress until the variable has the new key, so that repeated requests succeed.
        operator.post("/v1/keys/rotate", &json!({"key": OTHER_ROOT_KEY})).expect(200);
        for tool in ["shop", "spare-shop"] {
            let action = json!({"name": "list", "description": "Lists.", "method": "GET", "path": "/", "input_schema": {"type": "object"}});
            let definition =
                json!({"description": "A shop.", "base_url": "https://shop.example", "actions": [action]});
            operator.make(&format!("/v1/orgs/tenant/tools/{tool}"), &definition).expect(201);
            operator.make(&format!("/v1/orgs/tenant/tools/{tool}/grant"), &json!({})).expect(201);
        }
        for credential in ["drive", "spare"] {
            let document = json!({
                "provider": "drive", "kind": "oauth2_authorization_code", "client_id": "toolgate",
                "token_url": "https://idp.example/token", "authorization_url": "https://idp.example/authorize",
                "bound_to": [{"host": "drive.example"}],
            });
            operator.make(&format!("/v1/orgs/tenant/credentials/{credential}"), &document).expect(201);
        }
        make_trusted(&operator);
        let token = json!({"role": "auditor", "organization": "tenant"});
        let spare_token = operator.post("/v1/tokens", &token).expect(201).json();
        let spare_token = spare_token["id"].as_str().expect("an id").to_owned();
        let spare_session = operator.open_session("tenant/bot");
        Self { daemon, operator, session, spare_session, spare_token, approval }
    }

    /// Runs schemathesis. Its report is the message of a failure.
    fn run(mut self, schemathesis: &Path, client: &Client, sees_all: bool) {
        let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemathesis");
        let folder = self.daemon.folder.path();
        let mut settings_text = fs::read_to_string(settings.join("schemathesis.toml")).expect("settings");
        for (variable, id) in [
            ("${TOOLGATE_SESSION}", &*self.session.id),
            ("${TOOLGATE_SPARE_SESSION}", &*self.spare_session.id),
            ("${TOOLGATE_SPARE_TOKEN}", &*self.spare_token),
            ("${TOOLGATE_APPROVAL}", &*self.approval),
            ("${TOOLGATE_ROOT_KEY}", ROOT_KEY),
            ("${TOOLGATE_OTHER_ROOT_KEY}", OTHER_ROOT_KEY),
        ] {
            settings_text = settings_text.replace(variable, id);
        }
        fs::write(folder.join("schemathesis.toml"), settings_text).expect("the settings are written");
        let component = folder.join("answer.wasm");
        fs::write(&component, plugin("answer", "1.0.2")).expect("the plugin file is written");
        let token = client.token.as_deref().expect("a token");
        let mut command = process::external_command(schemathesis);
        command
            .args(["--config-file", "schemathesis.toml"])
            .arg("run")
            .arg(format!("http://{}/openapi.json", self.daemon.address))
            // Otherwise the hook that runs when the document is loaded has no address.
            .args(["--url", &format!("http://{}", self.daemon.address)])
            .args(["--checks", "all", "--seed", SEED, "--max-examples", EXAMPLES])
            .args(["--workers", "1", "--generation-database", "none", "--no-color"])
            .current_dir(folder)
            .env("SCHEMATHESIS_HOOKS", settings.join("hooks.py"))
            .env("TOOLGATE_TOKEN", token)
            .env("TOOLGATE_TOKEN_ID", token.split('_').nth(1).unwrap_or_default())
            .env("TOOLGATE_COMPONENT", &component)
            .env("TOOLGATE_SESSION", &self.session.id)
            .env("TOOLGATE_SPARE_SESSION", &self.spare_session.id)
            .env("TOOLGATE_SPARE_TOKEN", &self.spare_token)
            .env("TOOLGATE_APPROVAL", &self.approval)
            .env("TOOLGATE_ROOT_KEY", ROOT_KEY)
            .env("TOOLGATE_OTHER_ROOT_KEY", OTHER_ROOT_KEY)
            // Keeps compiled Python files out of the source tree.
            .env("PYTHONDONTWRITEBYTECODE", "1");
        if sees_all {
            command.env("TOOLGATE_REACHES_ALL", "1");
        }
        let done = command.output().expect("schemathesis runs");
        let report = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{report}\n{}", String::from_utf8_lossy(&done.stderr));
        println!("{report}");
        assert!(self.daemon.is_running(), "the daemon died");
        self.daemon.anonymous().get("/readyz").expect(200);
    }
}

/// Makes what vouches for plugins or is told of approvals: one of each to use, and one to delete.
fn make_trusted(operator: &Client) {
    let key =
        json!({"publisher": "acme", "public_key": "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="});
    for scope in ["platform", "orgs/tenant"] {
        for name in ["kept", "spare"] {
            operator.make(&format!("/v1/{scope}/publisher-keys/{name}"), &key).expect(201);
        }
        operator.make(&format!("/v1/{scope}/policy/assertions"), &json!({"assertions": []})).expect(201);
    }
    let put = |path: &str, content_type: &str, body: &[u8]| {
        operator.send("PUT", path, &[("Content-Type", content_type)], body)
    };
    for name in ["kept", "spare"] {
        let path = format!("/v1/orgs/tenant/webhooks/{name}");
        // The endpoint refuses connections.
        put(&path, "application/json", br#"{"url": "http://127.0.0.1:9/"}"#).expect(201);
    }
    for (namespace, version) in [("owned", "1.0.0"), ("owned", "1.0.1"), ("spare-owned", "1.0.0")] {
        let path = format!("/v1/orgs/tenant/plugins/{namespace}");
        put(&path, "application/wasm", &plugin(namespace, version)).expect(200);
    }
    for namespace in ["answer", "shop"] {
        operator.make(&format!("/v1/orgs/tenant/enabled/{namespace}"), &json!({})).expect(201);
    }
}

fn schemathesis() -> PathBuf {
    process::find_installed(PROGRAM, "schemathesis/bin/schemathesis")
}

fn plugin(namespace: &str, version: &str) -> Vec<u8> {
    PluginFile::new(namespace).with_member("version", json!(version)).build()
}

#[test]
fn every_operation_is_described() {
    let document = document();
    let tags: BTreeSet<&str> = list(&document["tags"]).map(|tag| text(&tag["name"])).collect();
    let mut ids = BTreeSet::new();
    for (place, operation) in operations(&document) {
        let id = text(&operation["operationId"]);
        assert!(
            !id.is_empty() && ids.insert(id.to_owned()),
            "{place}: the operation id `{id}` is empty or not unique"
        );
        let (summary, description) = (text(&operation["summary"]), text(&operation["description"]));
        assert!(!summary.is_empty() && summary.len() < 80, "{place}: no short summary");
        assert!(!description.is_empty() && description != summary, "{place}: no description");
        assert!(list(&operation["tags"]).any(|tag| tags.contains(text(tag))), "{place}: no described tag");
        assert!(operation["security"].is_array(), "{place}: no `security`");
        for parameter in list(&operation["parameters"]) {
            let name = text(&parameter["name"]);
            assert!(!text(&parameter["description"]).is_empty(), "{place}: `{name}` is not described");
        }
        for (status, response) in members(&operation["responses"]) {
            assert!(!text(&response["description"]).is_empty(), "{place}: {status} is not described");
            if status.as_str() >= "400" {
                assert_refusal(&format!("{place}: {status}"), response);
            }
        }
    }
}

/// Asserts that a refusal uses the problem schema and lists its codes.
fn assert_refusal(place: &str, response: &Value) {
    let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
    assert_eq!(schema, "#/components/schemas/Problem", "{place}");
    assert_eq!(response["content"].as_object().map(serde_json::Map::len), Some(1), "{place}");
    let codes: Vec<&str> = list(&response["x-toolgate-error-types"]).map(text).collect();
    assert!(!codes.is_empty(), "{place}: no code");
    let description = text(&response["description"]);
    assert!(
        codes.iter().all(|code| description.contains(code)),
        "{place}: {codes:?} are not in the description"
    );
}

#[test]
fn every_member_of_every_schema_is_described() {
    let document = document();
    for (name, schema) in members(&document["components"]["schemas"]) {
        let parts = std::iter::once(schema).chain(list(&schema["oneOf"])).chain(list(&schema["allOf"]));
        for (member, property) in parts.flat_map(|part| members(&part["properties"])) {
            // The tag of a variant says what its one value says.
            if list(&property["enum"]).count() == 1 {
                continue;
            }
            // A nullable member is described at its non-null alternative.
            let alternatives = list(&property["oneOf"]).map(|part| text(&part["description"]));
            let description =
                alternatives.chain([text(&property["description"])]).collect::<Vec<_>>().concat();
            assert!(!description.is_empty(), "`{name}.{member}` is not described");
            let unit = match member.rsplit('_').next() {
                Some("ms") => "milliseconds",
                Some("us") => "microseconds",
                Some("bytes") => "byte",
                _ => "",
            };
            let is_limit = name == "Limits";
            assert!(
                is_limit || description.to_lowercase().contains(unit),
                "`{name}.{member}` does not name its unit"
            );
        }
    }
}

/// Every reference resolves, and every schema is referenced.
#[test]
fn every_schema_is_defined_and_used() {
    let document = document();
    let mut used = BTreeSet::new();
    references(&document, &mut used);
    let defined =
        members(&document["components"]["schemas"]).map(|(name, _)| format!("#/components/schemas/{name}"));
    let defined: BTreeSet<String> = defined.collect();
    // A list has the schema of its items inline.
    let listed =
        defined.iter().filter(|name| name.contains("/List_")).map(|name| name.replace("/List_", "/"));
    used.extend(listed.filter(|item| defined.contains(item)));
    let unmatched: Vec<&String> = used.symmetric_difference(&defined).collect();
    assert!(unmatched.is_empty(), "{unmatched:?}");
}

/// Each link names an existing operation and parameters of it.
#[test]
fn every_link_names_an_operation() {
    let document = document();
    let mut links = 0;
    for (place, operation) in operations(&document) {
        for (_, response) in members(&operation["responses"]) {
            for (name, link) in members(&response["links"]) {
                let target = operations(&document)
                    .find(|(_, operation)| operation["operationId"] == link["operationId"]);
                let (_, target) =
                    target.unwrap_or_else(|| panic!("{place}: the link `{name}` names no operation"));
                for (parameter, _) in members(&link["parameters"]) {
                    let known = list(&target["parameters"]).any(|known| text(&known["name"]) == parameter);
                    assert!(known, "{place}: the target of the link `{name}` has no `{parameter}`");
                }
                links += 1;
            }
        }
    }
    assert!(links > 5, "{links} links");
}

/// The document without its texts is the one in `tests/golden/openapi.json`: descriptions and schema names may change, all
/// else is the interface. A wanted change replaces the file, and the changelog lists it.
#[test]
fn the_document_differs_from_the_golden_file_in_texts_and_schema_names_alone() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/openapi.json");
    let golden: Value = serde_json::from_slice(&fs::read(golden).expect("the golden file")).expect("JSON");
    let served = document();
    let (expected, actual) = (interface(&golden), interface(&served));
    let served_file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
    if let Some(difference) = difference(&expected, &actual, String::new()) {
        let text = format!("{served:#}\n");
        fs::write(&served_file, text).expect("the target folder is writable");
        panic!("{difference}; the served document is in {}", served_file.display());
    }
    // The comparison sees a change of the interface, and no change of texts.
    let mut changed = golden.clone();
    let operation = &mut changed["paths"]["/v1/sessions/{id}/calls"]["post"];
    operation["description"] = json!("another text");
    assert_eq!(difference(&expected, &interface(&changed), String::new()), None);
    changed["paths"]["/v1/sessions/{id}/calls"]["post"]["responses"]["200"] = json!({"description": ""});
    assert_ne!(difference(&expected, &interface(&changed), String::new()), None);
}

/// The paths of a document with every reference resolved, without summaries and descriptions.
fn interface(document: &Value) -> Value {
    resolve(document, &document["paths"], false)
}

/// `are_names` tells that the members of `value` have names of the interface, such as properties: `description` is one then.
fn resolve(document: &Value, value: &Value, are_names: bool) -> Value {
    if let Some(reference) = value["$ref"].as_str() {
        let target = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
        return resolve(document, target.unwrap_or_else(|| panic!("{reference} leads nowhere")), false);
    }
    match value {
        Value::Object(members) => {
            let is_text = |name: &str| !are_names && matches!(name, "description" | "summary");
            let kept = members.iter().filter(|(name, _)| !is_text(name));
            kept.map(|(name, member)| {
                let are_names =
                    !are_names && matches!(&**name, "properties" | "responses" | "headers" | "links");
                (name.clone(), resolve(document, member, are_names))
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
        }
        Value::Array(items) => items.iter().map(|item| resolve(document, item, false)).collect(),
        _ => value.clone(),
    }
}

/// The place and the values of the first difference.
fn difference(expected: &Value, actual: &Value, place: String) -> Option<String> {
    let at = |step: &str| format!("{place}/{}", step.replace('~', "~0").replace('/', "~1"));
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let names: BTreeSet<&String> = expected.keys().chain(actual.keys()).collect();
            names.into_iter().find_map(|name| {
                let member = |of: &serde_json::Map<String, Value>| of.get(name).cloned().unwrap_or_default();
                difference(&member(expected), &member(actual), at(name))
            })
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let mut pairs = expected.iter().zip(actual).enumerate();
            pairs.find_map(|(index, (expected, actual))| difference(expected, actual, at(&index.to_string())))
        }
        _ if expected == actual => None,
        _ => {
            let excerpt = |value: &Value| value.to_string().chars().take(200).collect::<String>();
            let (expected, actual) = (excerpt(expected), excerpt(actual));
            Some(format!("at `{place}` the golden file has {expected} and the document {actual}"))
        }
    }
}

fn document() -> Value {
    Daemon::start(PROGRAM, "").anonymous().get("/openapi.json").expect(200).json()
}

/// Operations, each with method and path.
fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    members(&document["paths"]).flat_map(|(path, item)| {
        members(item).map(move |(method, operation)| (format!("{} {path}", method.to_uppercase()), operation))
    })
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    found.extend(value["$ref"].as_str().map(str::to_owned));
    list(value).for_each(|item| references(item, found));
    members(value).for_each(|(_, member)| references(member, found));
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
