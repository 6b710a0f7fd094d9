//! What `/proc` says of a process.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory that the process holds, in bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    // Field 2 of statm is in pages; the machines that this runs on have pages of 4 KiB.
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).expect("the process lives");
    let pages: u64 = statm.split(' ').nth(1).and_then(|field| field.parse().ok()).expect("a number of pages");
    pages * 4096
}

/// Files, sockets and pipes that the process holds open.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process lives").count()
}

/// Processes that the process started and that still run.
pub fn children(pid: u32) -> usize {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .map_or(0, |list| list.split_whitespace().count())
}

/// Memory of the process that is on a swap device, in bytes.
pub fn swapped_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:")).unwrap_or_default();
    let kib: u64 = line.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0);
    kib * 1024
}

/// Whether this machine has a swap device in use.
pub fn can_swap() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1)
}

/// A control group of its own, whose memory can be pushed out to swap. It is removed when this is dropped, for which
/// its processes must have ended.
pub struct Press {
    folder: PathBuf,
    limit: &'static str,
}

impl Press {
    /// Puts a process into a new group; none where this user may not make one.
    pub fn around(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let of = |wanted: &str| {
            groups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                (parts.next()? == wanted)
                    .then(|| parts.next().unwrap_or("/").trim_start_matches('/').to_owned())
            })
        };
        let (root, group, limit) = match (of("memory"), of("")) {
            (Some(group), _) => (Path::new("/sys/fs/cgroup/memory"), group, "memory.limit_in_bytes"),
            (None, Some(group)) => (Path::new("/sys/fs/cgroup"), group, "memory.high"),
            (None, None) => return None,
        };
        let folder = root.join(group).join(format!("toolgate-test-{pid}"));
        fs::create_dir(&folder).ok()?;
        let press = Self { folder, limit };
        fs::write(press.folder.join("cgroup.procs"), pid.to_string()).ok()?;
        press.folder.join(limit).is_file().then_some(press)
    }

    /// Pushes out what is more than that.
    pub fn down_to(&self, bytes: u64) {
        // The kernel may find some pages busy; the caller looks at what came of it.
        let _ = fs::write(self.folder.join(self.limit), bytes.to_string());
    }

    /// Lets it grow again.
    pub fn release(&self) {
        let all = if self.limit == "memory.high" { "max" } else { "-1" };
        fs::write(self.folder.join(self.limit), all).expect("the limit is lifted");
    }
}

impl Drop for Press {
    fn drop(&mut self) {
        // A group that is left over is empty and does nothing.
        let _ = fs::remove_dir(&self.folder);
    }
}
