//! Looks at the folder, and reads its files. Everything here blocks.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::OFlags;
use toolgate_api::name::Namespace;

const SUFFIX: &str = ".wasm";
const SIGNATURE_SUFFIX: &str = ".wasm.sig";

/// Files that are looked at. More than any daemon can serve; each costs a `stat` at each look.
pub(super) const FILES_MAX: usize = 4_096;

/// Names of files that no plugin can have that a look keeps, for the log.
const MISNAMED_MAX: usize = 20;

/// The largest signature, far more than an envelope with some signatures has.
const SIGNATURE_BYTES: u64 = 64 << 10;

/// The plugin files of one look, with what is left out.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Device and inode of the folder: another one if a volume was mounted or unmounted there.
    pub place: (u64, u64),
    pub files: BTreeMap<Namespace, Stamp>,
    /// Names of files that no plugin can have, at most [`MISNAMED_MAX`].
    pub misnamed: Vec<String>,
    /// Whether there are more than [`FILES_MAX`] files.
    pub is_cut: bool,
}

/// Tells an empty folder from one whose volume is mounted late, or was unmounted. No event tells of each of these.
#[derive(Debug, Default)]
pub(super) struct Presence {
    place: (u64, u64),
    has_files: bool,
}

impl Presence {
    /// Takes a look. Returns whether one has found a plugin file since the folder was opened, so that a file that is not there
    /// was removed.
    pub(super) fn note(&mut self, look: &Look) -> bool {
        self.has_files &= self.place == look.place;
        self.place = look.place;
        self.has_files |= !look.files.is_empty();
        self.has_files
    }

    /// Begins anew: the folder is another one.
    pub(super) fn forget(&mut self) {
        self.has_files = false;
    }
}

/// A version of a file and its signature: another one has another stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    component: FileStamp,
    signature: Option<FileStamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// A plugin file that was read whole.
#[derive(Debug)]
pub(super) struct ReadFile {
    pub component: Bytes,
    pub signature: Option<Bytes>,
}

impl Stamp {
    /// The names and sizes of the files of a plugin.
    pub(super) fn files(&self, namespace: &Namespace) -> impl Iterator<Item = (String, u64)> {
        let signature = self.signature.as_ref().map(|file| (signature_name(namespace), file.bytes));
        [(component_name(namespace), self.component.bytes)].into_iter().chain(signature)
    }
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

fn component_name(namespace: &Namespace) -> String {
    format!("{namespace}{SUFFIX}")
}

fn signature_name(namespace: &Namespace) -> String {
    format!("{namespace}{SIGNATURE_SUFFIX}")
}

/// Looks at all files of the folder. Hidden files are left out: tools write temporary ones. Fails if one of the files cannot be
/// looked at, since it may be there.
pub(super) fn look(folder: &Path) -> io::Result<Look> {
    let opened = fs::metadata(folder)?;
    let (mut look, mut count) = (Look { place: (opened.dev(), opened.ino()), ..Look::default() }, 0);
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)) else { continue };
        if stem.starts_with('.') {
            continue;
        }
        if count == FILES_MAX {
            look.is_cut = true;
            break;
        }
        count += 1;
        let Ok(namespace) = Namespace::parse(stem) else {
            if look.misnamed.len() < MISNAMED_MAX {
                look.misnamed.push(format!("{stem}{SUFFIX}"));
            }
            continue;
        };
        if let Some(stamp) = stamp(folder, &namespace)? {
            look.files.insert(namespace, stamp);
        }
    }
    Ok(look)
}

