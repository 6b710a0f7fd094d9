//! Pulls from stubs of registries, with the challenges, tokens and errors that their documentation has (O1).

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_sandbox::{HostClient, HostClientSettings, Secret};

use super::manifest::{COMPONENT_TYPE, MANIFEST_TYPE};
use super::{Endpoint, Login, Pulled, Reference, RegistrySession, pull};
use crate::digest::digest_of;

const COMPONENT: &[u8] = b"a component";

/// A registry as its documentation describes it. `{}` in a text is the address of the stub.
struct Provider {
    name: &'static str,
    challenge: &'static str,
    /// The path of the token server; none for basic authentication.
    token_path: Option<&'static str>,
    /// The answer of the token server; the token is `good`.
    token: &'static str,
    /// Blobs are in a storage on another host.
    has_storage: bool,
    /// Status and body for a wrong password.
    wrong_login: (u16, &'static str),
    /// The body for a tag that is not there.
    missing: &'static str,
    /// Status and body where the provider limits requests.
    limited: (u16, &'static str),
}

const PROVIDERS: &[Provider] = &[
    Provider {
        name: "GitHub Container Registry",
        challenge: r#"Bearer realm="http://{}/token",service="ghcr.io",scope="repository:tools/weather:pull""#,
        token_path: Some("/token"),
        token: r#"{"token":"good"}"#,
        has_storage: true,
        wrong_login: (403, r#"{"errors":[{"code":"DENIED","message":"denied"}]}"#),
        missing: r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#,
        limited: (429, r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"retry later"}]}"#),
    },
    Provider {
        name: "Amazon ECR",
        challenge: r#"Basic realm="http://{}/",service="ecr.amazonaws.com""#,
        token_path: None,
        token: "",
        has_storage: true,
        wrong_login: (
            403,
            r#"{"errors":[{"code":"DENIED","message":"Your authorization token has expired. Reauthenticate and try again."}]}"#,
        ),
        missing: r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"Requested image not found"}]}"#,
        limited: (429, r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"Rate exceeded"}]}"#),
    },
    Provider {
        name: "Azure Container Registry",
        challenge: r#"Bearer realm="http://{}/oauth2/token",service="r.azurecr.io",scope="repository:tools/weather:pull",error="invalid_token""#,
        token_path: Some("/oauth2/token"),
        token: r#"{"access_token":"good"}"#,
        has_storage: true,
        wrong_login: (
            401,
            r#"{"errors":[{"code":"UNAUTHORIZED","message":"authentication required, visit https://aka.ms/acr/authorization for more information."}]}"#,
        ),
        missing: r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest tagged by \"gone\" is not found","detail":{"Tag":"gone"}}]}"#,
        limited: (429, r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"too many requests"}]}"#),
    },
    Provider {
        name: "Harbor",
        challenge: r#"Bearer realm="http://{}/service/token",service="harbor-registry",scope="repository:tools/weather:pull""#,
        token_path: Some("/service/token"),
        token: r#"{"token":"good","access_token":"","expires_in":1800,"issued_at":"2026-11-30T00:00:00Z"}"#,
        has_storage: false,
        wrong_login: (401, r#"{"errors":[{"code":"UNAUTHORIZED","message":"unauthorized"}]}"#),
        missing: r#"{"errors":[{"code":"NOT_FOUND","message":"artifact tools/weather:gone not found"}]}"#,
        limited: (429, r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"too many requests"}]}"#),
    },
    Provider {
        name: "JFrog Artifactory",
        challenge: r#"Bearer realm="http://{}/v2/token",service="r.jfrog.io""#,
        token_path: Some("/v2/token"),
        token: r#"{"token":"good","expires_in":3600}"#,
        has_storage: false,
        wrong_login: (401, r#"{"errors":[{"status":401,"message":"Bad credentials"}]}"#),
        missing: r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"The named manifest is not known to the registry.","detail":{"manifest":"tools/weather"}}]}"#,
        limited: (503, "<html>overloaded</html>"),
    },
    Provider {
        name: "Docker Hub",
        challenge: r#"Bearer realm="http://{}/token",service="registry.docker.io",scope="repository:tools/weather:pull""#,
        token_path: Some("/token"),
        token: r#"{"token":"good","access_token":"good","expires_in":300,"issued_at":"2026-11-30T00:00:00Z"}"#,
        has_storage: true,
        wrong_login: (401, r#"{"details":"incorrect username or password"}"#),
        missing: r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown","detail":{"Tag":"gone"}}]}"#,
        limited: (
            429,
            r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"You have reached your pull rate limit. You may increase the limit by authenticating and upgrading: https://www.docker.com/increase-rate-limit"}]}"#,
        ),
    },
];

/// A provider's stub, and its storage.
struct Stub {
    provider: &'static Provider,
    address: String,
    storage: String,
    basic: String,
}

