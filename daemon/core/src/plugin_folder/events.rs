//! Changes of the folder, by inotify. They are read at each look, so no task waits for them.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Some hundred events with short names.
const BUFFER_BYTES: usize = 16 << 10;

/// A watch of one folder. Files are not watched, since a rename replaces them.
pub(super) struct FolderEvents {
    watch: OwnedFd,
    /// Files that were created or written to, and not closed or renamed since.
    unfinished: BTreeMap<OsString, Unfinished>,
    /// Whether the folder itself was removed, moved or unmounted.
    pub is_gone: bool,
}

/// The last event of a file that is not closed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unfinished {
    /// The name may be of a link, which is never closed.
    Created,
    Written,
}

impl FolderEvents {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let files = WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
        let names = WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO | WatchFlags::DELETE;
        let itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        inotify::add_watch(&watch, folder, files | names | itself)?;
        Ok(Self { watch, unfinished: BTreeMap::new(), is_gone: false })
    }

    /// Whether a program may still be writing the file, which has this size.
    pub(super) fn is_unfinished(&self, name: &OsStr, bytes: u64) -> bool {
        match self.unfinished.get(name) {
            Some(Unfinished::Written) => true,
            Some(Unfinished::Created) => bytes == 0,
            None => false,
        }
    }

    /// Reads the events that are there. Returns whether there were any.
    pub(super) fn catch_up(&mut self) -> io::Result<bool> {
        read_events(&self.watch, &mut self.unfinished, &mut self.is_gone)
    }
}

/// Reads all events. Returns whether there were any.
fn read_events(
    watch: &OwnedFd,
    unfinished: &mut BTreeMap<OsString, Unfinished>,
    is_gone: &mut bool,
) -> io::Result<bool> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
    let mut reader = Reader::new(watch, &mut buffer);
    let mut has_events = false;
    loop {
        let event = match reader.next() {
            Ok(event) => event,
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(has_events),
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        has_events = true;
        let events = event.events();
        let ends = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
        *is_gone |= events.intersects(ends);
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            // The end of a write may be among the lost events. Two looks at each file remain.
            unfinished.clear();
        }
        let Some(name) = event.file_name().map(CStr::to_bytes).map(OsStr::from_bytes) else { continue };
        if events.contains(ReadFlags::MODIFY) {
            unfinished.insert(name.to_owned(), Unfinished::Written);
        } else if events.contains(ReadFlags::CREATE) {
            unfinished.insert(name.to_owned(), Unfinished::Created);
        } else {
            unfinished.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;

    #[test]
    fn o1_a_file_is_unfinished_until_it_is_closed_or_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = FolderEvents::open(folder.path()).unwrap();
        let path = folder.path().join("a.wasm");
        let mut file = File::create(&path).unwrap();
        assert!(events.catch_up().unwrap());
        assert!(events.is_unfinished("a.wasm".as_ref(), 0));
        file.write_all(b"half").unwrap();
        assert!(events.catch_up().unwrap());
        assert!(events.is_unfinished("a.wasm".as_ref(), 4));
        drop(file);
        assert!(events.catch_up().unwrap());
        assert!(!events.is_unfinished("a.wasm".as_ref(), 4));
        fs::hard_link(&path, folder.path().join("link.wasm")).unwrap();
        assert!(events.catch_up().unwrap());
        assert!(!events.is_unfinished("link.wasm".as_ref(), 4));
        let file = File::options().append(true).open(&path).unwrap();
        (&file).write_all(b"more").unwrap();
        fs::rename(&path, folder.path().join("b.wasm")).unwrap();
        assert!(events.catch_up().unwrap());
        assert!(!events.is_unfinished("a.wasm".as_ref(), 8));
        assert!(!events.catch_up().unwrap() && !events.is_gone);
    }

    #[test]
    fn o1_a_folder_that_is_removed_is_told() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("plugins");
        fs::create_dir(&folder).unwrap();
        let mut events = FolderEvents::open(&folder).unwrap();
        fs::remove_dir(&folder).unwrap();
        assert!(events.catch_up().unwrap());
        assert!(events.is_gone);
        assert!(FolderEvents::open(&folder).is_err());
    }
}
