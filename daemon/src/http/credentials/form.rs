//! Request and response types of credentials.
//!
//! Requests are deserialized into types without `Debug`, and validation errors never quote values: a secret in the
//! wrong field is still a secret.

use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use toolgate_admission::{CallError, CredentialBinding, ErrorType, Name, NetworkScheme, check_bound_to};
use toolgate_api::header::is_framing;
use toolgate_sandbox::{SHORTEST_SECRET, Secret};
use url::Url;
use utoipa::ToSchema;

use super::super::body::objects;
use crate::credentials::{
    Authentication, Credential, CredentialDocument, NewCredential, OauthClient, SECRET_BYTES, is_sendable,
};

/// Limits of one credential: bindings, scopes, and the length of its text fields.
const BINDINGS: usize = 64;
const SCOPES: usize = 100;
const WORD_BYTES: usize = 500;
/// Maximum length of a user's name, in bytes: the same as in a session.
const USER_BYTES: usize = 200;

/// A credential with its secret. The valid fields depend on the kind; other fields are refused.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialRequest {
    /// The provider: the name that plugins request and that tools require as an integration.
    #[schema(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "stripe")]
    provider: String,
    /// How the secret authenticates a request to the provider.
    kind: CredentialKind,
    /// The requests that the credential is added to, at least one.
    #[schema(min_items = 1, max_items = 64)]
    #[serde(deserialize_with = "objects")]
    bound_to: Vec<BindingForm>,
    /// The user that owns the credential. Default: the organization owns it.
    #[schema(min_length = 1, max_length = 200)]
    user: Option<String>,
    /// Whether sessions of users without a credential of this provider use the organization's. Default: true. Not
    /// valid for a user's credential.
    shared: Option<bool>,
    /// When the secret expires, in milliseconds since 1970. Not valid for OAuth2, where the token response has the
    /// lifetime.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    expires_ms: Option<u64>,
    /// The key, token, password or client secret. Required, except for a public client of `oauth2_authorization_code`
    /// and with `vault`. It is never returned.
    #[schema(value_type = Option<String>, write_only, required = false, pattern = "^[!-~]([ -~]*[!-~])?$", max_length = 12_288)]
    secret: Option<SecretText>,
    /// The secret's path in the operator's vault, in place of `secret`: `MOUNT/PATH#FIELD` of a KV engine of version
    /// 2. The path must start with the organization's prefix in `credentials.vault_references` of the daemon's
    /// configuration. The daemon reads the secret when a request needs it. Not valid for `oauth2_authorization_code`.
    #[schema(
        max_length = 500,
        pattern = "^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+#[A-Za-z0-9._-]+$",
        example = "kv/tenants/acme/stripe#key"
    )]
    vault: Option<String>,
    /// `api_key`: the header field that carries the key.
    #[schema(min_length = 1, max_length = 100, example = "x-api-key")]
    header: Option<String>,
    /// `api_key` in a header: the prefix of the field's value, including the space.
    #[schema(max_length = 100, example = "Key ")]
    prefix: Option<String>,
    /// `api_key`: the query parameter that carries the key, in place of a header.
    #[schema(min_length = 1, max_length = 100, example = "api_key")]
    query: Option<String>,
    /// `basic`: the user name at the provider.
    #[schema(min_length = 1, max_length = 500)]
    username: Option<String>,
    /// OAuth2: the client id.
    #[schema(min_length = 1, max_length = 500)]
    client_id: Option<String>,
    /// OAuth2: the token endpoint, over HTTPS.
    #[schema(min_length = 1, max_length = 500, example = "https://accounts.example.com/token")]
    token_url: Option<String>,
    /// `oauth2_authorization_code`: the authorization endpoint, over HTTPS.
    #[schema(min_length = 1, max_length = 500, example = "https://accounts.example.com/authorize")]
    authorization_url: Option<String>,
    /// OAuth2: the requested scopes. Request as few as possible.
    #[schema(max_items = 100)]
    scopes: Option<Vec<String>>,
    /// OAuth2: whether the client secret is sent in the body of a token request instead of its `Authorization`
    /// header.
    secret_in_body: Option<bool>,
}

