//! The LRU cache of open workspaces.
//!
//! An open workspace holds a file descriptor of the process, and a session with files lives for a day. So only workspaces
//! that were used recently stay open; the next use opens the others again. A workspace that is in use is never closed.

use std::collections::HashMap;
use std::mem;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use toolgate_sandbox::Workspace;
use toolgate_sandbox::workspace::{FilePool, SharedQuota, WeakWorkspace, WorkspaceError};

/// Unused workspaces that stay open, at most.
pub const OPEN_MAX: usize = 1_024;

/// The workspaces of all sessions.
pub(super) struct Workspaces {
    files: FilePool,
    cache: Mutex<OpenCache>,
}

/// The workspace of one session.
#[derive(Default)]
pub(super) struct WorkspaceSlot(tokio::sync::Mutex<SlotState>);

#[derive(Default)]
enum SlotState {
    /// No call has used it yet.
    #[default]
    Unused,
    /// The workspace was opened, and may be closed again.
    Known(WeakWorkspace),
    /// The session has ended, and its files are removed.
    Ended,
}

/// An LRU approximation by two generations: a use moves a workspace to the younger one, and when that holds half of
/// `most`, the older one is dropped.
struct OpenCache {
    most: usize,
    younger: HashMap<Box<str>, Workspace>,
    older: HashMap<Box<str>, Workspace>,
}

impl Workspaces {
    pub(super) fn new(most: usize) -> Self {
        let cache = OpenCache { most, younger: HashMap::new(), older: HashMap::new() };
        Self { files: FilePool::default(), cache: Mutex::new(cache) }
    }

    /// Opens the workspace of a session. The folder is made on first use, since most sessions never have one.
    pub(super) async fn open(
        &self,
        session: &str,
        slot: &WorkspaceSlot,
        folder: &Path,
        shared_quota: &Arc<SharedQuota>,
    ) -> Result<Workspace, WorkspaceError> {
        let mut slot = slot.0.lock().await;
        let workspace = match &mut *slot {
            SlotState::Ended => return Err(WorkspaceError::NotFound),
            SlotState::Known(known) => match known.upgrade() {
                Some(workspace) => workspace,
                None => known.reopen(folder, self.files.clone()).await?,
            },
            SlotState::Unused => {
                tokio::fs::create_dir_all(folder).await.map_err(WorkspaceError::of_disk)?;
                // Without a quota: the first caller's would bind later callers that may fill it more.
                let files = self.files.clone();
                let opened = Workspace::open_within(folder, Arc::clone(shared_quota), files).await?;
                *slot = SlotState::Known(opened.downgrade());
                opened
            }
        };
        let closed = self.cache.lock().insert(session, &workspace);
        drop((slot, closed));
        Ok(workspace)
    }

    /// Closes a session's workspace for good. Returns it where it is open.
    pub(super) async fn end(&self, session: &str, slot: &WorkspaceSlot) -> Option<Workspace> {
        let state = mem::replace(&mut *slot.0.lock().await, SlotState::Ended);
        drop(self.cache.lock().remove(session));
        match state {
            SlotState::Known(known) => known.upgrade(),
            SlotState::Unused | SlotState::Ended => None,
        }
    }
}

impl OpenCache {
    /// Returns the workspaces that leave the cache: the caller drops them, which closes files, outside of the lock.
    fn insert(&mut self, session: &str, workspace: &Workspace) -> HashMap<Box<str>, Workspace> {
        if self.younger.contains_key(session) {
            return HashMap::new();
        }
        self.older.remove(session);
        self.younger.insert(session.into(), workspace.clone());
        if self.younger.len() * 2 < self.most {
            return HashMap::new();
        }
        let younger = mem::take(&mut self.younger);
        mem::replace(&mut self.older, younger)
    }

    fn remove(&mut self, session: &str) -> Option<Workspace> {
        let (younger, older) = (self.younger.remove(session), self.older.remove(session));
        younger.or(older)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 8;

    fn unbounded_quota() -> Arc<SharedQuota> {
        Arc::new(SharedQuota::new(u64::MAX))
    }

    struct Fixture {
        folder: tempfile::TempDir,
        workspaces: Workspaces,
        slots: Vec<WorkspaceSlot>,
    }

    impl Fixture {
        fn new(sessions: usize) -> Self {
            let slots = (0..sessions).map(|_| WorkspaceSlot::default()).collect();
            Self { folder: tempfile::tempdir().unwrap(), workspaces: Workspaces::new(MOST), slots }
        }

        async fn open(&self, number: usize) -> Workspace {
            let name = number.to_string();
            let folder = self.folder.path().join(&name);
            self.workspaces.open(&name, &self.slots[number], &folder, &unbounded_quota()).await.unwrap()
        }

        async fn open_numbers(&self) -> Vec<usize> {
            let mut open = Vec::new();
            for (number, slot) in self.slots.iter().enumerate() {
                let SlotState::Known(known) = &*slot.0.lock().await else { continue };
                open.extend(known.upgrade().map(|_| number));
            }
            open
        }
    }

    #[tokio::test]
    async fn recently_used_workspaces_stay_open_and_closed_ones_stay_counted() {
        let fixture = Fixture::new(5 * MOST);
        for number in 0..5 * MOST {
            fixture.open(number).await.write("a.txt", "12345".into()).await.unwrap();
            fixture.open(0).await;
        }
        let open = fixture.open_numbers().await;
        assert!(open.len() <= MOST && open.len() >= MOST / 2, "{open:?}");
        assert!(open.contains(&0) && open.contains(&(5 * MOST - 1)), "{open:?}");
        assert!(!open.contains(&1), "{open:?}");
        let again = fixture.open(1).await;
        assert_eq!((again.usage().bytes, again.usage().files), (5, 1));
    }

    #[tokio::test]
    async fn a_workspace_in_use_stays_open_and_none_opens_after_its_end() {
        let fixture = Fixture::new(5 * MOST);
        let used = fixture.open(0).await;
        for number in 1..5 * MOST {
            fixture.open(number).await;
        }
        used.write("a.txt", "12345".into()).await.unwrap();
        assert_eq!(fixture.open(0).await.usage().bytes, 5);
        let ended = fixture.workspaces.end("0", &fixture.slots[0]).await;
        assert!(ended.is_some());
        drop((used, ended));
        assert!(!fixture.open_numbers().await.contains(&0));
        let folder = fixture.folder.path().join("0");
        let again = fixture.workspaces.open("0", &fixture.slots[0], &folder, &unbounded_quota()).await;
        assert!(matches!(again, Err(WorkspaceError::NotFound)), "{again:?}");
        assert!(fixture.workspaces.end("0", &fixture.slots[0]).await.is_none());
    }
}
