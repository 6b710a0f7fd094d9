//! Compiled code, kept between the daemons of the tests: a start is five seconds of compiling without it, a tenth with.
//!
//! It lies beside the program, sealed with the key that goes along. What is stale or broken is compiled again by the
//! daemon, which is a test of its own. Only large code is kept, or every plugin that a test ever made would be.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The built-in plugins and the guests are above it, plugins made by hand below.
const KEPT_BYTES: u64 = 256 * 1024;

/// Lays compiled code into a data folder that does not exist yet.
pub fn lay_in(program: &Path, data: &Path) -> io::Result<()> {
    let kept = kept(program);
    if data.exists() || !kept.join("cache.key").exists() {
        return Ok(());
    }
    for folder in ["keys", "cache"] {
        DirBuilder::new().recursive(true).mode(0o700).create(data.join(folder))?;
    }
    fs::copy(kept.join("cache.key"), data.join("keys/cache.key"))?;
    copy_missing(&kept.join("cache"), &data.join("cache"))
}

/// Keeps what a daemon compiled, if it is sealed with the key that is kept.
pub fn keep(program: &Path, data: &Path) -> io::Result<()> {
    let kept = kept(program);
    fs::create_dir_all(&kept)?;
    let key = data.join("keys/cache.key");
    copy_new(&key, &kept.join("cache.key"))?;
    if fs::read(&key)? == fs::read(kept.join("cache.key"))? {
        copy_missing(&data.join("cache"), &kept.join("cache"))?;
    }
    Ok(())
}

fn kept(program: &Path) -> PathBuf {
    program.with_file_name("compiled-for-tests")
}

fn copy_missing(from: &Path, to: &Path) -> io::Result<()> {
    for folder in fs::read_dir(from)? {
        let folder = folder?;
        DirBuilder::new().recursive(true).mode(0o700).create(to.join(folder.file_name()))?;
        for file in fs::read_dir(folder.path())? {
            let file = file?;
            // What vouches for the schemas of a plugin goes with its code.
            let code = file.path().with_extension("");
            if fs::metadata(code).is_ok_and(|code| code.len() >= KEPT_BYTES) {
                copy_new(&file.path(), &to.join(folder.file_name()).join(file.file_name()))?;
            }
        }
    }
    Ok(())
}

/// Copies a file that is not there yet; nobody sees half of it. Of two that end at once, one is first.
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
