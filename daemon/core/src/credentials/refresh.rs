//! Refreshes OAuth2 tokens before they expire, one refresh of a credential at a time.
//!
//! A refresh can use up the refresh token, so it must complete although the call that needed it ends: it runs in a task of
//! its own. New tokens are stored only if the credential was not replaced meanwhile.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde::Serialize;
use tokio::sync::OwnedMutexGuard;
use toolgate_admission::Unusable;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_audit::{ActOutcome, AdminRecord, AuditError, Entry, Status};
use toolgate_state::store::CredentialRow;

use super::change::{open_keys, seal_row};
use super::document::{Authentication, CredentialDocument};
use super::envelope::SecretFields;
use super::oauth;
use super::snapshot::{Credential, Keys, State};
use super::token_response::{TokenFailure, Tokens};
use super::{CredentialRefusal, Credentials, damaged_refusal, unusable};

/// Time before its expiry when a token is no longer sent, for the time of the request and differences of clocks.
const EXPIRY_MARGIN_MS: u64 = 5_000;
/// Pause after a provider did not respond.
const PAUSE_MS: u64 = 5_000;
/// Longest remainder of a pause: a request may know the time at which it began, and the pause that of a failure since.
const PAUSE_LONGEST_MS: u64 = 120_000;
/// Least time between refreshes because an API rejected the token: an API that rejects every token must not cause a
/// request storm at the provider.
const REJECTION_INTERVAL_MS: u64 = 60_000;
/// Lifetime of a token if the provider sends none.
const DEFAULT_LIFETIME_MS: u64 = 3_600_000;
/// Concurrent refreshes in the background.
pub(super) const BACKGROUND_REFRESHES: usize = 8;

/// Principal and source of audit records without a request.
const PRINCIPAL: &str = "toolgate";
const SOURCE: &str = "daemon";

/// When the tokens of a credential must be refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefreshAt {
    Later,
    /// Now, though the token is still valid.
    Soon,
    /// Before the next request.
    Now,
}

impl RefreshAt {
    fn of(row: &CredentialRow, now_ms: u64) -> Self {
        let Some(refresh_ms) = row.refresh_ms else { return Self::Later };
        let is_valid = row.expires_ms.is_none_or(|end| now_ms.saturating_add(EXPIRY_MARGIN_MS) < end);
        match (refresh_ms <= now_ms, is_valid) {
            (_, false) => Self::Now,
            (true, true) => Self::Soon,
            (false, true) => Self::Later,
        }
    }
}

/// The `details` of the audit record of a token request.
#[derive(Serialize)]
pub(super) struct RefreshDetails<'a> {
    /// As RFC 6749 names it.
    pub grant_type: &'static str,
    pub token_url: &'a str,
}

/// Expiry and time of the next refresh, which is at 80 % of the lifetime. Without a lifetime the token counts as valid until
/// an API rejects it, and is refreshed as if it lived for an hour.
pub(super) fn token_times(tokens: &Tokens, is_refreshable: bool, now_ms: u64) -> (Option<u64>, Option<u64>) {
    let refresh_after = |lifetime_ms: u64| is_refreshable.then(|| now_ms.saturating_add(lifetime_ms / 5 * 4));
    let Some(lifetime) = tokens.lifetime else { return (None, refresh_after(DEFAULT_LIFETIME_MS)) };
    let lifetime_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
    (Some(now_ms.saturating_add(lifetime_ms)), refresh_after(lifetime_ms))
}

/// Whether a provider is not asked yet. A pause that ends much later is from before the clock was set back.
fn is_paused(until_ms: u64, now_ms: u64) -> bool {
    until_ms > now_ms && until_ms - now_ms <= PAUSE_LONGEST_MS
}

