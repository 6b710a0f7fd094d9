//! OAuth2 with a fake provider. `tests/tests/secrets/oauth.rs` uses a real one.

mod authorization_flow;

use std::collections::{HashMap, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Response;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use toolgate_audit as audit;

use super::*;
use crate::credentials::oauth::HttpRequest;
use crate::credentials::refresh::BACKGROUND_REFRESHES;

/// A fake provider: its received requests and queued responses.
struct Provider {
    asked: Mutex<Vec<String>>,
    responses: Mutex<VecDeque<(u16, String)>>,
    /// Permits to send a response.
    gate: Semaphore,
}

impl Provider {
    fn new() -> Arc<Self> {
        let gate = Semaphore::new(Semaphore::MAX_PERMITS);
        Arc::new(Self { asked: Mutex::default(), responses: Mutex::default(), gate })
    }

    fn client(self: &Arc<Self>) -> TokenClient {
        let provider = Arc::clone(self);
        Arc::new(move |request: HttpRequest| {
            let provider = Arc::clone(&provider);
            Box::pin(async move {
                provider.asked.lock().push(String::from_utf8(request.into_body()).unwrap());
                provider.gate.acquire().await.unwrap().forget();
                let next = provider.responses.lock().pop_front();
                let (status, text) = next.ok_or_else(|| TokenClientError("nobody there".into()))?;
                Ok(Response::builder().status(status).body(text.into_bytes()).unwrap())
            })
        })
    }

    fn responses(&self, status: u16, text: &str) {
        self.responses.lock().push_back((status, text.to_owned()));
    }

    fn issues(&self, token: &str, refresh: Option<&str>) {
        let refresh = refresh.map(|token| format!(r#","refresh_token":"{token}""#)).unwrap_or_default();
        self.responses(
            200,
            &format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":100{refresh}}}"#),
        );
    }

    fn requests(&self) -> Vec<HashMap<String, String>> {
        let asked = self.asked.lock();
        let fields = |body: &String| url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        asked.iter().map(fields).collect()
    }
}

fn client() -> OauthClient {
    OauthClient {
        client_id: "toolgate".to_owned(),
        token_url: "https://idp.example/token".to_owned(),
        scopes: vec!["read".to_owned(), "write".to_owned()],
        secret_in_body: false,
        parameters: Default::default(),
    }
}

fn client_credential() -> CredentialDocument {
    CredentialDocument { authentication: Authentication::ClientCredentials(client()), ..bearer() }
}

fn user_credential() -> CredentialDocument {
    let authorization_url = "https://idp.example/authorize?tenant=a".to_owned();
    let authentication =
        Authentication::AuthorizationCode { client: client(), authorization_url, issuer: None };
    CredentialDocument { authentication, ..bearer() }
}

async fn fixture() -> (Fixture, Arc<Provider>, Credentials) {
    let (fixture, provider) = (Fixture::new().await, Provider::new());
    let source = RootKeySource::Generated(fixture.path("root"));
    let credentials = fixture.open_for(source, provider.client()).await;
    (fixture, provider, credentials)
}

/// The token of a request of `acme`; `nothing` if it has none.
async fn token_at(credentials: &Credentials, now_ms: u64) -> Result<String, ErrorType> {
    match ask(credentials, "acme", None, now_ms).await {
        Ok(Some(injection)) => Ok(String::from_utf8(injection.secret().expose().to_vec()).unwrap()),
        Ok(None) => Ok("nothing".to_owned()),
        Err(refused) => Err(CallError::from(refused).error_type),
    }
}

/// Connects `stripe` at time 0 with tokens that live for 100 seconds.
async fn connect(provider: &Provider, credentials: &Credentials, refresh: Option<&str>) {
    put(credentials, "stripe", user_credential()).await;
    provider.issues("first-token", refresh);
    let asked = credentials
        .begin_authorization(&name("acme"), &name("stripe"), ("t", "http"), &Default::default(), 0)
        .unwrap();
    let flow = credentials.take_flow(&state_of(&asked.url), None, 1).unwrap();
    credentials.finish_authorization(flow, "code".to_owned(), 0).await.unwrap();
}

fn query_of(url: &str) -> HashMap<String, String> {
    url::Url::parse(url).unwrap().query_pairs().into_owned().collect()
}

fn state_of(url: &str) -> String {
    query_of(url)["state"].clone()
}

#[tokio::test]
async fn k3_concurrent_first_requests_share_one_token_request() {
    let (fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", client_credential()).await;
    assert!(is_connected(&fixture, "acme"));
    assert_eq!(provider.requests().len(), 0);
    provider.issues("first-token", None);
    let many = (0..20).map(|_| {
        let credentials = credentials.clone();
        tokio::spawn(async move { token_at(&credentials, 10).await })
    });
    for asking in many.collect::<Vec<_>>() {
        assert_eq!(asking.await.unwrap().as_deref(), Ok("first-token"));
    }
    let asked = provider.requests();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["grant_type"], "client_credentials");
    assert_eq!(asked[0]["scope"], "read write");
}

#[tokio::test]
async fn k3_a_token_is_refreshed_at_four_fifths_of_its_lifetime_and_survives_a_restart() {
    let (fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", client_credential()).await;
    provider.issues("first-token", None);
    assert_eq!(token_at(&credentials, 0).await.as_deref(), Ok("first-token"));
    assert_eq!(token_at(&credentials, 79_999).await.as_deref(), Ok("first-token"));
    provider.issues("second", None);
    assert_eq!(token_at(&credentials, 80_000).await.as_deref(), Ok("second"));
    assert_eq!(got(&fixture.open().await).await.as_deref(), Ok("second"));
    assert_eq!(provider.requests().len(), 2);
}

#[tokio::test]
async fn k3_a_valid_token_is_used_while_the_provider_is_unavailable() {
    let (_fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", client_credential()).await;
    provider.issues("first-token", None);
    assert_eq!(token_at(&credentials, 0).await.as_deref(), Ok("first-token"));
    assert_eq!(token_at(&credentials, 80_000).await.as_deref(), Ok("first-token"));
    assert_eq!(token_at(&credentials, 96_000).await, Err(ErrorType::ApiUnavailable));
    let asked = provider.requests().len();
    assert_eq!(token_at(&credentials, 97_000).await, Err(ErrorType::ApiUnavailable));
    assert_eq!(provider.requests().len(), asked, "it is left alone for a while");
    provider.issues("second", None);
    assert_eq!(token_at(&credentials, 200_000).await.as_deref(), Ok("second"));
}

#[tokio::test]
async fn k3_a_refusal_of_the_provider_ends_a_credential() {
    for (code, state) in [("invalid_client", "revoked"), ("invalid_grant", "expired")] {
        let (fixture, provider, credentials) = fixture().await;
        connect(&provider, &credentials, Some("r")).await;
        assert!(is_connected(&fixture, "acme"));
        provider.responses(400, &format!(r#"{{"error":"{code}","error_description":"canary"}}"#));
        assert_eq!(token_at(&credentials, 99_000).await, Err(ErrorType::CredentialMissing));
        let known = credentials.find(&name("acme"), &name("stripe")).unwrap();
        assert_eq!(credentials.state(&known, 99_000), state);
        assert!(!is_connected(&fixture, "acme"));
        let known = fixture.open().await.find(&name("acme"), &name("stripe")).unwrap();
        assert_eq!(known.state.as_str(), state);
    }
}

/// O3: a token request without a call is recorded, with its outcome and without secrets.
#[tokio::test]
async fn o3_each_token_request_is_recorded() {
    let (fixture, provider, credentials) = fixture().await;
    connect(&provider, &credentials, Some("canary-refresh")).await;
    provider.issues("second", None);
    assert_eq!(token_at(&credentials, 99_000).await.as_deref(), Ok("second"));
    // The provider is unavailable. During the pause nothing is requested and nothing recorded.
    for now_ms in [198_000, 198_001] {
        assert_eq!(token_at(&credentials, now_ms).await, Err(ErrorType::ApiUnavailable));
    }
    provider.responses(400, r#"{"error":"invalid_grant","error_description":"canary"}"#);
    assert_eq!(token_at(&credentials, 250_000).await, Err(ErrorType::CredentialMissing));
    let query = audit::Query { order: audit::Order::OldestFirst, ..Default::default() };
    let rows = fixture.audit.search(&query).await.unwrap().rows;
    let acts: Vec<_> = rows.into_iter().filter_map(|row| row.admin).collect();
    let outcomes: Vec<_> = acts.iter().map(|act| &*act.outcome).collect();
    assert_eq!(outcomes, ["ok", "API_UNAVAILABLE", "CREDENTIAL_MISSING"]);
    for act in acts {
        assert_eq!(
            (&*act.action, &*act.target, &*act.principal),
            ("credential.renew", "acme/stripe", "toolgate")
        );
        assert_eq!(act.organization.as_deref(), Some("acme"));
        let details = act.details.unwrap();
        assert!(
            details.get().contains(r#""grant_type":"refresh_token","token_url":"https://idp.example/token""#)
        );
        assert!(!details.get().contains("canary"), "{details}");
    }
}

#[tokio::test]
async fn k3_a_pause_ends_when_the_clock_is_set_back() {
    let (_fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", client_credential()).await;
    provider.responses(500, "");
    for now_ms in [900_000, 900_001] {
        assert_eq!(token_at(&credentials, now_ms).await, Err(ErrorType::ApiUnavailable));
    }
    assert_eq!(provider.requests().len(), 1);
    provider.issues("first-token", None);
    assert_eq!(token_at(&credentials, 1_000).await.as_deref(), Ok("first-token"));
}

#[tokio::test]
async fn an_invalid_token_response_is_reported_and_not_quoted() {
    let responses = [
        (200, r#"{"access_token":"canary","token_type":"mac"}"#),
        (200, r#"{"access_token":"canary\r\nX: y","token_type":"Bearer"}"#),
        (500, "canary"),
        (302, ""),
        (400, r#"{"error":"x","error_description":"no canary","access_token":"canary"}"#),
    ];
    for (status, text) in responses {
        let (_fixture, provider, credentials) = fixture().await;
        put(&credentials, "stripe", client_credential()).await;
        provider.responses(status, text);
        let refused = CallError::from(ask(&credentials, "acme", None, 10).await.err().unwrap());
        assert_eq!(refused.error_type, ErrorType::ApiUnavailable, "{text}");
        assert!(!refused.message.contains("canary") && !refused.hint.contains("canary"), "{refused:?}");
        let is_told = refused.message.contains(&format!("its status is {status}"));
        assert_eq!(is_told, ["canary", ""].contains(&text), "{refused:?}");
    }
}

#[tokio::test]
async fn k3_an_invalid_scope_is_named_in_the_error() {
    let (_fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", client_credential()).await;
    provider.responses(400, r#"{"error":"invalid_scope","error_description":"ask for less"}"#);
    let refused = CallError::from(ask(&credentials, "acme", None, 10).await.err().unwrap());
    assert!(
        refused.message.contains("`invalid_scope`") && refused.message.contains("`scopes`"),
        "{refused:?}"
    );
    assert!(refused.message.contains("(ask for less)"), "{refused:?}");
}

#[tokio::test]
async fn k2_a_token_too_short_to_be_redacted_is_not_used() {
    for (token, is_used) in [("abcde", false), ("abcdef", true)] {
        let (_fixture, provider, credentials) = fixture().await;
        put(&credentials, "stripe", client_credential()).await;
        provider.issues(token, None);
        assert_eq!(token_at(&credentials, 0).await.is_ok(), is_used, "{token}");
    }
}

#[tokio::test]
async fn k3_a_lifetime_may_be_text() {
    for (life, renewed) in [(r#""100""#, true), ("100", true), ("null", false)] {
        let (_fixture, provider, credentials) = fixture().await;
        put(&credentials, "stripe", client_credential()).await;
        provider.responses(
            200,
            &format!(r#"{{"access_token":"first-token","token_type":"bearer","expires_in":{life}}}"#),
        );
        assert_eq!(token_at(&credentials, 0).await.as_deref(), Ok("first-token"), "{life}");
        provider.issues("second", None);
        let later = if renewed { "second" } else { "first-token" };
        assert_eq!(token_at(&credentials, 80_000).await.as_deref(), Ok(later), "{life}");
    }
    let (_fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", client_credential()).await;
    provider.responses(200, r#"{"access_token":"first-token","token_type":"bearer","expires_in":"soon"}"#);
    assert_eq!(token_at(&credentials, 0).await.as_deref(), Ok("first-token"));
}

/// The identity of the token of a request of `acme`.
async fn identity_at(credentials: &Credentials, now_ms: u64) -> String {
    ask(credentials, "acme", None, now_ms).await.unwrap().unwrap().identity().to_string()
}

#[tokio::test]
async fn k3_a_rejected_token_is_refreshed_at_most_once_a_minute() {
    let (_fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", client_credential()).await;
    let organization = name("acme");
    let long =
        |token: &str| format!(r#"{{"access_token":"{token}","token_type":"bearer","expires_in":3600}}"#);
    provider.responses(200, &long("first-token"));
    let first = identity_at(&credentials, 1_000).await;
    // Unknown identities, and those of another organization, have no effect.
    assert!(!credentials.report_rejection(&organization, "made-up@1", 2_000));
    assert!(!credentials.report_rejection(&name("rival"), &first, 2_000));
    assert_eq!(identity_at(&credentials, 3_000).await, first);
    assert!(credentials.report_rejection(&organization, &first, 4_000));
    provider.responses(200, &long("second"));
    assert_eq!(token_at(&credentials, 5_000).await.as_deref(), Ok("second"));
    // The API rejects the new token too.
    let second = identity_at(&credentials, 6_000).await;
    assert!(credentials.report_rejection(&organization, &first, 6_000), "another secret is there already");
    assert!(!credentials.report_rejection(&organization, &second, 63_999));
    assert_eq!(token_at(&credentials, 64_000).await.as_deref(), Ok("second"));
    assert_eq!(provider.requests().len(), 2);
    assert!(credentials.report_rejection(&organization, &second, 64_000));
    // The provider is unavailable: the old token stays in use after one request.
    for now_ms in [65_000, 75_000, 85_000] {
        assert_eq!(token_at(&credentials, now_ms).await.as_deref(), Ok("second"));
    }
    assert_eq!(provider.requests().len(), 3);
}

#[tokio::test]
async fn c7_concurrent_rejections_wait_for_one_refresh() {
    let (_fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", client_credential()).await;
    let long =
        |token: &str| format!(r#"{{"access_token":"{token}","token_type":"bearer","expires_in":3600}}"#);
    provider.responses(200, &long("first-token"));
    let first = identity_at(&credentials, 1_000).await;
    for _ in 0..3 {
        assert!(credentials.report_rejection(&name("acme"), &first, 2_000));
    }
    provider.responses(200, &long("second"));
    let asked = || token_at(&credentials, 3_000);
    let tokens = tokio::join!(asked(), asked(), asked());
    let second = Ok("second".to_owned());
    assert_eq!(tokens, (second.clone(), second.clone(), second));
    assert_eq!(provider.requests().len(), 2);
    // A provider that does not respond is asked once for all of them.
    let second = identity_at(&credentials, 63_000).await;
    assert!(credentials.report_rejection(&name("acme"), &second, 63_000));
    let tokens = tokio::join!(asked(), asked());
    assert_eq!(tokens, (Ok("second".to_owned()), Ok("second".to_owned())));
    assert_eq!(provider.requests().len(), 3);
    assert!(!credentials.report_rejection(&name("acme"), &second, 64_000));
}

#[tokio::test]
async fn k3_a_rejection_without_a_refresh_token_has_no_effect() {
    let (_fixture, provider, credentials) = fixture().await;
    connect(&provider, &credentials, None).await;
    let asked = provider.requests().len();
    assert!(!credentials.report_rejection(&name("acme"), &identity_at(&credentials, 1_000).await, 1_000));
    // The credential does not end either.
    for now_ms in [2_000, 3_000] {
        assert_eq!(token_at(&credentials, now_ms).await.as_deref(), Ok("first-token"));
    }
    assert_eq!(provider.requests().len(), asked);
}

#[tokio::test]
async fn k1_the_last_use_is_that_of_a_request_that_got_the_secret() {
    let (_fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", client_credential()).await;
    let last_used_ms = || credentials.find(&name("acme"), &name("stripe")).unwrap().last_used_ms();
    assert_eq!(token_at(&credentials, 10).await, Err(ErrorType::ApiUnavailable));
    assert_eq!(last_used_ms(), None);
    provider.issues("first-token", None);
    assert_eq!(token_at(&credentials, 10_000).await.as_deref(), Ok("first-token"));
    assert_eq!(last_used_ms(), Some(10_000));
}

#[tokio::test]
async fn k3_a_rotated_refresh_token_is_used() {
    let (fixture, provider, credentials) = fixture().await;
    connect(&provider, &credentials, Some("r1")).await;
    provider.issues("second", Some("r2"));
    assert_eq!(token_at(&credentials, 90_000).await.as_deref(), Ok("second"));
    // Without a new one the previous one stays valid.
    provider.issues("third-token", None);
    assert_eq!(token_at(&credentials, 180_000).await.as_deref(), Ok("third-token"));
    provider.issues("fourth", None);
    assert_eq!(token_at(&credentials, 270_000).await.as_deref(), Ok("fourth"));
    let refreshes: Vec<_> =
        provider.requests()[1..].iter().map(|fields| fields["refresh_token"].clone()).collect();
    assert_eq!(refreshes, ["r1", "r2", "r2"]);
    let bytes = fixture.bytes_on_disk();
    for canary in ["fourth", "r2"] {
        let quoted = format!("\"{canary}\"");
        assert!(!bytes.windows(quoted.len()).any(|window| window == quoted.as_bytes()), "{canary}");
    }
}

#[tokio::test]
async fn k3_user_credentials_are_refreshed_in_the_background() {
    let (_fixture, provider, credentials) = fixture().await;
    connect(&provider, &credentials, Some("r1")).await;
    provider.issues("second", None);
    credentials.background_refresh(79_000);
    credentials.background_refresh(90_000);
    credentials.close().await;
    assert_eq!(provider.requests().len(), 2);
    assert_eq!(token_at(&credentials, 95_000).await.as_deref(), Ok("second"));
}

#[tokio::test]
async fn k3_without_a_refresh_token_a_credential_ends_with_its_token() {
    let (fixture, provider, credentials) = fixture().await;
    connect(&provider, &credentials, None).await;
    assert_eq!(token_at(&credentials, 99_999).await.as_deref(), Ok("first-token"));
    assert_eq!(token_at(&credentials, 100_000).await, Err(ErrorType::CredentialMissing));
    credentials.publish_connected(100_000).await;
    assert!(!is_connected(&fixture, "acme"));
}

#[tokio::test]
async fn k3_a_refresh_completes_although_its_call_is_cancelled() {
    let (_fixture, provider, credentials) = fixture().await;
    connect(&provider, &credentials, Some("r1")).await;
    provider.issues("second", Some("r2"));
    let call = call_during_refresh(&provider, &credentials, 99_000).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    provider.gate.add_permits(1);
    credentials.close().await;
    assert_eq!(token_at(&credentials, 99_000).await.as_deref(), Ok("second"));
    // The refresh token, which is used up, was sent once.
    assert_eq!(provider.requests().len(), 2);
}

/// Waits until the provider has received this many requests.
async fn wait_for_requests(provider: &Provider, times: usize) {
    let asked = async {
        while provider.requests().len() < times {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), asked).await.expect("the provider is asked");
}

/// A call that waits for a token. The provider holds back its responses from now on.
async fn call_during_refresh(
    provider: &Provider,
    credentials: &Credentials,
    now_ms: u64,
) -> tokio::task::JoinHandle<Result<String, ErrorType>> {
    let asked = provider.requests().len();
    provider.gate.forget_permits(Semaphore::MAX_PERMITS);
    let credentials = credentials.clone();
    let call = tokio::spawn(async move { token_at(&credentials, now_ms).await });
    wait_for_requests(provider, asked + 1).await;
    call
}

#[tokio::test]
async fn k2_a_credential_that_is_replaced_during_a_refresh_is_sent_only_where_it_is_bound() {
    let elsewhere = |user: Option<&str>| CredentialDocument {
        bound_to: vec![CredentialBinding { host: "evil.example".to_owned(), ..bearer().bound_to[0].clone() }],
        user: user.map(str::to_owned),
        ..bearer()
    };
    let another = CredentialDocument { user: Some("ada".to_owned()), ..bearer() };
    for (replacement, sent) in [
        (elsewhere(None), Ok("nothing")),
        (elsewhere(Some("ada")), Err(ErrorType::CredentialMissing)),
        (another, Err(ErrorType::CredentialMissing)),
        (bearer(), Ok(CANARY)),
    ] {
        let (_fixture, provider, credentials) = fixture().await;
        put(&credentials, "stripe", client_credential()).await;
        provider.issues("first-token", None);
        let call = call_during_refresh(&provider, &credentials, 10).await;
        put(&credentials, "stripe", replacement.clone()).await;
        provider.gate.add_permits(1);
        let got = call.await.unwrap();
        assert_eq!(got.as_deref(), sent.as_deref(), "{replacement:?}");
    }
}

#[tokio::test]
async fn k2_a_request_that_waits_for_a_refresh_chooses_again_after_a_replacement() {
    let (_fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", client_credential()).await;
    provider.issues("first-token", None);
    // The call waits for the lock, not for the provider.
    let refresh_lock =
        Arc::clone(&credentials.find(&name("acme"), &name("stripe")).unwrap().shared.refresh_lock);
    let turn = refresh_lock.lock_owned().await;
    let call = tokio::spawn({
        let credentials = credentials.clone();
        async move { token_at(&credentials, 10).await }
    });
    tokio::task::yield_now().await;
    let bound_to =
        vec![CredentialBinding { host: "evil.example".to_owned(), ..bearer().bound_to[0].clone() }];
    put(&credentials, "stripe", CredentialDocument { bound_to, ..bearer() }).await;
    drop(turn);
    assert_eq!(call.await.unwrap().as_deref(), Ok("nothing"));
    assert_eq!(provider.requests().len(), 0);
}

#[tokio::test]
async fn k3_a_rotation_during_a_refresh_keeps_the_new_tokens() {
    let (_fixture, provider, credentials) = fixture().await;
    connect(&provider, &credentials, Some("r1")).await;
    provider.issues("second", Some("r2"));
    let call = call_during_refresh(&provider, &credentials, 99_000).await;
    let rotating = tokio::spawn({
        let credentials = credentials.clone();
        async move {
            let (organization, called) = (name("acme"), name("stripe"));
            credentials.rotate(&organization, &called, secret("new"), None, &Precondition::Missing, 9).await
        }
    });
    tokio::task::yield_now().await;
    provider.gate.add_permits(2);
    rotating.await.unwrap().unwrap();
    assert_eq!(call.await.unwrap().as_deref(), Ok("second"));
    provider.issues("third-token", None);
    assert_eq!(token_at(&credentials, 190_000).await.as_deref(), Ok("third-token"));
    assert_eq!(provider.requests()[2]["refresh_token"], "r2");
}

#[tokio::test]
async fn k3_the_right_client_secret_recovers_a_revoked_credential() {
    let (_fixture, provider, credentials) = fixture().await;
    connect(&provider, &credentials, Some("r1")).await;
    provider.responses(401, r#"{"error":"invalid_client"}"#);
    assert_eq!(token_at(&credentials, 99_000).await, Err(ErrorType::CredentialMissing));
    let (organization, called) = (name("acme"), name("stripe"));
    let rotated =
        credentials.rotate(&organization, &called, secret("new"), None, &Precondition::Missing, 99_000).await;
    assert_eq!(credentials.state(&rotated.unwrap(), 99_000), "connected");
    provider.issues("second", None);
    assert_eq!(token_at(&credentials, 99_001).await.as_deref(), Ok("second"));
    assert_eq!(provider.requests()[2]["refresh_token"], "r1");
}

#[tokio::test]
async fn k3_a_token_without_a_lifetime_is_refreshed_within_the_hour_and_valid_until_then() {
    let (_fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", client_credential()).await;
    provider.responses(200, r#"{"access_token":"first-token","token_type":"Bearer"}"#);
    assert_eq!(token_at(&credentials, 0).await.as_deref(), Ok("first-token"));
    assert_eq!(token_at(&credentials, 47 * 60_000).await.as_deref(), Ok("first-token"));
    // The provider is unavailable: the old token stays in use.
    assert_eq!(token_at(&credentials, 49 * 60_000).await.as_deref(), Ok("first-token"));
    provider.issues("second", None);
    assert_eq!(token_at(&credentials, 50 * 60_000).await.as_deref(), Ok("second"));
}

#[tokio::test]
async fn k3_unavailable_providers_do_not_block_other_refreshes() {
    let (_fixture, provider, credentials) = fixture().await;
    for number in 0..BACKGROUND_REFRESHES {
        let called = format!("a{number}");
        put(&credentials, &called, user_credential()).await;
        provider.issues("first-token", Some("r"));
        let asked = credentials
            .begin_authorization(&name("acme"), &name(&called), ("t", "http"), &Default::default(), 0)
            .unwrap();
        let flow = credentials.take_flow(&state_of(&asked.url), None, 1).unwrap();
        credentials.finish_authorization(flow, "code".to_owned(), 0).await.unwrap();
    }
    connect(&provider, &credentials, Some("last")).await;
    let before = provider.requests().len();
    // The first ones get no response, so the others come first in the next round.
    credentials.background_refresh(90_000);
    wait_for_requests(&provider, before + BACKGROUND_REFRESHES).await;
    while !credentials.0.tasks.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    provider.issues("second", None);
    credentials.background_refresh(91_000);
    wait_for_requests(&provider, before + BACKGROUND_REFRESHES + 1).await;
    assert_eq!(provider.requests().last().unwrap()["refresh_token"], "last");
}
