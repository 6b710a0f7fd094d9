//! The credential that uses a discovered authorization server, and what remains to be done.

use std::collections::BTreeMap;

use toolgate_api::credential::{AuthorizationServer, CredentialDraft, CredentialKind};
use toolgate_api::network::{CredentialBinding, NetworkScheme};
use url::Url;

use super::super::request::is_scope;

/// Longest name of a provider.
const NAME_BYTES: usize = 64;

/// The discovered facts about the service.
pub(super) struct Found<'a> {
    pub url: &'a Url,
    /// Its resource identifier, if it has metadata.
    pub resource: Option<&'a str>,
    /// The scopes that it asks for.
    pub scopes: Vec<String>,
    /// The URL of the daemon's own client metadata document, if it has one.
    pub client_id: Option<String>,
}

/// Returns the credential, `None` if no supported grant has its endpoints, and notes for the person who completes it.
pub(super) fn draft(
    found: Found<'_>,
    server: Option<&AuthorizationServer>,
) -> (Option<CredentialDraft>, Vec<String>) {
    let Some(server) = server else {
        let note = "no authorization server was found: `attempts` has the reasons";
        return (None, vec![note.to_owned()]);
    };
    let Some((kind, token_url)) = grant(server) else {
        let note = "the authorization server supports neither authorization codes nor client credentials";
        return (None, vec![note.to_owned()]);
    };
    let is_code = kind == CredentialKind::AuthorizationCode;
    let is_document_accepted = is_code && server.client_id_metadata_document_supported;
    let client_id = found.client_id.clone().filter(|_| is_document_accepted);
    let issuer = server.authorization_response_iss_parameter_supported && is_code;
    let notes = notes(&found, server, kind, client_id.is_some());
    let parameters = found.resource.map(|resource| ("resource".to_owned(), resource.to_owned()));
    let draft = CredentialDraft {
        provider: provider(found.url),
        kind,
        client_id,
        authorization_url: server.authorization_endpoint.clone().filter(|_| is_code),
        token_url,
        issuer: issuer.then(|| server.issuer.clone()),
        scopes: scopes(found.scopes, server, is_code),
        secret_in_body: takes_secret_in_body(server).then_some(true),
        parameters: BTreeMap::from_iter(parameters),
        bound_to: binding(found.url).into_iter().collect(),
    };
    (Some(draft), notes)
}

/// The grant and its token endpoint. Without `grant_types_supported`, authorization codes are supported (RFC 8414, section
/// 2).
fn grant(server: &AuthorizationServer) -> Option<(CredentialKind, String)> {
    let grants = &server.grant_types_supported;
    let has = |name: &str| grants.iter().any(|grant| grant == name);
    let token_url = server.token_endpoint.clone()?;
    if server.authorization_endpoint.is_some() && (grants.is_empty() || has("authorization_code")) {
        return Some((CredentialKind::AuthorizationCode, token_url));
    }
    has("client_credentials").then_some((CredentialKind::ClientCredentials, token_url))
}

fn notes(
    found: &Found<'_>,
    server: &AuthorizationServer,
    kind: CredentialKind,
    has_client_id: bool,
) -> Vec<String> {
    let is_code = kind == CredentialKind::AuthorizationCode;
    let has_pkce = server.code_challenge_methods_supported.iter().any(|method| method == "S256");
    let notes = [
        (
            !has_client_id && is_code,
            "register a client with `redirect_url`, or `public_client_redirect_url` without a secret, and add its `client_id`",
        ),
        (!has_client_id && !is_code, "register a client, and add its `client_id` and secret"),
        (
            !has_client_id && is_code && server.client_id_metadata_document_supported,
            "no client has to be registered if `credentials.public_url` is an `https` URL that the authorization server \
             reaches, and an organization is named",
        ),
        (
            is_code && !has_pkce,
            "the authorization server does not name the PKCE method `S256`, which the daemon always uses",
        ),
        (
            found.resource.is_none(),
            "the service has no metadata that name its authorization server: check `bound_to`",
        ),
        (found.url.scheme() != "https", "a credential is only sent over HTTPS: set `bound_to`"),
    ];
    notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note.to_owned()).collect()
}

/// The scopes that the service asks for, and the one for refresh tokens if the server has it.
fn scopes(asked: Vec<String>, server: &AuthorizationServer, is_code: bool) -> Vec<String> {
    const REFRESH: &str = "offline_access";
    let mut scopes: Vec<String> = asked.into_iter().filter(|scope| is_scope(scope)).collect();
    let is_offered = server.scopes_supported.iter().any(|scope| scope == REFRESH);
    if is_code && is_offered && !scopes.iter().any(|scope| scope == REFRESH) {
        scopes.push(REFRESH.to_owned());
    }
    scopes
}

/// Whether the server takes a client secret in the body alone. The header is the default (RFC 8414, section 2).
fn takes_secret_in_body(server: &AuthorizationServer) -> bool {
    let has = |name: &str| server.token_endpoint_auth_methods_supported.iter().any(|method| method == name);
    has("client_secret_post") && !has("client_secret_basic")
}

fn binding(url: &Url) -> Option<CredentialBinding> {
    (url.scheme() == "https").then(|| CredentialBinding {
        scheme: NetworkScheme::Https,
        host: url.host_str().unwrap_or_default().to_owned(),
        port: url.port(),
        methods: None,
        path: Some(url.path().to_owned()).filter(|path| path != "/"),
    })
}

/// The host as a name.
fn provider(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let letters = host.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let name: String = letters.skip_while(|letter| *letter == '-').take(NAME_BYTES).collect();
    name.trim_end_matches('-').to_ascii_lowercase()
}
