//! Plugins from OCI registries: Debian's `docker-registry`, and a registry that lies, truncates, loops and hangs (O1).

use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use toolgate::signing::{SigningKey, Statement};
use toolgate_admission::Digest;
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
    format!(
        "[plugins]\nregistry_timeout_seconds = 5\n[[plugins.registries]]\nhost = \"{host}\"\nplain_http = true\n{more}"
    )
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

/// A registry of one plugin, whose responses a test changes.
#[derive(Clone)]
struct Artifact {
    component: Vec<u8>,
    config: Vec<u8>,
    manifest: Vec<u8>,
}

impl Artifact {
    fn new(component: Vec<u8>) -> Self {
        let config = json!({"architecture": "wasm", "os": "wasip2", "layerDigests": [digest(&component)]});
        let config = config.to_string().into_bytes();
        let layer =
            json!({"mediaType": "application/wasm", "digest": digest(&component), "size": component.len()});
        Self { manifest: manifest(&config, &[layer]), component, config }
    }

    /// The response to a request for a manifest or a blob.
    fn serve(&self, request: &str) -> Vec<Piece> {
        let path = path_of(request);
        if path.ends_with("/manifests/1") || path.ends_with(&format!("/manifests/{}", digest(&self.manifest)))
        {
            return ok(&self.manifest);
        }
        for blob in [&self.component, &self.config] {
            if path.ends_with(&format!("/blobs/{}", digest(blob))) {
                return ok(blob);
            }
        }
        answer(404, &[], b"")
    }

    fn is_component(&self, request: &str) -> bool {
        path_of(request).ends_with(&format!("/blobs/{}", digest(&self.component)))
    }
}

fn manifest(config: &[u8], layers: &[Value]) -> Vec<u8> {
    let media_type = "application/vnd.wasm.config.v0+json";
    let config = json!({"mediaType": media_type, "digest": digest(config), "size": config.len()});
    json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string().into_bytes()
}

fn digest(content: &[u8]) -> String {
    Digest::from_sha256(toolgate::audit::sha256(content).0).to_string()
}

fn path_of(request: &str) -> &str {
    request.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default()
}

fn ok(body: &[u8]) -> Vec<Piece> {
    answer(200, &[("Connection", "close")], body)
}

/// A daemon and the registry that misbehaves, with plugin 1 loaded.
struct Liar {
    daemon: Daemon,
    registry: Upstream,
    artifact: Artifact,
}

static LIAR: Shared<Liar> = Shared::new();

impl Liar {
    fn start() -> Self {
        let registry = Upstream::start();
        let daemon = start(&settings_for(&format!("{}:{PLAIN_PORT}", registry.address), ""));
        let liar = Self { daemon, registry, artifact: Artifact::new(file(2)) };
        let honest = Artifact::new(file(1));
        liar.registry.answer(move |request| honest.serve(request));
        load(&liar.daemon, &liar.tag()).expect(200);
        liar
    }

    fn tag(&self) -> String {
        format!("oci://{}:{PLAIN_PORT}/weather:1", self.registry.address)
    }

    /// Loads version 2 from a registry that answers like this, which must be refused. Plugin 1 serves on.
    #[track_caller]
    fn refuse(
        &self,
        status: u16,
        error_type: &str,
        script: impl Fn(&Artifact, &str) -> Vec<Piece> + Send + Sync + 'static,
    ) -> String {
        let artifact = self.artifact.clone();
        self.registry.answer(move |request| script(&artifact, request));
        let refused = load(&self.daemon, &self.tag()).expect_refusal(status, error_type).text();
        let row = &self.daemon.operator().audit("kind=admin&limit=1")[0]["admin"];
        assert_eq!((&row["action"], &row["outcome"]), (&json!("plugin.load"), &json!(error_type)));
        assert_eq!(call(&self.daemon), 1);
        assert!(!refused.contains("canary"), "it quotes the registry: {refused}");
        refused
    }
}

