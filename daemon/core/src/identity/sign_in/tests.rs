use std::path::Path;

use futures_util::FutureExt;
use http::Response;
use serde_json::{Value, json};
use toolgate_state::clock::now_ms;
use toolgate_state::config::Config;

use super::*;
use crate::identity::jwt::testing::{Signer, set};

const ISSUER: &str = "https://login.example";
const REDIRECT: &str = "http://localhost:7300/console/sign-in/callback";

const SETTINGS: &str = r#"
[console.oidc]
issuer = "https://login.example"
client_id = "toolgate"
[[console.oidc.roles]]
value = "admins"
role = "operator"
[[console.oidc.roles]]
value = "acme-approvers"
role = "approver"
organization = "acme"
[[console.oidc.roles]]
value = "acme-bots"
role = "orchestrator"
organization = "acme"
agents = ["bot"]
"#;

/// A provider whose token endpoint answers with the ID token that a test puts there.
struct Provider {
    signer: Signer,
    id_token: parking_lot::Mutex<String>,
    userinfo: parking_lot::Mutex<Value>,
    exchanges: std::sync::atomic::AtomicUsize,
}

impl Provider {
    fn answer(&self, url: &str) -> (u16, Value) {
        match url.strip_prefix(ISSUER) {
            Some("/.well-known/openid-configuration") => (
                200,
                json!({
                    "issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys"), "token_endpoint": format!("{ISSUER}/token"),
                    "authorization_endpoint": format!("{ISSUER}/auth?tenant=1"),
                    "userinfo_endpoint": format!("{ISSUER}/me"), "end_session_endpoint": format!("{ISSUER}/end"),
                }),
            ),
            Some("/me") => (200, self.userinfo.lock().clone()),
            Some("/keys") => (200, Value::Object(set(&[self.signer.jwk()]))),
            Some("/token") => {
                self.exchanges.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                let token = self.id_token.lock().clone();
                (200, json!({"access_token": "an-access-token", "token_type": "Bearer", "id_token": token}))
            }
            _ => (404, json!({})),
        }
    }
}

