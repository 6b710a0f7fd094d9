//! OAuth2 requests of three grants: client credentials, authorization code with PKCE, and device code (RFC 6749, RFC 7636, RFC 8628).
//!
//! The sandbox crate's HTTPS client sends them, with its checks of addresses; `token_response` reads what providers answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{Request, Response, StatusCode, header};
use toolgate_admission::Unusable;
use toolgate_macros::boxed;
use toolgate_sandbox::{HostClient, Secret};
use url::{Url, form_urlencoded};
use zeroize::Zeroizing;

use super::document::OauthClient;
use super::token_response::{self, DeviceAuthorization, TokenFailure, Tokens};

/// A request to a token endpoint or a vault.
pub(super) type HttpRequest = Request<Vec<u8>>;

/// Sends a request to a token endpoint or a vault and returns the response with any status, without following redirects.
/// Tests replace it by a fake.
pub type TokenClient = Arc<dyn Fn(HttpRequest) -> TokenResponseFuture + Send + Sync>;

pub type TokenResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Vec<u8>>, TokenClientError>> + Send>>;

/// A request got no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenClientError(pub String);

/// A [`TokenClient`] that sends with the sandbox crate's HTTPS client.
pub fn token_client(client: HostClient) -> TokenClient {
    Arc::new(move |request| {
        let client = client.clone();
        Box::pin(
            async move { client.send(request).await.map_err(|error| TokenClientError(error.to_string())) },
        )
    })
}

/// An authorization request (RFC 6749, section 4.1.1).
pub(super) struct AuthorizationRequest {
    /// The URL that the user opens.
    pub url: String,
    /// CSRF token that the response must contain.
    pub state: String,
    /// PKCE verifier: proves that the token request comes from the client that made the authorization request.
    pub verifier: Secret,
}

/// A token request in progress.
pub(super) type TokenRequest = Pin<Box<dyn Future<Output = Result<Tokens, TokenFailure>> + Send>>;

/// Builds an authorization request with PKCE.
pub(super) fn authorization_request(
    client: &OauthClient,
    authorization_url: &str,
    redirect_url: &str,
) -> Result<AuthorizationRequest, TokenFailure> {
    let (verifier, state) = (random_text(), random_text());
    let url = authorization_url_with(client, authorization_url, redirect_url, (&state, &verifier))?;
    Ok(AuthorizationRequest { url: url.into(), state, verifier: Secret::new(verifier.into_bytes()) })
}

/// Builds the URL of an authorization request with this `state` and PKCE verifier.
pub fn authorization_url_with(
    client: &OauthClient,
    authorization_url: &str,
    redirect_url: &str,
    (state, verifier): (&str, &str),
) -> Result<Url, TokenFailure> {
    let mut url = Url::parse(authorization_url).map_err(invalid_url)?;
    let challenge = URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes()));
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client.client_id)
        .append_pair("state", state)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("redirect_uri", redirect_url);
    url.query_pairs_mut().extend_pairs(&client.parameters);
    if !client.scopes.is_empty() {
        url.query_pairs_mut().append_pair("scope", &client.scopes.join(" "));
    }
    Ok(url)
}

/// Exchanges an authorization code for tokens (RFC 6749, section 4.1.3).
pub fn exchange_code(
    http: &TokenClient,
    client: &OauthClient,
    secret: Option<&Secret>,
    redirect_url: &str,
    code: &str,
    verifier: &Secret,
) -> Result<TokenRequest, TokenFailure> {
    let verifier = text(verifier)?;
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("code_verifier", verifier),
        ("redirect_uri", redirect_url),
    ];
    request_tokens(http, client, secret, &fields)
}

/// What a token endpoint answers to a device code (RFC 8628, section 3.5).
pub enum DeviceTokens {
    /// The person has not decided.
    Pending {
        /// Whether the interval grows by 5 seconds.
        slow_down: bool,
    },
    /// The person refused.
    Denied,
    /// The codes are too old.
    Expired,
    Issued(Tokens),
}

/// Asks for a device code.
#[boxed]
pub async fn authorize_device(
    http: &TokenClient,
    client: &OauthClient,
    secret: Option<&Secret>,
    endpoint: &str,
) -> Result<DeviceAuthorization, TokenFailure> {
    let scope = client.scopes.join(" ");
    let request = form_request(client, secret, endpoint, &[("scope", &scope)])?;
    let (status, body) = send(http, request).await?;
    token_response::read_device(status, &body, &sent_secrets(secret, &[]))
}

