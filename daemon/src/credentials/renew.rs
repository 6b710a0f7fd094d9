//! Tokens are fetched and renewed: before they end, one renewal of a credential at a time, and to its end.
//!
//! A renewal can use up the token that it was made with, so it does not stop where the call that needed it does: it runs
//! by itself, and whoever waits for it may leave. What it brings is stored only in the place of what it was made from.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde::Serialize;
use tokio::sync::OwnedMutexGuard;
use toolgate_admission::{CallError, Name, NoCredential, Unusable};

use super::change::{open_keys, sealed};
use super::document::{Authentication, CredentialDocument};
use super::fields::SecretFields;
use super::oauth::{self, NoTokens, Tokens};
use super::shelf::{Credential, Keys, State};
use super::{CredentialRefusal, Credentials};
use crate::audit::AdminRecord;
use crate::store::CredentialRow;

/// Time before its end when a token is no longer sent: the request has a way to go, and clocks differ.
const MARGIN_MS: u64 = 5_000;
/// How long a provider that did not answer is left alone.
const PAUSE_MS: u64 = 5_000;
/// How often a credential is renewed because an API does not take its token: one that takes none must not become a storm of
/// requests to the provider.
const REFUSED_MS: u64 = 60_000;
/// The life of a token whose provider does not say it.
const LIFE_UNSAID_MS: u64 = 3_600_000;
/// Renewals that the daemon makes by itself at the same time.
pub(super) const RENEWALS_AT_ONCE: usize = 8;

/// Who acts where nobody asked.
const BY_ITSELF: &str = "toolgate";
/// And the door that it came in by.
const NO_DOOR: &str = "daemon";

/// What tokens are asked for with, and where.
struct Grant {
    /// As RFC 6749 calls it.
    grant_type: &'static str,
    token_url: String,
}

impl Grant {
    fn of(document: &CredentialDocument, fields: &SecretFields) -> Option<Self> {
        let grant_type = match (&document.authentication, &fields.refresh_token) {
            (Authentication::ClientCredentials(_), _) => "client_credentials",
            (Authentication::AuthorizationCode { .. }, Some(_)) => "refresh_token",
            _ => return None,
        };
        let token_url = document.authentication.client()?.token_url.clone();
        Some(Self { grant_type, token_url })
    }
}

/// What the record of a renewal says beside its outcome.
#[derive(Serialize)]
struct Details<'a> {
    grant_type: &'static str,
    token_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Whether what is stored is still good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Not,
    /// It is good and will soon not be.
    Soon,
    Now,
}

fn due(row: &CredentialRow, now_ms: u64) -> Due {
    let Some(refresh_ms) = row.refresh_ms else { return Due::Not };
    let good = row.expires_ms.is_none_or(|end| now_ms.saturating_add(MARGIN_MS) < end);
    match (refresh_ms <= now_ms, good) {
        (_, false) => Due::Now,
        (true, true) => Due::Soon,
        (false, true) => Due::Not,
    }
}

/// When what a provider handed out just now ends, and when it is to be renewed: at 80 % of its life. One that does not say
/// how long is believed for as long as it takes, and asked for another as if it had said an hour.
pub(super) fn times(tokens: &Tokens, renewable: bool, now_ms: u64) -> (Option<u64>, Option<u64>) {
    let renewed_after = |life_ms: u64| renewable.then(|| now_ms.saturating_add(life_ms / 5 * 4));
    let Some(life) = tokens.life else { return (None, renewed_after(LIFE_UNSAID_MS)) };
    let life_ms = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
    let expires_ms = now_ms.saturating_add(life_ms);
    (Some(expires_ms), renewed_after(life_ms))
}

impl Credentials {
    /// The credential with tokens that are good.
    pub(super) async fn fresh(
        &self,
        credential: &Arc<Credential>,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CredentialRefusal> {
        let is_refused = credential.is_refused() && credential.row.refresh_ms.is_some();
        let due = match due(&credential.row, now_ms) {
            Due::Not if is_refused => Due::Soon,
            due => due,
        };
        if due == Due::Not || due == Due::Soon && credential.shared.renewing.try_lock().is_err() {
            return Ok(Arc::clone(credential));
        }
        let began = Instant::now();
        // Waited for here: whoever leaves the line takes nothing of the daemon's with it.
        let turn = Arc::clone(&credential.shared.renewing).lock_owned().await;
        let now_ms = later(now_ms, began);
        // Tried once for what was noted, whatever comes of it.
        credential.shared.refused_version.store(0, Ordering::Relaxed);
        let renewal = {
            let (credentials, credential) = (self.clone(), Arc::clone(credential));
            self.0.renewals.spawn(async move { credentials.renew(turn, &credential, now_ms).await })
        };
        match renewal.await {
            Ok(Err(_)) if due == Due::Soon => Ok(Arc::clone(credential)),
            Ok(renewed) => renewed,
            Err(_) => Err(unavailable(&credential.document, "the renewal ended early")),
        }
    }

    /// An API did not take the token with this identity: another is asked for when one is needed next, if it can be
    /// renewed at all. The provider may have ended it before its time.
    pub fn refused(&self, organization: &Name, identity: &str, now_ms: u64) {
        let shelf = self.0.shelf.load();
        let is_it = |credential: &&Arc<Credential>| *credential.identity == *identity;
        let Some(credential) = shelf.of(organization).find(is_it) else { return };
        if credential.row.refresh_ms.is_none() {
            return;
        }
        let shared = &credential.shared;
        let long_ago = |last: u64| (last == 0 || now_ms >= last.saturating_add(REFUSED_MS)).then_some(now_ms);
        if shared.refused_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, long_ago).is_ok() {
            shared.refused_version.store(credential.row.version, Ordering::Relaxed);
        }
    }

