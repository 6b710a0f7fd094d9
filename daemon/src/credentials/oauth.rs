//! OAuth2 requests of two grants: client credentials, and authorization code with PKCE (RFC 6749, RFC 7636).
//!
//! The `oauth2` crate builds requests and parses responses, and the sandbox crate's HTTPS client sends them, with its
//! checks of addresses. Tokens are moved into [`Secret`] at once, since the types of `oauth2` are not zeroized. Errors
//! contain the error code of a response and nothing else of it, which can contain a token.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use oauth2::basic::{
    BasicErrorResponse, BasicErrorResponseType, BasicRevocationErrorResponse,
    BasicTokenIntrospectionResponse, BasicTokenType,
};
use oauth2::helpers::deserialize_untagged_enum_case_insensitive;
use oauth2::{
    AccessToken, AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken,
    EndpointNotSet, EndpointSet, HttpRequest, HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl,
    RefreshToken, RequestTokenError, Scope, StandardRevocableToken, TokenResponse, TokenUrl,
};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use toolgate_admission::Unusable;
use toolgate_sandbox::{HostClient, SHORTEST_SECRET, Secret};

use super::document::OauthClient;
use super::injection::is_sendable;

/// Sends a request to a token endpoint or a vault and returns the response with any status, without following redirects.
/// Tests replace it by a fake.
pub type TokenClient = Arc<dyn Fn(HttpRequest) -> TokenResponseFuture + Send + Sync>;

pub type TokenResponseFuture = Pin<Box<dyn Future<Output = Result<HttpResponse, TokenClientError>> + Send>>;

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

/// Tokens of a provider.
pub struct Tokens {
    pub access: Secret,
    /// `None` if the previous refresh token stays valid, or there is none.
    pub refresh: Option<Secret>,
    /// Lifetime of the access token; `None` if the provider does not send it.
    pub lifetime: Option<Duration>,
}

/// Why a provider issued no tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFailure {
    /// The provider refused. Another try would be refused too.
    Refused(Unusable),
    /// The provider did not respond, or not as RFC 6749 specifies.
    Unavailable(String),
}

/// An authorization request (RFC 6749, section 4.1.1).
pub struct AuthorizationRequest {
    /// The URL that the user opens.
    pub url: String,
    /// CSRF token that the response must contain.
    pub state: String,
    /// PKCE verifier: proves that the token request comes from the client that made the authorization request.
    pub verifier: Secret,
}

/// A token request in progress.
pub type TokenRequest = Pin<Box<dyn Future<Output = Result<Tokens, TokenFailure>> + Send>>;

type Client<HasTokenUrl = EndpointSet> = oauth2::Client<
    BasicErrorResponse,
    TokenBody,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    HasTokenUrl,
>;

/// Body of a successful token response (RFC 6749, section 5.1). Unlike the type of `oauth2`, it accepts `expires_in` as text.
#[derive(Debug, Serialize, Deserialize)]
struct TokenBody {
    access_token: AccessToken,
    #[serde(deserialize_with = "deserialize_untagged_enum_case_insensitive")]
    token_type: BasicTokenType,
    #[serde(default, deserialize_with = "deserialize_seconds")]
    expires_in: Option<u64>,
    #[serde(default)]
    refresh_token: Option<RefreshToken>,
}

/// Accepts a number, or its digits as text, as Azure AD sends it.
fn deserialize_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Seconds {
        Number(u64),
        Digits(String),
    }
    match Option::deserialize(from)? {
        None => Ok(None),
        Some(Seconds::Number(seconds)) => Ok(Some(seconds)),
        Some(Seconds::Digits(digits)) => digits.parse().map(Some).map_err(D::Error::custom),
    }
}

impl TokenResponse for TokenBody {
    type TokenType = BasicTokenType;

    fn access_token(&self) -> &AccessToken {
        &self.access_token
    }

    fn token_type(&self) -> &BasicTokenType {
        &self.token_type
    }

    fn expires_in(&self) -> Option<Duration> {
        self.expires_in.map(Duration::from_secs)
    }

    fn refresh_token(&self) -> Option<&RefreshToken> {
        self.refresh_token.as_ref()
    }

    fn scopes(&self) -> Option<&Vec<Scope>> {
        None
    }
}

/// Adapts a [`TokenClient`] to `oauth2`. A type, since rustc cannot prove that the futures of a closure are `Send` here.
struct Sender {
    http: TokenClient,
    /// Status of the response; zero before there is one.
    status: Arc<AtomicU16>,
}

impl Sender {
    fn new(http: &TokenClient) -> Self {
        Self { http: Arc::clone(http), status: Arc::default() }
    }

    fn status(&self) -> u16 {
        self.status.load(Ordering::Relaxed)
    }
}

impl<'c> AsyncHttpClient<'c> for Sender {
    type Error = TokenClientError;
    type Future = TokenResponseFuture;

    fn call(&'c self, request: HttpRequest) -> TokenResponseFuture {
        let (response, status) = ((self.http)(request), Arc::clone(&self.status));
        Box::pin(async move {
            let response = response.await?;
            status.store(response.status().as_u16(), Ordering::Relaxed);
            Ok(response)
        })
    }
}

