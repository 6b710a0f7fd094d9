//! Builds the header or query parameter that carries a credential in a request.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{AUTHORIZATION, HeaderName};
use toolgate_admission::Unusable;
use toolgate_sandbox::{Injection, InjectionPlace, Secret};
use zeroize::Zeroizing;

use super::document::{Authentication, CredentialDocument};
use super::envelope::SecretFields;
use super::snapshot::Credential;
use super::{CredentialRefusal, unusable};

/// Longest secret in bytes: tokens with claims have some thousands, and servers accept headers of 8 to 16 KiB.
pub const SECRET_BYTES: usize = 12 * 1024;

/// Builds the injection of a credential. `vault_version` is the version of a secret from a vault. The identity differs for
/// every secret, also for a new credential with the name and version of a deleted one.
pub(super) fn injection(
    credential: &Credential,
    fields: SecretFields,
    vault_version: Option<u64>,
) -> Result<Injection, CredentialRefusal> {
    let (label, identity) = match vault_version {
        None => (Arc::clone(&credential.label), Arc::clone(&credential.identity)),
        Some(version) => (
            format!("{}/{version}", credential.label).into(),
            format!("{}/{version}", credential.identity).into(),
        ),
    };
    injection_of(&credential.document, fields, [label, identity])
}

/// Builds the injection of a secret that is not stored, under this name.
pub fn inject(
    document: &CredentialDocument,
    secret: Secret,
    name: Arc<str>,
) -> Result<Injection, CredentialRefusal> {
    let fields = SecretFields { given: Some(secret), ..SecretFields::default() };
    injection_of(document, fields, [Arc::clone(&name), name])
}

fn injection_of(
    document: &CredentialDocument,
    fields: SecretFields,
    [label, identity]: [Arc<str>; 2],
) -> Result<Injection, CredentialRefusal> {
    let missing = || unusable(document, Unusable::Pending);
    let given = || fields.given.ok_or_else(missing);
    let (place, secret, also_hidden) = match &document.authentication {
        Authentication::ApiKeyHeader { header, prefix } => {
            // Validated when the document was stored.
            let name = HeaderName::from_bytes(header.as_bytes()).map_err(|_| missing())?;
            (InjectionPlace::Header { name, prefix: prefix.clone() }, given()?, Vec::new())
        }
        Authentication::ApiKeyQuery { query } => {
            (InjectionPlace::Query { name: query.clone() }, given()?, Vec::new())
        }
        Authentication::Bearer {} => (authorization("Bearer "), given()?, Vec::new()),
        Authentication::Basic { username } => {
            let password = given()?;
            (authorization("Basic "), basic(username, &password), vec![password])
        }
        Authentication::ClientCredentials(_) | Authentication::AuthorizationCode { .. } => {
            (authorization("Bearer "), fields.access_token.ok_or_else(missing)?, Vec::new())
        }
    };
    Ok(Injection::new(label, identity, place, secret, also_hidden))
}

fn authorization(prefix: &str) -> InjectionPlace {
    InjectionPlace::Header { name: AUTHORIZATION, prefix: prefix.to_owned() }
}

/// HTTP basic authentication (RFC 7617, section 2).
fn basic(username: &str, password: &Secret) -> Secret {
    let mut pair = Zeroizing::new(Vec::with_capacity(username.len() + 1 + password.expose().len()));
    pair.extend_from_slice(username.as_bytes());
    pair.push(b':');
    pair.extend_from_slice(password.expose());
    Secret::new(BASE64_STANDARD.encode(&*pair).into_bytes())
}

/// Whether a header or a query can contain a secret as it is: visible ASCII, with spaces only inside. A line break would
/// begin another header.
pub fn is_sendable(secret: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    !secret.is_empty()
        && secret.len() <= SECRET_BYTES
        && secret.iter().all(is_allowed)
        && ![secret.first(), secret.last()].contains(&Some(&b' '))
}