/// The stamp of a file that is there. Links are followed: some deployment tools replace the target of a link.
fn stamp(folder: &Path, namespace: &Namespace) -> io::Result<Option<Stamp>> {
    let find = |name: String| match fs::metadata(folder.join(name)) {
        Ok(metadata) => Ok(metadata.is_file().then(|| FileStamp::of(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let Some(component) = find(component_name(namespace))? else { return Ok(None) };
    Ok(Some(Stamp { component, signature: find(signature_name(namespace))? }))
}

/// Reads a file with its signature. Returns none if it is no longer the one of the stamp.
pub(super) fn read(
    folder: &Path,
    namespace: &Namespace,
    expected: &Stamp,
    limit_bytes: u64,
) -> io::Result<Option<ReadFile>> {
    let component = read_file(folder.join(component_name(namespace)), limit_bytes)?;
    let signature = match &expected.signature {
        Some(_) => Some(read_file(folder.join(signature_name(namespace)), SIGNATURE_BYTES)?),
        None => None,
    };
    let is_same = stamp(folder, namespace)?.as_ref() == Some(expected);
    Ok(is_same.then_some(ReadFile { component, signature }))
}

fn read_file(path: PathBuf, limit_bytes: u64) -> io::Result<Bytes> {
    // A FIFO in the place of the file must not block.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut content = Vec::new();
    file.take(limit_bytes.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit_bytes {
        return Err(io::Error::other(format!("it is larger than {limit_bytes} bytes")));
    }
    Ok(content.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weather() -> Namespace {
        Namespace::parse("weather").unwrap()
    }

    #[test]
    fn o1_a_look_finds_plugin_files_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| fs::write(folder.path().join(name), "x").unwrap();
        for name in ["weather.wasm", "weather.wasm.sig", ".weather.wasm", "My Plugin.wasm", "notes.txt"] {
            write(name);
        }
        fs::create_dir(folder.path().join("folder.wasm")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("broken.wasm")).unwrap();
        let found = look(folder.path()).unwrap();
        assert_eq!(found.files.keys().collect::<Vec<_>>(), [&weather()]);
        assert_eq!(found.misnamed, ["My Plugin.wasm"]);
        assert!(look(&folder.path().join("nowhere")).is_err());
    }

    #[test]
    fn o1_an_empty_folder_in_the_place_of_another_removes_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("plugins");
        fs::create_dir(&folder).unwrap();
        let mut presence = Presence::default();
        assert!(!presence.note(&look(&folder).unwrap()), "it may be mounted late");
        fs::write(folder.join("weather.wasm"), "x").unwrap();
        assert!(presence.note(&look(&folder).unwrap()));
        fs::remove_file(folder.join("weather.wasm")).unwrap();
        assert!(presence.note(&look(&folder).unwrap()), "the file was removed");
        // As if the volume was unmounted.
        fs::rename(&folder, parent.path().join("volume")).unwrap();
        fs::create_dir(&folder).unwrap();
        assert!(!presence.note(&look(&folder).unwrap()));
        fs::write(folder.join("weather.wasm"), "x").unwrap();
        assert!(presence.note(&look(&folder).unwrap()));
        presence.forget();
        fs::remove_file(folder.join("weather.wasm")).unwrap();
        assert!(!presence.note(&look(&folder).unwrap()));
    }

    #[test]
    fn o1_a_file_that_cannot_be_looked_at_is_not_gone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("weather.wasm"), "x").unwrap();
        // A link to itself is an error for every user, also for root.
        let link = folder.path().join("weather.wasm.sig");
        std::os::unix::fs::symlink(&link, &link).unwrap();
        look(folder.path()).unwrap_err();
        fs::remove_file(&link).unwrap();
        assert_eq!(look(folder.path()).unwrap().files.len(), 1);
    }

    #[test]
    fn o1_misnamed_files_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let write = |number: usize| fs::write(folder.path().join(format!("A {number}.wasm")), "").unwrap();
        (0..FILES_MAX).for_each(write);
        let found = look(folder.path()).unwrap();
        assert_eq!((found.misnamed.len(), found.is_cut), (MISNAMED_MAX, false));
        write(FILES_MAX);
        assert!(look(folder.path()).unwrap().is_cut);
    }

    #[test]
    fn o1_a_file_is_read_only_as_it_was_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weather.wasm");
        fs::write(&path, "one").unwrap();
        let seen = look(folder.path()).unwrap().files.remove(&weather()).unwrap();
        let read = |limit| read(folder.path(), &weather(), &seen, limit);
        assert_eq!(read(3).unwrap().unwrap().component, "one");
        assert!(read(2).unwrap_err().to_string().contains("larger than 2 bytes"));
        fs::write(folder.path().join("weather.wasm.sig"), "signature").unwrap();
        assert!(read(3).unwrap().is_none(), "a signature was added");
        fs::write(&path, "other").unwrap();
        assert!(read(9).unwrap().is_none(), "the file was changed");
    }
}
