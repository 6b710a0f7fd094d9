//! Permissions and effects of one call's file access.
//!
//! [`FileAccess`] is in the call's store. The state shared with streams and threads is its [`FileChannel`]: the call's
//! access to the file pool, limited so that one call cannot fill it, and the record of effects. A thread records its
//! effect itself when it happens, so a call that is stopped in the middle does not lose effects.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolgate_api::limits::LimitName;

use crate::copy_meter::CopyMeter;
use crate::effect::{BeforeEffect, Effect};
use crate::limiter::saturating_usize;
use crate::workspace::error::{FileError, is_full_disk};
use crate::workspace::tree::HeldFile;
use crate::workspace::{Lock, Refusal, Workspace};

/// Concurrent operations of one call. A guest is single-threaded; only streams that it does not wait for run
/// concurrently.
const OPERATIONS_MAX: usize = 4;

/// Directory entries of the open listings of one call. A listing is read at once and buffered by the host, at about a
/// hundred bytes an entry.
pub(crate) const LISTED_MAX: u64 = 65_536;

/// Effects that are recorded in full. Further ones are only counted.
const EFFECTS_MAX: usize = 32;

/// Maximum length of a path in an effect, in characters.
const DETAIL_CHARS_MAX: usize = 256;

/// A call's file access: its workspace, if granted, and its effects.
pub struct FileAccess {
    pub(crate) channel: Option<Arc<FileChannel>>,
    pub(crate) writable: bool,
    pub(crate) open: HashMap<u32, Descriptor>,
    pub(crate) listings: HashMap<u32, u64>,
    /// The preopened workspace: one shared descriptor for every request of the guest.
    pub(crate) preopened: Option<wasmtime_wasi::filesystem::Descriptor>,
    before_effect: BeforeEffect,
    intent: Intent,
}

/// Whether the call's intent is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intent {
    NotNeeded,
    Recorded,
    Failed,
}

/// Our state of a descriptor, besides that of wasmtime-wasi.
#[derive(Clone, Debug)]
pub(crate) enum Descriptor {
    Folder { path: Arc<str>, _permit: Option<Arc<OwnedSemaphorePermit>> },
    File(Arc<GuestFile>),
}

/// An open file of a guest. Streams and running operations keep it alive, and with it its share of the quota.
#[derive(Debug)]
pub(crate) struct GuestFile {
    pub(crate) held: HeldFile,
    pub(crate) path: Arc<str>,
    pub(crate) writable: bool,
    pub(crate) _permit: OwnedSemaphorePermit,
}

impl FileAccess {
    /// Read-write access to the workspace; without one, no access. At most `open_files` are open at once;
    /// copied bytes are charged to `copy_meter`.
    pub(crate) fn new(
        workspace: Option<Workspace>,
        open_files: u64,
        before_effect: BeforeEffect,
        copy_meter: &CopyMeter,
    ) -> Self {
        Self {
            channel: workspace.map(|workspace| Arc::new(FileChannel::new(workspace, open_files, copy_meter))),
            writable: true,
            open: HashMap::new(),
            listings: HashMap::new(),
            preopened: None,
            before_effect,
            intent: Intent::NotNeeded,
        }
    }

    /// Read-only access.
    pub fn read_only(workspace: Workspace, open_files: u64) -> Self {
        let (before_effect, copy_meter) = (BeforeEffect::forbidden(), CopyMeter::default());
        Self { writable: false, ..Self::new(Some(workspace), open_files, before_effect, &copy_meter) }
    }