struct Fixture {
    provider: Arc<Provider>,
    sign_in: PersonSignIn,
    stop: CancellationToken,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Fixture {
    fn start() -> Self {
        let provider = Arc::new(Provider {
            signer: Signer::es256("a"),
            id_token: Default::default(),
            userinfo: Default::default(),
            exchanges: Default::default(),
        });
        let web = Arc::clone(&provider);
        let http: TokenClient = Arc::new(move |request| {
            let (status, body) = web.answer(&request.uri().to_string());
            Box::pin(async move {
                let body = body.to_string().into_bytes();
                Ok(Response::builder().status(status).body(body).expect("a response"))
            })
        });
        let config = Config::parse(SETTINGS, Path::new("toolgate.toml")).expect("settings");
        let redirect_url = REDIRECT.to_owned();
        let connection = SignInConnection { http, plain_http: Vec::new(), redirect_url, vault: None };
        let sign_in =
            PersonSignIn::new(&config.console.oidc.expect("a provider"), connection).expect("a sign-in");
        let stop = CancellationToken::new();
        tokio::spawn(sign_in.clone().run_background(stop.clone()));
        Self { provider, sign_in, stop }
    }

    async fn begin(&self) -> (BegunSignIn, Url) {
        let begun = self.sign_in.begin(now_ms()).await.expect("begun");
        let url = Url::parse(&begun.url).expect("a URL");
        (begun, url)
    }

    /// Finishes a sign-in with these changes of the ID token's claims.
    async fn finish_with(&self, changes: Value) -> Result<Caller, CallError> {
        let (begun, url) = self.begin().await;
        let mut claims = json!({
            "iss": ISSUER, "aud": "toolgate", "sub": "ann", "exp": now_ms() / 1000 + 300,
            "nonce": parameter(&url, "nonce"), "groups": ["staff", "acme-approvers"],
        });
        for (name, value) in changes.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        let token = self.provider.signer.sign(&json!({"alg": "ES256", "kid": "a"}), &claims);
        *self.provider.id_token.lock() = token;
        self.finish(&begun.cookie, response(&url)).await
    }

    async fn finish(&self, cookie: &str, response: SignInResponse) -> Result<Caller, CallError> {
        let (now_ms, permit) = (now_ms(), self.sign_in.permit().await);
        self.sign_in.finish(permit, cookie, response, now_ms + 1_000, now_ms).await
    }

    fn exchanges(&self) -> usize {
        self.provider.exchanges.load(std::sync::atomic::Ordering::SeqCst)
    }
}

fn parameter(url: &Url, name: &str) -> String {
    let found = url.query_pairs().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {url}")).1.into_owned()
}

fn response(url: &Url) -> SignInResponse {
    let (state, code) = (Some(parameter(url, "state")), Some("a-code".to_owned()));
    SignInResponse { state, code, ..SignInResponse::default() }
}

#[tokio::test]
async fn o6_the_authorization_request_has_pkce_state_and_nonce_of_this_browser() {
    let fixture = Fixture::start();
    let (begun, url) = fixture.begin().await;
    let expected = [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", "toolgate"),
        ("code_challenge_method", "S256"),
        ("redirect_uri", REDIRECT),
        ("scope", "openid"),
    ];
    for (name, value) in expected {
        assert_eq!(parameter(&url, name), value);
    }
    let derived = ["state", "nonce", "code_challenge"].map(|name| parameter(&url, name));
    let (_, other) = fixture.begin().await;
    for (name, value) in ["state", "nonce", "code_challenge"].iter().zip(&derived) {
        assert!(!begun.cookie.contains(value.as_str()) && value.len() == 43, "{name}");
        assert_ne!(parameter(&other, name), *value, "{name}");
    }
}

#[tokio::test]
async fn o6_the_claim_decides_about_the_role() {
    let fixture = Fixture::start();
    let caller = fixture.finish_with(json!({})).await.expect("a person");
    assert_eq!((&*caller.token_id, caller.role), ("oidc:https://login.example#ann", Role::Approver));
    assert_eq!(caller.organization.as_ref().map(Name::as_str), Some("acme"));
    assert!(caller.expires_ms.is_some() && caller.agents.is_none());
    // The first entry of the settings decides, not the order of the claim.
    let caller =
        fixture.finish_with(json!({"groups": ["acme-approvers", "admins"]})).await.expect("a person");
    assert_eq!((caller.role, caller.organization), (Role::Operator, None));
    let caller = fixture.finish_with(json!({"groups": "acme-bots"})).await.expect("a person");
    assert_eq!(caller.agents.map(|agents| agents.len()), Some(1));
    *fixture.provider.userinfo.lock() = json!({"sub": "ann", "groups": "staff"});
    for groups in [
        json!(["staff"]),
        json!([]),
        json!(null),
        json!("ADMINS"),
        json!({"admins": true}),
        json!([["admins"]]),
    ] {
        let error = fixture.finish_with(json!({"groups": groups})).await.expect_err("no role");
        assert_eq!(error.error_type, ErrorType::Forbidden, "{}", error.message);
    }
}

#[tokio::test]
async fn o6_an_id_token_of_another_client_or_sign_in_is_refused() {
    let fixture = Fixture::start();
    for (changes, why) in [
        (json!({"nonce": "another"}), "`nonce` is of another sign-in"),
        (json!({"nonce": null}), "its claim `nonce` is missing"),
        (json!({"aud": "other"}), "its audience is not `toolgate`"),
        (json!({"aud": ["toolgate", "other"]}), "its audience is not `toolgate`"),
        (json!({"azp": "other"}), "its audience is not `toolgate`"),
        (json!({"iss": "https://other.example"}), "its issuer `https://other.example` is not accepted here"),
        (json!({"exp": 1_000}), "it has expired"),
        (json!({"sub": ""}), "its claim `sub` is missing"),
    ] {
        let error = fixture.finish_with(changes).await.expect_err(why);
        assert_eq!(error.error_type, ErrorType::Unauthenticated);
        assert!(error.message.contains(why), "{}", error.message);
    }
    let claims = json!({"aud": ["other", "toolgate"], "azp": "toolgate"});
    fixture.finish_with(claims).await.expect("for this client, among others");
}

#[tokio::test]
async fn o6_a_response_counts_only_in_the_browser_that_began_and_for_ten_minutes() {
    let fixture = Fixture::start();
    let (begun, url) = fixture.begin().await;
    let (other, _) = fixture.begin().await;
    let (seed, end) = begun.cookie.split_once('.').expect("two parts");
    let later = format!("{seed}.{}", end.parse::<u64>().expect("a time") + 1);
    for cookie in ["", "made.up", &other.cookie, &later, seed] {
        let error = fixture.finish(cookie, response(&url)).await.expect_err("another browser");
        assert_eq!(error.error_type, ErrorType::Expired, "{cookie}");
    }
    for state in [None, Some(String::new()), Some("made-up".to_owned()), Some(parameter(&url, "nonce"))] {
        let response = SignInResponse { state, ..response(&url) };
        let error = fixture.finish(&begun.cookie, response).await.expect_err("another state");
        assert_eq!(error.error_type, ErrorType::Expired);
    }
    let end_ms = now_ms() + SIGN_IN_MS + 1;
    let permit = fixture.sign_in.permit().await;
    let late = fixture.sign_in.finish(permit, &begun.cookie, response(&url), end_ms, end_ms).await;
    assert_eq!(late.expect_err("too late").error_type, ErrorType::Expired);
    assert_eq!(fixture.exchanges(), 0, "the provider was not asked");
    fixture.finish_with(json!({})).await.expect("a person");
    assert_eq!(fixture.exchanges(), 1);
}

#[tokio::test]
async fn o6_a_refusal_of_the_provider_is_told_by_its_code_alone() {
    let fixture = Fixture::start();
    let (begun, url) = fixture.begin().await;
    let refused =
        |error: &str| SignInResponse { code: None, error: Some(error.to_owned()), ..response(&url) };
    for (error, shown) in [("access_denied", "access_denied"), ("<script>", "no code")] {
        let error = fixture.finish(&begun.cookie, refused(error)).await.expect_err("refused");
        assert!(error.message.ends_with(shown), "{}", error.message);
    }
    let iss = Some("https://other.example".to_owned());
    let error = fixture.finish(&begun.cookie, SignInResponse { iss, ..response(&url) }).await;
    assert!(error.expect_err("mixed up").message.contains("another issuer"));
    assert_eq!(fixture.exchanges(), 0);
}

#[tokio::test]
async fn o6_a_claim_that_the_id_token_lacks_is_asked_for() {
    let fixture = Fixture::start();
    let tell = |claims: Value| *fixture.provider.userinfo.lock() = claims;
    let without = || fixture.finish_with(json!({"groups": null}));
    tell(json!({"sub": "ann", "groups": ["acme-approvers"]}));
    assert_eq!(without().await.expect("a person").role, Role::Approver);
    tell(json!({"sub": "bob", "groups": ["admins"]}));
    assert_eq!(without().await.expect_err("of another person").error_type, ErrorType::Unauthenticated);
    tell(json!([]));
    assert_eq!(without().await.expect_err("no claims").error_type, ErrorType::ApiUnavailable);
    // The signed claim decides where there is one.
    tell(json!({"sub": "ann", "groups": ["admins"]}));
    assert_eq!(fixture.finish_with(json!({})).await.expect("a person").role, Role::Approver);
    let url = fixture.sign_in.sign_out_url().expect("a URL");
    assert_eq!(url, format!("{ISSUER}/end?client_id=toolgate"));
}

#[tokio::test]
async fn o6_few_sign_ins_are_finished_at_once() {
    let fixture = Fixture::start();
    let permit = || fixture.sign_in.permit().now_or_never();
    let mut held: Vec<_> = (0..EXCHANGES).map(|_| permit().expect("a permit")).collect();
    assert!(permit().is_none());
    let (begun, url) = fixture.begin().await;
    let last = held.pop().expect("a permit");
    let finished = fixture.sign_in.finish(last, &begun.cookie, response(&url), u64::MAX, now_ms()).await;
    assert!(finished.is_err() && permit().is_some(), "it was given back");
}
