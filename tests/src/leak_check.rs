//! Detects leaks of memory and file descriptors in the daemon's process.

use crate::daemon::Daemon;
use crate::{process, wait};

/// Growth that is no leak: caches, allocator arenas, pages of the pool that are zeroed instead of returned. A leaked
/// guest has 64 MiB.
const TOLERANCE_BYTES: u64 = 16 << 20;

/// Connections to the index of the audit log: one writes, the others read.
const INDEX_CONNECTIONS: usize = 5;

/// Memory and open files at the start of the check.
#[derive(Clone, Copy, Debug)]
pub struct LeakCheck {
    pid: u32,
    resident_bytes: u64,
    open_files: usize,
}

impl LeakCheck {
    /// Measures the daemon. It must already have done the same work once, since caches filled for the first time look
    /// like a leak.
    pub fn start(daemon: &Daemon) -> Self {
        // The readers of the audit log are opened on first use and stay open. Parallel requests open all of them, unless a busy
        // machine serves them one after the other.
        let (operator, pid) = (daemon.operator(), daemon.pid());
        for _ in 0..20 {
            let requests: Vec<_> =
                (0..8).map(|_| operator.start("GET", "/v1/audit?limit=1", &[], b"")).collect();
            requests.into_iter().for_each(|request| drop(request.reply().expect(200)));
            if process::open_files_named(pid, "audit-index.db") >= INDEX_CONNECTIONS {
                break;
            }
        }
        Self { pid, resident_bytes: process::resident_bytes(pid), open_files: process::open_files(pid) }
    }

    /// Waits until memory and open files are back at the start values, in the same process.
    #[track_caller]
    pub fn assert_none(&self, daemon: &mut Daemon) {
        assert!(daemon.is_running() && daemon.pid() == self.pid, "the daemon died");
        let stranger = daemon.anonymous();
        let (mut files, mut bytes) = (0, 0);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait::until("memory and open files to be back", || {
                // Each request checks that the daemon is healthy, and gives it time to release resources.
                stranger.get("/healthz").expect(200);
                files = process::open_files(self.pid);
                bytes = process::resident_bytes(self.pid);
                (files <= self.open_files && bytes <= self.resident_bytes + TOLERANCE_BYTES).then_some(())
            });
        }));
        assert!(ended.is_ok(), "now {files} open files and {bytes} bytes, before: {self:?}");
    }
}
