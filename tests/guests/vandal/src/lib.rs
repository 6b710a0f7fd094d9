//! Tries to leave its workspace, and to fill it.
//!
//! What the host says of an attempt is the tool's failure, word for word, so that a test can look for what must not be
//! in it. Links are made through the interface itself: the standard library has no way to make them.

use std::fs::{self, File};
use std::io::Write;

use toolgate_sdk::{Error, plugin, tool};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, ErrorCode, PathFlags};

/// Writes a file of that size.
#[tool]
pub fn write(
    /// The file
    path: String,
    /// Its size
    bytes: usize,
) -> Result<usize, Error> {
    fs::write(path, vec![b'x'; bytes])?;
    Ok(bytes)
}

/// Writes to a file that is open, in pieces, without end.
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

/// Makes a file of that size without writing it.
#[tool]
pub fn sparse(
    /// The file
    path: String,
    /// Its size
    bytes: u64,
) -> Result<u64, Error> {
    File::create(path)?.set_len(bytes)?;
    Ok(bytes)
}

/// Makes many small files.
#[tool]
pub fn litter(
    /// The folder
    folder: String,
    /// How many
    files: u64,
) -> Result<u64, Error> {
    fs::create_dir_all(&folder)?;
    for at in 0..files {
        fs::write(format!("{folder}/{at}"), b"x")?;
    }
    Ok(files)
}

/// Opens a file again and again and keeps every handle.
#[tool]
pub fn hoard(
    /// The file
    path: String,
    /// How often
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
    /// From here
    from: String,
    /// To there
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

/// Makes a symbolic link.
#[tool]
pub fn symlink(
    /// What it points to
    target: String,
    /// The link, from the workspace's root
    link: String,
) -> Result<(), Error> {
    workspace()?.symlink_at(&target, &link).map_err(refused)
}

/// Makes a hard link.
#[tool]
pub fn hard_link(
    /// The file, from the workspace's root
    from: String,
    /// The link, from the workspace's root
    to: String,
) -> Result<(), Error> {
    let workspace = workspace()?;
    workspace.link_at(PathFlags::empty(), &from, &workspace, &to).map_err(refused)
}

fn workspace() -> Result<Descriptor, Error> {
    let folders = get_directories();
    folders.into_iter().next().map(|(folder, _)| folder).ok_or_else(|| Error::new("there is no workspace"))
}

fn refused(code: ErrorCode) -> Error {
    Error::new(code.name())
}

plugin! {
    "vandal",
    publisher = "Toolgate tests",
    category = "Tests",
    capabilities(filesystem = workspace),
    write, write_for_ever, sparse, litter, hoard, read, list, rename, remove, symlink, hard_link
}
