//! Sessions: who an orchestrator speaks for, and what became of the calls it made there.
//!
//! A session lives in memory, in one of many small maps, so that two calls of different sessions share
//! no lock; its row in the store is what survives a restart. Answers are kept so that the same call id is
//! answered the same and never runs twice (R7): in full for a while, then as the bare fact.

mod calls;
mod conduct;
mod status;
mod workspaces;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_admission::{Name, SessionFacts};
use toolgate_sandbox::workspace::{Quota, WorkspaceError};
use toolgate_sandbox::{MadeFor, Queue, QueueSettings, Workspace};

use crate::audit::EarlierCalls;
pub use calls::{
    CallBook, CallState, ClientCall, LeftTo, Opened, PostedResult, Recorded, ResultOpened, RunningCall,
    Waiting, WaitsFor,
};
pub use conduct::{Bounds, Conduct, RoundsSpent};
pub use status::Status;
pub use workspaces::KEPT_OPEN;
use workspaces::{Seat, Workspaces};

/// Maps that sessions are spread over. More than there are processors, so that two calls rarely meet.
const SHARDS: usize = 64;

/// Calls of one session that may wait for its files. They hold no place in the sandbox meanwhile, so this is all that
/// bounds them; a request brings no more than 32 calls unless the operator allows it.
const WAITING_FOR_FILES: usize = 128;

/// What a session is opened with.
#[derive(Clone, Debug)]
pub struct SessionSetup {
    /// Its id: unguessable, since it is also the name of its workspace.
    pub id: String,
    /// The agent's organization.
    pub organization: Name,
    /// The agent.
    pub agent: Name,
    /// Whom the orchestrator says it acts for.
    pub user: Option<String>,
    /// The orchestrator's conversation.
    pub conversation: Option<String>,
    /// Where the conversation takes place.
    pub channel: Option<String>,
    /// The id of the token that opened it.
    pub principal: String,
    /// When it was opened.
    pub created_ms: u64,
}

