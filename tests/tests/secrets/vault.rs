//! A root key in a vault: OpenBao's own server, in its development mode over TLS (K1).

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use toolgate_tests::daemon::Options;
use toolgate_tests::wait;

use super::*;

const TOKEN: &str = "token-canary";
const KEY: &str = "9d3e27488bb0c2d94e61f7a05c3d8e9f1a2b4c6d7e8f90a1b2c3d4e56b1f0c5a";
const OTHER: &str = "8899aabbccddeeff102132435465768798a9bacbdcedfe0f0011223344556677";

/// The server as a process; it ends with this.
struct Vault {
    child: Child,
    program: PathBuf,
    port: u16,
    folder: tempfile::TempDir,
}

impl Vault {
    /// None where it is not installed, which is said.
    fn start() -> Option<Self> {
        let target = Path::new(PROGRAM).parent().and_then(Path::parent).expect("a target folder");
        let program = target.join("openbao/bin/bao");
        if !program.exists() {
            eprintln!("OpenBao is not installed at `{}`, see `.ci/run`: not tried", program.display());
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let mut vault = Self { child: serve(&program, port, folder.path()), program, port, folder };
        vault.wait_until_it_serves();
        fs::write(vault.folder.path().join("token"), format!("{TOKEN}\n")).expect("written");
        Some(vault)
    }

    fn wait_until_it_serves(&mut self) {
        let out = self.child.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(out).lines();
        let serves = lines.any(|line| line.is_ok_and(|line| line.contains("Root Token")));
        assert!(serves, "the vault does not start");
        // What it says later must have somewhere to go.
        std::thread::spawn(move || lines.for_each(drop));
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

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

fn serve(program: &Path, port: u16, folder: &Path) -> Child {
    Command::new(program)
        .args(["server", "-dev", "-dev-no-store-token", "-dev-tls"])
        .arg(format!("-dev-tls-cert-dir={}", folder.display()))
        .arg(format!("-dev-root-token-id={TOKEN}"))
        .arg(format!("-dev-listen-address=127.0.0.1:{port}"))
        .env("HOME", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the vault runs")
}

impl Drop for Vault {
    fn drop(&mut self) {
        self.stop();
    }
}

fn state(daemon: &Daemon) -> String {
    daemon.stranger().get("/readyz").expect(200).json()["status"].as_str().expect("a word").to_owned()
}

#[test]
fn k1_a_vaults_kv_engine_keeps_the_root_key() {
    let Some(vault) = Vault::start() else { return };
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
    operator.post("/v1/keys/rotate", &json!({})).refused(409, "CONFLICT");
    vault.bao(&["kv", "put", "-mount=secret", "toolgate/prod", &format!("root={OTHER}")]);
    let rotated = operator.post("/v1/keys/rotate", &json!({})).expect(200).json();
    assert_eq!((&rotated["rewrapped"], &rotated["going"]), (&json!(1), &Value::Null));
    let daemon = daemon.crash_and_restart();
    assert_eq!(state(&daemon), "ok");
    let log = daemon.log_text();
    assert!(![TOKEN, KEY, OTHER].iter().any(|canary| log.contains(canary)), "{log}");
}

#[test]
fn k1_a_vaults_transit_engine_unwraps_the_root_key() {
    let Some(mut vault) = Vault::start() else { return };
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
    vault.stop();
    let daemon = daemon.crash_and_restart();
    assert_eq!(state(&daemon), "sealed");
    wait::until("the reason to be told", || {
        daemon.log_text().contains("the vault does not give the root key").then_some(())
    });
}

#[test]
fn k4_a_vault_that_nobody_vouches_for_gets_no_token() {
    let Some(vault) = Vault::start() else { return };
    vault.bao(&["kv", "put", "-mount=secret", "toolgate", &format!("root={KEY}")]);
    let settings = vault.settings("vault_kv = \"secret/toolgate#root\"");
    let without_ca: String = settings
        .lines()
        .filter(|line| !line.starts_with("ca_file"))
        .map(|line| format!("{line}\n"))
        .collect();
    let plain = settings.replace("https://", "http://");
    for (settings, why) in [(without_ca, "TLS failed"), (plain, "plain HTTP")] {
        let daemon = Daemon::start_with(PROGRAM, Options { settings, ..Options::default() });
        assert_eq!(state(&daemon), "sealed");
        assert!(daemon.log_text().contains(why), "{}", daemon.log_text());
    }
    let daemon = Daemon::start_with(PROGRAM, Options { settings, ..Options::default() });
    assert_eq!(state(&daemon), "ok");
}
