//! The workspace, and how paths in it are written and read.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use toolgate_sdk::Error;

/// Where the host puts the session's workspace.
const ROOT: &str = "/workspace";

/// Folders deeper than this were made by accident.
pub const MAX_DEPTH: u32 = 64;

/// A folder that stands for all there is.
pub struct Workspace {
    root: PathBuf,
}

/// A place in the workspace.
#[derive(Clone, Debug)]
pub struct Place {
    /// As the model knows it: from the root, with slashes. `.` is the root.
    pub name: String,
    /// As the file system knows it.
    pub path: PathBuf,
}

/// One thing in a folder.
#[derive(Debug)]
pub struct Entry {
    pub place: Place,
    pub metadata: Metadata,
    pub depth: u32,
}

impl Workspace {
    pub fn of_session() -> Self {
        Self { root: PathBuf::from(ROOT) }
    }

    #[cfg(test)]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Reads a path as a model writes it: from the root, or with `/workspace` before it.
    pub fn place(&self, written: &str) -> Result<Place, Error> {
        if written.contains('\0') {
            return Err(Error::invalid("a path cannot contain a zero byte"));
        }
        let inside = match written.strip_prefix(ROOT) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
            _ if written.starts_with('/') => {
                return Err(Error::invalid(format!(
                    "`{written}` is outside of the workspace: write a path from its root, as `notes/today.md`"
                )));
            }
            _ => written,
        };
        let mut names = Vec::new();
        for component in Path::new(inside).components() {
            match component {
                Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
                Component::CurDir => {}
                _ => {
                    return Err(Error::invalid(format!(
                        "`{written}` may not contain `..`: write the path from the workspace's root"
                    )));
                }
            }
        }
        if names.is_empty() {
            return Ok(Place { name: ".".to_owned(), path: self.root.clone() });
        }
        let name = names.join("/");
        let path = self.root.join(&name);
        Ok(Place { name, path })
    }

    /// Walks a folder down to a depth, in the order of names. Links are shown and not followed.
    ///
    /// Gives each entry to `visit`, which ends the walk by giving false. Gives the number of names that cannot be shown.
    pub fn walk(
        &self,
        folder: &Place,
        depth: u32,
        visit: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<u32, Error> {
        let mut unreadable = 0;
        let mut waiting = entries(folder, 1, &mut unreadable)?;
        while let Some(entry) = waiting.pop() {
            let goes_deeper = entry.metadata.is_dir() && entry.depth < depth;
            let (place, next_depth) = (entry.place.clone(), entry.depth + 1);
            if !visit(entry) {
                break;
            }
            if goes_deeper {
                // A folder that vanished or cannot be opened hides only what is in it.
                match entries(&place, next_depth, &mut unreadable) {
                    Ok(below) => waiting.extend(below),
                    Err(_) => unreadable += 1,
                }
            }
        }
        Ok(unreadable)
    }
}

/// The entries of a folder, the last name first.
fn entries(folder: &Place, depth: u32, unreadable: &mut u32) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(&folder.path).map_err(|error| explain(&error, folder, "listed"))? {
        // A name that is not UTF-8 has no JSON text that a model could give back.
        match entry
            .and_then(|entry| Ok((entry.file_name(), entry.path(), fs::symlink_metadata(entry.path())?)))
        {
            Ok((name, path, metadata)) => match name.to_str() {
                Some(name) => {
                    entries.push(Entry { place: Place { name: under(folder, name), path }, metadata, depth })
                }
                None => *unreadable += 1,
            },
            Err(_) => *unreadable += 1,
        }
    }
    entries.sort_by(|left, right| right.place.name.cmp(&left.place.name));
    Ok(entries)
}

fn under(folder: &Place, name: &str) -> String {
    if folder.name == "." { name.to_owned() } else { format!("{}/{name}", folder.name) }
}

/// Says what a failed file operation means, and what to do next.
pub fn explain(error: &io::Error, place: &Place, done: &str) -> Error {
    let name = &place.name;
    match error.kind() {
        ErrorKind::NotFound => Error::new(format!("there is no `{name}`: `list` shows what there is")),
        ErrorKind::IsADirectory => Error::new(format!("`{name}` is a folder: `list` shows what is in it")),
        ErrorKind::NotADirectory => {
            Error::new(format!("`{name}` is a file, or under one: write the path of a folder"))
        }
        ErrorKind::PermissionDenied => {
            Error::new(format!("`{name}` cannot be {done}: it is not allowed here"))
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Error::new(format!(
            "`{name}` cannot be {done}: the workspace is full; write less, or replace files that are no longer needed"
        )),
        _ => Error::new(format!("`{name}` cannot be {done}: {error}")),
    }
}
