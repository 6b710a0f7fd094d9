//! OAuth2 in two grants: a client of its own right, and a person who says yes, with PKCE (RFC 6749, RFC 7636).
//!
//! The library builds requests and reads answers; who sends them is handed in, so that they leave by the same vetted way
//! as everything else. What the library hands out is turned into secrets at once: its own types keep copies that are not
//! wiped. Of a provider's answer nothing is told but its code, since the rest can hold a token.

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
use toolgate_sandbox::{SHORTEST_SECRET, Secret};

use super::document::OauthClient;
use super::inject::sendable;

/// Sends a request for a token and gives back its answer, whatever status it has. Follows no redirects.
pub type TokenClient = Arc<dyn Fn(HttpRequest) -> TokenAnswer + Send + Sync>;

/// What comes of sending one.
pub type TokenAnswer = Pin<Box<dyn Future<Output = Result<HttpResponse, TokenClientError>> + Send>>;

/// A request for a token got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenClientError(pub String);

/// What a provider handed out.
pub struct Tokens {
    pub access: Secret,
    /// None where the one before stays good, or there is none.
    pub refresh: Option<Secret>,
    /// How long the access token is good; none where the provider does not say.
    pub life: Option<Duration>,
}

/// Why a provider handed out nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoTokens {
    /// It said no, and will say so again.
    Refused(Unusable),
    /// It did not answer, or not as OAuth2 says.
    Unavailable(String),
}

/// An authorization that a person is asked for.
pub struct Asked {
    /// Where to.
    pub url: String,
    /// What comes back with the answer, and is known to nobody else.
    pub state: String,
    /// What proves that the one who asks for tokens is the one who asked for the authorization.
    pub verifier: Secret,
}

/// A request for tokens under way.
pub type Fetching = Pin<Box<dyn Future<Output = Result<Tokens, NoTokens>> + Send>>;

type Client<HasTokenUrl = EndpointSet> = oauth2::Client<
    BasicErrorResponse,
    Handed,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    HasTokenUrl,
>;

/// An answer with tokens (RFC 6749, section 5.1). Not the library's own, for which a life is always a number.
#[derive(Debug, Serialize, Deserialize)]
struct Handed {
    access_token: AccessToken,
    #[serde(deserialize_with = "deserialize_untagged_enum_case_insensitive")]
    token_type: BasicTokenType,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
    #[serde(default)]
    refresh_token: Option<RefreshToken>,
}

/// A number, or its digits as text, which Azure AD sends.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Digits(String),
    }
    match Option::deserialize(from)? {
        None => Ok(None),
        Some(Written::Number(seconds)) => Ok(Some(seconds)),
        Some(Written::Digits(digits)) => digits.parse().map(Some).map_err(D::Error::custom),
    }
}

impl TokenResponse for Handed {
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

/// A type of its own, since the compiler cannot tell of a closure here that its futures may go to another thread.
struct Sender {
    http: TokenClient,
    /// Of the answer; zero before there is one.
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
    type Future = TokenAnswer;