/// How a credential authenticates a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
pub enum CredentialKind {
    /// A key in a header field or a query parameter.
    #[serde(rename = "api_key")]
    ApiKey,
    /// `Authorization: Bearer …`.
    #[serde(rename = "bearer")]
    Bearer,
    /// `Authorization: Basic …`.
    #[serde(rename = "basic")]
    Basic,
    /// OAuth2 client credentials grant (RFC 6749, section 4.4).
    #[serde(rename = "oauth2_client_credentials")]
    ClientCredentials,
    /// OAuth2 authorization code grant (RFC 6749, section 4.1) with PKCE (RFC 7636).
    #[serde(rename = "oauth2_authorization_code")]
    AuthorizationCode,
}

/// Requests that a credential is added to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = CredentialBinding)]
#[serde(deny_unknown_fields)]
pub struct BindingForm {
    /// `https`, which is the default. `http` is refused: a credential is never sent without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BindingScheme, required = false)]
    scheme: Option<BindingScheme>,
    /// The full host name; patterns are not supported.
    #[schema(min_length = 1, max_length = 253, example = "api.stripe.com")]
    host: String,
    /// The port. Default: the scheme's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 65_535)]
    port: Option<u16>,
    /// The methods, in upper case. Default: all methods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1)]
    methods: Option<Vec<String>>,
    /// The path prefix, compared by whole segments. Default: all paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1_000, example = "/v1/")]
    path: Option<String>,
}

/// The URL scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BindingScheme {
    /// With TLS.
    Https,
    /// Without TLS.
    Http,
}

/// Request to rotate a secret.
#[derive(Deserialize, ToSchema)]
#[schema(as = CredentialRotation)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// The new key, token, password or client secret.
    #[schema(value_type = String, write_only, pattern = "^[!-~]([ -~]*[!-~])?$", max_length = 12_288)]
    secret: SecretText,
    /// When the secret expires, in milliseconds since 1970. Default: it does not expire.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    expires_ms: Option<u64>,
}

/// A credential without its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = Credential)]
pub struct CredentialView {
    /// The credential's name.
    name: String,
    /// The provider.
    provider: String,
    /// How the secret authenticates a request to the provider.
    kind: &'static str,
    /// `connected`: the credential can be used. `pending`: it is not connected yet. `expired`: its secret has
    /// expired. `revoked`: the provider rejects it. `sealed`: the daemon has no root key.
    #[schema(pattern = "^(connected|pending|expired|revoked|sealed)$")]
    state: &'static str,
    /// The requests that the credential is added to.
    bound_to: Vec<BindingForm>,
    /// The user that owns the credential; null for the organization's.
    #[schema(required)]
    user: Option<String>,
    /// Whether sessions of users without a credential of this provider use the organization's.
    shared: bool,
    /// The requested scopes; OAuth2 only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false)]
    scopes: Option<Vec<String>>,
    /// The secret's path in the operator's vault; absent if the daemon stores the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    vault: Option<String>,
    /// Version of the stored secret, incremented by every write and every OAuth2 token refresh. Changes of a secret
    /// in a vault are not counted.
    #[schema(minimum = 1)]
    version: u64,
    /// When the credential was created, in milliseconds since 1970.
    #[schema(minimum = 0)]
    created_ms: u64,
    /// When a caller last changed the credential, in milliseconds since 1970.
    #[schema(minimum = 0)]
    changed_ms: u64,
    /// When a request last used the credential, in milliseconds since 1970; null if it was never used.
    #[schema(required, minimum = 0)]
    last_used_ms: Option<u64>,
    /// When the secret expires, in milliseconds since 1970; null if unknown. An OAuth2 token is refreshed earlier.
    #[schema(required, minimum = 0)]
    expires_ms: Option<u64>,
}

