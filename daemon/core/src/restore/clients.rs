//! The requests that the daemon sends for itself, to vaults, token endpoints, issuers, webhooks and registries, as the settings
//! allow them; and the source of the root key.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolgate_audit::Audit;
use toolgate_sandbox::{HostClient, HostClientSettings};
use toolgate_state::config::{Config, ReferencePrefix, SecretFolders, VaultEngine};
use url::Url;

use super::StartSettings;
use crate::credentials::{
    CredentialSettings, Credentials, RootKeySource, TokenClient, Vault, VaultReferences, token_client,
};
use crate::identity::{AccessTokens, PersonSignIn, SignInConnection};
use crate::plugins::{OrganizationRegistries, Registries};
use crate::webhooks::GrantedHosts;

/// The hosts that the settings grant to webhooks.
pub fn webhook_hosts(config: &Config) -> GrantedHosts {
    let settings = &config.webhooks;
    GrantedHosts {
        hosts: settings.hosts.clone().unwrap_or_default(),
        private_hosts: settings.private_hosts.clone().unwrap_or_default(),
        plain_http: settings.plain_http.clone().unwrap_or_default(),
    }
}

impl StartSettings<'_> {
    pub(super) fn credential_settings(&self, audit: &Audit) -> Result<CredentialSettings> {
        let settings = &self.config.credentials;
        let public_url = settings.public_url.as_deref().map(|url| url.trim_end_matches('/').to_owned());
        let client_metadata_url = public_url.as_ref().map(|url| format!("{url}/v1/oauth/clients"));
        let public_url = &self.public_url;
        Ok(CredentialSettings {
            audit: audit.clone(),
            source: self.root_key_source()?,
            references: self.vault_references()?,
            files: settings.file_references.as_deref().and_then(SecretFolders::parse),
            http: self.token_client(false)?,
            redirect_url: format!("{public_url}/v1/oauth/callback"),
            client_metadata_url,
        })
    }

    /// The configured source of the root key.
    fn root_key_source(&self) -> Result<RootKeySource> {
        let settings = &self.config.credentials;
        let keys = self.folder.subfolder("keys")?;
        let kv = settings.vault_kv.as_deref().map(VaultEngine::kv);
        let wrapped = keys.join("root.wrapped");
        let transit = settings.vault_transit.as_deref().map(|text| VaultEngine::transit(text, wrapped));
        if let Some(engine) = kv.or(transit) {
            let engine = engine
                .context("`credentials.vault_kv` is `MOUNT/PATH#FIELD`, `vault_transit` is `MOUNT/KEY`")?;
            return Ok(RootKeySource::Vault { vault: self.vault()?, engine });
        }
        Ok(match (&settings.root_key_file, &settings.root_key_environment) {
            (Some(path), _) => RootKeySource::File(path.clone()),
            (None, Some(name)) => RootKeySource::of_environment(name),
            (None, None) => match &self.root_key_credential {
                Some(path) => RootKeySource::Credential(path.clone()),
                None => RootKeySource::Generated(keys.join("root")),
            },
        })
    }

    /// The configured vault path of organizations' secrets.
    fn vault_references(&self) -> Result<Option<VaultReferences>> {
        let settings = &self.config.credentials;
        let Some(text) = &settings.vault_references else { return Ok(None) };
        let prefix = ReferencePrefix::parse(text).context(
            "`credentials.vault_references` is `MOUNT/…/{organization}/`: a mount, and the organization between slashes",
        )?;
        Ok(Some(VaultReferences { vault: self.vault()?, prefix, kept_ms: settings.vault_kept_ms }))
    }

    fn vault(&self) -> Result<Vault> {
        let settings = &self.config.credentials;
        Ok(Vault {
            http: self.token_client(true)?,
            url: settings.vault_url.clone().unwrap_or_default(),
            token_file: settings.vault_token_file.clone().unwrap_or_default(),
        })
    }

    /// `allow_private`: a vault may be in a private network, since only the operator configures it.
    fn token_client(&self, allow_private: bool) -> Result<TokenClient> {
        let settings = &self.config.credentials;
        let plain_http = settings.plain_http.clone().unwrap_or_default();
        let private_hosts = self.private_hosts.clone();
        let ca_file = settings.ca_file.clone();
        let settings =
            HostClientSettings { plain_http, private_hosts, allow_private, ca_file, ..Default::default() };
        Ok(token_client(HostClient::new(settings)?))
    }

    /// Starts the task that fetches the keys of issuers.
    pub fn fetch_issuer_keys(
        &self,
        known: Option<AccessTokens>,
        stop: CancellationToken,
    ) -> Result<JoinHandle<()>> {
        let Some(known) = known else { return Ok(tokio::spawn(std::future::ready(()))) };
        let issuers = self.config.oauth.issuers();
        let urls = issuers.iter().flat_map(|issuer| [Some(&issuer.issuer), issuer.jwks_uri.as_ref()]);
        let (http, _) = self.issuer_client(urls.flatten().map(String::as_str))?;
        Ok(tokio::spawn(known.run_background(http, stop)))
    }

    /// The sign-in to the console by OpenID Connect, if the settings have one, with the task that fetches its keys.
    pub fn person_sign_in(&self, stop: CancellationToken) -> Result<(Option<PersonSignIn>, JoinHandle<()>)> {
        let Some(oidc) = self.config.console.oidc.as_ref().filter(|_| self.config.console.enabled) else {
            return Ok((None, tokio::spawn(std::future::ready(()))));
        };
        let (http, plain_http) = self.issuer_client([oidc.issuer.as_str()].into_iter())?;
        let vault = oidc.client_secret_vault_kv.as_ref().map(|_| self.vault()).transpose()?;
        let redirect_url = format!("{}/console/sign-in/callback", self.public_url);
        let connection = SignInConnection { http, plain_http, redirect_url, vault };
        let sign_in = PersonSignIn::new(oidc, connection)
            .context("`[console.oidc]` cannot be used, or the system gives no random bytes")?;
        let fetching = tokio::spawn(sign_in.clone().run_background(stop));
        Ok((Some(sign_in), fetching))
    }

    /// A client for issuers, with the hosts that it uses without TLS. The operator's URLs may lead to this machine and to private
    /// networks.
    fn issuer_client<'a>(&self, urls: impl Iterator<Item = &'a str>) -> Result<(TokenClient, Vec<String>)> {
        let credentials = &self.config.credentials;
        let mut private_hosts = Vec::new();
        let mut plain_http = Vec::new();
        for url in urls.filter_map(|url| Url::parse(url).ok()) {
            let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { continue };
            let hosts = if url.scheme() == "http" { &mut plain_http } else { &mut private_hosts };
            hosts.push(format!("{host}:{port}"));
        }
        let (listed, ca_file) = (plain_http.clone(), credentials.ca_file.clone());
        let private_hosts = self.private_hosts.with(private_hosts);
        let settings = HostClientSettings { plain_http, private_hosts, ca_file, ..Default::default() };
        Ok((token_client(HostClient::new(settings)?), listed))
    }

    /// The registries of the settings.
    pub fn registries(&self) -> Result<Registries> {
        let settings = &self.config.plugins;
        let needs_vault = settings.registries().iter().any(|registry| registry.password_vault_kv.is_some());
        let vault = if needs_vault { Some(self.vault()?) } else { None };
        let timeout = Duration::from_secs(settings.registry_timeout_seconds);
        Ok(Registries::of_settings(settings.registries(), vault.as_ref(), timeout)?)
    }

    /// The registries that organizations have credentials for: at public addresses, or at those of `credentials.private_hosts`.
    pub fn organization_registries(&self, credentials: &Credentials) -> OrganizationRegistries {
        let settings = &self.config.credentials;
        OrganizationRegistries {
            credentials: credentials.clone(),
            private_hosts: self.private_hosts.clone(),
            ca_file: settings.ca_file.clone(),
            timeout: Duration::from_secs(self.config.plugins.registry_timeout_seconds),
        }
    }
}
