//! Which sessions' workspaces are open.
//!
//! An open workspace holds one of the process's descriptors, and a session with files lives for a day: only those that were
//! used lately stay open. The others are opened again by their next use, which counts what is in them once more. One
//! that is in use stays open however long ago it was begun to be used, so a session never has two.

use std::collections::HashMap;
use std::mem;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use toolgate_sandbox::Workspace;
use toolgate_sandbox::workspace::{FilePool, Quota, WeakWorkspace, WorkspaceError};

/// Those that stay open although nobody uses them, at most.
pub const KEPT_OPEN: usize = 1_024;

/// What the workspaces of all sessions share.
pub(super) struct Workspaces {
    files: FilePool,
    kept: Mutex<Kept>,
}

/// A session's workspace, open or not.
#[derive(Default)]
pub(super) struct Seat(tokio::sync::Mutex<WeakWorkspace>);

/// In two generations: what is used moves to the younger one, and when that is half of all, the older one is let go.
struct Kept {
    most: usize,
    younger: HashMap<Box<str>, Workspace>,
    older: HashMap<Box<str>, Workspace>,
}

impl Workspaces {
    pub fn new(most: usize) -> Self {
        let kept = Kept { most, younger: HashMap::new(), older: HashMap::new() };
        Self { files: FilePool::default(), kept: Mutex::new(kept) }
    }

    /// The workspace of that session. Its folder is made on first use, since most sessions never have one.
    pub async fn open(&self, session: &str, seat: &Seat, folder: &Path) -> Result<Workspace, WorkspaceError> {
        let mut held = seat.0.lock().await;
        let workspace = match held.upgrade() {
            Some(workspace) => workspace,
            None => {
                tokio::fs::create_dir_all(folder).await.map_err(WorkspaceError::of_disk)?;
                // Without a quota: whoever comes first would bind those who come after and may fill it more.
                let opened = Workspace::open(folder, Quota::UNBOUNDED, self.files.clone()).await?;
                *held = opened.downgrade();
                opened
            }
        };
        let let_go = self.kept().keep(session, &workspace);
        drop((held, let_go));
        Ok(workspace)
    }

    /// Keeps the workspace of a session open no longer. It is given where it is open.
    pub async fn let_go(&self, session: &str, seat: &Seat) -> Option<Workspace> {
        let workspace = seat.0.lock().await.upgrade();
        let let_go = self.kept().remove(session);
        drop(let_go);
        workspace
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// What is not kept any more is for the caller to drop, which closes files.
    fn keep(&mut self, session: &str, workspace: &Workspace) -> HashMap<Box<str>, Workspace> {
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

    struct Scene {
        folder: tempfile::TempDir,
        workspaces: Workspaces,
        seats: Vec<Seat>,
    }

    impl Scene {
        fn new(sessions: usize) -> Self {
            let seats = (0..sessions).map(|_| Seat::default()).collect();
            Self { folder: tempfile::tempdir().unwrap(), workspaces: Workspaces::new(MOST), seats }
        }

        async fn open(&self, number: usize) -> Workspace {
            let name = number.to_string();
            let folder = self.folder.path().join(&name);
            self.workspaces.open(&name, &self.seats[number], &folder).await.unwrap()
        }

        async fn are_open(&self) -> Vec<usize> {
            let mut open = Vec::new();
            for (number, seat) in self.seats.iter().enumerate() {
                open.extend(seat.0.lock().await.upgrade().map(|_| number));
            }
            open
        }
    }

    #[tokio::test]
    async fn only_workspaces_that_were_used_lately_stay_open_and_what_is_in_the_others_is_counted_again() {
        let scene = Scene::new(5 * MOST);
        for number in 0..5 * MOST {
            scene.open(number).await.write("a.txt", "12345".into()).await.unwrap();
            scene.open(0).await;
        }
        let open = scene.are_open().await;
        assert!(open.len() <= MOST && open.len() >= MOST / 2, "{open:?}");
        assert!(open.contains(&0) && open.contains(&(5 * MOST - 1)), "{open:?}");
        assert!(!open.contains(&1), "{open:?}");
        let again = scene.open(1).await;
        assert_eq!((again.used().bytes, again.used().files), (5, 1));
    }

    #[tokio::test]
    async fn a_workspace_that_is_in_use_is_never_opened_twice() {
        let scene = Scene::new(5 * MOST);
        let used = scene.open(0).await;
        for number in 1..5 * MOST {
            scene.open(number).await;
        }
        used.write("a.txt", "12345".into()).await.unwrap();
        assert_eq!(scene.open(0).await.used().bytes, 5);
        let given = scene.workspaces.let_go("0", &scene.seats[0]).await;
        assert!(given.is_some());
        drop((used, given));
        assert!(!scene.are_open().await.contains(&0));
        assert!(scene.workspaces.let_go("0", &scene.seats[0]).await.is_none());
    }
}
