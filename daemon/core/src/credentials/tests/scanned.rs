//! The secrets that responses are scanned for: those that the call may use, and no others.

use super::*;

const LOG_PAGE: &str = "https://elsewhere.example/log";

/// The injected secret of a request, and the secrets that its response is scanned for.
async fn secrets(credentials: &Credentials, user: Option<&str>, url: &str) -> (Option<String>, Vec<String>) {
    let text = |injection: &Arc<Injection>| String::from_utf8(injection.secret().expose().to_vec()).unwrap();
    let found = find_secrets(credentials, "acme", user, url, 10).await.unwrap();
    let mut watched: Vec<String> = found.scan_only.iter().map(text).collect();
    watched.sort();
    (found.injection.as_ref().map(text), watched)
}

fn of_user(user: &str) -> CredentialDocument {
    CredentialDocument { user: Some(user.to_owned()), ..bearer() }
}

async fn put_text(credentials: &Credentials, called: &str, document: CredentialDocument, text: &str) {
    put_for(credentials, "acme", called, document, text).await.unwrap();
}

/// K2: independent of hosts and of the injected secret, and over plain HTTP too, where K4 injects none.
#[tokio::test]
async fn k2_every_response_is_scanned_for_the_secrets_of_its_call() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    put_text(&credentials, "stripe", bearer(), "of-acme").await;
    put_text(&credentials, "ann", of_user("ann"), "of-ann").await;
    let both = vec!["of-acme".to_owned(), "of-ann".to_owned()];
    for (url, injected) in [
        ("https://api.stripe.com/v1/charges", Some("of-ann")),
        (LOG_PAGE, None),
        ("http://api.stripe.com/v1/charges", None),
    ] {
        let (injection, watched) = secrets(&credentials, Some("ann"), url).await;
        assert_eq!((injection.as_deref(), watched), (injected, both.clone()), "{url}");
    }
}

#[tokio::test]
async fn k5_secrets_that_the_call_may_not_use_are_not_opened() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    put_text(&credentials, "stripe", bearer(), "of-acme").await;
    put_text(&credentials, "ann", of_user("ann"), "of-ann").await;
    put_text(&credentials, "bob", of_user("bob"), "of-bob").await;
    put_text(&credentials, "own", CredentialDocument { shared: false, ..bearer() }, "not-shared").await;
    put_text(&credentials, "drive", CredentialDocument { provider: "drive".into(), ..bearer() }, "drive")
        .await;
    put_for(&credentials, "rival", "stripe", bearer(), "of-rival").await.unwrap();
    assert_eq!(secrets(&credentials, Some("ann"), LOG_PAGE).await.1, ["of-acme", "of-ann"]);
    assert_eq!(secrets(&credentials, None, LOG_PAGE).await.1, ["not-shared", "of-acme"]);
}

#[tokio::test]
async fn k2_a_scan_counts_as_no_use_and_requests_no_token() {
    let fixture = Fixture::new().await;
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let http: TokenClient = Arc::new(move |_| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Box::pin(async { Err(TokenClientError("nobody there".into())) })
    });
    let credentials = fixture.open_for(RootKeySource::Generated(fixture.path("root")), http).await;
    let client = OauthClient {
        client_id: "toolgate".into(),
        token_url: "https://idp.example/token".into(),
        scopes: Vec::new(),
        secret_in_body: false,
        parameters: Default::default(),
    };
    // A client without a token is not scanned for.
    let client_credential =
        CredentialDocument { authentication: Authentication::ClientCredentials(client), ..bearer() };
    put_text(&credentials, "client", client_credential, "of-client").await;
    put_text(&credentials, "stripe", bearer(), "of-acme").await;
    assert_eq!(secrets(&credentials, None, LOG_PAGE).await, (None, vec!["of-acme".to_owned()]));
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 0);
    for called in ["client", "stripe"] {
        assert_eq!(credentials.find(&name("acme"), &name(called)).unwrap().last_used_ms(), None, "{called}");
    }
}

#[tokio::test]
async fn k1_a_scanned_secret_is_zeroized_after_the_last_request() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    put(&credentials, "stripe", bearer()).await;
    let injection = ask(&credentials, "acme", None, 10).await.unwrap().unwrap();
    let watching = find_secrets(&credentials, "acme", None, LOG_PAGE, 10).await.unwrap();
    assert!(Arc::ptr_eq(&injection, &watching.scan_only[0]));
    let open = Arc::downgrade(&injection);
    drop(injection);
    assert!(open.upgrade().is_some());
    drop(watching);
    assert!(open.upgrade().is_none());
}

#[tokio::test]
async fn k2_a_sealed_store_scans_for_nothing_and_allows_requests_without_a_secret() {
    let fixture = Fixture::new().await;
    put(&fixture.open().await, "stripe", bearer()).await;
    let sealed = fixture.open_with(RootKeySource::File(fixture.path("gone"))).await;
    assert!(sealed.sealed_reason().is_some());
    for url in [LOG_PAGE, "http://api.stripe.com/v1/charges"] {
        assert_eq!(secrets(&sealed, None, url).await, (None, Vec::new()), "{url}");
    }
    assert!(ask(&sealed, "acme", None, 10).await.is_err(), "what needs one does not leave");
}

#[tokio::test]
async fn k4_plain_http_needs_no_credential() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    assert!(ask(&credentials, "acme", None, 10).await.is_err());
    assert_eq!(secrets(&credentials, None, "http://api.stripe.com/").await, (None, Vec::new()));
}

#[tokio::test]
async fn k2_the_limit_of_scanned_secrets_prefers_those_of_the_host() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    let elsewhere =
        CredentialBinding { host: "elsewhere.example".to_owned(), ..bearer().bound_to[0].clone() };
    for number in 0..SCANNED_SECRETS {
        put_text(&credentials, &format!("a{number}"), bearer(), &format!("many-{number}")).await;
    }
    put_text(&credentials, "z", CredentialDocument { bound_to: vec![elsewhere], ..bearer() }, "of-host")
        .await;
    let (_, watched) = secrets(&credentials, None, LOG_PAGE).await;
    assert_eq!(watched.len(), SCANNED_SECRETS);
    assert!(watched.contains(&"of-host".to_owned()), "{watched:?}");
}
