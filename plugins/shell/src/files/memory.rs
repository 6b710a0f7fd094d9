//! Files of `/tmp`, in memory for the length of one call.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::ops::Bound;
use std::rc::Rc;
use std::time::SystemTime;

/// Maximum size of all files together. The memory of a call has to hold the rest of the script as well.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Charged for each entry besides its path, so that empty files are limited too.
const ENTRY_BYTES: usize = 256;

/// Entries by their paths below the root, such as `folder/file`. The root has no entry.
#[derive(Default)]
pub struct Memory {
    entries: BTreeMap<String, Entry>,
    used_bytes: Rc<Cell<usize>>,
}

#[derive(Clone)]
pub enum Entry {
    Folder(SystemTime),
    File(Rc<RefCell<Content>>),
}

/// The content of a file. Open handles keep it when its path is removed, as an inode.
pub struct Content {
    pub bytes: Vec<u8>,
    pub modified: SystemTime,
    used_bytes: Rc<Cell<usize>>,
}

impl Drop for Content {
    fn drop(&mut self) {
        self.used_bytes.set(self.used_bytes.get() - self.bytes.len());
    }
}

/// A handle that writes at its own position, or always at the end.
pub struct Handle {
    content: Rc<RefCell<Content>>,
    position: usize,
    appends: bool,
}

impl Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut content = self.content.borrow_mut();
        let start = if self.appends { content.bytes.len() } else { self.position };
        let end = start + bytes.len();
        if end > content.bytes.len() {
            charge(&content.used_bytes, end - content.bytes.len())?;
            content.bytes.resize(end, 0);
        }
        content.bytes[start..end].copy_from_slice(bytes);
        content.modified = SystemTime::now();
        self.position = end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn charge(used_bytes: &Cell<usize>, bytes: usize) -> io::Result<()> {
    let used = used_bytes.get() + bytes;
    if used > MAX_BYTES {
        return Err(io::Error::other(format!(
            "No space left on device: /tmp takes {} MiB in a call; use the workspace",
            MAX_BYTES >> 20
        )));
    }
    used_bytes.set(used);
    Ok(())
}

impl Memory {
    pub fn entry(&self, path: &str) -> io::Result<Entry> {
        if path.is_empty() {
            return Ok(Entry::Folder(SystemTime::UNIX_EPOCH));
        }
        match self.entries.get(path) {
            Some(entry) => Ok(entry.clone()),
            None => {
                self.parent_folder(path)?;
                Err(ErrorKind::NotFound.into())
            }
        }
    }

    /// Fails where the parent of a path is no folder.
    fn parent_folder(&self, path: &str) -> io::Result<()> {
        match path.rsplit_once('/').map(|(parent, _)| self.entry(parent)).transpose()? {
            None | Some(Entry::Folder(_)) => Ok(()),
            Some(Entry::File(_)) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn insert(&mut self, path: &str, entry: Entry) -> io::Result<()> {
        self.parent_folder(path)?;
        charge(&self.used_bytes, path.len() + ENTRY_BYTES)?;
        self.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    pub fn content(&self, path: &str) -> io::Result<Rc<RefCell<Content>>> {
        match self.entry(path)? {
            Entry::File(content) => Ok(content),
            Entry::Folder(_) => Err(ErrorKind::IsADirectory.into()),
        }
    }

    /// Opens a file to write, which is made if it is missing.
    pub fn open(&mut self, path: &str, appends: bool) -> io::Result<Handle> {
        let content = match self.content(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let used_bytes = Rc::clone(&self.used_bytes);
                let content = Content { bytes: Vec::new(), modified: SystemTime::now(), used_bytes };
                let content = Rc::new(RefCell::new(content));
                self.insert(path, Entry::File(Rc::clone(&content)))?;
                content
            }
            found => found?,
        };
        if !appends {
            let mut content = content.borrow_mut();
            self.used_bytes.set(self.used_bytes.get() - content.bytes.len());
            content.bytes = Vec::new();
            content.modified = SystemTime::now();
        }
        Ok(Handle { content, position: 0, appends })
    }

    pub fn create_folder(&mut self, path: &str) -> io::Result<()> {
        match self.entry(path) {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Err(_) => self.insert(path, Entry::Folder(SystemTime::now())),
        }
    }

    /// The paths of all that is below a folder.
    fn below(&self, folder: &str) -> impl Iterator<Item = &String> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let range = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let paths = self.entries.range::<str, _>(range).map(|(path, _)| path);
        paths.take_while(move |path| path.starts_with(&prefix))
    }

    /// The names in a folder.
    pub fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        if let Entry::File(_) = self.entry(folder)? {
            return Err(ErrorKind::NotADirectory.into());
        }
        let skipped = if folder.is_empty() { 0 } else { folder.len() + 1 };
        let names = self.below(folder).map(|path| &path[skipped..]);
        Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    /// Removes a file or a folder; with `is_deep`, also a folder that is not empty.
    pub fn remove(&mut self, path: &str, is_deep: bool) -> io::Result<()> {
        self.entry(path)?;
        let below: Vec<String> = self.below(path).cloned().collect();
        if !below.is_empty() && !is_deep {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        for path in below.iter().map(String::as_str).chain([path]) {
            if self.entries.remove(path).is_some() {
                self.used_bytes.set(self.used_bytes.get() - path.len() - ENTRY_BYTES);
            }
        }
        Ok(())
    }

    /// Renames a file or a folder with what is in it. An empty folder or a file at the target is replaced.
    pub fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.entry(from)?;
        self.parent_folder(to)?;
        if self.entry(to).is_ok() {
            self.remove(to, false)?;
        }
        let below: Vec<String> = self.below(from).cloned().collect();
        let moved = below.iter().map(String::as_str).chain([from]);
        // Longer paths may take more than is left, and all are moved or none.
        charge(&self.used_bytes, (1 + below.len()) * to.len().saturating_sub(from.len()))?;
        self.used_bytes.set(self.used_bytes.get() - (1 + below.len()) * from.len().saturating_sub(to.len()));
        for path in moved {
            if let Some(entry) = self.entries.remove(path) {
                self.entries.insert(format!("{to}{}", &path[from.len()..]), entry);
            }
        }
        Ok(())
    }

    pub fn set_modified(&mut self, path: &str, time: SystemTime) -> io::Result<()> {
        match self.entry(path)? {
            Entry::File(content) => content.borrow_mut().modified = time,
            Entry::Folder(_) => drop(self.entries.insert(path.to_owned(), Entry::Folder(time))),
        }
        Ok(())
    }
}
