//! What a credential is for and where it may go: everything of it that is not secret.
//!
//! It is stored as JSON text, and that very text is bound into the ciphertext of the secret: whoever writes another host
//! into the row has a secret that does not open.

use serde::{Deserialize, Serialize};
use toolgate_admission::{CredentialBinding, CredentialOwner};

/// A credential without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialDocument {
    /// What it is for, like `stripe`: what plugins ask for and operators grant.
    pub provider: String,
    /// How it is shown to the provider.
    pub authentication: Authentication,
    /// The requests that it is put into.
    pub bound_to: Vec<CredentialBinding>,
    /// The user whose it is; none for the organization's.
    pub user: Option<String>,
    /// Whether the organization's serves sessions of a user who has none of this provider.
    pub shared: bool,
    /// When what a person gave is no longer good.
    pub expires_ms: Option<u64>,
    /// Where in a vault its secret is, as `MOUNT/PATH#FIELD`; none where it is stored here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault: Option<String>,
}

/// How a credential is shown to its provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Authentication {
    /// A key in a header of the operator's choice.
    #[serde(rename = "api_key_header")]
    ApiKeyHeader {
        /// The header, in lower case.
        header: String,
        /// What stands before the key.
        prefix: String,
    },
    /// A key in the query.
    #[serde(rename = "api_key_query")]
    ApiKeyQuery {
        /// The parameter.
        query: String,
    },
    /// `Authorization: Bearer …`.
    #[serde(rename = "bearer")]
    Bearer {},
    /// `Authorization: Basic …`.
    #[serde(rename = "basic")]
    Basic {
        /// The user's name.
        username: String,
    },
    /// OAuth2 client credentials (RFC 6749, section 4.4).
    #[serde(rename = "oauth2_client_credentials")]
    ClientCredentials(OauthClient),
    /// OAuth2 authorization code with PKCE (RFC 6749, section 4.1; RFC 7636).
    #[serde(rename = "oauth2_authorization_code")]
    AuthorizationCode {
        /// The client.
        #[serde(flatten)]
        client: OauthClient,
        /// Where the person says yes.
        authorization_url: String,
    },
}

/// A client of an OAuth2 provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OauthClient {
    /// Its id.
    pub client_id: String,
    /// Where tokens are to be had.
    pub token_url: String,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// Whether the client's secret goes into the body of a request for a token and not into its header.
    pub secret_in_body: bool,
}

impl CredentialDocument {
    /// Whose it is.
    pub fn owner(&self) -> CredentialOwner {
        match &self.user {
            Some(user) => CredentialOwner::User(user.clone()),
            None => CredentialOwner::Organization { shared: self.shared },
        }
    }
}

impl Authentication {
    /// The kind as documents write it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ApiKeyHeader { .. } | Self::ApiKeyQuery { .. } => "api_key",
            Self::Bearer {} => "bearer",
            Self::Basic { .. } => "basic",
            Self::ClientCredentials(_) => "oauth2_client_credentials",
            Self::AuthorizationCode { .. } => "oauth2_authorization_code",
        }
    }

    /// The OAuth2 client, where it is one.
    pub fn client(&self) -> Option<&OauthClient> {
        match self {
            Self::ClientCredentials(client) | Self::AuthorizationCode { client, .. } => Some(client),
            _ => None,
        }
    }
}
