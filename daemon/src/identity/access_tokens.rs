//! Access tokens of OAuth 2.1 authorization servers: the issuers, their keys, and the tokens that were verified.
//!
//! One task for each issuer fetches its keys: at the start, then each hour, and when a token names a key that is not known, at
//! most once a minute. A request waits for such a fetch and holds no lock; a flood of unknown keys waits for the same one.
//! While an issuer does not respond, its known keys stay in use for a day.
//!
//! A key that its issuer no longer has ends the tokens that it signed, also the verified ones and their streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use ring::digest;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::token::Role;

use super::caller::Caller;
use super::jwt::{Expected, InvalidToken, Key, UnverifiedToken, display_text};
use crate::config::OauthSection;
use crate::credentials::{TokenClient, fetch_issuer_keys};

/// Interval between two fetches of the keys of an issuer.
const REFRESH_INTERVAL: Duration = Duration::from_secs(3600);
/// Interval after a failure, and between two fetches for the sake of unknown keys.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Time for a fetch with all its requests.
const FETCH_TIME: Duration = Duration::from_secs(20);
/// How long the known keys of an issuer that does not respond stay in use.
const KEYS_KEPT: Duration = Duration::from_secs(24 * 3600);
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
    name: String,
    audience: String,
    jwks_uri: Option<String>,
    agent_claim: String,
    keys: watch::Sender<Keys>,
    /// Notified by a request whose key is not known.
    wanted: Notify,
}

/// The known keys of an issuer.
#[derive(Clone, Default)]
struct Keys {
    list: Arc<[Arc<Key>]>,
    /// Time of the last fetch that succeeded.
    fetched: Option<Instant>,
    /// Time from which an unknown key causes a fetch.
    next_fetch: Option<Instant>,
}

/// When the last refusal was logged, and the number since.
#[derive(Default)]
struct RefusalLog {
    last: Option<Instant>,
    unlogged: u64,
}

