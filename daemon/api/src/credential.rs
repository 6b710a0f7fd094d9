//! Credentials: requests and views.
//!
//! Requests are deserialized into types without `Debug`: a secret in the wrong field is still a secret.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use toolgate_macros::optional_fields;
use utoipa::ToSchema;
use zeroize::Zeroizing;

use crate::network::CredentialBinding;
use crate::read::objects;
use crate::words::words;

/// A credential with its secret. The valid fields depend on the kind; other fields are refused.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialRequest {
    /// The provider: the name that plugins request and that tools require as an integration.
    #[schema(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "stripe")]
    pub provider: String,
    /// How the secret authenticates a request to the provider.
    pub kind: CredentialKind,
    /// The requests that the credential is added to, at least one.
    #[schema(min_items = 1, max_items = 64)]
    #[serde(deserialize_with = "objects")]
    pub bound_to: Vec<CredentialBinding>,
    /// The user that owns the credential. Default: the organization owns it.
    #[schema(min_length = 1, max_length = 200)]
    pub user: Option<String>,
    /// Whether sessions of users without a credential of this provider use the organization's. Default: true. Not
    /// valid for a user's credential.
    pub shared: Option<bool>,
    /// When the secret expires, in milliseconds since 1970. Not valid for OAuth2, where the token response has the
    /// lifetime.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    pub expires_ms: Option<u64>,
    /// The key, token, password or client secret. Required, except for a public client of `oauth2_authorization_code`
    /// and with `vault` or `file`. It is never returned.
    #[schema(value_type = Option<String>, write_only, required = false, pattern = "^[!-~]([ -~]*[!-~])?$", max_length = 12_288)]
    pub secret: Option<SecretText>,
    /// The secret's path in the operator's vault, in place of `secret`: `MOUNT/PATH#FIELD` of a KV engine of version
    /// 2. The path must start with the organization's prefix in `credentials.vault_references` of the daemon's
    /// configuration. The daemon reads the secret when a request needs it. Not valid for `oauth2_authorization_code`.
    #[schema(
        max_length = 500,
        pattern = "^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+#[A-Za-z0-9._-]+$",
        example = "kv/tenants/acme/stripe#key"
    )]
    pub vault: Option<String>,
    /// The file with the secret, in place of `secret`: its path below the organization's folder in `credentials.file_references` of the
    /// daemon's configuration. A changed file is read within a second. Not valid for `oauth2_authorization_code`.
    #[schema(max_length = 500, pattern = "^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$", example = "stripe/key")]
    pub file: Option<String>,
    /// `api_key`: the header field that carries the key.
    #[schema(min_length = 1, max_length = 100, example = "x-api-key")]
    pub header: Option<String>,
    /// `api_key` in a header: the prefix of the field's value, including the space.
    #[schema(max_length = 100, example = "Key ")]
    pub prefix: Option<String>,
    /// `api_key`: the query parameter that carries the key, in place of a header.
    #[schema(min_length = 1, max_length = 100, example = "api_key")]
    pub query: Option<String>,
    /// `basic`: the user name at the provider.
    #[schema(min_length = 1, max_length = 500)]
    pub username: Option<String>,
    /// OAuth2: the client id.
    #[schema(min_length = 1, max_length = 500)]
    pub client_id: Option<String>,
    /// OAuth2: the token endpoint, over HTTPS.
    #[schema(min_length = 1, max_length = 500, example = "https://accounts.example.com/token")]
    pub token_url: Option<String>,
    /// `oauth2_authorization_code`: the authorization endpoint, over HTTPS.
    #[schema(min_length = 1, max_length = 500, example = "https://accounts.example.com/authorize")]
    pub authorization_url: Option<String>,
    /// `oauth2_authorization_code`: the issuer of an authorization server that names itself in its responses (RFC 9207).
    /// A response without this `iss` is refused.
    #[schema(min_length = 1, max_length = 500, example = "https://accounts.example.com")]
    pub issuer: Option<String>,
    /// OAuth2: the requested scopes. Request as few as possible.
    #[schema(max_items = 100)]
    pub scopes: Option<Vec<String>>,
    /// OAuth2: whether the client secret is sent in the body of a token request instead of its `Authorization`
    /// header.
    pub secret_in_body: Option<bool>,
    /// OAuth2: further parameters of authorization and token requests, such as `audience` or `resource` (RFC 8707). At
    /// most 16.
    #[schema(example = json!({"audience": "https://api.example.com/"}))]
    pub parameters: Option<BTreeMap<String, String>>,
}