impl SessionSetup {
    /// For whom its calls are made.
    pub fn made_for(&self) -> MadeFor {
        let text = |text: &Option<String>| text.as_deref().map(Box::from);
        MadeFor {
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
    /// What it was opened with.
    pub setup: SessionSetup,
    /// The same for its calls.
    pub made_for: Arc<MadeFor>,
    /// How it goes on, and what a decision looks at.
    pub conduct: Conduct,
    /// Its calls by id.
    pub calls: CallBook,
    /// Whether an earlier run of the daemon opened it. That run's calls are in the audit log alone.
    pub taken_up: bool,
    /// Which those are, once somebody had to know.
    pub earlier_calls: OnceCell<EarlierCalls>,
    last_used_ms: AtomicU64,
    ended: CancellationToken,
    telling: TaskTracker,
    /// The line of the calls that may change its files: one of them runs at a time, and whoever came first is the first.
    pub changing_files: Queue,
    seat: Seat,
    folder: PathBuf,
    workspaces: Arc<Workspaces>,
}

impl Session {
    /// When it was last used.
    pub fn last_used_ms(&self) -> u64 {
        self.last_used_ms.load(Ordering::Relaxed)
    }

    /// Keeps it open.
    pub fn touch(&self, now_ms: u64) {
        self.last_used_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    /// Cancelled when the session ends; running calls end with it.
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Calls whose end is still to be told. Closed when the session ended, so that waiting for it waits for the last word.
    pub fn telling(&self) -> &TaskTracker {
        &self.telling
    }

    /// Its files, for one who may fill them up to `quota`.
    pub async fn workspace(&self, quota: Quota) -> Result<Workspace, WorkspaceError> {
        let opened = self.workspaces.open(&self.setup.id, &self.seat, &self.folder).await?;
        Ok(opened.narrowed(quota))
    }

    /// Removes its files, once it is closed.
    pub async fn remove_files(&self) {
        // A call that was just stopped may have a file operation under way, and what it makes in a folder that is
        // being removed would keep the folder.
        let lock = match self.workspaces.end(&self.setup.id, &self.seat).await {
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
            let session = self.setup.id.as_str();
            tracing::warn!(session, %error, "the workspace of an ended session cannot be removed");
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
    bounds: Bounds,
    answer_bytes: Arc<AtomicUsize>,
}

/// Where a session stands when it is opened or taken up again.
pub struct Beginning {
    /// What a decision looks at.
    pub facts: SessionFacts,
    /// Rounds that it had in earlier runs of the daemon.
    pub rounds: u64,
    /// When it was last used.
    pub last_used_ms: u64,
}

impl Sessions {
    /// No session yet. Workspaces are folders below `folder`; answers are kept for `answer_kept_ms`.
    pub fn new(folder: &Path, answer_kept_ms: u64, bounds: Bounds) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
            folder: folder.to_owned(),
            workspaces: Arc::new(Workspaces::new(KEPT_OPEN)),
            answer_kept_ms,
            bounds,
            answer_bytes: Arc::default(),
        }
    }

    /// Opens a session.
    pub fn open(&self, setup: SessionSetup, beginning: Beginning) -> Arc<Session> {
        self.insert(setup, beginning, false)
    }

    /// Takes a session up again after a restart.
    pub fn take_up(&self, setup: SessionSetup, beginning: Beginning) -> Arc<Session> {
        self.insert(setup, beginning, true)
    }

    /// A session that nobody can find: for one call, by whoever tries a tool. Its files are for the caller to remove.
    pub fn unlisted(&self, setup: SessionSetup, beginning: Beginning) -> Arc<Session> {
        self.make(setup, beginning, false)
    }

    fn insert(&self, setup: SessionSetup, beginning: Beginning, taken_up: bool) -> Arc<Session> {
        let session = self.make(setup, beginning, taken_up);
        self.write(&session.setup.id, |shard| {
            shard.insert(session.setup.id.clone(), Arc::clone(&session));
        });
        session
    }

    fn make(&self, setup: SessionSetup, beginning: Beginning, taken_up: bool) -> Arc<Session> {
        Arc::new(Session {
            made_for: Arc::new(setup.made_for()),
            folder: self.folder.join(&setup.id),
            workspaces: Arc::clone(&self.workspaces),
            calls: CallBook::new(self.answer_kept_ms, Arc::clone(&self.answer_bytes)),
            taken_up,
            earlier_calls: OnceCell::new(),
            last_used_ms: AtomicU64::new(beginning.last_used_ms),
            ended: CancellationToken::new(),
            telling: TaskTracker::new(),
            changing_files: Queue::new(QueueSettings {
                running: 1,
                running_per_organization: 1,
                waiting_per_organization: WAITING_FOR_FILES,
                waiting: WAITING_FOR_FILES,
            }),
            seat: Seat::default(),
            conduct: Conduct::new(beginning.facts, beginning.rounds, self.bounds),
            setup,
        })
    }

    /// The session of that id.
    pub fn find(&self, id: &str) -> Option<Arc<Session>> {
        self.shard(id).read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Closes a session: nobody finds it any more, and its running calls are cancelled. What waits in it and its files
    /// are left to who closes it.
    pub fn close(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.write(id, |shard| shard.remove(id))?;
        session.ended.cancel();
        Some(session)
    }

    /// Removes workspaces whose session is no more: what a crash between the end of a session and the
    /// removal of its files leaves.
    pub async fn remove_orphans(&self) {
        let Ok(mut folders) = tokio::fs::read_dir(&self.folder).await else { return };
        while let Ok(Some(folder)) = folders.next_entry().await {
            let owned = folder.file_name().to_str().is_some_and(|id| self.find(id).is_some());
            if !owned && let Err(error) = tokio::fs::remove_dir_all(folder.path()).await {
                tracing::warn!(%error, "a workspace without a session cannot be removed");
            }
        }
    }

    /// Sessions that fit.
    pub fn filter(&self, fits: impl Fn(&Session) -> bool) -> Vec<Arc<Session>> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            found.extend(shard.values().filter(|session| fits(session)).cloned());
        }
        found
    }

    fn shard(&self, id: &str) -> &RwLock<HashMap<String, Arc<Session>>> {
        let at = self.hasher.hash_one(id) % SHARDS as u64;
        &self.shards[usize::try_from(at).unwrap_or(0)]
    }

    fn write<T>(&self, id: &str, act: impl FnOnce(&mut HashMap<String, Arc<Session>>) -> T) -> T {
        act(&mut self.shard(id).write().unwrap_or_else(PoisonError::into_inner))
    }
}
