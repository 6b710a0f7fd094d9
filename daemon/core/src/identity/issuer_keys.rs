//! The public keys of an issuer.
//!
//! One task fetches them: at the start, then each hour, and when a token names a key that is not known, at most once a minute. A
//! request waits for such a fetch and holds no lock; a flood of unknown keys waits for the same one. While the issuer does not
//! respond, its known keys stay in use for a day.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::jwt::{InvalidToken, Key, UnverifiedToken, display_text};
use crate::credentials::{TokenClient, fetch_issuer_keys};

/// Interval between two fetches.
const REFRESH_INTERVAL: Duration = Duration::from_secs(3600);
/// Interval after a failure, and between two fetches for the sake of unknown keys.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Time for a fetch with all its requests.
const FETCH_TIME: Duration = Duration::from_secs(20);
/// How long the known keys of an issuer that does not respond stay in use.
const KEYS_KEPT: Duration = Duration::from_secs(24 * 3600);

/// The keys of an issuer, and the task that fetches them.
pub(super) struct IssuerKeys {
    issuer: String,
    jwks_uri: Option<String>,
    keys: watch::Sender<Keys>,
    /// Notified by a request whose key is not known.
    wanted: Notify,
}

/// Why there is no key for a token.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoKey {
    /// No fetch has succeeded.
    #[error("the keys of the issuer are not known")]
    NotFetched,
    /// The issuer has no such key.
    #[error(transparent)]
    Invalid(#[from] InvalidToken),
}

/// The known keys.
#[derive(Clone, Default)]
struct Keys {
    list: Arc<[Arc<Key>]>,
    /// Time of the last fetch that succeeded.
    fetched: Option<Instant>,
    /// Time from which an unknown key causes a fetch.
    next_fetch: Option<Instant>,
}

impl IssuerKeys {
    /// Keys that are not fetched yet. Without `jwks_uri`, the metadata of the issuer have their URL.
    pub(super) fn new(issuer: String, jwks_uri: Option<String>) -> Self {
        Self { issuer, jwks_uri, keys: watch::Sender::default(), wanted: Notify::new() }
    }

    /// The issuer, as its tokens name it.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the key that signed the token. Waits for a fetch if the key is not known and a fetch is due.
    pub(super) async fn key_of(&self, token: &UnverifiedToken<'_>) -> Result<Arc<Key>, NoKey> {
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
            return Err(NoKey::NotFetched);
        }
        Ok(known.find(token)?)
    }

    /// Fetches the keys, again and again.
    pub(super) async fn keep_fetched(&self, http: &TokenClient) {
        let (mut asked, mut failure) = (None, String::new());
        loop {
            let fetching = fetch_issuer_keys(http, &self.issuer, self.jwks_uri.as_deref());
            let fetched = timeout(FETCH_TIME, fetching).await;
            let fetched = fetched.unwrap_or_else(|_| Err("there was no response in time".to_owned()));
            let fetched = fetched.and_then(|set| Key::read_set(&set).ok_or("there are no `keys`".to_owned()));
            let interval = if fetched.is_ok() { REFRESH_INTERVAL } else { RETRY_INTERVAL };
            if let Err(reason) = &fetched
                && failure != *reason
            {
                let issuer = &*self.issuer;
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
    pub(super) fn put(&self, fetched: Option<Vec<Key>>, asked: Option<Instant>) -> Option<Instant> {
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::identity::jwt::testing::{Signer, set};

    #[test]
    fn m2_known_keys_stay_in_use_for_a_day_without_their_issuer() {
        let read = |signers: &[&Signer]| {
            let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
            Key::read_set(&set(&keys))
        };
        let (one, two, start) = (Signer::es256("a"), Signer::es256("a"), Instant::now());
        let first = Keys::default().after_fetch(read(&[&one]), None, start);
        assert_eq!(first.next_fetch, None);
        let almost = first.after_fetch(None, None, start + KEYS_KEPT - RETRY_INTERVAL);
        assert_eq!((almost.list.len(), almost.fetched), (1, Some(start)));
        assert_eq!(almost.next_fetch, Some(start + KEYS_KEPT));
        let late = almost.after_fetch(None, None, start + KEYS_KEPT);
        assert_eq!((late.list.len(), late.fetched), (0, None));
        // The same key is kept, another one of the same id is new.
        let asked = start + RETRY_INTERVAL;
        let same = first.after_fetch(read(&[&one]), Some(asked), asked);
        assert!(Arc::ptr_eq(&first.list[0], &same.list[0]));
        assert_eq!(same.next_fetch, Some(asked + RETRY_INTERVAL));
        let other = first.after_fetch(read(&[&two]), None, asked);
        assert!(!Arc::ptr_eq(&first.list[0], &other.list[0]));
    }
}
