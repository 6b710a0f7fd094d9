//! Access tokens of OAuth 2.1 authorization servers: the issuers, their keys, and the tokens that were verified.
//!
//! One task for each issuer fetches its keys (`issuer_keys`). A key that its issuer no longer has ends the tokens that it signed,
//! also the verified ones and their streams.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::token::Role;
use toolgate_audit::sha256;
use toolgate_macros::boxed;
use toolgate_state::config::OauthSection;

use super::caller::Caller;
use super::issuer_keys::{IssuerKeys, NoKey};
use super::jwt::{Expected, InvalidToken, UnverifiedToken, display_text};
use crate::credentials::TokenClient;

/// Verified tokens that are remembered. Others are verified again.
const REMEMBERED: usize = 4096;
/// Interval between two log lines about refused tokens, which anyone can send.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The authorization servers whose access tokens are accepted. Cheap to clone.
#[derive(Clone)]
pub struct AccessTokens(Arc<Inner>);

struct Inner {
    issuers: Vec<Issuer>,
    scopes: Vec<String>,
    /// The callers of verified tokens, by the tokens' SHA-256.
    verified: Mutex<HashMap<[u8; 32], Arc<Caller>>>,
    refusals: Mutex<RefusalLog>,
}

/// An authorization server.
struct Issuer {
    keys: IssuerKeys,
    audience: String,
    audience_claim: String,
    agent_claim: String,
    /// Empty if calls are made for no user.
    user_claim: String,
}

/// When the last refusal was logged, and the number since.
#[derive(Default)]
struct RefusalLog {
    last: Option<Instant>,
    unlogged: u64,
}

#[boxed]
impl AccessTokens {
    /// None without issuers.
    pub fn new(settings: &OauthSection) -> Option<Self> {
        let resource = settings.resource.clone()?;
        let issuers = settings.issuers().iter().map(|issuer| Issuer {
            keys: IssuerKeys::new(issuer.issuer.clone(), issuer.jwks_uri.clone()),
            audience: issuer.audience.clone().unwrap_or_else(|| resource.clone()),
            audience_claim: issuer.audience_claim.clone(),
            agent_claim: issuer.agent_claim.clone(),
            user_claim: issuer.user_claim.clone(),
        });
        Some(Self(Arc::new(Inner {
            issuers: issuers.collect(),
            scopes: settings.scopes.clone().unwrap_or_default(),
            verified: Mutex::default(),
            refusals: Mutex::default(),
        })))
    }

    /// Fetches the keys of every issuer until `stop`.
    pub async fn run_background(self, http: TokenClient, stop: CancellationToken) {
        let fetching = join_all(self.0.issuers.iter().map(|issuer| issuer.keys.keep_fetched(&http)));
        stop.run_until_cancelled(fetching).await;
    }

    /// Returns the caller for an access token: the agent that the token names, which need not exist.
    ///
    /// # Errors
    ///
    /// `UNAUTHENTICATED` with the reason, `FORBIDDEN` without the scopes, `UNAVAILABLE` before the issuer's keys were fetched.
    pub async fn authenticate(&self, text: &str, now_ms: u64) -> Result<Arc<Caller>, CallError> {
        let hash = sha256(text.as_bytes()).0;
        if let Some(caller) = self.find_verified(&hash, now_ms) {
            return Ok(caller);
        }
        let caller = self.verify(text, now_ms).await.inspect_err(|error| self.log(error))?;
        let caller = Arc::new(caller);
        self.remember(hash, &caller, now_ms);
        Ok(caller)
    }

    async fn verify(&self, text: &str, now_ms: u64) -> Result<Caller, CallError> {
        let invalid = |why: InvalidToken| authentication_error(&why.to_string());
        let token = UnverifiedToken::parse(text).map_err(invalid)?;
        let named = token.issuer().map_err(invalid)?;
        let issuer = self.0.issuers.iter().find(|issuer| issuer.keys.issuer() == named);
        let issuer = issuer.ok_or_else(|| invalid(InvalidToken::Issuer(display_text(named))))?;
        let key = issuer.keys.key_of(&token).await.map_err(no_key)?;
        let Issuer { audience, audience_claim, agent_claim, user_claim, .. } = issuer;
        let expected = Expected { audience, audience_claim, agent_claim, user_claim };
        let claims = token.verify(&key, &expected, now_ms).map_err(invalid)?;
        if let Some(missing) = self.0.scopes.iter().find(|scope| !claims.scopes.contains(scope)) {
            return Err(CallError::new(
                ErrorType::Forbidden,
                format!("the access token has no scope `{missing}`"),
                format!("request a token with the scopes `{}`", self.0.scopes.join(" ")),
            ));
        }
        Ok(Caller {
            // An issuer has no fragment, so two issuers never make one id.
            token_id: format!("jwt:{}#{}", issuer.keys.issuer(), claims.subject).into(),
            role: Role::Agent,
            organization: Some(claims.organization),
            agents: Some(Arc::from([claims.agent])),
            revoked: key.removed.clone(),
            expires_ms: Some(claims.expires_ms),
            addresses: None,
            user: claims.user.map(Arc::from),
        })
    }

    fn find_verified(&self, hash: &[u8; 32], now_ms: u64) -> Option<Arc<Caller>> {
        let verified = self.0.verified.lock();
        verified.get(hash).filter(|caller| caller.is_valid(now_ms)).cloned()
    }

    fn remember(&self, hash: [u8; 32], caller: &Arc<Caller>, now_ms: u64) {
        let mut verified = self.0.verified.lock();
        if verified.len() >= REMEMBERED {
            verified.retain(|_, caller| caller.is_valid(now_ms));
        }
        if verified.len() >= REMEMBERED {
            verified.clear();
        }
        verified.insert(hash, Arc::clone(caller));
    }

    fn log(&self, error: &CallError) {
        let mut log = self.0.refusals.lock();
        if log.last.is_some_and(|last| last.elapsed() < LOG_INTERVAL) {
            log.unlogged += 1;
            return;
        }
        let unlogged = std::mem::take(&mut log.unlogged);
        log.last = Some(Instant::now());
        drop(log);
        tracing::info!(reason = error.message, unlogged, "an access token was refused");
    }
}

fn no_key(error: NoKey) -> CallError {
    match error {
        NoKey::Invalid(why) => authentication_error(&why.to_string()),
        NoKey::NotFetched => CallError::new(
            ErrorType::Unavailable,
            "the keys of the access token's issuer are not known",
            "try again in a minute; the daemon's log says why",
        )
        .with_retry_after_ms(60_000),
    }
}

fn authentication_error(why: &str) -> CallError {
    CallError::new(
        ErrorType::Unauthenticated,
        format!("the access token is not valid: {why}"),
        "request a new access token from the authorization server",
    )
}

#[cfg(test)]
mod tests;
