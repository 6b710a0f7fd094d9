//! Sign-in of people by OpenID Connect: the authorization code flow with PKCE, `state` and `nonce` (OpenID Connect Core, section
//! 3.1).
//!
//! The daemon keeps nothing of a sign-in that waits for its response: `state`, `nonce` and PKCE verifier are derived from a random
//! cookie of the browser, by HMAC under a key of this run. So a flood of sign-ins takes no memory, and a response counts only in the
//! browser that asked for it. The provider accepts each code once.

mod device;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::Value;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use toolgate_admission::Unusable;
use toolgate_api::credential::AuthorizationServer;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::token::Role;
use toolgate_macros::boxed;
use toolgate_sandbox::Secret;
use toolgate_state::config::KvPath;
use toolgate_state::config::{OidcRoleSection, OidcSection};
use url::Url;

pub use device::DeviceSignIn;

use super::caller::Caller;
use super::issuer_keys::{IssuerKeys, NoKey};
use super::jwt::{ClaimTexts, InvalidToken, UnverifiedToken, claim_texts, display_text, person_name};
use crate::credentials::{
    OauthClient, SignInMetadata, TokenClient, TokenFailure, Tokens, Vault, authorization_url_with,
    exchange_code, fetch_sign_in_metadata, fetch_with_token, read_password,
};

/// Time for a person to sign in at the provider.
const SIGN_IN_MS: u64 = 10 * 60 * 1_000;
/// How long the provider's metadata are used.
const METADATA_KEPT: Duration = Duration::from_secs(3600);
/// Interval after metadata could not be fetched.
const METADATA_RETRY: Duration = Duration::from_secs(5);
/// Time for a fetch of metadata.
const FETCH_TIME: Duration = Duration::from_secs(20);
/// Concurrent code exchanges, which anyone can cause.
const EXCHANGES: usize = 16;
/// Values of the claim that the log shows.
const LOGGED_VALUES: usize = 20;

/// Signs people in. Cheap to clone.
#[derive(Clone)]
pub struct PersonSignIn(Arc<Inner>);

struct Inner {
    keys: IssuerKeys,
    client_id: String,
    scopes: Vec<String>,
    secret: ClientSecret,
    claim: String,
    /// The name of the provider on the button.
    display_name: Option<String>,
    roles: Vec<RoleRule>,
    connection: SignInConnection,
    /// Derives `state`, `nonce` and verifier from a cookie.
    derivation: hmac::Key,
    /// Held during a fetch, so that a flood of sign-ins waits for one.
    metadata: Mutex<KnownMetadata>,
    exchanges: Arc<Semaphore>,
}

/// How the provider is reached, and how it leads back.
pub struct SignInConnection {
    pub http: TokenClient,
    /// Hosts that may be used without TLS.
    pub plain_http: Vec<String>,
    pub redirect_url: String,
    /// The vault, if the client secret is there.
    pub vault: Option<Vault>,
}

enum ClientSecret {
    None,
    File(PathBuf),
    Vault(Vault, KvPath),
}

/// The role of the people with a value of the claim.
struct RoleRule {
    value: String,
    role: Role,
    organization: Option<Name>,
    agents: Option<Arc<[Name]>>,
}

/// The metadata of the provider, with the time of the last fetch.
#[derive(Default)]
struct KnownMetadata {
    metadata: Option<Arc<SignInMetadata>>,
    asked: Option<Instant>,
}

/// A sign-in that waits for the response of the provider.
pub struct BegunSignIn {
    /// The URL of the authorization request.
    pub url: String,
    /// The value of the cookie that the browser must send with the response.
    pub cookie: String,
    /// Life of the cookie, in seconds.
    pub seconds: u64,
}

/// A person who signed in.
#[derive(Debug)]
pub struct SignedInPerson {
    pub caller: Caller,
    /// What the provider calls the person. It decides nothing: people may choose it.
    pub name: Option<String>,
}

/// Lets one sign-in be finished.
pub struct SignInPermit {
    /// No semaphore here is ever closed.
    _permit: Option<OwnedSemaphorePermit>,
}

/// The parameters of the provider's redirect.
#[derive(Default)]
pub struct SignInResponse {
    pub state: Option<String>,
    pub code: Option<String>,
    pub error: Option<String>,
    /// The issuer (RFC 9207).
    pub iss: Option<String>,
}

