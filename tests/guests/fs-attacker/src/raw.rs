//! WASI file operations that the standard library does not offer. Paths are relative to the workspace.

use std::hint::black_box;

use toolgate_sdk::{Context, Error, tool};
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
};

/// Creates a symbolic link.
#[tool]
pub fn symlink(
    /// Link target
    target: String,
    /// Link, relative to the workspace
    link: String,
) -> Result<(), Error> {
    workspace()?.symlink_at(&target, &link).map_err(tool_error)
}

/// Creates a hard link.
#[tool]
pub fn hard_link(
    /// File, relative to the workspace
    from: String,
    /// Link, relative to the workspace
    to: String,
) -> Result<(), Error> {
    let workspace = workspace()?;
    workspace.link_at(PathFlags::empty(), &from, &workspace, &to).map_err(tool_error)
}

/// Truncates a file through a read-only descriptor.
#[tool]
pub fn empty_for_reading(
    /// File, relative to the workspace
    path: String,
) -> Result<u64, Error> {
    let file = open(&path, OpenFlags::TRUNCATE, DescriptorFlags::READ)?;
    Ok(file.stat().map_err(tool_error)?.size)
}

/// Resizes a file through a read-only descriptor.
#[tool]
pub fn grow_for_reading(
    /// File, relative to the workspace
    path: String,
    /// New size
    bytes: u64,
) -> Result<(), Error> {
    open(&path, OpenFlags::empty(), DescriptorFlags::READ)?.set_size(bytes).map_err(tool_error)
}

/// Writes one byte at an offset.
#[tool]
pub fn write_at(
    /// File, relative to the workspace
    path: String,
    /// Offset of the byte
    offset: u64,
) -> Result<u64, Error> {
    let file = open(&path, OpenFlags::CREATE, DescriptorFlags::READ | DescriptorFlags::WRITE)?;
    file.write(b"x", offset).map_err(tool_error)
}

/// Reads with the largest possible length in one host call, and returns the number of bytes read.
#[tool(read_only)]
pub fn read_whole(
    /// File, relative to the workspace
    path: String,
) -> Result<usize, Error> {
    let file = open(&path, OpenFlags::empty(), DescriptorFlags::READ)?;
    let (bytes, _) = file.read(u64::MAX, 0).map_err(tool_error)?;
    Ok(black_box(bytes).len())
}

/// Sets the timestamps of a path.
#[tool]
pub fn touch(
    /// File, relative to the workspace
    path: String,
) -> Result<(), Error> {
    workspace()?
        .set_times_at(PathFlags::empty(), &path, NewTimestamp::Now, NewTimestamp::Now)
        .map_err(tool_error)
}

/// Returns the type of the file at a path.
#[tool(read_only)]
pub fn kind(
    /// Path, relative to the workspace
    path: String,
) -> Result<String, Error> {
    let found = workspace()?.stat_at(PathFlags::empty(), &path).map_err(tool_error)?;
    Ok(match found.type_ {
        DescriptorType::RegularFile => "file",
        DescriptorType::Directory => "folder",
        DescriptorType::SymbolicLink => "link",
        _ => "other",
    }
    .to_owned())
}

/// Requests the preopened workspace many times and keeps every handle.
#[tool(read_only)]
pub fn workspace_handles(
    /// Number of requests
    count: usize,
) -> usize {
    let held: Vec<_> = (0..count).map(|_| get_directories()).collect();
    black_box(&held).len()
}

/// Takes handles as `workspace_handles` does, creates a file, reports progress, and then sleeps until it is stopped.
#[tool]
pub fn keep_workspace_handles(
    context: &Context,
    /// Number of requests
    count: usize,
    /// File, relative to the workspace
    path: String,
) -> Result<usize, Error> {
    let held: Vec<_> = (0..count).map(|_| get_directories()).collect();
    open(&path, OpenFlags::CREATE, DescriptorFlags::WRITE)?;
    context.progress(1, None, None);
    subscribe_duration(u64::MAX).block();
    Ok(black_box(&held).len())
}

fn open(path: &str, how: OpenFlags, flags: DescriptorFlags) -> Result<Descriptor, Error> {
    workspace()?.open_at(PathFlags::SYMLINK_FOLLOW, path, how, flags).map_err(tool_error)
}

fn workspace() -> Result<Descriptor, Error> {
    let folders = get_directories();
    folders.into_iter().next().map(|(folder, _)| folder).ok_or_else(|| Error::new("there is no workspace"))
}

fn tool_error(code: ErrorCode) -> Error {
    Error::new(code.name())
}