/// Builds an authorization request with PKCE.
pub fn authorization_request(
    client: &OauthClient,
    authorization_url: &str,
    redirect_url: &str,
) -> Result<AuthorizationRequest, TokenFailure> {
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let authorization = AuthUrl::new(authorization_url.to_owned()).map_err(invalid_url)?;
    let redirect = RedirectUrl::new(redirect_url.to_owned()).map_err(invalid_url)?;
    let configured = build_client(client, None)?.set_auth_uri(authorization).set_redirect_uri(redirect);
    let (url, state) = configured
        .authorize_url(CsrfToken::new_random)
        .add_scopes(client.scopes.iter().cloned().map(Scope::new))
        .set_pkce_challenge(challenge)
        .url();
    let verifier = Secret::new(verifier.into_secret().into_bytes());
    Ok(AuthorizationRequest { url: url.into(), state: state.into_secret(), verifier })
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
    let redirect = RedirectUrl::new(redirect_url.to_owned()).map_err(invalid_url)?;
    let client = build_client(client, secret)?.set_redirect_uri(redirect);
    let (verifier, code) = (PkceCodeVerifier::new(text(verifier)?), AuthorizationCode::new(code.to_owned()));
    let http = Sender::new(http);
    Ok(Box::pin(async move {
        let request = client.exchange_code(code).set_pkce_verifier(verifier);
        let response = request.request_async(&http).await;
        tokens_of(response, http.status())
    }))
}

/// Refreshes tokens (RFC 6749, section 6).
pub fn refresh(
    http: &TokenClient,
    client: &OauthClient,
    secret: Option<&Secret>,
    refresh_token: &Secret,
) -> Result<TokenRequest, TokenFailure> {
    let (client, refresh_token) = (build_client(client, secret)?, RefreshToken::new(text(refresh_token)?));
    let http = Sender::new(http);
    Ok(Box::pin(async move {
        let request = client.exchange_refresh_token(&refresh_token);
        let response = request.request_async(&http).await;
        tokens_of(response, http.status())
    }))
}

/// Requests tokens by the client credentials grant (RFC 6749, section 4.4).
pub fn client_credentials(
    http: &TokenClient,
    client: &OauthClient,
    secret: Option<&Secret>,
) -> Result<TokenRequest, TokenFailure> {
    let scopes: Vec<Scope> = client.scopes.iter().cloned().map(Scope::new).collect();
    let (client, http) = (build_client(client, secret)?, Sender::new(http));
    Ok(Box::pin(async move {
        let request = client.exchange_client_credentials().add_scopes(scopes);
        let response = request.request_async(&http).await;
        tokens_of(response, http.status())
    }))
}

fn build_client(client: &OauthClient, secret: Option<&Secret>) -> Result<Client, TokenFailure> {
    let token_url = TokenUrl::new(client.token_url.clone()).map_err(invalid_url)?;
    let place = if client.secret_in_body { AuthType::RequestBody } else { AuthType::BasicAuth };
    let built = Client::<EndpointNotSet>::new(ClientId::new(client.client_id.clone())).set_auth_type(place);
    let built = match secret {
        Some(secret) => built.set_client_secret(ClientSecret::new(text(secret)?)),
        None => built,
    };
    Ok(built.set_token_uri(token_url))
}

fn text(secret: &Secret) -> Result<String, TokenFailure> {
    let text = std::str::from_utf8(secret.expose()).map_err(|_| TokenFailure::Refused(Unusable::Revoked))?;
    Ok(text.to_owned())
}

fn invalid_url(error: oauth2::url::ParseError) -> TokenFailure {
    TokenFailure::Unavailable(format!("a URL of the provider is not valid: {error}"))
}

type RequestError = RequestTokenError<TokenClientError, BasicErrorResponse>;

fn tokens_of(response: Result<TokenBody, RequestError>, status: u16) -> Result<Tokens, TokenFailure> {
    let body = response.map_err(|error| token_failure(&error, status))?;
    let unavailable = |why: &str| Err(TokenFailure::Unavailable(why.to_owned()));
    if *body.token_type() != BasicTokenType::Bearer {
        return unavailable("the provider issues tokens of another type than `Bearer`");
    }
    let secret = |text: &String| Secret::new(text.clone().into_bytes());
    let access = secret(body.access_token().secret());
    if !is_sendable(access.expose()) {
        return unavailable("a header cannot contain the provider's token");
    }
    if access.expose().len() < SHORTEST_SECRET {
        return unavailable("the provider's token is too short to be redacted in responses");
    }
    let refresh = body.refresh_token().map(|token| secret(token.secret()));
    Ok(Tokens { access, refresh, lifetime: body.expires_in() })
}

/// INVARIANT: the text contains the error code and the status of the response, and nothing else of it.
fn token_failure(error: &RequestError, status: u16) -> TokenFailure {
    use BasicErrorResponseType as Code;
    let why = match error {
        RequestTokenError::ServerResponse(response) => match response.error() {
            Code::InvalidGrant => return TokenFailure::Refused(Unusable::Expired),
            Code::InvalidClient | Code::UnauthorizedClient => {
                return TokenFailure::Refused(Unusable::Revoked);
            }
            Code::InvalidScope => {
                "the provider responded `invalid_scope`: it does not grant the credential's `scopes` to this client"
                    .to_owned()
            }
            Code::Extension(_) => "the provider responded with an error code of its own".to_owned(),
            known => format!("the provider responded `{}`", known.as_ref()),
        },
        RequestTokenError::Request(error) => error.0.clone(),
        RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
            format!("the provider's response is not one of OAuth2, its status is {status}")
        }
    };
    TokenFailure::Unavailable(why)
}