#[boxed]
impl PersonSignIn {
    /// Returns none if random bytes or a part of the settings are missing, which the settings' check excludes.
    pub fn new(settings: &OidcSection, connection: SignInConnection) -> Option<Self> {
        let in_vault = || {
            let path = KvPath::parse(settings.client_secret_vault_kv.as_deref()?)?;
            Some(ClientSecret::Vault(connection.vault.clone()?, path))
        };
        let secret = match (&settings.client_secret_file, &settings.client_secret_vault_kv) {
            (Some(path), _) => ClientSecret::File(path.clone()),
            (None, Some(_)) => in_vault()?,
            (None, None) => ClientSecret::None,
        };
        let random = ring::rand::SystemRandom::new();
        Some(Self(Arc::new(Inner {
            keys: IssuerKeys::new(settings.issuer.clone(), None),
            client_id: settings.client_id.clone(),
            scopes: settings.scopes.clone(),
            secret,
            claim: settings.claim.clone(),
            display_name: settings.display_name.clone(),
            roles: settings.roles().iter().map(RoleRule::of).collect::<Option<_>>()?,
            connection,
            derivation: hmac::Key::generate(hmac::HMAC_SHA256, &random).ok()?,
            metadata: Mutex::default(),
            exchanges: Arc::new(Semaphore::new(EXCHANGES)),
        })))
    }