    /// Renews those that people connected, whose tokens can end for want of use.
    pub(super) async fn renew_due(&self, now_ms: u64) {
        let shelf = self.0.shelf.load_full();
        let by_person = |credential: &&Arc<Credential>| {
            matches!(credential.document.authentication, Authentication::AuthorizationCode { .. })
                && credential.unusable(&shelf.keys, now_ms).is_none()
                && due(&credential.row, now_ms) != Due::Not
        };
        // Those whose provider is left alone, or is being asked, must not keep the others waiting.
        let free = |credential: &Arc<Credential>| {
            let paused = credential.shared.paused_until_ms.load(Ordering::Relaxed) > now_ms;
            let turn = Arc::clone(&credential.shared.renewing).try_lock_owned().ok().filter(|_| !paused)?;
            Some((turn, Arc::clone(credential)))
        };
        let mut due: Vec<&Arc<Credential>> = shelf.all().filter(by_person).collect();
        due.sort_by_key(|credential| credential.shared.paused_until_ms.load(Ordering::Relaxed));
        for (turn, credential) in due.into_iter().filter_map(free) {
            let Ok(permit) = Arc::clone(&self.0.unasked).try_acquire_owned() else { return };
            let credentials = self.clone();
            self.0.renewals.spawn(async move {
                let _permit = permit;
                if let Err(error) = credentials.renew(turn, &credential, now_ms).await {
                    let error = CallError::from(error);
                    tracing::warn!(credential = %credential.row.name, error.message, "a credential was not renewed");
                }
            });
        }
    }

