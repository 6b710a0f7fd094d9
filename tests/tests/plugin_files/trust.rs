//! Trust in plugin files: signatures by publishers' keys, consent to versions that differ, hints that are confirmed (O2, 9.11,
//! 9.16).

mod kills;
mod quarantine;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;
use toolgate_core::digest::digest_of;
use toolgate_core::signing::{SigningKey, Statement};
use toolgate_tests::Client;
use toolgate_tests::shell::Shell;

use super::*;

/// The publisher of the files of [`PluginFile`].
const PUBLISHER: &str = "Toolgate tests";

const KEY: &str = "/v1/platform/publisher-keys/tests";

/// A publisher with a key.
struct Publisher {
    key: SigningKey,
    _folder: TempDir,
}

impl Publisher {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let key = SigningKey::generate(&folder.path().join("key")).expect("a key");
        Self { key, _folder: folder }
    }

    /// The document of its key, for every namespace.
    fn document(&self) -> Value {
        json!({"publisher": PUBLISHER, "public_key": self.key.public().to_string(), "namespaces": "*"})
    }

    fn document_with(&self, member: &str, value: Value) -> Value {
        let mut document = self.document();
        document[member] = value;
        document
    }

    /// The header with the signature of a statement.
    fn sign(&self, statement: &Statement) -> String {
        STANDARD.encode(statement.sign(&self.key))
    }

    /// The header with the signature of a file.
    fn sign_file(&self, namespace: &str, file: &[u8]) -> String {
        self.sign(&statement(namespace, file))
    }
}

fn statement(namespace: &str, file: &[u8]) -> Statement {
    Statement {
        namespace: namespace.into(),
        version: "1.0.0".into(),
        publisher: PUBLISHER.into(),
        digest: digest_of(file).to_string(),
    }
}

/// Uploads a file with a signature.
fn upload_signed(operator: &Client, target: &str, file: &[u8], signature: &str) -> Reply {
    let headers = [("Content-Type", "application/wasm"), ("Toolgate-Signature", signature)];
    operator.send("PUT", &format!("/v1/plugins/{target}"), &headers, file)
}

fn show(operator: &Client, namespace: &str) -> Value {
    operator.get(&format!("/v1/plugins/{namespace}")).expect(200).json()
}

#[track_caller]
fn assert_tells(reply: &Reply, words: &str) {
    let problem = reply.json();
    assert!(problem["detail"].as_str().is_some_and(|text| text.contains(words)), "no `{words}`: {problem}");
    assert!(problem["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{problem}");
}

#[test]
fn o2_a_signed_file_proves_its_publisher_until_the_key_is_revoked() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let publisher = Publisher::new();
    operator.make(KEY, &publisher.document()).expect(201);
    let file = PluginFile::new("crm").build();
    let loaded =
        upload_signed(&operator, "crm", &file, &publisher.sign_file("crm", &file)).expect(200).json();
    let signed_by = json!({
        "publisher": PUBLISHER, "key": publisher.key.public().id(), "public_key": publisher.key.public().to_string(),
    });
    assert_eq!((&loaded["state"], &loaded["signed_by"]), (&json!("active"), &signed_by), "{loaded}");
    let daemon = daemon.crash_and_restart();
    let operator = daemon.operator();
    let shown = show(&operator, "crm");
    assert_eq!((&shown["signed_by"], &shown["reason"]), (&signed_by, &json!(null)), "{shown}");
    // A publisher that a plugin merely names takes over no signed namespace.
    let next = PluginFile::new("crm").with_result("2").build();
    assert_tells(&operator.upload("crm", &next).expect_refusal(409, "CONFLICT"), "its signature proves");
    operator.replace(KEY, &publisher.document_with("revoked", json!(true))).expect(200);
    let shown = show(&operator, "crm");
    assert_eq!(shown["state"], "active", "{shown}");
    for reason in [&shown["reason"], &shown["versions"][0]["reason"]] {
        assert!(reason.as_str().is_some_and(|reason| reason.contains("revoked")), "{shown}");
    }
    let session = daemon.session_within("acme/bot", &json!({}));
    assert_eq!(session.call("crm/answer", json!({})).output(), 1);
    let refused = upload_signed(&operator, "crm", &next, &publisher.sign_file("crm", &next));
    assert_tells(&refused.expect_refusal(422, "INVALID_PLUGIN"), "is revoked");
    // A second key of the publisher goes on.
    let second = Publisher::new();
    operator.make("/v1/platform/publisher-keys/second", &second.document()).expect(201);
    let waits = upload_signed(&operator, "crm", &next, &second.sign_file("crm", &next)).expect(200).json();
    assert_eq!(waits["state"], "quarantined", "{waits}");
    assert_eq!(waits["diff"][0]["field"], "publisher key", "{waits}");
    operator.approve("crm", &waits["digest"]).expect(200);
    assert_eq!(session.call("crm/answer", json!({})).output(), 2);
    assert_eq!(show(&operator, "crm")["reason"], json!(null));
    // No version of the revoked key begins to serve again.
    let roll_back = || operator.post("/v1/plugins/crm/rollback", &json!({}));
    assert_tells(&roll_back().expect_refusal(422, "INVALID_PLUGIN"), "revoked");
    assert_eq!(session.call("crm/answer", json!({})).output(), 2);
    operator.replace(KEY, &publisher.document()).expect(200);
    roll_back().expect(200);
    assert_eq!(session.call("crm/answer", json!({})).output(), 1);
}

