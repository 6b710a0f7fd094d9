//! Takes a backup: collects what is consistent in a folder of the data folder, then writes the archive.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::geteuid;
use toolgate_audit::{LogCopy, RestoredFrom, seal_text, stage_log};
use toolgate_macros::boxed;
use toolgate_state::clock::now_ms;
use toolgate_state::identifier;
use toolgate_state::keys;
use toolgate_state::store::copy_store;

use super::archive::Archive;
use super::error::BackupError;
use super::{
    AUDIT, AUDIT_KEY, BackupHeader, CACHE, CACHE_KEY, COMPONENTS, FOLDERS, FORMAT, FORMAT_WITHOUT_CACHE,
    HEADER, KEYS, MANIFEST, Manifest, OPERATOR_TOKEN, SEAL, STORE, SealedManifest,
};
use crate::version::BuildInfo;

/// The folder of the data folder that backups are collected in. It stays, with its lock.
const STAGING: &str = "backup";
/// The file that the last backup wrote.
const LAST: &str = "last";
/// The mode of the lock.
const LOCK: Mode = Mode::RUSR.union(Mode::WUSR);

/// The source of a backup.
#[derive(Clone, Debug)]
pub struct BackupSource {
    /// The data folder.
    pub data: PathBuf,
    /// The file of the store.
    pub store: PathBuf,
    /// Whether the backup has the keys.
    pub with_keys: bool,
    /// Whether it has the compiled code and its key.
    pub with_cache: bool,
}

/// A backup that was taken and is not written yet. Dropping it removes what was collected.
pub struct Backup {
    source: BackupSource,
    header: BackupHeader,
    key: [u8; keys::KEY_BYTES],
    components: Vec<(String, PathBuf)>,
    log: LogCopy,
    staging: Staging,
}

/// The folder in which a backup is collected. The lock keeps other backups out, also those of another process.
struct Staging {
    folder: PathBuf,
    _lock: File,
}

#[boxed]
impl Backup {
    /// Collects what the backup has to be consistent in. The daemon of the data folder may run.
    pub async fn take(source: BackupSource) -> Result<Self, BackupError> {
        let key_file = source.data.join(KEYS).join(AUDIT_KEY);
        if !key_file.is_file() || !source.store.is_file() {
            return Err(BackupError::NotData(source.data));
        }
        let key = keys::read_or_generate(&key_file)?;
        let staging = Staging::open(&source.data)?;
        let (backup, made_at_ms) = (identifier::time_ordered("b", now_ms()), now_ms());
        let mut components = link_components(&source.data, &staging)?;
        let schema = copy_store(&source.store, &staging.folder.join(STORE)).await?;
        for component in link_components(&source.data, &staging)? {
            if !components.contains(&component) {
                components.push(component);
            }
        }
        let id = backup.clone();
        let restored = move |head| RestoredFrom {
            backup: id,
            made_at_ms,
            version: BuildInfo::current().version.to_owned(),
            head,
        };
        let (log, log_folder) = (source.data.join(AUDIT), staging.create(AUDIT)?);
        // Off the threads of calls: a long log has many segments.
        let staging_log = tokio::task::spawn_blocking(move || stage_log(&log, &key, &log_folder, restored));
        let log = staging_log.await.map_err(|error| BackupError::Write(io::Error::other(error)))??;
        let header = BackupHeader {
            format: if source.with_cache { FORMAT } else { FORMAT_WITHOUT_CACHE },
            backup,
            made_at_ms,
            version: BuildInfo::current().version.to_owned(),
            schema,
            with_keys: source.with_keys,
        };
        Ok(Self { source, header, key, components, log, staging })
    }

    /// The first entry of the archive.
    pub fn header(&self) -> &BackupHeader {
        &self.header
    }

