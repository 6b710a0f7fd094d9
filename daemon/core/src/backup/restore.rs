//! Restores an archive into an empty folder.
//!
//! Everything is written to the folder [`UNFINISHED_RESTORE`] in the data folder, compared with the manifest, synced, and then
//! moved up. A daemon does not start on a data folder with that folder in it, so a restore that was killed serves nothing.
//! A refused restore leaves the data folder as it was.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use tar::{Entry, EntryType};
use toolgate_audit::{is_sealed_by, seal_text};
use toolgate_state::keys;
use toolgate_state::store::{LOST_AND_FOUND, UNFINISHED_RESTORE, newest_migration};

use super::archive::DigestReader;
use super::error::BackupError;
use super::stage::key_files;
use super::{
    AUDIT, AUDIT_KEY, BackupHeader, CACHE, COMPONENTS, FOLDERS, FORMAT, FileDigest, HEADER, KEYS, MANIFEST,
    Manifest, OPERATOR_TOKEN, SEAL, STORE, SealedManifest,
};

/// Size limit of the first and the last entry.
const DOCUMENT_BYTES: u64 = 1 << 30;

type Compressed = GzDecoder<BufReader<File>>;

/// A restored data folder.
#[derive(Debug)]
pub struct Restored {
    /// The first entry of the archive.
    pub header: BackupHeader,
    /// The number of files.
    pub files: usize,
    /// Sequence of the last record of the audit log.
    pub records: u64,
}

/// Restores `file` into the folder `data`, which is empty or does not exist. `keys` is a folder of keys, for a backup
/// without them; with it, a backup with keys must be sealed by them, too.
pub fn restore(file: &Path, data: &Path, keys: Option<&Path>) -> Result<Restored, BackupError> {
    // The header is read alone first, so that most refusals come before anything is written.
    let header = Archive { file }.header()?;
    if !header.with_keys && keys.is_none() {
        return Err(BackupError::NoKeys);
    }
    let target = Target::open(data)?;
    let restored = fill(file, &target, keys, header);
    match restored {
        Ok(restored) => {
            target.complete()?;
            Ok(restored)
        }
        Err(error) => {
            target.give_up();
            Err(error)
        }
    }
}

/// Extracts and verifies the archive.
fn fill(
    file: &Path,
    target: &Target,
    keys: Option<&Path>,
    header: BackupHeader,
) -> Result<Restored, BackupError> {
    let (sealed, found) = Archive { file }.extract(Some(&target.unfinished))?;
    let manifest = compare(file, &sealed, &found)?;
    if let (false, Some(keys)) = (header.with_keys, keys) {
        copy_keys(keys, &target.unfinished.join(KEYS))?;
    }
    let other_keys = || BackupError::OtherKeys(keys.unwrap_or(Path::new(KEYS)).to_path_buf());
    // Keys in the archive prove nothing to an operator who has those of his daemon: a changed archive may have other keys
    // in it.
    let key_file = keys.map_or_else(|| target.unfinished.join(KEYS), Path::to_path_buf).join(AUDIT_KEY);
    if !key_file.is_file() {
        return Err(other_keys());
    }
    let key = keys::read_or_generate(&key_file)?;
    if !is_sealed_by(&target.unfinished.join(AUDIT), &key)? {
        return Err(other_keys());
    }
    if seal_text(&key, SEAL, sealed.manifest.as_bytes()) != sealed.seal {
        return Err(change_error(file, "its manifest does not have the seal of the daemon".to_owned()));
    }
    Ok(Restored { header, files: found.len(), records: manifest.head.sequence })
}

/// Reads an archive to its end and compares it with its manifest, without its keys and without writing anything.
pub fn inspect(file: &Path) -> Result<Restored, BackupError> {
    let archive = Archive { file };
    let header = archive.header()?;
    let (sealed, found) = archive.extract(None)?;
    let manifest = compare(file, &sealed, &found)?;
    Ok(Restored { header, files: found.len(), records: manifest.head.sequence })
}

/// Compares the entries with the manifest, and returns it.
fn compare(
    file: &Path,
    sealed: &SealedManifest,
    found: &BTreeMap<String, FileDigest>,
) -> Result<Manifest, BackupError> {
    let manifest: Manifest = serde_json::from_str(&sealed.manifest)
        .map_err(|error| change_error(file, format!("its manifest cannot be read: {error}")))?;
    if let Some(name) = manifest.files.keys().find(|name| !found.contains_key(*name)) {
        return Err(change_error(file, format!("`{name}` is missing")));
    }
    for (name, digest) in found {
        if manifest.files.get(name) != Some(digest) {
            return Err(change_error(file, format!("`{name}` is not what was saved")));
        }
    }
    Ok(manifest)
}

