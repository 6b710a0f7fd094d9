//! The part of a credential that is not secret: what it is for, and where it may be sent.
//!
//! The document is stored as JSON text, and this text is part of the secret's associated data: after a change of the host in the
//! database row the secret does not decrypt.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolgate_admission::CredentialOwner;
use toolgate_api::credential::CredentialKind;
use toolgate_api::network::CredentialBinding;

/// A credential without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialDocument {
    /// The service, like `stripe`: plugins ask for it and operators grant it by this name.
    pub provider: String,
    pub authentication: Authentication,
    /// The requests that carry it.
    pub bound_to: Vec<CredentialBinding>,
    /// The user that owns it; `None` if the organization owns it.
    pub user: Option<String>,
    /// Whether sessions of users without an own credential of this provider may use the organization's.
    pub shared: bool,
    /// Expiry of a secret that a person entered, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// Path of its secret in a vault, as `MOUNT/PATH#FIELD`; `None` if the secret is stored here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault: Option<String>,
    /// Path of the file with its secret, below the organization's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// How a request carries a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Authentication {
    /// An API key in a header.
    #[serde(rename = "api_key_header")]
    ApiKeyHeader {
        /// The header, in lower case.
        header: String,
        /// Text before the key.
        prefix: String,
    },
    /// An API key in a query parameter.
    #[serde(rename = "api_key_query")]
    ApiKeyQuery { query: String },
    /// `Authorization: Bearer …`.
    #[serde(rename = "bearer")]
    Bearer {},
    /// `Authorization: Basic …`.
    #[serde(rename = "basic")]
    Basic { username: String },
    /// OAuth2 client credentials (RFC 6749, section 4.4).
    #[serde(rename = "oauth2_client_credentials")]
    ClientCredentials(OauthClient),
    /// OAuth2 authorization code with PKCE (RFC 6749, section 4.1; RFC 7636).
    #[serde(rename = "oauth2_authorization_code")]
    AuthorizationCode {
        #[serde(flatten)]
        client: OauthClient,
        /// The authorization endpoint, where the user consents.
        authorization_url: String,
        /// The `iss` that an authorization response must have (RFC 9207).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        issuer: Option<String>,
    },
}

/// A client of an OAuth2 provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OauthClient {
    pub client_id: String,
    /// The token endpoint.
    pub token_url: String,
    pub scopes: Vec<String>,
    /// Whether a token request carries the client secret in its body instead of its header.
    pub secret_in_body: bool,
    /// Further parameters of authorization and token requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

impl CredentialDocument {
    /// Whether the secret is in a vault or a file, and not stored here.
    pub fn is_kept_elsewhere(&self) -> bool {
        self.vault.is_some() || self.file.is_some()
    }

    pub fn owner(&self) -> CredentialOwner {
        match &self.user {
            Some(user) => CredentialOwner::User(user.clone()),
            None => CredentialOwner::Organization { shared: self.shared },
        }
    }
}

impl Authentication {
    /// The `kind` in the HTTP interface.
    pub fn kind(&self) -> CredentialKind {
        match self {
            Self::ApiKeyHeader { .. } | Self::ApiKeyQuery { .. } => CredentialKind::ApiKey,
            Self::Bearer {} => CredentialKind::Bearer,
            Self::Basic { .. } => CredentialKind::Basic,
            Self::ClientCredentials(_) => CredentialKind::ClientCredentials,
            Self::AuthorizationCode { .. } => CredentialKind::AuthorizationCode,
        }
    }

    /// The OAuth2 client; `None` for other kinds.
    pub fn client(&self) -> Option<&OauthClient> {
        match self {
            Self::ClientCredentials(client) | Self::AuthorizationCode { client, .. } => Some(client),
            _ => None,
        }
    }
}