/// A secret in a request.
pub struct SecretText(pub(in crate::http) Secret);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = SecretText;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a secret")
            }

            fn visit_str<E>(self, text: &str) -> Result<SecretText, E> {
                Ok(SecretText(Secret::new(text.as_bytes().to_vec())))
            }
        }
        from.deserialize_str(Reader)
    }
}

impl SecretText {
    fn read(self) -> Result<Secret, CallError> {
        if self.0.expose().len() < SHORTEST_SECRET {
            return Err(wrong(
                "secret",
                "the secret is too short: in answers it could not be told from ordinary text, and so not be blanked",
                format!("use one of at least {SHORTEST_SECRET} characters"),
            ));
        }
        if is_sendable(self.0.expose()) {
            return Ok(self.0);
        }
        Err(wrong(
            "secret",
            "the secret is too long, or has characters that no header can hold",
            format!("send at most {SECRET_BYTES} visible ASCII characters, without a line break at the end"),
        ))
    }
}

impl Rotation {
    pub(super) fn read(self) -> Result<(Secret, Option<u64>), CallError> {
        Ok((self.secret.read()?, self.expires_ms))
    }
}

impl CredentialRequest {
    /// Validates the request and returns the credential.
    pub(super) fn read(mut self, plain_http: &[String]) -> Result<NewCredential, CallError> {
        Name::parse(&self.provider)
            .map_err(|error| wrong("provider", "the provider has no sound name", error.hint))?;
        self.refuse_strangers()?;
        let secret = self.secret.take().map(SecretText::read).transpose()?;
        let may_be_without = self.kind == CredentialKind::AuthorizationCode;
        match (&secret, &self.vault) {
            (Some(_), Some(_)) => {
                return Err(wrong("vault", "the secret is here and in a vault", "send `secret` or `vault`"));
            }
            (None, None) if !may_be_without => {
                let hint = "send it as `secret`, or say where in a vault it is as `vault`";
                return Err(wrong("secret", "there is no secret", hint));
            }
            _ => {}
        }
        let document = CredentialDocument {
            authentication: self.authentication(plain_http)?,
            bound_to: self.bindings()?,
            user: self.user()?,
            shared: self.shared.unwrap_or(self.user.is_none()),
            expires_ms: self.expires_ms,
            vault: self.vault,
            provider: self.provider,
        };
        Ok(NewCredential { document, secret })
    }

    /// Refuses fields that are not valid for the kind: the client expects an effect that they do not have.
    fn refuse_strangers(&self) -> Result<(), CallError> {
        use CredentialKind::{ApiKey, AuthorizationCode, Basic, Bearer, ClientCredentials};
        const OAUTH: &[CredentialKind] = &[ClientCredentials, AuthorizationCode];
        let fields: [(&str, bool, &[CredentialKind]); 11] = [
            ("vault", self.vault.is_some(), &[ApiKey, Bearer, Basic, ClientCredentials]),
            ("header", self.header.is_some(), &[ApiKey]),
            ("prefix", self.prefix.is_some(), &[ApiKey]),
            ("query", self.query.is_some(), &[ApiKey]),
            ("username", self.username.is_some(), &[Basic]),
            ("client_id", self.client_id.is_some(), OAUTH),
            ("token_url", self.token_url.is_some(), OAUTH),
            ("scopes", self.scopes.is_some(), OAUTH),
            ("secret_in_body", self.secret_in_body.is_some(), OAUTH),
            ("authorization_url", self.authorization_url.is_some(), &[AuthorizationCode]),
            ("expires_ms", self.expires_ms.is_some(), &[ApiKey, Bearer, Basic]),
        ];
        match fields.iter().find(|(_, is_there, kinds)| *is_there && !kinds.contains(&self.kind)) {
            Some((field, ..)) => Err(wrong(
                field,
                &format!("`{field}` means nothing for this kind"),
                "leave it out, or choose another `kind`",
            )),
            None => Ok(()),
        }
    }

