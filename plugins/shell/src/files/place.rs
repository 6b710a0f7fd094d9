//! A path that a script may use: on the disk of the workspace, or in the memory of `/tmp`.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::SystemTime;

use super::MAX_FILE_BYTES;
use super::memory::{Entry, Memory};
use crate::stream::Output;

#[derive(Clone)]
pub enum Place {
    Disk(PathBuf),
    /// The path below `/tmp`.
    Memory(Rc<RefCell<Memory>>, String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    File,
    Folder,
    Link,
    Other,
}

#[derive(Clone, Copy, Debug)]
pub struct Metadata {
    pub kind: Kind,
    pub bytes: u64,
    pub modified: SystemTime,
}

impl Metadata {
    pub fn is_folder(&self) -> bool {
        self.kind == Kind::Folder
    }

    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }
}

impl From<fs::Metadata> for Metadata {
    fn from(found: fs::Metadata) -> Self {
        let kind = match found.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Folder,
            kind if kind.is_symlink() => Kind::Link,
            _ => Kind::Other,
        };
        let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Self { kind, bytes: found.len(), modified }
    }
}

impl Place {
    pub fn metadata(&self) -> io::Result<Metadata> {
        match self {
            Self::Disk(path) => Ok(fs::metadata(path)?.into()),
            Self::Memory(memory, path) => Ok(match memory.borrow().entry(path)? {
                Entry::Folder(modified) => Metadata { kind: Kind::Folder, bytes: 0, modified },
                Entry::File(content) => {
                    let content = content.borrow();
                    let bytes = content.bytes.len() as u64;
                    Metadata { kind: Kind::File, bytes, modified: content.modified }
                }
            }),
        }
    }

    /// The metadata of a link itself.
    pub fn link_metadata(&self) -> io::Result<Metadata> {
        match self {
            Self::Disk(path) => Ok(fs::symlink_metadata(path)?.into()),
            Self::Memory(..) => self.metadata(),
        }
    }

    pub fn exists(&self) -> bool {
        self.metadata().is_ok()
    }

    pub fn is_folder(&self) -> bool {
        self.metadata().is_ok_and(|found| found.is_folder())
    }

    pub fn is_file(&self) -> bool {
        self.metadata().is_ok_and(|found| found.is_file())
    }

    /// Files of a workspace have no modes: those that say by what they run are programs.
    pub fn is_program(&self) -> bool {
        #[cfg(unix)]
        if let Self::Disk(path) = self {
            use std::os::unix::fs::PermissionsExt;
            return fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
        }
        self.read().is_ok_and(|bytes| bytes.starts_with(b"#!"))
    }

    pub fn join(&self, name: &str) -> Self {
        match self {
            Self::Disk(path) => Self::Disk(path.join(name)),
            Self::Memory(memory, path) => {
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
                Self::Memory(Rc::clone(memory), path)
            }
        }
    }

