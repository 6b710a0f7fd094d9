//! Sessions: the agent that an orchestrator speaks for, and the calls made there.
//!
//! A session lives in memory, in one of many small maps, so that calls of different sessions rarely share a lock; its row
//! in the store survives a restart. Outcomes are kept so that the same call id gets the same answer and never runs twice
//! (R7): in memory, then on disk, then as the bare fact.

mod answers;
mod call_table;
mod organization;
mod pending_call;
mod refusal_counts;
mod state;
mod workspaces;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use answers::SessionAnswers;
use organization::Organizations;
use parking_lot::RwLock;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_admission::SessionFacts;
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_audit::EarlierCalls;
use toolgate_macros::boxed;
use toolgate_sandbox::workspace::{Quota, WorkspaceError};
use toolgate_sandbox::{CallIdentity, Queue, QueueSettings, Workspace};
use workspaces::{WorkspaceSlot, Workspaces};

pub use answers::{AnswerSettings, Answers, StoredAnswer, UnreadableAnswers};
pub use call_table::{CallState, CallTable, Lookup, PostedResult, ResultLookup, RunningCall};
pub use organization::{OrganizationBounds, OrganizationUse, SessionShare};
pub use pending_call::{ClientPart, PendingCall, PendingOn};
pub use refusal_counts::{Counted, RefusalCounts, RefusalKind, RefusedCall, RepeatedRefusals};
pub use state::{Bounds, RoundsExceeded, SessionState};
pub use workspaces::OPEN_MAX;

/// Maps that sessions are spread over: many more than processors, so that two calls rarely share one.
const SHARDS: usize = 64;

/// Calls of one session that may wait for its files. They hold no slot of the sandbox, so this is their only bound; a
/// request carries at most 32 calls by default.
const WAITING_FOR_FILES: usize = 128;

/// The parameters of a session.
#[derive(Clone, Debug)]
pub struct SessionSetup {
    /// Its id. It cannot be guessed, and is also the name of its workspace folder.
    pub id: String,
    /// The agent's organization.
    pub organization: Name,
    /// The agent.
    pub agent: Name,
    /// The user that the orchestrator says it acts for.
    pub user: Option<String>,
    /// The orchestrator's conversation.
    pub conversation: Option<String>,
    /// The channel of the conversation.
    pub channel: Option<String>,
    /// The id of the token that opened it.
    pub principal: String,
    /// When it was opened.
    pub created_ms: u64,
}

impl SessionSetup {
    /// The conversation, or an empty text.
    pub fn conversation_or_empty(&self) -> &str {
        self.conversation.as_deref().unwrap_or_default()
    }

    /// The identity that its calls have in the sandbox.
    pub fn identity(&self) -> CallIdentity {
        let text = |text: &Option<String>| text.as_deref().map(Box::from);
        CallIdentity {
            session: self.id.as_str().into(),
            conversation: text(&self.conversation),
            organization: self.organization.as_str().into(),
            agent: self.agent.as_str().into(),
            user: text(&self.user),
            channel: text(&self.channel),
        }
    }
}

/// An open session.
pub struct Session {
    /// Its parameters.
    pub setup: SessionSetup,
    /// The identity that its calls have in the sandbox.
    pub identity: Arc<CallIdentity>,
    /// Rounds, circuit breaker, and the facts that a decision reads.
    pub state: SessionState,
    /// Its calls by id.
    pub calls: CallTable,
    /// The answers on disk.
    pub stored: Option<Arc<SessionAnswers>>,
    /// Its refusals of the last seconds.
    pub refusals: RefusalCounts,
    /// An earlier run of the daemon opened it. The calls of that run are only in the audit log, and their answers on disk.
    pub restored: bool,
    /// The ids of those calls, read on first use.
    pub earlier_calls: OnceCell<EarlierCalls>,
    last_used_ms: AtomicU64,
    ended: CancellationToken,
    pending_events: TaskTracker,
    /// The queue of calls that may change its files: one runs at a time, first come first served.
    pub changing_files: Queue,
    slot: WorkspaceSlot,
    folder: PathBuf,
    workspaces: Arc<Workspaces>,
    share: SessionShare,
}

#[boxed]
impl Session {
    /// The resources that the sessions of its organization share.
    pub fn organization_use(&self) -> &OrganizationUse {
        &self.share.0
    }

    /// When it was last used.
    pub fn last_used_ms(&self) -> u64 {
        self.last_used_ms.load(Ordering::Relaxed)
    }