    /// Fetches the keys of the issuer until `stop`.
    pub async fn run_background(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.0.keys.keep_fetched(&self.0.connection.http)).await;
    }

    /// The name of the provider, for people.
    pub fn provider(&self) -> String {
        if let Some(name) = &self.0.display_name {
            return name.clone();
        }
        let host = Url::parse(self.0.keys.issuer()).ok().and_then(|url| url.host_str().map(str::to_owned));
        host.unwrap_or_else(|| self.0.keys.issuer().to_owned())
    }

    /// The page where a person signs out of the provider, if it is known.
    pub fn sign_out_url(&self) -> Option<String> {
        let known = self.0.metadata.try_lock().ok()?;
        let mut url = Url::parse(known.metadata.as_ref()?.end_session_endpoint.as_deref()?).ok()?;
        url.query_pairs_mut().append_pair("client_id", &self.0.client_id);
        Some(url.into())
    }

    /// Begins a sign-in.
    ///
    /// # Errors
    ///
    /// `API_UNAVAILABLE` if the provider's metadata cannot be had.
    pub async fn begin(&self, now_ms: u64) -> Result<BegunSignIn, CallError> {
        let metadata = self.metadata().await?;
        let server = &metadata.server;
        let cookie = new_cookie(now_ms)?;
        let endpoint = server.authorization_endpoint.as_deref().ok_or_else(no_endpoints)?;
        let (state, verifier) = (self.derive("state", &cookie), self.derive("verifier", &cookie));
        let (client, redirect_url) = (self.client(server)?, &self.0.connection.redirect_url);
        let url = authorization_url_with(&client, endpoint, redirect_url, (&state, &verifier));
        let mut url = url.map_err(|failure| exchange_failure(&failure))?;
        url.query_pairs_mut().append_pair("nonce", &self.derive("nonce", &cookie));
        Ok(BegunSignIn { url: url.into(), cookie, seconds: SIGN_IN_MS / 1_000 })
    }

    /// Waits for the permit to finish a sign-in. The request waits for it itself, so that browsers which disconnect leave no
    /// tasks that wait.
    pub async fn permit(&self) -> SignInPermit {
        SignInPermit { _permit: Arc::clone(&self.0.exchanges).acquire_owned().await.ok() }
    }

    /// Finishes the sign-in of the browser with this cookie. Returns the person as a caller until `expires_ms`.
    ///
    /// # Errors
    ///
    /// `EXPIRED` if the response is not that of a sign-in of this browser, `UNAUTHENTICATED` if the provider or the ID token refuses,
    /// `FORBIDDEN` for a person without a role, `API_UNAVAILABLE`.
    pub async fn finish(
        &self,
        _permit: SignInPermit,
        cookie: &str,
        response: SignInResponse,
        expires_ms: u64,
        now_ms: u64,
    ) -> Result<SignedInPerson, CallError> {
        let is_late = cookie
            .rsplit_once('.')
            .and_then(|(_, end)| end.parse().ok())
            .is_none_or(|end: u64| end <= now_ms);
        if is_late || !self.is_derived("state", cookie, response.state.as_deref().unwrap_or_default()) {
            return Err(no_sign_in());
        }
        let metadata = self.metadata().await?;
        self.check_issuer(&metadata.server, response.iss.as_deref())?;
        let code = authorization_code(response)?;
        let tokens = self.exchange(&metadata.server, &code, &self.derive("verifier", cookie)).await?;
        self.person(&metadata, &tokens, Some(&self.derive("nonce", cookie)), expires_ms, now_ms).await
    }

    /// The person whom the tokens are of, as a caller until `expires_ms`.
    async fn person(
        &self,
        metadata: &SignInMetadata,
        tokens: &Tokens,
        nonce: Option<&str>,
        expires_ms: u64,
        now_ms: u64,
    ) -> Result<SignedInPerson, CallError> {
        let (subject, mut values, mut name) = self.verify(tokens, nonce, now_ms).await?;
        let has_none = matches!(&values, ClaimTexts::Missing | ClaimTexts::TooMany)
            || values == ClaimTexts::Texts(Vec::new());
        if let Some(endpoint) = metadata.userinfo_endpoint.as_deref().filter(|_| has_none) {
            let (told, told_name) = self.userinfo(endpoint, &tokens.access, &subject).await?;
            name = name.or(told_name);
            // The ID token says more about a claim that is nowhere.
            if told != ClaimTexts::Missing {
                values = told;
            }
        }
        Ok(SignedInPerson { caller: self.caller(&subject, &values, expires_ms)?, name })
    }

    /// Checks `iss` against mix-up attacks (RFC 9207, section 2.4).
    fn check_issuer(&self, server: &AuthorizationServer, issuer: Option<&str>) -> Result<(), CallError> {
        let fits = match issuer {
            Some(issuer) => issuer == server.issuer,
            None => !server.authorization_response_iss_parameter_supported,
        };
        if fits { Ok(()) } else { Err(refusal("the response is of another issuer")) }
    }

    async fn exchange(
        &self,
        server: &AuthorizationServer,
        code: &str,
        verifier: &str,
    ) -> Result<Tokens, CallError> {
        let (client, secret) = (self.client(server)?, self.secret().await?);
        let (http, redirect_url) = (&self.0.connection.http, &self.0.connection.redirect_url);
        let verifier = Secret::new(verifier.as_bytes().to_vec());
        let request = exchange_code(http, &client, secret.as_ref(), redirect_url, code, &verifier);
        let request = request.map_err(|failure| exchange_failure(&failure))?;
        request.await.map_err(|failure| exchange_failure(&failure))
    }

    /// Verifies the ID token. Returns its subject, the values of the claim, and the name of the person.
    async fn verify(
        &self,
        tokens: &Tokens,
        nonce: Option<&str>,
        now_ms: u64,
    ) -> Result<(String, ClaimTexts, Option<String>), CallError> {
        let inner = &self.0;
        let text = tokens.id.as_ref().ok_or_else(no_id_token)?;
        let text = std::str::from_utf8(text.expose()).unwrap_or_default();
        let invalid = |why: InvalidToken| refusal(&format!("the ID token is not valid: {why}"));
        let token = UnverifiedToken::parse(text).map_err(invalid)?;
        let issuer = token.issuer().map_err(invalid)?;
        if issuer != inner.keys.issuer() {
            return Err(other_issuer(issuer));
        }
        let key = inner.keys.key_of(&token).await.map_err(|error| match error {
            NoKey::Invalid(why) => invalid(why),
            NoKey::NotFetched => provider_unavailable("its keys cannot be fetched"),
        })?;
        let subject = token.verify_id(&key, &inner.client_id, nonce, now_ms).map_err(invalid)?;
        Ok((subject, token.texts(&inner.claim), token.person_name()))
    }

    /// The values of the claim where the ID token has none (OpenID Connect Core, section 5.3). The claims of another subject do not
    /// count.
    async fn userinfo(
        &self,
        endpoint: &str,
        token: &Secret,
        subject: &str,
    ) -> Result<(ClaimTexts, Option<String>), CallError> {
        let claims = fetch_with_token(&self.0.connection.http, endpoint, token).await.map_err(|why| {
            tracing::warn!(why, "the provider of the console does not tell the claims of a person");
            provider_unavailable("it does not tell your claims")
        })?;
        match claims.get("sub").and_then(Value::as_str) == Some(subject) {
            true => Ok((claim_texts(&claims, &self.0.claim), person_name(&claims))),
            false => Err(refusal("the provider tells the claims of another person")),
        }
    }

    /// The person with the role that the values give.
    fn caller(&self, subject: &str, values: &ClaimTexts, expires_ms: u64) -> Result<Caller, CallError> {
        let fits =
            |rule: &&RoleRule| matches!(values, ClaimTexts::Texts(texts) if texts.contains(&rule.value));
        let rule = self.0.roles.iter().find(fits).ok_or_else(|| self.no_role(subject, values))?;
        Ok(Caller {
            // An issuer has no fragment, and ids of tokens have no colon.
            token_id: format!("oidc:{}#{subject}", self.0.keys.issuer()).into(),
            role: rule.role,
            organization: rule.organization.clone(),
            agents: rule.agents.clone(),
            revoked: CancellationToken::new(),
            expires_ms: Some(expires_ms),
            addresses: None,
            user: None,
        })
    }

    fn no_role(&self, subject: &str, values: &ClaimTexts) -> CallError {
        let claim = &*self.0.claim;
        let subject = display_text(subject);
        let (why, way_out) = match values {
            ClaimTexts::Texts(texts) => {
                let shown: Vec<String> =
                    texts.iter().take(LOGGED_VALUES).map(|value| display_text(value)).collect();
                tracing::info!(subject, claim, values = ?shown, "a person without a role was refused");
                (
                    format!("no value of your claim `{claim}` has a role here"),
                    "ask the operator for an entry of `[[console.oidc.roles]]`; the daemon's log has your values",
                )
            }
            ClaimTexts::Missing => {
                tracing::info!(
                    subject,
                    claim,
                    "a person without the claim that decides about roles was refused"
                );
                (
                    format!("it sends no claim `{claim}`"),
                    "ask the operator: the provider must send the claim, or `claim` of `[console.oidc]` names another one",
                )
            }
            ClaimTexts::TooMany => {
                tracing::info!(subject, claim, "a person whose provider leaves the claim out was refused");
                (
                    format!("it leaves out your claim `{claim}`, since you have too many values"),
                    "ask the operator: let the provider send the groups of this application alone, or its roles",
                )
            }
        };
        CallError::new(ErrorType::Forbidden, format!("the provider knows you, but {why}"), way_out)
    }

    async fn metadata(&self) -> Result<Arc<SignInMetadata>, CallError> {
        let mut known = self.0.metadata.lock().await;
        let interval = if known.metadata.is_some() { METADATA_KEPT } else { METADATA_RETRY };
        if known.asked.is_none_or(|asked| asked.elapsed() >= interval) {
            let SignInConnection { http, plain_http, .. } = &self.0.connection;
            let fetching = fetch_sign_in_metadata(http, self.0.keys.issuer(), plain_http);
            let fetched = timeout(FETCH_TIME, fetching)
                .await
                .unwrap_or_else(|_| Err("there was no response in time".to_owned()));
            known.asked = Some(Instant::now());
            match fetched {
                Ok(metadata) => known.metadata = Some(Arc::new(metadata)),
                Err(reason) => {
                    tracing::warn!(
                        issuer = self.0.keys.issuer(),
                        reason,
                        "the metadata of the console's issuer cannot be used"
                    );
                }
            }
        }
        known
            .metadata
            .clone()
            .ok_or_else(|| provider_unavailable("its metadata cannot be used; the daemon's log says why"))
    }

    fn client(&self, server: &AuthorizationServer) -> Result<OauthClient, CallError> {
        let token_url = server.token_endpoint.clone().ok_or_else(no_endpoints)?;
        let methods = &server.token_endpoint_auth_methods_supported;
        let takes = |method: &str| methods.iter().any(|known| known == method);
        Ok(OauthClient {
            client_id: self.0.client_id.clone(),
            token_url,
            scopes: self.0.scopes.clone(),
            secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
            parameters: Default::default(),
        })
    }

    /// The client secret, as it is now. A client without one proves itself by PKCE alone.
    async fn secret(&self) -> Result<Option<Secret>, CallError> {
        let missing = |why: String| {
            tracing::warn!(why, "the client secret of the console cannot be read");
            provider_unavailable("the daemon has no client secret for it")
        };
        match &self.0.secret {
            ClientSecret::None => Ok(None),
            ClientSecret::File(path) => {
                read_password(path).map(Some).map_err(|error| missing(error.to_string()))
            }
            ClientSecret::Vault(vault, path) => {
                let value = vault.read_kv(path).await.map_err(|error| missing(error.to_string()))?;
                Ok(Some(Secret::new(value.text.0.as_bytes().to_vec())))
            }
        }
    }

    /// A value of 43 characters that belongs to a cookie.
    fn derive(&self, purpose: &str, cookie: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0.derivation, &message(purpose, cookie)))
    }

    /// Compares in constant time.
    fn is_derived(&self, purpose: &str, cookie: &str, value: &str) -> bool {
        let tag = URL_SAFE_NO_PAD.decode(value).unwrap_or_default();
        hmac::verify(&self.0.derivation, &message(purpose, cookie), &tag).is_ok()
    }
}

