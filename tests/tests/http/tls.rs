//! TLS of the listener, client certificates, HTTP/2 and the Unix socket, with the command line as the client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, date_time_ymd,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use toolgate_tests::daemon::{Options, ProgramOutput, run_to_end};
use toolgate_tests::{Daemon, compiled_code, json, wait};

use crate::PROGRAM;

/// A private authority.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).expect("a certificate").pem();
        Self { pem, issuer: Issuer::new(parameters, key) }
    }

    /// A certificate for a name and its key, in PEM.
    fn issue(&self, name: &str, last_year: i32) -> [String; 2] {
        self.issue_with(name, |parameters| parameters.not_after = date_time_ymd(last_year, 1, 1))
    }

    fn issue_with(&self, name: &str, set_end: impl FnOnce(&mut CertificateParams)) -> [String; 2] {
        let key = KeyPair::generate().expect("a key");
        let common_name = name.strip_prefix("CN=");
        let names = common_name.is_none().then(|| name.to_owned());
        let mut parameters =
            CertificateParams::new(names.into_iter().collect::<Vec<_>>()).expect("parameters");
        if let Some(common_name) = common_name {
            parameters.distinguished_name = DistinguishedName::new();
            parameters.distinguished_name.push(DnType::CommonName, common_name);
        }
        parameters.not_before = date_time_ymd(2020, 1, 1);
        set_end(&mut parameters);
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        [certificate.pem(), key.serialize_pem()]
    }
}

/// Files of TLS, and a daemon that uses them.
pub(crate) struct Secure {
    folder: tempfile::TempDir,
    authority: Authority,
    daemon: Option<Daemon>,
}

impl Secure {
    /// Files with a certificate for `localhost`.
    fn files() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let secure = Self { folder, authority: Authority::new(), daemon: None };
        secure.write("ca.pem", &secure.authority.pem);
        secure.install(secure.authority.issue("localhost", 2999));
        secure
    }

    /// Files with a certificate that ends in a day.
    pub(crate) fn ending() -> Self {
        let secure = Self::files();
        let tomorrow = SystemTime::UNIX_EPOCH.elapsed().expect("a clock") + Duration::from_secs(86_400);
        secure.install(secure.authority.issue_with("localhost", |parameters| {
            parameters.not_after = date_time_ymd(1970, 1, 1) + tomorrow;
        }));
        secure
    }

    pub(crate) fn start(&mut self, more: &str, data: Option<PathBuf>) {
        let settings = self.settings(more);
        self.daemon = Some(Daemon::start_with(PROGRAM, Options { settings, data, ..Options::default() }));
    }

    fn settings(&self, more: &str) -> String {
        let file = |name: &str| self.path(name).display().to_string();
        format!("[tls]\ncertificate = {:?}\nkey = {:?}\n{more}\n", file("cert.pem"), file("key.pem"))
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("a daemon")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    fn install(&self, [certificate, key]: [String; 2]) {
        self.write("key.pem", &key);
        self.write("cert.pem", &certificate);
    }

    /// Runs a command of the command line against the daemon.
    fn run(&self, scheme: &str, options: &[&str]) -> ProgramOutput {
        let server = format!("--server={scheme}://localhost:{}", self.daemon().address.port());
        let ca = format!("--ca={}", self.path("ca.pem").display());
        run_to_end(PROGRAM, &[&["org", "list", &server, &ca], options].concat(), self.folder.path())
    }

    fn operator_option(&self) -> String {
        format!("--token-file={}", self.daemon().data().join("operator.token").display())
    }
}

#[test]
fn the_command_line_uses_tls_and_a_client_without_it_is_told() {
    let mut secure = Secure::files();
    secure.start("", None);
    let token = secure.operator_option();
    let done = secure.run("https", &[&token]);
    assert!(done.status.success(), "{done:?}");
    let plain = secure.run("http", &[&token]);
    assert!(!plain.status.success() && plain.stderr.contains("https://"), "{plain:?}");

    // A health check on the machine itself needs the settings alone. The certificate is for `localhost`.
    let health = |certificate: &str| {
        let settings = format!(
            "listen = \"127.0.0.1:{}\"\n[tls]\ncertificate = {:?}\nkey = {:?}\n",
            secure.daemon().address.port(),
            secure.path(certificate),
            secure.path("key.pem")
        );
        secure.write("health.toml", &settings);
        run_to_end(PROGRAM, &["status", "--config=health.toml"], secure.folder.path())
    };
    let healthy = health("cert.pem");
    assert!(healthy.status.success() && healthy.stdout.contains("ok"), "{healthy:?}");
    let other = health("ca.pem");
    assert!(!other.status.success() && other.stderr.contains("certificate"), "{other:?}");
}

