//! Checks of keys that depend on each other.

use toolgate_api::name::Name;
use toolgate_api::token::Role;
use url::Url;

use super::{
    Config, ConfigError, ConsoleSection, CredentialSection, IssuerSection, OauthSection, OidcRoleSection,
    OidcSection, PluginsSection, RegistrySection, Tls,
};

impl Config {
    /// Validates keys that depend on each other.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.errors().into_iter().next().map_or(Ok(()), Err)
    }

    /// The errors of keys that depend on each other.
    pub(super) fn errors(&self) -> Vec<ConfigError> {
        let checks = [
            self.store_path().map(drop),
            self.check_queue(),
            self.check_bodies(),
            self.check_audit(),
            self.plugins.check(),
            self.credentials.check(self.plugins.uses_vault() || self.console.uses_vault()),
            self.console.oidc.as_ref().map_or(Ok(()), OidcSection::check),
            self.check_tls(),
            self.oauth.check(),
            self.check_served("credentials.public_url", self.credentials.public_url.as_deref()),
            self.check_served("oauth.resource", self.oauth.resource.as_deref()),
        ];
        checks.into_iter().filter_map(Result::err).collect()
    }

    fn check_queue(&self) -> Result<(), ConfigError> {
        if self.queue.waiting_per_organization > self.queue.waiting_total {
            return Err(ConfigError::new(
                "`queue.waiting_per_organization` is more than `queue.waiting_total`",
                "one organization could never use its share; raise the total or lower the share",
            ));
        }
        if self.running_per_organization() > self.sandbox.instances {
            return Err(ConfigError::new(
                "`queue.running_per_organization` is more than `sandbox.instances`",
                "one organization could never use its share; raise the instances or lower the share",
            ));
        }
        Ok(())
    }

    fn check_bodies(&self) -> Result<(), ConfigError> {
        if self.http.body_bytes > self.bodies_bytes_per_organization() {
            return Err(ConfigError::new(
                "`http.body_bytes` is more than `http.bodies_bytes_per_organization`",
                "no organization could send a body of that size; raise the share or lower the size",
            ));
        }
        if self.http.plugin_bytes.max(self.bodies_bytes_per_organization()) > self.bodies_bytes() {
            return Err(ConfigError::new(
                "`http.bodies_bytes` is less than `http.plugin_bytes` or `http.bodies_bytes_per_organization`",
                "there would be no room for a body of that size; raise it or lower the others",
            ));
        }
        Ok(())
    }

    fn check_audit(&self) -> Result<(), ConfigError> {
        if self.audit.reserve_bytes > self.audit.segment_bytes / 2 {
            return Err(ConfigError::new(
                "`audit.reserve_bytes` is more than half of `audit.segment_bytes`",
                "the reserve is kept free inside a segment; raise the segment or lower the reserve",
            ));
        }
        Ok(())
    }

    fn check_tls(&self) -> Result<(), ConfigError> {
        let Tls { certificate, key, client_ca, clients } = &self.tls;
        if certificate.is_some() != key.is_some() {
            return Err(ConfigError::new(
                "`tls.certificate` and `tls.key` need each other",
                "give both, or neither to listen without TLS",
            ));
        }
        if certificate.is_none() && client_ca.is_some() || client_ca.is_none() && clients.is_some() {
            return Err(ConfigError::new(
                "`tls.clients` needs `tls.client_ca`, which needs `tls.certificate`",
                "clients show their certificates only within TLS, and only for an authority that the daemon names",
            ));
        }
        if certificate.is_some() || self.insecure_listen || self.listen.is_local() {
            return Ok(());
        }
        Err(ConfigError::new(
            format!("other machines reach `{}`, and there is no TLS", self.listen),
            "set `tls.certificate` and `tls.key`, listen on `127.0.0.1`, or set `insecure_listen = true` if a proxy adds TLS",
        ))
    }

    /// A client that has this URL sends its host.
    fn check_served(&self, key: &str, url: Option<&str>) -> Result<(), ConfigError> {
        let url = url.and_then(|url| Url::parse(url).ok());
        match url.as_ref().and_then(Url::host_str) {
            Some(host) if !self.hosts().iter().any(|served| served == host) => Err(ConfigError::new(
                format!("the host of `{key}` is not in `allowed_hosts`"),
                format!("add `{host}` to `allowed_hosts`, and keep the names that are in use"),
            )),
            _ => Ok(()),
        }
    }
}

impl OauthSection {
    fn check(&self) -> Result<(), ConfigError> {
        let issuers = self.issuers();
        if self.resource.is_some() == issuers.is_empty() || self.scopes.is_some() && issuers.is_empty() {
            return Err(ConfigError::new(
                "`oauth.resource` and `[[oauth.issuers]]` need each other",
                "give both, or neither to accept the daemon's own tokens alone",
            ));
        }
        for (at, IssuerSection { issuer, audience, agent_claim, .. }) in issuers.iter().enumerate() {
            if issuer.is_empty() {
                return Err(ConfigError::new(
                    "an entry of `[[oauth.issuers]]` has no `issuer`",
                    "write the URL that the `iss` of its access tokens is",
                ));
            }
            if issuers[..at].iter().any(|earlier| earlier.issuer == *issuer) {
                return Err(ConfigError::new(
                    format!("`[[oauth.issuers]]` has `{issuer}` twice"),
                    "keep one of the two entries",
                ));
            }
            if audience.as_deref() == Some("") || agent_claim.is_empty() {
                return Err(ConfigError::new(
                    format!("`audience` or `agent_claim` of the issuer `{issuer}` is empty"),
                    "leave it out for the default",
                ));
            }
        }
        Ok(())
    }
}

