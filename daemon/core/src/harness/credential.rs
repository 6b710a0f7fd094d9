//! The credential of calls without a daemon: the author gives its secret, and requests carry it by the rules of a daemon.

use std::sync::Arc;

use toolgate_admission::{CallAccess, CredentialCandidate, CredentialRights, choose_credential};
use toolgate_api::credential::{CredentialRequest, SecretText};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_sandbox::{Credentials, CredentialsForRequest, Injection};

use crate::credentials::{CredentialDocument, NewCredential, inject, new_credential};

/// Name of the credential in the record of requests.
const NAME: &str = "local";

/// A credential with its secret.
pub struct LocalCredential {
    document: CredentialDocument,
    injection: Arc<Injection>,
}

impl std::fmt::Debug for LocalCredential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LocalCredential").field("provider", &self.document.provider).finish()
    }
}

impl LocalCredential {
    /// Validates a credential as `toolgate credential put` takes it, in JSON, with its secret. OAuth2 needs a daemon.
    pub fn parse(json: &str, secret: String) -> Result<Self, CallError> {
        let mut request: CredentialRequest = serde_json::from_str(json).map_err(|error| {
            invalid(&error.to_string(), "write it as for `toolgate credential put`, without its secret")
        })?;
        request.secret = Some(SecretText(secret.into()));
        let NewCredential { document, secret } = new_credential(request, &[])?;
        if document.authentication.client().is_some() {
            return Err(invalid(
                "OAuth2 needs a daemon",
                "give an access token as a credential of kind `bearer`",
            ));
        }
        let secret = secret.ok_or_else(|| invalid("it has no secret", "name it with `--secret-env`"))?;
        let injection = inject(&document, secret, NAME.into())?;
        Ok(Self { document, injection: Arc::new(injection) })
    }
}

fn invalid(why: &str, hint: &str) -> CallError {
    CallError::new(ErrorType::InvalidRequest, format!("the credential is not valid: {why}"), hint)
}

/// The look-up of a call: the credential is added where it is granted and bound to the request, and masked everywhere.
pub(super) fn credentials(given: &Arc<LocalCredential>, access: &CallAccess) -> Credentials {
    let providers: Arc<[String]> = access.credentials().map(str::to_owned).collect();
    let given = Arc::clone(given);
    Credentials::new(move |permitted| {
        let (given, providers) = (Arc::clone(&given), Arc::clone(&providers));
        async move {
            let rights = CredentialRights {
                providers: &providers,
                user: None,
                speaks_for_organization: true,
                user_credentials: false,
            };
            let (owner, document) = (given.document.owner(), &given.document);
            let candidate = CredentialCandidate {
                provider: &document.provider,
                owner: &owner,
                bound_to: &document.bound_to,
                unusable: None,
            };
            let injection = || Arc::clone(&given.injection);
            let chosen = choose_credential(&rights, permitted.target(), &[candidate])?;
            Ok(CredentialsForRequest {
                injection: chosen.map(|_| injection()),
                is_renewable: false,
                scan_only: vec![injection()],
            })
        }
    })
}