    async fn renew(
        &self,
        _one_at_a_time: OwnedMutexGuard<()>,
        credential: &Arc<Credential>,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CredentialRefusal> {
        let (began, shared) = (Instant::now(), Arc::clone(&credential.shared));
        let shelf = self.0.shelf.load_full();
        let found = shelf.find(&credential.row.organization, &credential.row.name);
        let Some(current) = found.filter(|found| found.row.id == credential.row.id) else {
            return Err(missing(&credential.document, Unusable::Revoked));
        };
        if !current.is_bound_as(credential) {
            // Whoever asked looks again at what is there now.
            return Ok(Arc::clone(current));
        }
        if current.row.version != credential.row.version && due(&current.row, now_ms) == Due::Not {
            return Ok(Arc::clone(current));
        }
        if let Some(why) = current.unusable(&shelf.keys, now_ms) {
            return Err(missing(&current.document, why));
        }
        if shared.paused_until_ms.load(Ordering::Relaxed) > now_ms {
            return Err(unavailable(&current.document, "it did not answer just now"));
        }
        let Keys::Open(keys) = &shelf.keys else { return Err(missing(&current.document, Unusable::Sealed)) };
        let mut fields = current.open(keys).map_err(|error| super::damaged(current, error))?;
        if current.document.vault.is_some() {
            // Never one of a moment ago: a provider that refuses it is asked no more.
            fields.given = Some(self.read_reference(current).await?.secret);
        }
        let grant = Grant::of(&current.document, &fields);
        let renewed = match self.next_tokens(&current.document, &fields).await {
            Ok(tokens) => self.take_tokens(current, fields, tokens, now_ms).await,
            Err(NoTokens::Refused(why)) => self.end(current, why, now_ms).await,
            Err(NoTokens::Unavailable(why)) => {
                // From when it failed: one that hangs has had its time by then.
                let until_ms = later(now_ms, began).saturating_add(PAUSE_MS);
                shared.paused_until_ms.store(until_ms, Ordering::Relaxed);
                Err(unavailable(&current.document, &why))
            }
        };
        self.record(current, grant, &renewed).await?;
        renewed
    }

    /// Writes down that the daemon asked for tokens, and what came of it: a secret left the house, and whoever finds a
    /// credential revoked wants to know since when.
    async fn record(
        &self,
        asked_for: &Credential,
        grant: Option<Grant>,
        renewed: &Result<Arc<Credential>, CredentialRefusal>,
    ) -> Result<(), CredentialRefusal> {
        // Nobody was asked where there is nothing to ask with.
        let Some(Grant { grant_type, token_url }) = grant else { return Ok(()) };
        let error = renewed.as_ref().err().map(|refused| CallError::from(refused.clone()));
        let details = Details {
            grant_type,
            token_url: &token_url,
            reason: error.as_ref().map(|error| &*error.message),
        };
        let details = serde_json::value::to_raw_value(&details).ok();
        let row = &asked_for.row;
        let record = AdminRecord {
            organization: Some(row.organization.as_str().into()),
            principal: BY_ITSELF.into(),
            action: "credential.renew".into(),
            target: format!("{}/{}", row.organization, row.name).into(),
            outcome: error.as_ref().map_or("ok", |error| error.error_type.as_str()).into(),
            revision: Some(self.0.registry.snapshot().revision),
            details: details.map(Cow::Owned),
            source: NO_DOOR.into(),
        };
        let recorded = self.0.audit.admin(record).await;
        recorded.map_err(|error| unavailable(&asked_for.document, &format!("it cannot be recorded: {error}")))
    }

    async fn next_tokens(
        &self,
        document: &CredentialDocument,
        fields: &SecretFields,
    ) -> Result<Tokens, NoTokens> {
        let (http, given) = (&self.0.http, fields.given.as_ref());
        match (&document.authentication, &fields.refresh_token) {
            (Authentication::ClientCredentials(client), _) => oauth::of_client(http, client, given)?.await,
            (Authentication::AuthorizationCode { client, .. }, Some(refresh_token)) => {
                oauth::refresh(http, client, given, refresh_token)?.await
            }
            _ => Err(NoTokens::Refused(Unusable::Expired)),
        }
    }

    /// Stores what a provider handed out in the place of `before`, unless that was replaced meanwhile.
    pub(super) async fn take_tokens(
        &self,
        before: &Arc<Credential>,
        fields: SecretFields,
        tokens: Tokens,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CredentialRefusal> {
        let by_client = matches!(before.document.authentication, Authentication::ClientCredentials(_));
        let renewable = by_client || tokens.refresh.is_some() || fields.refresh_token.is_some();
        let (expires_ms, refresh_ms) = times(&tokens, renewable, now_ms);
        let fields = SecretFields {
            // What a vault keeps is not kept here.
            given: fields.given.filter(|_| before.document.vault.is_none()),
            access_token: Some(tokens.access),
            refresh_token: tokens.refresh.or(fields.refresh_token).filter(|_| !by_client),
        };
        let row = CredentialRow {
            version: before.row.version + 1,
            state: State::Connected.as_str().to_owned(),
            expires_ms,
            refresh_ms,
            ..before.row.clone()
        };
        self.renewed(before, row, Some(&fields), now_ms).await
    }

    /// Notes that the provider said no.
    async fn end(
        &self,
        before: &Arc<Credential>,
        why: Unusable,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CredentialRefusal> {
        let state = if why == Unusable::Expired { State::Expired } else { State::Revoked };
        let row = CredentialRow { state: state.as_str().to_owned(), ..before.row.clone() };
        self.renewed(before, row, None, now_ms).await?;
        Err(missing(&before.document, why))
    }

    async fn renewed(
        &self,
        before: &Arc<Credential>,
        row: CredentialRow,
        fields: Option<&SecretFields>,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CredentialRefusal> {
        let _turn = self.0.changing.lock().await;
        let shelf = self.0.shelf.load_full();
        let current = shelf.find(&row.organization, &row.name);
        let Some(current) = current.filter(|current| is_same(current, before)) else {
            return Err(replaced(&before.document));
        };
        let row = match fields {
            Some(fields) => open_keys(&shelf).and_then(|keys| sealed(&keys, row, &before.document, fields)),
            // A rotation of the root key may have wrapped it anew.
            None => Ok(CredentialRow { sealed: current.row.sealed.clone(), ..row }),
        };
        let row = row.map_err(|error| unstored(&before.document, &error))?;
        match self.0.store.renew_credential(&row, before.row.version).await {
            Ok(true) => {}
            Ok(false) => return Err(replaced(&before.document)),
            Err(error) => return Err(unstored(&before.document, &error.into())),
        }
        self.put_on(&shelf, row, Some(current), now_ms).map_err(|error| unstored(&before.document, &error))
    }
}

/// What the clock says now that said `then_ms` at `then`.
pub(super) fn later(then_ms: u64, then: Instant) -> u64 {
    then_ms.saturating_add(u64::try_from(then.elapsed().as_millis()).unwrap_or(u64::MAX))
}

fn is_same(one: &Credential, other: &Credential) -> bool {
    (&one.row.id, one.row.version) == (&other.row.id, other.row.version)
}

fn replaced(document: &CredentialDocument) -> CredentialRefusal {
    unavailable(document, "the credential was replaced meanwhile")
}

fn unstored(document: &CredentialDocument, error: &CallError) -> CredentialRefusal {
    unavailable(document, &error.message)
}

fn missing(document: &CredentialDocument, why: Unusable) -> CredentialRefusal {
    CredentialRefusal::Missing(NoCredential::Unusable { provider: document.provider.clone(), why })
}

pub(super) fn unavailable(document: &CredentialDocument, why: &str) -> CredentialRefusal {
    CredentialRefusal::Provider { provider: document.provider.clone(), why: why.to_owned() }
}
