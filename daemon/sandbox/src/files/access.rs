//! What one call may do with files, and what it did.
//!
//! [`FileAccess`] lives in the call's store. What streams and threads need too lies in its [`Lane`]: the
//! call's way into the pool, narrow enough that a call cannot fill it, and the record of effects. Whatever
//! happens in a thread is written down there, by the thread, when it happens: a call that is stopped in
//! the middle does not lose what it has already done.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolgate_admission::LimitName;

use crate::effect::{BeforeEffect, Effect};
use crate::limiter::saturating;
use crate::moved::Moved;
use crate::workspace::tree::HeldFile;
use crate::workspace::{FileError, Lock, Refusal, Workspace, is_full_disk};

/// Operations of one call that may be under way at once. A guest is one thread; more than one come only
/// from streams that it does not wait for.
const OPERATIONS_MAX: usize = 4;

/// Entries of folders that one call may be in the middle of listing. A listing is read in one go and kept
/// by the host, at about a hundred bytes an entry.
pub(crate) const LISTED_MAX: u64 = 65_536;

/// Effects that are kept word for word. A call that touches more files than this is told by their number.
const EFFECTS_MAX: usize = 32;

/// Longest path in an effect, in characters.
const DETAIL_CHARS_MAX: usize = 256;

/// A call's files: its workspace if it was granted one, and what became of it.
pub struct FileAccess {
    pub(crate) lane: Option<Arc<Lane>>,
    pub(crate) writable: bool,
    pub(crate) open: HashMap<u32, Descriptor>,
    pub(crate) listings: HashMap<u32, u64>,
    /// The workspace itself, as the guest is given it: one descriptor, however often it asks.
    pub(crate) preopened: Option<wasmtime_wasi::filesystem::Descriptor>,
    before_effect: BeforeEffect,
    intent: Intent,
}

impl fmt::Debug for FileAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FileAccess").field("lane", &self.lane).finish_non_exhaustive()
    }
}

/// Whether the call's intent is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intent {
    Unneeded,
    Recorded,
    Failed,
}

/// What stands behind a descriptor, beside what wasmtime-wasi keeps of it.
#[derive(Clone, Debug)]
pub(crate) enum Descriptor {
    Folder { path: Arc<str>, _place: Option<Arc<OwnedSemaphorePermit>> },
    File(Arc<GuestFile>),
}

/// An open file of a guest. Streams and running operations keep it alive, and with it its place in the
/// quota.
#[derive(Debug)]
pub(crate) struct GuestFile {
    pub(crate) held: HeldFile,
    pub(crate) path: Arc<str>,
    pub(crate) writable: bool,
    pub(crate) _place: OwnedSemaphorePermit,
}

impl FileAccess {
    /// Reading and writing in the workspace, or nothing without one. At most `open_files` are held open at once.
    pub fn new(workspace: Option<Workspace>, open_files: u64, before_effect: BeforeEffect) -> Self {
        Self {
            lane: workspace.map(|workspace| Arc::new(Lane::new(workspace, open_files))),
            writable: true,
            open: HashMap::new(),
            listings: HashMap::new(),
            preopened: None,
            before_effect,
            intent: Intent::Unneeded,
        }
    }

    /// Counts the bytes that are read and written, to be charged for.
    pub(crate) fn counting(mut self, moved: &Moved) -> Self {
        if let Some(lane) = self.lane.as_mut().and_then(Arc::get_mut) {
            lane.moved = moved.clone();
        }
        self
    }

    /// Reading only.
    pub fn read_only(workspace: Workspace, open_files: u64) -> Self {
        Self { writable: false, ..Self::new(Some(workspace), open_files, BeforeEffect::refused()) }
    }

    /// What was done and refused so far, in order; the last one says how many were left out.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.lane.as_ref().map(|lane| lane.record().take()).unwrap_or_default()
    }

    /// The limit that refused something first, if one did.
    pub fn limit_refused(&self) -> Option<LimitName> {
        self.lane.as_ref()?.record().limit_refused
    }

    /// Whether the disk under the workspace had no room, whatever the call may write.
    pub fn disk_is_full(&self) -> bool {
        self.lane.as_ref().is_some_and(|lane| lane.record().disk_is_full)
    }

    /// Whether a change was refused because the intent of the call could not be recorded.
    pub fn effect_refused(&self) -> bool {
        self.intent == Intent::Failed
    }

    /// Operations that have not ended, which is more than none only after a call was stopped in the middle.
    /// Their effects may still happen, and are then in no record.
    pub fn unfinished(&self) -> u64 {
        self.lane.as_ref().map_or(0, |lane| lane.unfinished.load(Ordering::Acquire))
    }

    /// Before anything changes: it must be allowed, and the intent on disk.
    pub(crate) async fn begin_change(&mut self, path: &str) -> Result<(), FileError> {
        if !self.writable {
            return Err(self.refuse(Refusal::ReadOnly.into(), path));
        }
        if self.intent == Intent::Unneeded {
            self.intent = match self.before_effect.recorded().await {
                Ok(()) => Intent::Recorded,
                Err(why) => {
                    tracing::error!(why, "the intent of a call could not be recorded");
                    Intent::Failed
                }
            };
        }
        match self.intent {
            Intent::Failed => Err(io::Error::from(rustix::io::Errno::IO).into()),
            _ => Ok(()),
        }
    }

    /// Notes that a file was opened to be read, where somebody wants to know.
    pub(crate) fn note_read(&self, path: &str) {
        if let Some(lane) = self.lane.as_ref().filter(|lane| lane.workspace.tells_reads()) {
            lane.record().reads.add("workspace_read", shown(path));
        }
    }

    /// Notes a refusal, and gives it back.
    pub(crate) fn refuse(&self, error: FileError, path: &str) -> FileError {
        if let Some(lane) = &self.lane {
            lane.note_refusal(&error, path);
        }
        error
    }
}

