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

/// A provider whose token endpoint answers with the ID token that a test puts there; with none while it is empty.
struct Provider {
    issuer: String,
    /// The issuer that its metadata name; none for a server without metadata.
    metadata_issuer: Option<String>,
    signer: Signer,
    id_token: parking_lot::Mutex<String>,
    userinfo: parking_lot::Mutex<Value>,
    /// The error of the token endpoint; none to issue tokens.
    error: parking_lot::Mutex<Option<&'static str>>,
    exchanges: std::sync::atomic::AtomicUsize,
}

impl Provider {
    fn answer(&self, url: &str) -> (u16, Value) {
        let base = self.issuer.trim_end_matches('/');
        match url.strip_prefix(base) {
            Some("/.well-known/openid-configuration") if self.metadata_issuer.is_some() => (
                200,
                json!({
                    "issuer": self.metadata_issuer, "jwks_uri": format!("{base}/keys"), "token_endpoint": format!("{base}/token"),
                    "authorization_endpoint": format!("{base}/auth?tenant=1"),
                    "device_authorization_endpoint": format!("{base}/device"),
                    "userinfo_endpoint": format!("{base}/me"), "end_session_endpoint": format!("{base}/end"),
                }),
            ),
            Some("/me") => (200, self.userinfo.lock().clone()),
            Some("/keys") => (200, Value::Object(set(&[self.signer.jwk()]))),
            Some("/device") => (
                200,
                json!({
                    "device_code": "a-device-code", "user_code": "ABCD-EFGH", "verification_uri": format!("{base}/code"),
                    "expires_in": 300,
                }),
            ),
            Some("/token") => {
                if let Some(error) = *self.error.lock() {
                    return (400, json!({"error": error}));
                }
                self.exchanges.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                let token = self.id_token.lock().clone();
                let mut tokens = json!({"access_token": "an-access-token", "token_type": "Bearer"});
                if !token.is_empty() {
                    tokens["id_token"] = json!(token);
                }
                (200, tokens)
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
        Self::start_with(SETTINGS, ISSUER, Some(ISSUER))
    }

    fn start_with(settings: &str, issuer: &str, metadata_issuer: Option<&str>) -> Self {
        let provider = Arc::new(Provider {
            issuer: issuer.to_owned(),
            metadata_issuer: metadata_issuer.map(str::to_owned),
            signer: Signer::es256("a"),
            id_token: Default::default(),
            userinfo: Default::default(),
            error: Default::default(),
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
        let config = Config::parse(settings, Path::new("toolgate.toml")).expect("settings");
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

    /// Finishes a sign-in with these changes of the ID token's claims; `null` leaves a claim out.
    async fn finish_with(&self, changes: Value) -> Result<Caller, CallError> {
        let begun = self.sign_in.begin(now_ms()).await?;
        let url = Url::parse(&begun.url).expect("a URL");
        let mut claims = json!({
            "iss": ISSUER, "aud": "toolgate", "sub": "ann", "exp": now_ms() / 1000 + 300,
            "nonce": parameter(&url, "nonce"), "groups": ["staff", "acme-approvers"],
        });
        let fields = claims.as_object_mut().expect("an object");
        for (name, value) in changes.as_object().expect("an object") {
            match value {
                // The provider sends no such claim.
                Value::Null => fields.remove(name),
                value => fields.insert(name.clone(), value.clone()),
            };
        }
        let token = self.provider.signer.sign(&json!({"alg": "ES256", "kid": "a"}), &claims);
        *self.provider.id_token.lock() = token;
        self.finish(&begun.cookie, response(&url)).await
    }

    async fn finish(&self, cookie: &str, response: SignInResponse) -> Result<Caller, CallError> {
        let (now_ms, permit) = (now_ms(), self.sign_in.permit().await);
        let finished = self.sign_in.finish(permit, cookie, response, now_ms + 1_000, now_ms).await;
        finished.map(|person| person.caller)
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

/// A provider as its documentation shows it, and what a person is told there.
struct DocumentedProvider {
    name: &'static str,
    /// `issuer` of the settings.
    issuer: &'static str,
    /// The issuer in the metadata; none for a server without them.
    metadata_issuer: Option<&'static str>,
    /// `claim` of the settings.
    claim: &'static str,
    /// The value with the role.
    value: &'static str,
    id_token: Value,
    userinfo: Value,
    /// Parts of the error and of its hint; none for a person who is signed in.
    told: Option<(ErrorType, &'static str, &'static str)>,
}

impl DocumentedProvider {
    /// A provider whose metadata name its issuer, and that signs a person in by this claim.
    fn new(name: &'static str, issuer: &'static str, claim: &'static str, id_token: Value) -> Self {
        let userinfo = json!({"sub": "ann"});
        Self {
            name,
            issuer,
            metadata_issuer: Some(issuer),
            claim,
            value: "admins",
            id_token,
            userinfo,
            told: None,
        }
    }

    fn refused(self, code: ErrorType, message: &'static str, hint: &'static str) -> Self {
        Self { told: Some((code, message, hint)), ..self }
    }

    async fn sign_in(&self) -> Result<Caller, CallError> {
        let Self { issuer, claim, value, .. } = self;
        let settings = format!(
            "[console.oidc]\nissuer = {issuer:?}\nclient_id = \"toolgate\"\nclaim = {claim:?}\n\
             [[console.oidc.roles]]\nvalue = {value:?}\nrole = \"operator\"\n"
        );
        let fixture = Fixture::start_with(&settings, issuer, self.metadata_issuer);
        *fixture.provider.userinfo.lock() = self.userinfo.clone();
        let mut claims = json!({"iss": issuer, "groups": null});
        let own = self.id_token.as_object().expect("claims").clone();
        claims.as_object_mut().expect("claims").extend(own);
        fixture.finish_with(claims).await
    }
}

/// The providers that sign a person in.
fn providers_that_sign_in() -> Vec<DocumentedProvider> {
    let entra = "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0";
    let okta = "https://acme.okta.com/oauth2/default";
    let keycloak = "https://sso.example/realms/acme";
    let cognito = "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_a1B2c3D4e";
    let auth0 = "https://acme.eu.auth0.com/";
    let new = DocumentedProvider::new;
    vec![
        new("Entra, app roles", entra, "roles", json!({"ver": "2.0", "tid": "t", "roles": ["admins"]})),
        new("Okta", okta, "groups", json!({"ver": 1, "groups": ["Everyone", "admins"]})),
        DocumentedProvider {
            userinfo: json!({"sub": "ann", "groups": ["admins"]}),
            ..new("Okta, groups at userinfo alone", okta, "groups", json!({"ver": 1}))
        },
        new(
            "Keycloak, realm roles",
            keycloak,
            "realm_access.roles",
            json!({"azp": "toolgate", "realm_access": {"roles": ["offline_access", "admins"]}}),
        ),
        new("Cognito", cognito, "cognito:groups", json!({"token_use": "id", "cognito:groups": ["admins"]})),
        new("Auth0", auth0, "https://acme.example/roles", json!({"https://acme.example/roles": ["admins"]})),
        DocumentedProvider {
            value: "acme.example",
            ..new("Google", "https://accounts.google.com", "hd", json!({"hd": "acme.example"}))
        },
    ]
}

/// The answers that need another line in the settings, or at the provider.
fn providers_that_refuse() -> Vec<DocumentedProvider> {
    let (forbidden, unavailable) = (ErrorType::Forbidden, ErrorType::ApiUnavailable);
    let entra = "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0";
    let common = "https://login.microsoftonline.com/common/v2.0";
    let new = DocumentedProvider::new;
    let overage = json!({"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://graph.microsoft.com"}}});
    vec![
        new("Entra, groups overage", entra, "groups", overage).refused(
            forbidden,
            "you have too many values",
            "groups of this application alone",
        ),
        DocumentedProvider {
            metadata_issuer: Some("https://login.microsoftonline.com/{tenantid}/v2.0"),
            ..new("Entra, many tenants", common, "roles", json!({}))
        }
        .refused(unavailable, "its metadata cannot be used", "the daemon's log"),
        new("Okta without a groups claim", "https://acme.okta.com", "groups", json!({})).refused(
            forbidden,
            "it sends no claim `groups`",
            "`claim` of `[console.oidc]`",
        ),
        new(
            "Keycloak, groups as paths",
            "https://sso.example/realms/acme",
            "groups",
            json!({"groups": ["/admins"]}),
        )
        .refused(forbidden, "no value of your claim `groups`", "the daemon's log has your values"),
        new(
            "Auth0 without its slash",
            "https://acme.eu.auth0.com",
            "r",
            json!({"iss": "https://acme.eu.auth0.com/"}),
        )
        .refused(
            ErrorType::Unauthenticated,
            "its issuer `https://acme.eu.auth0.com/` is not accepted here",
            "`issuer = \"https://acme.eu.auth0.com/\"`",
        ),
        new("Google has no groups", "https://accounts.google.com", "groups", json!({"hd": "acme.example"}))
            .refused(forbidden, "it sends no claim `groups`", "names another one"),
        DocumentedProvider {
            metadata_issuer: None,
            ..new("GitHub has no metadata", "https://github.com", "groups", json!({}))
        }
        .refused(unavailable, "its metadata cannot be used", "sign in with a token"),
    ]
}

#[tokio::test]
async fn o6_each_documented_provider_signs_in_or_is_told_the_line_to_write() {
    for provider in providers_that_sign_in().into_iter().chain(providers_that_refuse()) {
        let name = provider.name;
        match (provider.sign_in().await, &provider.told) {
            (Ok(caller), None) => assert_eq!(caller.role, Role::Operator, "{name}"),
            (Err(error), Some((code, message, hint))) => {
                assert_eq!(error.error_type, *code, "{name}: {error:?}");
                assert!(error.message.contains(message), "{name}: {}", error.message);
                assert!(error.hint.contains(hint), "{name}: {}", error.hint);
            }
            (Ok(caller), Some(_)) => panic!("{name}: signed in as {:?}", caller.role),
            (Err(error), None) => panic!("{name}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn o6_a_provider_without_id_tokens_is_told_to_need_openid_connect() {
    let fixture = Fixture::start();
    let (begun, url) = fixture.begin().await;
    let refused = fixture.finish(&begun.cookie, response(&url)).await.expect_err("no ID token");
    assert_eq!(refused.error_type, ErrorType::Unauthenticated);
    assert!(refused.message.contains("no ID token") && refused.hint.contains("`openid`"), "{refused:?}");
    fixture.finish_with(json!({})).await.expect("a person");
}

async fn on_device(fixture: &Fixture, code: &str) -> Result<DeviceSignIn, CallError> {
    let (now_ms, permit) = (now_ms(), fixture.sign_in.permit().await);
    fixture.sign_in.finish_on_device(permit, code, now_ms + 1_000, now_ms).await
}

#[tokio::test]
async fn o6_a_sign_in_on_another_device_waits_for_the_person_and_needs_no_nonce() {
    let fixture = Fixture::start();
    let begun = fixture.sign_in.begin_on_device(fixture.sign_in.permit().await).await.expect("begun");
    assert_eq!(
        (&*begun.user_code, begun.lifetime.as_secs(), begun.interval.as_secs()),
        ("ABCD-EFGH", 300, 5)
    );
    for (error, slower) in [("authorization_pending", false), ("slow_down", true)] {
        *fixture.provider.error.lock() = Some(error);
        let asked = on_device(&fixture, &begun.device_code).await.expect("pending");
        assert!(matches!(asked, DeviceSignIn::Pending { slow_down } if slow_down == slower), "{error}");
    }
    *fixture.provider.error.lock() = None;
    let claims = json!({
        "iss": ISSUER, "aud": "toolgate", "sub": "ann", "exp": now_ms() / 1000 + 300, "groups": ["admins"],
        "name": "Ann Example", "email": "ann@example.org",
    });
    *fixture.provider.id_token.lock() =
        fixture.provider.signer.sign(&json!({"alg": "ES256", "kid": "a"}), &claims);
    let Ok(DeviceSignIn::Person(person)) = on_device(&fixture, &begun.device_code).await else {
        panic!("no person")
    };
    assert_eq!(
        (&*person.caller.token_id, person.caller.role),
        ("oidc:https://login.example#ann", Role::Operator)
    );
    assert_eq!(person.name.as_deref(), Some("Ann Example <ann@example.org>"));
}

#[tokio::test]
async fn o6_a_sign_in_on_another_device_ends_with_a_reason() {
    let fixture = Fixture::start();
    for (error, expected) in [
        ("access_denied", ErrorType::Unauthenticated),
        ("expired_token", ErrorType::Expired),
        ("invalid_grant", ErrorType::Unauthenticated),
        ("server_error", ErrorType::ApiUnavailable),
    ] {
        *fixture.provider.error.lock() = Some(error);
        let refused = on_device(&fixture, "a-device-code").await.err().expect(error);
        assert_eq!(refused.error_type, expected, "{refused:?}");
    }
    let refused = on_device(&fixture, "").await.err().expect("no code");
    assert_eq!(refused.error_type, ErrorType::InvalidRequest);
}