/// Asks for the tokens of a device code.
#[boxed]
pub async fn exchange_device_code(
    http: &TokenClient,
    client: &OauthClient,
    secret: Option<&Secret>,
    device_code: &str,
) -> Result<DeviceTokens, TokenFailure> {
    let fields =
        [("grant_type", "urn:ietf:params:oauth:grant-type:device_code"), ("device_code", device_code)];
    let request = form_request(client, secret, &client.token_url, &fields)?;
    let (status, body) = send(http, request).await?;
    Ok(match token_response::error_code(&body).as_deref() {
        Some("authorization_pending") => DeviceTokens::Pending { slow_down: false },
        Some("slow_down") => DeviceTokens::Pending { slow_down: true },
        Some("access_denied" | "authorization_declined") => DeviceTokens::Denied,
        Some("expired_token") => DeviceTokens::Expired,
        _ => DeviceTokens::Issued(token_response::read(status, &body, &sent_secrets(secret, &fields))?),
    })
}

/// Refreshes tokens (RFC 6749, section 6).
pub(super) fn refresh(
    http: &TokenClient,
    client: &OauthClient,
    secret: Option<&Secret>,
    refresh_token: &Secret,
) -> Result<TokenRequest, TokenFailure> {
    let fields = [("grant_type", "refresh_token"), ("refresh_token", text(refresh_token)?)];
    request_tokens(http, client, secret, &fields)
}

/// Requests tokens by the client credentials grant (RFC 6749, section 4.4).
pub(super) fn client_credentials(
    http: &TokenClient,
    client: &OauthClient,
    secret: Option<&Secret>,
) -> Result<TokenRequest, TokenFailure> {
    let scope = client.scopes.join(" ");
    let mut fields = vec![("grant_type", "client_credentials")];
    if !scope.is_empty() {
        fields.push(("scope", &scope));
    }
    request_tokens(http, client, secret, &fields)
}

/// Sends a token request.
fn request_tokens(
    http: &TokenClient,
    client: &OauthClient,
    secret: Option<&Secret>,
    fields: &[(&str, &str)],
) -> Result<TokenRequest, TokenFailure> {
    let sending = send(http, form_request(client, secret, &client.token_url, fields)?);
    let sent = sent_secrets(secret, fields);
    Ok(Box::pin(async move {
        let (status, body) = sending.await?;
        token_response::read(status, &body, &sent)
    }))
}

/// Builds a form. The client authenticates by a header, or in the body where the provider wants that (RFC 6749,
/// section 2.3.1); a client without a secret is named in the body.
fn form_request(
    client: &OauthClient,
    secret: Option<&Secret>,
    url: &str,
    fields: &[(&str, &str)],
) -> Result<HttpRequest, TokenFailure> {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(fields).extend_pairs(&client.parameters);
    let mut request = Request::post(url)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    match secret {
        Some(secret) if client.secret_in_body => {
            body.append_pair("client_id", &client.client_id).append_pair("client_secret", text(secret)?);
        }
        Some(secret) => {
            request = request.header(header::AUTHORIZATION, basic(&client.client_id, text(secret)?).as_str());
        }
        None => drop(body.append_pair("client_id", &client.client_id)),
    }
    request.body(body.finish().into_bytes()).map_err(invalid_url)
}

fn send(
    http: &TokenClient,
    request: HttpRequest,
) -> impl Future<Output = Result<(StatusCode, Zeroizing<Vec<u8>>), TokenFailure>> + Send + use<> {
    let response = http(request);
    async move {
        let response = response.await.map_err(|error| TokenFailure::Unavailable(error.0))?;
        Ok((response.status(), Zeroizing::new(response.into_body())))
    }
}

/// The secrets of a request. A description of an error could repeat them.
fn sent_secrets(secret: Option<&Secret>, fields: &[(&str, &str)]) -> Vec<Secret> {
    fields
        .iter()
        .filter(|(name, _)| matches!(*name, "code" | "code_verifier" | "device_code" | "refresh_token"))
        .map(|(_, value)| Secret::new(value.as_bytes().to_vec()))
        .chain(secret.map(|secret| Secret::new(secret.expose().to_vec())))
        .collect()
}

/// The value of an `Authorization` header: both parts are form-encoded before they are joined.
fn basic(client_id: &str, secret: &str) -> Zeroizing<String> {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = Zeroizing::new(format!("{}:{}", encode(client_id), encode(secret)));
    Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())))
}

/// 256 random bits as 43 characters.
fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

fn text(secret: &Secret) -> Result<&str, TokenFailure> {
    std::str::from_utf8(secret.expose())
        .map_err(|_| TokenFailure::Refused(Unusable::Revoked, "the secret is not UTF-8".to_owned()))
}

fn invalid_url(error: impl std::fmt::Display) -> TokenFailure {
    TokenFailure::Unavailable(format!("a URL of the provider is not valid: {error}"))
}