    fn call(&'c self, request: HttpRequest) -> TokenAnswer {
        let (sent, status) = ((self.http)(request), Arc::clone(&self.status));
        Box::pin(async move {
            let answer = sent.await?;
            status.store(answer.status().as_u16(), Ordering::Relaxed);
            Ok(answer)
        })
    }
}

/// Where a person says yes to these scopes.
pub fn ask(client: &OauthClient, authorization_url: &str, redirect_url: &str) -> Result<Asked, NoTokens> {
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let authorization = AuthUrl::new(authorization_url.to_owned()).map_err(unsound)?;
    let asked = client_of(client, None)?.set_auth_uri(authorization);
    let asked = asked.set_redirect_uri(redirect(redirect_url)?);
    let (url, state) = asked
        .authorize_url(CsrfToken::new_random)
        .add_scopes(client.scopes.iter().cloned().map(Scope::new))
        .set_pkce_challenge(challenge)
        .url();
    let verifier = Secret::new(verifier.into_secret().into_bytes());
    Ok(Asked { url: url.into(), state: state.into_secret(), verifier })
}

/// Tokens for the code that a person's yes gave.
pub fn exchange(
    http: &TokenClient,
    client: &OauthClient,
    secret: Option<&Secret>,
    redirect_url: &str,
    code: &str,
    verifier: &Secret,
) -> Result<Fetching, NoTokens> {
    let client = client_of(client, secret)?.set_redirect_uri(redirect(redirect_url)?);
    let (verifier, code) = (PkceCodeVerifier::new(text(verifier)?), AuthorizationCode::new(code.to_owned()));
    let http = Sender::new(http);
    Ok(Box::pin(async move {
        let request = client.exchange_code(code).set_pkce_verifier(verifier);
        let answered = request.request_async(&http).await;
        tokens(answered, http.status())
    }))
}

/// The next tokens.
pub fn refresh(
    http: &TokenClient,
    client: &OauthClient,
    secret: Option<&Secret>,
    refresh_token: &Secret,
) -> Result<Fetching, NoTokens> {
    let (client, refresh_token) = (client_of(client, secret)?, RefreshToken::new(text(refresh_token)?));
    let http = Sender::new(http);
    Ok(Box::pin(async move {
        let request = client.exchange_refresh_token(&refresh_token);
        let answered = request.request_async(&http).await;
        tokens(answered, http.status())
    }))
}

/// Tokens for the client itself.
pub fn of_client(
    http: &TokenClient,
    client: &OauthClient,
    secret: Option<&Secret>,
) -> Result<Fetching, NoTokens> {
    let scopes: Vec<Scope> = client.scopes.iter().cloned().map(Scope::new).collect();
    let (client, http) = (client_of(client, secret)?, Sender::new(http));
    Ok(Box::pin(async move {
        let request = client.exchange_client_credentials().add_scopes(scopes);
        let answered = request.request_async(&http).await;
        tokens(answered, http.status())
    }))
}

fn client_of(client: &OauthClient, secret: Option<&Secret>) -> Result<Client, NoTokens> {
    let token_url = TokenUrl::new(client.token_url.clone()).map_err(unsound)?;
    let place = if client.secret_in_body { AuthType::RequestBody } else { AuthType::BasicAuth };
    let made = Client::<EndpointNotSet>::new(ClientId::new(client.client_id.clone())).set_auth_type(place);
    let made = match secret {
        Some(secret) => made.set_client_secret(ClientSecret::new(text(secret)?)),
        None => made,
    };
    Ok(made.set_token_uri(token_url))
}

fn redirect(url: &str) -> Result<RedirectUrl, NoTokens> {
    RedirectUrl::new(url.to_owned()).map_err(unsound)
}

fn text(secret: &Secret) -> Result<String, NoTokens> {
    let text = std::str::from_utf8(secret.expose()).map_err(|_| NoTokens::Refused(Unusable::Revoked))?;
    Ok(text.to_owned())
}

fn unsound(error: oauth2::url::ParseError) -> NoTokens {
    NoTokens::Unavailable(format!("an address of the provider is not sound: {error}"))
}

type Refused = RequestTokenError<TokenClientError, BasicErrorResponse>;

fn tokens(answered: Result<Handed, Refused>, status: u16) -> Result<Tokens, NoTokens> {
    let answer = answered.map_err(|refused| no_tokens(&refused, status))?;
    if *answer.token_type() != BasicTokenType::Bearer {
        return Err(NoTokens::Unavailable(
            "the provider hands out tokens of another type than `Bearer`".into(),
        ));
    }
    let secret = |text: &String| Secret::new(text.clone().into_bytes());
    let access = secret(answer.access_token().secret());
    if !sendable(access.expose()) {
        return Err(NoTokens::Unavailable("the provider's token cannot stand in a header".into()));
    }
    if access.expose().len() < SHORTEST_SECRET {
        return Err(NoTokens::Unavailable(
            "the provider's token is too short to be blanked where it comes back".into(),
        ));
    }
    let refresh = answer.refresh_token().map(|token| secret(token.secret()));
    Ok(Tokens { access, refresh, life: answer.expires_in() })
}

/// INVARIANT: nothing of the answer is told but its code and its status.
fn no_tokens(refused: &Refused, status: u16) -> NoTokens {
    match refused {
        RequestTokenError::ServerResponse(response) => match response.error() {
            BasicErrorResponseType::InvalidGrant => NoTokens::Refused(Unusable::Expired),
            BasicErrorResponseType::InvalidClient | BasicErrorResponseType::UnauthorizedClient => {
                NoTokens::Refused(Unusable::Revoked)
            }
            BasicErrorResponseType::InvalidScope => NoTokens::Unavailable(
                "the provider answered `invalid_scope`: it does not give the credential's `scopes` to this client"
                    .into(),
            ),
            BasicErrorResponseType::Extension(_) => {
                NoTokens::Unavailable("the provider answered with an error of its own".into())
            }
            known => NoTokens::Unavailable(format!("the provider answered `{}`", known.as_ref())),
        },
        RequestTokenError::Request(error) => NoTokens::Unavailable(error.0.clone()),
        RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
            NoTokens::Unavailable(format!("the provider's answer is not one of OAuth2, its status is {status}"))
        }
    }
}
