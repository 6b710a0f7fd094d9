//! Plugins from OCI registries: Debian's `docker-registry` (O1), and in `hostile` a registry that misbehaves.

mod hostile;

use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use toolgate_admission::Digest;
use toolgate_core::signing::{SigningKey, Statement};
use toolgate_tests::daemon::{ProgramOutput, run_to_end};
use toolgate_tests::process::{ServerProcess, find_installed, free_address};
use toolgate_tests::upstream::{PLAIN_PORT, Piece, Upstream, answer};

use super::*;

const USER: &str = "puller";
const PASSWORD: &str = "secret-canary";
/// bcrypt of the password, as `htpasswd -B` writes it.
const HTPASSWD: &str = "puller:$2b$04$qikNS5rIz/cBBVzO3HLDlOrVFkDLkgC3Wa7Tl7icJCPZaP1iRSIFa\n";

const HTPASSWD_ACCESS: &str = "auth:\n  htpasswd:\n    realm: test\n    path: htpasswd\n";

/// A registry process with an empty store, killed on drop.
struct Registry {
    address: SocketAddr,
    folder: tempfile::TempDir,
    _process: ServerProcess,
}

impl Registry {
    fn start() -> Self {
        Self::start_with("")
    }

    fn start_private() -> Self {
        Self::start_with(HTPASSWD_ACCESS)
    }

    /// A private registry with TLS, whose certificate is `certificate.pem`.
    fn start_with_tls() -> Self {
        let tls = "  tls:\n    certificate: certificate.pem\n    key: key.pem\n";
        Self::start_with(&format!("{tls}{HTPASSWD_ACCESS}"))
    }

    /// Starts with more lines of its configuration, of which the first may belong to `http`.
    fn start_with(more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let address = free_address();
        let config = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: store\nhttp:\n  addr: {address}\n{more}"
        );
        let names = vec![address.ip().to_string()];
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(names).expect("a certificate");
        fs::write(folder.path().join("certificate.pem"), cert.pem()).expect("written");
        fs::write(folder.path().join("key.pem"), signing_key.serialize_pem()).expect("written");
        fs::write(folder.path().join("config.yml"), config).expect("written");
        fs::write(folder.path().join("htpasswd"), HTPASSWD).expect("written");
        fs::write(folder.path().join("password"), format!("{PASSWORD}\n")).expect("written");
        fs::write(folder.path().join("wrong"), "another").expect("written");
        let mut command = Command::new(find_installed(PROGRAM, "registry/usr/bin/docker-registry"));
        command.args(["serve", "config.yml"]).current_dir(folder.path()).stdout(Stdio::null());
        let process = ServerProcess::spawn(&mut command);
        wait::until_true("the registry to listen", || TcpStream::connect(address).is_ok());
        Self { address, folder, _process: process }
    }

    fn reference(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.address)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Settings of a daemon that may use the registry, with more keys of its entry.
    fn settings(&self, more: &str) -> String {
        settings_for(&self.address.to_string(), more)
    }

    fn login(&self, password_file: &str) -> String {
        format!("username = \"{USER}\"\npassword_file = \"{}\"\n", self.path(password_file))
    }

    fn try_push(&self, name: &str, content: &[u8], options: &[&str]) -> ProgramOutput {
        fs::write(self.folder.path().join("pushed.wasm"), content).expect("written");
        let reference = self.reference(name);
        let tls = match options.contains(&"--ca-file") {
            true => &[][..],
            false => &["--plain-http"][..],
        };
        let words = [&["plugin", "push", "pushed.wasm", &reference], tls, options].concat();
        run_to_end(PROGRAM, &words, self.folder.path())
    }

    /// Pushes a file with the command line, and returns the digest of its manifest.
    #[track_caller]
    fn push(&self, name: &str, content: &[u8], options: &[&str]) -> String {
        let ended = self.try_push(name, content, &[options, &["--json"]].concat());
        assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
        let pushed: Value = serde_json::from_str(&ended.stdout).expect("JSON");
        pushed["digest"].as_str().expect("a digest").to_owned()
    }
}

fn settings_for(host: &str, more: &str) -> String {
    format!("[plugins]\n[[plugins.registries]]\nhost = \"{host}\"\nplain_http = true\n{more}")
}

/// Loads `weather` from a registry.
fn load(daemon: &Daemon, reference: &str) -> Reply {
    let body = json!({"source": reference}).to_string();
    let headers = [("Content-Type", "application/json")];
    daemon.operator().send("PUT", "/v1/plugins/weather", &headers, body.as_bytes())
}

fn start(settings: &str) -> Daemon {
    let daemon = Daemon::start(PROGRAM, settings);
    daemon.operator().make_agent("acme/bot", &json!({"enabled": ["*"]}));
    daemon
}

fn call(daemon: &Daemon) -> Value {
    daemon.operator().open_session("acme/bot").call("weather/answer", json!({})).output().clone()
}

