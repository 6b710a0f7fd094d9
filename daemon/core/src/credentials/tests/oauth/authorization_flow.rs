//! The authorization code flow: the request to the provider, its state, and the bounds of pending flows.

use super::*;

#[tokio::test]
async fn k3_the_authorization_request_has_pkce_and_the_scopes() {
    let (fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", user_credential()).await;
    assert!(!is_connected(&fixture, "acme"));
    assert_eq!(got(&credentials).await, Err(ErrorType::CredentialMissing));
    let asked = credentials
        .begin_authorization(&name("acme"), &name("stripe"), ("t", "http"), &Default::default(), 0)
        .unwrap();
    assert_eq!(asked.scopes, ["read", "write"]);
    let query = query_of(&asked.url);
    assert!(asked.url.starts_with("https://idp.example/authorize?"), "{}", asked.url);
    let told = ["tenant", "response_type", "scope", "code_challenge_method", "redirect_uri"]
        .map(|name| &*query[name]);
    assert_eq!(told, ["a", "code", "read write", "S256", "http://127.0.0.1:7300/v1/oauth/callback"]);
    provider.issues("first-token", Some("r"));
    let flow = credentials.take_flow(&query["state"], None, 1).unwrap();
    credentials.finish_authorization(flow, "code".to_owned(), 0).await.unwrap();
    assert!(is_connected(&fixture, "acme"));
    assert_eq!(token_at(&credentials, 1).await.as_deref(), Ok("first-token"));
    let fields = &provider.requests()[0];
    assert_eq!((&*fields["grant_type"], &*fields["code"]), ("authorization_code", "code"));
    let challenge = audit::sha256(fields["code_verifier"].as_bytes());
    assert_eq!(URL_SAFE_NO_PAD.encode(challenge.0), query["code_challenge"]);
}

#[tokio::test]
async fn k6_further_parameters_are_in_every_request() {
    let (_fixture, provider, credentials) = fixture().await;
    let parameters = [("audience".to_owned(), "https://api.example/".to_owned())];
    let client = OauthClient { parameters: parameters.into(), ..client() };
    let authorization_url = "https://idp.example/authorize".to_owned();
    let authentication = Authentication::AuthorizationCode { client, authorization_url, issuer: None };
    put(&credentials, "stripe", CredentialDocument { authentication, ..bearer() }).await;
    let asked = credentials
        .begin_authorization(&name("acme"), &name("stripe"), ("t", "http"), &Default::default(), 0)
        .unwrap();
    assert_eq!(query_of(&asked.url)["audience"], "https://api.example/");
    provider.issues("first-token", Some("r1"));
    let flow = credentials.take_flow(&state_of(&asked.url), None, 1).unwrap();
    credentials.finish_authorization(flow, "code".to_owned(), 0).await.unwrap();
    provider.issues("second-token", Some(""));
    assert_eq!(token_at(&credentials, 101_000).await.as_deref(), Ok("second-token"));
    let audiences = provider.requests().into_iter().map(|fields| fields["audience"].clone());
    assert_eq!(audiences.collect::<Vec<_>>(), ["https://api.example/"; 2]);
    // An empty refresh token of a response leaves the one before in place.
    provider.issues("third-token", None);
    assert_eq!(token_at(&credentials, 205_000).await.as_deref(), Ok("third-token"));
    assert_eq!(provider.requests()[2]["refresh_token"], "r1");
}

#[tokio::test]
async fn k3_a_client_without_a_secret_has_a_redirect_url_of_its_organization() {
    let (_fixture, provider, credentials) = fixture().await;
    let new = NewCredential { document: user_credential(), secret: None };
    credentials.put(&name("acme"), &name("stripe"), new, &Precondition::Absent, 5).await.unwrap();
    let begin = || {
        credentials
            .begin_authorization(&name("acme"), &name("stripe"), ("t", "http"), &Default::default(), 0)
            .unwrap()
    };
    let own = "http://127.0.0.1:7300/v1/oauth/callback?organization=acme";
    assert_eq!(query_of(&begin().url)["redirect_uri"], own);
    for address_of in [None, Some("rival"), Some("")] {
        let refused = credentials.take_flow(&state_of(&begin().url), address_of, 1).err();
        assert_eq!(refused.map(|error| error.error_type), Some(ErrorType::Expired), "{address_of:?}");
    }
    provider.issues("first-token", Some("r"));
    let flow = credentials.take_flow(&state_of(&begin().url), Some("acme"), 1).unwrap();
    credentials.finish_authorization(flow, "code".to_owned(), 0).await.unwrap();
    assert_eq!(provider.requests()[0]["redirect_uri"], own);
    // A client with a secret uses the common redirect URL only.
    put(&credentials, "stripe", user_credential()).await;
    assert!(credentials.take_flow(&state_of(&begin().url), Some("acme"), 1).is_err());
    assert!(credentials.take_flow(&state_of(&begin().url), None, 1).is_ok());
}

#[tokio::test]
async fn a_state_is_valid_once_for_ten_minutes_and_for_an_unchanged_credential() {
    let (_fixture, provider, credentials) = fixture().await;
    put(&credentials, "stripe", user_credential()).await;
    let ask_at = |now_ms| {
        let asked = credentials
            .begin_authorization(&name("acme"), &name("stripe"), ("t", "http"), &Default::default(), now_ms)
            .unwrap();
        assert_eq!(asked.expires_ms, now_ms + 600_000);
        state_of(&asked.url)
    };
    let gone =
        |state: &str, now_ms| credentials.take_flow(state, None, now_ms).err().map(|error| error.error_type);
    assert_eq!(gone("made-up", 0), Some(ErrorType::Expired));
    let state = ask_at(0);
    assert_eq!(gone(&state, 0), None);
    assert_eq!(gone(&state, 0), Some(ErrorType::Expired));
    assert_eq!(gone(&ask_at(0), 600_000), Some(ErrorType::Expired));
    let (first, second) = (ask_at(0), ask_at(0));
    assert_eq!(gone(&first, 0), Some(ErrorType::Expired), "a later flow replaced it");
    let flow = credentials.take_flow(&second, None, 0).unwrap();
    put(&credentials, "stripe", user_credential()).await;
    let refused = credentials.finish_authorization(flow, "code".to_owned(), 0).await.unwrap_err();
    assert_eq!(refused.error_type, ErrorType::Expired);
    assert_eq!(provider.requests().len(), 0);
}

#[tokio::test]
async fn a_credential_that_needs_no_consent_has_no_authorization_flow() {
    let (_fixture, _provider, credentials) = fixture().await;
    put(&credentials, "stripe", bearer()).await;
    let refused = credentials
        .begin_authorization(&name("acme"), &name("stripe"), ("t", "http"), &Default::default(), 0)
        .unwrap_err();
    assert_eq!(refused.error_type, ErrorType::Conflict);
}

#[tokio::test]
async fn k3_a_flow_ends_when_its_token_is_revoked() {
    let (_fixture, _provider, credentials) = fixture().await;
    put(&credentials, "stripe", user_credential()).await;
    for revoked in [false, true] {
        let token = tokio_util::sync::CancellationToken::new();
        let asked = credentials
            .begin_authorization(&name("acme"), &name("stripe"), ("t", "http"), &token, 0)
            .unwrap();
        if revoked {
            token.cancel();
        }
        assert_eq!(credentials.take_flow(&state_of(&asked.url), None, 1).is_err(), revoked);
    }
}

#[tokio::test]
async fn the_pending_flows_of_one_organization_do_not_block_others() {
    let (_fixture, _provider, credentials) = fixture().await;
    let ask_for = |organization: &'static str, called: String| {
        let credentials = credentials.clone();
        async move {
            put_for(&credentials, organization, &called, user_credential(), CANARY).await.unwrap();
            credentials.begin_authorization(
                &name(organization),
                &name(&called),
                ("t", "http"),
                &Default::default(),
                0,
            )
        }
    };
    for number in 0..100 {
        ask_for("acme", format!("c{number}")).await.unwrap();
    }
    let refused = ask_for("acme", "one-more".to_owned()).await.unwrap_err();
    assert_eq!(refused.error_type, ErrorType::Overloaded);
    ask_for("rival", "first-token".to_owned()).await.unwrap();
}
