//! What the worker made, on disk: `FOLDER/FINGERPRINT/DIGEST`, each file an HMAC and what it vouches for: the code
//! of a component, or that its schemas were compiled within their limits.
//!
//! A file that does not verify is not an error: it is treated as missing, so damage costs one compilation. What a start
//! had no use for is removed once it is over, a day after it was made: code for engines of before, of plugins that are
//! gone, of tries whose caller hung up. Who goes back to the version of yesterday finds its code.

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use ring::hmac;
use toolgate_admission::Digest;

use crate::keys::KEY_BYTES;
use crate::store::entry_hint;

/// Length of the HMAC-SHA-256 tag in front of the code.
const TAG_BYTES: usize = 32;

/// How long something is kept that nobody asks for: a version of the daemon that does not work out is taken back within a
/// day, and then starts as fast as before.
const KEPT_UNUSED: Duration = Duration::from_secs(24 * 60 * 60);

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the cache of compiled code in `{path}` cannot be used: {source}")]
pub struct CacheError {
    path: PathBuf,
    source: io::Error,
}

impl CacheError {
    /// The way out.
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
    /// The files that were read or written since it was opened.
    used: Arc<Mutex<HashSet<PathBuf>>>,
}

/// What a file holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Native code.
    Code,
    /// The SHA-256 of the description whose schemas were compiled.
    Schemas,
}

impl Kind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Code => "",
            Self::Schemas => ".schemas",
        }
    }
}

