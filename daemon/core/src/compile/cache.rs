//! The cache of worker results on disk: `FOLDER/FINGERPRINT/DIGEST`, each file an HMAC-SHA-256 and its content, which is
//! the native code of a component or the hash of a description whose schemas compiled within their limits.
//!
//! A file that does not verify counts as a cache miss, so damage costs one compilation. Entries that a start did not use
//! (other engine versions, removed plugins, aborted loads) are deleted once they are a day old, so that a downgrade of the
//! daemon within a day still finds its code.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use ring::hmac;
use toolgate_admission::Digest;
use toolgate_state::keys::KEY_BYTES;
use toolgate_state::keys::entry_hint;

/// Length of the HMAC-SHA-256 tag before the content.
const TAG_BYTES: usize = 32;

/// How long an unused entry is kept: an upgrade that fails is rolled back within a day, and then starts as fast as before.
const UNUSED_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// Checked descriptions whose result is kept, of those since the start. Each has a file, and owners of tools can have ever new
/// ones checked that no tool then uses.
const CHECKS_KEPT: usize = 16_384;

/// Codes whose functions are kept, of those since the start. Each has up to a hundred megabytes.
const FUNCTIONS_KEPT: usize = 4;

/// The cache folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the cache of compiled code in `{path}` cannot be used: {source}")]
pub struct CacheError {
    path: PathBuf,
    source: io::Error,
}

impl CacheError {
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        entry_hint(&self.source)
    }
}

/// The cache of one engine fingerprint.
#[derive(Clone)]
pub(super) struct Cache {
    folder: Arc<Path>,
    fingerprint: Arc<str>,
    key: Arc<hmac::Key>,
    /// The files that were read or written since the cache was opened.
    used_files: Arc<Mutex<HashSet<PathBuf>>>,
    /// The files of descriptions and of functions that were written since then, the oldest first.
    checks: Arc<Mutex<VecDeque<PathBuf>>>,
    functions: Arc<Mutex<VecDeque<PathBuf>>>,
}

/// The content of a cache file.
#[derive(Clone, Copy)]
pub(super) enum EntryKind {
    /// Native code.
    Code,
    /// The SHA-256 of the description whose schemas were compiled.
    Schemas,
    /// Compiled functions of all components with the same code, by the digest of that.
    Functions,
}

impl EntryKind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Code => "",
            Self::Schemas => ".schemas",
            Self::Functions => ".functions",
        }
    }
}

/// A verified file: tag and content.
pub(super) struct Artifact(Vec<u8>);

impl Artifact {
    pub(super) fn content(&self) -> &[u8] {
        self.0.get(TAG_BYTES..).unwrap_or_default()
    }
}

