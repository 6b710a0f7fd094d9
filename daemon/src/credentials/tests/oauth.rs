//! OAuth2 against a provider that answers what it was told to. `tests/tests/oauth.rs` asks a real one.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use axum::http::Response;
use oauth2::HttpRequest;
use tokio::sync::Semaphore;

use super::*;
use crate::audit;
use crate::credentials::renew::RENEWALS_AT_ONCE;

/// A provider: what it was asked, and what it answers next.
struct Provider {
    asked: Mutex<Vec<String>>,
    answers: Mutex<VecDeque<(u16, String)>>,
    /// Answers that may leave.
    gate: Semaphore,
}

impl Provider {
    fn new() -> Arc<Self> {
        let gate = Semaphore::new(Semaphore::MAX_PERMITS);
        Arc::new(Self { asked: Mutex::default(), answers: Mutex::default(), gate })
    }

    fn client(self: &Arc<Self>) -> TokenClient {
        let provider = Arc::clone(self);
        Arc::new(move |request: HttpRequest| {
            let provider = Arc::clone(&provider);
            Box::pin(async move {
                provider.asked.lock().unwrap().push(String::from_utf8(request.into_body()).unwrap());
                provider.gate.acquire().await.unwrap().forget();
                let next = provider.answers.lock().unwrap().pop_front();
                let (status, text) = next.ok_or_else(|| TokenClientError("nobody there".into()))?;
                Ok(Response::builder().status(status).body(text.into_bytes()).unwrap())
            })
        })
    }

    fn answers(&self, status: u16, text: &str) {
        self.answers.lock().unwrap().push_back((status, text.to_owned()));
    }