/// A file whose tag was right, read once.
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
            used: Arc::default(),
        })
    }

    pub(super) fn fetch(&self, kind: Kind, digest: &Digest) -> Option<Artifact> {
        let path = self.path(kind, digest);
        let bytes = fs::read(&path).ok()?;
        let (tag, content) = bytes.split_at_checked(TAG_BYTES)?;
        if hmac::verify(&self.key, &self.message(kind, digest, content), tag).is_err() {
            tracing::warn!(%digest, "what was compiled does not verify and is compiled again");
            return None;
        }
        self.used().insert(path);
        Some(Artifact(bytes))
    }

    pub(super) fn store(&self, kind: Kind, digest: &Digest, content: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(hmac::sign(&self.key, &self.message(kind, digest, content)).as_ref())?;
        file.write_all(content)?;
        let path = self.path(kind, digest);
        self.used().insert(path.clone());
        file.persist(path)?;
        Ok(())
    }

    pub(super) fn forget(&self, digest: &Digest) {
        for kind in [Kind::Code, Kind::Schemas] {
            let path = self.path(kind, digest);
            // Already gone is as good.
            let _ = fs::remove_file(&path);
            self.used().remove(&path);
        }
    }

    /// Removes what was neither read nor written since the cache was opened, and what other engines left; none of it if
    /// it is younger than [`KEPT_UNUSED`].
    pub(super) fn remove_unused(&self, now: SystemTime) -> io::Result<()> {
        let is_old = |made: SystemTime| now.duration_since(made).is_ok_and(|age| age >= KEPT_UNUSED);
        for file in fs::read_dir(&self.folder)? {
            let file = file?;
            if !self.used().contains(&file.path()) && is_old(file.metadata()?.modified()?) {
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

    fn used(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the tag covers: the content's own hash bound to what it is, and to the component and the engine it
    /// was made for.
    fn message(&self, kind: Kind, digest: &Digest, content: &[u8]) -> Vec<u8> {
        let hash = ring::digest::digest(&ring::digest::SHA256, content);
        let mut message = Vec::with_capacity(256);
        let (digest, fingerprint) = (digest.as_str().as_bytes(), self.fingerprint.as_bytes());
        for part in [kind.suffix().as_bytes(), digest, fingerprint, hash.as_ref()] {
            message.extend_from_slice(&(part.len() as u64).to_le_bytes());
            message.extend_from_slice(part);
        }
        message
    }

    fn path(&self, kind: Kind, digest: &Digest) -> PathBuf {
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
    fn what_was_stored_is_fetched_also_after_a_restart() {
        let root = tempfile::tempdir().unwrap();
        cache(root.path(), "f1").store(Kind::Code, &digest('a'), b"code").unwrap();
        assert_eq!(cache(root.path(), "f1").fetch(Kind::Code, &digest('a')).unwrap().content(), b"code");
    }

    #[test]
    fn a_forged_file_counts_as_missing() {
        let root = tempfile::tempdir().unwrap();
        let cache = cache(root.path(), "f1");
        cache.store(Kind::Code, &digest('a'), b"code").unwrap();
        let path = cache.path(Kind::Code, &digest('a'));
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut forged = good.clone();
            forged[at] ^= 1;
            fs::write(&path, &forged).unwrap();
            assert!(cache.fetch(Kind::Code, &digest('a')).is_none(), "byte {at}");
        }
        fs::write(&path, &good[..TAG_BYTES - 1]).unwrap();
        assert!(cache.fetch(Kind::Code, &digest('a')).is_none());
        fs::write(&path, &good).unwrap();
        assert!(cache.fetch(Kind::Code, &digest('a')).is_some());
    }

    #[test]
    fn code_of_another_component_or_engine_does_not_verify() {
        let root = tempfile::tempdir().unwrap();
        let one = cache(root.path(), "f1");
        one.store(Kind::Code, &digest('a'), b"code").unwrap();
        fs::copy(one.path(Kind::Code, &digest('a')), one.path(Kind::Code, &digest('b'))).unwrap();
        assert!(one.fetch(Kind::Code, &digest('b')).is_none());
        let other = cache(root.path(), "f2");
        fs::copy(one.path(Kind::Code, &digest('a')), other.path(Kind::Code, &digest('a'))).unwrap();
        assert!(other.fetch(Kind::Code, &digest('a')).is_none());
        assert!(one.fetch(Kind::Code, &digest('a')).is_some());
    }

    /// What a start did not ask for is of nobody: each kind of what is kept, and of what is removed.
    #[test]
    fn what_a_start_had_no_use_for_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let before = cache(root.path(), "f1");
        for letter in ['a', 'b', 'c'] {
            before.store(Kind::Code, &digest(letter), b"code").unwrap();
            before.store(Kind::Schemas, &digest(letter), b"hash").unwrap();
        }
        cache(root.path(), "f0").store(Kind::Code, &digest('a'), b"code of before").unwrap();
        let now = cache(root.path(), "f1");
        assert!(
            now.fetch(Kind::Code, &digest('a')).is_some() && now.fetch(Kind::Schemas, &digest('a')).is_some()
        );
        fs::write(now.path(Kind::Code, &digest('b')), b"damaged").unwrap();
        assert!(now.fetch(Kind::Code, &digest('b')).is_none());
        now.store(Kind::Code, &digest('d'), b"code").unwrap();
        now.store(Kind::Code, &digest('e'), b"code").unwrap();
        now.forget(&digest('e'));
        let left = || {
            let files = fs::read_dir(&now.folder).unwrap().map(|file| file.unwrap().path());
            files.collect::<BTreeSet<_>>()
        };
        let all = left();
        now.remove_unused(SystemTime::now()).unwrap();
        assert_eq!(left(), all, "they are of today");
        assert_eq!(fs::read_dir(root.path().join("cache")).unwrap().count(), 2);
        now.remove_unused(SystemTime::now() + KEPT_UNUSED).unwrap();
        let kept = [(Kind::Code, 'a'), (Kind::Schemas, 'a'), (Kind::Code, 'd')];
        assert_eq!(left(), kept.map(|(kind, letter)| now.path(kind, &digest(letter))).into());
        assert_eq!(fs::read_dir(root.path().join("cache")).unwrap().count(), 1);
    }

    #[test]
    fn another_key_makes_the_cache_stale() {
        let root = tempfile::tempdir().unwrap();
        cache(root.path(), "f1").store(Kind::Code, &digest('a'), b"code").unwrap();
        let other = Cache::open(&root.path().join("cache"), &[8; KEY_BYTES], "f1").unwrap();
        assert!(other.fetch(Kind::Code, &digest('a')).is_none());
    }

    #[test]
    fn what_vouches_for_schemas_vouches_for_no_code() {
        let root = tempfile::tempdir().unwrap();
        let cache = cache(root.path(), "f1");
        cache.store(Kind::Schemas, &digest('a'), b"hash").unwrap();
        fs::copy(cache.path(Kind::Schemas, &digest('a')), cache.path(Kind::Code, &digest('a'))).unwrap();
        assert!(cache.fetch(Kind::Code, &digest('a')).is_none());
        assert!(cache.fetch(Kind::Schemas, &digest('a')).is_some());
    }
}