impl RoleRule {
    fn of(section: &OidcRoleSection) -> Option<Self> {
        let name = |text: &String| Name::parse(text).ok();
        let agents = section.agents.as_ref().map(|agents| agents.iter().map(name).collect::<Option<_>>());
        Some(Self {
            value: section.value.clone(),
            role: section.role?,
            organization: section
                .organization
                .as_ref()
                .map(name)
                .map_or(Some(None), |name| name.map(Some))?,
            agents: agents.map_or(Some(None), |agents| agents.map(Some))?,
        })
    }
}

fn message(purpose: &str, cookie: &str) -> Vec<u8> {
    [purpose.as_bytes(), &[0], cookie.as_bytes()].concat()
}

/// 256 random bits, and the time at which the sign-in ends.
fn new_cookie(now_ms: u64) -> Result<String, CallError> {
    let random = ring::rand::generate::<[u8; 32]>(&ring::rand::SystemRandom::new()).map_err(|_| {
        CallError::new(ErrorType::Unavailable, "the system gives no random bytes", "try again later")
    })?;
    Ok(format!("{}.{}", URL_SAFE_NO_PAD.encode(random.expose()), now_ms.saturating_add(SIGN_IN_MS)))
}

/// The code of a response, or the error of a refusal (RFC 6749, section 4.1.2.1). An error code with other characters is not
/// repeated.
fn authorization_code(response: SignInResponse) -> Result<String, CallError> {
    match (response.code, response.error) {
        (Some(code), None) => Ok(code),
        (_, error) => {
            let is_told = |error: &String| {
                error.len() <= 40 && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            };
            let error = error.filter(is_told).unwrap_or_else(|| "no code".to_owned());
            Err(refusal(&format!("the provider refused the sign-in: {error}")))
        }
    }
}

