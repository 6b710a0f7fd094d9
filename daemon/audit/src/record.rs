//! The content of records, one line of JSON each. The types are those of the search, `toolgate_api::audit`.
//!
//! Arguments are JSON text, redacted by the caller, beside the SHA-256 of the bytes before redaction.

use std::borrow::Cow;

use ring::digest;
use serde::{Deserialize, Serialize};

pub(crate) use toolgate_api::audit::{AcceptedLoss, DamagedRange, LostRecords, TornEnd};
pub use toolgate_api::audit::{
    AdminRecord, Anchor, AnchorSource, CallIntent, CallOutcome, Corruption, EffectRecord, Kind,
    NotedRecovery, NotedRestore, Order, OutputStamp, PluginStamp, Reason, Recovery, RestoredFrom, Row,
    Sha256, Status, Usage, Verdict, VerifyReport,
};
pub use toolgate_api::call::Executed;

/// Limit of an effect's detail, so that a plugin that is denied a thousand long paths cannot fill the log.
pub(crate) const EFFECT_DETAIL_BYTES: usize = 1024;
/// Limit of an effect's name.
pub(super) const EFFECT_NAME_BYTES: usize = 64;
/// Limit of an `error_type`, longer than any in use, since an outcome must fit into its reserved space.
pub(super) const ERROR_TYPE_BYTES: usize = 64;

/// Hashes bytes.
pub fn sha256(bytes: &[u8]) -> Sha256 {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    Sha256(sum)
}

/// The outcome that the log itself writes for a call without one.
pub(super) fn implicit_outcome(
    status: Status,
    error_type: &'static str,
    executed: Executed,
) -> CallOutcome<'static> {
    let error_type = Some(Cow::Borrowed(error_type));
    CallOutcome { status, error_type, executed, usage: Usage::default(), duration_us: 0, output: None }
}

/// The outcome of an administrative act. An outcome that the log itself writes is a [`CallOutcome`], whose other fields a
/// reader of this type ignores.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActOutcome<'a> {
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<Cow<'a, str>>,
    /// Revision of the rules in force after the act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}
