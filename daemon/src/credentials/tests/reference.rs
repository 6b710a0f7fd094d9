//! Secrets that stay in a vault, which answers what it was told to. `tests/tests/secrets/vault.rs` asks a real one.

use std::sync::Mutex;

use axum::http::Response;

use super::*;

const PLACE: &str = "kv/tenants/acme/stripe#key";
const KEPT_MS: u64 = 60_000;

/// A vault, and the provider of OAuth2 tokens beside it: what they were asked, and what is there now.
struct Elsewhere {
    asked: Mutex<Vec<String>>,
    /// What the vault answers; none where it does not.
    secret: Mutex<Option<(u16, String)>>,
}

impl Elsewhere {
    fn client(self: &Arc<Self>) -> TokenClient {
        let elsewhere = Arc::clone(self);
        Arc::new(move |request| {
            let body = String::from_utf8_lossy(request.body()).into_owned();
            elsewhere.asked.lock().unwrap().push(format!("{}{body}", request.uri().path()));
            let answer = match request.uri().host() {
                Some("vault.example") => elsewhere.secret.lock().unwrap().clone(),
                _ => Some((200, r#"{"access_token":"token-of-client","token_type":"Bearer"}"#.to_owned())),
            };
            Box::pin(async move {
                let (status, text) = answer.ok_or_else(|| TokenClientError("nobody there".into()))?;
                Ok(Response::builder().status(status).body(text.into_bytes()).unwrap())
            })
        })
    }

    fn has(&self, secret: &str, version: u64) {
        let body = serde_json::json!({"data": {"data": {"key": secret}, "metadata": {"version": version}}});
        *self.secret.lock().unwrap() = Some((200, body.to_string()));
    }

    fn says(&self, status: u16) {
        *self.secret.lock().unwrap() = Some((status, "canary".to_owned()));
    }

    fn is_away(&self) {
        *self.secret.lock().unwrap() = None;
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

struct Scene {
    desk: Desk,
    elsewhere: Arc<Elsewhere>,
    credentials: Credentials,
}

impl Scene {
    async fn new() -> Self {
        let desk = Desk::new().await;
        std::fs::write(desk.path("token"), "vault-token").unwrap();
        let elsewhere = Arc::new(Elsewhere { asked: Mutex::default(), secret: Mutex::default() });
        let credentials = open(&desk, &elsewhere, Some("kv/tenants/{organization}/")).await;
        Self { desk, elsewhere, credentials }
    }

    async fn again(&self) -> Credentials {
        open(&self.desk, &self.elsewhere, Some("kv/tenants/{organization}/")).await
    }

    async fn got_at(&self, now_ms: u64) -> Result<String, ErrorType> {
        got_from(&self.credentials, now_ms).await
    }
}

async fn open(desk: &Desk, elsewhere: &Arc<Elsewhere>, prefix: Option<&str>) -> Credentials {
    let vault = Vault {
        http: elsewhere.client(),
        url: "https://vault.example".to_owned(),
        token_file: desk.path("token"),
    };
    let references = prefix.map(|prefix| VaultReferences {
        vault,
        prefix: ReferencePrefix::parse(prefix).unwrap(),
        kept_ms: KEPT_MS,
    });
    let settings = CredentialSettings {
        audit: desk.audit.clone(),
        source: RootKeySource::Made(desk.path("root")),
        references,
        http: elsewhere.client(),
        redirect_url: "http://127.0.0.1:7300/v1/oauth/callback".to_owned(),
    };
    desk.open_set(settings).await
}

async fn got_from(credentials: &Credentials, now_ms: u64) -> Result<String, ErrorType> {
    match ask(credentials, "acme", None, now_ms).await {
        Ok(injection) => Ok(String::from_utf8(injection.unwrap().secret().expose().to_vec()).unwrap()),
        Err(refused) => Err(CallError::from(refused).error_type),
    }
}

fn referring(reference: &str) -> CredentialDocument {
    CredentialDocument { vault: Some(reference.to_owned()), ..bearer() }
}

async fn refer(
    credentials: &Credentials,
    document: CredentialDocument,
) -> Result<Arc<Credential>, CallError> {
    let new = NewCredential { document, secret: None };
    let stored = credentials.put(&name("acme"), &name("stripe"), new, &Precondition::Missing, 5).await;
    stored.map(|(credential, _)| credential)
}

#[tokio::test]
async fn k1_a_secret_is_read_from_the_vault_when_a_request_needs_it_and_once_in_a_while() {
    let scene = Scene::new().await;
    scene.elsewhere.has("first", 1);
    refer(&scene.credentials, referring(PLACE)).await.unwrap();
    assert!(connected(&scene.desk, "acme"));
    assert_eq!(scene.elsewhere.asked(), 0);
    let many = (0..20).map(|_| {
        let credentials = scene.credentials.clone();
        tokio::spawn(async move { got_from(&credentials, 100).await })
    });
    for asking in many.collect::<Vec<_>>() {
        assert_eq!(asking.await.unwrap().as_deref(), Ok("first"));
    }
    assert_eq!(*scene.elsewhere.asked.lock().unwrap(), ["/v1/kv/data/tenants/acme/stripe"]);
    scene.elsewhere.has("second", 2);
    assert_eq!(scene.got_at(99 + KEPT_MS).await.as_deref(), Ok("first"));
    assert_eq!(scene.elsewhere.asked(), 1);
    assert_eq!(scene.got_at(100 + KEPT_MS).await.as_deref(), Ok("second"));
    assert_eq!(scene.elsewhere.asked(), 2);
    // Nothing of it is on the disk, and a restart reads it anew.
    let bytes = scene.desk.bytes_on_disk();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(!holds("second") && holds("tenants/acme/stripe"));
    assert_eq!(got_from(&scene.again().await, 10).await.as_deref(), Ok("second"));
}

#[tokio::test]
async fn k2_another_secret_of_the_vault_shares_no_connection() {
    let scene = Scene::new().await;
    refer(&scene.credentials, referring(PLACE)).await.unwrap();
    let mut labels = Vec::new();
    for (version, now_ms) in [(4, 100), (5, 100 + KEPT_MS)] {
        scene.elsewhere.has("secret", version);
        labels
            .push(ask(&scene.credentials, "acme", None, now_ms).await.unwrap().unwrap().credential().clone());
    }
    assert_eq!(labels.iter().map(|label| &**label).collect::<Vec<_>>(), ["stripe@1/4", "stripe@1/5"]);
}

#[tokio::test]
async fn k1_without_the_vault_a_kept_secret_is_used_to_its_end_and_no_longer() {
    let scene = Scene::new().await;
    scene.elsewhere.has("first", 1);
    refer(&scene.credentials, referring(PLACE)).await.unwrap();
    assert_eq!(scene.got_at(0).await.as_deref(), Ok("first"));
    scene.elsewhere.is_away();
    assert_eq!(scene.got_at(KEPT_MS - 1).await.as_deref(), Ok("first"));
    assert_eq!(scene.got_at(KEPT_MS).await, Err(ErrorType::Unavailable));
    // It is left alone for a moment, and then asked again.
    scene.elsewhere.has("second", 2);
    let asked = scene.elsewhere.asked();
    assert_eq!(scene.got_at(KEPT_MS + 4_999).await, Err(ErrorType::Unavailable));
    assert_eq!(scene.elsewhere.asked(), asked);
    assert_eq!(scene.got_at(KEPT_MS + 5_000).await.as_deref(), Ok("second"));
}

#[tokio::test]
async fn k1_another_reference_is_followed_at_once() {
    let scene = Scene::new().await;
    scene.elsewhere.says(404);
    refer(&scene.credentials, referring(PLACE)).await.unwrap();
    assert_eq!(scene.got_at(10).await, Err(ErrorType::CredentialMissing));
    scene.elsewhere.has("first", 1);
    assert_eq!(scene.got_at(11).await, Err(ErrorType::CredentialMissing));
    refer(&scene.credentials, referring("kv/tenants/acme/other#key")).await.unwrap();
    assert_eq!(scene.got_at(12).await.as_deref(), Ok("first"));
    scene.elsewhere.has("second", 1);
    refer(&scene.credentials, referring(PLACE)).await.unwrap();
    assert_eq!(scene.got_at(13).await.as_deref(), Ok("second"));
    let asked = scene.elsewhere.asked.lock().unwrap().clone();
    let places = ["stripe", "other", "stripe"].map(|place| format!("/v1/kv/data/tenants/acme/{place}"));
    assert_eq!(asked, places);
}

#[tokio::test]
async fn k1_what_the_vault_says_decides_the_error_and_is_not_quoted() {
    let cases = [
        (403, ErrorType::Unavailable),
        (500, ErrorType::Unavailable),
        (503, ErrorType::Unavailable),
        (404, ErrorType::CredentialMissing),
        (200, ErrorType::CredentialMissing),
    ];
    for (status, error_type) in cases {
        let scene = Scene::new().await;
        scene.elsewhere.says(status);
        refer(&scene.credentials, referring(PLACE)).await.unwrap();
        let refused = CallError::from(ask(&scene.credentials, "acme", None, 10).await.err().unwrap());
        assert_eq!(refused.error_type, error_type, "{status}");
        assert!(!refused.message.contains("canary") && refused.message.contains("`stripe`"));
        assert!(!refused.hint.is_empty());
    }
    // A line break would begin another header.
    let scene = Scene::new().await;
    scene.elsewhere.has("canary\r\nX-Other: 1", 1);
    refer(&scene.credentials, referring(PLACE)).await.unwrap();
    assert_eq!(scene.got_at(10).await, Err(ErrorType::CredentialMissing));
    std::fs::remove_file(scene.desk.path("token")).unwrap();
    assert_eq!(scene.got_at(5_010).await, Err(ErrorType::Unavailable));
}

#[tokio::test]
async fn k1_an_organization_refers_to_its_own_places_and_only_where_the_operator_lets_it() {
    let scene = Scene::new().await;
    scene.elsewhere.has("first", 1);
    for reference in ["kv/tenants/rival/stripe#key", "kv/root#key", "kv/tenants/acme/../rival/x#key"] {
        let refused = refer(&scene.credentials, referring(reference)).await.err().unwrap();
        assert_eq!(refused.error_type, ErrorType::InvalidRequest, "{reference}");
        assert_eq!(refused.pointer(), Some("/vault"));
    }
    refer(&scene.credentials, referring(PLACE)).await.unwrap();
    assert_eq!(scene.got_at(10).await.as_deref(), Ok("first"));
    // What the operator took back is not read any more, though it is stored.
    for prefix in [Some("kv/others/{organization}/"), None] {
        let without = open(&scene.desk, &scene.elsewhere, prefix).await;
        let asked = scene.elsewhere.asked();
        assert_eq!(got_from(&without, 10).await, Err(ErrorType::CredentialMissing));
        assert_eq!(scene.elsewhere.asked(), asked);
        assert!(refer(&without, referring(PLACE)).await.is_err());
    }
    let nowhere = open(&scene.desk, &scene.elsewhere, None).await;
    let refused = refer(&nowhere, referring(PLACE)).await.err().unwrap();
    assert!(refused.hint.contains("`credentials.vault_references`"), "{}", refused.hint);
}

#[tokio::test]
async fn k1_a_reference_that_was_changed_in_the_database_is_not_followed() {
    let scene = Scene::new().await;
    scene.elsewhere.has("first", 1);
    refer(&scene.credentials, referring(PLACE)).await.unwrap();
    assert_eq!(got_from(&scene.again().await, 10).await.as_deref(), Ok("first"));
    let changes = [
        "UPDATE credentials SET document = replace(document, 'acme/stripe#key', 'acme/other#key')",
        "UPDATE credentials SET document = replace(document, 'api.stripe.com', 'evil.example')",
    ];
    for change in changes {
        scene.desk.change(change).await;
        let (again, asked) = (scene.again().await, scene.elsewhere.asked());
        let providers = ["stripe".to_owned()];
        for host in ["api.stripe.com", "evil.example"] {
            let rights = CredentialRights { providers: &providers, user: None, user_credentials: true };
            let target = Target::parse("https", host, "/", "GET").unwrap();
            let wanted = Wanted { organization: &name("acme"), rights, target: &target };
            assert!(
                again.for_request(&wanted, 10).await.map_or(true, |found| found.injection.is_none()),
                "{change}"
            );
        }
        assert_eq!(scene.elsewhere.asked(), asked, "{change}");
    }
}

#[tokio::test]
async fn k1_a_sealed_store_follows_no_reference() {
    let scene = Scene::new().await;
    scene.elsewhere.has("first", 1);
    refer(&scene.credentials, referring(PLACE)).await.unwrap();
    let key = std::fs::read(scene.desk.path("root")).unwrap();
    std::fs::remove_file(scene.desk.path("root")).unwrap();
    let again = scene.again().await;
    assert_eq!(got_from(&again, 10).await, Err(ErrorType::Unavailable));
    assert_eq!(refer(&again, referring(PLACE)).await.err().unwrap().error_type, ErrorType::Unavailable);
    assert_eq!(scene.elsewhere.asked(), 0);
    again.unseal(RootKey::from_bytes(&key).unwrap(), 20).await.unwrap();
    assert_eq!(got_from(&again, 30).await.as_deref(), Ok("first"));
}

#[tokio::test]
async fn k1_a_rotation_of_the_root_key_leaves_references_good() {
    let scene = Scene::new().await;
    scene.elsewhere.has("first", 1);
    refer(&scene.credentials, referring(PLACE)).await.unwrap();
    assert_eq!(scene.got_at(10).await.as_deref(), Ok("first"));
    scene.credentials.rotate_root(None, 20).await.unwrap();
    // What was kept is under the key before.
    assert_eq!(scene.got_at(30).await.as_deref(), Ok("first"));
    assert_eq!(scene.elsewhere.asked(), 2);
}

#[tokio::test]
async fn k1_a_secret_in_a_vault_is_rotated_there() {
    let scene = Scene::new().await;
    scene.elsewhere.has("first", 1);
    refer(&scene.credentials, referring(PLACE)).await.unwrap();
    let (acme, stripe) = (name("acme"), name("stripe"));
    let rotate = async || {
        scene.credentials.rotate(&acme, &stripe, secret("new"), None, &Precondition::Missing, 6).await
    };
    let refused = rotate().await.err().unwrap();
    assert_eq!(refused.error_type, ErrorType::Conflict);
    assert!(refused.message.contains("in a vault") && refused.hint.contains("put the new one there"));
    assert_eq!(scene.got_at(10).await.as_deref(), Ok("first"));
    // One that is replaced by a secret of its own is stored here, whatever was read of the other a moment ago.
    put(&scene.credentials, "stripe", bearer()).await;
    assert_eq!(scene.got_at(20).await.as_deref(), Ok(CANARY));
    rotate().await.unwrap();
    assert_eq!(scene.got_at(30).await.as_deref(), Ok("new"));
}

#[tokio::test]
async fn k3_a_clients_secret_in_a_vault_is_read_for_each_token_and_not_stored() {
    let scene = Scene::new().await;
    scene.elsewhere.has("client-secret-canary", 1);
    let client = OauthClient {
        client_id: "toolgate".to_owned(),
        token_url: "https://idp.example/token".to_owned(),
        scopes: Vec::new(),
        secret_in_body: true,
    };
    let authentication = Authentication::ClientCredentials(client);
    let document = CredentialDocument { authentication, ..referring(PLACE) };
    let stored = refer(&scene.credentials, document.clone()).await.unwrap();
    assert_eq!(scene.got_at(10).await.as_deref(), Ok("token-of-client"));
    assert_eq!(scene.got_at(20).await.as_deref(), Ok("token-of-client"));
    let asked = scene.elsewhere.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[1].contains("client_secret=client-secret-canary"), "{asked:?}");
    let renewed = scene.credentials.find(&name("acme"), &name("stripe")).unwrap();
    assert_ne!(renewed.row.version, stored.row.version);
    let shelf = scene.credentials.0.shelf.load_full();
    let Keys::Open(keys) = &shelf.keys else { panic!("sealed") };
    let fields = renewed.open(keys).unwrap_or_else(|error| panic!("{error}"));
    assert!(fields.given.is_none() && fields.access_token.is_some());
    // Without the vault there is no token.
    refer(&scene.credentials, document).await.unwrap();
    scene.elsewhere.is_away();
    assert_eq!(scene.got_at(30).await, Err(ErrorType::Unavailable));
}
