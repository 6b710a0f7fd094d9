//! The files that a script sees: those of the workspace, and a few devices.

use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

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
    /// Outputs of `<( )`, by their paths.
    processes: HashMap<String, Rc<Vec<u8>>>,
}

impl Files {
    pub fn new(root: &str, folder: &Path) -> Self {
        let (root, folder) = (root.to_owned(), folder.to_owned());
        Self { root, max_paths: MAX_PATHS, folder, processes: HashMap::new() }
    }

    /// Keeps the output of `<( )` and returns its path.
    pub fn add_process(&mut self, output: Vec<u8>) -> String {
        let path = format!("/dev/fd/{}", 63 + self.processes.len());
        self.processes.insert(path.clone(), Rc::new(output));
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

    /// The place of a path, which must be in the workspace.
    pub fn resolve(&self, current: &str, path: &str) -> io::Result<PathBuf> {
        if path.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if path.contains('\0') {
            return Err(io::Error::other("a path cannot contain a zero byte"));
        }
        let absolute = self.absolute(current, path);
        match absolute.strip_prefix(&self.root) {
            Some("") => Ok(self.folder.clone()),
            Some(inside) if inside.starts_with('/') => Ok(self.folder.join(&inside[1..])),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    pub fn metadata(&self, current: &str, path: &str) -> io::Result<Metadata> {
        fs::metadata(self.resolve(current, path)?)
    }

    pub fn read(&self, current: &str, path: &str) -> io::Result<Vec<u8>> {
        if let Some(output) = self.processes.get(path) {
            return Ok(output.to_vec());
        }
        if path == "/dev/null" {
            return Ok(Vec::new());
        }
        let place = self.resolve(current, path)?;
        let mut bytes = Vec::new();
        File::open(&place)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| explain_folder(error, &place))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other(format!("larger than {} MiB", MAX_FILE_BYTES >> 20)));
        }
        Ok(bytes)
    }

    pub fn create(&self, current: &str, path: &str, appends: bool) -> io::Result<File> {
        let place = self.resolve(current, path)?;
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(appends).truncate(!appends);
        options.open(&place).map_err(|error| explain_folder(error, &place))
    }

    /// The names in a folder, sorted. More than `max_paths` are an error.
    pub fn list(&self, current: &str, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.resolve(current, path)?)? {
            let name = match entry {
                Ok(entry) => entry.file_name(),
                // The entry vanished while its folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // Scripts have no text for a name that is not UTF-8, and the host leaves out such names too.
            names.extend(name.into_string());
            if names.len() > self.max_paths {
                return Err(io::Error::other(format!(
                    "{path}: the folder has more than {} entries, and none was taken: keep its files in smaller folders, and \
                     name one of these",
                    self.max_paths
                )));
            }
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

/// The error of a folder that is used as a file. Asked only then, since each question to the host costs.
fn explain_folder(error: io::Error, place: &Path) -> io::Error {
    if place.is_dir() { io::ErrorKind::IsADirectory.into() } else { error }
}

/// The message of an error, in the words of the C library.
pub fn explain(error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::NotFound => "No such file or directory",
        io::ErrorKind::PermissionDenied => "Permission denied: only the files of the workspace are there",
        io::ErrorKind::NotADirectory => "Not a directory",
        io::ErrorKind::IsADirectory => "Is a directory",
        io::ErrorKind::AlreadyExists => "File exists",
        io::ErrorKind::DirectoryNotEmpty => "Directory not empty",
        _ => return error.to_string(),
    };
    text.to_owned()
}
