//! Validation of requests to write a credential. Errors never quote values: a secret in the wrong field is still a
//! secret.

use toolgate_admission::check_bound_to;
use toolgate_api::credential::{CredentialKind, CredentialRequest, CredentialRotation, SecretText};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::header::is_framing;
use toolgate_api::name::Name;
use toolgate_api::network::{CredentialBinding, NetworkScheme};
use toolgate_sandbox::{SHORTEST_SECRET, Secret};
use url::Url;

use super::{Authentication, CredentialDocument, NewCredential, OauthClient, SECRET_BYTES, is_sendable};

/// Limits of one credential: bindings, scopes, and the length of its text fields.
const BINDINGS: usize = 64;
const SCOPES: usize = 100;
const TEXT_BYTES: usize = 500;
/// Maximum number of further parameters of OAuth2 requests.
const PARAMETERS: usize = 16;
/// Parameters that the daemon sets (RFC 6749, RFC 7636).
const OWN_PARAMETERS: &[&str] = &[
    "client_id",
    "client_secret",
    "code",
    "code_challenge",
    "code_challenge_method",
    "code_verifier",
    "grant_type",
    "redirect_uri",
    "refresh_token",
    "response_type",
    "scope",
    "state",
];
/// Longest token and longest prefix of an API key, in bytes.
const TOKEN_BYTES: usize = 100;
/// Maximum length of a user's name, in bytes: the same as in a session.
const USER_BYTES: usize = 200;

/// Validates a request. `plain_http` lists the hosts that credentials may be sent to without TLS (K4).
pub fn new_credential(
    mut request: CredentialRequest,
    plain_http: &[String],
) -> Result<NewCredential, CallError> {
    Name::parse(&request.provider)
        .map_err(|error| invalid("provider", "the name of the provider is invalid", error.hint))?;
    check_fields_of_kind(&request)?;
    let secret = request.secret.take().map(valid_secret).transpose()?;
    let places = [secret.is_some(), request.vault.is_some(), request.file.is_some()];
    let places = places.into_iter().filter(|is_there| *is_there).count();
    let field = if request.vault.is_some() { "vault" } else { "file" };
    ensure(
        places <= 1,
        field,
        "the secret is in several places",
        "send one of `secret`, `vault` and `file`",
    )?;
    ensure(
        places == 1 || request.kind == CredentialKind::AuthorizationCode,
        "secret",
        "there is no secret",
        "send it as `secret`, or say where it is: in a vault as `vault`, in a mounted file as `file`",
    )?;
    let document = CredentialDocument {
        authentication: authentication(&request, plain_http)?,
        bound_to: bindings(&request.bound_to, plain_http)?,
        shared: is_shared(&request)?,
        user: request.user,
        expires_ms: request.expires_ms,
        vault: request.vault,
        file: request.file,
        provider: request.provider,
    };
    Ok(NewCredential { document, secret })
}

/// Validates a rotation; returns the new secret and when it expires.
pub fn rotated_secret(request: CredentialRotation) -> Result<(Secret, Option<u64>), CallError> {
    Ok((valid_secret(request.secret)?, request.expires_ms))
}

fn valid_secret(SecretText(mut text): SecretText) -> Result<Secret, CallError> {
    let secret = Secret::new(std::mem::take(&mut *text).into_bytes());
    ensure(
        secret.expose().len() >= SHORTEST_SECRET,
        "secret",
        "the secret is too short: in answers it could not be told from ordinary text, and so not be blanked",
        format!("use one of at least {SHORTEST_SECRET} characters"),
    )?;
    ensure(
        is_sendable(secret.expose()),
        "secret",
        "the secret is too long, or has characters that no header can hold",
        format!("send at most {SECRET_BYTES} visible ASCII characters, without a line break at the end"),
    )?;
    Ok(secret)
}

