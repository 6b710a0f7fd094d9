//! The meaning of a failed file operation, and what to do next.

use std::fs;
use std::io::{self, ErrorKind};

use toolgate_sdk::Error;

use crate::similarity::{SOMEWHAT_ALIKE, Similarity};
use crate::workspace::{Kind, MAX_DEPTH, Place, Step, Workspace};

/// Enough names to look through for the one that was meant.
const MAX_NAMES: usize = 5_000;

impl Workspace {
    /// Says why something could not be `done` with a place.
    pub fn explain(&self, error: &io::Error, place: &Place, done: &str) -> Error {
        let name = &place.name;
        // A link answers with an error of its own on each system.
        if fs::symlink_metadata(&place.path).is_ok_and(|metadata| metadata.is_symlink()) {
            return Error::new(format!(
                "`{name}` is a link, and links are not followed: name the file itself"
            ));
        }
        Error::new(match error.kind() {
            ErrorKind::NotFound => return self.is_missing(place),
            ErrorKind::IsADirectory => return is_folder(place),
            ErrorKind::NotADirectory => return self.is_no_folder(place),
            ErrorKind::AlreadyExists => format!("`{name}` is there already: choose another name"),
            ErrorKind::ReadOnlyFilesystem => {
                format!("`{name}` cannot be {done}: this workspace can only be read")
            }
            ErrorKind::PermissionDenied => format!("`{name}` cannot be {done}: it is not allowed here"),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => format!(
                "`{name}` cannot be {done}: the workspace is full; write less, or delete files that are no longer needed"
            ),
            ErrorKind::InvalidFilename => {
                format!("`{name}` cannot be {done}: the name is too long, or its folders are nested too deep")
            }
            _ => format!("`{name}` cannot be {done}: {error}"),
        })
    }

    /// Says which part of a path is a file where a folder is needed.
    fn is_no_folder(&self, place: &Place) -> Error {
        let name = &place.name;
        let is_there = |name: &str| fs::symlink_metadata(self.root().path.join(name)).is_ok();
        if is_there(name) {
            return Error::new(format!("`{name}` is a file: write the path of a folder, or `read` it"));
        }
        let above = name.rmatch_indices('/').map(|(end, _)| &name[..end]).find(|above| is_there(above));
        let because =
            above.map_or(String::new(), |file| format!(", because `{file}` is a file and no folder"));
        Error::new(format!("there is no `{name}`{because}: `list` shows what there is"))
    }

    /// Says that there is no such place, and what may have been meant.
    fn is_missing(&self, place: &Place) -> Error {
        let name = &place.name;
        Error::new(match self.nearest(place) {
            Some(nearest) => format!("there is no `{name}`: did you mean `{nearest}`?"),
            None => format!("there is no `{name}`: `list` shows what there is"),
        })
    }

    /// The path that is most like a missing one: the same name elsewhere, or one that is spelt alike.
    fn nearest(&self, missing: &Place) -> Option<String> {
        let wanted = missing.name.to_lowercase();
        let wanted_name = missing.file_name().to_lowercase();
        let (mut of_path, mut of_name) = (Similarity::to(&wanted), Similarity::to(&wanted_name));
        let mut best = (SOMEWHAT_ALIKE, None);
        let mut seen = 0;
        let walked = self.walk(&self.root(), MAX_DEPTH, None, &mut |entry| {
            let path = entry.name.to_lowercase();
            let name = path.rsplit('/').next().unwrap_or(&path);
            // The name says more than the folders on the way.
            let score = 0.6 * of_name.of(name) + 0.4 * of_path.of(&path);
            // Files that an interrupted call left behind are never meant.
            if score > best.0 && entry.kind != Kind::Other && !name.ends_with('~') {
                best = (score, Some(entry.name.to_owned()));
            }
            seen += 1;
            if seen < MAX_NAMES { Step::On } else { Step::End }
        });
        walked.ok().and(best.1)
    }
}

pub fn is_folder(place: &Place) -> Error {
    Error::new(format!("`{}` is a folder: `list` shows what is in it", place.name))
}

pub fn is_binary(place: &Place) -> Error {
    Error::new(format!(
        "`{}` is not a text file in UTF-8: `read_bytes` gives the bytes of any file",
        place.name
    ))
}
