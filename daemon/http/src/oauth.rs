//! OAuth 2.0: discovers authorization servers, starts the authorization of a credential, and serves the redirect endpoint
//! and the client metadata documents.
//!
//! A browser requests the redirect endpoint without a token. The handler acts only on a `state` that the daemon
//! issued within the last ten minutes, and on each `state` once; it refuses every other request without a lookup.

use axum::extract::{RawQuery, State};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use toolgate_api::credential::{ClientMetadata, ConnectView, DiscoveryRequest, DiscoveryView};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::text::escape_for_display;
use toolgate_core::admin::CredentialKey;
use toolgate_state::clock::now_ms;
use utoipa::{IntoParams, ToSchema};

use super::body::Json;
use super::documents::name;
use super::error_responses::{
    AuditUnavailable, ConsentDenied, NoClientMetadata, NoCredential, NoOrganization, NoPendingFlow,
    NoUserConsentNeeded, ProviderUnavailable, Sealed, TooManyDiscoveries, TooManyPendingFlows,
};
use super::extract::{Client, Path};
use super::path_params::{CredentialPath, OrgPath};
use super::problem::Problem;
use super::state::{AUDIT_SOURCE, App};

/// Longest query of the redirect, in bytes. A `code` and a `state` have some hundred bytes; some providers add
/// parameters.
const QUERY_BYTES: usize = 8 * 1024;

/// Longest description of an error that is shown, in characters.
const DESCRIPTION_CHARS: usize = 300;

/// The request to connect a credential. It has no fields yet.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectRequest {}

/// The query parameters of a provider's redirect. Unknown parameters are ignored, since providers add their own.
#[derive(Default, IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "described by the derive")]
pub(crate) struct AuthorizationResponse {
    /// The `state` of the authorization request.
    #[param(required = true)]
    state: Option<String>,
    /// The authorization code, which the daemon exchanges for tokens.
    code: Option<String>,
    /// The error code, if the provider refused the authorization.
    error: Option<String>,
    /// The provider's words for the error.
    error_description: Option<String>,
    /// The organization, in the redirect URI of a public client (a client without a secret).
    organization: Option<String>,
    /// The issuer of the authorization server (RFC 9207).
    iss: Option<String>,
}

/// Discover the authorization server of a service.
///
/// Requests the service, such as an MCP server, without a credential, then the metadata that its response names (RFC
/// 9728) and those of the authorization server (RFC 8414, OpenID Connect Discovery). Returns what they say, and the
/// credential that would use it. Nothing is stored. A service without an authorization server is no error: `attempts`
/// has every request and its result.
#[utoipa::path(
    post, path = "/v1/oauth/discover", tag = "credentials", operation_id = "discover_authorization_server",
    request_body(content = DiscoveryRequest, example = json!({"url": "https://mcp.example.com/mcp", "organization": "acme"})),
    responses((status = 200, description = "The metadata of the service's authorization server.", body = DiscoveryView), NoOrganization, TooManyDiscoveries, AuditUnavailable),
)]
pub(crate) async fn discover(
    Client { app, caller }: Client,
    Json(request): Json<DiscoveryRequest>,
) -> Result<axum::Json<DiscoveryView>, Problem> {
    let organization = request.organization.as_deref().map(name).transpose()?;
    let plain_http = app.settings().credentials.plain_http.as_deref().unwrap_or_default();
    let discovering =
        app.admin().discover(app.actor(&caller), &request.url, organization.as_ref(), plain_http);
    Ok(axum::Json(discovering.await?))
}

/// Get the client metadata document of an organization.
///
/// For authorization servers, which take the URL of this document as the client id of a client without a secret. It
/// needs no token, and the setting `credentials.public_url`. The document is made from the name; the organization need
/// not exist.
#[utoipa::path(
    get, path = "/v1/oauth/clients/{org}", tag = "credentials", operation_id = "get_client_metadata", params(OrgPath),
    responses((status = 200, description = "The document.", body = ClientMetadata), NoClientMetadata),
)]
pub(crate) async fn client_metadata(
    State(app): State<App>,
    Path(OrgPath { organization }): Path<OrgPath>,
) -> Result<axum::Json<ClientMetadata>, Problem> {
    let metadata = app.services().credentials.client_metadata(&organization);
    metadata.map(axum::Json).ok_or_else(|| {
        Problem::new(
            ErrorType::NotFound,
            "the daemon has no client metadata",
            "set `credentials.public_url` to the URL of the daemon for browsers",
        )
    })
}

/// Start the authorization of a credential.
///
/// Returns the URL of the authorization request, to open in a browser, and the scopes that it asks for. The redirect
/// is accepted once, within ten minutes; a new request for the same credential invalidates the earlier URL. Open only
/// URLs that you requested yourself: the person who consents gives this organization access to their account.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/credentials/{name}/connect", tag = "credentials", operation_id = "connect_credential", params(CredentialPath),
    request_body(content = ConnectRequest, example = json!({})),
    responses((status = 200, description = "The address at which a person consents.", body = ConnectView), NoCredential, NoUserConsentNeeded, Sealed, TooManyPendingFlows, ProviderUnavailable, AuditUnavailable),
)]
pub(crate) async fn connect(
    Client { app, caller }: Client,
    Path(path): Path<CredentialPath>,
    Json(ConnectRequest {}): Json<ConnectRequest>,
) -> Result<axum::Json<ConnectView>, Problem> {
    let key = CredentialKey::from(path);
    let link = app.admin().connect_credential(app.actor(&caller), &key).await?;
    Ok(axum::Json(ConnectView { url: link.url, scopes: link.scopes, expires_ms: link.expires_ms }))
}