fn digest(content: &[u8]) -> String {
    Digest::from_sha256(toolgate_audit::sha256(content).0).to_string()
}

/// A plugin whose version and result are `number`.
fn file(number: usize) -> Vec<u8> {
    let file = PluginFile::new("weather").with_result(&number.to_string());
    file.with_member("version", json!(format!("{number}.0.0"))).build()
}

#[test]
#[cfg_attr(not(has = "registry"), ignore = "needs docker-registry, which `.ci/run` installs")]
fn o1_a_tag_is_resolved_once_and_the_version_stays() {
    let registry = Registry::start();
    let daemon = start(&registry.settings(""));
    let tag = registry.reference("tools/weather:latest");
    let first = registry.push("tools/weather:latest", &file(1), &[]);
    let loaded = load(&daemon, &tag).expect(200).json();
    let source = json!({"kind": "registry", "reference": tag, "digest": first});
    assert_eq!(loaded["versions"][0]["source"], source, "{loaded}");
    let row = &daemon.operator().audit("kind=admin&limit=1")[0];
    assert!(row.to_string().contains(&tag), "{row}");
    assert_eq!(call(&daemon), 1);
    // The tag moves. The version that serves does not, not even by a restart.
    let second = registry.push("tools/weather:latest", &file(2), &[]);
    assert_ne!(first, second);
    assert_eq!(
        registry.push("tools/weather:again", &file(1), &[]),
        first,
        "the same file has the same digest"
    );
    let daemon = daemon.crash_and_restart();
    assert_eq!(call(&daemon), 1);
    let shown = daemon.operator().get("/v1/plugins/weather").expect(200).json();
    assert_eq!(shown["versions"][0]["source"], source, "{shown}");
    load(&daemon, &tag).expect(200);
    assert_eq!(call(&daemon), 2);
    load(&daemon, &registry.reference(&format!("tools/weather@{first}"))).expect(200);
    assert_eq!(call(&daemon), 1);
    load(&daemon, &registry.reference("tools/weather:none")).expect_refusal(404, "NOT_FOUND");
    assert_eq!(call(&daemon), 1);
}

#[test]
#[cfg_attr(not(has = "registry"), ignore = "needs docker-registry, which `.ci/run` installs")]
fn o1_the_command_line_loads_from_a_registry_and_a_load_may_run_in_the_background() {
    let registry = Registry::start();
    let daemon = start(&registry.settings(""));
    registry.push("tools/weather:1", &file(1), &[]);
    fs::write(registry.folder.path().join("token"), daemon.operator_token()).expect("written");
    let (server, tag) =
        (format!("--server=http://{}", daemon.address), registry.reference("tools/weather:1"));
    let words = ["plugin", "load", &tag, "--yes", "--token-file", "token", &server];
    let ended = run_to_end(PROGRAM, &words, registry.folder.path());
    assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("weather 1.0.0 is active"), "{}", ended.stdout);
    assert_eq!(call(&daemon), 1);
    registry.push("tools/weather:2", &file(2), &[]);
    let in_background = |reference: String| {
        let body = json!({"source": reference}).to_string();
        let headers = [("Content-Type", "application/json"), ("Prefer", "respond-async")];
        daemon.operator().send("PUT", "/v1/plugins/weather", &headers, body.as_bytes()).expect(202);
    };
    let show = || daemon.operator().get("/v1/plugins/weather").expect(200).json();
    in_background(registry.reference("tools/weather:2"));
    wait::until_true("the version of the registry", || show()["version"] == "2.0.0");
    in_background(registry.reference("tools/weather:none"));
    let failed = wait::until("the failure", || {
        let newest = show()["versions"][0].clone();
        (newest["state"] == "failed").then_some(newest)
    });
    assert!(failed["reason"].as_str().is_some_and(|reason| reason.contains("none")), "{failed}");
    assert_eq!(call(&daemon), 2);
}

#[test]
#[cfg_attr(not(has = "registry"), ignore = "needs docker-registry, which `.ci/run` installs")]
fn o1_a_private_registry_needs_the_password_of_the_settings() {
    let registry = Registry::start_private();
    let refused = registry.try_push("weather:1", &file(1), &[]);
    assert!(!refused.status.success() && refused.stderr.contains("login"), "{}", refused.stderr);
    let user = ["--username", USER, "--password-file"];
    let refused = registry.try_push("weather:1", &file(1), &[&user[..], &["wrong"]].concat());
    assert!(!refused.status.success() && refused.stderr.contains("`puller`"), "{}", refused.stderr);
    registry.push("weather:1", &file(1), &[&user[..], &["password"]].concat());
    let tag = registry.reference("weather:1");
    for access in [String::new(), registry.login("wrong"), registry.login("missing")] {
        let daemon = start(&registry.settings(&access));
        load(&daemon, &tag).expect_refusal(424, "CREDENTIAL_MISSING");
        daemon.operator().get("/v1/plugins/weather").expect_refusal(404, "NOT_FOUND");
    }
    let daemon = start(&registry.settings(&registry.login("password")));
    load(&daemon, &tag).expect(200);
    assert_eq!(call(&daemon), 1);
    assert!(!daemon.log_text().contains(PASSWORD), "{}", daemon.log_text());
    let audit = daemon.operator().audit("kind=admin&limit=20");
    assert!(!audit.iter().any(|row| row.to_string().contains(PASSWORD)), "{audit:?}");
}