fn with_liar(test: impl FnOnce(&Liar)) {
    LIAR.with(Liar::start, |liar| test(liar));
}

#[test]
fn o1_a_registry_that_sends_another_object_than_its_digest_is_refused() {
    with_liar(|liar| {
        // As long as the right one.
        liar.refuse(422, "INVALID_PLUGIN", |artifact, request| match artifact.is_component(request) {
            true => ok(&vec![b'x'; artifact.component.len()]),
            false => artifact.serve(request),
        });
        liar.refuse(422, "INVALID_PLUGIN", |artifact, request| {
            match path_of(request).ends_with(&digest(&artifact.config)) {
                true => ok(&vec![b' '; artifact.config.len()]),
                false => artifact.serve(request),
            }
        });
        // The config names another component.
        liar.refuse(422, "INVALID_PLUGIN", |artifact, request| {
            let other = Artifact::new(file(3));
            let layer = json!({"mediaType": "application/wasm", "digest": digest(&artifact.component), "size": artifact.component.len()});
            match path_of(request).contains("/manifests/1") {
                true => ok(&manifest(&other.config, &[layer])),
                false => other.serve(request),
            }
        });
        liar.refuse(422, "INVALID_PLUGIN", |artifact, request| {
            let headers = [("Connection", "close"), ("Docker-Content-Digest", "sha256:canary")];
            match path_of(request).contains("/manifests/") {
                true => answer(200, &headers, &artifact.manifest),
                false => artifact.serve(request),
            }
        });
        let other = Artifact::new(file(1));
        liar.registry.answer(move |_| ok(&other.manifest));
        let pinned = format!("{}@{}", liar.tag(), digest(&liar.artifact.manifest));
        load(&liar.daemon, &pinned).expect_refusal(422, "INVALID_PLUGIN");
    });
}

#[test]
fn o1_a_manifest_that_names_no_plugin_is_refused() {
    with_liar(|liar| {
        let cases: &[fn(&Artifact) -> Vec<u8>] = &[
            |_| b"canary".to_vec(),
            |_| b"[]".to_vec(),
            |_| {
                json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}).to_string().into_bytes()
            },
            |artifact| manifest(&artifact.config, &[]),
            |artifact| {
                let layer = json!({"mediaType": "application/wasm", "digest": digest(&artifact.component), "size": 1});
                manifest(&artifact.config, &[layer.clone(), layer])
            },
            |artifact| {
                manifest(
                    &artifact.config,
                    &[json!({"mediaType": "text/plain", "digest": digest(b"x"), "size": 1})],
                )
            },
            |artifact| {
                manifest(
                    &artifact.config,
                    &[json!({"mediaType": "application/wasm", "digest": "md5:canary", "size": 1})],
                )
            },
            |artifact| {
                manifest(
                    &artifact.config,
                    &[json!({"mediaType": "application/wasm", "digest": "../../canary", "size": 1})],
                )
            },
        ];
        for case in cases {
            let case = *case;
            liar.refuse(422, "INVALID_PLUGIN", move |artifact, request| {
                match path_of(request).contains("/manifests/") {
                    true => ok(&case(artifact)),
                    false => artifact.serve(request),
                }
            });
        }
    });
}

