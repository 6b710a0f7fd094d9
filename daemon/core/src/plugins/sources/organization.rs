//! The registries of organizations, which load plugins for themselves: those that they have a credential for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use toolgate_admission::CredentialRights;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::network::Target;
use toolgate_macros::boxed;
use toolgate_sandbox::{HostClient, HostClientSettings, Injection, InjectionPlace, PrivateHosts, Secret};
use toolgate_state::clock::now_ms;

use super::registry::{LoginSource, PluginRegistry, Registries};
use crate::credentials::{CredentialRequest, Credentials};
use crate::oci::{Login, Reference, with_port};

/// The provider of credentials of registries.
const PROVIDER: &str = "oci";

/// Finds the registries of organizations. Cheap to clone.
#[derive(Clone)]
pub struct OrganizationRegistries {
    /// The credentials of all organizations.
    pub credentials: Credentials,
    /// Registries that may have private addresses.
    pub private_hosts: PrivateHosts,
    /// PEM file of certificate authorities that are trusted besides the public ones.
    pub ca_file: Option<PathBuf>,
    /// Time for getting one plugin.
    pub timeout: Duration,
}

#[boxed]
impl OrganizationRegistries {
    /// The registry of a reference, with the organization's login. Fails if the organization has no credential for it.
    pub async fn find(&self, organization: &Name, reference: &Reference) -> Result<Registries, CallError> {
        let host = &reference.host;
        let path = format!("/v2/{}/", reference.repository);
        let target = Target::parse("https", host, &path, "GET")
            .map_err(|error| CallError::new(ErrorType::InvalidRequest, error.message, error.hint))?;
        let providers = [PROVIDER.to_owned()];
        let rights = CredentialRights {
            providers: &providers,
            user: None,
            speaks_for_organization: true,
            user_credentials: false,
        };
        let request = CredentialRequest { organization, rights, target: &target };
        let found = self.credentials.for_request(&request, now_ms()).await?;
        let injection = found.injection.ok_or_else(|| {
            CallError::new(
                ErrorType::CredentialMissing,
                format!("no credential of `{PROVIDER}` of the organization is bound to `{host}`"),
                format!("store one of kind `basic` that is bound to `{host}`"),
            )
        })?;
        let login = login(&injection).ok_or_else(|| {
            CallError::new(
                ErrorType::CredentialMissing,
                format!("the credential of `{PROVIDER}` for `{host}` has no user name"),
                "store one of kind `basic`: registries take a user name with a password or an access token",
            )
        })?;
        Ok(Registries::new(vec![PluginRegistry {
            host: host.clone(),
            plain_http: false,
            http: self.client(host)?,
            login: Some(LoginSource::Given(Arc::new(login))),
            timeout: self.timeout,
        }]))
    }

    /// A client for one registry. The registry chooses redirects and token servers, so that another host may not have a
    /// private address (SSRF).
    fn client(&self, host: &str) -> Result<HostClient, CallError> {
        let settings = HostClientSettings {
            private_hosts: PrivateHosts::new(Vec::from_iter(private_host(&self.private_hosts, host))),
            ca_file: self.ca_file.clone(),
            ..HostClientSettings::default()
        };
        HostClient::new(settings)
            .map_err(|error| CallError::new(ErrorType::Unavailable, error.to_string(), error.hint()))
    }
}

/// The host of a registry with its port, if it may have a private address.
fn private_host(private_hosts: &PrivateHosts, host: &str) -> Option<String> {
    let host = with_port(host, false);
    let (name, port) = host.rsplit_once(':')?;
    private_hosts.has(name, port.parse().ok()?).then_some(host)
}

fn login(injection: &Injection) -> Option<Login> {
    match injection.place() {
        InjectionPlace::Header { name, prefix } if *name == AUTHORIZATION && prefix == "Basic " => {
            let basic = Secret::new(injection.secret().expose().to_vec());
            Some(Login { name: injection.credential().to_string(), basic })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o1_a_registry_reaches_no_other_private_host() {
        let settings =
            ["registry.internal:443", "vault.internal:443", "other.internal:5000"].map(str::to_owned);
        let settings = PrivateHosts::new(settings.into());
        let private = |host: &str| private_host(&settings, host);
        for host in ["registry.internal", "REGISTRY.internal:443", "other.internal:5000"] {
            assert_eq!(private(host), Some(with_port(host, false)));
        }
        for host in ["other.internal", "registry.internal:5000", "registry.example.org"] {
            assert_eq!(private(host), None, "{host}");
        }
    }
}
