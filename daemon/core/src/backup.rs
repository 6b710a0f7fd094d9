//! Backups of a data folder, taken while the daemon runs or from a folder at rest, and their restore.
//!
//! A backup is one archive, a compressed tar file that other programs can list:
//!
//! | entry | content |
//! |---|---|
//! | `toolgate-backup.json` | the first: id, time, versions of program, schema and archive |
//! | `state.db` | a snapshot of the store (`VACUUM INTO`) |
//! | `components/`, `answers/`, `workspaces/` | plugin files, recorded answers, files of sessions |
//! | `audit/` | the log up to its last acknowledged record, and the file that tells the first start of the restore |
//! | `keys/`, `operator.token` | only if asked for |
//! | `cache/` | compiled code, only if asked for, with the key that seals it |
//! | `manifest.json` | the last: size and SHA-256 of every entry, sealed with the key of the audit log |
//!
//! The store is copied first and the log last, so the log has every act that the store shows. Plugin files are linked before
//! and after the store is copied, so none that the store names is missing. The audit index is left out, and compiled code
//! usually: a start makes them again.

mod archive;
mod error;
mod restore;
mod stage;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolgate_audit::{Anchor, Sha256};

pub use error::BackupError;
pub use restore::{Restored, inspect, restore};
pub use stage::{Backup, BackupSource, last_taken, remove_leftovers};

/// Version of an archive with compiled code, which programs of the version before do not restore, and of others.
const FORMAT: u32 = 2;
const FORMAT_WITHOUT_CACHE: u32 = 1;

const HEADER: &str = "toolgate-backup.json";
const MANIFEST: &str = "manifest.json";
const STORE: &str = "state.db";
const OPERATOR_TOKEN: &str = "operator.token";

/// Folders that are copied as they are.
const FOLDERS: [&str; 2] = ["answers", "workspaces"];
const COMPONENTS: &str = "components";
const AUDIT: &str = "audit";
const KEYS: &str = "keys";
const CACHE: &str = "cache";

/// The key of the audit log, whose seal binds archive, log and keys together.
const AUDIT_KEY: &str = "audit.key";

/// The key of compiled code. A start generates it again without a loss.
const CACHE_KEY: &str = "cache.key";

/// Purpose of the seal of the manifest.
const SEAL: &str = "backup manifest";

/// The first entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BackupHeader {
    /// Version of the archive.
    pub format: u32,
    /// Id of the backup.
    pub backup: String,
    /// The time at which it was begun, in milliseconds since 1970.
    pub made_at_ms: u64,
    /// The version of the program that made it.
    pub version: String,
    /// The last migration of the store.
    pub schema: i64,
    /// Whether it has the keys.
    pub with_keys: bool,
}

/// The content of the last entry, under its seal.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    backup: String,
    /// The last record of the log.
    head: Anchor,
    files: BTreeMap<String, FileDigest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileDigest {
    bytes: u64,
    sha256: Sha256,
}

/// The last entry.
#[derive(Serialize, Deserialize)]
struct SealedManifest {
    /// JSON text of the [`Manifest`].
    manifest: String,
    seal: Sha256,
}

#[cfg(test)]
mod tests;
