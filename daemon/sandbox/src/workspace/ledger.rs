//! Usage of a workspace, counted while it changes.
//!
//! Space is reserved before a file grows and released after it has shrunk, so the count is never too low. Sizes are
//! logical: a sparse file counts in full, since reading it yields its full size.
//!
//! A removed file that is still open stays on the disk and can grow. So it stays counted until its last holder closes
//! it; a loop of open, remove and write ends at the quota.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use toolgate_api::limits::LimitName;

/// Maximum contents of a workspace; directories count as files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Sum of the sizes of all files.
    pub bytes: u64,
    /// Files and folders.
    pub files: u64,
}

impl Quota {
    /// No quota: the user of the workspace sets one.
    pub const UNBOUNDED: Quota = Quota { bytes: u64::MAX, files: u64::MAX };
}

/// Current contents of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceUsage {
    /// Sum of the sizes of all files, including those that are removed but still open.
    pub bytes: u64,
    /// Files and directories, including those that are removed but still open.
    pub files: u64,
}

/// The quota that a change would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// `workspace_bytes`
    Bytes,
    /// `workspace_files`
    Files,
    /// `workspace_bytes`, of several workspaces together.
    SharedBytes,
}

impl QuotaKind {
    /// The name of the limit.
    pub fn limit(self) -> LimitName {
        match self {
            Self::Bytes | Self::SharedBytes => LimitName::WorkspaceBytes,
            Self::Files => LimitName::WorkspaceFiles,
        }
    }

    fn full(self) -> &'static str {
        match self {
            Self::Bytes | Self::Files => "the workspace is full",
            Self::SharedBytes => "the workspaces of all sessions of the organization are full",
        }
    }
}

/// Bytes that several workspaces may hold together.
#[derive(Debug)]
pub struct SharedQuota {
    limit: u64,
    used: AtomicU64,
}

impl SharedQuota {
    /// A quota of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn reserve(&self, asked: u64) -> Result<(), QuotaExceeded> {
        let grown = |used| reserve(QuotaKind::SharedBytes, used, asked, self.limit).ok();
        let reserved = self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        let (kind, limit) = (QuotaKind::SharedBytes, self.limit);
        reserved.map(drop).map_err(|used| QuotaExceeded { kind, limit, used, asked })
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A change was refused because it would exceed the quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{full}: `{used}` of `{limit}` in use by `{name}`, `{asked}` more asked for", full = self.kind.full(), name = self.kind.limit())]
pub struct QuotaExceeded {
    /// The exceeded quota.
    pub kind: QuotaKind,
    /// Its limit.
    pub limit: u64,
    /// The usage before the change.
    pub used: u64,
    /// The requested increase.
    pub asked: u64,
}

/// Identifies a file independently of its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Usage of one workspace, shared by all its users.
#[derive(Debug)]
pub(crate) struct Ledger {
    counts: Mutex<Counts>,
    /// INVARIANT: holds the bytes of `counts`.
    shared: Arc<SharedQuota>,
}

#[derive(Debug, Default)]
struct Counts {
    used: WorkspaceUsage,
    open: HashMap<FileId, OpenFile>,
}

#[derive(Debug, Default)]
struct OpenFile {
    holders: u32,
    /// The size of a removed file, which still counts.
    removed_bytes: Option<u64>,
}

impl Ledger {
    /// Counts what is there, past the shared quota too.
    pub(crate) fn starting_with(used: WorkspaceUsage, shared: Arc<SharedQuota>) -> Self {
        shared.used.fetch_add(used.bytes, Ordering::Relaxed);
        Self { counts: Mutex::new(Counts { used, open: HashMap::new() }), shared }
    }

    #[cfg(test)]
    pub(crate) fn unbounded() -> Self {
        Self::starting_with(WorkspaceUsage::default(), Arc::new(SharedQuota::new(u64::MAX)))
    }

    pub(crate) fn shared(&self) -> &Arc<SharedQuota> {
        &self.shared
    }

