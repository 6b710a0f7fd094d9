//! Discovery of authorization servers on a fake web. `tests/tests/secrets/oauth.rs` has a real provider.

use std::collections::BTreeMap;

use http::{Response, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolgate_api::credential::{CredentialKind, CredentialRequest, DiscoveryView};

use super::*;
use crate::credentials::oauth::HttpRequest;

/// Status, one header field and content of a response.
type Page = (u16, Option<(header::HeaderName, String)>, String);

/// Responses by URL: status, field, body. Other URLs have status 404.
#[derive(Default)]
struct Web {
    pages: BTreeMap<String, Page>,
    asked: Mutex<Vec<String>>,
}

const SERVICE: &str = "https://mcp.example/v1/mcp";
const INSERTED: &str = "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp";
const ISSUER: &str = "https://idp.example/tenant";
const METADATA: &str = "https://idp.example/.well-known/oauth-authorization-server/tenant";

impl Web {
    /// A service that names its metadata in a challenge, and its authorization server.
    fn new() -> Self {
        let challenge =
            r#"Bearer realm="mcp", resource_metadata="https://mcp.example/about", scope="read write""#;
        Self::default()
            .with(SERVICE, 401, Some((header::WWW_AUTHENTICATE, challenge)), "")
            .with_json("https://mcp.example/about", &resource())
            .with_json(METADATA, &server())
    }

    fn with(mut self, url: &str, status: u16, field: Option<(header::HeaderName, &str)>, body: &str) -> Self {
        let field = field.map(|(name, value)| (name, value.to_owned()));
        self.pages.insert(url.to_owned(), (status, field, body.to_owned()));
        self
    }

    fn with_json(self, url: &str, body: &Value) -> Self {
        self.with(url, 200, None, &body.to_string())
    }

    fn with_redirect(self, url: &str, location: &str) -> Self {
        self.with(url, 302, Some((header::LOCATION, location)), "")
    }

    fn without(mut self, url: &str) -> Self {
        self.pages.remove(url);
        self
    }

    fn client(self: &Arc<Self>) -> TokenClient {
        let web = Arc::clone(self);
        Arc::new(move |request: HttpRequest| {
            let (web, url) = (Arc::clone(&web), request.uri().to_string());
            Box::pin(async move {
                web.asked.lock().push(url.clone());
                let (status, field, body) =
                    web.pages.get(&url).cloned().unwrap_or((404, None, String::new()));
                let mut response = Response::builder().status(status);
                if let Some((name, value)) = field {
                    response = response.header(name, value);
                }
                Ok(response.body(body.into_bytes()).unwrap())
            })
        })
    }

    async fn discover(self, url: &str) -> DiscoveryView {
        self.discover_with(url, Some("https://tools.example/v1/oauth/clients")).await.0
    }

    /// Returns the view and the requested URLs.
    async fn discover_with(
        self,
        url: &str,
        client_metadata_url: Option<&str>,
    ) -> (DiscoveryView, Vec<String>) {
        let (fixture, web) = (Fixture::new().await, Arc::new(self));
        let settings = CredentialSettings {
            audit: fixture.audit.clone(),
            source: RootKeySource::Generated(fixture.path("root")),
            references: None,
            files: None,
            http: web.client(),
            redirect_url: "https://tools.example/v1/oauth/callback".to_owned(),
            client_metadata_url: client_metadata_url.map(str::to_owned),
        };
        let credentials = fixture.open_set(settings).await;
        let view = credentials.discover(url, Some(&name("acme")), &[]).await.unwrap();
        let asked = web.asked.lock().clone();
        (view, asked)
    }
}

fn resource() -> Value {
    json!({"resource": "https://mcp.example/v1", "authorization_servers": [ISSUER, "https://second.example"]})
}

fn server() -> Value {
    json!({
        "issuer": ISSUER,
        "authorization_endpoint": "https://idp.example/authorize",
        "token_endpoint": "https://idp.example/token",
        "registration_endpoint": "https://idp.example/register",
        "scopes_supported": ["read", "offline_access"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": true,
        "authorization_response_iss_parameter_supported": true,
    })
}

fn server_with(changes: Value) -> Value {
    let mut server = server();
    for (field, value) in changes.as_object().unwrap() {
        server[field] = value.clone();
    }
    server
}

fn result_of<'a>(view: &'a DiscoveryView, url: &str) -> &'a str {
    let attempt = view.attempts.iter().find(|attempt| attempt.url == url);
    &attempt.unwrap_or_else(|| panic!("{url} was not requested: {:?}", view.attempts)).result
}

