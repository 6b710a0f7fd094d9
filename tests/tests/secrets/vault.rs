//! Root key and secrets in a vault: an OpenBao server in development mode, over TLS (K1).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolgate_tests::daemon::Options;
use toolgate_tests::process::{ServerProcess, find_installed, free_address};
use toolgate_tests::{CallReply, wait};

use super::*;
use toolgate_tests::upstream::{self, Upstream};

const TOKEN: &str = "token-canary";
const KEY: &str = "9d3e27488bb0c2d94e61f7a05c3d8e9f1a2b4c6d7e8f90a1b2c3d4e56b1f0c5a";
const OTHER: &str = "8899aabbccddeeff102132435465768798a9bacbdcedfe0f0011223344556677";

/// Vault process, killed on drop.
struct Vault {
    process: ServerProcess,
    program: PathBuf,
    port: u16,
    folder: tempfile::TempDir,
}

impl Vault {
    fn start() -> Self {
        let program = find_installed(PROGRAM, "openbao/bin/bao");
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_address().port();
        let process = serve(&program, port, folder.path());
        fs::write(folder.path().join("token"), format!("{TOKEN}\n")).expect("written");
        Self { process, program, port, folder }
    }

    fn bao(&self, arguments: &[&str]) {
        let done = Command::new(&self.program)
            .args(arguments)
            .env("BAO_ADDR", self.url())
            .env("BAO_TOKEN", TOKEN)
            .env("BAO_CACERT", self.ca())
            .output()
            .expect("the program runs");
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("vault-ca.pem")
    }

    fn settings(&self, place: &str) -> String {
        format!(
            "[credentials]\nvault_url = \"{}\"\nvault_token_file = \"{}\"\nca_file = \"{}\"\n{place}\n",
            self.url(),
            self.folder.path().join("token").display(),
            self.ca().display(),
        )
    }
}

fn serve(program: &Path, port: u16, folder: &Path) -> ServerProcess {
    let mut command = Command::new(program);
    command
        .args(["server", "-dev", "-dev-no-store-token", "-dev-tls"])
        .arg(format!("-dev-tls-cert-dir={}", folder.display()))
        .arg(format!("-dev-root-token-id={TOKEN}"))
        .arg(format!("-dev-listen-address=127.0.0.1:{port}"))
        .env("HOME", folder);
    ServerProcess::start(&mut command, |line| line.contains("Root Token")).0
}

fn state(daemon: &Daemon) -> String {
    daemon.anonymous().get("/readyz").expect(200).json()["status"].as_str().expect("a word").to_owned()
}

#[test]
#[cfg_attr(not(has = "openbao"), ignore = "needs OpenBao, which `.ci/run` installs")]
fn k1_a_vaults_kv_engine_keeps_the_root_key() {
    let vault = Vault::start();
    let settings = vault.settings("vault_kv = \"secret/toolgate/prod#root\"");
    let options = Options { settings, ..Options::default() };
    let daemon = Daemon::start_with(PROGRAM, options);
    assert_eq!(state(&daemon), "sealed");
    vault.bao(&["kv", "put", "-mount=secret", "toolgate/prod", &format!("root={KEY}")]);
    let daemon = daemon.crash_and_restart();
    assert_eq!(state(&daemon), "ok");
    let operator = daemon.operator();
    prepare(&operator);
    put(&operator, STRIPE, &bearer(CANARY)).expect(201);
    operator.post("/v1/keys/rotate", &json!({})).expect_refusal(409, "CONFLICT");
    vault.bao(&["kv", "put", "-mount=secret", "toolgate/prod", &format!("root={OTHER}")]);
    let rotated = operator.post("/v1/keys/rotate", &json!({})).expect(200).json();
    assert_eq!((&rotated["rewrapped"], &rotated["going"]), (&json!(1), &Value::Null));
    let daemon = daemon.crash_and_restart();
    assert_eq!(state(&daemon), "ok");
    let log = daemon.log_text();
    assert!(![TOKEN, KEY, OTHER].iter().any(|canary| log.contains(canary)), "{log}");
}

#[test]
#[cfg_attr(not(has = "openbao"), ignore = "needs OpenBao, which `.ci/run` installs")]
fn k1_a_vaults_transit_engine_unwraps_the_root_key() {
    let mut vault = Vault::start();
    vault.bao(&["secrets", "enable", "transit"]);
    vault.bao(&["write", "-f", "transit/keys/toolgate"]);
    let settings = vault.settings("vault_transit = \"transit/toolgate\"");
    let daemon = Daemon::start_with(PROGRAM, Options { settings, ..Options::default() });
    assert_eq!(state(&daemon), "ok");
    let wrapped =
        |daemon: &Daemon| fs::read_to_string(daemon.data().join("keys/root.wrapped")).expect("a file");
    let before = wrapped(&daemon);
    assert!(before.starts_with("vault:v1:"), "{before}");
    assert!(!daemon.data().join("keys/root").exists());
    prepare(&daemon.operator());
    put(&daemon.operator(), STRIPE, &bearer(CANARY)).expect(201);
    let rotated = daemon.operator().post("/v1/keys/rotate", &json!({})).expect(200).json();
    assert_eq!((&rotated["rewrapped"], &rotated["going"]), (&json!(1), &Value::Null));
    assert_ne!(wrapped(&daemon), before);
    let daemon = daemon.crash_and_restart();
    assert_eq!(state(&daemon), "ok");
    assert_eq!(daemon.operator().get(STRIPE).expect(200).json()["state"], "connected");
    vault.process.stop();
    let daemon = daemon.crash_and_restart();
    assert_eq!(state(&daemon), "sealed");
    wait::until_true("the reason to be logged", || {
        daemon.log_text().contains("the vault does not give the root key")
    });
}