    /// The whole content of a file of at most [`MAX_FILE_BYTES`].
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let path = match self {
            Self::Memory(memory, path) => return Ok(memory.borrow().content(path)?.borrow().bytes.clone()),
            Self::Disk(path) => path,
        };
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| self.explain_folder(error))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other(format!("larger than {} MiB", MAX_FILE_BYTES >> 20)));
        }
        Ok(bytes)
    }

    /// Opens a file to write, which is made if it is missing.
    pub fn open(&self, appends: bool) -> io::Result<Output> {
        match self {
            Self::Memory(memory, path) => {
                Ok(Output::File(Rc::new(RefCell::new(memory.borrow_mut().open(path, appends)?))))
            }
            Self::Disk(path) => {
                let mut options = OpenOptions::new();
                options.create(true).write(true).append(appends).truncate(!appends);
                let file = options.open(path).map_err(|error| self.explain_folder(error))?;
                Ok(Output::File(Rc::new(RefCell::new(file))))
            }
        }
    }

    pub fn write(&self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.open(false)?.write(bytes.as_ref())
    }

    /// Writes a file, and the folders that it is in.
    pub fn write_below(&self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        if let Some(parent) = self.parent() {
            parent.create_folders()?;
        }
        self.write(bytes)
    }

    fn parent(&self) -> Option<Self> {
        match self {
            Self::Disk(path) => path.parent().map(|parent| Self::Disk(parent.to_owned())),
            Self::Memory(memory, path) => {
                path.rsplit_once('/').map(|(parent, _)| Self::Memory(Rc::clone(memory), parent.to_owned()))
            }
        }
    }

    /// The error of a folder that is used as a file. Asked only then, since each question to the host costs.
    fn explain_folder(&self, error: io::Error) -> io::Error {
        if self.is_folder() { ErrorKind::IsADirectory.into() } else { error }
    }

    pub fn create_folder(&self) -> io::Result<()> {
        match self {
            Self::Disk(path) => fs::create_dir(path),
            Self::Memory(memory, path) => memory.borrow_mut().create_folder(path),
        }
    }

    /// Makes a folder, and those that it is in.
    pub fn create_folders(&self) -> io::Result<()> {
        let (memory, path) = match self {
            Self::Disk(path) => return fs::create_dir_all(path),
            Self::Memory(memory, path) => (memory, path),
        };
        let mut memory = memory.borrow_mut();
        let ends = path.match_indices('/').map(|(index, _)| index).chain([path.len()]);
        for folder in ends.map(|end| &path[..end]) {
            if !matches!(memory.entry(folder), Ok(Entry::Folder(_))) {
                memory.create_folder(folder)?;
            }
        }
        Ok(())
    }

    /// The names in a folder, in any order, of which `most` plus one are enough. Scripts have no text for a name that is
    /// not UTF-8, and the host leaves out such names too.
    pub fn names(&self, most: usize) -> io::Result<Vec<String>> {
        let path = match self {
            Self::Memory(memory, path) => return memory.borrow().names(path),
            Self::Disk(path) => path,
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            match entry {
                Ok(entry) => names.extend(entry.file_name().into_string()),
                // The entry vanished while its folder was read.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            if names.len() > most {
                break;
            }
        }
        Ok(names)
    }

    pub fn remove_file(&self) -> io::Result<()> {
        match self {
            Self::Disk(path) => fs::remove_file(path),
            Self::Memory(memory, path) => {
                memory.borrow().content(path)?;
                memory.borrow_mut().remove(path, false)
            }
        }
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self) -> io::Result<()> {
        match self {
            Self::Disk(path) => fs::remove_dir(path),
            Self::Memory(memory, path) => {
                let mut memory = memory.borrow_mut();
                memory.names(path)?;
                memory.remove(path, false)
            }
        }
    }

    /// Removes a folder with all that is in it.
    pub fn remove_folders(&self) -> io::Result<()> {
        match self {
            Self::Disk(path) => fs::remove_dir_all(path),
            Self::Memory(memory, path) => memory.borrow_mut().remove(path, true),
        }
    }

    pub fn copy_file(&self, to: &Self) -> io::Result<()> {
        let (Self::Disk(from), Self::Disk(to)) = (self, to) else {
            return to.write(self.read()?);
        };
        io::copy(&mut File::open(from)?, &mut File::create(to)?).map(drop)
    }

    /// Renames within the disk or within the memory. Between them `None` says that it is a copy.
    pub fn rename(&self, to: &Self) -> Option<io::Result<()>> {
        match (self, to) {
            (Self::Disk(from), Self::Disk(to)) => Some(fs::rename(from, to)),
            (Self::Memory(memory, from), Self::Memory(_, to)) => Some(memory.borrow_mut().rename(from, to)),
            _ => None,
        }
    }

    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        match self {
            Self::Disk(path) => OpenOptions::new().write(true).open(path)?.set_modified(time),
            Self::Memory(memory, path) => memory.borrow_mut().set_modified(path, time),
        }
    }
}