    pub(crate) fn usage(&self) -> WorkspaceUsage {
        self.counts().used
    }

    pub(crate) fn reserve_bytes(&self, asked: u64, quota: Quota) -> Result<(), QuotaExceeded> {
        let mut counts = self.counts();
        let used = reserve(QuotaKind::Bytes, counts.used.bytes, asked, quota.bytes)?;
        self.shared.reserve(asked)?;
        counts.used.bytes = used;
        Ok(())
    }

    pub(crate) fn reserve_files(&self, asked: u64, quota: Quota) -> Result<(), QuotaExceeded> {
        let mut counts = self.counts();
        counts.used.files = reserve(QuotaKind::Files, counts.used.files, asked, quota.files)?;
        Ok(())
    }

    pub(crate) fn release(&self, freed: WorkspaceUsage) {
        self.release_from(&mut self.counts(), freed);
    }

    fn release_from(&self, counts: &mut Counts, freed: WorkspaceUsage) {
        // Saturating: a process outside may have changed the directory, and a count must not wrap.
        let bytes = freed.bytes.min(counts.used.bytes);
        counts.used.bytes -= bytes;
        counts.used.files = counts.used.files.saturating_sub(freed.files);
        self.shared.release(bytes);
    }

    /// Counts a file as open until the [`Holder`] is dropped.
    pub(crate) fn hold(self: &Arc<Self>, file: FileId) -> Holder {
        self.counts().open.entry(file).or_default().holders += 1;
        Holder { ledger: Arc::clone(self), file }
    }

    pub(crate) fn is_held(&self, file: FileId) -> bool {
        self.counts().open.contains_key(&file)
    }

    /// Records that the last name of a file was removed. Its space is released now, or with its last holder.
    pub(crate) fn mark_removed(&self, file: FileId, bytes: u64) {
        let mut counts = self.counts();
        match counts.open.get_mut(&file) {
            Some(open) => open.removed_bytes = Some(bytes),
            None => self.release_from(&mut counts, WorkspaceUsage { bytes, files: 1 }),
        }
    }

    /// Records the new size of an open file. `reserve_bytes` and `release` have updated the usage.
    pub(crate) fn mark_resized(&self, file: FileId, bytes: u64) {
        if let Some(open) = self.counts().open.get_mut(&file)
            && open.removed_bytes.is_some()
        {
            open.removed_bytes = Some(bytes);
        }
    }