#[test]
fn a_changed_certificate_is_used_without_a_restart_and_a_broken_one_is_not() {
    let mut secure = Secure::files();
    secure.start("", None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let old_authority = secure.authority.pem.clone();
    let mut open = runtime.block_on(Http2::connect(&secure, &old_authority)).expect("a connection");
    assert_eq!(runtime.block_on(open.get("/healthz")), 200);

    let next = Authority::new();
    secure.install(next.issue("localhost", 2999));
    secure.daemon().wait_for_log("the new certificate", |line| line.contains("read again and is in use"));
    assert_eq!(runtime.block_on(open.get("/healthz")), 200, "an open connection is dropped");
    assert!(runtime.block_on(Http2::connect(&secure, &old_authority)).is_none());
    assert!(runtime.block_on(Http2::connect(&secure, &next.pem)).is_some());

    for (broken, cause) in [
        ("no certificate".to_owned(), "has no certificate"),
        (next.issue("localhost", 2021)[0].clone(), "has expired"),
        (next.issue("localhost", 2999)[0].clone(), "do not fit"),
    ] {
        secure.write("cert.pem", &broken);
        secure.daemon().wait_for_log(cause, |line| line.contains("last good ones") && line.contains(cause));
        assert!(runtime.block_on(Http2::connect(&secure, &next.pem)).is_some(), "{cause}");
    }
}

#[test]
fn a_client_certificate_has_the_rights_of_its_token() {
    let mut secure = Secure::files();
    let data = secure.path("data");
    compiled_code::restore(Path::new(PROGRAM), &data).expect("the compiled code is copied");
    let plain = Daemon::start_with(PROGRAM, Options { data: Some(data.clone()), ..Options::default() });
    let made = plain
        .operator()
        .post("/v1/tokens", &json!({"role": "operator", "label": "worker"}))
        .expect(201)
        .json();
    let id = made["id"].as_str().expect("an id").to_owned();
    drop(plain);
    let clients = format!(
        "client_ca = {:?}\nclients = {{ \"worker.example.org\" = {id:?}, \"CN=batch\" = {id:?} }}",
        secure.path("ca.pem").display().to_string()
    );
    secure.start(&clients, Some(data));
    for name in ["worker.example.org", "stranger.example.org", "CN=batch", "CN=stranger", "batch"] {
        let [certificate, key] = secure.authority.issue(name, 2999);
        secure.write(&format!("{name}.pem"), &certificate);
        secure.write(&format!("{name}.key"), &key);
    }
    let as_client = |secure: &Secure, name: &str, options: &[&str]| {
        let certificate = format!("--client-certificate={}", secure.path(&format!("{name}.pem")).display());
        let key = format!("--client-key={}", secure.path(&format!("{name}.key")).display());
        secure.run("https", &[&[certificate.as_str(), &key], options].concat())
    };
    let token = secure.operator_option();
    let without = secure.run("https", &[&token]);
    assert!(!without.status.success(), "a client without a certificate: {without:?}");
    assert!(as_client(&secure, "worker.example.org", &[]).status.success());
    assert!(as_client(&secure, "CN=batch", &[]).status.success(), "the common name of a subject");
    for name in ["stranger.example.org", "CN=stranger", "batch"] {
        let stranger = as_client(&secure, name, &[]);
        assert!(!stranger.status.success() && stranger.stderr.contains("no token"), "{name}: {stranger:?}");
    }
    assert!(
        as_client(&secure, "stranger.example.org", &[&token]).status.success(),
        "a token counts as always"
    );
    // A hangup makes a client known.
    let more = clients.replace("CN=batch", "CN=stranger");
    fs::write(secure.daemon().folder.path().join("toolgate.toml"), secure.settings(&more)).expect("written");
    secure.daemon().hang_up();
    secure.daemon().wait_for_log("the settings", |line| line.contains("the settings were read again"));
    assert!(as_client(&secure, "CN=stranger", &[]).status.success(), "the new one");
    assert!(!as_client(&secure, "CN=batch", &[]).status.success(), "the one that is gone");

    let revoke = run_to_end(
        PROGRAM,
        &[
            "token",
            "revoke",
            &id,
            &token,
            &format!("--server=https://localhost:{}", secure.daemon().address.port()),
            &format!("--ca={}", secure.path("ca.pem").display()),
            &format!("--client-certificate={}", secure.path("stranger.example.org.pem").display()),
            &format!("--client-key={}", secure.path("stranger.example.org.key").display()),
        ],
        secure.folder.path(),
    );
    assert!(revoke.status.success(), "{revoke:?}");
    let revoked = as_client(&secure, "worker.example.org", &[]);
    assert!(!revoked.status.success() && revoked.stderr.contains("not valid"), "{revoked:?}");
}

#[test]
fn a_unix_socket_serves_its_user_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("toolgate.sock");
    let server = format!("--server=unix:{}", socket.display());
    let listen = Some(format!("unix:{}", socket.display()));
    let mut daemon = Daemon::start_with(PROGRAM, Options { listen, ..Options::default() });
    let mode = fs::metadata(&socket).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = format!("--token-file={}", daemon.data().join("operator.token").display());
    let list = |options: &[&str]| run_to_end(PROGRAM, &[&["org", "list"], options].concat(), folder.path());
    assert!(list(&[&server, &token]).status.success());
    // The socket of a daemon that was killed is replaced; one in use is not.
    daemon = daemon.crash_and_restart();
    assert!(list(&[&server, &token]).status.success());
    let second = run_to_end(
        PROGRAM,
        &["serve", "--data", "other", "--listen", &format!("unix:{}", socket.display())],
        folder.path(),
    );
    assert!(!second.status.success() && second.stderr.contains("cannot listen"), "{second:?}");
    daemon.terminate();
    daemon.wait_for_exit();
    assert!(!socket.exists());
    let gone = list(&[&server, &token]);
    assert!(gone.stderr.contains("no daemon answers"), "{gone:?}");
}