#[test]
fn o2_a_new_signature_of_the_file_that_serves_takes_the_place_of_the_old_one() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let (first, second) = (Publisher::new(), Publisher::new());
    operator.make(KEY, &first.document()).expect(201);
    operator.make("/v1/platform/publisher-keys/second", &second.document()).expect(201);
    let file = PluginFile::new("crm").build();
    operator.load("crm", &file);
    let session = daemon.session_within("acme/bot", &json!({}));
    let is_proven =
        || operator.get("/v1/orgs/acme/enabled/crm").expect(200).json()["publisher_proven"].clone();
    assert_eq!(is_proven(), false);
    for publisher in [&first, &second] {
        let signature = publisher.sign_file("crm", &file);
        let loaded = upload_signed(&operator, "crm", &file, &signature).expect(200).json();
        assert_eq!(loaded["signed_by"]["key"], publisher.key.public().id(), "{loaded}");
        assert_eq!(loaded["versions"].as_array().map(Vec::len), Some(1), "{loaded}");
        assert_eq!(is_proven(), true);
    }
    operator
        .replace("/v1/platform/publisher-keys/second", &second.document_with("revoked", json!(true)))
        .expect(200);
    assert_eq!(is_proven(), false, "a revoked key proves nothing");
    assert_eq!(session.call("crm/answer", json!({})).output(), 1);
}

#[test]
fn o2_a_signature_that_proves_nothing_is_refused_where_none_is_required_too() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let (publisher, stranger) = (Publisher::new(), Publisher::new());
        operator.make(KEY, &publisher.document_with("namespaces", json!(["proven", "plain-*"]))).expect(201);
        let file = PluginFile::new("proven").build();
        let sound = statement("proven", &file);
        let other_key = {
            let envelope: Value = serde_json::from_str(&sound.sign(&stranger.key)).expect("JSON");
            let mut claimed = envelope;
            claimed["signatures"][0]["keyid"] = json!(publisher.key.public().id());
            STANDARD.encode(claimed.to_string())
        };
        let another = PluginFile::new("proven").with_result("9").build();
        let cases = [
            (stranger.sign(&sound), "no key that this daemon knows"),
            (other_key, "does not verify under the key"),
            (publisher.sign(&statement("proven", &another)), "is for the digest"),
            (publisher.sign(&statement("other", &file)), "is for the namespace"),
            (publisher.sign(&Statement { version: "2.0.0".into(), ..sound.clone() }), "is for the version"),
            (
                publisher.sign(&Statement { publisher: "evil".into(), ..sound.clone() }),
                "is for the publisher",
            ),
            (STANDARD.encode("{}"), "no DSSE envelope"),
            (STANDARD.encode("x".repeat(9_000)), "bytes"),
        ];
        for (signature, words) in cases {
            let refused = upload_signed(&operator, "proven", &file, &signature);
            assert_tells(&refused.expect_refusal(422, "INVALID_PLUGIN"), words);
        }
        upload_signed(&operator, "proven", &file, "?").expect_refusal(400, "INVALID_REQUEST");
        operator.get("/v1/plugins/proven").expect_refusal(404, "NOT_FOUND");
        let foreign = PluginFile::new("foreign").build();
        let refused =
            upload_signed(&operator, "foreign", &foreign, &publisher.sign_file("foreign", &foreign));
        assert_tells(&refused.expect_refusal(422, "INVALID_PLUGIN"), "may not publish the namespace");
        upload_signed(&operator, "proven", &file, &publisher.sign(&sound)).expect(200);
        for namespace in ["proven", "foreign"] {
            let _ = operator.delete(&format!("/v1/plugins/{namespace}"));
        }
        operator.send("DELETE", KEY, &[("If-Match", "*")], &[]).expect(204);
        fixture.assert_serves();
    });
}

/// A component without the contract has the namespace of its path, so that only the statement binds the file to one.
#[test]
fn o2_a_signature_is_replayed_for_no_other_namespace() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let publisher = Publisher::new();
        operator.make(KEY, &publisher.document()).expect(201);
        let signature = publisher.sign_file("clock", guests::PLAIN);
        let refused = upload_signed(&operator, "watch?version=1.0.0", guests::PLAIN, &signature);
        assert_tells(&refused.expect_refusal(422, "INVALID_PLUGIN"), "is for the namespace `clock`");
        let loaded = upload_signed(&operator, "clock?version=1.0.0", guests::PLAIN, &signature).expect(200);
        assert_eq!(loaded.json()["signed_by"]["publisher"], PUBLISHER);
        operator.delete("/v1/plugins/clock").expect(204);
        operator.send("DELETE", KEY, &[("If-Match", "*")], &[]).expect(204);
    });
}