/// Refuses fields that are not valid for the kind: the client expects an effect that they do not have.
fn check_fields_of_kind(request: &CredentialRequest) -> Result<(), CallError> {
    use CredentialKind::{ApiKey, AuthorizationCode, Basic, Bearer, ClientCredentials};
    const OAUTH: &[CredentialKind] = &[ClientCredentials, AuthorizationCode];
    let fields: [(&str, bool, &[CredentialKind]); 14] = [
        ("vault", request.vault.is_some(), &[ApiKey, Bearer, Basic, ClientCredentials]),
        ("file", request.file.is_some(), &[ApiKey, Bearer, Basic, ClientCredentials]),
        ("header", request.header.is_some(), &[ApiKey]),
        ("prefix", request.prefix.is_some(), &[ApiKey]),
        ("query", request.query.is_some(), &[ApiKey]),
        ("username", request.username.is_some(), &[Basic]),
        ("client_id", request.client_id.is_some(), OAUTH),
        ("token_url", request.token_url.is_some(), OAUTH),
        ("scopes", request.scopes.is_some(), OAUTH),
        ("secret_in_body", request.secret_in_body.is_some(), OAUTH),
        ("parameters", request.parameters.is_some(), OAUTH),
        ("authorization_url", request.authorization_url.is_some(), &[AuthorizationCode]),
        ("issuer", request.issuer.is_some(), &[AuthorizationCode]),
        ("expires_ms", request.expires_ms.is_some(), &[ApiKey, Bearer, Basic]),
    ];
    match fields.iter().find(|(_, is_present, kinds)| *is_present && !kinds.contains(&request.kind)) {
        Some((field, ..)) => {
            let message = format!("`{field}` means nothing for this kind");
            Err(invalid(field, message, "leave it out, or choose another `kind`"))
        }
        None => Ok(()),
    }
}

fn authentication(request: &CredentialRequest, plain_http: &[String]) -> Result<Authentication, CallError> {
    Ok(match request.kind {
        CredentialKind::ApiKey => api_key(request)?,
        CredentialKind::Bearer => Authentication::Bearer {},
        CredentialKind::Basic => Authentication::Basic { username: username(request)? },
        CredentialKind::ClientCredentials => {
            Authentication::ClientCredentials(oauth_client(request, plain_http)?)
        }
        CredentialKind::AuthorizationCode => Authentication::AuthorizationCode {
            client: oauth_client(request, plain_http)?,
            authorization_url: endpoint(
                "authorization_url",
                request.authorization_url.as_deref(),
                plain_http,
            )?,
            issuer: issuer(request)?,
        },
    })
}

fn api_key(request: &CredentialRequest) -> Result<Authentication, CallError> {
    match (&request.header, &request.query) {
        (Some(header), None) => {
            let header = header.to_ascii_lowercase();
            ensure(
                is_token(&header) && !is_framing(&header),
                "header",
                "a key cannot go into that header",
                "name one of the provider's own, like `x-api-key`",
            )?;
            let prefix = request.prefix.clone().unwrap_or_default();
            ensure(
                is_visible(&prefix, TOKEN_BYTES),
                "prefix",
                "the prefix cannot stand in a header",
                "use visible ASCII characters",
            )?;
            Ok(Authentication::ApiKeyHeader { header, prefix })
        }
        (None, Some(query)) if is_token(query) && request.prefix.is_none() => {
            Ok(Authentication::ApiKeyQuery { query: query.clone() })
        }
        (None, Some(_)) => Err(invalid(
            "query",
            "`query` is not the name of a parameter, or has a `prefix` beside it",
            "use letters, digits, `-`, `_` and `.`, and leave `prefix` out",
        )),
        _ => Err(invalid(
            "header",
            "an API key goes into a header or the query",
            "name either `header` or `query`",
        )),
    }
}

fn username(request: &CredentialRequest) -> Result<String, CallError> {
    let username = request.username.clone().unwrap_or_default();
    // RFC 7617, section 2: the first colon separates the user name from the password.
    ensure(
        !username.is_empty() && is_visible(&username, TEXT_BYTES) && !username.contains(':'),
        "username",
        "there is no user's name that Basic authentication can carry",
        "send it as `username`, without a colon",
    )?;
    Ok(username)
}

fn oauth_client(request: &CredentialRequest, plain_http: &[String]) -> Result<OauthClient, CallError> {
    let scopes = request.scopes.clone().unwrap_or_default();
    ensure(
        scopes.len() <= SCOPES && scopes.iter().all(|scope| is_scope(scope)),
        "scopes",
        "the value is not a list of scopes",
        "write each as the provider names it, without spaces",
    )?;
    let client_id = request.client_id.clone().unwrap_or_default();
    let is_id = !client_id.is_empty() && is_visible(&client_id, TEXT_BYTES);
    ensure(is_id, "client_id", "there is no client id", "send it as `client_id`")?;
    let token_url = endpoint("token_url", request.token_url.as_deref(), plain_http)?;
    let parameters = request.parameters.clone().unwrap_or_default();
    let is_parameter = |(name, value): (&String, &String)| {
        is_token(name) && !OWN_PARAMETERS.contains(&name.as_str()) && is_visible(value, TEXT_BYTES)
    };
    ensure(
        parameters.len() <= PARAMETERS && parameters.iter().all(is_parameter),
        "parameters",
        "the daemon sets one of these parameters itself, or a request cannot carry it",
        format!(
            "name at most {PARAMETERS}, such as `audience`, each with a text of visible ASCII characters"
        ),
    )?;
    let secret_in_body = request.secret_in_body.unwrap_or(false);
    Ok(OauthClient { client_id, token_url, scopes, secret_in_body, parameters })
}