#[test]
fn o1_a_file_that_is_too_large_is_not_fetched() {
    with_liar(|liar| {
        let before = liar.registry.requests().len();
        liar.refuse(413, "TOO_LARGE", |artifact, request| {
            let component = digest(&artifact.component);
            let layer = json!({"mediaType": "application/wasm", "digest": component, "size": 65u64 << 20});
            match path_of(request).contains("/manifests/") {
                true => ok(&manifest(&artifact.config, &[layer])),
                false => artifact.serve(request),
            }
        });
        let asked = liar.registry.requests();
        assert!(!asked[before..].iter().any(|request| request.contains(&digest(b"x"))));
        // A little more than it announced, and without an end.
        for (status, error_type, repeats) in [(422, "INVALID_PLUGIN", 2), (502, "API_UNAVAILABLE", 1_000_000)]
        {
            liar.refuse(status, error_type, move |artifact, request| match artifact.is_component(request) {
                true => vec![
                    Piece::Bytes(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec()),
                    Piece::Repeat(vec![b'x'; artifact.component.len()], repeats),
                ],
                false => artifact.serve(request),
            });
        }
        liar.refuse(502, "API_UNAVAILABLE", |_, _| {
            let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
            vec![Piece::Bytes(head), Piece::Repeat(vec![b' '; 4096], 1_000_000)]
        });
    });
}

#[test]
fn o1_a_registry_that_truncates_hangs_or_fails_is_unavailable() {
    with_liar(|liar| {
        liar.refuse(502, "API_UNAVAILABLE", |artifact, request| match artifact.is_component(request) {
            true => {
                let length = artifact.component.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                vec![
                    Piece::Bytes(head.into()),
                    Piece::Bytes(artifact.component[..length / 2].to_vec()),
                    Piece::Cut,
                ]
            }
            false => artifact.serve(request),
        });
        let hanging =
            liar.refuse(502, "API_UNAVAILABLE", |artifact, request| match artifact.is_component(request) {
                true => vec![Piece::Bytes(b"HTTP/1.1 200 OK\r\n".to_vec()), Piece::Hang],
                false => artifact.serve(request),
            });
        assert!(hanging.contains("in time"), "{hanging}");
        liar.refuse(502, "API_UNAVAILABLE", |_, _| answer(500, &[("Connection", "close")], b"canary"));
        liar.refuse(502, "API_UNAVAILABLE", |_, _| {
            vec![Piece::Bytes(b"canary\r\n\r\n".to_vec()), Piece::Cut]
        });
        liar.refuse(424, "CREDENTIAL_MISSING", |_, _| {
            answer(401, &[("Connection", "close"), ("WWW-Authenticate", "Basic realm=\"canary\"")], b"")
        });
    });
}

fn redirect(to: &str) -> Vec<Piece> {
    answer(307, &[("Connection", "close"), ("Location", to)], b"")
}

#[test]
fn o1_redirects_are_few_and_lead_to_vetted_addresses_only() {
    with_liar(|liar| {
        let before = liar.registry.requests().len();
        liar.refuse(502, "API_UNAVAILABLE", |artifact, request| {
            match path_of(request).contains("/manifests/") {
                true => artifact.serve(request),
                false => redirect(path_of(request)),
            }
        });
        let looped = liar.registry.requests().len() - before;
        assert!((3..=6).contains(&looped), "{looped} requests");
        for target in [
            "http://127.0.0.1:1/canary",
            "ftp://127.0.0.1/canary",
            "https://127.0.0.1:1/canary",
            "https://[::1]/canary",
        ] {
            liar.refuse(403, "NETWORK_DENIED", move |artifact, request| {
                match artifact.is_component(request) {
                    true => redirect(target),
                    false => artifact.serve(request),
                }
            });
        }
        liar.refuse(502, "API_UNAVAILABLE", |_, _| redirect("http://"));
        // An error with a body that is larger than the blob.
        let denied = liar.refuse(424, "CREDENTIAL_MISSING", |artifact, request| {
            match path_of(request).ends_with(&digest(&artifact.config)) {
                true => answer(403, &[("Connection", "close")], &[b' '; 1024]),
                false => artifact.serve(request),
            }
        });
        assert!(denied.contains("login"), "{denied}");
        // The positive twin: the registry's own storage, by redirects with a body.
        let artifact = liar.artifact.clone();
        liar.registry.answer(move |request| {
            let path = path_of(request);
            match path.strip_prefix("/storage") {
                Some(path) => artifact.serve(&format!("GET {path} HTTP/1.1")),
                None if path.contains("/blobs/") => {
                    let to = format!("/storage{path}?signed=yes");
                    answer(307, &[("Connection", "close"), ("Location", &to)], &[b'x'; 1024])
                }
                None => artifact.serve(request),
            }
        });
        load(&liar.daemon, &liar.tag()).expect(200);
        assert_eq!(call(&liar.daemon), 2);
        liar.daemon.operator().post("/v1/plugins/weather/rollback", &json!({})).expect(200);
    });
}

