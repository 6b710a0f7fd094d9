//! Tries to leave its workspace, and to fill it.
//!
//! What the host says of an attempt is the tool's failure, word for word, so that a test can look for what must not be
//! in it. What the standard library has no way to ask for is asked through the interface itself, in `raw`.

mod raw;
mod storm;

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use toolgate_sdk::{Error, plugin, tool};

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

/// Writes a file, and stays until another one is there.
#[tool]
#[expect(clippy::disallowed_methods, reason = "nobody tells a guest of a file")]
pub fn stay(
    /// The file that it writes
    path: String,
    /// The file that it waits for
    until: String,
) -> Result<(), Error> {
    fs::write(path, "")?;
    while !fs::exists(&until)? {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
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

/// Makes a folder in a folder, and one in that.
#[tool]
pub fn nest(
    /// The outermost folder
    folder: String,
    /// How many
    levels: usize,
) -> Result<usize, Error> {
    let mut path = folder;
    for _ in 0..levels {
        fs::create_dir(&path)?;
        path += "/d";
    }
    Ok(levels)
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

/// Removes an empty folder.
#[tool]
pub fn remove_folder(
    /// The folder
    path: String,
) -> Result<(), Error> {
    Ok(fs::remove_dir(path)?)
}

plugin! {
    "vandal",
    publisher = "Toolgate tests",
    category = "Tests",
    capabilities(filesystem = workspace),
    write, write_for_ever, stay, sparse, litter, nest, hoard, read, list, rename, remove, remove_folder,
    raw::symlink, raw::hard_link, raw::empty_for_reading, raw::grow_for_reading, raw::write_at, raw::gulp, raw::touch,
    raw::kind, raw::doors, raw::doors_and_stay, storm::storm, storm::walk
}