#[test]
fn o2_where_signatures_are_required_only_signed_files_load_and_built_in_plugins_serve() {
    let daemon = Daemon::start(PROGRAM, "[plugins]\nsignatures = \"required\"\n");
    let operator = daemon.operator();
    let publisher = Publisher::new();
    operator.make(KEY, &publisher.document()).expect(201);
    let file = PluginFile::new("crm").build();
    let refused = operator.upload("crm", &file).expect_refusal(422, "INVALID_PLUGIN");
    assert_tells(&refused, "no signature");
    assert!(refused.json()["hint"].as_str().is_some_and(|hint| hint.contains("toolgate plugin sign")));
    upload_signed(&operator, "crm", &file, &publisher.sign_file("crm", &file)).expect(200);
    let session = daemon.session_within("acme/bot", &json!({}));
    assert_eq!(session.call("crm/answer", json!({})).output(), 1);
    let sum = session.call("arithmetic/evaluate", json!({"expression": "6*7"}));
    assert_eq!(sum.status(), "ok", "{}", sum.0);
}

#[test]
fn o2_keys_are_documents_of_operators_and_owners() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.make_organization("acme");
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    let publisher = Publisher::new();
    let own = "/v1/orgs/acme/publisher-keys/tests";
    for (client, path) in [(&operator, KEY), (&owner, own)] {
        for (member, value) in [
            ("public_key", json!("ed25519:AAAA")),
            ("public_key", json!("rsa:AAAA")),
            ("namespaces", json!(["CRM"])),
            ("publisher", json!("")),
            ("valid_until", json!("tomorrow")),
            ("revokd", json!(true)),
        ] {
            let refused = client.make(path, &publisher.document_with(member, value));
            refused.expect_refusal(400, "INVALID_REQUEST");
        }
        client.get(path).expect_refusal(404, "NOT_FOUND");
        let unconditional = publisher.document().to_string();
        let json_body = [("Content-Type", "application/json")];
        client.send("PUT", path, &json_body, unconditional.as_bytes()).expect_refusal(428, "INVALID_REQUEST");
        client.make(path, &publisher.document()).expect(201);
        client.make(path, &publisher.document()).expect_refusal(412, "CONFLICT");
        assert_eq!(client.get(path).expect(200).json(), publisher.document());
        let listed = client.get(path.trim_end_matches("/tests")).expect(200).json();
        assert_eq!(listed["items"][0]["name"], "tests", "{listed}");
        let useless =
            client.replace(path, &publisher.document_with("namespaces", json!([]))).expect(200).json();
        assert_eq!(useless["warnings"][0]["code"], "NO_EFFECT", "{useless}");
        client.send("DELETE", path, &[("If-Match", "*")], &[]).expect(204);
        client.get(path).expect_refusal(404, "NOT_FOUND");
    }
    owner.get(KEY).expect_refusal(403, "FORBIDDEN");
    let acts = operator.audit("kind=admin&action=publisher_key.put");
    assert!(acts.iter().any(|act| act["admin"]["outcome"] == "ok"), "{acts:?}");
    assert!(acts.iter().any(|act| act["admin"]["outcome"] == "INVALID_REQUEST"), "{acts:?}");
    assert_eq!(operator.audit("kind=admin&action=publisher_key.delete").len(), 2);
}

#[test]
fn o2_a_file_is_signed_verified_and_loaded_on_the_command_line() {
    let daemon = Daemon::start(PROGRAM, "");
    let folder = tempfile::tempdir().expect("a folder");
    let shell = Shell::new(PROGRAM, folder.path(), &daemon);
    fs::write(folder.path().join("crm.wasm"), PluginFile::new("crm").build()).expect("written");
    fs::write(folder.path().join("other.wasm"), PluginFile::new("crm").with_result("2").build())
        .expect("written");
    let public = shell.run("toolgate plugin keygen acme.key").expect_success();
    let public = public.trim();
    assert!(public.starts_with("ed25519:"), "{public}");
    shell.run("toolgate plugin keygen acme.key").expect_failure();
    shell.run("toolgate plugin sign crm.wasm --key acme.key").expect_success();
    let verify = |file: &str| {
        shell.run(&format!("toolgate plugin verify {file} --signature crm.wasm.sig --public-key {public}"))
    };
    assert!(verify("crm.wasm").expect_success().contains("signed by `Toolgate tests`"));
    assert!(verify("other.wasm").expect_failure().contains("another file"));
    assert!(
        shell
            .run("toolgate plugin load crm.wasm --yes")
            .expect_failure()
            .contains("no key that this daemon knows")
    );
    let put = format!(
        "toolgate plugin key put tests --publisher 'Toolgate tests' --public-key {public} --namespace crm"
    );
    shell.run(&put).expect_success();
    shell.run("toolgate plugin load crm.wasm --yes").expect_success();
    assert_eq!(show(&daemon.operator(), "crm")["signed_by"]["publisher"], PUBLISHER);
    shell.run("toolgate plugin key revoke tests").expect_success();
    assert!(shell.run("toolgate plugin key list").expect_success().contains("revoked"));
    shell.run("toolgate plugin key remove tests").expect_success();
}
