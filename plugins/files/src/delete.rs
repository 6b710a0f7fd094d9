//! `delete`: a file or a folder, for good.

use std::fs;
use std::io;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::workspace::{Kind, Place, Step, Workspace};

/// `ENOTEMPTY` of WASI's C library.
const WASI_NOT_EMPTY: i32 = 55;

/// Deletes a file, or a folder and all that is in it. There is no way back.
///
/// A folder that is not empty is deleted only where `recursive` is true; look at it with `tree` first.
#[tool(
    destructive,
    idempotent = false,
    open_world = false,
    tags("file", "folder", "remove", "rm"),
    examples(
        {"path": "notes.md"} => {"path": "notes.md", "kind": "file", "files": 1, "folders": 0, "bytes": 19},
        {"path": "src", "recursive": true} => {"path": "src", "kind": "folder", "files": 2, "folders": 1, "bytes": 56},
    )
)]
pub fn delete(
    /// The file or folder, from the workspace's root
    path: String,
    /// Whether to delete a folder with all that is in it
    #[default]
    recursive: bool,
) -> Result<Deleted, Error> {
    Workspace::of_session().delete(&path, recursive)
}

/// The deleted files.
#[derive(Debug, Default, PartialEq)]
pub struct Removed {
    pub files: u64,
    pub folders: u64,
    pub bytes: u64,
}

/// The deleted files, as the tool returns them.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Deleted {
    /// The path, from the workspace's root
    pub path: String,
    pub kind: Kind,
    /// How many files were deleted
    pub files: u64,
    /// How many folders were deleted
    pub folders: u64,
    /// How many bytes the files had
    pub bytes: u64,
}

impl Workspace {
    pub fn delete(&self, path: &str, recursive: bool) -> Result<Deleted, Error> {
        let place = self.place(path)?;
        if place.name == "." {
            return Err(Error::invalid("`.` is the workspace itself: name what is to be deleted in it"));
        }
        let kind = Kind::of(&self.look(&place)?);
        if kind == Kind::Folder && !recursive {
            self.check_is_empty(&place)?;
        }
        let mut removed = Removed::default();
        removed
            .remove(self, &place)
            .map_err(|(place, error)| self.cannot_delete(&place, &error, &removed))?;
        let Removed { files, folders, bytes } = removed;
        Ok(Deleted { path: place.name, kind, files, folders, bytes })
    }

    fn check_is_empty(&self, place: &Place) -> Result<(), Error> {
        let mut count = 0;
        let unreadable = self.walk(place, 1, None, &mut |_| {
            count += 1;
            Step::On
        })?;
        let hidden = match unreadable {
            0 => String::new(),
            hidden => format!(", and {hidden} whose names cannot be shown or given"),
        };
        match count + unreadable {
            0 => Ok(()),
            _ => Err(Error::new(format!(
                "`{}` is a folder with {count} entries in it{hidden}: `tree` shows them, and `recursive` deletes them with it",
                place.name
            ))),
        }
    }

    fn cannot_delete(&self, place: &Place, error: &io::Error, removed: &Removed) -> Error {
        let told = match error.kind() {
            _ if is_not_empty(error) => Error::new(format!(
                "`{}` cannot be deleted: something in it came just now, or has a name that is not UTF-8, which no tool here can see or delete; try once more, and then `move` the folder out of the way and tell the user",
                place.name
            )),
            _ => self.explain(error, place, "deleted"),
        };
        match removed.files + removed.folders {
            0 => told,
            count => {
                Error::new(format!("{}. Before it {count} files and folders were deleted", told.message()))
            }
        }
    }
}

/// Whether a folder is not deleted because of what is in it. In a component the standard library has no kind for that.
fn is_not_empty(error: &io::Error) -> bool {
    let has_code = cfg!(target_family = "wasm") && error.raw_os_error() == Some(WASI_NOT_EMPTY);
    has_code || error.kind() == io::ErrorKind::DirectoryNotEmpty
}

/// Deletes a place and all that is in it.
pub fn remove_all(workspace: &Workspace, place: &Place) -> io::Result<()> {
    Removed::default().remove(workspace, place).map_err(|(_, error)| error)
}

impl Removed {
    /// Removes what is deepest first. Gives the place that could not be removed.
    fn remove(&mut self, workspace: &Workspace, place: &Place) -> Result<(), (Place, io::Error)> {
        let failed = |error| (place.clone(), error);
        let kind = Kind::of(&fs::symlink_metadata(&place.path).map_err(failed)?);
        let mut waiting = vec![(place.clone(), kind)];
        if kind == Kind::Folder {
            let listed = workspace.all_in(place, usize::MAX);
            waiting.extend(listed.map_err(|error| failed(io::Error::other(error.message().to_owned())))?.0);
        }
        while let Some((place, kind)) = waiting.pop() {
            self.remove_one(&place, kind).map_err(|error| (place, error))?;
        }
        Ok(())
    }

    fn remove_one(&mut self, place: &Place, kind: Kind) -> io::Result<()> {
        if kind == Kind::Folder {
            fs::remove_dir(&place.path)?;
            self.folders += 1;
            return Ok(());
        }
        let bytes = place.bytes();
        fs::remove_file(&place.path)?;
        self.files += 1;
        self.bytes += bytes;
        Ok(())
    }
}