impl Credentials {
    /// Refreshes the tokens of a credential if they have expired, or will soon.
    pub(super) async fn ensure_fresh(
        &self,
        credential: &Arc<Credential>,
        now_ms: u64,
    ) -> Result<(), CredentialRefusal> {
        let is_rejected = || credential.is_rejected() && credential.row.refresh_ms.is_some();
        let is_refreshing = || credential.shared.refresh_lock.try_lock().is_err();
        let at = RefreshAt::of(&credential.row, now_ms);
        // A token that an API rejected is of no use, unlike one that expires soon.
        let can_wait = at == RefreshAt::Later || at == RefreshAt::Soon && is_refreshing();
        if can_wait && !is_rejected() {
            return Ok(());
        }
        let started = Instant::now();
        // Locked outside of the task: a call that is cancelled while it waits leaves no task behind.
        let lock = Arc::clone(&credential.shared.refresh_lock).lock_owned().await;
        if at == RefreshAt::Later && !is_rejected() {
            // The refresh that was waited for was the one attempt for this rejection.
            return Ok(());
        }
        let now_ms = advance(now_ms, started);
        let refresh = {
            let (credentials, credential) = (self.clone(), Arc::clone(credential));
            self.0.tasks.spawn(async move { credentials.refresh(lock, &credential, now_ms).await })
        };
        match refresh.await {
            Ok(Err(_)) if at != RefreshAt::Now => Ok(()),
            Ok(refreshed) => refreshed.map(drop),
            Err(_) => Err(unavailable(&credential.document, "the refresh was aborted")),
        }
    }

