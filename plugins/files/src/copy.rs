//! `copy`: a second file or folder with the same content.

use std::fs::{self, File};
use std::io;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::delete::remove_all;
use crate::move_path::Transfer;
use crate::replace::remove_folders;
use crate::workspace::{Kind, MAX_DEPTH, Place, Step, Workspace};

/// Files and folders of one copy. Each file takes some twenty calls to the host, of which a call has 100,000.
const MAX_ENTRIES: u32 = 3_500;

/// Copies a file, or a folder with all that is in it.
///
/// `to` is the path of the copy, not the folder to copy into. Makes the folders it needs. A file that is at `to` is
/// replaced only where `overwrite` is true, a folder never. A folder has at most 3500 files and folders. What fails leaves
/// nothing behind.
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

/// What was copied.
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
        self.expect_few(&from)?;
        let made = self.make_folders(&to)?;
        self.copy_folder(&from, &to, nothing).inspect_err(|_| {
            // The error that led here is the one to tell.
            let _ = remove_all(self, &to);
            remove_folders(&made);
        })
    }

    /// Counted before anything is written: a copy that stops for want of calls to the host has none left to remove what it
    /// made.
    fn expect_few(&self, from: &Place) -> Result<(), Error> {
        let mut entries = 0;
        self.walk(from, MAX_DEPTH, &mut |_| {
            entries += 1;
            if entries > MAX_ENTRIES { Step::End } else { Step::On }
        })?;
        match entries > MAX_ENTRIES {
            false => Ok(()),
            true => Err(Error::new(format!(
                "`{}` has more than {MAX_ENTRIES} files and folders: copy its folders one by one",
                from.name
            ))),
        }
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
    fn copy_folder(&self, from: &Place, to: &Place, mut copied: Copied) -> Result<Copied, Error> {
        fs::create_dir(&to.path).map_err(|error| self.explain(&error, to, "made"))?;
        let mut failed = None;
        let unreadable = self.walk(from, MAX_DEPTH, &mut |entry| {
            let inside = entry.name.strip_prefix(&from.name).unwrap_or(entry.name).trim_start_matches('/');
            let target = to.under(inside);
            let done = match entry.kind {
                Kind::Folder => fs::create_dir(&target.path),
                Kind::File => copy_bytes(entry.path, &target).map(|bytes| {
                    copied.files += 1;
                    copied.bytes += bytes;
                }),
                Kind::Link | Kind::Other => {
                    copied.left_out += 1;
                    Ok(())
                }
            };
            if let Err(error) = done {
                failed = Some(self.explain(&error, &target, "written"));
            }
            if failed.is_some() { Step::End } else { Step::On }
        })?;
        copied.left_out += u64::from(unreadable);
        failed.map_or(Ok(copied), Err)
    }
}

fn copy_bytes(from: &std::path::Path, to: &Place) -> io::Result<u64> {
    io::copy(&mut File::open(from)?, &mut File::create_new(&to.path)?)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