    fn authentication(&self, plain_http: &[String]) -> Result<Authentication, CallError> {
        Ok(match self.kind {
            CredentialKind::ApiKey => self.api_key()?,
            CredentialKind::Bearer => Authentication::Bearer {},
            CredentialKind::Basic => Authentication::Basic { username: self.username()? },
            CredentialKind::ClientCredentials => Authentication::ClientCredentials(self.client(plain_http)?),
            CredentialKind::AuthorizationCode => Authentication::AuthorizationCode {
                client: self.client(plain_http)?,
                authorization_url: address(
                    "authorization_url",
                    self.authorization_url.as_deref(),
                    plain_http,
                )?,
            },
        })
    }

    fn api_key(&self) -> Result<Authentication, CallError> {
        match (&self.header, &self.query) {
            (Some(header), None) => {
                let header = header.to_ascii_lowercase();
                if !is_token(&header) || is_framing(&header) {
                    return Err(wrong(
                        "header",
                        "a key cannot go into that header",
                        "name one of the provider's own, like `x-api-key`",
                    ));
                }
                let prefix = self.prefix.clone().unwrap_or_default();
                if prefix.len() > 100 || !prefix.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
                    return Err(wrong(
                        "prefix",
                        "the prefix cannot stand in a header",
                        "use visible ASCII characters",
                    ));
                }
                Ok(Authentication::ApiKeyHeader { header, prefix })
            }
            (None, Some(query)) if is_token(query) && self.prefix.is_none() => {
                Ok(Authentication::ApiKeyQuery { query: query.clone() })
            }
            (None, Some(_)) => Err(wrong(
                "query",
                "that is no name of a parameter without a prefix",
                "use letters, digits, `-`, `_` and `.`",
            )),
            _ => Err(wrong(
                "header",
                "an API key goes into a header or the query",
                "name either `header` or `query`",
            )),
        }
    }

    fn username(&self) -> Result<String, CallError> {
        let username = self.username.clone().unwrap_or_default();
        // RFC 7617, section 2: the first colon separates the user name from the password.
        if username.is_empty() || !is_word(&username) || username.contains(':') {
            return Err(wrong(
                "username",
                "there is no user's name that Basic authentication can carry",
                "send it as `username`, without a colon",
            ));
        }
        Ok(username)
    }

    fn client(&self, plain_http: &[String]) -> Result<OauthClient, CallError> {
        let client_id = self.client_id.clone().filter(|id| !id.is_empty() && is_word(id));
        let scopes = self.scopes.clone().unwrap_or_default();
        // RFC 6749, section 3.3.
        let is_scope =
            |scope: &String| !scope.is_empty() && is_word(scope) && !scope.contains([' ', '"', '\\']);
        if scopes.len() > SCOPES || !scopes.iter().all(is_scope) {
            return Err(wrong(
                "scopes",
                "that is no list of scopes",
                "write each as the provider names it, without spaces",
            ));
        }
        Ok(OauthClient {
            client_id: client_id
                .ok_or_else(|| wrong("client_id", "there is no client id", "send it as `client_id`"))?,
            token_url: address("token_url", self.token_url.as_deref(), plain_http)?,
            scopes,
            secret_in_body: self.secret_in_body.unwrap_or(false),
        })
    }

    fn bindings(&self) -> Result<Vec<CredentialBinding>, CallError> {
        if self.bound_to.len() > BINDINGS {
            return Err(wrong(
                "bound_to",
                "the credential is bound to too many places",
                format!("name at most {BINDINGS}"),
            ));
        }
        let rules: Vec<CredentialBinding> = self.bound_to.iter().map(BindingForm::rule).collect();
        if let Some(at) = rules.iter().position(|rule| rule.scheme == NetworkScheme::Http) {
            // K4: credentials require TLS, even for the hosts of token requests that `plain_http` lists.
            let hint = "leave `scheme` out: a credential goes over HTTPS alone";
            return Err(wrong(
                &format!("bound_to/{at}/scheme"),
                "a credential never goes over plain HTTP",
                hint,
            ));
        }
        check_bound_to(&rules, &[])
            .map_err(|error| wrong(&format!("bound_to{}", error.place), &error.message, error.hint))
    }

    fn user(&self) -> Result<Option<String>, CallError> {
        match &self.user {
            Some(user) if user.is_empty() || user.len() > USER_BYTES => Err(wrong(
                "user",
                "that is no user",
                format!("name one in at most {USER_BYTES} bytes, or leave it out"),
            )),
            Some(_) if self.shared == Some(true) => Err(wrong(
                "shared",
                "a user's credential is shared with nobody",
                "leave `shared` or `user` out",
            )),
            user => Ok(user.clone()),
        }
    }
}

