//! What time ends: idle sessions, approvals and clients that nobody waits for any more, rows that were kept long enough.
//!
//! How sessions are used is written down here as well, behind the calls, so that no call waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::approvals;
use crate::credentials::Credentials;
use crate::dispatch::{Dispatcher, now_ms};
use crate::sessions::{Session, Sessions};
use crate::store::{ApprovalState, SessionUse, Store, StoreError};

/// How often sessions are looked through for idle ones, and their use is written down.
const SESSION_SWEEP: Duration = Duration::from_secs(60);

/// How long the row of an ended session stays, in milliseconds: a week, for whoever asks what it was.
const ENDED_SESSIONS_KEPT_MS: u64 = 7 * 24 * 3_600_000;

/// Ends what nobody waits for any more, and writes behind how sessions were used.
pub(super) struct Sweeper {
    pub sessions: Arc<Sessions>,
    pub dispatcher: Dispatcher,
    pub store: Store,
    pub credentials: Credentials,
    /// How long a session may be idle.
    pub idle_ms: u64,
    /// How long what ended is kept.
    pub kept_ms: u64,
}

impl Sweeper {
    /// Sweeps until it is stopped, and once more then.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            let last = tokio::time::timeout(SESSION_SWEEP, stop.cancelled()).await.is_ok();
            self.note_use().await;
            if last {
                return;
            }
            let now_ms = now_ms();
            if let Err(error) =
                self.store.forget_sessions(now_ms.saturating_sub(ENDED_SESSIONS_KEPT_MS)).await
            {
                tracing::warn!(%error, "the rows of old sessions cannot be removed");
            }
            self.end_idle(now_ms).await;
            self.end_waiting(now_ms).await;
        }
    }

    async fn note_use(&self) {
        let used = self.sessions.filter(|session| session.last_used_ms() > session.setup.created_ms);
        let note = |session: &Arc<Session>| SessionUse {
            id: session.setup.id.clone(),
            rounds: session.conduct.rounds(),
            last_used_ms: session.last_used_ms(),
        };
        let uses: Vec<SessionUse> = used.iter().map(note).collect();
        if let Err(error) = self.store.note_session_use(&uses).await {
            tracing::warn!(%error, "the use of sessions cannot be written down");
        }
        if let Err(error) = self.credentials.note_use().await {
            tracing::warn!(%error, "the use of credentials cannot be written down");
        }
    }

    async fn end_idle(&self, now_ms: u64) {
        let oldest_ms = now_ms.saturating_sub(self.idle_ms);
        for session in self.sessions.filter(|session| session.last_used_ms() < oldest_ms) {
            match self.store.end_session(&session.setup.id, now_ms).await {
                // One that is ended already ends here too.
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::warn!(%error, "an idle session cannot be ended");
                    continue;
                }
            }
            self.dispatcher.end_session(&self.sessions, &session.setup.id).await;
        }
    }

    /// Calls that wait for a person or a client who did not come.
    async fn end_waiting(&self, now_ms: u64) {
        match self.store.expire_approvals(now_ms, now_ms.saturating_sub(self.kept_ms)).await {
            Ok(expired) => {
                for row in expired {
                    if let Some(session) = self.sessions.find(&row.session) {
                        let why = Some(approvals::expired(row.decided_ms.is_some()));
                        self.dispatcher.decided(&session, &row.id, ApprovalState::Expired, &why);
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "approvals cannot be ended"),
        }
        for session in self.sessions.filter(|session| session.calls.at_client() > 0) {
            self.dispatcher.end_expired(&session);
        }
    }
}
