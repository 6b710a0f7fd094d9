//! The digest of a file.

use toolgate_admission::Digest;
use toolgate_audit as audit;

/// The digest of an uploaded plugin. A plugin that is built from a definition has another (see `from_definition`).
pub fn digest_of(file: &[u8]) -> Digest {
    Digest::from_sha256(audit::sha256(file).0)
}