impl BindingForm {
    fn rule(&self) -> CredentialBinding {
        let plain = self.scheme == Some(BindingScheme::Http);
        CredentialBinding {
            scheme: if plain { NetworkScheme::Http } else { NetworkScheme::Https },
            host: self.host.clone(),
            port: self.port,
            methods: self.methods.clone(),
            path: self.path.clone(),
        }
    }

    fn of(rule: &CredentialBinding) -> Self {
        let plain = rule.scheme == NetworkScheme::Http;
        Self {
            scheme: Some(if plain { BindingScheme::Http } else { BindingScheme::Https }),
            host: rule.host.clone(),
            port: rule.port,
            methods: rule.methods.clone(),
            path: rule.path.clone(),
        }
    }
}

/// Returns the credential without its secret.
pub(super) fn view(credential: &Credential, state: &'static str) -> CredentialView {
    let (row, document) = (&credential.row, &credential.document);
    CredentialView {
        name: row.name.to_string(),
        provider: document.provider.clone(),
        kind: document.authentication.kind(),
        state,
        bound_to: document.bound_to.iter().map(BindingForm::of).collect(),
        user: document.user.clone(),
        shared: document.shared,
        scopes: document.authentication.client().map(|client| client.scopes.clone()),
        vault: document.vault.clone(),
        version: row.version,
        created_ms: row.created_ms,
        changed_ms: row.changed_ms,
        last_used_ms: credential.last_used_ms(),
        // The value is 0 until the client requests its first token.
        expires_ms: row.expires_ms.filter(|time| *time > 0),
    }
}

/// Parses a URL that receives secrets: it must use HTTPS, unless the operator listed its host in `plain_http` (K4).
fn address(field: &str, text: Option<&str>, plain_http: &[String]) -> Result<String, CallError> {
    let url = text.filter(|text| text.len() <= WORD_BYTES).and_then(|text| Url::parse(text).ok());
    let Some(url) = url.filter(|url| url.has_host() && url.fragment().is_none()) else {
        return Err(wrong(
            field,
            "there is no address",
            format!("send `{field}` like `https://accounts.example.com/path`"),
        ));
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            field,
            "the address has a user or password in it",
            "send the client's secret as `secret`",
        ));
    }
    let scheme = match url.scheme() {
        "https" => NetworkScheme::Https,
        "http" => NetworkScheme::Http,
        _ => return Err(wrong(field, "the address is not one of HTTP", "use `https`")),
    };
    let place = CredentialBinding {
        scheme,
        host: url.host_str().unwrap_or_default().to_owned(),
        port: url.port_or_known_default(),
        methods: None,
        path: None,
    };
    check_bound_to(&[place], plain_http).map_err(|error| wrong(field, &error.message, error.hint))?;
    Ok(url.into())
}

/// Whether the text is a token (RFC 9110, section 5.6.2) without characters that are special in a URL.
fn is_token(text: &str) -> bool {
    let in_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= 100 && text.bytes().all(in_token)
}

fn is_word(text: &str) -> bool {
    text.len() <= WORD_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
}

fn wrong(field: &str, message: &str, hint: impl Into<String>) -> CallError {
    CallError::new(ErrorType::InvalidRequest, message, hint).with_pointer(format!("/{field}"))
}

#[cfg(test)]
mod tests;