    /// Takes the effects and refusals so far, in order. The last one counts those that were left out.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.channel.as_ref().map(|channel| channel.record.lock().take()).unwrap_or_default()
    }

    /// The first limit that refused an operation, if any.
    pub fn exceeded_limit(&self) -> Option<LimitName> {
        self.channel.as_ref()?.record.lock().exceeded_limit
    }

    /// Whether the disk under the workspace was full, independently of the call's quota.
    pub fn disk_is_full(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.record.lock().disk_is_full)
    }

    /// Whether a change was refused because the intent of the call could not be recorded.
    pub fn intent_failed(&self) -> bool {
        self.intent == Intent::Failed
    }

    /// Operations that have not ended. Nonzero only after a call was stopped; their effects may still happen and are
    /// then unrecorded.
    pub fn unfinished_operations(&self) -> u64 {
        self.channel.as_ref().map_or(0, |channel| channel.unfinished.load(Ordering::Acquire))
    }

    /// Checks before a change that writing is permitted, and that the intent is on disk.
    pub(crate) async fn begin_change(&mut self, path: &str) -> Result<(), FileError> {
        if !self.writable {
            return Err(self.refuse(Refusal::ReadOnly.into(), path));
        }
        if self.intent == Intent::NotNeeded {
            self.intent = match self.before_effect.wait().await {
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

    /// Records that a file was opened for reading, in a test call.
    pub(crate) fn record_read(&self, path: &str) {
        if let Some(channel) = self.channel.as_ref().filter(|channel| channel.workspace.records_reads()) {
            channel.record.lock().reads.add("workspace_read", display_path(path));
        }
    }

    /// Records a refusal and returns it.
    pub(crate) fn refuse(&self, error: FileError, path: &str) -> FileError {
        if let Some(channel) = &self.channel {
            channel.record_refusal(&error, path);
        }
        error
    }
}

/// A call's access to its workspace and the file pool.
#[derive(Debug)]
pub(crate) struct FileChannel {
    pub(crate) workspace: Workspace,
    operations: Arc<Semaphore>,
    open_permits: Arc<Semaphore>,
    record: Mutex<Record>,
    unfinished: AtomicU64,
    pub(crate) copy_meter: CopyMeter,
}

impl FileChannel {
    fn new(workspace: Workspace, open_files: u64, copy_meter: &CopyMeter) -> Self {
        Self {
            workspace,
            operations: Arc::new(Semaphore::new(OPERATIONS_MAX)),
            open_permits: Arc::new(Semaphore::new(saturating_usize(open_files).min(Semaphore::MAX_PERMITS))),
            record: Mutex::default(),
            unfinished: AtomicU64::new(0),
            copy_meter: copy_meter.clone(),
        }
    }

    /// Takes a permit for one more open file or directory.
    pub(crate) fn open_permit(&self, path: &str) -> Result<OwnedSemaphorePermit, FileError> {
        Arc::clone(&self.open_permits).try_acquire_owned().map_err(|_| {
            let error = Refusal::TooManyOpen.into();
            self.record_refusal(&error, path);
            error
        })
    }

    /// Runs an operation that changes nothing and walks no path.
    pub(crate) async fn read<R: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<R> {
        let kept = (self.begin(), self.operation_permit().await?);
        self.workspace.pool().run(kept, work).await
    }

    /// Runs an operation under the workspace's lock. Records it as a write if `writes`, and refusals always.
    pub(crate) async fn run_locked<R: Send + 'static>(
        self: Arc<Self>,
        path: Arc<str>,
        writes: bool,
        work: impl FnOnce(&Workspace, &Lock) -> Result<R, FileError> + Send + 'static,
    ) -> Result<R, FileError> {
        let kept = (self.begin(), self.operation_permit().await?);
        let lock = self.workspace.lock().await;
        let pool = self.workspace.pool().clone();
        let work = move || {
            let done = work(&self.workspace, &lock);
            match &done {
                Ok(_) if writes => self.record.lock().effects.add("workspace_write", display_path(&path)),
                Ok(_) => {}
                Err(error) => self.record_refusal(error, &path),
            }
            done
        };
        pool.run(kept, work).await?
    }

    /// Records a write to a path other than the one that the operation was started for.
    pub(crate) fn record_write(&self, path: &str) {
        self.record.lock().effects.add("workspace_write", display_path(path));
    }

    fn record_refusal(&self, error: &FileError, path: &str) {
        let mut record = self.record.lock();
        let limit = match error {
            FileError::Refused(refusal) if refusal.is_denial() => {
                return record.effects.add("file_denied", format!("{}: {refusal}", display_path(path)));
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
        record.exceeded_limit.get_or_insert(limit);
        record.effects.add("quota_exceeded", format!("{}: {limit}", display_path(path)));
    }

    async fn operation_permit(&self) -> io::Result<OwnedSemaphorePermit> {
        Arc::clone(&self.operations).acquire_owned().await.map_err(io::Error::other)
    }

    fn begin(self: &Arc<Self>) -> OperationGuard {
        self.unfinished.fetch_add(1, Ordering::AcqRel);
        OperationGuard(Arc::clone(self))
    }
}

/// Counts one operation until it ends, in any thread.
struct OperationGuard(Arc<FileChannel>);

impl Drop for OperationGuard {
    fn drop(&mut self) {
        self.0.unfinished.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The record of a call's file operations.
#[derive(Debug, Default)]
struct Record {
    effects: Effects,
    /// Separate, so that many reads do not displace the writes.
    reads: Effects,
    exceeded_limit: Option<LimitName>,
    disk_is_full: bool,
}

impl Record {
    fn take(&mut self) -> Vec<Effect> {
        let mut effects = self.effects.take("file_effects_left_out");
        effects.extend(self.reads.take("file_reads_left_out"));
        effects
    }
}

/// The first effects in full, and the number of further ones.
#[derive(Debug, Default)]
struct Effects {
    kept: Vec<Effect>,
    omitted: u64,
}

impl Effects {
    /// Adds an effect unless it is a duplicate.
    fn add(&mut self, kind: &'static str, detail: String) {
        let effect = Effect { kind, detail };
        if self.kept.contains(&effect) {
            return;
        }
        if self.kept.len() == EFFECTS_MAX {
            self.omitted += 1;
        } else {
            self.kept.push(effect);
        }
    }

    fn take(&mut self, overflow_kind: &'static str) -> Vec<Effect> {
        let mut kept = std::mem::take(&mut self.kept);
        if self.omitted > 0 {
            let detail = format!("{} more", std::mem::take(&mut self.omitted));
            kept.push(Effect { kind: overflow_kind, detail });
        }
        kept
    }
}

/// Escapes and truncates a guest's path to one short line.
fn display_path(path: &str) -> String {
    path.escape_debug().take(DETAIL_CHARS_MAX).collect()
}