words! {
    /// How a credential authenticates a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    pub enum CredentialKind {
        /// A key in a header field or a query parameter.
        ApiKey = "api_key",
        /// `Authorization: Bearer …`.
        Bearer = "bearer",
        /// `Authorization: Basic …`.
        Basic = "basic",
        /// OAuth2 client credentials grant (RFC 6749, section 4.4).
        ClientCredentials = "oauth2_client_credentials",
        /// OAuth2 authorization code grant (RFC 6749, section 4.1) with PKCE (RFC 7636).
        AuthorizationCode = "oauth2_authorization_code",
    }
}

/// Request to rotate a secret.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialRotation {
    /// The new key, token, password or client secret.
    #[schema(value_type = String, write_only, pattern = "^[!-~]([ -~]*[!-~])?$", max_length = 12_288)]
    pub secret: SecretText,
    /// When the secret expires, in milliseconds since 1970. Default: it does not expire.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    pub expires_ms: Option<u64>,
}

/// A credential without its secret.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Credential)]
pub struct CredentialView {
    /// The credential's name.
    pub name: String,
    /// The provider.
    pub provider: String,
    /// How the secret authenticates a request to the provider.
    #[schema(value_type = String)]
    pub kind: CredentialKind,
    /// `connected`: the credential can be used. `pending`: it is not connected yet. `expired`: its secret has
    /// expired. `revoked`: the provider rejects it. `sealed`: the daemon has no root key.
    #[schema(pattern = "^(connected|pending|expired|revoked|sealed)$")]
    pub state: Cow<'static, str>,
    /// The requests that the credential is added to.
    pub bound_to: Vec<CredentialBinding>,
    /// The user that owns the credential; null for the organization's.
    #[schema(required)]
    pub user: Option<String>,
    /// Whether sessions of users without a credential of this provider use the organization's.
    pub shared: bool,
    /// The requested scopes; OAuth2 only.
    pub scopes: Option<Vec<String>>,
    /// The secret's path in the operator's vault; absent if the daemon stores the secret.
    pub vault: Option<String>,
    /// The file with the secret, in the organization's folder; absent if the daemon stores the secret.
    pub file: Option<String>,
    /// Version of the stored secret, incremented by every write and every OAuth2 token refresh. Changes of a secret
    /// in a vault are not counted.
    #[schema(minimum = 1)]
    pub version: u64,
    /// When the credential was created, in milliseconds since 1970.
    #[schema(minimum = 0)]
    pub created_ms: u64,
    /// When a caller last changed the credential, in milliseconds since 1970.
    #[schema(minimum = 0)]
    pub changed_ms: u64,
    /// When a request last used the credential, in milliseconds since 1970; null if it was never used.
    #[schema(required, minimum = 0)]
    pub last_used_ms: Option<u64>,
    /// When the secret expires, in milliseconds since 1970; null if unknown. An OAuth2 token is refreshed earlier.
    #[schema(required, minimum = 0)]
    pub expires_ms: Option<u64>,
}

/// The authorization request of a credential.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConnectView {
    /// The URL of the authorization request, to open in a browser.
    #[schema(example = "https://accounts.example.com/authorize?response_type=code&client_id=…")]
    pub url: String,
    /// The scopes that the authorization request asks for.
    pub scopes: Vec<String>,
    /// When the `state` expires, in milliseconds since 1970.
    #[schema(minimum = 0)]
    pub expires_ms: u64,
}

/// Request to discover the authorization server of a service.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiscoveryRequest {
    /// The URL of the service, such as of an MCP server, or the issuer of an authorization server. Over HTTPS, without
    /// user, query and fragment.
    #[schema(min_length = 1, max_length = 500, example = "https://mcp.example.com/mcp")]
    pub url: String,
    /// The organization that the credential is for. Default: the organization of the token.
    #[schema(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    pub organization: Option<String>,
}