#[tokio::test]
async fn k6_the_challenge_of_a_service_leads_to_a_credential() {
    let view = Web::new().discover(SERVICE).await;
    let server = view.server.as_ref().unwrap();
    assert_eq!((view.resource.as_deref(), &*server.issuer), (Some("https://mcp.example/v1"), ISSUER));
    assert_eq!(server.registration_endpoint.as_deref(), Some("https://idp.example/register"));
    assert_eq!(view.other_issuers, ["https://second.example"]);
    assert_eq!(view.notes, [""; 0]);
    let draft = serde_json::to_value(view.credential.unwrap()).unwrap();
    let expected = json!({
        "provider": "mcp-example",
        "kind": "oauth2_authorization_code",
        "client_id": "https://tools.example/v1/oauth/clients/acme",
        "authorization_url": "https://idp.example/authorize",
        "token_url": "https://idp.example/token",
        "issuer": ISSUER,
        "scopes": ["read", "write", "offline_access"],
        "parameters": {"resource": "https://mcp.example/v1"},
        "bound_to": [{"scheme": "https", "host": "mcp.example", "path": "/v1/mcp"}],
    });
    assert_eq!(draft, expected);
    // The draft is a valid credential.
    let request: CredentialRequest = serde_json::from_value(draft).unwrap();
    assert!(new_credential(request, &[]).is_ok());
}

#[tokio::test]
async fn k6_well_known_places_are_tried_in_the_order_of_mcp_clients() {
    let (view, asked) = Web::default().discover_with(SERVICE, None).await;
    assert!(view.server.is_none() && view.credential.is_none());
    let host = "https://mcp.example";
    let expected = [
        SERVICE.to_owned(),
        INSERTED.to_owned(),
        format!("{host}/.well-known/oauth-protected-resource"),
        format!("{host}/.well-known/oauth-authorization-server/v1/mcp"),
        format!("{host}/.well-known/openid-configuration/v1/mcp"),
        format!("{host}/v1/mcp/.well-known/openid-configuration"),
        format!("{host}/.well-known/oauth-authorization-server"),
        format!("{host}/.well-known/openid-configuration"),
    ];
    assert_eq!(asked, expected);
    assert_eq!(view.attempts.len(), expected.len());
    assert!(view.attempts[1..].iter().all(|attempt| attempt.result == "the response has status 404"));
    // Each place is enough alone.
    let own = |issuer: &str| server_with(json!({"issuer": issuer}));
    for place in &expected[1..3] {
        let view = Web::new().without(SERVICE).with_json(place, &resource()).discover(SERVICE).await;
        assert!(view.server.is_some(), "{place}");
    }
    for (place, issuer) in expected[3..6]
        .iter()
        .map(|place| (place, SERVICE))
        .chain(expected[6..].iter().flat_map(|place| [(place, host), (place, "https://mcp.example/")]))
    {
        let view = Web::default().with_json(place, &own(issuer)).discover(SERVICE).await;
        assert_eq!(view.server.map(|server| server.issuer).as_deref(), Some(issuer), "{place}");
        assert!(view.notes.iter().any(|note| note.contains("check `bound_to`")), "{:?}", view.notes);
    }
}