    /// Writes the archive. Blocks. Returns its destination, and the number of files.
    pub fn write<W: Write>(self, out: W) -> Result<(W, usize), BackupError> {
        let mut archive = Archive::new(out, self.header.made_at_ms / 1000);
        let header = serde_json::to_vec(&self.header).map_err(json_error)?;
        archive.add_text(HEADER, &header).map_err(BackupError::Write)?;
        self.write_content(&mut archive)?;
        if self.source.with_keys {
            self.write_keys(&mut archive)?;
        }
        if self.source.with_cache {
            self.write_folder(&mut archive, CACHE, &self.source.data.join(CACHE))?;
            add_whole(
                &mut archive,
                &format!("{KEYS}/{CACHE_KEY}"),
                &self.source.data.join(KEYS).join(CACHE_KEY),
            )?;
        }
        let manifest = Manifest {
            backup: self.header.backup.clone(),
            head: self.log.head,
            files: archive.files().clone(),
        };
        let manifest = serde_json::to_string(&manifest).map_err(json_error)?;
        let seal = seal_text(&self.key, SEAL, manifest.as_bytes());
        let sealed = serde_json::to_vec(&SealedManifest { manifest, seal }).map_err(json_error)?;
        archive.add_text(MANIFEST, &sealed).map_err(BackupError::Write)?;
        let files = archive.files().len();
        let finished = archive.finish().map_err(BackupError::Write)?;
        // Its time is that of the last backup, for metrics. The backup is complete without it.
        drop(File::create(self.staging.folder.join(LAST)));
        Ok((finished, files))
    }

    fn write_content<W: Write>(&self, archive: &mut Archive<W>) -> Result<(), BackupError> {
        let store = self.staging.folder.join(STORE);
        add_whole(archive, STORE, &store)?;
        for (name, path) in &self.components {
            add_whole(archive, &format!("{COMPONENTS}/{name}"), path)?;
        }
        for folder in FOLDERS {
            self.write_folder(archive, folder, &self.source.data.join(folder))?;
        }
        for segment in &self.log.segments {
            let name = format!("{AUDIT}/{}", segment.name);
            let added = archive.add_file(&name, &segment.path, segment.bytes);
            added.map_err(BackupError::io("copy", &segment.path))?;
        }
        for (name, text) in &self.log.files {
            archive.add_text(&format!("{AUDIT}/{name}"), text).map_err(BackupError::Write)?;
        }
        Ok(())
    }

    /// Adds the files of a folder. Calls may write to them meanwhile: a file that is gone is left out, and one that is written
    /// to at that moment may be half written in the backup.
    fn write_folder<W: Write>(
        &self,
        archive: &mut Archive<W>,
        name: &str,
        folder: &Path,
    ) -> Result<(), BackupError> {
        let Some(entries) = if_there(fs::read_dir(folder)).map_err(BackupError::io("read", folder))? else {
            return Ok(());
        };
        archive.add_folder(name).map_err(BackupError::Write)?;
        for entry in entries {
            let entry = entry.map_err(BackupError::io("read", folder))?;
            let (path, file_name) = (entry.path(), entry.file_name());
            // No call makes such a name, and a restore could not write it everywhere.
            let Some(file_name) = file_name.to_str() else { continue };
            let name = format!("{name}/{file_name}");
            match if_there(entry.file_type()).map_err(BackupError::io("read", &path))? {
                Some(kind) if kind.is_dir() => self.write_folder(archive, &name, &path)?,
                Some(kind) if kind.is_file() => self.write_changing(archive, &name, &path)?,
                // A link is none of a call's, and would lead out of the folder.
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds a file that may change meanwhile: a copy of it, whose size is then known.
    fn write_changing<W: Write>(
        &self,
        archive: &mut Archive<W>,
        name: &str,
        path: &Path,
    ) -> Result<(), BackupError> {
        let copy = self.staging.folder.join("file");
        let copied = if_there(fs::copy(path, &copy)).map_err(BackupError::io("copy", path))?;
        match copied {
            Some(_) => add_whole(archive, name, &copy),
            None => Ok(()),
        }
    }

    fn write_keys<W: Write>(&self, archive: &mut Archive<W>) -> Result<(), BackupError> {
        for (name, path) in key_files(&self.source.data.join(KEYS))? {
            add_whole(archive, &format!("{KEYS}/{name}"), &path)?;
        }
        let token = self.source.data.join(OPERATOR_TOKEN);
        if token.is_file() { add_whole(archive, OPERATOR_TOKEN, &token) } else { Ok(()) }
    }
}

impl Staging {
    fn open(data: &Path) -> Result<Self, BackupError> {
        let folder = data.join(STAGING);
        let made = match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            made => Ok(made.is_ok()),
        };
        let is_made = made.map_err(BackupError::io("create", &folder))?;
        let opened = open_folder(&folder).map_err(BackupError::io("open", &folder))?;
        let path = folder.join("lock");
        let (lock, is_lock_made) = open_lock(&opened).map_err(BackupError::io("open", &path))?;
        // Both stay, and a daemon of another user could not open those of an administrator.
        for file in [is_made.then_some(&opened), is_lock_made.then_some(&lock)].into_iter().flatten() {
            give_to_owner(data, file);
        }
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BackupError::Busy),
            Err(TryLockError::Error(error)) => return Err(BackupError::io("lock", &path)(error)),
        }
        let staging = Self { folder, _lock: lock };
        // A killed backup leaves files.
        staging.clear().map_err(BackupError::io("empty", &staging.folder))?;
        Ok(staging)
    }