fn exchange_failure(failure: &TokenFailure) -> CallError {
    match failure {
        TokenFailure::Refused(Unusable::Revoked, said) => {
            tracing::warn!(said, "the console's provider refuses its client");
            provider_unavailable("it does not know the daemon as a client, or rejects its secret")
        }
        TokenFailure::Refused(..) => {
            refusal("the provider does not accept the code: it was used before, or is too old")
        }
        TokenFailure::Unavailable(why) => {
            tracing::warn!(why, "the console's provider sends no tokens");
            provider_unavailable("it sends no tokens")
        }
    }
}

fn no_sign_in() -> CallError {
    CallError::new(
        ErrorType::Expired,
        "this browser waits for no such sign-in: it is too old, was used, or was begun elsewhere",
        "begin again on the page for signing in",
    )
}

fn refusal(why: &str) -> CallError {
    CallError::new(ErrorType::Unauthenticated, why, "begin again on the page for signing in")
}

/// The refusal of an ID token by its issuer, which many settings spell without the slash at its end.
fn other_issuer(issuer: &str) -> CallError {
    let issuer = display_text(issuer);
    let hint = format!(
        "if that is your provider, let the operator write `issuer = \"{issuer}\"` in `[console.oidc]`: it is spelled as in the ID tokens"
    );
    let why = InvalidToken::Issuer(issuer);
    CallError::new(ErrorType::Unauthenticated, format!("the ID token is not valid: {why}"), hint)
}

fn no_id_token() -> CallError {
    CallError::new(
        ErrorType::Unauthenticated,
        "the provider sent no ID token",
        "ask the operator: the provider must speak OpenID Connect, and `scopes` of `[console.oidc]` must have `openid`",
    )
}

fn no_endpoints() -> CallError {
    provider_unavailable("its metadata lack an endpoint")
}

fn provider_unavailable(why: &str) -> CallError {
    let message = format!("the provider cannot be used: {why}");
    CallError::new(
        ErrorType::ApiUnavailable,
        message,
        "try again later, or sign in with a token; the daemon's log says more",
    )
}

#[cfg(test)]
mod tests;
