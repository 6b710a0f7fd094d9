//! The registries that plugins may be loaded from: those of the operator's settings, or an organization's own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_macros::boxed;
use toolgate_sandbox::{CaFileError, HostClient, HostClientSettings, PrivateHosts, Secret};
use toolgate_state::config::KvPath;
use toolgate_state::config::RegistrySection;

use crate::credentials::{Vault, read_password};
use crate::oci::{Endpoint, Login, Pulled, Reference, RegistrySession, pull, with_port};

/// Registries by host. None is used unless it is listed. Cheap to clone.
#[derive(Clone, Default)]
pub struct Registries(Arc<ArcSwap<Vec<PluginRegistry>>>);

/// One registry.
pub struct PluginRegistry {
    /// Host with an optional port.
    pub host: String,
    /// Whether it is used without TLS.
    pub plain_http: bool,
    /// Sends the requests to this registry.
    pub http: HostClient,
    /// The login of a private registry.
    pub login: Option<LoginSource>,
    /// Time for getting one plugin.
    pub timeout: Duration,
}

/// The source of a login. A password is read before each load, so that a rotation needs no restart.
pub enum LoginSource {
    /// A user, and a file with the password.
    File(String, PathBuf),
    /// A user, and a field in a vault with the password.
    Vault(String, Vault, KvPath),
    /// A credential.
    Given(Arc<Login>),
}

#[boxed]
impl Registries {
    /// Creates the list.
    pub fn new(registries: Vec<PluginRegistry>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(registries)))
    }

    /// Takes the list of others, from the next load on.
    pub fn replace(&self, others: &Self) {
        self.0.store(others.0.load_full());
    }

    /// The registries of the settings. `vault` is the configured one, if a password is there.
    pub fn of_settings(
        sections: &[RegistrySection],
        vault: Option<&Vault>,
        timeout: Duration,
    ) -> Result<Self, CaFileError> {
        let registries = sections.iter().map(|section| PluginRegistry::of_settings(section, vault, timeout));
        registries.collect::<Result<Vec<_>, _>>().map(Self::new)
    }

    /// Gets a plugin file of at most `limit_bytes`, with its signature. Fails if the registry is not listed.
    pub async fn pull(&self, reference: &Reference, limit_bytes: u64) -> Result<Pulled, CallError> {
        let registries = self.0.load_full();
        let listed = registries.iter().find(|registry| registry.host.eq_ignore_ascii_case(&reference.host));
        let registry = listed.ok_or_else(|| {
            CallError::new(
                ErrorType::InvalidRequest,
                format!("plugins may not be loaded from the registry `{}`", reference.host),
                "the operator lists registries in `[[plugins.registries]]`, with the port as in the reference",
            )
        })?;
        // The deadline covers the password, too: a vault may be slow.
        let pulling = async {
            let mut session = registry.session(reference).await?;
            pull(&mut session, reference, limit_bytes).await
        };
        let pulled = tokio::time::timeout(registry.timeout, pulling).await;
        pulled.unwrap_or_else(|_| {
            Err(CallError::new(
                ErrorType::ApiUnavailable,
                "the registry did not send everything in time",
                "try again later, or ask the operator to raise `plugins.registry_timeout_seconds`",
            ))
        })
    }
}

impl PluginRegistry {
    fn of_settings(
        section: &RegistrySection,
        vault: Option<&Vault>,
        timeout: Duration,
    ) -> Result<Self, CaFileError> {
        let RegistrySection { username, password_file, password_vault_kv, .. } = section;
        let in_file = || Some(LoginSource::File(username.clone()?, password_file.clone()?));
        let in_vault = || {
            let path = KvPath::parse(password_vault_kv.as_deref()?)?;
            Some(LoginSource::Vault(username.clone()?, vault?.clone(), path))
        };
        Ok(Self {
            host: section.host.clone(),
            plain_http: section.plain_http,
            http: http_client(section)?,
            login: in_file().or_else(in_vault),
            timeout,
        })
    }

    async fn session(&self, reference: &Reference) -> Result<RegistrySession, CallError> {
        let login = match &self.login {
            Some(source) => Some(source.read(&self.host).await?),
            None => None,
        };
        let (http, host) = (self.http.clone(), self.host.to_ascii_lowercase());
        let endpoint = Endpoint { http, host, plain_http: self.plain_http, login };
        RegistrySession::new(endpoint, reference, "pull", self.timeout)
    }
}

/// A client that uses plain HTTP and private addresses for the host of the section alone.
fn http_client(section: &RegistrySection) -> Result<HostClient, CaFileError> {
    let host = with_port(&section.host, section.plain_http);
    let list = |is_listed: bool| if is_listed { vec![host.clone()] } else { Vec::new() };
    HostClient::new(HostClientSettings {
        plain_http: list(section.plain_http),
        public_plain_http: section.username.is_none(),
        private_hosts: PrivateHosts::new(list(section.private_network)),
        allow_private: false,
        ca_file: section.ca_file.clone(),
    })
}

impl LoginSource {
    async fn read(&self, host: &str) -> Result<Arc<Login>, CallError> {
        let missing = |why: String| {
            tracing::warn!(host, why, "the password of a registry cannot be read");
            CallError::new(
                ErrorType::CredentialMissing,
                format!("the daemon has no password for the registry `{host}`"),
                "see the daemon's log, and the registry's entry in `[[plugins.registries]]`",
            )
        };
        match self {
            Self::File(username, path) => {
                let password = read_password(path).map_err(|error| missing(error.to_string()))?;
                Ok(Arc::new(Login::new(username, &password)))
            }
            Self::Vault(username, vault, path) => {
                let value = vault.read_kv(path).await.map_err(|error| missing(error.to_string()))?;
                Ok(Arc::new(Login::new(username, &Secret::new(value.text.0.as_bytes().to_vec()))))
            }
            Self::Given(login) => Ok(Arc::clone(login)),
        }
    }
}