fn copy_keys(from: &Path, to: &Path) -> Result<(), BackupError> {
    create_folder(to)?;
    for (name, path) in key_files(from)? {
        let mut content = File::open(&path).map_err(BackupError::io("read", &path))?;
        write_file(&to.join(name), &mut content)?;
    }
    Ok(())
}

/// The archive of a backup.
struct Archive<'a> {
    file: &'a Path,
}

impl Archive<'_> {
    /// Reads the first entry, and checks that this version can restore the archive.
    fn header(&self) -> Result<BackupHeader, BackupError> {
        let header = self.read_header().map_err(|error| match error {
            // Nothing tells yet that it was a backup once.
            BackupError::Changed { what, .. } => self.foreign(what),
            error => error,
        })?;
        if header.format > FORMAT || header.schema > newest_migration() {
            return Err(BackupError::Newer { file: self.file.to_path_buf(), version: header.version });
        }
        Ok(header)
    }

    fn read_header(&self) -> Result<BackupHeader, BackupError> {
        let mut archive = self.open()?;
        let mut entries = archive.entries().map_err(|error| self.unreadable(&error))?;
        let first = entries.next().ok_or_else(|| self.foreign("it is empty"))?;
        let mut first = first.map_err(|error| self.unreadable(&error))?;
        if first.path_bytes().as_ref() != HEADER.as_bytes() {
            return Err(self.foreign(format!("it does not begin with `{HEADER}`")));
        }
        let text = self.text(&mut first)?;
        serde_json::from_slice(&text).map_err(|error| self.foreign(error.to_string()))
    }

    /// Writes the entries into `folder`, if any. Returns the manifest, and the digests of all other files.
    fn extract(
        &self,
        folder: Option<&Path>,
    ) -> Result<(SealedManifest, BTreeMap<String, FileDigest>), BackupError> {
        let mut archive = self.open()?;
        let (mut manifest, mut found) = (None, BTreeMap::new());
        for entry in archive.entries().map_err(|error| self.unreadable(&error))? {
            let mut entry = entry.map_err(|error| self.unreadable(&error))?;
            let name = self.name_of(&entry)?;
            if manifest.is_some() {
                return Err(change_error(self.file, format!("`{name}` stands behind the manifest")));
            }
            match (entry.header().entry_type(), name.as_str()) {
                (EntryType::Regular, MANIFEST) => {
                    let text = self.text(&mut entry)?;
                    manifest = Some(serde_json::from_slice(&text).map_err(|error| {
                        change_error(self.file, format!("its manifest cannot be read: {error}"))
                    })?);
                }
                (EntryType::Regular, _) => {
                    let digest = self.extract_file(&name, &mut entry, folder)?;
                    if found.insert(name.clone(), digest).is_some() {
                        return Err(change_error(self.file, format!("`{name}` is there twice")));
                    }
                }
                (EntryType::Directory, _) => {
                    folder.map_or(Ok(()), |folder| create_folder(&folder.join(&name)))?;
                }
                _ => return Err(change_error(self.file, format!("`{name}` is no file"))),
            }
        }
        // The checksum of the compressed data is behind its end.
        io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| self.unreadable(&error))?;
        match manifest {
            Some(manifest) => Ok((manifest, found)),
            None => Err(self.truncation("its manifest is missing")),
        }
    }

    fn extract_file(
        &self,
        name: &str,
        entry: &mut Entry<'_, Compressed>,
        folder: Option<&Path>,
    ) -> Result<FileDigest, BackupError> {
        let size = entry.size();
        let mut content = DigestReader::new(entry);
        if let Some(folder) = folder.filter(|_| name != HEADER) {
            let path = folder.join(name);
            path.parent().map_or(Ok(()), create_folder)?;
            write_file(&path, &mut content).map_err(|error| match error {
                // The disk fails while it is written to, the archive while it is read.
                BackupError::Io { source, .. } if is_damage(&source) => self.unreadable(&source),
                error => error,
            })?;
        } else {
            io::copy(&mut content, &mut io::sink()).map_err(|error| self.unreadable(&error))?;
        }
        let digest = content.finish();
        if digest.bytes == size { Ok(digest) } else { Err(self.truncation("it ends inside of a file")) }
    }

    /// The name of an entry: one of those that a backup has.
    fn name_of(&self, entry: &Entry<'_, Compressed>) -> Result<String, BackupError> {
        let bytes = entry.path_bytes();
        let name = String::from_utf8_lossy(&bytes).trim_end_matches('/').to_owned();
        let path = Path::new(&name);
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        let top = name.split('/').next().unwrap_or_default();
        let is_file = [HEADER, MANIFEST, STORE, OPERATOR_TOKEN].contains(&name.as_str());
        let is_inside = [COMPONENTS, AUDIT, KEYS, CACHE].contains(&top) || FOLDERS.contains(&top);
        if is_plain && !name.contains('\0') && (is_file || is_inside) {
            return Ok(name);
        }
        let shown = toolgate_api::text::escape_for_display(&name, 80);
        Err(change_error(self.file, format!("`{shown}` is no file of a backup")))
    }

    fn text(&self, entry: &mut Entry<'_, Compressed>) -> Result<Vec<u8>, BackupError> {
        let mut text = Vec::new();
        entry.take(DOCUMENT_BYTES).read_to_end(&mut text).map_err(|error| self.unreadable(&error))?;
        Ok(text)
    }

    fn open(&self) -> Result<tar::Archive<Compressed>, BackupError> {
        let opened = File::open(self.file).map_err(BackupError::io("read", self.file))?;
        Ok(tar::Archive::new(GzDecoder::new(BufReader::new(opened))))
    }

    /// The error for an archive that cannot be read to its end.
    fn unreadable(&self, error: &io::Error) -> BackupError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.truncation("it ends too early"),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::Other => {
                change_error(self.file, error.to_string())
            }
            _ => BackupError::Io {
                what: "read",
                path: self.file.to_path_buf(),
                source: io::Error::new(error.kind(), error.to_string()),
            },
        }
    }

    fn foreign(&self, what: impl Into<String>) -> BackupError {
        BackupError::Foreign { file: self.file.to_path_buf(), what: what.into() }
    }

    fn truncation(&self, what: &str) -> BackupError {
        BackupError::Truncated { file: self.file.to_path_buf(), what: what.to_owned() }
    }
}

