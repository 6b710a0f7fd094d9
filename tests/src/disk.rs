//! Small disk that a test can fill.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// tmpfs mount, unmounted on drop.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts a tmpfs of that size (as `mount` writes it).
    pub fn mount(size: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=0700"), "tmpfs"]).arg(folder.path());
        assert!(mount.status().is_ok_and(|status| status.success()), "no permission to mount a file system");
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes until the disk is full.
    pub fn fill(&self) {
        let mut file = File::create(self.filler()).expect("a file");
        let mut piece = vec![0_u8; 1 << 20];
        while !piece.is_empty() {
            if file.write_all(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    /// Deletes the bytes that `fill` wrote.
    pub fn free(&self) {
        fs::remove_file(self.filler()).expect("the filler is removed");
    }

    fn filler(&self) -> std::path::PathBuf {
        self.0.path().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazy unmount, since the daemon may still hold files open.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
