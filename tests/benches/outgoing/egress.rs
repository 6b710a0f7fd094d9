//! The sandbox's outgoing HTTP in this process, with the daemon's credential store and without a guest.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use toolgate_admission::{CallAccess, CredentialRights, Permitted};
use toolgate_api::grant::{Capabilities, Grant};
use toolgate_api::limits::{Limits, LimitsPatch};
use toolgate_api::name::Name;
use toolgate_audit::{Audit, AuditSettings};
use toolgate_core::credentials::{
    CredentialDocument, CredentialRequest, CredentialSettings, Credentials, NewCredential, RootKeySource,
    token_client,
};
use toolgate_core::registry::Registry;
use toolgate_sandbox::measure::Requests;
use toolgate_sandbox::{
    BeforeEffect, CallContext, CallIdentity, EgressSettings, HostClient, HostClientSettings, Secret,
    Upstreams,
};
use toolgate_state::clock::now_ms;
use toolgate_state::documents::{DocumentKey, Precondition};
use toolgate_state::store::Store;
use toolgate_tests::upstream::TLS_PORT;

use super::server::{BOUND, HOST, Server, bytes_of, url};
use super::{Requester, SECRET, runtime};

/// Calls of one plugin of one organization.
pub struct Calls {
    runtime: Runtime,
    upstreams: Upstreams,
    credentials: Credentials,
    reach: Arc<CallAccess>,
    _folder: TempDir,
}

impl Calls {
    pub fn new(server: &Server) -> Self {
        let (runtime, folder) = (runtime(), tempfile::tempdir().unwrap());
        let settings = EgressSettings { name_servers: vec![server.names.address], ..Default::default() };
        let credentials = runtime.block_on(store(&folder));
        Self {
            upstreams: runtime.block_on(async { Upstreams::new(settings) }),
            credentials,
            reach: Arc::new(reach(server)),
            runtime,
            _folder: folder,
        }
    }

    /// Context of a call, wired like the dispatcher's.
    fn context(&self) -> CallContext {
        let (store, session) = (self.credentials.clone(), Arc::new((acme(), ["stripe".to_owned()])));
        let credentials = toolgate_sandbox::Credentials::new(move |permitted: Permitted| {
            let (store, session) = (store.clone(), Arc::clone(&session));
            async move {
                let (organization, providers) = &*session;
                let rights = CredentialRights {
                    providers,
                    user: None,
                    speaks_for_organization: true,
                    user_credentials: false,
                };
                let wanted = CredentialRequest { organization, rights, target: permitted.target() };
                Ok(store.for_request(&wanted, now_ms()).await?)
            }
        });
        CallContext {
            identity: Arc::new(CallIdentity { organization: "acme".into(), ..CallIdentity::default() }),
            upstreams: Some(self.upstreams.clone()),
            credentials,
            before_effect: BeforeEffect::new(|| async { Ok(()) }),
            ..CallContext::without_capabilities("c1", tokio::time::Instant::now() + Duration::from_secs(600))
        }
    }
}

impl Requester for Calls {
    fn request(&self, connections: usize, of_each: usize, path: &str) {
        let limits = Limits { requests: u64::MAX, egress_bytes: u64::MAX, ..Limits::default() };
        let bytes = bytes_of(path) as u64;
        self.runtime.block_on(async {
            let on_one = |_| {
                let mut requests = Requests::new(&self.context(), &limits, &self.reach, "requests");
                let url = url(path);
                async move {
                    for _ in 0..of_each {
                        assert_eq!(requests.get(&url).await.unwrap(), bytes);
                    }
                }
            };
            (0..connections).map(on_one).collect::<JoinSet<()>>().join_all().await;
        });
    }
}

fn acme() -> Name {
    Name::parse("acme").unwrap()
}

fn reach(server: &Server) -> CallAccess {
    let grant = json!({
        "network": [{"host": HOST, "port": TLS_PORT}], "credentials": ["stripe"],
        "private_networks": [format!("{}/32", server.address)], "extra_ca": [server.authority],
    });
    let grant = Grant::parse(&grant.to_string()).unwrap();
    let asked = Capabilities {
        network: grant.network.clone(),
        credentials: grant.credentials.clone(),
        ..Capabilities::default()
    };
    CallAccess::new(Arc::new(asked), Arc::new(grant))
}

/// Credential store with one credential.
async fn store(folder: &TempDir) -> Credentials {
    let store = Store::open(&folder.path().join("state.db")).await.unwrap();
    store
        .put_document(&DocumentKey::Organization(acme()), "{}", &Precondition::Absent, now_ms())
        .await
        .unwrap();
    let registry = Registry::new(LimitsPatch::default(), Default::default());
    let (audit, _) = Audit::start(&AuditSettings::new(folder.path().join("audit"))).await.unwrap();
    let settings = CredentialSettings {
        audit,
        references: None,
        files: None,
        source: RootKeySource::Generated(folder.path().join("root")),
        http: token_client(HostClient::new(HostClientSettings::default()).unwrap()),
        redirect_url: "http://localhost/v1/oauth/callback".to_owned(),
        client_metadata_url: None,
    };
    let credentials = Credentials::open(store, registry, settings, now_ms()).await.unwrap();
    let document: CredentialDocument = serde_json::from_value(json!({
        "provider": "stripe", "authentication": {"kind": "bearer"}, "user": null, "shared": false,
        "expires_ms": null, "bound_to": [{"host": HOST, "port": TLS_PORT, "path": format!("{BOUND}/")}],
    }))
    .unwrap();
    let new = NewCredential { document, secret: Some(Secret::new(SECRET.into())) };
    credentials
        .put(&acme(), &Name::parse("stripe").unwrap(), new, &Precondition::Absent, now_ms())
        .await
        .unwrap();
    credentials
}
