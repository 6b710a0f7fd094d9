//! Scratch folders, in memory (`/dev/shm`) if the machine has it.

use std::path::Path;

use tempfile::TempDir;

pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::tempdir_in(base).expect("a folder")
}
