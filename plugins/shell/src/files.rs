//! The files that a script sees: those of the workspace, those of `/tmp`, and a few devices.

mod memory;
mod place;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::stream::Output;

use memory::Memory;
pub use place::{Kind, Metadata, Place};

/// The folder whose files are in memory.
pub const TEMPORARY: &str = "/tmp";

/// The largest file that is read as a whole.
pub const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// Maximum number of paths that a listing, a glob or a walk returns. A folder with more is an error and never cut: a
/// script that works on a part of its files would call it done.
const MAX_PATHS: usize = 100_000;

#[derive(Clone, Default)]
pub struct Files {
    /// The workspace as scripts name it, such as `/workspace`.
    pub root: String,
    /// See [`MAX_PATHS`].
    pub max_paths: usize,
    /// The folder on the file system.
    folder: PathBuf,
    /// Files of `/tmp`. Clones share them.
    temporary: Rc<RefCell<Memory>>,
    /// Outputs of `<( )` and inputs of `>( )`, by their paths.
    processes: HashMap<String, Process>,
}

#[derive(Clone)]
enum Process {
    Read(Rc<Vec<u8>>),
    Write(Output),
}

impl Files {
    pub fn new(root: &str, folder: &Path) -> Self {
        let (root, folder) = (root.to_owned(), folder.to_owned());
        Self { root, max_paths: MAX_PATHS, folder, ..Self::default() }
    }

    /// Keeps the output of `<( )` and returns its path.
    pub fn add_process(&mut self, output: Vec<u8>) -> String {
        self.add(Process::Read(Rc::new(output)))
    }

    /// Keeps the input of `>( )` and returns its path.
    pub fn add_consumer(&mut self, input: Output) -> String {
        self.add(Process::Write(input))
    }

    fn add(&mut self, process: Process) -> String {
        let path = format!("/dev/fd/{}", 63 + self.processes.len());
        self.processes.insert(path.clone(), process);
        path
    }

    /// The absolute path, without `.` and `..`.
    pub fn absolute(&self, current: &str, path: &str) -> String {
        let mut names: Vec<&str> = Vec::new();
        let base = if path.starts_with('/') { "" } else { current };
        for name in base.split('/').chain(path.split('/')) {
            match name {
                "" | "." => {}
                ".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        format!("/{}", names.join("/"))
    }

    /// The place of a path, which must be in the workspace or in `/tmp`.
    pub fn resolve(&self, current: &str, path: &str) -> io::Result<Place> {
        if path.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if path.contains('\0') {
            return Err(io::Error::other("a path cannot contain a zero byte"));
        }
        let absolute = self.absolute(current, path);
        if let Some(inside) = below(&absolute, &self.root) {
            let folder = &self.folder;
            return Ok(Place::Disk(if inside.is_empty() { folder.clone() } else { folder.join(inside) }));
        }
        match below(&absolute, TEMPORARY) {
            Some(inside) => Ok(Place::Memory(Rc::clone(&self.temporary), inside.to_owned())),
            None => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    pub fn metadata(&self, current: &str, path: &str) -> io::Result<Metadata> {
        self.resolve(current, path)?.metadata()
    }

    pub fn read(&self, current: &str, path: &str) -> io::Result<Vec<u8>> {
        match self.processes.get(path) {
            Some(Process::Read(output)) => Ok(output.to_vec()),
            _ if path == "/dev/null" => Ok(Vec::new()),
            _ => self.resolve(current, path)?.read(),
        }
    }

    /// Opens a file to write, which is made if it is missing.
    pub fn create(&self, current: &str, path: &str, appends: bool) -> io::Result<Output> {
        match self.processes.get(path) {
            Some(Process::Write(input)) => Ok(input.clone()),
            _ if path == "/dev/null" => Ok(Output::Null),
            _ => self.resolve(current, path)?.open(appends),
        }
    }

    /// The names in a folder, sorted. More than `max_paths` are an error.
    pub fn list(&self, current: &str, path: &str) -> io::Result<Vec<String>> {
        let mut names = self.resolve(current, path)?.names(self.max_paths)?;
        if names.len() > self.max_paths {
            return Err(io::Error::other(format!(
                "{path}: the folder has more than {} entries, and none was taken: keep its files in smaller folders, and \
                 name one of these",
                self.max_paths
            )));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The names in a folder for a glob or a walk, for which a path that is no folder has none.
    pub fn list_for_walk(&self, current: &str, path: &str) -> io::Result<Vec<String>> {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        match self.list(current, path) {
            Err(error) if matches!(error.kind(), NotADirectory | NotFound | PermissionDenied) => {
                Ok(Vec::new())
            }
            listed => listed,
        }
    }

    /// The message where a glob or a walk, named by `what`, has more than `max_paths`.
    pub fn too_many(&self, what: &str) -> String {
        format!(
            "{what} more than {} paths: narrow it, or go through the folders one by one, as with \
             `for folder in */; do …; done`",
            self.max_paths
        )
    }
}

/// The path below a folder, without a slash before it.
fn below<'p>(absolute: &'p str, folder: &str) -> Option<&'p str> {
    let inside = absolute.strip_prefix(folder)?;
    if inside.is_empty() { Some(inside) } else { inside.strip_prefix('/') }
}

/// The message of an error, in the words of the C library.
pub fn explain(error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::NotFound => "No such file or directory",
        io::ErrorKind::PermissionDenied => {
            "Permission denied: only the files of the workspace and of /tmp are there"
        }
        io::ErrorKind::NotADirectory => "Not a directory",
        io::ErrorKind::IsADirectory => "Is a directory",
        io::ErrorKind::AlreadyExists => "File exists",
        io::ErrorKind::DirectoryNotEmpty => "Directory not empty",
        _ => return error.to_string(),
    };
    text.to_owned()
}