    /// Notes that an API rejected the secret with this identity, since a provider may revoke a token before its expiry. Returns
    /// whether the next use gets another secret: the next one refreshes it, or another request has refreshed it meanwhile.
    pub fn report_rejection(&self, organization: &Name, identity: &str, now_ms: u64) -> bool {
        let snapshot = self.0.snapshot.load();
        let Some((id, version)) = identity.split_once('@') else { return false };
        let Some(credential) = snapshot.of(organization).find(|credential| credential.row.id == id) else {
            return false;
        };
        if credential.row.refresh_ms.is_none() {
            return false;
        }
        if *credential.identity != *identity {
            return version.parse().is_ok_and(|version: u64| version < credential.row.version);
        }
        let shared = &credential.shared;
        // A rejection of later than now is from before the clock was set back.
        let is_due = |last: u64| last == 0 || now_ms.abs_diff(last) >= REJECTION_INTERVAL_MS;
        let update = |last: u64| is_due(last).then_some(now_ms);
        if shared.rejected_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).is_ok() {
            shared.rejected_version.store(credential.row.version, Ordering::Relaxed);
        }
        // Noted now, or by a concurrent request.
        credential.is_rejected()
    }

    /// Spawns refreshes of tokens that users consented to, since an unused refresh token can expire.
    pub(super) fn background_refresh(&self, now_ms: u64) {
        let snapshot = self.0.snapshot.load_full();
        let is_due = |credential: &&Arc<Credential>| {
            matches!(credential.document.authentication, Authentication::AuthorizationCode { .. })
                && credential.unusable(&snapshot.keys, now_ms).is_none()
                && RefreshAt::of(&credential.row, now_ms) != RefreshAt::Later
        };
        let paused_until_ms =
            |credential: &&Arc<Credential>| credential.shared.paused_until_ms.load(Ordering::Relaxed);
        let mut due: Vec<&Arc<Credential>> = snapshot.all().filter(is_due).collect();
        due.sort_by_key(paused_until_ms);
        for credential in due {
            // A paused provider and a refresh in progress must not block the others.
            let Ok(lock) = Arc::clone(&credential.shared.refresh_lock).try_lock_owned() else { continue };
            if is_paused(paused_until_ms(&credential), now_ms) {
                continue;
            }
            let Ok(permit) = Arc::clone(&self.0.background_refreshes).try_acquire_owned() else { return };
            let (credentials, credential) = (self.clone(), Arc::clone(credential));
            self.0.tasks.spawn(async move {
                let _permit = permit;
                // A refusal of the provider is logged by itself.
                if let Err(error) = credentials.refresh(lock, &credential, now_ms).await
                    && !matches!(error, CredentialRefusal::Missing(_))
                {
                    let error = CallError::from(error);
                    tracing::warn!(credential = %credential.row.name, error.message, "a credential was not refreshed");
                }
            });
        }
    }

    /// Returns the credential that is now in force.
    async fn refresh(
        &self,
        _lock: OwnedMutexGuard<()>,
        credential: &Arc<Credential>,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CredentialRefusal> {
        let refreshed = self.refresh_locked(credential, now_ms).await;
        // One attempt for each rejection, whether it succeeds or not. Requests that wait for the lock see this.
        credential.shared.rejected_version.store(0, Ordering::Relaxed);
        refreshed
    }

    async fn refresh_locked(
        &self,
        credential: &Arc<Credential>,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CredentialRefusal> {
        let (started, shared) = (Instant::now(), Arc::clone(&credential.shared));
        let snapshot = self.0.snapshot.load_full();
        let found = snapshot.find(&credential.row.organization, &credential.row.name);
        let Some(current) = found.filter(|found| found.row.id == credential.row.id) else {
            return Err(unusable(&credential.document, Unusable::Revoked));
        };
        // The caller chooses again after a replacement, and a refresh meanwhile may be enough.
        let is_refreshed = current.row.version != credential.row.version
            && RefreshAt::of(&current.row, now_ms) == RefreshAt::Later;
        if !current.is_same_revision(credential) || is_refreshed {
            return Ok(Arc::clone(current));
        }
        if let Some(why) = current.unusable(&snapshot.keys, now_ms) {
            return Err(unusable(&current.document, why));
        }
        if is_paused(shared.paused_until_ms.load(Ordering::Relaxed), now_ms) {
            return Err(unavailable(&current.document, "it did not respond a moment ago"));
        }
        let Keys::Open(keys) = &snapshot.keys else {
            return Err(unusable(&current.document, Unusable::Sealed));
        };
        let mut fields = current.open(keys).map_err(|error| damaged_refusal(current, error))?;
        if current.document.is_kept_elsewhere() {
            // Without the cache: a provider that rejects an old secret ends the credential.
            fields.given = Some(self.read_secret_elsewhere(current).await?.secret);
        }
        let intent = self.record_intent(current, &fields).await?;
        let refreshed = match self.request_tokens(&current.document, &fields).await {
            Ok(tokens) => self.store_tokens(current, fields, tokens, now_ms).await,
            Err(TokenFailure::Refused(why, said)) => {
                let row = &current.row;
                tracing::warn!(
                    event = "credential_refused", organization = %row.organization, credential = %row.name, reason = said,
                    "a provider refuses to renew a credential"
                );
                self.store_refusal(current, why, now_ms).await
            }
            Err(TokenFailure::Unavailable(why)) => {
                // Counted from the failure, since the request itself can take as long as the pause.
                let until_ms = advance(now_ms, started).saturating_add(PAUSE_MS);
                shared.paused_until_ms.store(until_ms, Ordering::Relaxed);
                Err(unavailable(&current.document, &why))
            }
        };
        if let Some(intent) = intent {
            let error_type =
                refreshed.as_ref().err().map(|refusal| CallError::from(refusal.clone()).error_type);
            let outcome = self.act_outcome(error_type);
            let recorded = self.0.audit.close_act(intent, outcome).await;
            recorded.map_err(|error| unrecordable(&current.document, &error))?;
        }
        refreshed
    }

    /// Writes the intent of a token request, since the request can use up a refresh token; none where there is nothing to
    /// request with. A request that cannot be recorded is not sent.
    async fn record_intent(
        &self,
        credential: &Credential,
        fields: &SecretFields,
    ) -> Result<Option<Entry>, CredentialRefusal> {
        let Some(grant_type) = grant_type(&credential.document, fields) else { return Ok(None) };
        let client = credential.document.authentication.client();
        let details = RefreshDetails { grant_type, token_url: client.map_or("", |client| &client.token_url) };
        let details = serde_json::value::to_raw_value(&details).ok();
        let row = &credential.row;
        let unrecordable = |error: AuditError| unrecordable(&credential.document, &error);
        let intent = self.0.audit.open_act(AdminRecord {
            organization: Some(row.organization.as_str().into()),
            principal: PRINCIPAL.into(),
            action: "credential.renew".into(),
            target: format!("{}/{}", row.organization, row.name).into(),
            outcome: ErrorType::Unknown.as_str().into(),
            revision: Some(self.0.registry.snapshot().revision),
            details: details.map(Cow::Owned),
            source: SOURCE.into(),
        });
        let intent = intent.map_err(unrecordable)?;
        intent.sync().await.map_err(unrecordable)?;
        Ok(Some(intent))
    }

    fn act_outcome(&self, error_type: Option<ErrorType>) -> ActOutcome<'static> {
        ActOutcome {
            status: if error_type.is_none() { Status::Ok } else { Status::Error },
            error_type: error_type.map(|error_type| error_type.as_str().into()),
            revision: Some(self.0.registry.snapshot().revision),
        }
    }

    async fn request_tokens(
        &self,
        document: &CredentialDocument,
        fields: &SecretFields,
    ) -> Result<Tokens, TokenFailure> {
        let (http, given) = (&self.0.http, fields.given.as_ref());
        match (&document.authentication, &fields.refresh_token) {
            (Authentication::ClientCredentials(client), _) => {
                oauth::client_credentials(http, client, given)?.await
            }
            (Authentication::AuthorizationCode { client, .. }, Some(refresh_token)) => {
                oauth::refresh(http, client, given, refresh_token)?.await
            }
            _ => Err(TokenFailure::Refused(Unusable::Expired, "it has no refresh token".to_owned())),
        }
    }

    /// Stores new tokens, unless the credential was replaced meanwhile.
    pub(super) async fn store_tokens(
        &self,
        before: &Arc<Credential>,
        fields: SecretFields,
        tokens: Tokens,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CredentialRefusal> {
        let is_client_grant = matches!(before.document.authentication, Authentication::ClientCredentials(_));
        let is_refreshable = is_client_grant || tokens.refresh.is_some() || fields.refresh_token.is_some();
        let (expires_ms, refresh_ms) = token_times(&tokens, is_refreshable, now_ms);
        let fields = SecretFields {
            // A secret from a vault or a file is not stored here.
            given: fields.given.filter(|_| !before.document.is_kept_elsewhere()),
            access_token: Some(tokens.access),
            refresh_token: tokens.refresh.or(fields.refresh_token).filter(|_| !is_client_grant),
        };
        let row = CredentialRow {
            version: before.row.version + 1,
            state: State::Connected.as_str().to_owned(),
            expires_ms,
            refresh_ms,
            ..before.row.clone()
        };
        self.store_refreshed(before, row, Some(&fields), now_ms).await
    }

    /// Stores that the provider refused, and returns the refusal.
    async fn store_refusal(
        &self,
        before: &Arc<Credential>,
        why: Unusable,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CredentialRefusal> {
        let state = if why == Unusable::Expired { State::Expired } else { State::Revoked };
        let row = CredentialRow { state: state.as_str().to_owned(), ..before.row.clone() };
        self.store_refreshed(before, row, None, now_ms).await?;
        Err(unusable(&before.document, why))
    }

    async fn store_refreshed(
        &self,
        before: &Arc<Credential>,
        row: CredentialRow,
        fields: Option<&SecretFields>,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CredentialRefusal> {
        let document = &before.document;
        let replaced = || unavailable(document, "the credential was replaced meanwhile");
        let not_stored = |error: CallError| unavailable(document, &error.message);
        let _writing = self.0.writes.lock().await;
        let snapshot = self.0.snapshot.load_full();
        let is_same = |current: &&Arc<Credential>| {
            (&current.row.id, current.row.version) == (&before.row.id, before.row.version)
        };
        let current = snapshot.find(&row.organization, &row.name).filter(is_same).ok_or_else(replaced)?;
        let row = match fields {
            Some(fields) => open_keys(&snapshot).and_then(|keys| seal_row(&keys, row, document, fields)),
            // A rotation of the root key may have re-encrypted it.
            None => Ok(CredentialRow { sealed: current.row.sealed.clone(), ..row }),
        };
        let row = row.map_err(not_stored)?;
        let stored = self.0.store.renew_credential(&row, before.row.version).await;
        if !stored.map_err(|error| not_stored(error.into()))? {
            return Err(replaced());
        }
        self.publish_row(&snapshot, row, Some(current), now_ms).map_err(not_stored)
    }
}

/// The grant of the next token request; `None` if there is nothing to request with.
fn grant_type(document: &CredentialDocument, fields: &SecretFields) -> Option<&'static str> {
    match (&document.authentication, &fields.refresh_token) {
        (Authentication::ClientCredentials(_), _) => Some("client_credentials"),
        (Authentication::AuthorizationCode { .. }, Some(_)) => Some("refresh_token"),
        _ => None,
    }
}

/// The current time, if it was `then_ms` at `then`.
pub(super) fn advance(then_ms: u64, then: Instant) -> u64 {
    then_ms.saturating_add(u64::try_from(then.elapsed().as_millis()).unwrap_or(u64::MAX))
}

fn unrecordable(document: &CredentialDocument, error: &AuditError) -> CredentialRefusal {
    unavailable(document, &format!("it cannot be recorded: {error}"))
}

fn unavailable(document: &CredentialDocument, why: &str) -> CredentialRefusal {
    CredentialRefusal::ProviderUnavailable { provider: document.provider.clone(), why: why.to_owned() }
}
