//! Periodic cleanup: ends idle sessions and expired waits for approvals and clients, deletes old rows.
//!
//! The sweep also stores when sessions and credentials were last used, so that no call waits for these writes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolgate_audit::{AdminRecord, Retention};
use toolgate_core::admin::Admin;
use toolgate_core::approvals;
use toolgate_core::backup::last_taken;
use toolgate_core::sessions::Session;
use toolgate_http::listener::Tls;
use toolgate_state::clock::now_ms;
use toolgate_state::store::{ENDING_MS, EndingKind, EndingRow, SessionUse, StoreError};

use super::clock_guard::ClockGuard;
use toolgate_api::approval::ApprovalState;

/// The interval of the cleanup.
const SESSION_SWEEP: Duration = Duration::from_secs(60);

/// How long the row of an ended session is kept for lookups, in milliseconds: a week.
const ENDED_SESSIONS_KEPT_MS: u64 = 7 * 24 * 3_600_000;

/// Whatever ends soon is logged once in this time, in milliseconds: a day.
const ENDS_LOGGED_MS: u64 = 24 * 3_600_000;

/// The cleanup task.
pub(super) struct Sweeper {
    pub admin: Admin,
    /// Idle timeout of sessions.
    pub idle_ms: u64,
    /// Retention of expired approvals.
    pub kept_ms: u64,
    /// Retention of messages between agents.
    pub messages_kept_ms: u64,
    /// Retention of the audit log.
    pub audit: Retention,
    /// The certificate of the listener.
    pub tls: Option<Tls>,
    /// The data folder.
    pub data: PathBuf,
}

