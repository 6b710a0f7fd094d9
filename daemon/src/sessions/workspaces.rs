//! Which sessions' workspaces are open.
//!
//! An open workspace holds one of the process's descriptors, and a session with files lives for a day: only those that were
//! used lately stay open. The others are opened again by their next use. One that is in use stays open however long ago
//! that began.

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

/// A session's workspace.
#[derive(Default)]
pub(super) struct Seat(tokio::sync::Mutex<Seated>);

#[derive(Default)]
enum Seated {
    /// Nobody used it yet.
    #[default]
    Unused,
    /// Open or not.
    Known(WeakWorkspace),
    /// Its session has ended, and its files are removed.
    Over,
}

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
        let mut seat = seat.0.lock().await;
        let workspace = match &mut *seat {
            Seated::Over => return Err(WorkspaceError::NotFound),
            Seated::Known(known) => match known.upgrade() {
                Some(workspace) => workspace,
                None => known.reopen(folder, self.files.clone()).await?,
            },
            Seated::Unused => {
                tokio::fs::create_dir_all(folder).await.map_err(WorkspaceError::of_disk)?;
                // Without a quota: whoever comes first would bind those who come after and may fill it more.
                let opened = Workspace::open(folder, Quota::UNBOUNDED, self.files.clone()).await?;
                *seat = Seated::Known(opened.downgrade());
                opened
            }
        };
        let let_go = self.kept().keep(session, &workspace);
        drop((seat, let_go));
        Ok(workspace)
    }

    /// Lets nobody open the workspace of a session any more. It is given where it is open.
    pub async fn end(&self, session: &str, seat: &Seat) -> Option<Workspace> {
        let seated = mem::replace(&mut *seat.0.lock().await, Seated::Over);
        let let_go = self.kept().remove(session);
        drop(let_go);
        match seated {
            Seated::Known(known) => known.upgrade(),
            Seated::Unused | Seated::Over => None,
        }
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
                let Seated::Known(known) = &*seat.0.lock().await else { continue };
                open.extend(known.upgrade().map(|_| number));
            }
            open
        }
    }

    #[tokio::test]
    async fn only_workspaces_that_were_used_lately_stay_open_and_what_is_in_the_others_stays_counted() {
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
    async fn a_workspace_that_is_in_use_stays_the_same_and_none_is_opened_after_its_end() {
        let scene = Scene::new(5 * MOST);
        let used = scene.open(0).await;
        for number in 1..5 * MOST {
            scene.open(number).await;
        }
        used.write("a.txt", "12345".into()).await.unwrap();
        assert_eq!(scene.open(0).await.used().bytes, 5);
        let ended = scene.workspaces.end("0", &scene.seats[0]).await;
        assert!(ended.is_some());
        drop((used, ended));
        assert!(!scene.are_open().await.contains(&0));
        let again = scene.workspaces.open("0", &scene.seats[0], &scene.folder.path().join("0")).await;
        assert!(matches!(again, Err(WorkspaceError::NotFound)), "{again:?}");
        assert!(scene.workspaces.end("0", &scene.seats[0]).await.is_none());
    }
}