/// The folder that a restore writes to.
struct Target {
    data: PathBuf,
    unfinished: PathBuf,
    /// Keeps another restore out.
    _lock: File,
    /// The data folder did not exist before.
    is_new: bool,
}

impl Target {
    /// Opens a data folder that is empty, or has only what a killed restore left.
    fn open(data: &Path) -> Result<Self, BackupError> {
        let is_new = !data.exists();
        create_folder(data)?;
        let unfinished = data.join(UNFINISHED_RESTORE);
        for entry in fs::read_dir(data).map_err(BackupError::io("read", data))? {
            let name = entry.map_err(BackupError::io("read", data))?.file_name();
            if name != UNFINISHED_RESTORE && name != LOST_AND_FOUND {
                return Err(BackupError::NotEmpty(data.to_path_buf()));
            }
        }
        create_folder(&unfinished)?;
        let lock = File::open(&unfinished).map_err(BackupError::io("open", &unfinished))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BackupError::RestoreRuns(data.to_path_buf())),
            Err(TryLockError::Error(error)) => return Err(BackupError::io("lock", &unfinished)(error)),
        }
        let target = Self { data: data.to_path_buf(), unfinished, _lock: lock, is_new };
        target.clear().map_err(BackupError::io("empty", &target.unfinished))?;
        Ok(target)
    }

    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.unfinished)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }

    /// Moves everything up. From the removal of the folder on, a daemon starts.
    fn complete(&self) -> Result<(), BackupError> {
        let moved = || {
            // A daemon does not start on a folder with files that other users can read.
            fs::set_permissions(&self.data, Permissions::from_mode(0o700))?;
            sync_folders(&self.unfinished)?;
            // Read whole before the folder changes.
            let entries: Vec<_> = fs::read_dir(&self.unfinished)?.collect::<io::Result<_>>()?;
            for entry in entries {
                fs::rename(entry.path(), self.data.join(entry.file_name()))?;
            }
            File::open(&self.data)?.sync_all()?;
            fs::remove_dir(&self.unfinished)?;
            File::open(&self.data)?.sync_all()
        };
        moved().map_err(BackupError::io("complete", &self.data))
    }

    /// Leaves the data folder as it was.
    fn give_up(&self) {
        let _ = fs::remove_dir_all(&self.unfinished);
        if self.is_new {
            let _ = fs::remove_dir(&self.data);
        }
    }
}

fn create_folder(path: &Path) -> Result<(), BackupError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(BackupError::io("create", path))
}

/// Writes a new file, and syncs it.
fn write_file(path: &Path, content: &mut impl Read) -> Result<(), BackupError> {
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).and_then(|mut file| {
            io::copy(content, &mut file)?;
            file.flush()?;
            file.sync_all()
        });
    written.map_err(BackupError::io("write", path))
}

/// Syncs a folder and those in it, so that their files are found after a power failure.
fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Whether an archive that cannot be read has this error.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

fn change_error(file: &Path, what: String) -> BackupError {
    BackupError::Changed { file: file.to_path_buf(), what }
}
