//! Cache of compiled code, shared by the daemons of the tests. It cuts a start from five seconds to a tenth.
//!
//! The cache lies beside the program, sealed with the key that is stored with it. The daemon recompiles stale or
//! damaged entries (a test of its own checks that). Only large files are saved, to keep the many small plugins of the
//! tests out.

use std::fs::{self, DirBuilder};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Sizes of saved files: plugins made by hand are smaller than built-in plugins and guests. Each start copies all files, so the
/// code of a Python runtime, which only one test loads, is too large.
const KEPT_BYTES: RangeInclusive<u64> = 256 * 1024..=32 * 1024 * 1024;

/// Copies the cache into a data folder that does not exist yet.
pub fn restore(program: &Path, data: &Path) -> io::Result<()> {
    let store = store_folder(program);
    if data.exists() || !store.join("cache.key").exists() {
        return Ok(());
    }
    for folder in ["keys", "cache"] {
        DirBuilder::new().recursive(true).mode(0o700).create(data.join(folder))?;
    }
    fs::copy(store.join("cache.key"), data.join("keys/cache.key"))?;
    copy_missing(&store.join("cache"), &data.join("cache"))
}

/// Saves the code that a daemon compiled, if it is sealed with the same key.
pub fn save(program: &Path, data: &Path) -> io::Result<()> {
    let store = store_folder(program);
    fs::create_dir_all(&store)?;
    let key = data.join("keys/cache.key");
    copy_new(&key, &store.join("cache.key"))?;
    if fs::read(&key)? == fs::read(store.join("cache.key"))? {
        copy_missing(&data.join("cache"), &store.join("cache"))?;
    }
    Ok(())
}

fn store_folder(program: &Path) -> PathBuf {
    program.with_file_name("compiled-for-tests")
}

fn copy_missing(from: &Path, to: &Path) -> io::Result<()> {
    for folder in fs::read_dir(from)? {
        let folder = folder?;
        DirBuilder::new().recursive(true).mode(0o700).create(to.join(folder.file_name()))?;
        for file in fs::read_dir(folder.path())? {
            let file = file?;
            // The record of checked schemas (the same name with an extension) is saved with its code.
            let code = file.path().with_extension("");
            if fs::metadata(code).is_ok_and(|code| KEPT_BYTES.contains(&code.len())) {
                copy_new(&file.path(), &to.join(folder.file_name()).join(file.file_name()))?;
            }
        }
    }
    Ok(())
}

/// Copies a file atomically, unless it exists. With two writers, the first one wins.
fn copy_new(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        return Ok(());
    }
    let part = tempfile::NamedTempFile::new_in(to.parent().unwrap_or(to))?;
    fs::copy(from, part.path())?;
    match part.persist_noclobber(to) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}