impl Stub {
    async fn start(provider: &'static Provider) -> Arc<Self> {
        let bind = || TcpListener::bind("127.0.0.1:0");
        let (registry, storage) = (bind().await.expect("a port"), bind().await.expect("a port"));
        let address_of = |listener: &TcpListener| listener.local_addr().expect("an address").to_string();
        let login = Login::new("user", &Secret::new(b"password".to_vec()));
        let basic = format!("Basic {}", String::from_utf8_lossy(login.basic.expose()));
        let (address, stored_at) = (address_of(&registry), address_of(&storage));
        let stub = Arc::new(Self { provider, address, storage: stored_at, basic });
        for (listener, is_storage) in [(registry, false), (storage, true)] {
            let stub = stub.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stub.clone(), stream, is_storage));
                }
            });
        }
        stub
    }

    /// Status, more headers, and body.
    fn answer(&self, path: &str, authorization: Option<&str>) -> (u16, String, Vec<u8>) {
        let said = |(status, body): (u16, &str)| (status, String::new(), body.as_bytes().to_vec());
        let provider = self.provider;
        let is_login = authorization == Some(&self.basic);
        if provider.token_path.is_some_and(|token| path.split('?').next() == Some(token)) {
            return said(if is_login { (200, provider.token) } else { provider.wrong_login });
        }
        let is_let_in = match provider.token_path {
            Some(_) => authorization == Some("Bearer good"),
            None => is_login,
        };
        if !is_let_in {
            let challenge = provider.challenge.replace("{}", &self.address);
            return match authorization {
                Some(_) => said(provider.wrong_login),
                None => (401, format!("WWW-Authenticate: {challenge}\r\n"), Vec::new()),
            };
        }
        let manifest = manifest();
        match path.strip_prefix("/v2/tools/weather/").unwrap_or_default() {
            "manifests/1" => (200, format!("Content-Type: {MANIFEST_TYPE}\r\n"), manifest),
            "manifests/limited" => {
                let (status, headers, body) = said(provider.limited);
                (status, format!("{headers}Retry-After: 7\r\n"), body)
            }
            blob if blob.starts_with("blobs/") && provider.has_storage => {
                (307, format!("Location: http://{}/signed?key=1\r\n", self.storage), Vec::new())
            }
            blob if blob.starts_with("blobs/") => (200, String::new(), COMPONENT.to_vec()),
            _ => said((404, provider.missing)),
        }
    }
}

fn manifest() -> Vec<u8> {
    let layer = json!({"mediaType": COMPONENT_TYPE, "digest": digest_of(COMPONENT).as_str(), "size": COMPONENT.len()});
    let config = json!({"mediaType": "application/vnd.oci.empty.v1+json", "digest": digest_of(b"{}").as_str(), "size": 2});
    let manifest =
        json!({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": [layer]});
    manifest.to_string().into_bytes()
}

/// Answers one request. The storage, which has other owners, never gets a login.
async fn serve(stub: Arc<Stub>, mut stream: TcpStream, is_storage: bool) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    let header = |line: &str| {
        Some(line.split_once(": ")?)
            .filter(|(name, _)| name.eq_ignore_ascii_case("authorization"))
            .map(|(_, value)| value.to_owned())
    };
    let authorization = head.lines().find_map(header);
    let (status, headers, body) = match (is_storage, &authorization) {
        (true, None) => (200, String::new(), COMPONENT.to_vec()),
        (true, Some(_)) => (400, String::new(), Vec::new()),
        (false, authorization) => stub.answer(path, authorization.as_deref()),
    };
    let reason =
        StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("-");
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&body).await;
}

async fn pull_from(stub: &Stub, tag: &str, password: Option<&[u8]>) -> Result<Pulled, CallError> {
    let plain_http = vec![stub.address.clone(), stub.storage.clone()];
    let http = HostClient::new(HostClientSettings {
        plain_http,
        allow_private: true,
        ..HostClientSettings::default()
    });
    let login = password.map(|password| Arc::new(Login::new("user", &Secret::new(password.to_vec()))));
    let endpoint =
        Endpoint { http: http.expect("a client"), host: stub.address.clone(), plain_http: true, login };
    let reference: Reference =
        format!("oci://{}/tools/weather:{tag}", stub.address).parse().expect("a reference");
    let mut session = RegistrySession::new(endpoint, &reference, "pull", Duration::from_secs(20))?;
    pull(&mut session, &reference, 1 << 20).await
}

/// The first message in the body of an error.
fn said(body: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    body["errors"][0]["message"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn o1_plugins_are_pulled_from_each_provider_and_failures_have_its_words() {
    for provider in PROVIDERS {
        let (stub, name) = (Stub::start(provider).await, provider.name);
        let pulled = pull_from(&stub, "1", Some(b"password"))
            .await
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!((&pulled.file[..], pulled.digest), (COMPONENT, digest_of(&manifest())), "{name}");

        let error = pull_from(&stub, "gone", Some(b"password")).await.expect_err(name);
        assert_eq!(error.error_type, ErrorType::NotFound, "{name}");
        assert!(error.message.contains("has no `gone` in `tools/weather`"), "{name}: {}", error.message);

        let error = pull_from(&stub, "1", Some(b"wrong")).await.expect_err(name);
        assert_eq!(error.error_type, ErrorType::CredentialMissing, "{name}");
        assert!(
            error.message.starts_with("the registry does not let `user` do this"),
            "{name}: {}",
            error.message
        );
        if let Some(said) = said(provider.wrong_login.1) {
            assert!(error.message.contains(&said), "{name}: {}", error.message);
        }

        let error = pull_from(&stub, "1", None).await.expect_err(name);
        assert_eq!(error.error_type, ErrorType::CredentialMissing, "{name}");
        assert!(error.message.contains("wants a login"), "{name}: {}", error.message);

        let error = pull_from(&stub, "limited", Some(b"password")).await.expect_err(name);
        assert_eq!((error.retryable, error.retry_after_ms()), (true, Some(7000)), "{name}");
        if let Some(said) = said(provider.limited.1) {
            assert!(error.message.contains(&said), "{name}: {}", error.message);
        }
    }
}