impl Sweeper {
    /// Runs until `stop`, and stores the last use once more then.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut clock = ClockGuard::load(self.admin.services().store.clone()).await;
        clock.note(now_ms()).await;
        self.observe();
        let mut ends_logged_day = None;
        self.log_ends(&mut ends_logged_day, now_ms()).await;
        stop.run_until_cancelled(self.admin.services().sessions.count_workspaces()).await;
        self.cut_audit(clock.held_since_ms()).await;
        loop {
            let last = tokio::time::timeout(SESSION_SWEEP, stop.cancelled()).await.is_ok();
            self.store_use().await;
            self.observe();
            if last {
                return;
            }
            self.admin.record_counted_refusals(Some(Instant::now())).await;
            self.admin.services().events.remove_unused(Instant::now());
            let now_ms = now_ms();
            clock.note(now_ms).await;
            let held_since_ms = clock.held_since_ms();
            if held_since_ms.is_none() {
                self.forget_rows(now_ms).await;
            }
            self.admin.services().sessions.answers().remove_old(now_ms);
            self.end_idle(now_ms, held_since_ms).await;
            self.end_waiting(now_ms).await;
            self.cut_audit(held_since_ms).await;
            self.log_ends(&mut ends_logged_day, now_ms).await;
        }
    }

    /// Looks at what metrics tell of the certificate and of the last backup.
    fn observe(&self) {
        let observed = &self.admin.services().metrics.observed;
        let end = self.tls.as_ref().and_then(Tls::end_seconds).unwrap_or(0);
        observed.certificate_end.store(end, Ordering::Relaxed);
        observed.last_backup.store(last_taken(&self.data).unwrap_or(0), Ordering::Relaxed);
    }

    /// Logs the credentials, the tokens and the certificate that end within a week: at the start, and once a day.
    async fn log_ends(&self, logged_day: &mut Option<u64>, now_ms: u64) {
        let day = now_ms / ENDS_LOGGED_MS;
        if *logged_day == Some(day) {
            return;
        }
        match self.admin.services().store.ending(now_ms, ENDING_MS).await {
            Ok(rows) => rows.iter().for_each(log_end),
            Err(error) => {
                tracing::warn!(%error, "the credentials and tokens that end soon cannot be listed");
                return;
            }
        }
        *logged_day = Some(day);
        let certificate_ends_ms =
            self.tls.as_ref().and_then(Tls::end_seconds).map(|end| end.saturating_mul(1_000));
        if let Some(ends_ms) =
            certificate_ends_ms.filter(|ends_ms| *ends_ms <= now_ms.saturating_add(ENDING_MS))
        {
            tracing::warn!(
                event = "certificate_ends",
                ends_ms,
                "the certificate of the listener ends soon: replace the files of `[tls]`"
            );
        }
    }

    async fn forget_rows(&self, now_ms: u64) {
        if let Err(error) =
            self.admin.services().store.forget_sessions(now_ms.saturating_sub(ENDED_SESSIONS_KEPT_MS)).await
        {
            tracing::warn!(%error, "the rows of old sessions cannot be removed");
        }
        if let Err(error) =
            self.admin.services().store.forget_messages(now_ms.saturating_sub(self.messages_kept_ms)).await
        {
            tracing::warn!(%error, "old messages cannot be removed");
        }
    }

    async fn cut_audit(&self, held_since_ms: Option<u64>) {
        let kept_ms = self.audit.kept_ms.filter(|_| held_since_ms.is_none());
        match self.admin.services().audit.cut_old(Retention { kept_ms, ..self.audit }).await {
            Ok(0) => {}
            Ok(records) => {
                tracing::info!(event = "audit_cut", records, "old records were cut from the audit log")
            }
            Err(error) => tracing::warn!(%error, "the audit log cannot be cut"),
        }
    }

    async fn store_use(&self) {
        let used = self
            .admin
            .services()
            .sessions
            .filter(|session| session.last_used_ms() > session.setup.created_ms);
        let note = |session: &Arc<Session>| SessionUse {
            id: session.setup.id.clone(),
            rounds: session.state.rounds(),
            last_used_ms: session.last_used_ms(),
        };
        let uses: Vec<SessionUse> = used.iter().map(note).collect();
        if let Err(error) = self.admin.services().store.note_session_use(&uses).await {
            tracing::warn!(%error, "the use of sessions cannot be written down");
        }
        if let Err(error) = self.admin.services().credentials.store_last_use().await {
            tracing::warn!(%error, "the use of credentials cannot be written down");
        }
        if let Err(error) = self.admin.services().identity.store_last_use().await {
            tracing::warn!(%error, "the use of tokens cannot be written down");
        }
    }

    /// Ends idle sessions; none that was last used before `held_since_ms`.
    async fn end_idle(&self, now_ms: u64, held_since_ms: Option<u64>) {
        let idle = held_since_ms.unwrap_or(0)..now_ms.saturating_sub(self.idle_ms);
        for session in self.admin.services().sessions.filter(|session| idle.contains(&session.last_used_ms()))
        {
            match self.admin.services().store.end_session(&session.setup.id, now_ms).await {
                // Not in the store: it still has to end in memory.
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::warn!(%error, "an idle session cannot be ended");
                    continue;
                }
            }
            self.admin.dispatcher().end_session(&self.admin.services().sessions, &session.setup.id).await;
            self.record_end(&session).await;
        }
    }

    /// Records the end of an idle session, an act of the daemon (9.18).
    async fn record_end(&self, session: &Session) {
        let ended = self.admin.services().audit.admin(AdminRecord {
            organization: Some(session.setup.organization.as_str().into()),
            principal: "toolgate".into(),
            action: "session.end".into(),
            target: session.setup.id.as_str().into(),
            outcome: "ok".into(),
            revision: None,
            details: None,
            source: "daemon".into(),
        });
        if let Err(error) = ended.await {
            tracing::warn!(%error, session = session.setup.id, "the end of an idle session cannot be recorded");
        }
    }

    /// Ends calls whose approval or client result did not arrive in time.
    async fn end_waiting(&self, now_ms: u64) {
        match self.admin.services().store.expire_approvals(now_ms, now_ms.saturating_sub(self.kept_ms)).await
        {
            Ok(expired) => {
                for row in expired {
                    if let Some(session) = self.admin.services().sessions.find(&row.session) {
                        let why = approvals::expiry(row.decided_ms.is_some());
                        self.admin.dispatcher().apply_decision(
                            &session,
                            &row.id,
                            ApprovalState::Expired,
                            Some(&why),
                        );
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "approvals cannot be ended"),
        }
        for session in self.admin.services().sessions.filter(|session| session.calls.at_client() > 0) {
            self.admin.dispatcher().end_expired(&session);
        }
    }
}

fn log_end(row: &EndingRow) {
    let EndingRow { kind, organization, name, label, ends_ms } = row;
    let organization = organization.as_deref();
    match kind {
        EndingKind::Credential => tracing::warn!(
            event = "credential_ends",
            organization,
            credential = name,
            ends_ms,
            "a credential ends soon: connect it again, or rotate it with `toolgate credential rotate`"
        ),
        EndingKind::Token => tracing::warn!(
            event = "token_ends",
            organization,
            token = name,
            label,
            ends_ms,
            "a token ends soon: replace it with `toolgate token rotate`"
        ),
    }
}
