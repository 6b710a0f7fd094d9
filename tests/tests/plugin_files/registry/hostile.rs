//! A registry that lies, truncates, loops and hangs (O1).

use super::*;

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
        let settings = settings_for(&format!("{}:{PLAIN_PORT}", registry.address), "");
        // One of its responses does not end.
        let timeout = "[plugins]\nregistry_timeout_seconds = 10\n";
        let daemon = start(&settings.replacen("[plugins]\n", timeout, 1));
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
            |artifact| {
                let mut other: Value = serde_json::from_slice(&artifact.manifest).expect("JSON");
                other["mediaType"] = json!("application/vnd.docker.distribution.manifest.v2+json");
                other.to_string().into_bytes()
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

/// Layouts of Wassette, Spin and older tools, and an index of one manifest. What another host keeps beside the component is passed
/// over.
#[test]
fn o1_t10_artifacts_of_other_tools_are_loaded() {
    with_liar(|liar| {
        let layouts: [(&str, &str, &[&str]); 4] = [
            ("application/vnd.wasm.config.v1+json", "application/vnd.wasm.content.layer.v1+wasm", &[]),
            (
                "application/vnd.oci.empty.v1+json",
                "application/wasm",
                &["application/vnd.wasm.policy.v1+yaml"],
            ),
            (
                "application/vnd.fermyon.spin.application.v1+config",
                "application/vnd.wasm.content.layer.v1+wasm",
                &["application/vnd.wasm.content.layer.v1+data"],
            ),
            ("application/vnd.wasm.config.v0+json", "application/wasm", &["text/plain"]),
        ];
        for (at, (config_type, layer_type, others)) in layouts.into_iter().enumerate() {
            for is_indexed in [false, true] {
                let number = 10 + 2 * at + usize::from(is_indexed);
                let artifact = Artifact::new(file(number));
                let blob = |media_type: &str, content: &[u8]| json!({"mediaType": media_type, "digest": digest(content), "size": content.len()});
                let layers: Vec<Value> = std::iter::once(blob(layer_type, &artifact.component))
                    .chain(others.iter().map(|other| blob(other, b"other")))
                    .collect();
                let manifest = json!({"schemaVersion": 2, "config": blob(config_type, &artifact.config), "layers": layers});
                let artifact = Artifact { manifest: manifest.to_string().into_bytes(), ..artifact };
                let index = json!({"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest(&artifact.manifest), "size": artifact.manifest.len()}]});
                let index = index.to_string();
                liar.registry.answer(move |request| {
                    match path_of(request).ends_with("/manifests/1") && is_indexed {
                        true => ok(index.as_bytes()),
                        false => artifact.serve(request),
                    }
                });
                load(&liar.daemon, &liar.tag()).expect(200);
                assert_eq!(call(&liar.daemon), number, "{config_type}");
            }
        }
        load_first_again(liar);
    });
}

/// A refusal says what was found, and which manifests an index has.
#[test]
fn o1_a_refused_artifact_is_told_by_its_types() {
    with_liar(|liar| {
        let refused = liar.refuse(422, "INVALID_PLUGIN", |artifact, request| {
            let layer = json!({"mediaType": "application/x-other", "digest": digest(b"x"), "size": 1});
            match path_of(request).contains("/manifests/") {
                true => ok(&manifest(&artifact.config, &[layer])),
                false => artifact.serve(request),
            }
        });
        assert!(refused.contains("has `application/x-other`"), "{refused}");
        let refused = liar.refuse(422, "INVALID_PLUGIN", |artifact, _| {
            let named = |content: &[u8]| json!({"mediaType": "x", "digest": digest(content), "size": 1});
            let index = json!({"manifests": [named(&artifact.manifest), named(b"x")]});
            ok(index.to_string().as_bytes())
        });
        assert!(refused.contains(&digest(b"x")), "{refused}");
    });
}

/// The other tests expect plugin 1.
fn load_first_again(liar: &Liar) {
    let honest = Artifact::new(file(1));
    liar.registry.answer(move |request| honest.serve(request));
    load(&liar.daemon, &liar.tag()).expect(200);
    assert_eq!(call(&liar.daemon), 1);
}
