//! Opens and reads data in the page cache in the guest's thread.
//!
//! A switch to the pool and back costs ten times the system call, and a search makes thousands of them.
//! `RESOLVE_CACHED` and `RWF_NOWAIT` keep the kernel from waiting for a disk. If it would have to wait, if it lacks
//! these flags, or if the path or file is not a plain one, the result is `None`, and [`super::tree`] does the work in
//! the pool and reports errors.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::AsFd;
use std::sync::Arc;

use cap_std::fs::Dir;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::io::{ReadWriteFlags, preadv2};

use super::Lock;
use super::ledger::{FileId, Ledger};
use super::operations::Opened;
use super::path::RelativePath;
use super::tree::HeldFile;

/// Maximum bytes copied in the guest's thread: the copy cannot be interrupted.
const CACHED_READ_BYTES_MAX: usize = 64 * 1024;

/// Opens a plain file or directory for reading. Its type is checked after opening: opening any other type does not
/// block (`O_NONBLOCK`), and only root could have placed a device whose opening has an effect.
pub(crate) fn open(
    _lock: &Lock,
    base: impl AsFd,
    path: &RelativePath,
    ledger: &Arc<Ledger>,
) -> Option<Opened> {
    let opened = openat2(&base, path.join()?, FLAGS, Mode::empty(), RESOLVE).ok()?;
    let seen = fstat(&opened).ok()?;
    let file = File::from(opened);
    match FileType::from_raw_mode(seen.st_mode) {
        FileType::Directory => Some(Opened::Directory(Dir::from_std_file(file))),
        FileType::RegularFile if !path.wants_directory && seen.st_nlink == 1 => {
            Some(Opened::File(HeldFile { file: Arc::new(file), holder: ledger.hold(id_of(&seen)) }))
        }
        _ => None,
    }
}

/// Reads `bytes` bytes, or up to the end of the file.
pub(crate) fn read(file: &File, bytes: u64, offset: u64) -> Option<Vec<u8>> {
    let length = u64::try_from(fstat(file).ok()?.st_size).ok()?;
    let bytes = usize::try_from(bytes.min(length.saturating_sub(offset))).ok()?;
    if bytes > CACHED_READ_BYTES_MAX {
        return None;
    }
    let mut bytes_read = vec![0; bytes];
    if bytes_read.is_empty() {
        return Some(bytes_read);
    }
    let read = preadv2(file, &mut [IoSliceMut::new(&mut bytes_read)], offset, ReadWriteFlags::NOWAIT).ok()?;
    // A short read means that the rest is not in memory; a guest could take it for the end of the file.
    (read == bytes_read.len()).then_some(bytes_read)
}

const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::CACHED);

fn id_of(stat: &Stat) -> FileId {
    FileId { device: stat.st_dev, inode: stat.st_ino }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    use cap_std::ambient_authority;
    use tempfile::TempDir;

    struct Scene {
        folder: TempDir,
        top: Dir,
        lock: Lock,
        ledger: Arc<Ledger>,
    }

    impl Scene {
        async fn new() -> Self {
            let folder = TempDir::new().unwrap();
            fs::create_dir_all(folder.path().join("a/b")).unwrap();
            fs::write(folder.path().join("a/b/file"), "content").unwrap();
            let top = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
            let lock = Lock(Arc::new(tokio::sync::Mutex::new(())).lock_owned().await);
            Self { folder, top, lock, ledger: Arc::new(Ledger::unbounded()) }
        }

        fn open(&self, path: &str) -> Option<Opened> {
            open(&self.lock, &self.top, &RelativePath::from_guest(path).unwrap(), &self.ledger)
        }

        fn at(&self, path: &str) -> std::path::PathBuf {
            self.folder.path().join(path)
        }
    }

    /// `openat2` supports this since Linux 5.12; on older kernels all reads go through the pool, and nothing is
    /// tested.
    fn is_here(scene: &Scene) -> bool {
        let here = scene.open("a/b/file").is_some();
        if !here {
            eprintln!("this kernel does not open from memory: not tested");
        }
        here
    }

    #[tokio::test]
    async fn b4_only_plain_files_and_folders_on_plain_paths_are_opened() {
        let scene = Scene::new().await;
        if !is_here(&scene) {
            return;
        }
        symlink("file", scene.at("a/b/link")).unwrap();
        symlink("b", scene.at("a/way")).unwrap();
        symlink("/", scene.at("a/out")).unwrap();
        fs::write(scene.at("a/first"), "").unwrap();
        fs::hard_link(scene.at("a/first"), scene.at("a/second")).unwrap();
        rustix::fs::mknodat(&scene.top, "a/pipe", FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        drop(std::os::unix::net::UnixListener::bind(scene.at("a/socket")).unwrap());
        assert!(matches!(scene.open("a/b/file"), Some(Opened::File(_))));
        assert!(matches!(scene.open("a/b/"), Some(Opened::Directory(_))));
        for path in [
            "a/b/file/",
            "a/b/link",
            "a/way/file",
            "a/out/etc",
            "a/first",
            "a/second",
            "a/pipe",
            "a/socket",
            "a/none",
        ] {
            assert!(scene.open(path).is_none(), "{path}");
        }
    }

    #[tokio::test]
    async fn b4_what_is_opened_stays_counted_until_it_is_closed() {
        let scene = Scene::new().await;
        if !is_here(&scene) {
            return;
        }
        let Some(Opened::File(held)) = scene.open("a/b/file") else { panic!("not a file") };
        let id = id_of(&fstat(&held.file).unwrap());
        assert!(scene.ledger.is_held(id));
        drop(held);
        assert!(!scene.ledger.is_held(id));
    }

    #[test]
    fn a_piece_is_whole_or_nothing() {
        let file = TempDir::new().unwrap();
        let path = file.path().join("file");
        fs::write(&path, "0123456789").unwrap();
        let file = File::open(path).unwrap();
        let Some(bytes_read) = read(&file, 4, 3) else {
            return eprintln!("this file system does not read from memory: not tested");
        };
        assert_eq!(bytes_read, b"3456");
        assert_eq!(read(&file, 64, 8).unwrap(), b"89");
        assert_eq!(read(&file, 64, 10).unwrap(), b"");
        assert_eq!(read(&file, 64, u64::MAX).unwrap(), b"");
    }
}