impl ConsoleSection {
    fn uses_vault(&self) -> bool {
        self.oidc.as_ref().is_some_and(|oidc| oidc.client_secret_vault_kv.is_some())
    }
}

impl OidcSection {
    fn check(&self) -> Result<(), ConfigError> {
        if self.issuer.is_empty()
            || self.client_id.is_empty()
            || self.claim.is_empty()
            || self.roles().is_empty()
        {
            return Err(ConfigError::new(
                "`[console.oidc]` needs `issuer`, `client_id`, `claim` and at least one `[[console.oidc.roles]]`",
                "register the daemon with the provider, and say which value of the claim has which role",
            ));
        }
        if self.client_secret_file.is_some() && self.client_secret_vault_kv.is_some() {
            return Err(ConfigError::new(
                "`client_secret_file` and `client_secret_vault_kv` of `[console.oidc]` exclude each other",
                "keep the one that has the secret",
            ));
        }
        if !self.scopes.iter().any(|scope| scope == "openid") {
            return Err(ConfigError::new(
                "`scopes` of `[console.oidc]` has no `openid`",
                "add it: without it a provider sends no ID token",
            ));
        }
        self.roles().iter().try_for_each(OidcRoleSection::check)
    }
}

impl OidcRoleSection {
    /// The rules of tokens of these roles.
    fn check(&self) -> Result<(), ConfigError> {
        let refuse = |why: &str, hint: &str| {
            Err(ConfigError::new(
                format!("the entry `{}` of `[[console.oidc.roles]]` {why}", self.value),
                hint,
            ))
        };
        let is_operator = match self.role {
            None => return refuse("has no role", "set `role`, like `role = \"approver\"`"),
            Some(role) => role == Role::Operator,
        };
        if self.value.is_empty() {
            return refuse("is for no value", "set `value` to a value of the claim");
        }
        if is_operator == self.organization.is_some() && self.role != Some(Role::Auditor) {
            return match is_operator {
                true => refuse("has an operator with an organization", "leave `organization` out"),
                false => refuse("has no organization", "set `organization`"),
            };
        }
        match &self.agents {
            Some(_) if self.role != Some(Role::Orchestrator) => {
                refuse("has agents", "leave `agents` out: only an `orchestrator` is for single agents")
            }
            Some(agents) if agents.iter().any(|agent| Name::parse(agent).is_err()) => refuse(
                "names an agent that cannot exist",
                "write names like `helper`, without the organization",
            ),
            _ => Ok(()),
        }
    }
}

impl PluginsSection {
    fn uses_vault(&self) -> bool {
        self.registries().iter().any(|registry| registry.password_vault_kv.is_some())
    }

    /// Each registry has a host, once, and a user has one password.
    fn check(&self) -> Result<(), ConfigError> {
        for (at, registry) in self.registries().iter().enumerate() {
            let RegistrySection { host, username, password_file, password_vault_kv, .. } = registry;
            if host.is_empty() {
                return Err(ConfigError::new(
                    "an entry of `[[plugins.registries]]` has no `host`",
                    "name the registry, like `host = \"registry.example.org\"`",
                ));
            }
            if self.registries()[..at].iter().any(|earlier| earlier.host.eq_ignore_ascii_case(host)) {
                return Err(ConfigError::new(
                    format!("`[[plugins.registries]]` has `{host}` twice"),
                    "keep one of the two entries",
                ));
            }
            let passwords = usize::from(password_file.is_some()) + usize::from(password_vault_kv.is_some());
            if passwords != usize::from(username.is_some()) {
                return Err(ConfigError::new(
                    format!(
                        "the registry `{host}` has a user without one password, or a password without a user"
                    ),
                    "set `username` with `password_file` or `password_vault_kv`, or none of them",
                ));
            }
        }
        Ok(())
    }
}

impl CredentialSection {
    /// The root key has one source, and the settings of a vault are complete. `is_read` tells whether another section reads
    /// the vault.
    fn check(&self, is_read: bool) -> Result<(), ConfigError> {
        let vault = [self.vault_kv.is_some(), self.vault_transit.is_some()];
        let sources = [self.root_key_file.is_some(), self.root_key_environment.is_some(), vault[0], vault[1]];
        if sources.into_iter().filter(|is_set| *is_set).count() > 1 {
            return Err(ConfigError::new(
                "`root_key_file`, `root_key_environment`, `vault_kv` and `vault_transit` of `[credentials]` exclude each other",
                "there is one root key: keep one of these keys",
            ));
        }
        let wanted = is_read || vault.contains(&true) || self.vault_references.is_some();
        if [self.vault_url.is_some(), self.vault_token_file.is_some()].contains(&!wanted) {
            return Err(ConfigError::new(
                "the settings of the vault in `[credentials]` are incomplete",
                "set `vault_url`, `vault_token_file`, and at least one of `vault_kv`, `vault_transit`, `vault_references`, `password_vault_kv` of a registry and `client_secret_vault_kv` of `[console.oidc]`",
            ));
        }
        self.check_references()
    }

    /// Otherwise an organization with a matching name could read the root key.
    fn check_references(&self) -> Result<(), ConfigError> {
        let before = self.vault_references.as_deref().and_then(|text| text.split('{').next());
        match (before, &self.vault_kv) {
            (Some(before), Some(root_key)) if root_key.starts_with(before) => Err(ConfigError::new(
                "`vault_kv` of `[credentials]` lies where `vault_references` lets an organization read",
                format!("keep the root key in another mount, or elsewhere than below `{before}`"),
            )),
            _ => Ok(()),
        }
    }
}