/// Settings for an unauthenticated vault, each with the expected reason.
fn unauthenticated_settings(settings: &str) -> [(String, &'static str); 2] {
    let without_ca: Vec<&str> = settings.lines().filter(|line| !line.starts_with("ca_file")).collect();
    [
        (format!("{}\n", without_ca.join("\n")), "TLS failed"),
        (settings.replace("https://", "http://"), "plain HTTP"),
    ]
}

#[test]
#[cfg_attr(not(has = "openbao"), ignore = "needs OpenBao, which `.ci/run` installs")]
fn k4_an_unauthenticated_vault_gets_no_token() {
    let vault = Vault::start();
    vault.bao(&["kv", "put", "-mount=secret", "toolgate", &format!("root={KEY}")]);
    let settings = vault.settings("vault_kv = \"secret/toolgate#root\"");
    for (settings, why) in unauthenticated_settings(&settings) {
        let daemon = Daemon::start_with(PROGRAM, Options { settings, ..Options::default() });
        assert_eq!(state(&daemon), "sealed");
        daemon.wait_for_log("the reason", |line| line.contains(why));
    }
    let daemon = Daemon::start_with(PROGRAM, Options { settings, ..Options::default() });
    assert_eq!(state(&daemon), "ok");
}

/// Prefix of the organization's secrets, and the time that a read secret is cached.
const REFERENCES: &str = "vault_references = \"secret/tenants/{organization}/\"\nvault_kept_ms = 200";
const SHOP: &str = "/v1/orgs/acme/credentials/shop";
const PLACE: &str = "secret/tenants/acme/shop#key";

/// Credential whose secret is in the vault.
fn vault_credential(reference: &str) -> Value {
    json!({
        "provider": "shop", "kind": "api_key", "header": "x-api-key", "vault": reference,
        "bound_to": [{"host": "api.upstream.test", "port": 8443}],
    })
}

/// Daemon with a custom tool whose secret is in the vault.
struct Shop {
    vault: Vault,
    upstream: Upstream,
    daemon: Daemon,
    session: Session,
}

/// Creates the tool, and opens a session that has it.
fn make_tool(operator: &Client, mut grant: Value) -> Session {
    operator.make_agent("acme/bot", &json!({"enabled": ["*"]}));
    grant["network"] = json!([{"host": "api.upstream.test", "port": 8443}]);
    grant["credentials"] = json!(["shop"]);
    operator.make("/v1/orgs/acme/tools/shop/grant", &grant).expect(201);
    let tool = json!({
        "description": "A shop.", "base_url": "https://api.upstream.test:8443",
        "authentication": {"kind": "api_key", "provider": "shop"},
        "actions": [{"name": "item", "description": "An item.", "method": "GET", "path": "/",
            "input_schema": {"type": "object"}}],
    });
    operator.make("/v1/orgs/acme/tools/shop", &tool).expect(201);
    operator.open_session("acme/bot")
}

impl Shop {
    fn start() -> Self {
        let (vault, upstream) = (Vault::start(), Upstream::start());
        upstream.resolve_api();
        let settings = vault.settings(REFERENCES) + &upstream.settings() + "[log]\nlevel = \"trace\"\n";
        let daemon = Daemon::start_with(PROGRAM, Options { settings, ..Options::default() });
        let session = make_tool(&daemon.operator(), upstream.grant(json!({})));
        Self { vault, upstream, daemon, session }
    }

    fn store(&self, secret: &str) {
        self.vault.bao(&[
            "kv",
            "put",
            "-mount=secret",
            "tenants/acme/shop",
            &format!("key={secret}"),
            "other=1",
        ]);
    }

    fn call(&self) -> CallReply {
        self.session.call("shop/item", json!({}))
    }

    /// The last key that the upstream received.
    fn last_key(&self) -> Option<String> {
        let request = self.upstream.requests().pop()?;
        Some(request.split_once("x-api-key: ")?.1.lines().next()?.to_owned())
    }
}

#[test]
#[cfg_attr(not(has = "openbao"), ignore = "needs OpenBao, which `.ci/run` installs")]
fn k1_a_secret_in_a_vault_is_sent_in_requests() {
    let mut shop = Shop::start();
    let (first, second) = ("first-canary-77c1d0", "second-canary-55aa11");
    shop.upstream.answer(move |_| upstream::ok("application/json", &format!(r#"{{"said":"{first}"}}"#)));
    let operator = shop.daemon.operator();
    put(&operator, SHOP, &vault_credential(PLACE)).expect(201);
    // The vault has no such secret yet.
    shop.call().expect_error("CREDENTIAL_MISSING");
    assert_eq!(shop.upstream.requests().len(), 0);
    shop.store(first);
    wait::until_true("the secret to be found", || shop.call().error_type().is_none());
    assert_eq!(shop.last_key().as_deref(), Some(first));
    assert_eq!(*shop.call().output(), json!({"said": "*".repeat(first.len())}));
    // Read the audit log now, since later records would not fit on one page.
    let recorded = || Value::Array(operator.audit("limit=100")).to_string();
    let mut records = recorded();
    assert!(records.contains("credential shop@1/1"), "the record of the first is missing");
    shop.store(second);
    wait::until("the new secret to be sent", || {
        shop.call().output();
        (shop.last_key().as_deref() == Some(second)).then_some(())
    });
    records += &recorded();
    assert!(records.contains("credential shop@1/2"), "the record of the second is missing");
    let shown = operator.get(SHOP).expect(200);
    assert_eq!((&shown.json()["vault"], &shown.json()["state"]), (&json!(PLACE), &json!("connected")));
    shop.vault.process.stop();
    let refused = wait::until("the cached secret to expire", || {
        Some(shop.call()).filter(|reply| reply.error_type().is_some())
    });
    let refused = refused.expect_error("UNAVAILABLE");
    assert!(refused.message().contains("the vault does not give the secret"), "{}", refused.0);
    records += &recorded();
    for place in [shown.text(), records, refused.0.to_string(), shop.daemon.log_text()] {
        assert!(![first, second, TOKEN].iter().any(|canary| place.contains(canary)), "{place}");
    }
}

/// The positive twin is the test above.
#[test]
#[cfg_attr(not(has = "openbao"), ignore = "needs OpenBao, which `.ci/run` installs")]
fn k4_an_unauthenticated_vault_is_not_read_for_organizations() {
    let vault = Vault::start();
    vault.bao(&["kv", "put", "-mount=secret", "tenants/acme/shop", "key=canary-77c1d0"]);
    for (settings, why) in unauthenticated_settings(&vault.settings(REFERENCES)) {
        let daemon = Daemon::start_with(PROGRAM, Options { settings, ..Options::default() });
        let session = make_tool(&daemon.operator(), json!({}));
        put(&daemon.operator(), SHOP, &vault_credential(PLACE)).expect(201);
        // The credential is read before the host name is resolved.
        let refused = session.call("shop/item", json!({})).expect_error("UNAVAILABLE");
        assert!(refused.message().contains(why), "{}", refused.0);
    }
}

#[test]
fn k1_an_organization_may_refer_only_to_its_own_part_of_the_vault() {
    // The requests do not read the vault, so it need not exist.
    let vault = "[credentials]\nvault_url = \"https://127.0.0.1:9\"\nvault_token_file = \"/none\"\n";
    let (_daemon, operator) = daemon(&format!("{vault}{REFERENCES}\n"));
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    for reference in
        ["secret/tenants/rival/shop#key", "secret/tenants/acme/../rival/shop#key", "secret/root#key"]
    {
        put(&owner, SHOP, &vault_credential(reference)).expect_refusal(400, "INVALID_REQUEST");
    }
    owner.get(SHOP).expect_refusal(404, "NOT_FOUND");
    put(&owner, SHOP, &vault_credential(PLACE)).expect(201);
    assert_eq!(owner.get(SHOP).expect(200).json()["vault"], PLACE);
    owner.post(&format!("{SHOP}/rotate"), &json!({"secret": "new-secret"})).expect_refusal(409, "CONFLICT");
    // A credential stored in the daemon has no `vault` member, and can be rotated.
    put(&owner, STRIPE, &bearer(CANARY)).expect(201);
    assert_eq!(owner.get(STRIPE).expect(200).json().get("vault"), None);
    owner.post(&format!("{STRIPE}/rotate"), &json!({"secret": "new-secret"})).expect(200);
}

#[test]
fn k1_vault_references_are_refused_without_the_setting() {
    let (_daemon, operator) = daemon("");
    let refused = put(&operator, SHOP, &vault_credential(PLACE)).expect_refusal(400, "INVALID_REQUEST");
    assert!(refused.text().contains("credentials.vault_references"), "{}", refused.text());
    let mut document = vault_credential(PLACE);
    document["secret"] = json!(CANARY);
    put(&operator, SHOP, &document).expect_refusal(400, "INVALID_REQUEST");
    document.as_object_mut().expect("an object").remove("vault");
    put(&operator, SHOP, &document).expect(201);
}
