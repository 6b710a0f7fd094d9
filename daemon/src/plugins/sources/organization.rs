//! The registries of organizations, which load plugins for themselves: those that they have a credential for.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::AUTHORIZATION;
use toolgate_admission::CredentialRights;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::network::Target;
use toolgate_sandbox::{HostClient, Injection, InjectionPlace, Secret};

use super::registry::{LoginSource, PluginRegistry, Registries};
use crate::clock::now_ms;
use crate::credentials::{CredentialRequest, Credentials};
use crate::oci::{Login, Reference};

/// The provider of credentials of registries.
const PROVIDER: &str = "oci";

/// Finds the registries of organizations. Cheap to clone.
#[derive(Clone)]
pub struct OrganizationRegistries {
    /// The credentials of all organizations.
    pub credentials: Credentials,
    /// Sends the requests, to public addresses over TLS.
    pub http: HostClient,
    /// Time for getting one plugin.
    pub timeout: Duration,
}

impl OrganizationRegistries {
    /// The registry of a reference, with the organization's login. Fails if the organization has no credential for it.
    pub async fn find(&self, organization: &Name, reference: &Reference) -> Result<Registries, CallError> {
        let host = &reference.host;
        let path = format!("/v2/{}/", reference.repository);
        let target = Target::parse("https", host, &path, "GET")
            .map_err(|error| CallError::new(ErrorType::InvalidRequest, error.message, error.hint))?;
        let providers = [PROVIDER.to_owned()];
        let rights = CredentialRights { providers: &providers, user: None, user_credentials: false };
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
            http: self.http.clone(),
            login: Some(LoginSource::Given(Arc::new(login))),
            timeout: self.timeout,
        }]))
    }
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
