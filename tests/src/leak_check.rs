//! What must be as it was after a guest did its worst: the process, its memory, its open files.

use crate::daemon::Daemon;
use crate::{process, wait};

/// Memory that may stay: caches, the allocator's arenas, pages of the pool that are wiped instead of returned. A guest
/// that leaks has its 64 MiB.
const TOLERANCE_BYTES: u64 = 16 << 20;

/// The daemon as it was before.
#[derive(Clone, Copy, Debug)]
pub struct LeakCheck {
    pid: u32,
    resident_bytes: u64,
    open_files: usize,
}

impl LeakCheck {
    /// Measures. The daemon must have done before what it is going to do, or what it then learns looks like a leak.
    pub fn before(daemon: &Daemon) -> Self {
        // The log's readers are opened when they are first needed, and stay. There are a few, and all of them are
        // needed where several ask at once.
        let operator = daemon.operator();
        let asked: Vec<_> = (0..8).map(|_| operator.start("GET", "/v1/audit?limit=1", &[], b"")).collect();
        for answer in asked {
            answer.reply().expect(200);
        }
        let pid = daemon.pid();
        Self { pid, resident_bytes: process::resident_bytes(pid), open_files: process::open_files(pid) }
    }

    /// Waits until memory and open files are back, in the same process.
    #[track_caller]
    pub fn is_clear(&self, daemon: &mut Daemon) {
        assert!(daemon.lives() && daemon.pid() == self.pid, "the daemon died");
        let stranger = daemon.stranger();
        let (mut files, mut bytes) = (0, 0);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait::until("memory and open files to be back", || {
                // A look at a healthy daemon, and a pause for it to clear away.
                stranger.get("/healthz").expect(200);
                files = process::open_files(self.pid);
                bytes = process::resident_bytes(self.pid);
                (files <= self.open_files && bytes <= self.resident_bytes + TOLERANCE_BYTES).then_some(())
            });
        }));
        assert!(ended.is_ok(), "now {files} open files and {bytes} bytes, before: {self:?}");
    }
}
