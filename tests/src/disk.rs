//! A small disk of its own, which a test can fill.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A file system in memory, unmounted at the end.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// None where this user may not mount, which is said. The size is as `mount` writes it.
    pub fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=0700"), "tmpfs"]).arg(folder.path());
        if !mount.status().is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: a small file system cannot be mounted here; run the tests as root");
            return None;
        }
        Some(Self(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all the room that is left.
    pub fn fill(&self) {
        let mut file = File::create(self.filler()).expect("a file");
        let mut piece = vec![0_u8; 1 << 20];
        while !piece.is_empty() {
            if file.write_all(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    /// Gives back the room that was taken.
    pub fn make_room(&self) {
        fs::remove_file(self.filler()).expect("room again");
    }

    fn filler(&self) -> std::path::PathBuf {
        self.0.path().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the daemon may hold it for a moment longer.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
