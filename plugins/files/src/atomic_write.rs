//! A new content for a file, whole or not at all.
//!
//! The content is written to a neighbour, whose name tells what it will be, and which then takes the file's name. A call that is
//! stopped in the middle leaves the old file as it was, and at worst the neighbour beside it. For a moment both need
//! room in the workspace.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use toolgate_sdk::Error;

use crate::failure::is_folder;
use crate::workspace::{Place, Workspace};

/// Calls of one session may write the same file at the same time, and each needs a neighbour of its own.
const MAX_NEIGHBOURS: u32 = 16;

/// What file systems take is 255; the rest is for the ending.
const MAX_STEM_BYTES: usize = 230;

/// A file that is written and has not its name yet. Is removed unless it gets it.
pub struct Staged {
    pub file: File,
    neighbour: PathBuf,
    place: Place,
    /// Folders that were made for it, from the top down.
    made: Vec<PathBuf>,
    is_placed: bool,
}

impl Workspace {
    /// Gives a file its whole content. Gives whether there was no such file before.
    pub fn replace(&self, place: &Place, content: &[u8]) -> Result<bool, Error> {
        let mut staged = self.stage(place)?;
        staged.file.write_all(content).map_err(|error| self.explain(&error, place, "written"))?;
        self.put(staged)
    }

    /// Begins a file that will replace the one at `place`, or be new there.
    pub fn stage(&self, place: &Place) -> Result<Staged, Error> {
        self.check_can_be_file(place)?;
        let made = self.make_folders(place)?;
        match open_neighbour(place) {
            Ok((file, neighbour)) => {
                Ok(Staged { file, neighbour, place: place.clone(), made, is_placed: false })
            }
            Err(error) => {
                remove_folders(&made);
                Err(self.explain(&error, place, "written"))
            }
        }
    }

    /// Gives a staged file its name. Gives whether there was no such file before.
    pub fn put(&self, mut staged: Staged) -> Result<bool, Error> {
        let place = staged.place.clone();
        let is_new = fs::symlink_metadata(&place.path).is_err();
        fs::rename(&staged.neighbour, &place.path)
            .map_err(|error| self.explain(&error, &place, "written"))?;
        staged.is_placed = true;
        Ok(is_new)
    }

    fn check_can_be_file(&self, place: &Place) -> Result<(), Error> {
        match fs::symlink_metadata(&place.path) {
            Ok(found) if found.is_dir() => Err(is_folder(place)),
            Ok(found) if found.is_file() => Ok(()),
            Ok(_) => Err(Error::new(format!(
                "`{}` is a link or no usual file, and is not written to: choose another name",
                place.name
            ))),
            Err(_) => Ok(()),
        }
    }

    /// Makes the folders that a place lies in, and gives those that were not there.
    pub fn make_folders(&self, place: &Place) -> Result<Vec<PathBuf>, Error> {
        let mut missing = Vec::new();
        let mut folder = place.path.parent();
        while let Some(path) = folder.filter(|path| !path.is_dir() && *path != self.root().path) {
            missing.push(path.to_owned());
            folder = path.parent();
        }
        missing.reverse();
        let mut made = Vec::new();
        for path in missing {
            match fs::create_dir(&path) {
                Ok(()) => made.push(path),
                // Another call was faster.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
                Err(error) => {
                    remove_folders(&made);
                    return Err(self.explain_folder(&error, place));
                }
            }
        }
        Ok(made)
    }

    fn explain_folder(&self, error: &io::Error, place: &Place) -> Error {
        match error.kind() {
            ErrorKind::NotADirectory | ErrorKind::AlreadyExists => Error::new(format!(
                "`{}` cannot be written: a folder on its way is a file; choose another path",
                place.name
            )),
            _ => self.explain(error, place, "written"),
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_placed {
            // Nothing more can be done if this fails: the error that led here is the one to tell.
            let _ = fs::remove_file(&self.neighbour);
            remove_folders(&self.made);
        }
    }
}

/// Removes folders that were made for nothing. Folders that are in use by now stay.
pub fn remove_folders(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
}

fn open_neighbour(place: &Place) -> io::Result<(File, PathBuf)> {
    for number in 1..=MAX_NEIGHBOURS {
        let path = neighbour(place, "new", number);
        match File::options().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("files that were left beside it are in the way: delete those that end in `~`"))
}

/// A name beside a place that says what it is for: `notes.md.new1~`.
pub fn neighbour(place: &Place, purpose: &str, number: u32) -> PathBuf {
    let name = place.file_name();
    let stem = &name[..name.floor_char_boundary(MAX_STEM_BYTES)];
    place.path.with_file_name(format!("{stem}.{purpose}{number}~"))
}
