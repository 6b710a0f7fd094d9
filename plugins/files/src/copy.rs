//! `copy`: a second file or folder with the same content.

use std::fs::{self, File};
use std::io;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::atomic_write::remove_folders;
use crate::delete::remove_all;
use crate::move_path::Transfer;
use crate::workspace::{Found, Kind, Place, Workspace, is_zero};

/// Calls to the host that a folder's copy may take together with the removal of all that it made, which follows where the
/// last file does not fit. A call has 100,000, unless an operator says otherwise; the rest is for the places around.
const MAX_HOST_CALLS: u64 = 95_000;

/// Host calls of a file, as measured: 17 to be listed twice, opened, made and closed, 2 to tell its size, 4 to be removed.
/// With one piece that is 27, so that 3,500 small files fit.
const CALLS_OF_A_FILE: u64 = 23;

/// Host calls to read and write a piece of a file.
const CALLS_OF_A_PIECE: u64 = 4;

/// How much the standard library copies at a time.
const PIECE_BYTES: u64 = 8 * 1024;

/// Host calls of a folder: 9 to be listed twice and made, 9 to be listed and removed.
const CALLS_OF_A_FOLDER: u64 = 18;

/// So many files and folders are more than can be copied.
const MAX_LOOKED_AT: usize = 6_000;

/// Copies a file, or a folder with all that is in it.
///
/// `to` is the path of the copy, not the folder to copy into. Makes the folders it needs. A file that is at `to` is
/// replaced only where `overwrite` is true, a folder never. A folder has at most 3500 files and folders, and fewer where
/// files are larger than 8 KiB. A copy that fails leaves nothing behind.
#[tool(
    destructive,
    open_world = false,
    tags("file", "folder", "duplicate", "cp"),
    examples({"from": "src", "to": "backup/src"}
        => {"from": "src", "to": "backup/src", "kind": "folder", "files": 2, "bytes": 56, "replaced": false})
)]
pub fn copy(
    /// The file or folder, from the workspace's root
    from: String,
    /// The path of the copy, from the workspace's root
    to: String,
    /// Whether a file that is there is replaced
    #[default]
    overwrite: bool,
) -> Result<Copied, Error> {
    Workspace::of_session().copy(&from, &to, overwrite)
}

/// The copied files.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Copied {
    pub from: String,
    pub to: String,
    pub kind: Kind,
    /// How many files were copied
    pub files: u64,
    /// How many bytes they have
    pub bytes: u64,
    /// Whether a file was replaced
    pub replaced: bool,
    /// How many links and other things were left out
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub left_out: u64,
}

impl Workspace {
    pub fn copy(&self, from: &str, to: &str, overwrite: bool) -> Result<Copied, Error> {
        let Transfer { from, to, kind, replaces } = self.transfer(from, to, overwrite)?;
        let nothing = Copied {
            from: from.name.clone(),
            to: to.name.clone(),
            kind,
            files: 0,
            bytes: 0,
            replaced: replaces,
            left_out: 0,
        };
        if kind == Kind::File {
            let bytes = self.copy_file(&from, &to)?;
            return Ok(Copied { files: 1, bytes, ..nothing });
        }
        let (all, unreadable) = self.all_in(&from, MAX_LOOKED_AT)?;
        check_calls(&from, &all)?;
        let made = self.make_folders(&to)?;
        let copied = Copied { left_out: unreadable.into(), ..nothing };
        self.copy_folder(&all, &from, &to, copied).inspect_err(|_| {
            // The error that led here is the one to tell.
            let _ = remove_all(self, &to);
            remove_folders(&made);
        })
    }

    fn copy_file(&self, from: &Place, to: &Place) -> Result<u64, Error> {
        let mut source = self.open(from)?;
        let mut staged = self.stage(to)?;
        let bytes =
            io::copy(&mut source, &mut staged.file).map_err(|error| self.explain(&error, to, "written"))?;
        self.put(staged)?;
        Ok(bytes)
    }

    /// Copies into a folder that is not there yet, so that files are written straight to their places.
    fn copy_folder(
        &self,
        all: &[Found],
        from: &Place,
        to: &Place,
        mut copied: Copied,
    ) -> Result<Copied, Error> {
        fs::create_dir(&to.path).map_err(|error| self.explain(&error, to, "made"))?;
        for (place, kind) in all {
            let inside = place.name.strip_prefix(&from.name).unwrap_or(&place.name).trim_start_matches('/');
            let target = to.under(inside);
            let done = match kind {
                Kind::Folder => fs::create_dir(&target.path),
                Kind::File => copy_bytes(place, &target).map(|bytes| {
                    copied.files += 1;
                    copied.bytes += bytes;
                }),
                Kind::Link | Kind::Other => {
                    copied.left_out += 1;
                    Ok(())
                }
            };
            done.map_err(|error| self.explain(&error, &target, "written"))?;
        }
        Ok(copied)
    }
}

fn copy_bytes(from: &Place, to: &Place) -> io::Result<u64> {
    io::copy(&mut File::open(&from.path)?, &mut File::create_new(&to.path)?)
}

/// Looks before anything is written whether one call can copy all: one that stops for want of calls to the host has none
/// left to remove what it made.
fn check_calls(from: &Place, all: &[Found]) -> Result<(), Error> {
    let mut left = MAX_HOST_CALLS;
    for (place, kind) in all {
        let calls = match kind {
            Kind::Folder => CALLS_OF_A_FOLDER,
            _ => CALLS_OF_A_FILE + CALLS_OF_A_PIECE * place.bytes().div_ceil(PIECE_BYTES).max(1),
        };
        left = left.checked_sub(calls).ok_or_else(|| {
            Error::new(format!(
                "`{}` has more in it than one call can copy, which is 3500 files and folders, or fewer where files are larger than \
                 8 KiB: copy its folders and large files one by one",
                from.name
            ))
        })?;
    }
    Ok(())
}