#[test]
#[cfg_attr(not(has = "registry"), ignore = "needs docker-registry, which `.ci/run` installs")]
fn o1_a_signature_comes_with_its_plugin() {
    let registry = Registry::start();
    let daemon = start(&registry.settings(""));
    let key = SigningKey::generate(&registry.folder.path().join("key")).expect("a key");
    let document =
        json!({"publisher": "Toolgate tests", "public_key": key.public().to_string(), "namespaces": "*"});
    daemon.operator().make("/v1/platform/publisher-keys/tests", &document).expect(201);
    let statement = |number: usize| Statement {
        namespace: "weather".into(),
        version: format!("{number}.0.0"),
        publisher: "Toolgate tests".into(),
        digest: digest(&file(number)),
    };
    let signature = registry.folder.path().join("pushed.wasm.sig");
    fs::write(&signature, statement(1).sign(&key)).expect("written");
    registry.push("weather:1", &file(1), &[]);
    let loaded = load(&daemon, &registry.reference("weather:1")).expect(200).json();
    assert_eq!(loaded["signed_by"]["key"], key.public().id(), "{loaded}");
    // The signature of another file.
    registry.push("weather:2", &file(2), &[]);
    load(&daemon, &registry.reference("weather:2")).expect_refusal(422, "INVALID_PLUGIN");
    // None at all, for a namespace that a signature proved.
    fs::remove_file(&signature).expect("removed");
    registry.push("weather:3", &file(3), &[]);
    load(&daemon, &registry.reference("weather:3")).expect_refusal(409, "CONFLICT");
    assert_eq!(call(&daemon), 1);
}

#[test]
#[cfg_attr(not(has = "registry"), ignore = "needs docker-registry, which `.ci/run` installs")]
fn o1_a_registry_that_is_not_listed_is_refused() {
    let registry = Registry::start();
    registry.push("weather:1", &file(1), &[]);
    let tag = registry.reference("weather:1");
    for settings in [String::new(), settings_for("registry.example.org", ""), settings_for("127.0.0.1", "")] {
        let daemon = start(&settings);
        let refused = load(&daemon, &tag).expect_refusal(400, "INVALID_REQUEST");
        assert!(refused.text().contains("plugins.registries"), "{}", refused.text());
    }
    let daemon = start(&registry.settings(""));
    for source in [
        "weather:1",
        "https://127.0.0.1/weather:1",
        "oci://me:pw@127.0.0.1/weather:1",
        &registry.reference("weather"),
    ] {
        load(&daemon, source).expect_refusal(400, "INVALID_REQUEST");
    }
    load(&daemon, &tag).expect(200);
}

#[test]
#[cfg_attr(not(has = "registry"), ignore = "needs docker-registry, which `.ci/run` installs")]
fn o1_an_organization_loads_from_a_registry_that_it_has_a_login_for() {
    let registry = Registry::start_with_tls();
    let options = ["--ca-file", "certificate.pem", "--username", USER, "--password-file", "password"];
    registry.push("weather:1", &file(1), &options);
    let settings = format!(
        "[credentials]\nca_file = \"{}\"\nprivate_hosts = [\"{}\"]\n",
        registry.path("certificate.pem"),
        registry.address
    );
    let daemon = start(&settings);
    let operator = daemon.operator();
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    let put = |path: &str, body: Value| {
        owner.send("PUT", path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    };
    let load = || put("/v1/orgs/acme/plugins/weather", json!({"source": registry.reference("weather:1")}));
    load().expect_refusal(403, "FORBIDDEN");
    operator.make("/v1/platform/policy", &json!({"owners_load_plugins": true})).expect(201);
    load().expect_refusal(424, "CREDENTIAL_MISSING");
    let credential = |secret: &str| {
        let bound_to = json!([{"host": registry.address.ip().to_string(), "port": registry.address.port()}]);
        json!({"provider": "oci", "kind": "basic", "username": USER, "secret": secret, "bound_to": bound_to})
    };
    put("/v1/orgs/acme/credentials/registry", credential(PASSWORD)).expect(201);
    let loaded = load().expect(200).json();
    assert_eq!(loaded["versions"][0]["source"]["kind"], "registry", "{loaded}");
    assert_eq!(call(&daemon), 1);
    // The operator's loads use no login of an organization, and no registry that only an organization has.
    self::load(&daemon, &registry.reference("weather:1")).expect_refusal(400, "INVALID_REQUEST");
    assert!(!daemon.log_text().contains(PASSWORD));
}