    fn hands_out(&self, token: &str, refresh: Option<&str>) {
        let refresh = refresh.map(|token| format!(r#","refresh_token":"{token}""#)).unwrap_or_default();
        self.answers(
            200,
            &format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":100{refresh}}}"#),
        );
    }

    fn asked(&self) -> Vec<HashMap<String, String>> {
        let asked = self.asked.lock().unwrap();
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
    }
}

fn of_client() -> CredentialDocument {
    CredentialDocument { authentication: Authentication::ClientCredentials(client()), ..bearer() }
}

fn of_person() -> CredentialDocument {
    let authorization_url = "https://idp.example/authorize?tenant=a".to_owned();
    let authentication = Authentication::AuthorizationCode { client: client(), authorization_url };
    CredentialDocument { authentication, ..bearer() }
}

async fn scene() -> (Desk, Arc<Provider>, Credentials) {
    let (desk, provider) = (Desk::new().await, Provider::new());
    let source = RootKeySource::Made(desk.path("root"));
    let credentials = desk.open_for(source, provider.client()).await;
    (desk, provider, credentials)
}

/// The token that a request of `acme` would have; `nothing` where it goes without.
async fn token_at(credentials: &Credentials, now_ms: u64) -> Result<String, ErrorType> {
    match ask(credentials, "acme", None, now_ms).await {
        Ok(Some(injection)) => Ok(String::from_utf8(injection.secret().expose().to_vec()).unwrap()),
        Ok(None) => Ok("nothing".to_owned()),
        Err(refused) => Err(CallError::from(refused).error_type),
    }
}

/// Connects `stripe` at time 0 with tokens that are good for 100 seconds.
async fn connect(provider: &Provider, credentials: &Credentials, refresh: Option<&str>) {
    put(credentials, "stripe", of_person()).await;
    provider.hands_out("first-token", refresh);
    let asked = credentials.connect(&name("acme"), &name("stripe"), "t", &Default::default(), 0).unwrap();
    let awaited = credentials.awaited(&state_of(&asked.url), None, 1).unwrap();
    credentials.finish_connecting(awaited, "code".to_owned(), 0).await.unwrap();
}

fn query_of(url: &str) -> HashMap<String, String> {
    url::Url::parse(url).unwrap().query_pairs().into_owned().collect()
}

fn state_of(url: &str) -> String {
    query_of(url)["state"].clone()
}

#[tokio::test]
async fn k3_a_client_gets_its_token_when_it_is_first_used_and_once_for_many() {
    let (desk, provider, credentials) = scene().await;
    put(&credentials, "stripe", of_client()).await;
    assert!(connected(&desk, "acme"));
    assert_eq!(provider.asked().len(), 0);
    provider.hands_out("first-token", None);
    let many = (0..20).map(|_| {
        let credentials = credentials.clone();
        tokio::spawn(async move { token_at(&credentials, 10).await })
    });
    for asking in many.collect::<Vec<_>>() {
        assert_eq!(asking.await.unwrap().as_deref(), Ok("first-token"));
    }
    let asked = provider.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["grant_type"], "client_credentials");
    assert_eq!(asked[0]["scope"], "read write");
}

#[tokio::test]
async fn k3_a_token_is_renewed_at_four_fifths_of_its_life_and_survives_a_restart() {
    let (desk, provider, credentials) = scene().await;
    put(&credentials, "stripe", of_client()).await;
    provider.hands_out("first-token", None);
    assert_eq!(token_at(&credentials, 0).await.as_deref(), Ok("first-token"));
    assert_eq!(token_at(&credentials, 79_999).await.as_deref(), Ok("first-token"));
    provider.hands_out("second", None);
    assert_eq!(token_at(&credentials, 80_000).await.as_deref(), Ok("second"));
    assert_eq!(got(&desk.open().await).await.as_deref(), Ok("second"));
    assert_eq!(provider.asked().len(), 2);
}

#[tokio::test]
async fn k3_a_provider_that_is_away_costs_nothing_while_the_token_is_good() {
    let (_desk, provider, credentials) = scene().await;
    put(&credentials, "stripe", of_client()).await;
    provider.hands_out("first-token", None);
    assert_eq!(token_at(&credentials, 0).await.as_deref(), Ok("first-token"));
    assert_eq!(token_at(&credentials, 80_000).await.as_deref(), Ok("first-token"));
    assert_eq!(token_at(&credentials, 96_000).await, Err(ErrorType::ApiUnavailable));
    let asked = provider.asked().len();
    assert_eq!(token_at(&credentials, 97_000).await, Err(ErrorType::ApiUnavailable));
    assert_eq!(provider.asked().len(), asked, "it is left alone for a while");
    provider.hands_out("second", None);
    assert_eq!(token_at(&credentials, 200_000).await.as_deref(), Ok("second"));
}

#[tokio::test]
async fn k3_what_the_provider_says_ends_a_credential() {
    for (code, state) in [("invalid_client", "revoked"), ("invalid_grant", "expired")] {
        let (desk, provider, credentials) = scene().await;
        connect(&provider, &credentials, Some("r")).await;
        assert!(connected(&desk, "acme"));
        provider.answers(400, &format!(r#"{{"error":"{code}","error_description":"canary"}}"#));
        assert_eq!(token_at(&credentials, 99_000).await, Err(ErrorType::CredentialMissing));
        let known = credentials.find(&name("acme"), &name("stripe")).unwrap();
        assert_eq!(credentials.state(&known, 99_000), state);
        assert!(!connected(&desk, "acme"));
        let known = desk.open().await.find(&name("acme"), &name("stripe")).unwrap();
        assert_eq!(known.state.as_str(), state);
    }
}

/// O3: that a secret left the house without a call asking is found, with what came of it and nothing that is secret.
#[tokio::test]
async fn o3_each_request_for_tokens_is_recorded() {
    let (desk, provider, credentials) = scene().await;
    connect(&provider, &credentials, Some("canary-refresh")).await;
    provider.hands_out("second", None);
    assert_eq!(token_at(&credentials, 99_000).await.as_deref(), Ok("second"));
    // The provider is away, and left alone for a while: nobody is asked, and nothing recorded.
    for now_ms in [198_000, 198_001] {
        assert_eq!(token_at(&credentials, now_ms).await, Err(ErrorType::ApiUnavailable));
    }
    provider.answers(400, r#"{"error":"invalid_grant","error_description":"canary"}"#);
    assert_eq!(token_at(&credentials, 250_000).await, Err(ErrorType::CredentialMissing));
    let query = audit::Query { order: audit::Order::OldestFirst, ..Default::default() };
    let rows = desk.audit.search(&query).await.unwrap().rows;
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
async fn what_is_no_answer_of_oauth2_is_told_without_quoting_it() {
    let answers = [
        (200, r#"{"access_token":"canary"}"#),
        (200, r#"{"access_token":"canary","token_type":"mac"}"#),
        (200, r#"{"access_token":"canary\r\nX: y","token_type":"Bearer"}"#),
        (500, "canary"),
        (302, ""),
        (400, r#"{"error":"canary"}"#),
    ];
    for (status, text) in answers {
        let (_desk, provider, credentials) = scene().await;
        put(&credentials, "stripe", of_client()).await;
        provider.answers(status, text);
        let refused = CallError::from(ask(&credentials, "acme", None, 10).await.err().unwrap());
        assert_eq!(refused.error_type, ErrorType::ApiUnavailable, "{text}");
        assert!(!refused.message.contains("canary") && !refused.hint.contains("canary"), "{refused:?}");
        let is_told = refused.message.contains(&format!("its status is {status}"));
        assert_eq!(is_told, ["canary", "", r#"{"access_token":"canary"}"#].contains(&text), "{refused:?}");
    }
}

#[tokio::test]
async fn k3_the_scopes_are_named_where_they_are_the_cause() {
    let (_desk, provider, credentials) = scene().await;
    put(&credentials, "stripe", of_client()).await;
    provider.answers(400, r#"{"error":"invalid_scope","error_description":"canary"}"#);
    let refused = CallError::from(ask(&credentials, "acme", None, 10).await.err().unwrap());
    assert!(
        refused.message.contains("`invalid_scope`") && refused.message.contains("`scopes`"),
        "{refused:?}"
    );
    assert!(!refused.message.contains("canary"), "{refused:?}");
}

/// What could not be blanked in answers is not sent (K2).
#[tokio::test]
async fn k2_a_token_too_short_to_be_blanked_is_not_used() {
    for (token, is_used) in [("abcde", false), ("abcdef", true)] {
        let (_desk, provider, credentials) = scene().await;
        put(&credentials, "stripe", of_client()).await;
        provider.hands_out(token, None);
        assert_eq!(token_at(&credentials, 0).await.is_ok(), is_used, "{token}");
    }
}

#[tokio::test]
async fn k3_a_life_may_be_written_as_text() {
    for (life, renewed) in [(r#""100""#, true), ("100", true), ("null", false)] {
        let (_desk, provider, credentials) = scene().await;
        put(&credentials, "stripe", of_client()).await;
        provider.answers(
            200,
            &format!(r#"{{"access_token":"first-token","token_type":"bearer","expires_in":{life}}}"#),
        );
        assert_eq!(token_at(&credentials, 0).await.as_deref(), Ok("first-token"), "{life}");
        provider.hands_out("second", None);
        let later = if renewed { "second" } else { "first-token" };
        assert_eq!(token_at(&credentials, 80_000).await.as_deref(), Ok(later), "{life}");
    }
    let (_desk, provider, credentials) = scene().await;
    put(&credentials, "stripe", of_client()).await;
    provider.answers(200, r#"{"access_token":"first-token","token_type":"bearer","expires_in":"soon"}"#);
    assert_eq!(token_at(&credentials, 0).await, Err(ErrorType::ApiUnavailable));
}

/// The identity of the token that a request of `acme` would have.
async fn identity_at(credentials: &Credentials, now_ms: u64) -> String {
    ask(credentials, "acme", None, now_ms).await.unwrap().unwrap().identity().to_string()
}

#[tokio::test]
async fn k3_a_token_that_an_api_does_not_take_is_renewed_at_most_once_a_minute() {
    let (_desk, provider, credentials) = scene().await;
    put(&credentials, "stripe", of_client()).await;
    let organization = name("acme");
    let long =
        |token: &str| format!(r#"{{"access_token":"{token}","token_type":"bearer","expires_in":3600}}"#);
    provider.answers(200, &long("first-token"));
    let first = identity_at(&credentials, 1_000).await;
    // What is nobody's, or another organization's, renews nothing.
    credentials.refused(&organization, "made-up@1", 2_000);
    credentials.refused(&name("rival"), &first, 2_000);
    assert_eq!(identity_at(&credentials, 3_000).await, first);
    credentials.refused(&organization, &first, 4_000);
    provider.answers(200, &long("second"));
    assert_eq!(token_at(&credentials, 5_000).await.as_deref(), Ok("second"));
    // That one is not taken either.
    let second = identity_at(&credentials, 6_000).await;
    credentials.refused(&organization, &first, 6_000);
    credentials.refused(&organization, &second, 63_999);
    assert_eq!(token_at(&credentials, 64_000).await.as_deref(), Ok("second"));
    assert_eq!(provider.asked().len(), 2);
    credentials.refused(&organization, &second, 64_000);
    // The provider is away: the old one is sent on, and the provider is asked once for it.
    for now_ms in [65_000, 75_000, 85_000] {
        assert_eq!(token_at(&credentials, now_ms).await.as_deref(), Ok("second"));
    }
    assert_eq!(provider.asked().len(), 3);
}

#[tokio::test]
async fn k3_what_cannot_be_renewed_is_not_for_being_refused() {
    let (_desk, provider, credentials) = scene().await;
    connect(&provider, &credentials, None).await;
    let asked = provider.asked().len();
    credentials.refused(&name("acme"), &identity_at(&credentials, 1_000).await, 1_000);
    // Nor is it ended by being asked for what it cannot give.
    for now_ms in [2_000, 3_000] {
        assert_eq!(token_at(&credentials, now_ms).await.as_deref(), Ok("first-token"));
    }
    assert_eq!(provider.asked().len(), asked);
}

#[tokio::test]
async fn k1_a_credential_is_used_when_a_request_has_it_and_not_when_it_is_only_wanted() {
    let (_desk, provider, credentials) = scene().await;
    put(&credentials, "stripe", of_client()).await;
    let last_used_ms = || credentials.find(&name("acme"), &name("stripe")).unwrap().last_used_ms();
    assert_eq!(token_at(&credentials, 10).await, Err(ErrorType::ApiUnavailable));
    assert_eq!(last_used_ms(), None);
    provider.hands_out("first-token", None);
    assert_eq!(token_at(&credentials, 10_000).await.as_deref(), Ok("first-token"));
    assert_eq!(last_used_ms(), Some(10_000));
}

#[tokio::test]
async fn k3_a_person_is_asked_with_pkce_and_for_the_scopes_that_are_told() {
    let (desk, provider, credentials) = scene().await;
    put(&credentials, "stripe", of_person()).await;
    assert!(!connected(&desk, "acme"));
    assert_eq!(got(&credentials).await, Err(ErrorType::CredentialMissing));
    let asked = credentials.connect(&name("acme"), &name("stripe"), "t", &Default::default(), 0).unwrap();
    assert_eq!(asked.scopes, ["read", "write"]);
    let query = query_of(&asked.url);
    assert!(asked.url.starts_with("https://idp.example/authorize?"), "{}", asked.url);
    let told = ["tenant", "response_type", "scope", "code_challenge_method", "redirect_uri"]
        .map(|name| &*query[name]);
    assert_eq!(told, ["a", "code", "read write", "S256", "http://127.0.0.1:7300/v1/oauth/callback"]);
    provider.hands_out("first-token", Some("r"));
    let awaited = credentials.awaited(&query["state"], None, 1).unwrap();
    credentials.finish_connecting(awaited, "code".to_owned(), 0).await.unwrap();
    assert!(connected(&desk, "acme"));
    assert_eq!(token_at(&credentials, 1).await.as_deref(), Ok("first-token"));
    let fields = &provider.asked()[0];
    assert_eq!((&*fields["grant_type"], &*fields["code"]), ("authorization_code", "code"));
    let challenge = oauth2::PkceCodeChallenge::from_code_verifier_sha256(&oauth2::PkceCodeVerifier::new(
        fields["code_verifier"].clone(),
    ));
    assert_eq!(challenge.as_str(), query["code_challenge"]);
}

/// K3: of clients without a secret each organization's has an address of its own to come back to.
#[tokio::test]
async fn k3_an_answer_for_a_client_without_a_secret_comes_back_to_its_organization() {
    let (_desk, provider, credentials) = scene().await;
    let new = NewCredential { document: of_person(), secret: None };
    credentials.put(&name("acme"), &name("stripe"), new, &Precondition::Absent, 5).await.unwrap();
    let asked = || credentials.connect(&name("acme"), &name("stripe"), "t", &Default::default(), 0).unwrap();
    let own = "http://127.0.0.1:7300/v1/oauth/callback?organization=acme";
    assert_eq!(query_of(&asked().url)["redirect_uri"], own);
    for address_of in [None, Some("rival"), Some("")] {
        let refused = credentials.awaited(&state_of(&asked().url), address_of, 1).err();
        assert_eq!(refused.map(|error| error.error_type), Some(ErrorType::Expired), "{address_of:?}");
    }
    provider.hands_out("first-token", Some("r"));
    let awaited = credentials.awaited(&state_of(&asked().url), Some("acme"), 1).unwrap();
    credentials.finish_connecting(awaited, "code".to_owned(), 0).await.unwrap();
    assert_eq!(provider.asked()[0]["redirect_uri"], own);
    // One with a secret comes back to the address of all, and to no other.
    put(&credentials, "stripe", of_person()).await;
    assert!(credentials.awaited(&state_of(&asked().url), Some("acme"), 1).is_err());
    assert!(credentials.awaited(&state_of(&asked().url), None, 1).is_ok());
}

#[tokio::test]
async fn a_state_is_good_once_for_ten_minutes_and_for_the_credential_as_it_was() {
    let (_desk, provider, credentials) = scene().await;
    put(&credentials, "stripe", of_person()).await;
    let ask_at = |now_ms| {
        let asked =
            credentials.connect(&name("acme"), &name("stripe"), "t", &Default::default(), now_ms).unwrap();
        assert_eq!(asked.expires_ms, now_ms + 600_000);
        state_of(&asked.url)
    };
    let gone =
        |state: &str, now_ms| credentials.awaited(state, None, now_ms).err().map(|error| error.error_type);
    assert_eq!(gone("made-up", 0), Some(ErrorType::Expired));
    let state = ask_at(0);
    assert_eq!(gone(&state, 0), None);
    assert_eq!(gone(&state, 0), Some(ErrorType::Expired));
    assert_eq!(gone(&ask_at(0), 600_000), Some(ErrorType::Expired));
    let (first, second) = (ask_at(0), ask_at(0));
    assert_eq!(gone(&first, 0), Some(ErrorType::Expired), "another one was asked for since");
    let awaited = credentials.awaited(&second, None, 0).unwrap();
    put(&credentials, "stripe", of_person()).await;
    let refused = credentials.finish_connecting(awaited, "code".to_owned(), 0).await.unwrap_err();
    assert_eq!(refused.error_type, ErrorType::Expired);
    assert_eq!(provider.asked().len(), 0);
}

#[tokio::test]
async fn k3_a_refresh_token_that_is_replaced_is_used_from_then_on() {
    let (desk, provider, credentials) = scene().await;
    connect(&provider, &credentials, Some("r1")).await;
    provider.hands_out("second", Some("r2"));
    assert_eq!(token_at(&credentials, 90_000).await.as_deref(), Ok("second"));
    // One that is not replaced stays good.
    provider.hands_out("third-token", None);
    assert_eq!(token_at(&credentials, 180_000).await.as_deref(), Ok("third-token"));
    provider.hands_out("fourth", None);
    assert_eq!(token_at(&credentials, 270_000).await.as_deref(), Ok("fourth"));
    let refreshes: Vec<_> =
        provider.asked()[1..].iter().map(|fields| fields["refresh_token"].clone()).collect();
    assert_eq!(refreshes, ["r1", "r2", "r2"]);
    let bytes = desk.bytes_on_disk();
    for canary in ["fourth", "r2"] {
        let quoted = format!("\"{canary}\"");
        assert!(!bytes.windows(quoted.len()).any(|window| window == quoted.as_bytes()), "{canary}");
    }
}

#[tokio::test]
async fn k3_what_a_person_connected_is_renewed_without_being_used() {
    let (_desk, provider, credentials) = scene().await;
    connect(&provider, &credentials, Some("r1")).await;
    provider.hands_out("second", None);
    credentials.renew_due(79_000).await;
    credentials.renew_due(90_000).await;
    credentials.close().await;
    assert_eq!(provider.asked().len(), 2);
    assert_eq!(token_at(&credentials, 95_000).await.as_deref(), Ok("second"));
}

#[tokio::test]
async fn k3_without_a_refresh_token_a_credential_ends_with_its_token() {
    let (desk, provider, credentials) = scene().await;
    connect(&provider, &credentials, None).await;
    assert_eq!(token_at(&credentials, 99_999).await.as_deref(), Ok("first-token"));
    assert_eq!(token_at(&credentials, 100_000).await, Err(ErrorType::CredentialMissing));
    credentials.tell_all(100_000).await;
    assert!(!connected(&desk, "acme"));
}

#[tokio::test]
async fn k3_a_renewal_goes_on_where_the_call_that_needed_it_does_not() {
    let (_desk, provider, credentials) = scene().await;
    connect(&provider, &credentials, Some("r1")).await;
    provider.hands_out("second", Some("r2"));
    let call = held_call(&provider, &credentials, 99_000).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    provider.gate.add_permits(1);
    credentials.close().await;
    assert_eq!(token_at(&credentials, 99_000).await.as_deref(), Ok("second"));
    // By what that call began, and not by asking with a token that is used up.
    assert_eq!(provider.asked().len(), 2);
}

#[tokio::test]
async fn a_key_that_needs_nobody_is_not_connected_by_a_person() {
    let (_desk, _provider, credentials) = scene().await;
    put(&credentials, "stripe", bearer()).await;
    let refused =
        credentials.connect(&name("acme"), &name("stripe"), "t", &Default::default(), 0).unwrap_err();
    assert_eq!(refused.error_type, ErrorType::Conflict);
}

/// Waits until the provider was asked this often.
async fn asked_times(provider: &Provider, times: usize) {
    let asked = async {
        while provider.asked().len() < times {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), asked).await.expect("the provider is asked");
}

/// A call whose token is being fetched, from a provider whose answers wait from now on.
async fn held_call(
    provider: &Provider,
    credentials: &Credentials,
    now_ms: u64,
) -> tokio::task::JoinHandle<Result<String, ErrorType>> {
    let asked = provider.asked().len();
    provider.gate.forget_permits(Semaphore::MAX_PERMITS);
    let credentials = credentials.clone();
    let call = tokio::spawn(async move { token_at(&credentials, now_ms).await });
    asked_times(provider, asked + 1).await;
    call
}

#[tokio::test]
async fn k2_what_is_replaced_during_a_renewal_goes_where_it_is_bound_and_nowhere_else() {
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
        let (_desk, provider, credentials) = scene().await;
        put(&credentials, "stripe", of_client()).await;
        provider.hands_out("first-token", None);
        let call = held_call(&provider, &credentials, 10).await;
        put(&credentials, "stripe", replacement.clone()).await;
        provider.gate.add_permits(1);
        let got = call.await.unwrap();
        assert_eq!(got.as_deref(), sent.as_deref(), "{replacement:?}");
    }
}

#[tokio::test]
async fn k2_what_waits_for_a_renewal_is_chosen_anew_where_the_credential_was_replaced() {
    let (_desk, provider, credentials) = scene().await;
    put(&credentials, "stripe", of_client()).await;
    provider.hands_out("first-token", None);
    // The call waits for its turn, and not for the provider.
    let renewing = Arc::clone(&credentials.find(&name("acme"), &name("stripe")).unwrap().shared.renewing);
    let turn = renewing.lock_owned().await;
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
    assert_eq!(provider.asked().len(), 0);
}

#[tokio::test]
async fn k3_a_secret_that_is_rotated_during_a_renewal_keeps_the_token_that_it_brings() {
    let (_desk, provider, credentials) = scene().await;
    connect(&provider, &credentials, Some("r1")).await;
    provider.hands_out("second", Some("r2"));
    let call = held_call(&provider, &credentials, 99_000).await;
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
    provider.hands_out("third-token", None);
    assert_eq!(token_at(&credentials, 190_000).await.as_deref(), Ok("third-token"));
    assert_eq!(provider.asked()[2]["refresh_token"], "r2");
}

#[tokio::test]
async fn k3_the_right_secret_heals_a_credential_whose_client_was_not_known() {
    let (_desk, provider, credentials) = scene().await;
    connect(&provider, &credentials, Some("r1")).await;
    provider.answers(401, r#"{"error":"invalid_client"}"#);
    assert_eq!(token_at(&credentials, 99_000).await, Err(ErrorType::CredentialMissing));
    let (organization, called) = (name("acme"), name("stripe"));
    let rotated =
        credentials.rotate(&organization, &called, secret("new"), None, &Precondition::Missing, 99_000).await;
    assert_eq!(credentials.state(&rotated.unwrap(), 99_000), "connected");
    provider.hands_out("second", None);
    assert_eq!(token_at(&credentials, 99_001).await.as_deref(), Ok("second"));
    assert_eq!(provider.asked()[2]["refresh_token"], "r1");
}

#[tokio::test]
async fn k3_a_token_of_unsaid_life_is_fetched_anew_within_the_hour_and_good_until_then() {
    let (_desk, provider, credentials) = scene().await;
    put(&credentials, "stripe", of_client()).await;
    provider.answers(200, r#"{"access_token":"first-token","token_type":"Bearer"}"#);
    assert_eq!(token_at(&credentials, 0).await.as_deref(), Ok("first-token"));
    assert_eq!(token_at(&credentials, 47 * 60_000).await.as_deref(), Ok("first-token"));
    // Nobody there: the old one is sent on.
    assert_eq!(token_at(&credentials, 49 * 60_000).await.as_deref(), Ok("first-token"));
    provider.hands_out("second", None);
    assert_eq!(token_at(&credentials, 50 * 60_000).await.as_deref(), Ok("second"));
}

#[tokio::test]
async fn k3_what_a_revoked_token_asked_for_is_not_taken() {
    let (_desk, _provider, credentials) = scene().await;
    put(&credentials, "stripe", of_person()).await;
    for revoked in [false, true] {
        let token = tokio_util::sync::CancellationToken::new();
        let asked = credentials.connect(&name("acme"), &name("stripe"), "t", &token, 0).unwrap();
        if revoked {
            token.cancel();
        }
        assert_eq!(credentials.awaited(&state_of(&asked.url), None, 1).is_err(), revoked);
    }
}

#[tokio::test]
async fn one_organization_that_connects_much_keeps_no_other_from_it() {
    let (_desk, _provider, credentials) = scene().await;
    let ask_for = |organization: &'static str, called: String| {
        let credentials = credentials.clone();
        async move {
            put_for(&credentials, organization, &called, of_person(), CANARY).await.unwrap();
            credentials.connect(&name(organization), &name(&called), "t", &Default::default(), 0)
        }
    };
    for number in 0..100 {
        ask_for("acme", format!("c{number}")).await.unwrap();
    }
    let refused = ask_for("acme", "one-more".to_owned()).await.unwrap_err();
    assert_eq!(refused.error_type, ErrorType::Overloaded);
    ask_for("rival", "first-token".to_owned()).await.unwrap();
}

#[tokio::test]
async fn k3_those_whose_provider_is_away_do_not_keep_others_from_being_renewed() {
    let (_desk, provider, credentials) = scene().await;
    for number in 0..RENEWALS_AT_ONCE {
        let called = format!("a{number}");
        put(&credentials, &called, of_person()).await;
        provider.hands_out("first-token", Some("r"));
        let asked = credentials.connect(&name("acme"), &name(&called), "t", &Default::default(), 0).unwrap();
        let awaited = credentials.awaited(&state_of(&asked.url), None, 1).unwrap();
        credentials.finish_connecting(awaited, "code".to_owned(), 0).await.unwrap();
    }
    connect(&provider, &credentials, Some("last")).await;
    let before = provider.asked().len();
    // Nobody answers the first of them, and then the others have their turn.
    credentials.renew_due(90_000).await;
    asked_times(&provider, before + RENEWALS_AT_ONCE).await;
    while !credentials.0.renewals.is_empty() {
        tokio::task::yield_now().await;
    }
    provider.hands_out("second", None);
    credentials.renew_due(91_000).await;
    asked_times(&provider, before + RENEWALS_AT_ONCE + 1).await;
    assert_eq!(provider.asked().last().unwrap()["refresh_token"], "last");
}