impl Cache {
    pub(super) fn open(folder: &Path, key: &[u8; KEY_BYTES], fingerprint: &str) -> Result<Self, CacheError> {
        let folder = folder.join(fingerprint);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|source| CacheError { path: folder.clone(), source })?;
        Ok(Self {
            folder: folder.into(),
            fingerprint: fingerprint.into(),
            key: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, key)),
            used_files: Arc::default(),
            checks: Arc::default(),
            functions: Arc::default(),
        })
    }

    pub(super) fn read(&self, kind: EntryKind, digest: &Digest) -> Option<Artifact> {
        let path = self.path(kind, digest);
        let bytes = fs::read(&path).ok()?;
        let (tag, content) = bytes.split_at_checked(TAG_BYTES)?;
        if hmac::verify(&self.key, &self.message(kind, digest, content), tag).is_err() {
            tracing::warn!(%digest, "a cache entry does not verify and is compiled again");
            return None;
        }
        self.used_files.lock().insert(path);
        Some(Artifact(bytes))
    }

    pub(super) fn store(&self, kind: EntryKind, digest: &Digest, content: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(hmac::sign(&self.key, &self.message(kind, digest, content)).as_ref())?;
        file.write_all(content)?;
        let path = self.path(kind, digest);
        self.used_files.lock().insert(path.clone());
        file.persist(&path)?;
        match kind {
            EntryKind::Code => {}
            EntryKind::Schemas => self.remove_oldest(&self.checks, path, CHECKS_KEPT),
            EntryKind::Functions => self.remove_oldest(&self.functions, path, FUNCTIONS_KEPT),
        }
        Ok(())
    }

    /// Notes the file of an entry, and removes the oldest one of more than `most`. If it is missed, it is made again.
    fn remove_oldest(&self, files: &Mutex<VecDeque<PathBuf>>, path: PathBuf, most: usize) {
        let mut files = files.lock();
        files.retain(|known| *known != path);
        files.push_back(path);
        let oldest = if files.len() > most { files.pop_front() } else { None };
        drop(files);
        if let Some(oldest) = oldest {
            let _ = fs::remove_file(&oldest);
            self.used_files.lock().remove(&oldest);
        }
    }

    pub(super) fn forget(&self, digest: &Digest) {
        for kind in [EntryKind::Code, EntryKind::Schemas] {
            let path = self.path(kind, digest);
            // A missing file is fine too.
            let _ = fs::remove_file(&path);
            self.used_files.lock().remove(&path);
        }
    }

    /// Deletes entries that were neither read nor written since the cache was opened, and those of other engines, if they
    /// are older than [`UNUSED_RETENTION`].
    pub(super) fn remove_unused(&self, now: SystemTime) -> io::Result<()> {
        let is_old = |made: SystemTime| now.duration_since(made).is_ok_and(|age| age >= UNUSED_RETENTION);
        for file in fs::read_dir(&self.folder)? {
            let file = file?;
            if !self.used_files.lock().contains(&file.path()) && is_old(file.metadata()?.modified()?) {
                fs::remove_file(file.path())?;
            }
        }
        let Some(all) = self.folder.parent() else { return Ok(()) };
        for folder in fs::read_dir(all)? {
            let (path, known) = (folder?.path(), &*self.folder);
            let metadata = fs::metadata(&path)?;
            if path != *known && metadata.is_dir() && is_old(metadata.modified()?) {
                fs::remove_dir_all(path)?;
            }
        }
        Ok(())
    }

    /// The message of the HMAC: entry kind, component digest, engine fingerprint and hash of the content, each with its
    /// length.
    fn message(&self, kind: EntryKind, digest: &Digest, content: &[u8]) -> Vec<u8> {
        let hash = ring::digest::digest(&ring::digest::SHA256, content);
        let mut message = Vec::with_capacity(256);
        let (digest, fingerprint) = (digest.as_str().as_bytes(), self.fingerprint.as_bytes());
        for part in [kind.suffix().as_bytes(), digest, fingerprint, hash.as_ref()] {
            message.extend_from_slice(&(part.len() as u64).to_le_bytes());
            message.extend_from_slice(part);
        }
        message
    }

    fn path(&self, kind: EntryKind, digest: &Digest) -> PathBuf {
        self.folder.join(format!("{}{}", digest.hex(), kind.suffix()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn digest(letter: char) -> Digest {
        Digest::parse(&format!("sha256:{}", letter.to_string().repeat(64))).unwrap()
    }

    fn cache(root: &Path, fingerprint: &str) -> Cache {
        Cache::open(&root.join("cache"), &[7; KEY_BYTES], fingerprint).unwrap()
    }

    #[test]
    fn an_entry_is_read_after_a_restart() {
        let root = tempfile::tempdir().unwrap();
        cache(root.path(), "f1").store(EntryKind::Code, &digest('a'), b"code").unwrap();
        assert_eq!(cache(root.path(), "f1").read(EntryKind::Code, &digest('a')).unwrap().content(), b"code");
    }

    #[test]
    fn the_results_of_checks_do_not_fill_the_disk() {
        let root = tempfile::tempdir().unwrap();
        let cache = cache(root.path(), "f1");
        for letter in ['a', 'b', 'c'] {
            cache.store(EntryKind::Schemas, &digest(letter), b"hash").unwrap();
        }
        cache.store(EntryKind::Code, &digest('a'), b"code").unwrap();
        cache.remove_oldest(&cache.checks, cache.path(EntryKind::Schemas, &digest('d')), 3);
        assert!(cache.read(EntryKind::Schemas, &digest('a')).is_none());
        assert!(cache.read(EntryKind::Schemas, &digest('b')).is_some());
        assert!(cache.read(EntryKind::Code, &digest('a')).is_some());
    }

    #[test]
    fn functions_of_few_codes_are_kept_and_those_of_the_last_build_are_among_them() {
        let root = tempfile::tempdir().unwrap();
        let cache = cache(root.path(), "f1");
        for letter in ['a', 'b', 'c', 'd', 'a', 'e'] {
            cache.store(EntryKind::Functions, &digest(letter), b"functions").unwrap();
        }
        let is_kept = |letter: &char| cache.read(EntryKind::Functions, &digest(*letter)).is_some();
        assert_eq!(['a', 'b', 'c', 'd', 'e'].map(|letter| is_kept(&letter)), [true, false, true, true, true]);
    }

    #[test]
    fn a_forged_file_counts_as_missing() {
        let root = tempfile::tempdir().unwrap();
        let cache = cache(root.path(), "f1");
        cache.store(EntryKind::Code, &digest('a'), b"code").unwrap();
        let path = cache.path(EntryKind::Code, &digest('a'));
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut forged = good.clone();
            forged[at] ^= 1;
            fs::write(&path, &forged).unwrap();
            assert!(cache.read(EntryKind::Code, &digest('a')).is_none(), "byte {at}");
        }
        fs::write(&path, &good[..TAG_BYTES - 1]).unwrap();
        assert!(cache.read(EntryKind::Code, &digest('a')).is_none());
        fs::write(&path, &good).unwrap();
        assert!(cache.read(EntryKind::Code, &digest('a')).is_some());
    }

    #[test]
    fn code_of_another_component_or_engine_does_not_verify() {
        let root = tempfile::tempdir().unwrap();
        let one = cache(root.path(), "f1");
        one.store(EntryKind::Code, &digest('a'), b"code").unwrap();
        fs::copy(one.path(EntryKind::Code, &digest('a')), one.path(EntryKind::Code, &digest('b'))).unwrap();
        assert!(one.read(EntryKind::Code, &digest('b')).is_none());
        let other = cache(root.path(), "f2");
        fs::copy(one.path(EntryKind::Code, &digest('a')), other.path(EntryKind::Code, &digest('a'))).unwrap();
        assert!(other.read(EntryKind::Code, &digest('a')).is_none());
        assert!(one.read(EntryKind::Code, &digest('a')).is_some());
    }

    /// Covers each reason to keep and to delete an entry.
    #[test]
    fn entries_that_a_start_did_not_use_are_deleted_after_a_day() {
        let root = tempfile::tempdir().unwrap();
        let before = cache(root.path(), "f1");
        for letter in ['a', 'b', 'c'] {
            before.store(EntryKind::Code, &digest(letter), b"code").unwrap();
            before.store(EntryKind::Schemas, &digest(letter), b"hash").unwrap();
        }
        cache(root.path(), "f0").store(EntryKind::Code, &digest('a'), b"code of before").unwrap();
        let now = cache(root.path(), "f1");
        assert!(
            now.read(EntryKind::Code, &digest('a')).is_some()
                && now.read(EntryKind::Schemas, &digest('a')).is_some()
        );
        fs::write(now.path(EntryKind::Code, &digest('b')), b"damaged").unwrap();
        assert!(now.read(EntryKind::Code, &digest('b')).is_none());
        now.store(EntryKind::Code, &digest('d'), b"code").unwrap();
        now.store(EntryKind::Code, &digest('e'), b"code").unwrap();
        now.forget(&digest('e'));
        let left = || {
            let files = fs::read_dir(&now.folder).unwrap().map(|file| file.unwrap().path());
            files.collect::<BTreeSet<_>>()
        };
        let all = left();
        now.remove_unused(SystemTime::now()).unwrap();
        assert_eq!(left(), all, "they are of today");
        assert_eq!(fs::read_dir(root.path().join("cache")).unwrap().count(), 2);
        now.remove_unused(SystemTime::now() + UNUSED_RETENTION).unwrap();
        let kept = [(EntryKind::Code, 'a'), (EntryKind::Schemas, 'a'), (EntryKind::Code, 'd')];
        assert_eq!(left(), kept.map(|(kind, letter)| now.path(kind, &digest(letter))).into());
        assert_eq!(fs::read_dir(root.path().join("cache")).unwrap().count(), 1);
    }

    #[test]
    fn another_key_makes_the_cache_stale() {
        let root = tempfile::tempdir().unwrap();
        cache(root.path(), "f1").store(EntryKind::Code, &digest('a'), b"code").unwrap();
        let other = Cache::open(&root.path().join("cache"), &[8; KEY_BYTES], "f1").unwrap();
        assert!(other.read(EntryKind::Code, &digest('a')).is_none());
    }

    #[test]
    fn an_entry_for_schemas_does_not_verify_as_code() {
        let root = tempfile::tempdir().unwrap();
        let cache = cache(root.path(), "f1");
        cache.store(EntryKind::Schemas, &digest('a'), b"hash").unwrap();
        fs::copy(cache.path(EntryKind::Schemas, &digest('a')), cache.path(EntryKind::Code, &digest('a')))
            .unwrap();
        assert!(cache.read(EntryKind::Code, &digest('a')).is_none());
        assert!(cache.read(EntryKind::Schemas, &digest('a')).is_some());
    }
}