/// Accept the redirect of an authorization.
///
/// For browsers, which the provider redirects to this endpoint; it needs no token. Query parameters that are not
/// described here are ignored. A flow that was begun in the console is answered with a page that leads back there, also after a
/// refusal. To a client that accepts `text/html` an error is told as text.
#[utoipa::path(
    get, path = "/v1/oauth/callback", tag = "credentials", operation_id = "finish_connecting", params(AuthorizationResponse),
    responses((status = 200, description = "The credential is connected.", body = String, content_type = "text/plain"), NoPendingFlow, ConsentDenied, ProviderUnavailable, Sealed, AuditUnavailable),
)]
pub(crate) async fn callback(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let answer = finish(&app, query.as_deref().unwrap_or("")).await;
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    answer.or_else(|problem| match accept.contains("text/html") {
        true => Ok(page_of_error(&problem.0)),
        false => Err(problem),
    })
}

/// A text for the person who was redirected here.
fn page_of_error(error: &CallError) -> Response {
    let status = StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, page_headers(), format!("{}\n{}\n", error.message, error.hint)).into_response()
}

/// Header fields of the answers to browsers.
fn page_headers() -> [(HeaderName, &'static str); 4] {
    [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ]
}

async fn finish(app: &App, query: &str) -> Result<Response, Problem> {
    let response = read(query)?;
    let flow = {
        let (state, organization) = (response.state.as_deref(), response.organization.as_deref());
        app.services().credentials.take_flow(state.unwrap_or(""), organization, now_ms())?
    };
    // The exchange of the code and its audit record complete even if the browser disconnects.
    let admin = app.admin().clone();
    let code = flow.check_issuer(response.iss.as_deref()).and_then(|()| code(response));
    let key = CredentialKey { organization: flow.organization.clone(), name: flow.name.clone() };
    let is_of_console = flow.source == app.0.pages.audit_source;
    let finishing = async move { admin.finish_connecting(AUDIT_SOURCE, flow, code).await };
    let finished = app.run_to_completion(finishing).await?;
    if is_of_console {
        return Ok((app.0.pages.connection_page)(&key, finished.err().as_ref()));
    }
    let key = finished?;
    let text = format!("The credential {key} is connected. You can close this page.\n");
    Ok((page_headers(), text).into_response())
}

/// Parses the query; a repeated parameter is an error.
fn read(query: &str) -> Result<AuthorizationResponse, Problem> {
    let invalid = || {
        Problem::new(
            ErrorType::InvalidRequest,
            "the request is not the response of a provider",
            "begin again with `POST …/connect`",
        )
    };
    if query.len() > QUERY_BYTES {
        return Err(invalid());
    }
    let mut response = AuthorizationResponse::default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let field = match &*name {
            "state" => &mut response.state,
            "code" => &mut response.code,
            "error" => &mut response.error,
            "error_description" => &mut response.error_description,
            "organization" => &mut response.organization,
            "iss" => &mut response.iss,
            _ => continue,
        };
        if field.replace(value.into_owned()).is_some() {
            return Err(invalid());
        }
    }
    if response.state.is_some() { Ok(response) } else { Err(invalid()) }
}

fn code(response: AuthorizationResponse) -> Result<String, CallError> {
    match (response.code, response.error) {
        (Some(code), None) => Ok(code),
        (_, error) => {
            // RFC 6749, section 4.1.2.1. An error code with other characters is not repeated to the client.
            let told = |error: &String| {
                error.len() <= 40 && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            };
            let error = error.filter(told).unwrap_or_else(|| "no code".to_owned());
            let description = response.error_description.unwrap_or_default();
            let description = match escape_for_display(description.trim(), DESCRIPTION_CHARS) {
                text if text.is_empty() => text,
                text => format!(" ({text})"),
            };
            Err(CallError::new(
                ErrorType::CredentialMissing,
                format!("the provider issued no token: {error}{description}"),
                "begin again with `POST …/connect`",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_each_part_once_and_what_providers_add_is_ignored() {
        let response = read("state=s&code=a%20b&iss=https%3A%2F%2Fidp.example&session_state=x").unwrap();
        assert_eq!(response.state.as_deref(), Some("s"));
        assert_eq!(code(response).ok().as_deref(), Some("a b"));
        for query in [
            "",
            "code=a",
            "state=a&state=b&code=c",
            "state=a&code=b&code=c",
            &format!("state={}", "a".repeat(QUERY_BYTES)),
        ] {
            assert!(read(query).is_err(), "{query}");
        }
    }

    #[test]
    fn k6_a_providers_error_is_told_by_its_code_and_description() {
        let told = |query: &str| code(read(query).unwrap()).unwrap_err().message;
        let described = told("state=s&error=access_denied&error_description=No+audience%0a%3Cb%3E");
        assert!(described.ends_with("access_denied (No audience\\n<b>)"), "{described}");
        assert!(told(&format!("state=s&error=a&error_description={}", "x".repeat(5_000))).len() < 400);
        assert!(told("state=s&error=access_denied").ends_with("access_denied"));
        assert!(told("state=s&error=%3Cscript%3E").ends_with("no code"));
        assert!(told("state=s&code=a&error=access_denied").ends_with("access_denied"));
        assert!(told("state=s").ends_with("no code"));
    }
}