#[test]
fn an_address_that_others_reach_needs_tls_or_a_word_in_the_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = run_to_end(PROGRAM, &["serve", "--listen", "0.0.0.0:0"], folder.path());
    assert!(!refused.status.success() && refused.stderr.contains("insecure_listen"), "{refused:?}");
    let options = Options {
        settings: "insecure_listen = true\n".to_owned(),
        listen: Some("0.0.0.0:0".to_owned()),
        ..Options::default()
    };
    let daemon = Daemon::start_with(PROGRAM, options);
    assert_ne!(daemon.address.port(), 0);
}

/// Clients of HTTP/2 that send nothing more keep no others out.
#[test]
fn idle_http2_connections_are_closed_for_new_ones() {
    let mut secure = Secure::files();
    secure.start("[http]\nconnections = 8\n", None);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut idle = Vec::new();
        for _ in 0..20 {
            let mut client = Http2::connect(&secure, &secure.authority.pem).await.expect("a connection");
            assert_eq!(client.get("/healthz").await, 200);
            idle.push(client);
        }
        let open = || idle.iter().filter(|client| !client.requests.is_closed()).count();
        // A client learns a little later that it was closed.
        wait::until_true("idle clients to be closed", || open() <= 8);
        assert!((1..=8).contains(&open()), "{} are open", open());
    });
}

/// A connection over HTTP/2.
struct Http2 {
    requests: hyper::client::conn::http2::SendRequest<Empty<&'static [u8]>>,
    port: u16,
}

impl Http2 {
    /// Connects, if the daemon's certificate is of this authority.
    async fn connect(secure: &Secure, authority: &str) -> Option<Self> {
        let port = secure.daemon().address.port();
        let stream = handshake(port, authority).await?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let begun = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (requests, connection) = begun.expect("HTTP/2");
        tokio::spawn(connection);
        Some(Self { requests, port })
    }

    async fn get(&mut self, path: &str) -> u16 {
        let request = Request::get(format!("https://localhost:{}{path}", self.port)).body(Empty::new());
        let response = self.requests.send_request(request.expect("a request")).await.expect("a response");
        let status = response.status().as_u16();
        response.into_body().collect().await.expect("a body");
        status
    }
}

async fn handshake(port: u16, authority: &str) -> Option<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate"))
        .expect("an authority");
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()
}