/// A call's way to its workspace.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) workspace: Workspace,
    operations: Arc<Semaphore>,
    places: Arc<Semaphore>,
    record: Mutex<Record>,
    unfinished: AtomicU64,
    pub(crate) moved: Moved,
}

impl Lane {
    fn new(workspace: Workspace, open_files: u64) -> Self {
        Self {
            workspace,
            operations: Arc::new(Semaphore::new(OPERATIONS_MAX)),
            places: Arc::new(Semaphore::new(saturating(open_files).min(Semaphore::MAX_PERMITS))),
            record: Mutex::default(),
            unfinished: AtomicU64::new(0),
            moved: Moved::default(),
        }
    }

    /// A place for one more open file or folder.
    pub(crate) fn place(&self, path: &str) -> Result<OwnedSemaphorePermit, FileError> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let error = Refusal::TooManyOpen.into();
            self.note_refusal(&error, path);
            error
        })
    }

    /// Runs something that changes nothing and walks no path.
    pub(crate) async fn read<R: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<R> {
        let kept = (self.begin(), self.operation().await?);
        self.workspace.pool().run(kept, work).await
    }

    /// Runs something under the workspace's lock, and writes down how it went: as a write where `writes`,
    /// and refusals always.
    pub(crate) async fn locked<R: Send + 'static>(
        self: Arc<Self>,
        path: Arc<str>,
        writes: bool,
        work: impl FnOnce(&Workspace, &Lock) -> Result<R, FileError> + Send + 'static,
    ) -> Result<R, FileError> {
        let kept = (self.begin(), self.operation().await?);
        let lock = self.workspace.lock().await;
        let pool = self.workspace.pool().clone();
        let work = move || {
            let done = work(&self.workspace, &lock);
            match &done {
                Ok(_) if writes => self.record().effects.add("workspace_write", shown(&path)),
                Ok(_) => {}
                Err(error) => self.note_refusal(error, &path),
            }
            done
        };
        pool.run(kept, work).await?
    }

    /// Writes down a change of another path than the one that the lock was taken for.
    pub(crate) fn note_write(&self, path: &str) {
        self.record().effects.add("workspace_write", shown(path));
    }

    fn note_refusal(&self, error: &FileError, path: &str) {
        let mut record = self.record();
        let limit = match error {
            FileError::Refused(refusal) if refusal.is_denial() => {
                return record.effects.add("file_denied", format!("{}: {refusal}", shown(path)));
            }
            FileError::Quota(exceeded) => exceeded.kind.limit(),
            FileError::Refused(Refusal::TooManyOpen) => LimitName::OpenFiles,
            FileError::Io(error) if is_full_disk(error) => {
                tracing::error!(%error, "the disk of the workspaces is full");
                record.disk_is_full = true;
                return;
            }
            FileError::Refused(_) | FileError::Io(_) => return,
        };
        record.limit_refused.get_or_insert(limit);
        record.effects.add("quota_exceeded", format!("{}: {limit}", shown(path)));
    }

    async fn operation(&self) -> io::Result<OwnedSemaphorePermit> {
        Arc::clone(&self.operations).acquire_owned().await.map_err(io::Error::other)
    }

    fn begin(self: &Arc<Self>) -> Unfinished {
        self.unfinished.fetch_add(1, Ordering::AcqRel);
        Unfinished(Arc::clone(self))
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one operation until it is over, in whatever thread that is.
struct Unfinished(Arc<Lane>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.unfinished.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a call did with files.
#[derive(Debug, Default)]
struct Record {
    effects: Effects,
    /// Apart, so that a call that reads much still tells what it changed.
    reads: Effects,
    limit_refused: Option<LimitName>,
    disk_is_full: bool,
}

impl Record {
    fn take(&mut self) -> Vec<Effect> {
        let mut effects = self.effects.take("file_effects_left_out");
        effects.extend(self.reads.take("file_reads_left_out"));
        effects
    }
}

/// The first of what happened word for word, and how much more there was.
#[derive(Debug, Default)]
struct Effects {
    told: Vec<Effect>,
    left_out: u64,
}

impl Effects {
    /// Adds an effect unless it is there already.
    fn add(&mut self, kind: &'static str, detail: String) {
        let effect = Effect { kind, detail };
        if self.told.contains(&effect) {
            return;
        }
        if self.told.len() == EFFECTS_MAX {
            self.left_out += 1;
        } else {
            self.told.push(effect);
        }
    }

    fn take(&mut self, kind_of_the_rest: &'static str) -> Vec<Effect> {
        let mut told = std::mem::take(&mut self.told);
        if self.left_out > 0 {
            let detail = format!("{} more", std::mem::take(&mut self.left_out));
            told.push(Effect { kind: kind_of_the_rest, detail });
        }
        told
    }
}

/// A guest's path for people to read: short, and on one line.
fn shown(path: &str) -> String {
    path.escape_debug().take(DETAIL_CHARS_MAX).collect()
}
