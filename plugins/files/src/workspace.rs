//! The workspace, how paths in it are written and read, and the walk through its folders.

use std::fs::{self, FileType, Metadata};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::Error;

use crate::dir_walk::{self, Contents};

/// The folder at which the host mounts the session's workspace.
pub const ROOT: &str = "/workspace";

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

/// The kind of an entry at a place.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    File,
    Folder,
    /// A symbolic link, which is never followed
    Link,
    Other,
}

/// One thing in a folder, while a walk passes it.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The path from the workspace's root.
    pub name: &'a str,
    pub path: &'a Path,
    pub kind: Kind,
    /// 1 for what lies in the folder itself.
    pub depth: u32,
}

/// How a walk goes on after an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    On,
    /// Passes over what lies in this folder.
    Past,
    End,
}

impl Workspace {
    pub fn of_session() -> Self {
        #[cfg(test)]
        if let Some(root) = crate::tests::session_root() {
            return Self { root };
        }
        Self { root: PathBuf::from(ROOT) }
    }

    #[cfg(test)]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub fn root(&self) -> Place {
        Place { name: ".".to_owned(), path: self.root.clone() }
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
        let names: Vec<&str> = inside.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        if names.contains(&"..") {
            return Err(Error::invalid(format!(
                "`{written}` may not contain `..`: write the path from the workspace's root"
            )));
        }
        match names.is_empty() {
            true => Ok(self.root()),
            false => Ok(self.root().under(&names.join("/"))),
        }
    }

    /// Reads the path of a file that may not be there yet.
    pub fn place_of_file(&self, written: &str) -> Result<Place, Error> {
        let place = self.place(written)?;
        if place.name == "." || written.ends_with('/') {
            return Err(Error::invalid(format!(
                "`{written}` is a folder: write the path of a file, as `notes/today.md`"
            )));
        }
        Ok(place)
    }

    /// The metadata of a place, links not followed.
    pub fn look(&self, place: &Place) -> Result<Metadata, Error> {
        fs::symlink_metadata(&place.path).map_err(|error| self.explain(&error, place, "read"))
    }

    /// Walks a folder down to a depth, in the order of names, from the place on where an earlier answer ended. Links are
    /// shown and not followed.
    ///
    /// Gives each entry to `visit`, and the number of folders that could not be entered and of names that cannot be shown.
    /// In a component the host keeps such names to itself, and none are counted.
    pub fn walk(
        &self,
        folder: &Place,
        depth: u32,
        from: Option<&str>,
        visit: &mut dyn FnMut(&Entry<'_>) -> Step,
    ) -> Result<u32, Error> {
        let first = entries(&folder.path).map_err(|error| self.explain(&error, folder, "listed"))?;
        let name = if folder.name == "." { String::new() } else { format!("{}/", folder.name) };
        let mut walk = Walk { name, path: folder.path.clone(), depth, from, unreadable: 0, visit };
        walk.pass(first, 1);
        Ok(walk.unreadable)
    }

    /// Everything in a folder, each folder before what is in it, and how much `walk` could not show. Ends after one more
    /// than `most`.
    pub fn all_in(&self, folder: &Place, most: usize) -> Result<(Vec<Found>, u32), Error> {
        let mut all = Vec::new();
        let unreadable = self.walk(folder, MAX_DEPTH, None, &mut |entry| {
            all.push((Place { name: entry.name.to_owned(), path: entry.path.to_owned() }, entry.kind));
            if all.len() > most { Step::End } else { Step::On }
        })?;
        Ok((all, unreadable))
    }
}

/// A file, a folder or another thing in a folder.
pub type Found = (Place, Kind);

impl Place {
    /// The last part of its name.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// The place of a name under this one.
    pub fn under(&self, name: &str) -> Self {
        let full = if self.name == "." { name.to_owned() } else { format!("{}/{name}", self.name) };
        Self { name: full, path: self.path.join(name) }
    }

    /// How many bytes a file has, as far as its folder tells.
    pub fn bytes(&self) -> u64 {
        bytes_of(&self.path)
    }

    /// Whether it is `other`, or lies somewhere under it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.path.starts_with(&other.path)
    }
}

impl Kind {
    pub fn of(metadata: &Metadata) -> Self {
        Self::of_type(metadata.file_type())
    }

    pub fn of_type(kind: FileType) -> Self {
        if kind.is_file() {
            Self::File
        } else if kind.is_dir() {
            Self::Folder
        } else if kind.is_symlink() {
            Self::Link
        } else {
            Self::Other
        }
    }
}

/// How many bytes a file has, as far as its folder tells.
pub fn bytes_of(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |metadata| metadata.len())
}

/// The entries of a folder, in the order of the names.
fn entries(folder: &Path) -> std::io::Result<Contents> {
    let mut contents = dir_walk::list(folder)?;
    contents.entries.sort_unstable();
    Ok(contents)
}

/// A walk under way. The name and the path grow and shrink with it, so that an entry costs no text of its own.
struct Walk<'v> {
    name: String,
    path: PathBuf,
    depth: u32,
    from: Option<&'v str>,
    unreadable: u32,
    visit: &'v mut dyn FnMut(&Entry<'_>) -> Step,
}

impl Walk<'_> {
    /// Passes what is in a folder. Gives false when the walk is at its end.
    fn pass(&mut self, contents: Contents, depth: u32) -> bool {
        self.unreadable += contents.unreadable;
        for (name, kind) in contents.entries {
            let length = self.name.len();
            self.name.push_str(&name);
            self.path.push(&name);
            let step = match self.from {
                // Entries wholly before the place need not be walked again.
                Some(from) if order(&self.name, from).is_lt() => {
                    let is_on_the_way =
                        from.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with('/'));
                    if is_on_the_way { Step::On } else { Step::Past }
                }
                _ => (self.visit)(&Entry { name: &self.name, path: &self.path, kind, depth }),
            };
            let goes_deeper = kind == Kind::Folder && depth < self.depth && step == Step::On;
            let goes_on = step != Step::End && (!goes_deeper || self.enter(depth + 1));
            self.name.truncate(length);
            self.path.pop();
            if !goes_on {
                return false;
            }
        }
        true
    }

    fn enter(&mut self, depth: u32) -> bool {
        match entries(&self.path) {
            Ok(contents) => {
                self.name.push('/');
                self.pass(contents, depth)
            }
            // A folder that vanished or cannot be opened hides only what is in it.
            Err(_) => {
                self.unreadable += 1;
                true
            }
        }
    }
}

/// Compares two paths in the order of a walk.
pub fn order(left: &str, right: &str) -> std::cmp::Ordering {
    left.split('/').cmp(right.split('/'))
}

/// Whether a count need not be said.
pub fn is_zero<N: Default + PartialEq>(count: &N) -> bool {
    *count == N::default()
}