#[tokio::test]
async fn k6_metadata_about_another_issuer_or_resource_are_not_used() {
    let foreign = server_with(json!({"issuer": "https://evil.example"}));
    let view = Web::new().with_json(METADATA, &foreign).discover(SERVICE).await;
    assert!(view.server.is_none());
    let expected = "the metadata are about another issuer, `https://evil.example`; write that as `issuer` if it is the provider";
    assert_eq!(result_of(&view, METADATA), expected);
    for other in ["https://idp.example/tenant/", "https://IDP.example/tenant", "https://idp.example", ""] {
        let view =
            Web::new().with_json(METADATA, &server_with(json!({"issuer": other}))).discover(SERVICE).await;
        assert!(view.server.is_none(), "{other}");
    }
    for (other, covers) in [
        ("https://mcp.example", true),
        ("https://mcp.example/", true),
        (SERVICE, true),
        ("https://mcp.example/v1/mc", false),
        ("https://mcp.example/v1/mcp/more", false),
        ("https://mcp.example:8443/v1/mcp", false),
        ("http://mcp.example/v1/mcp", false),
        ("https://victim.example/v1/mcp", false),
    ] {
        let metadata = json!({"resource": other, "authorization_servers": [ISSUER]});
        let view = Web::new().with_json("https://mcp.example/about", &metadata).discover(SERVICE).await;
        assert_eq!(view.resource.is_some(), covers, "{other}");
        assert_eq!(result_of(&view, "https://mcp.example/about") == "found", covers, "{other}");
    }
}

#[tokio::test]
async fn k6_redirects_of_metadata_are_followed_three_times() {
    let place = |number: usize| format!("https://cdn.example/{number}");
    let web = |redirects: usize| {
        let first = Web::new().with_redirect(METADATA, &place(1));
        let web = (1..redirects).fold(first, |web, at| web.with_redirect(&place(at), &place(at + 1)));
        web.with_json(&place(redirects), &server())
    };
    assert!(web(3).discover(SERVICE).await.server.is_some());
    let view = web(4).discover(SERVICE).await;
    assert!(view.server.is_none());
    assert_eq!(result_of(&view, METADATA), "the response redirects more than 3 times");
    let (view, asked) = Web::new().with_redirect(METADATA, METADATA).discover_with(SERVICE, None).await;
    assert!(view.server.is_none());
    assert_eq!(asked.iter().filter(|url| *url == METADATA).count(), 4);
    let view = Web::new().with_redirect(METADATA, "https://user:key@cdn.example/").discover(SERVICE).await;
    assert_eq!(result_of(&view, METADATA), "the URL has a user in it");
}

#[tokio::test]
async fn k6_unusable_metadata_are_told_by_their_reason() {
    for (field, url, reason) in [
        ("token_endpoint", "http://idp.example/token", "a credential does not travel over plain HTTP"),
        ("authorization_endpoint", "http://idp.example/a", "a credential does not travel over plain HTTP"),
        ("token_endpoint", "javascript:alert(1)", "there is no address"),
        ("token_endpoint", "https://user:key@idp.example/token", "the address has a user or password in it"),
    ] {
        let metadata = server_with(json!({field: url}));
        let view = Web::new().with_json(METADATA, &metadata).discover(SERVICE).await;
        assert!(view.server.is_none(), "{url}");
        let expected = format!("`{field}` of the metadata cannot be used: {reason}");
        assert_eq!(result_of(&view, METADATA), expected);
    }
    for body in ["", "<html>", "[]", "\"text\"", "{\"issuer\": 7}"] {
        let view = Web::new().with(METADATA, 200, None, body).discover(SERVICE).await;
        assert!(view.server.is_none(), "{body}");
    }
    // A field of another type counts as absent.
    let odd =
        server_with(json!({"scopes_supported": "read", "grant_types_supported": [7, "authorization_code"],
        "registration_endpoint": "http://idp.example", "client_id_metadata_document_supported": "yes"}));
    let server = Web::new().with_json(METADATA, &odd).discover(SERVICE).await.server.unwrap();
    assert_eq!((server.scopes_supported.len(), server.registration_endpoint), (0, None));
    assert_eq!(server.grant_types_supported, ["authorization_code"]);
    assert!(!server.client_id_metadata_document_supported);
}

