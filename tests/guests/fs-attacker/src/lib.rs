//! File guest: tries to escape its workspace and to fill it.
//!
//! Returns the host's error word for word, so that a test can check that it leaks no host path. `raw` calls the WASI
//! interface directly for operations that the standard library does not offer.

mod raw;
mod churn;

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use toolgate_sdk::{Error, plugin, tool};

/// Writes a file of a given size.
#[tool]
pub fn write(
    /// The file
    path: String,
    /// File size
    bytes: usize,
) -> Result<usize, Error> {
    fs::write(path, vec![b'x'; bytes])?;
    Ok(bytes)
}

/// Writes to an open file in an endless loop.
#[tool]
pub fn write_for_ever(
    /// The file
    path: String,
) -> Result<u64, Error> {
    let mut file = File::create(path)?;
    let piece = vec![b'x'; 64 * 1024];
    loop {
        file.write_all(&piece)?;
    }
}

/// Writes a file, then waits until another file exists.
#[tool]
#[expect(clippy::disallowed_methods, reason = "a guest has no file notifications")]
pub fn stay(
    /// The file to write
    path: String,
    /// The file to wait for
    until: String,
) -> Result<(), Error> {
    fs::write(path, "")?;
    while !fs::exists(&until)? {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Creates a sparse file of a given size.
#[tool]
pub fn sparse(
    /// The file
    path: String,
    /// File size
    bytes: u64,
) -> Result<u64, Error> {
    File::create(path)?.set_len(bytes)?;
    Ok(bytes)
}

/// Creates many small files.
#[tool]
pub fn make_files(
    /// The folder
    folder: String,
    /// Number of files
    files: u64,
) -> Result<u64, Error> {
    fs::create_dir_all(&folder)?;
    for at in 0..files {
        fs::write(format!("{folder}/{at}"), b"x")?;
    }
    Ok(files)
}

/// Creates nested folders.
#[tool]
pub fn nest(
    /// The outermost folder
    folder: String,
    /// Number of levels
    levels: usize,
) -> Result<usize, Error> {
    let mut path = folder;
    for _ in 0..levels {
        fs::create_dir(&path)?;
        path += "/d";
    }
    Ok(levels)
}

/// Opens one file many times and keeps every handle open.
#[tool]
pub fn open_many(
    /// The file
    path: String,
    /// Number of handles
    count: usize,
) -> Result<usize, Error> {
    fs::write(&path, b"x")?;
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(File::open(&path)?);
    }
    Ok(held.len())
}

/// Reads a file.
#[tool(read_only)]
pub fn read(
    /// The file
    path: String,
) -> Result<String, Error> {
    Ok(fs::read_to_string(path)?)
}

/// Lists a folder.
#[tool(read_only)]
pub fn list(
    /// The folder
    path: String,
) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Moves a file.
#[tool]
pub fn rename(
    /// Old path
    from: String,
    /// New path
    to: String,
) -> Result<(), Error> {
    Ok(fs::rename(from, to)?)
}

/// Removes a file.
#[tool]
pub fn remove(
    /// The file
    path: String,
) -> Result<(), Error> {
    Ok(fs::remove_file(path)?)
}

/// Removes an empty folder.
#[tool]
pub fn remove_folder(
    /// The folder
    path: String,
) -> Result<(), Error> {
    Ok(fs::remove_dir(path)?)
}

plugin! {
    "fs-attacker",
    publisher = "Toolgate tests",
    category = "Tests",
    capabilities(filesystem = workspace),
    write, write_for_ever, stay, sparse, make_files, nest, open_many, read, list, rename, remove, remove_folder,
    raw::symlink, raw::hard_link, raw::empty_for_reading, raw::grow_for_reading, raw::write_at, raw::read_whole, raw::touch,
    raw::kind, raw::workspace_handles, raw::keep_workspace_handles, churn::churn, churn::walk
}
