//! What the interface offers and the standard library does not ask for. Paths are from the workspace's root.

use std::hint::black_box;

use toolgate_sdk::{Context, Error, tool};
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
};

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

/// Opens a file for reading alone, and empties it by doing so.
#[tool]
pub fn empty_for_reading(
    /// The file, from the workspace's root
    path: String,
) -> Result<u64, Error> {
    let file = open(&path, OpenFlags::TRUNCATE, DescriptorFlags::READ)?;
    Ok(file.stat().map_err(refused)?.size)
}

/// Changes the size of a file that is open for reading alone.
#[tool]
pub fn grow_for_reading(
    /// The file, from the workspace's root
    path: String,
    /// The size
    bytes: u64,
) -> Result<(), Error> {
    open(&path, OpenFlags::empty(), DescriptorFlags::READ)?.set_size(bytes).map_err(refused)
}

/// Writes one byte far into a file.
#[tool]
pub fn write_at(
    /// The file, from the workspace's root
    path: String,
    /// Where
    offset: u64,
) -> Result<u64, Error> {
    let file = open(&path, OpenFlags::CREATE, DescriptorFlags::READ | DescriptorFlags::WRITE)?;
    file.write(b"x", offset).map_err(refused)
}

/// Asks for all bytes that there could be, in one call to the host, and says how many came.
#[tool(read_only)]
pub fn gulp(
    /// The file, from the workspace's root
    path: String,
) -> Result<usize, Error> {
    let file = open(&path, OpenFlags::empty(), DescriptorFlags::READ)?;
    let (bytes, _) = file.read(u64::MAX, 0).map_err(refused)?;
    Ok(black_box(bytes).len())
}

/// Sets the times of a file by its name.
#[tool]
pub fn touch(
    /// The file, from the workspace's root
    path: String,
) -> Result<(), Error> {
    workspace()?
        .set_times_at(PathFlags::empty(), &path, NewTimestamp::Now, NewTimestamp::Now)
        .map_err(refused)
}

/// Says what lies under a name.
#[tool(read_only)]
pub fn kind(
    /// The name, from the workspace's root
    path: String,
) -> Result<String, Error> {
    let found = workspace()?.stat_at(PathFlags::empty(), &path).map_err(refused)?;
    Ok(match found.type_ {
        DescriptorType::RegularFile => "file",
        DescriptorType::Directory => "folder",
        DescriptorType::SymbolicLink => "link",
        _ => "other",
    }
    .to_owned())
}

/// Asks for the workspace itself again and again, and keeps every handle.
#[tool(read_only)]
pub fn doors(
    /// How often
    count: usize,
) -> usize {
    let held: Vec<_> = (0..count).map(|_| get_directories()).collect();
    black_box(&held).len()
}

/// Does the same, says so with a file, tells when that is made, and stays until it is stopped.
#[tool]
pub fn doors_and_stay(
    context: &Context,
    /// How often
    count: usize,
    /// The file, from the workspace's root
    path: String,
) -> Result<usize, Error> {
    let held: Vec<_> = (0..count).map(|_| get_directories()).collect();
    open(&path, OpenFlags::CREATE, DescriptorFlags::WRITE)?;
    context.progress(1, None, None);
    subscribe_duration(u64::MAX).block();
    Ok(black_box(&held).len())
}

fn open(path: &str, how: OpenFlags, flags: DescriptorFlags) -> Result<Descriptor, Error> {
    workspace()?.open_at(PathFlags::SYMLINK_FOLLOW, path, how, flags).map_err(refused)
}

fn workspace() -> Result<Descriptor, Error> {
    let folders = get_directories();
    folders.into_iter().next().map(|(folder, _)| folder).ok_or_else(|| Error::new("there is no workspace"))
}

fn refused(code: ErrorCode) -> Error {
    Error::new(code.name())
}
