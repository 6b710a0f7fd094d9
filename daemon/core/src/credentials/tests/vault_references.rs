//! Secrets in a fake vault. `tests/tests/secrets/vault.rs` uses a real one.

use http::Response;
use parking_lot::Mutex;

use super::*;

const REFERENCE: &str = "kv/tenants/acme/stripe#key";
const KEPT_MS: u64 = 60_000;

/// A fake vault and OAuth2 provider: their received requests, and the secret in the vault.
struct FakeServers {
    asked: Mutex<Vec<String>>,
    /// Status and body of the vault's responses; `None` for no response.
    secret: Mutex<Option<(u16, String)>>,
}

impl FakeServers {
    fn client(self: &Arc<Self>) -> TokenClient {
        let servers = Arc::clone(self);
        Arc::new(move |request| {
            let body = String::from_utf8_lossy(request.body()).into_owned();
            servers.asked.lock().push(format!("{}{body}", request.uri().path()));
            let answer = match request.uri().host() {
                Some("vault.example") => servers.secret.lock().clone(),
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
        *self.secret.lock() = Some((200, body.to_string()));
    }

    fn says(&self, status: u16) {
        *self.secret.lock() = Some((status, "canary".to_owned()));
    }

    fn does_not_respond(&self) {
        *self.secret.lock() = None;
    }

    fn requests(&self) -> usize {
        self.asked.lock().len()
    }
}

struct VaultFixture {
    store: Fixture,
    servers: Arc<FakeServers>,
    credentials: Credentials,
}

impl VaultFixture {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        std::fs::write(fixture.path("token"), "vault-token").unwrap();
        let servers = Arc::new(FakeServers { asked: Mutex::default(), secret: Mutex::default() });
        let credentials = open(&fixture, &servers, Some("kv/tenants/{organization}/")).await;
        Self { store: fixture, servers, credentials }
    }

    async fn again(&self) -> Credentials {
        open(&self.store, &self.servers, Some("kv/tenants/{organization}/")).await
    }

    async fn secret_at(&self, now_ms: u64) -> Result<String, ErrorType> {
        secret_from(&self.credentials, now_ms).await
    }
}

async fn open(fixture: &Fixture, servers: &Arc<FakeServers>, prefix: Option<&str>) -> Credentials {
    let vault = Vault {
        http: servers.client(),
        url: "https://vault.example".to_owned(),
        token_file: fixture.path("token"),
    };
    let references = prefix.map(|prefix| VaultReferences {
        vault,
        prefix: toolgate_state::config::ReferencePrefix::parse(prefix).unwrap(),
        kept_ms: KEPT_MS,
    });
    let settings = CredentialSettings {
        audit: fixture.audit.clone(),
        source: RootKeySource::Generated(fixture.path("root")),
        references,
        files: SecretFolders::parse(&format!("{}/{{organization}}/", fixture.path("secrets").display())),
        http: servers.client(),
        redirect_url: "http://127.0.0.1:7300/v1/oauth/callback".to_owned(),
        client_metadata_url: None,
    };
    fixture.open_set(settings).await
}

async fn secret_from(credentials: &Credentials, now_ms: u64) -> Result<String, ErrorType> {
    match ask(credentials, "acme", None, now_ms).await {
        Ok(injection) => Ok(String::from_utf8(injection.unwrap().secret().expose().to_vec()).unwrap()),
        Err(refused) => Err(CallError::from(refused).error_type),
    }
}

fn referring_to(reference: &str) -> CredentialDocument {
    CredentialDocument { vault: Some(reference.to_owned()), ..bearer() }
}

async fn put_reference(
    credentials: &Credentials,
    document: CredentialDocument,
) -> Result<Arc<Credential>, CallError> {
    let new = NewCredential { document, secret: None };
    let stored = credentials.put(&name("acme"), &name("stripe"), new, &Precondition::Missing, 5).await;
    stored.map(|(credential, _)| credential)
}

#[tokio::test]
async fn k1_a_secret_is_read_from_the_vault_on_use_and_cached() {
    let fixture = VaultFixture::new().await;
    fixture.servers.has("first", 1);
    put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
    assert!(is_connected(&fixture.store, "acme"));
    assert_eq!(fixture.servers.requests(), 0);
    let many = (0..20).map(|_| {
        let credentials = fixture.credentials.clone();
        tokio::spawn(async move { secret_from(&credentials, 100).await })
    });
    for asking in many.collect::<Vec<_>>() {
        assert_eq!(asking.await.unwrap().as_deref(), Ok("first"));
    }
    assert_eq!(*fixture.servers.asked.lock(), ["/v1/kv/data/tenants/acme/stripe"]);
    fixture.servers.has("second", 2);
    assert_eq!(fixture.secret_at(99 + KEPT_MS).await.as_deref(), Ok("first"));
    assert_eq!(fixture.servers.requests(), 1);
    assert_eq!(fixture.secret_at(100 + KEPT_MS).await.as_deref(), Ok("second"));
    assert_eq!(fixture.servers.requests(), 2);
    // The cache is not on disk: a restart reads the vault.
    let bytes = fixture.store.bytes_on_disk();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(!holds("second") && holds("tenants/acme/stripe"));
    assert_eq!(secret_from(&fixture.again().await, 10).await.as_deref(), Ok("second"));
}

#[tokio::test]
async fn k2_each_version_of_a_vault_secret_has_its_own_label() {
    let fixture = VaultFixture::new().await;
    put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
    let mut labels = Vec::new();
    for (version, now_ms) in [(4, 100), (5, 100 + KEPT_MS)] {
        fixture.servers.has("secret", version);
        labels.push(
            ask(&fixture.credentials, "acme", None, now_ms).await.unwrap().unwrap().credential().clone(),
        );
    }
    assert_eq!(labels.iter().map(|label| &**label).collect::<Vec<_>>(), ["stripe@1/4", "stripe@1/5"]);
}

#[tokio::test]
async fn k1_a_cached_secret_expires_also_if_the_vault_is_unavailable() {
    let fixture = VaultFixture::new().await;
    fixture.servers.has("first", 1);
    put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
    assert_eq!(fixture.secret_at(0).await.as_deref(), Ok("first"));
    fixture.servers.does_not_respond();
    assert_eq!(fixture.secret_at(KEPT_MS - 1).await.as_deref(), Ok("first"));
    assert_eq!(fixture.secret_at(KEPT_MS).await, Err(ErrorType::Unavailable));
    // The vault is asked again after a pause.
    fixture.servers.has("second", 2);
    let asked = fixture.servers.requests();
    assert_eq!(fixture.secret_at(KEPT_MS + 4_999).await, Err(ErrorType::Unavailable));
    assert_eq!(fixture.servers.requests(), asked);
    assert_eq!(fixture.secret_at(KEPT_MS + 5_000).await.as_deref(), Ok("second"));
}

#[tokio::test]
async fn k1_a_changed_reference_takes_effect_at_once() {
    let fixture = VaultFixture::new().await;
    fixture.servers.says(404);
    put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
    assert_eq!(fixture.secret_at(10).await, Err(ErrorType::CredentialMissing));
    fixture.servers.has("first", 1);
    assert_eq!(fixture.secret_at(11).await, Err(ErrorType::CredentialMissing));
    put_reference(&fixture.credentials, referring_to("kv/tenants/acme/other#key")).await.unwrap();
    assert_eq!(fixture.secret_at(12).await.as_deref(), Ok("first"));
    fixture.servers.has("second", 1);
    put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
    assert_eq!(fixture.secret_at(13).await.as_deref(), Ok("second"));
    let asked = fixture.servers.asked.lock().clone();
    let places = ["stripe", "other", "stripe"].map(|place| format!("/v1/kv/data/tenants/acme/{place}"));
    assert_eq!(asked, places);
}

#[tokio::test]
async fn k1_the_status_of_the_vault_decides_the_error_and_its_body_is_not_quoted() {
    let cases = [
        (403, ErrorType::Unavailable),
        (500, ErrorType::Unavailable),
        (503, ErrorType::Unavailable),
        (404, ErrorType::CredentialMissing),
        (200, ErrorType::CredentialMissing),
    ];
    for (status, error_type) in cases {
        let fixture = VaultFixture::new().await;
        fixture.servers.says(status);
        put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
        let refused = CallError::from(ask(&fixture.credentials, "acme", None, 10).await.err().unwrap());
        assert_eq!(refused.error_type, error_type, "{status}");
        assert!(!refused.message.contains("canary") && refused.message.contains("`stripe`"));
        assert!(!refused.hint.is_empty());
    }
    // A line break would begin another header.
    let fixture = VaultFixture::new().await;
    fixture.servers.has("canary\r\nX-Other: 1", 1);
    put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
    assert_eq!(fixture.secret_at(10).await, Err(ErrorType::CredentialMissing));
    std::fs::remove_file(fixture.store.path("token")).unwrap();
    assert_eq!(fixture.secret_at(60_000).await, Err(ErrorType::Unavailable));
}

#[tokio::test]
async fn k1_an_organization_may_refer_only_to_paths_below_its_prefix() {
    let fixture = VaultFixture::new().await;
    fixture.servers.has("first", 1);
    for reference in ["kv/tenants/rival/stripe#key", "kv/root#key", "kv/tenants/acme/../rival/x#key"] {
        let refused = put_reference(&fixture.credentials, referring_to(reference)).await.err().unwrap();
        assert_eq!(refused.error_type, ErrorType::InvalidRequest, "{reference}");
        assert_eq!(refused.pointer(), Some("/vault"));
    }
    put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
    assert_eq!(fixture.secret_at(10).await.as_deref(), Ok("first"));
    // A stored reference outside a changed prefix is not read.
    for prefix in [Some("kv/others/{organization}/"), None] {
        let without = open(&fixture.store, &fixture.servers, prefix).await;
        let asked = fixture.servers.requests();
        assert_eq!(secret_from(&without, 10).await, Err(ErrorType::CredentialMissing));
        assert_eq!(fixture.servers.requests(), asked);
        assert!(put_reference(&without, referring_to(REFERENCE)).await.is_err());
    }
    let nowhere = open(&fixture.store, &fixture.servers, None).await;
    let refused = put_reference(&nowhere, referring_to(REFERENCE)).await.err().unwrap();
    assert!(refused.hint.contains("`credentials.vault_references`"), "{}", refused.hint);
}

#[tokio::test]
async fn k1_a_reference_that_was_changed_in_the_database_is_not_followed() {
    let fixture = VaultFixture::new().await;
    fixture.servers.has("first", 1);
    put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
    assert_eq!(secret_from(&fixture.again().await, 10).await.as_deref(), Ok("first"));
    let changes = [
        "UPDATE credentials SET document = replace(document, 'acme/stripe#key', 'acme/other#key')",
        "UPDATE credentials SET document = replace(document, 'api.stripe.com', 'evil.example')",
    ];
    for change in changes {
        fixture.store.change(change).await;
        let (again, asked) = (fixture.again().await, fixture.servers.requests());
        let providers = ["stripe".to_owned()];
        for host in ["api.stripe.com", "evil.example"] {
            let rights = CredentialRights {
                providers: &providers,
                user: None,
                speaks_for_organization: true,
                user_credentials: true,
            };
            let target = Target::parse("https", host, "/", "GET").unwrap();
            let wanted = CredentialRequest { organization: &name("acme"), rights, target: &target };
            assert!(
                again.for_request(&wanted, 10).await.map_or(true, |found| found.injection.is_none()),
                "{change}"
            );
        }
        assert_eq!(fixture.servers.requests(), asked, "{change}");
    }
}

#[tokio::test]
async fn k1_a_sealed_store_reads_no_vault() {
    let fixture = VaultFixture::new().await;
    fixture.servers.has("first", 1);
    put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
    let key = std::fs::read(fixture.store.path("root")).unwrap();
    std::fs::remove_file(fixture.store.path("root")).unwrap();
    let again = fixture.again().await;
    assert_eq!(secret_from(&again, 10).await, Err(ErrorType::Unavailable));
    assert_eq!(
        put_reference(&again, referring_to(REFERENCE)).await.err().unwrap().error_type,
        ErrorType::Unavailable
    );
    assert_eq!(fixture.servers.requests(), 0);
    again.unseal(RootKey::from_bytes(&key).unwrap(), 20).await.unwrap();
    assert_eq!(secret_from(&again, 30).await.as_deref(), Ok("first"));
}

#[tokio::test]
async fn k1_references_work_after_a_rotation_of_the_root_key() {
    let fixture = VaultFixture::new().await;
    fixture.servers.has("first", 1);
    put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
    assert_eq!(fixture.secret_at(10).await.as_deref(), Ok("first"));
    fixture.credentials.rotate_root(None, 20).await.unwrap();
    // The cache is encrypted under the old key.
    assert_eq!(fixture.secret_at(30).await.as_deref(), Ok("first"));
    assert_eq!(fixture.servers.requests(), 2);
}

#[tokio::test]
async fn k1_a_secret_in_a_vault_is_rotated_there() {
    let fixture = VaultFixture::new().await;
    fixture.servers.has("first", 1);
    put_reference(&fixture.credentials, referring_to(REFERENCE)).await.unwrap();
    let (acme, stripe) = (name("acme"), name("stripe"));
    let rotate = async || {
        fixture.credentials.rotate(&acme, &stripe, secret("new"), None, &Precondition::Missing, 6).await
    };
    let refused = rotate().await.err().unwrap();
    assert_eq!(refused.error_type, ErrorType::Conflict);
    assert!(refused.message.contains("in a vault") && refused.hint.contains("change it there"));
    assert_eq!(fixture.secret_at(10).await.as_deref(), Ok("first"));
    // A replacement with a secret ignores the cache.
    put(&fixture.credentials, "stripe", bearer()).await;
    assert_eq!(fixture.secret_at(20).await.as_deref(), Ok(CANARY));
    rotate().await.unwrap();
    assert_eq!(fixture.secret_at(30).await.as_deref(), Ok("new"));
}

#[tokio::test]
async fn k3_a_client_secret_in_a_vault_is_read_for_each_token_request_and_not_stored() {
    let fixture = VaultFixture::new().await;
    fixture.servers.has("client-secret-canary", 1);
    let client = OauthClient {
        client_id: "toolgate".to_owned(),
        token_url: "https://idp.example/token".to_owned(),
        scopes: Vec::new(),
        secret_in_body: true,
        parameters: Default::default(),
    };
    let authentication = Authentication::ClientCredentials(client);
    let document = CredentialDocument { authentication, ..referring_to(REFERENCE) };
    let stored = put_reference(&fixture.credentials, document.clone()).await.unwrap();
    assert_eq!(fixture.secret_at(10).await.as_deref(), Ok("token-of-client"));
    assert_eq!(fixture.secret_at(20).await.as_deref(), Ok("token-of-client"));
    let asked = fixture.servers.asked.lock().clone();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[1].contains("client_secret=client-secret-canary"), "{asked:?}");
    let renewed = fixture.credentials.find(&name("acme"), &name("stripe")).unwrap();
    assert_ne!(renewed.row.version, stored.row.version);
    let snapshot = fixture.credentials.0.snapshot.load_full();
    let Keys::Open(keys) = &snapshot.keys else { panic!("sealed") };
    let fields = renewed.open(keys).unwrap_or_else(|error| panic!("{error}"));
    assert!(fields.given.is_none() && fields.access_token.is_some());
    // Without the vault there is no token.
    put_reference(&fixture.credentials, document).await.unwrap();
    fixture.servers.does_not_respond();
    assert_eq!(fixture.secret_at(30).await, Err(ErrorType::Unavailable));
}

/// K1: a mounted file has the secret, also behind a link within the folder, and is read again when it changed.
#[tokio::test]
async fn k1_a_secret_is_read_from_a_mounted_file_of_the_organization_alone() {
    let fixture = VaultFixture::new().await;
    let folder = fixture.store.path("secrets");
    for organization in ["acme", "other"] {
        std::fs::create_dir_all(folder.join(organization).join("..data")).unwrap();
        std::fs::write(folder.join(organization).join("..data/key"), "first-secret\n").unwrap();
    }
    std::os::unix::fs::symlink("..data/key", folder.join("acme/stripe")).unwrap();
    let in_file = |file: &str| CredentialDocument { file: Some(file.to_owned()), ..bearer() };
    put_reference(&fixture.credentials, in_file("stripe")).await.unwrap();
    assert_eq!(fixture.secret_at(10).await.unwrap(), "first-secret");
    std::fs::write(folder.join("acme/..data/key"), "second-secret").unwrap();
    assert_eq!(fixture.secret_at(11).await.unwrap(), "first-secret", "cached for a second");
    assert_eq!(fixture.secret_at(5_000).await.unwrap(), "second-secret");
    // Out of the folder, and gone: no secret, and no request.
    std::fs::remove_file(folder.join("acme/stripe")).unwrap();
    std::os::unix::fs::symlink("../other/..data/key", folder.join("acme/stripe")).unwrap();
    assert_eq!(fixture.secret_at(20_000).await, Err(ErrorType::CredentialMissing));
    std::fs::remove_file(folder.join("acme/stripe")).unwrap();
    assert_eq!(fixture.secret_at(40_000).await, Err(ErrorType::CredentialMissing));
    std::fs::write(folder.join("acme/stripe"), "third-secret").unwrap();
    assert_eq!(fixture.secret_at(60_000).await.unwrap(), "third-secret");
    assert_eq!(fixture.servers.requests(), 0, "no vault is asked");
    let refused =
        put_reference(&fixture.credentials, in_file("../other/..data/key")).await.map(drop).unwrap_err();
    assert_eq!(refused.error_type, ErrorType::InvalidRequest);
    assert!(refused.hint.contains("below the organization's folder"), "{}", refused.hint);
}
