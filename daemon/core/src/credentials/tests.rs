//! Tests of the credential store: the stored rows, the secrets of requests, and the files on disk.

use std::path::Path;
use std::sync::Arc;

use toolgate_admission::CredentialRights;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::Name;
use toolgate_api::network::{CredentialBinding, NetworkScheme, Target};
use toolgate_audit::AuditSettings;
use toolgate_sandbox::{InjectionPlace, Secret};
use toolgate_state::documents::{DocumentKey, Precondition};

use super::*;

mod discovery;
mod oauth;
mod vault_references;
mod root_key;
mod stored;
mod scanned;

pub(super) const CANARY: &str = "sk_live_canary_7f3a";

/// A store with the organizations `acme` and `rival`. Each `open` is like a start of the daemon.
pub(super) struct Fixture {
    pub folder: tempfile::TempDir,
    pub registry: Registry,
    pub store: Store,
    pub audit: Audit,
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("state.db")).await.unwrap();
        let (audit, _) = Audit::start(&AuditSettings::new(folder.path().join("audit"))).await.unwrap();
        let registry = Registry::new(LimitsPatch::new(), Default::default());
        for organization in ["acme", "rival"] {
            let key = DocumentKey::Organization(name(organization));
            store.put_document(&key, "{}", &Precondition::Absent, 1).await.unwrap();
            registry.put_organization(name(organization), Default::default());
        }
        Self { folder, registry, store, audit }
    }

    pub(super) fn path(&self, file: &str) -> std::path::PathBuf {
        self.folder.path().join(file)
    }

    pub(super) async fn open_with(&self, source: RootKeySource) -> Credentials {
        self.open_for(source, Arc::new(|_| Box::pin(async { Err(TokenClientError("nobody there".into())) })))
            .await
    }

    pub(super) async fn open_for(&self, source: RootKeySource, http: TokenClient) -> Credentials {
        let redirect_url = "http://127.0.0.1:7300/v1/oauth/callback".to_owned();
        let audit = self.audit.clone();
        let client_metadata_url = None;
        let references = None;
        let settings = CredentialSettings {
            audit,
            source,
            references,
            files: None,
            http,
            redirect_url,
            client_metadata_url,
        };
        self.open_set(settings).await
    }

    pub(super) async fn open_set(&self, settings: CredentialSettings) -> Credentials {
        Credentials::open(self.store.clone(), self.registry.clone(), settings, 1).await.unwrap()
    }

    /// With the default source of the root key.
    pub(super) async fn open(&self) -> Credentials {
        self.open_with(RootKeySource::Generated(self.path("root"))).await
    }

    pub(super) async fn change(&self, sql: &'static str) {
        let mut connection = self.store.raw().await;
        sqlx::raw_sql(sql).execute(&mut *connection).await.unwrap();
    }

    pub(super) fn bytes_on_disk(&self) -> Vec<u8> {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let read = |path: &Path| std::fs::read(path).unwrap();
        files
            .map(|file| file.unwrap().path())
            .filter(|path| path.is_file())
            .flat_map(|path| read(&path))
            .collect()
    }
}

pub(super) fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes().to_vec())
}

pub(super) fn bearer() -> CredentialDocument {
    CredentialDocument {
        provider: "stripe".to_owned(),
        authentication: Authentication::Bearer {},
        bound_to: vec![CredentialBinding {
            scheme: NetworkScheme::Https,
            host: "api.stripe.com".to_owned(),
            port: Some(443),
            methods: None,
            path: None,
        }],
        user: None,
        shared: true,
        expires_ms: None,
        vault: None,
        file: None,
    }
}

pub(super) async fn put(credentials: &Credentials, called: &str, document: CredentialDocument) {
    put_for(credentials, "acme", called, document, CANARY).await.unwrap();
}

pub(super) async fn put_for(
    credentials: &Credentials,
    organization: &str,
    called: &str,
    document: CredentialDocument,
    text: &str,
) -> Result<Arc<Credential>, CallError> {
    let new = NewCredential { document, secret: Some(secret(text)) };
    let stored = credentials.put(&name(organization), &name(called), new, &Precondition::Missing, 5).await;
    stored.map(|(credential, _)| credential)
}

pub(super) async fn ask(
    credentials: &Credentials,
    organization: &str,
    user: Option<&str>,
    now_ms: u64,
) -> Result<Option<Arc<Injection>>, CredentialRefusal> {
    find_secrets(credentials, organization, user, "https://api.stripe.com/v1/charges", now_ms)
        .await
        .map(|found| found.injection)
}

/// The secrets for a request to this URL.
pub(super) async fn find_secrets(
    credentials: &Credentials,
    organization: &str,
    user: Option<&str>,
    url: &str,
    now_ms: u64,
) -> Result<CredentialsForRequest, CredentialRefusal> {
    let providers = ["stripe".to_owned()];
    let (scheme, rest) = url.split_once("://").unwrap();
    let (authority, path) = rest.split_at(rest.find('/').unwrap());
    let wanted = CredentialRequest {
        organization: &name(organization),
        rights: CredentialRights {
            providers: &providers,
            user,
            speaks_for_organization: true,
            user_credentials: true,
        },
        target: &Target::parse(scheme, authority, path, "GET").unwrap(),
    };
    credentials.for_request(&wanted, now_ms).await
}

/// The secret of a request of `acme`.
pub(super) async fn got(credentials: &Credentials) -> Result<String, ErrorType> {
    match ask(credentials, "acme", None, 10).await {
        Ok(Some(injection)) => Ok(String::from_utf8(injection.secret().expose().to_vec()).unwrap()),
        Ok(None) => panic!("it goes without"),
        Err(refused) => Err(CallError::from(refused).error_type),
    }
}

pub(super) fn is_connected(fixture: &Fixture, organization: &str) -> bool {
    fixture.registry.snapshot().is_connected_by_credential(&name(organization), "stripe")
}
