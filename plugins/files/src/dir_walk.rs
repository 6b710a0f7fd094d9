//! How folders are listed and files are read where there are many of them.
//!
//! In a component the standard library asks the host nine times for each file that a search passes: for inodes, flags
//! and streams that are not needed here. A call may ask a hundred thousand times, and each costs. So the walk and the
//! search speak to the host themselves, three times for a file. Natively they use the standard library.

#[cfg(not(target_family = "wasm"))]
pub use native::{list, read};
#[cfg(target_family = "wasm")]
pub use wasm::{list, read};

use crate::workspace::Kind;

/// The entries of a folder: names that can be shown, and how many cannot.
#[derive(Default)]
pub struct Contents {
    pub entries: Vec<(String, Kind)>,
    pub unreadable: u32,
}

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::fs::{self, File};
    use std::io::{self, Read};
    use std::path::Path;

    use super::Contents;
    use crate::workspace::Kind;

    /// Lists a folder, in no order.
    pub fn list(folder: &Path) -> io::Result<Contents> {
        let mut contents = Contents::default();
        for entry in fs::read_dir(folder)? {
            // The kind comes with the name: asking for more of each entry is what makes a walk slow.
            let read = entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?)));
            // A name that is not UTF-8 has no JSON text that a model could give back.
            match read.ok().and_then(|(name, kind)| Some((name.into_string().ok()?, Kind::of_type(kind)))) {
                Some(entry) => contents.entries.push(entry),
                None => contents.unreadable += 1,
            }
        }
        Ok(contents)
    }

    /// Reads a file into a buffer, instead of what is in it. More than `most` bytes are an error.
    pub fn read(path: &Path, most: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.clear();
        let read = File::open(path)?.take(most as u64 + 1).read_to_end(buffer)?;
        if read > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    }
}

#[cfg(target_family = "wasm")]
mod wasm {
    use std::cell::OnceCell;
    use std::io;
    use std::path::Path;

    use wasip2::filesystem::preopens::get_directories;
    use wasip2::filesystem::types::{
        Descriptor, DescriptorFlags, DescriptorType, ErrorCode, OpenFlags, PathFlags,
    };

    use super::Contents;
    use crate::workspace::{Kind, ROOT};

    /// Most files are read in one go. The host sets so much aside for each, so it is not more.
    const PIECE_BYTES: usize = 32 * 1024;

    thread_local! {
        static WORKSPACE: OnceCell<Option<Descriptor>> = const { OnceCell::new() };
    }

    /// Lists a folder, in no order. The host leaves out names that are not UTF-8.
    pub fn list(folder: &Path) -> io::Result<Contents> {
        let listing = open(folder, OpenFlags::DIRECTORY)?.read_directory().map_err(into_error)?;
        let mut contents = Contents::default();
        while let Some(entry) = listing.read_directory_entry().map_err(into_error)? {
            let kind = match entry.type_ {
                DescriptorType::RegularFile => Kind::File,
                DescriptorType::Directory => Kind::Folder,
                DescriptorType::SymbolicLink => Kind::Link,
                _ => Kind::Other,
            };
            contents.entries.push((entry.name, kind));
        }
        Ok(contents)
    }

    /// Reads a file into a buffer, instead of what is in it. More than `most` bytes are an error.
    pub fn read(path: &Path, most: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
        let file = open(path, OpenFlags::empty())?;
        buffer.clear();
        loop {
            let (piece, is_end) = file.read(PIECE_BYTES as u64, buffer.len() as u64).map_err(into_error)?;
            // The host gives as much as is asked for, so less is the end.
            let is_last = is_end || piece.len() < PIECE_BYTES;
            if buffer.is_empty() {
                *buffer = piece;
            } else {
                buffer.extend_from_slice(&piece);
            }
            if buffer.len() > most {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn open(path: &Path, flags: OpenFlags) -> io::Result<Descriptor> {
        let inside = path.strip_prefix(ROOT).ok().and_then(Path::to_str).ok_or(io::ErrorKind::NotFound)?;
        let inside = if inside.is_empty() { "." } else { inside };
        WORKSPACE.with(|workspace| {
            let root = workspace.get_or_init(find_workspace).as_ref().ok_or(io::ErrorKind::NotFound)?;
            root.open_at(PathFlags::empty(), inside, flags, DescriptorFlags::READ).map_err(into_error)
        })
    }

    fn find_workspace() -> Option<Descriptor> {
        get_directories().into_iter().find(|(_, name)| name == ROOT).map(|(folder, _)| folder)
    }

    fn into_error(code: ErrorCode) -> io::Error {
        let kind = match code {
            ErrorCode::NoEntry => io::ErrorKind::NotFound,
            ErrorCode::NotDirectory => io::ErrorKind::NotADirectory,
            ErrorCode::IsDirectory => io::ErrorKind::IsADirectory,
            ErrorCode::Access | ErrorCode::NotPermitted => io::ErrorKind::PermissionDenied,
            ErrorCode::NameTooLong => io::ErrorKind::InvalidFilename,
            _ => return io::Error::other(code.message()),
        };
        kind.into()
    }
}