/// The issuer as the provider writes it: RFC 9207 compares it by its characters.
fn issuer(request: &CredentialRequest) -> Result<Option<String>, CallError> {
    let is_url = |issuer: &String| {
        !issuer.is_empty()
            && is_visible(issuer, TEXT_BYTES)
            && Url::parse(issuer).is_ok_and(|url| url.has_host())
    };
    ensure(
        request.issuer.as_ref().is_none_or(is_url),
        "issuer",
        "the issuer is not a URL",
        "copy `issuer` from the provider's metadata",
    )?;
    Ok(request.issuer.clone())
}

fn bindings(
    bound_to: &[CredentialBinding],
    plain_http: &[String],
) -> Result<Vec<CredentialBinding>, CallError> {
    ensure(
        bound_to.len() <= BINDINGS,
        "bound_to",
        "the credential is bound to too many places",
        format!("name at most {BINDINGS}"),
    )?;
    check_bound_to(bound_to, plain_http)
        .map_err(|error| invalid(&format!("bound_to{}", error.place), error.message, error.hint))
}

fn is_shared(request: &CredentialRequest) -> Result<bool, CallError> {
    let Some(user) = &request.user else { return Ok(request.shared.unwrap_or(true)) };
    ensure(
        !user.is_empty() && user.len() <= USER_BYTES,
        "user",
        "that is no user",
        format!("name one in at most {USER_BYTES} bytes, or leave it out"),
    )?;
    let hint = "leave `shared` or `user` out";
    ensure(request.shared != Some(true), "shared", "a user's credential cannot be shared", hint)?;
    Ok(false)
}

/// Parses a URL that receives secrets: it must use HTTPS, unless the operator listed its host in `plain_http` (K4).
pub(super) fn endpoint(field: &str, text: Option<&str>, plain_http: &[String]) -> Result<String, CallError> {
    let url = text.filter(|text| text.len() <= TEXT_BYTES).and_then(|text| Url::parse(text).ok());
    let Some(url) = url.filter(|url| url.has_host() && url.fragment().is_none()) else {
        let hint = format!("send `{field}` like `https://accounts.example.com/path`");
        return Err(invalid(field, "there is no address", hint));
    };
    ensure(
        url.username().is_empty() && url.password().is_none(),
        field,
        "the address has a user or password in it",
        "send the client's secret as `secret`",
    )?;
    let scheme = match url.scheme() {
        "https" => NetworkScheme::Https,
        "http" => NetworkScheme::Http,
        _ => return Err(invalid(field, "the URL is neither `https` nor `http`", "use `https`")),
    };
    let place = CredentialBinding {
        scheme,
        host: url.host_str().unwrap_or_default().to_owned(),
        port: url.port_or_known_default(),
        methods: None,
        path: None,
    };
    check_bound_to(&[place], plain_http).map_err(|error| invalid(field, error.message, error.hint))?;
    Ok(url.into())
}

/// Whether the text is a scope (RFC 6749, section 3.3).
pub(super) fn is_scope(text: &str) -> bool {
    !text.is_empty() && is_visible(text, TEXT_BYTES) && !text.contains([' ', '"', '\\'])
}

/// Whether the text is a token (RFC 9110, section 5.6.2) without characters that are special in a URL.
fn is_token(text: &str) -> bool {
    let in_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= TOKEN_BYTES && text.bytes().all(in_token)
}

fn is_visible(text: &str, max_bytes: usize) -> bool {
    text.len() <= max_bytes && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
}

fn ensure(is_valid: bool, field: &str, message: &str, hint: impl Into<String>) -> Result<(), CallError> {
    if is_valid { Ok(()) } else { Err(invalid(field, message, hint)) }
}

fn invalid(field: &str, message: impl Into<String>, hint: impl Into<String>) -> CallError {
    CallError::new(ErrorType::InvalidRequest, message, hint).with_pointer(format!("/{field}"))
}

#[cfg(test)]
mod tests;