#[test]
fn o1_a_token_is_asked_of_the_registrys_own_host_or_over_tls() {
    with_liar(|liar| {
        let challenge = |realm: &str| {
            let challenge =
                format!("Bearer realm=\"{realm}\",service=\"registry\",scope=\"repository:weather:pull\"");
            answer(401, &[("Connection", "close"), ("WWW-Authenticate", &challenge)], b"")
        };
        let before = liar.registry.requests().len();
        liar.refuse(502, "API_UNAVAILABLE", move |_, _| challenge("http://127.0.0.1:1/canary"));
        liar.refuse(403, "NETWORK_DENIED", move |_, _| challenge("https://127.0.0.1:1/canary"));
        assert_eq!(liar.registry.requests().len() - before, 2);
        let (artifact, own) =
            (liar.artifact.clone(), format!("http://{}:{PLAIN_PORT}/token", liar.registry.address));
        liar.registry.answer(move |request| {
            let is_known = request.to_ascii_lowercase().contains("authorization: bearer token-canary");
            match (path_of(request), is_known) {
                ("/token", _) => ok(br#"{"token":"token-canary","access_token":"token-canary"}"#),
                (_, true) => artifact.serve(request),
                (_, false) => challenge(&own),
            }
        });
        load(&liar.daemon, &liar.tag()).expect(200);
        let asked = liar.registry.requests();
        let for_token: Vec<_> = asked.iter().filter(|request| request.starts_with("GET /token?")).collect();
        assert_eq!(for_token.len(), 1, "one token serves all requests: {asked:?}");
        assert!(
            for_token[0].contains("service=registry&scope=repository%3Aweather%3Apull "),
            "{for_token:?}"
        );
        assert!(!liar.daemon.log_text().contains("token-canary"));
        liar.daemon.operator().post("/v1/plugins/weather/rollback", &json!({})).expect(200);
    });
}

/// The login is not sent unless the registry asks for it, and never to another host.
#[test]
fn o1_the_login_stays_with_its_registry() {
    with_liar(|liar| {
        let folder = tempfile::tempdir().expect("a folder");
        let password = folder.path().join("password");
        fs::write(&password, PASSWORD).expect("written");
        let login = format!("username = \"{USER}\"\npassword_file = \"{}\"\n", password.display());
        let daemon = start(&settings_for(&format!("{}:{PLAIN_PORT}", liar.registry.address), &login));
        let (artifact, storage) = (liar.artifact.clone(), "https://127.0.0.1:1/storage");
        liar.registry.answer(move |request| {
            let challenge = [("Connection", "close"), ("WWW-Authenticate", "Basic realm=\"x\"")];
            match request.to_ascii_lowercase().contains("authorization: basic ") {
                true if artifact.is_component(request) => redirect(storage),
                true => artifact.serve(request),
                false => answer(401, &challenge, b""),
            }
        });
        load(&daemon, &liar.tag()).expect_refusal(403, "NETWORK_DENIED");
        let artifact = liar.artifact.clone();
        liar.registry.answer(move |request| artifact.serve(request));
        let before = liar.registry.requests().len();
        load(&daemon, &liar.tag()).expect(200);
        let asked = liar.registry.requests()[before..].join("\n").to_ascii_lowercase();
        assert!(!asked.contains("authorization:"), "{asked}");
        assert!(!daemon.log_text().contains(PASSWORD));
    });
}
