//! What of a secret is put into a request, and where.

use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, HeaderName};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use toolgate_admission::{NoCredential, Unusable};
use toolgate_sandbox::{Injection, InjectionPlace, Secret};
use zeroize::Zeroizing;

use super::CredentialRefusal;
use super::document::Authentication;
use super::fields::SecretFields;
use super::shelf::Credential;

/// Longest secret, in bytes: tokens that carry claims have some thousands, and servers take headers of 8 to 16 KiB.
pub const SECRET_BYTES: usize = 12 * 1024;

/// What this credential puts into a request. `referred` is the version of a secret that lies elsewhere. Another secret has
/// another identity, also where it has the name and the number of one that was removed.
pub(super) fn injection(
    credential: &Credential,
    fields: SecretFields,
    referred: Option<u64>,
) -> Result<Injection, CredentialRefusal> {
    let missing = || {
        let provider = credential.document.provider.clone();
        CredentialRefusal::Missing(NoCredential::Unusable { provider, why: Unusable::Pending })
    };
    let (place, secret, also_hidden) = match &credential.document.authentication {
        Authentication::ApiKeyHeader { header, prefix } => {
            // Looked at when the document was stored.
            let name = HeaderName::from_bytes(header.as_bytes()).map_err(|_| missing())?;
            let place = InjectionPlace::Header { name, prefix: prefix.clone() };
            (place, fields.given.ok_or_else(missing)?, Vec::new())
        }
        Authentication::ApiKeyQuery { query } => {
            (InjectionPlace::Query { name: query.clone() }, fields.given.ok_or_else(missing)?, Vec::new())
        }
        Authentication::Bearer {} => (bearer(), fields.given.ok_or_else(missing)?, Vec::new()),
        Authentication::Basic { username } => {
            let password = fields.given.ok_or_else(missing)?;
            (authorization("Basic "), basic(username, &password), vec![password])
        }
        Authentication::ClientCredentials(_) | Authentication::AuthorizationCode { .. } => {
            (bearer(), fields.access_token.ok_or_else(missing)?, Vec::new())
        }
    };
    let (label, identity) = match referred {
        None => (Arc::clone(&credential.label), Arc::clone(&credential.identity)),
        Some(version) => (
            format!("{}/{version}", credential.label).into(),
            format!("{}/{version}", credential.identity).into(),
        ),
    };
    Ok(Injection::new(label, identity, place, secret, also_hidden))
}

fn bearer() -> InjectionPlace {
    authorization("Bearer ")
}

fn authorization(prefix: &str) -> InjectionPlace {
    InjectionPlace::Header { name: AUTHORIZATION, prefix: prefix.to_owned() }
}

/// RFC 7617, section 2.
fn basic(username: &str, password: &Secret) -> Secret {
    let mut pair = Zeroizing::new(Vec::with_capacity(username.len() + 1 + password.expose().len()));
    pair.extend_from_slice(username.as_bytes());
    pair.push(b':');
    pair.extend_from_slice(password.expose());
    Secret::new(BASE64_STANDARD.encode(&*pair).into_bytes())
}

/// Whether a secret can stand in a header or a query as it is: visible ASCII, with spaces inside at most. A line break
/// would begin another header.
pub fn sendable(secret: &[u8]) -> bool {
    let inside = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    !secret.is_empty()
        && secret.len() <= SECRET_BYTES
        && secret.iter().all(inside)
        && ![secret.first(), secret.last()].contains(&Some(&b' '))
}