#[tokio::test]
async fn k6_a_draft_says_what_is_missing() {
    // Without the daemon's own metadata document.
    let (view, _) = Web::new().discover_with(SERVICE, None).await;
    assert_eq!(view.credential.unwrap().client_id, None);
    assert!(view.notes.iter().any(|note| note.starts_with("register a client with `redirect_url`")));
    assert!(view.notes.iter().any(|note| note.contains("`credentials.public_url`")));
    let own = "https://tools.example/v1/oauth/callback?organization=acme";
    assert_eq!(view.public_client_redirect_url.as_deref(), Some(own));
    // A server for machines alone.
    let machine = server_with(json!({
        "grant_types_supported": ["client_credentials"],
        "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
    }));
    let view = Web::new().with_json(METADATA, &machine).discover(SERVICE).await;
    let draft = view.credential.unwrap();
    assert_eq!((draft.kind, draft.secret_in_body), (CredentialKind::ClientCredentials, Some(true)));
    assert_eq!((draft.client_id, draft.authorization_url, draft.issuer), (None, None, None));
    assert_eq!(draft.scopes, ["read", "write"]);
    // Without PKCE, and with a grant that the daemon does not support.
    let old = server_with(json!({"code_challenge_methods_supported": ["plain"]}));
    let view = Web::new().with_json(METADATA, &old).discover(SERVICE).await;
    assert!(view.notes[0].contains("`S256`"), "{:?}", view.notes);
    let device =
        server_with(json!({"grant_types_supported": ["urn:ietf:params:oauth:grant-type:device_code"]}));
    let view = Web::new().with_json(METADATA, &device).discover(SERVICE).await;
    assert!(view.server.is_some() && view.credential.is_none());
}

#[tokio::test]
async fn k6_urls_that_could_hold_a_secret_are_refused() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    for url in [
        "https://mcp.example/mcp?key=secret",
        "https://user:key@mcp.example/mcp",
        "https://mcp.example/#a",
        "http://mcp.example/mcp",
        "file:///etc/passwd",
        "mcp.example",
    ] {
        let refused = credentials.discover(url, None, &[]).await.err().map(|error| error.error_type);
        assert_eq!(refused, Some(ErrorType::InvalidRequest), "{url}");
    }
    // The client of this fixture reaches no server.
    let view = credentials.discover(SERVICE, None, &[]).await.unwrap();
    assert!(view.attempts.iter().all(|attempt| attempt.result == "nobody there"));
    assert_eq!(view.public_client_redirect_url, None);
}

#[tokio::test]
async fn k6_a_response_of_another_issuer_ends_the_flow() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    let draft = json!({
        "provider": "drive", "kind": "oauth2_authorization_code", "client_id": "c", "issuer": ISSUER,
        "authorization_url": "https://idp.example/authorize", "token_url": "https://idp.example/token",
        "bound_to": [{"host": "mcp.example"}],
    });
    for (key, issuer, expected) in [
        ("strict", Some(ISSUER), &[Some(ISSUER)][..]),
        ("lenient", None, &[None, Some(ISSUER), Some("https://a.b")]),
    ] {
        let mut draft = draft.clone();
        draft["issuer"] = json!(issuer);
        let new = new_credential(serde_json::from_value(draft).unwrap(), &[]).unwrap();
        credentials.put(&name("acme"), &name(key), new, &Precondition::Absent, 5).await.unwrap();
        let link =
            credentials.begin_authorization(&name("acme"), &name(key), ("t", "http"), &Default::default(), 0);
        let url = url::Url::parse(&link.unwrap().url).unwrap();
        let state = url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
        let flow = credentials.take_flow(&state, Some("acme"), 1).unwrap();
        for named in [None, Some(ISSUER), Some("https://a.b")] {
            assert_eq!(flow.check_issuer(named).is_ok(), expected.contains(&named), "{issuer:?} {named:?}");
        }
    }
}