    /// Marks it as used now.
    pub fn touch(&self, now_ms: u64) {
        self.last_used_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    /// Cancelled when the session ends; running calls end with it.
    pub fn end_signal(&self) -> &CancellationToken {
        &self.ended
    }

    /// Calls whose last event is still to be emitted. Closed when the session ends, so that waiting for it waits for the
    /// last event.
    pub fn pending_events(&self) -> &TaskTracker {
        &self.pending_events
    }

    /// Its workspace, to be filled up to `quota`.
    pub async fn workspace(&self, quota: Quota) -> Result<Workspace, WorkspaceError> {
        let shared_quota = &self.share.0.workspace_bytes;
        let opened = self.workspaces.open(&self.setup.id, &self.slot, &self.folder, shared_quota).await?;
        Ok(opened.with_lower_quota(quota))
    }

    /// The newest record on disk of a call, unless its answer is older than the retention.
    pub async fn stored_answer(&self, id: &str, now_ms: u64) -> Option<StoredAnswer> {
        self.stored.as_ref()?.find(id, now_ms).await
    }

    /// Whether an earlier run of the daemon stored an answer of this call on disk, also one that is older than the retention.
    pub async fn had_stored_answer(&self, id: &str) -> Result<bool, UnreadableAnswers> {
        match &self.stored {
            Some(stored) if self.restored => stored.had(id).await,
            _ => Ok(false),
        }
    }

    /// Removes its files and answers, once it is closed.
    pub async fn remove_files(&self) {
        if let Some(stored) = &self.stored {
            stored.remove().await;
        }
        // A call that was just stopped may have a file operation under way. A file that it makes now would keep the
        // folder.
        let lock = match self.workspaces.end(&self.setup.id, &self.slot).await {
            Some(workspace) => Some(workspace.lock().await),
            None => None,
        };
        let folder = self.folder.clone();
        let removed = tokio::task::spawn_blocking(move || {
            let _lock = lock;
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        });
        if let Ok(Err(error)) = removed.await {
            let (session, conversation) = (self.setup.id.as_str(), self.setup.conversation_or_empty());
            tracing::warn!(session, conversation, %error, "the workspace of an ended session cannot be removed");
        }
    }
}

/// All open sessions.
pub struct Sessions {
    shards: Vec<RwLock<HashMap<String, Arc<Session>>>>,
    hasher: RandomState,
    folder: PathBuf,
    workspaces: Arc<Workspaces>,
    answer_kept_ms: u64,
    answers: Answers,
    bounds: Bounds,
    organizations: Organizations,
}

/// Folder of uploads that are not complete, beside the workspaces: no session has such a name.
const UPLOADS: &str = ".uploads";

/// The state of a session that is opened or restored.
pub struct InitialState {
    /// The facts that a decision reads.
    pub facts: SessionFacts,
    /// Rounds in earlier runs of the daemon.
    pub rounds: u64,
    /// When it was last used.
    pub last_used_ms: u64,
}

#[boxed]
impl Sessions {
    /// No sessions yet. Workspaces are folders below `folder`; answers are kept in memory for `answer_kept_ms`.
    pub fn new(folder: &Path, answers: Answers, answer_kept_ms: u64, bounds: Bounds) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
            folder: folder.to_owned(),
            workspaces: Arc::new(Workspaces::new(OPEN_MAX)),
            answer_kept_ms,
            answers,
            organizations: Organizations::new(bounds.organization),
            bounds,
        }
    }

    /// Reserves a new session, if its organization may open one more.
    pub fn reserve(&self, organization: &Name) -> Result<SessionShare, CallError> {
        self.organizations.find(organization).add_session()
    }

    /// Opens a session that was reserved.
    pub fn open(&self, share: SessionShare, setup: SessionSetup, initial: InitialState) -> Arc<Session> {
        self.insert(share, setup, initial, false)
    }

    /// Restores a session after a restart.
    pub fn restore(&self, setup: SessionSetup, initial: InitialState) -> Arc<Session> {
        let share = self.organizations.find(&setup.organization).count_session();
        self.insert(share, setup, initial, true)
    }

    /// A session that is in no map: for one test call. The caller removes its files.
    pub fn make_unlisted(&self, setup: SessionSetup, initial: InitialState) -> Arc<Session> {
        let share = self.organizations.find(&setup.organization).count_session();
        self.make(share, setup, initial, false, None)
    }

    /// Takes over the answers of an earlier run of the daemon, and removes those without a session. Returns the sessions
    /// that may have calls which wait for their client.
    pub fn restore_answers(&self, now_ms: u64) -> std::io::Result<Vec<Arc<Session>>> {
        let recent =
            self.answers.restore(now_ms, |id| self.find(id).and_then(|session| session.stored.clone()))?;
        Ok(recent.iter().filter_map(|id| self.find(id)).collect())
    }

    /// The answers on disk.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// The folder of uploads that are not complete.
    pub fn upload_folder(&self) -> PathBuf {
        self.folder.join(UPLOADS)
    }

    /// Opens the workspaces of an earlier run of the daemon, so that they count for their organizations before they are
    /// used.
    pub async fn count_workspaces(&self) {
        for session in self.filter(|session| session.restored) {
            let exists = tokio::fs::symlink_metadata(&session.folder).await.is_ok();
            if exists && let Err(error) = session.workspace(Quota::UNBOUNDED).await {
                let (session, conversation) = (&session.setup.id, session.setup.conversation_or_empty());
                tracing::warn!(session, conversation, %error, "the workspace of a session cannot be counted");
            }
        }
    }

    fn insert(
        &self,
        share: SessionShare,
        setup: SessionSetup,
        initial: InitialState,
        restored: bool,
    ) -> Arc<Session> {
        let queued = Arc::clone(&share.0.queued_answers);
        let stored = self.answers.of_session(setup.organization.as_str(), &setup.id, queued);
        let session = self.make(share, setup, initial, restored, Some(stored));
        self.write(&session.setup.id, |shard| {
            shard.insert(session.setup.id.clone(), Arc::clone(&session));
        });
        session
    }

    fn make(
        &self,
        share: SessionShare,
        setup: SessionSetup,
        initial: InitialState,
        restored: bool,
        stored: Option<Arc<SessionAnswers>>,
    ) -> Arc<Session> {
        Arc::new(Session {
            identity: Arc::new(setup.identity()),
            folder: self.folder.join(&setup.id),
            workspaces: Arc::clone(&self.workspaces),
            calls: CallTable::new(self.answer_kept_ms, Arc::clone(&share.0), stored.clone()),
            stored,
            refusals: RefusalCounts::default(),
            restored,
            earlier_calls: OnceCell::new(),
            last_used_ms: AtomicU64::new(initial.last_used_ms),
            ended: CancellationToken::new(),
            pending_events: TaskTracker::new(),
            changing_files: Queue::new(QueueSettings {
                running: 1,
                running_per_organization: 1,
                waiting_per_organization: WAITING_FOR_FILES,
                waiting: WAITING_FOR_FILES,
            }),
            slot: WorkspaceSlot::default(),
            state: SessionState::new(initial.facts, initial.rounds, self.bounds),
            setup,
            share,
        })
    }

    /// The session of that id.
    pub fn find(&self, id: &str) -> Option<Arc<Session>> {
        self.shard(id).read().get(id).cloned()
    }

    /// Removes a session from its map and cancels its running calls. The caller ends its pending calls and removes its
    /// files.
    pub fn close(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.write(id, |shard| shard.remove(id))?;
        session.ended.cancel();
        Some(session)
    }

    /// Removes workspaces without a session, which a crash between the end of a session and the removal of its files
    /// leaves.
    pub async fn remove_orphans(&self) {
        let Ok(mut folders) = tokio::fs::read_dir(&self.folder).await else { return };
        while let Ok(Some(folder)) = folders.next_entry().await {
            let owned = folder.file_name().to_str().is_some_and(|id| self.find(id).is_some());
            if !owned && let Err(error) = tokio::fs::remove_dir_all(folder.path()).await {
                tracing::warn!(%error, "a workspace without a session cannot be removed");
            }
        }
    }

    /// The number of open sessions.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// The sessions for which `fits` is true.
    pub fn filter(&self, fits: impl Fn(&Session) -> bool) -> Vec<Arc<Session>> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.read();
            found.extend(shard.values().filter(|session| fits(session)).cloned());
        }
        found
    }

    fn shard(&self, id: &str) -> &RwLock<HashMap<String, Arc<Session>>> {
        let at = self.hasher.hash_one(id) % SHARDS as u64;
        &self.shards[usize::try_from(at).unwrap_or(0)]
    }

    fn write<T>(&self, id: &str, act: impl FnOnce(&mut HashMap<String, Arc<Session>>) -> T) -> T {
        act(&mut self.shard(id).write())
    }
}