    fn create(&self, name: &str) -> Result<PathBuf, BackupError> {
        let folder = self.folder.join(name);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(BackupError::io("create", &folder))?;
        Ok(folder)
    }

    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false if entry.file_name() == "lock" || entry.file_name() == LAST => {}
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            tracing::warn!(%error, "the files of a backup stay until the next one");
        }
    }
}

/// Opens the staging folder. Root follows no link: another user may have made it, to a folder of which he may remove nothing.
fn open_folder(folder: &Path) -> io::Result<File> {
    let follow = if geteuid().is_root() { OFlags::NOFOLLOW } else { OFlags::empty() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | follow;
    Ok(openat(CWD, folder, flags, Mode::empty())?.into())
}

/// Opens the lock of the staging folder. Returns whether it was made: one that was there may be a link to any file.
fn open_lock(folder: &File) -> io::Result<(File, bool)> {
    let open =
        |flags| openat(folder, "lock", OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | flags, LOCK);
    match open(OFlags::CREATE | OFlags::EXCL) {
        Ok(lock) => Ok((lock.into(), true)),
        Err(Errno::EXIST) => Ok((open(OFlags::empty())?.into(), false)),
        Err(error) => Err(error.into()),
    }
}

/// Gives a file that root made to the owner of the data folder. Without the right to do it, it stays as it is.
fn give_to_owner(data: &Path, made: &File) {
    if geteuid().is_root()
        && let Ok(owner) = data.metadata()
    {
        drop(fchown(made, Some(owner.uid()), Some(owner.gid())));
    }
}

/// When the last backup of a data folder was taken, in seconds since 1970.
pub fn last_taken(data: &Path) -> Option<u64> {
    let written = data.join(STAGING).join(LAST).metadata().and_then(|file| file.modified()).ok()?;
    written.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Removes what a killed backup left in a data folder: it may hold what an organization has deleted since.
pub fn remove_leftovers(data: &Path) {
    if data.join(STAGING).is_dir()
        && let Err(error) = Staging::open(data)
        && !matches!(error, BackupError::Busy)
    {
        tracing::warn!(%error, "the files of a backup that did not end stay");
    }
}

/// Links the plugin files, so that none is removed before it is read. Without links they are read in place.
fn link_components(data: &Path, staging: &Staging) -> Result<Vec<(String, PathBuf)>, BackupError> {
    let (source, folder) = (data.join(COMPONENTS), staging.create(COMPONENTS)?);
    let Some(entries) = if_there(fs::read_dir(&source)).map_err(BackupError::io("read", &source))? else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(BackupError::io("read", &source))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Others are uploads that have not ended.
        if !name.ends_with(".wasm") || name.starts_with('.') {
            continue;
        }
        let link = folder.join(&name);
        match fs::hard_link(entry.path(), &link) {
            Ok(()) => files.push((name, link)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => files.push((name, link)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => files.push((name, entry.path())),
        }
    }
    Ok(files)
}

/// The files of a folder of keys, by name.
pub(super) fn key_files(folder: &Path) -> Result<Vec<(String, PathBuf)>, BackupError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(BackupError::io("read", folder))? {
        let entry = entry.map_err(BackupError::io("read", folder))?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_kept = name != CACHE_KEY && !keys::is_draft(&entry.file_name());
        if path.is_file() && is_kept {
            files.push((name, path));
        }
    }
    files.sort();
    Ok(files)
}

fn add_whole<W: Write>(archive: &mut Archive<W>, name: &str, path: &Path) -> Result<(), BackupError> {
    let added = path.metadata().and_then(|file| archive.add_file(name, path, file.len()));
    added.map_err(BackupError::io("copy", path))
}

/// `None` where there is no such file.
fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

fn json_error(error: serde_json::Error) -> BackupError {
    BackupError::Write(error.into())
}