/// The claims of the metadata of a service and of its authorization server.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Discovery)]
pub struct DiscoveryView {
    /// The resource identifier of the service (RFC 9728); null without metadata of the service.
    #[schema(required)]
    pub resource: Option<String>,
    /// The authorization server; null if none was found.
    #[schema(required)]
    pub server: Option<AuthorizationServer>,
    /// Further authorization servers of the service. Discover one by its issuer.
    pub other_issuers: Vec<String>,
    /// The credential that uses the authorization server, to complete and send as a credential; null without server.
    #[schema(required)]
    pub credential: Option<CredentialDraft>,
    /// The redirect URL to register for a client with a secret.
    pub redirect_url: String,
    /// The redirect URL to register for a client without a secret; null without an organization.
    #[schema(required)]
    pub public_client_redirect_url: Option<String>,
    /// Notes on what to complete or to know, as sentences.
    pub notes: Vec<String>,
    /// The requests, in their order.
    pub attempts: Vec<DiscoveryAttempt>,
}

/// Metadata of an authorization server (RFC 8414). A list is empty and a URL is null if the metadata do not have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuthorizationServer {
    /// The issuer.
    pub issuer: String,
    /// The authorization endpoint.
    #[schema(required)]
    pub authorization_endpoint: Option<String>,
    /// The token endpoint.
    #[schema(required)]
    pub token_endpoint: Option<String>,
    /// The endpoint of dynamic client registration (RFC 7591), which the daemon does not use.
    #[schema(required)]
    pub registration_endpoint: Option<String>,
    /// The supported scopes.
    pub scopes_supported: Vec<String>,
    /// The supported grant types.
    pub grant_types_supported: Vec<String>,
    /// The supported PKCE methods. The daemon uses `S256`.
    pub code_challenge_methods_supported: Vec<String>,
    /// The supported authentication methods of clients at the token endpoint.
    pub token_endpoint_auth_methods_supported: Vec<String>,
    /// Whether a client id may be the URL of a metadata document.
    pub client_id_metadata_document_supported: bool,
    /// Whether authorization responses have `iss` (RFC 9207).
    pub authorization_response_iss_parameter_supported: bool,
}

/// A credential without its secret, in the form of a request to write it.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CredentialDraft {
    /// The provider: the host of the service, to be replaced by a better name.
    pub provider: String,
    /// The grant.
    #[schema(value_type = String)]
    pub kind: CredentialKind,
    /// The URL of this daemon's client metadata document, if the authorization server accepts one; otherwise it has to be
    /// added.
    pub client_id: Option<String>,
    /// The authorization endpoint.
    pub authorization_url: Option<String>,
    /// The token endpoint.
    pub token_url: String,
    /// The issuer, if authorization responses name it.
    pub issuer: Option<String>,
    /// The scopes that the service asks for.
    pub scopes: Vec<String>,
    /// Whether the client secret is sent in the body.
    pub secret_in_body: Option<bool>,
    /// `resource` (RFC 8707), if the service has metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The requests that carry the credential.
    pub bound_to: Vec<CredentialBinding>,
}

/// One request of a discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiscoveryAttempt {
    /// The URL.
    pub url: String,
    /// `found`, or why the response is not used.
    pub result: String,
}

/// The metadata document of the daemon as an OAuth2 client (RFC 7591, section 2).
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientMetadata {
    /// The URL of this document.
    pub client_id: String,
    /// The name that a consent page shows.
    pub client_name: String,
    /// The redirect URL of the organization.
    pub redirect_uris: Vec<String>,
    /// `authorization_code` and `refresh_token`.
    pub grant_types: Vec<String>,
    /// `code`.
    pub response_types: Vec<String>,
    /// `none`: the client has no secret.
    pub token_endpoint_auth_method: String,
}

/// The metadata of the MCP endpoint as an OAuth2 resource (RFC 9728, section 2).
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ProtectedResourceMetadata {
    /// The URL of the endpoint, which an access token is requested for.
    pub resource: String,
    /// The issuers whose access tokens are accepted.
    pub authorization_servers: Vec<String>,
    /// `header`.
    pub bearer_methods_supported: Vec<String>,
    /// The scopes that an access token must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes_supported: Option<Vec<String>>,
    /// The name for people.
    pub resource_name: String,
}

/// A secret in a request, wiped when dropped. It has no `Debug`, `Clone` or `Serialize`.
pub struct SecretText(pub Zeroizing<String>);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(Zeroizing::new(text)))
    }
}