    fn unhold(&self, file: FileId) {
        let mut counts = self.counts();
        let Some(open) = counts.open.get_mut(&file) else { return };
        open.holders -= 1;
        if open.holders == 0 {
            let removed_bytes = open.removed_bytes;
            counts.open.remove(&file);
            if let Some(bytes) = removed_bytes {
                self.release_from(&mut counts, WorkspaceUsage { bytes, files: 1 });
            }
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // The arithmetic under the lock does not panic; if it did, the counts would still be consistent.
        self.counts.lock()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.shared.release(self.usage().bytes);
    }
}

fn reserve(kind: QuotaKind, used: u64, asked: u64, limit: u64) -> Result<u64, QuotaExceeded> {
    match used.checked_add(asked) {
        Some(sum) if sum <= limit || asked == 0 => Ok(sum),
        _ => Err(QuotaExceeded { kind, limit, used, asked }),
    }
}

/// Keeps a file counted, even if removed, while it is open.
#[derive(Debug)]
pub(crate) struct Holder {
    ledger: Arc<Ledger>,
    pub(crate) file: FileId,
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.ledger.unhold(self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Quota = Quota { bytes: 100, files: 2 };
    const FILE: FileId = FileId { device: 1, inode: 7 };

    fn ledger() -> Arc<Ledger> {
        Arc::new(Ledger::unbounded())
    }

    fn ledger_with(used: WorkspaceUsage) -> Arc<Ledger> {
        Arc::new(Ledger::starting_with(used, Arc::new(SharedQuota::new(u64::MAX))))
    }

    #[test]
    fn b2_workspaces_share_a_quota_and_give_back_what_they_held() {
        let shared = Arc::new(SharedQuota::new(120));
        let [one, two] = [50, 0].map(|bytes| {
            Arc::new(Ledger::starting_with(WorkspaceUsage { bytes, files: 1 }, Arc::clone(&shared)))
        });
        two.reserve_bytes(70, QUOTA).unwrap();
        let refused = one.reserve_bytes(1, QUOTA).unwrap_err();
        assert_eq!(refused, QuotaExceeded { kind: QuotaKind::SharedBytes, limit: 120, used: 120, asked: 1 });
        assert_eq!((one.usage().bytes, two.usage().bytes), (50, 70), "a refusal reserves nothing");
        two.release(WorkspaceUsage { bytes: 500, files: 0 });
        assert_eq!(shared.used_bytes(), 50);
        one.reserve_bytes(30, QUOTA).unwrap();
        let held = one.hold(FILE);
        one.mark_removed(FILE, 80);
        drop(held);
        assert_eq!(shared.used_bytes(), 0);
        one.reserve_bytes(9, QUOTA).unwrap();
        drop((one, two));
        assert_eq!(shared.used_bytes(), 0, "with its session a workspace gives back all");
    }

    #[test]
    fn b2_room_is_taken_up_to_the_quota_and_not_beyond() {
        let ledger = ledger();
        ledger.reserve_bytes(60, QUOTA).unwrap();
        ledger.reserve_bytes(40, QUOTA).unwrap();
        let refused = ledger.reserve_bytes(1, QUOTA).unwrap_err();
        assert_eq!(refused, QuotaExceeded { kind: QuotaKind::Bytes, limit: 100, used: 100, asked: 1 });
        ledger.release(WorkspaceUsage { bytes: 1, files: 0 });
        ledger.reserve_bytes(1, QUOTA).unwrap();
    }

    #[test]
    fn asking_for_everything_there_is_does_not_wrap() {
        let ledger = ledger();
        ledger.reserve_bytes(1, QUOTA).unwrap();
        assert!(ledger.reserve_bytes(u64::MAX, QUOTA).is_err());
        ledger.release(WorkspaceUsage { bytes: 5, files: 5 });
        assert_eq!(ledger.usage(), WorkspaceUsage::default());
    }

    #[test]
    fn a_workspace_above_a_narrowed_quota_can_still_be_used_without_growing() {
        let ledger = ledger_with(WorkspaceUsage { bytes: 500, files: 9 });
        ledger.reserve_bytes(0, QUOTA).unwrap();
        assert!(ledger.reserve_bytes(1, QUOTA).is_err());
        assert!(ledger.reserve_files(1, QUOTA).is_err());
    }

    #[test]
    fn a_removed_file_is_counted_until_the_last_holder_lets_go() {
        let ledger = ledger_with(WorkspaceUsage { bytes: 10, files: 1 });
        let (first, second) = (ledger.hold(FILE), ledger.hold(FILE));
        ledger.mark_removed(FILE, 10);
        ledger.reserve_bytes(20, QUOTA).unwrap();
        ledger.mark_resized(FILE, 30);
        drop(first);
        assert_eq!(ledger.usage(), WorkspaceUsage { bytes: 30, files: 1 });
        drop(second);
        assert_eq!(ledger.usage(), WorkspaceUsage::default());
    }

    #[test]
    fn a_file_that_nobody_holds_is_released_at_once() {
        let ledger = ledger_with(WorkspaceUsage { bytes: 10, files: 1 });
        drop(ledger.hold(FILE));
        assert_eq!(ledger.usage(), WorkspaceUsage { bytes: 10, files: 1 });
        ledger.mark_removed(FILE, 10);
        assert_eq!(ledger.usage(), WorkspaceUsage::default());
    }
}