impl AccessTokens {
    /// None without issuers.
    pub fn new(settings: &OauthSection) -> Option<Self> {
        let resource = settings.resource.clone()?;
        let issuers = settings.issuers().iter().map(|issuer| Issuer {
            name: issuer.issuer.clone(),
            audience: issuer.audience.clone().unwrap_or_else(|| resource.clone()),
            jwks_uri: issuer.jwks_uri.clone(),
            agent_claim: issuer.agent_claim.clone(),
            keys: watch::Sender::default(),
            wanted: Notify::new(),
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
        let fetching = join_all(self.0.issuers.iter().map(|issuer| issuer.keep_keys(&http)));
        stop.run_until_cancelled(fetching).await;
    }

    /// Returns the caller for an access token: the agent that the token names, which need not exist.
    ///
    /// # Errors
    ///
    /// `UNAUTHENTICATED` with the reason, `FORBIDDEN` without the scopes, `UNAVAILABLE` before the issuer's keys were fetched.
    pub async fn authenticate(&self, text: &str, now_ms: u64) -> Result<Arc<Caller>, CallError> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
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
        let issuer = self.0.issuers.iter().find(|issuer| issuer.name == named);
        let issuer = issuer.ok_or_else(|| invalid(InvalidToken::Issuer(display_text(named))))?;
        let key = issuer.key_of(&token).await?;
        let expected = Expected { audience: &issuer.audience, agent_claim: &issuer.agent_claim };
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
            token_id: format!("jwt:{}#{}", issuer.name, claims.subject).into(),
            role: Role::Agent,
            organization: Some(claims.organization),
            agents: Some(Arc::from([claims.agent])),
            revoked: key.removed.clone(),
            expires_ms: Some(claims.expires_ms),
            addresses: None,
        })
    }

    fn find_verified(&self, hash: &[u8; 32], now_ms: u64) -> Option<Arc<Caller>> {
        let verified = self.0.verified.lock().unwrap_or_else(PoisonError::into_inner);
        verified.get(hash).filter(|caller| caller.is_valid(now_ms)).cloned()
    }

    fn remember(&self, hash: [u8; 32], caller: &Arc<Caller>, now_ms: u64) {
        let mut verified = self.0.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= REMEMBERED {
            verified.retain(|_, caller| caller.is_valid(now_ms));
        }
        if verified.len() >= REMEMBERED {
            verified.clear();
        }
        verified.insert(hash, Arc::clone(caller));
    }

    fn log(&self, error: &CallError) {
        let mut log = self.0.refusals.lock().unwrap_or_else(PoisonError::into_inner);
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

impl Issuer {
    /// The key that signed the token. Waits for a fetch if the key is not known and a fetch is due.
    async fn key_of(&self, token: &UnverifiedToken<'_>) -> Result<Arc<Key>, CallError> {
        let mut fetches = self.keys.subscribe();
        let known = fetches.borrow_and_update().clone();
        if let Ok(key) = known.find(token) {
            return Ok(key);
        }
        let known = match known.next_fetch.is_none_or(|next| next <= Instant::now()) {
            true => {
                self.wanted.notify_one();
                // The task always ends a fetch in this time.
                let _ = timeout(FETCH_TIME, fetches.changed()).await;
                fetches.borrow().clone()
            }
            false => known,
        };
        if known.fetched.is_none() {
            return Err(CallError::new(
                ErrorType::Unavailable,
                "the keys of the access token's issuer are not known",
                "try again in a minute; the daemon's log says why",
            )
            .with_retry_after_ms(60_000));
        }
        known.find(token).map_err(|why| authentication_error(&why.to_string()))
    }

    /// Fetches the keys, again and again.
    async fn keep_keys(&self, http: &TokenClient) {
        let (mut asked, mut failure) = (None, String::new());
        loop {
            let fetching = fetch_issuer_keys(http, &self.name, self.jwks_uri.as_deref());
            let fetched = timeout(FETCH_TIME, fetching).await;
            let fetched = fetched.unwrap_or_else(|_| Err("there was no response in time".to_owned()));
            let fetched = fetched.and_then(|set| Key::read_set(&set).ok_or("there are no `keys`".to_owned()));
            let interval = if fetched.is_ok() { REFRESH_INTERVAL } else { RETRY_INTERVAL };
            if let Err(reason) = &fetched
                && failure != *reason
            {
                let issuer = &*self.name;
                tracing::warn!(
                    issuer,
                    reason,
                    "the keys of an issuer cannot be fetched; the known ones stay in use"
                );
            }
            failure = fetched.as_ref().err().cloned().unwrap_or_default();
            let next_fetch = self.put(fetched.ok(), asked);
            // A request that waited for this fetch needs no other one.
            let _ = self.wanted.notified().now_or_never();
            tokio::select! {
                () = sleep(interval) => {}
                () = self.wait_for_unknown_key(next_fetch) => asked = Some(Instant::now()),
            }
        }
    }

    async fn wait_for_unknown_key(&self, not_before: Option<Instant>) {
        if let Some(time) = not_before {
            sleep_until(time).await;
        }
        self.wanted.notified().await;
    }

    /// Puts the keys of a fetch in force. Returns the time from which an unknown key causes the next one.
    fn put(&self, fetched: Option<Vec<Key>>, asked: Option<Instant>) -> Option<Instant> {
        let old = self.keys.borrow().clone();
        let new = old.after_fetch(fetched, asked, Instant::now());
        self.keys.send_replace(new.clone());
        let is_gone = |key: &&Arc<Key>| !new.list.iter().any(|kept| Arc::ptr_eq(kept, key));
        for key in old.list.iter().filter(is_gone) {
            key.removed.cancel();
        }
        new.next_fetch
    }
}

impl Keys {
    /// The known keys after a fetch at the time `now`, which can have failed. `asked` is the time of the last fetch for the sake
    /// of an unknown key.
    fn after_fetch(&self, fetched: Option<Vec<Key>>, asked: Option<Instant>, now: Instant) -> Self {
        let Some(fetched) = fetched else {
            let next_fetch = Some(now + RETRY_INTERVAL);
            let is_kept = self.fetched.is_some_and(|fetched| now.duration_since(fetched) < KEYS_KEPT);
            let known = if is_kept { self.clone() } else { Self::default() };
            return Self { next_fetch, ..known };
        };
        let known = |key: &Key| self.list.iter().find(|known| known.is_same(key)).cloned();
        let list = fetched.into_iter().map(|key| known(&key).unwrap_or_else(|| Arc::new(key))).collect();
        Self { list, fetched: Some(now), next_fetch: asked.map(|asked| asked + RETRY_INTERVAL) }
    }

    /// The key that the token names. A token that names none needs an issuer with one key for its algorithm.
    fn find(&self, token: &UnverifiedToken<'_>) -> Result<Arc<Key>, InvalidToken> {
        let mut fitting = self.list.iter().filter(|key| key.fits(token));
        match (fitting.next(), fitting.next(), &token.key_id) {
            (Some(key), None, _) | (Some(key), _, Some(_)) => Ok(Arc::clone(key)),
            (_, _, Some(id)) => Err(InvalidToken::UnknownKey(display_text(id))),
            (_, _, None) => Err(InvalidToken::NoKey),
        }
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
