//! The content of records, one line of JSON each. The types are those of the search, `toolgate_api::audit`.
//!
//! Arguments are JSON text, redacted by the caller, beside the SHA-256 of the bytes before redaction.

use std::borrow::Cow;

use ring::digest;

pub use toolgate_api::audit::{
    AdminRecord, Anchor, AnchorSource, CallIntent, CallOutcome, Corruption, DamagedRange, EffectRecord, Kind,
    LostRecords, NotedRecovery, Order, OutputStamp, PluginStamp, Reason, Recovery, Row, Sha256, Status,
    TornEnd, Usage, Verdict, VerifyReport,
};
pub use toolgate_api::call::Executed;

/// Limit of an effect's detail, so that a plugin that is denied a thousand long paths cannot fill the log.
pub const EFFECT_DETAIL_BYTES: usize = 1024;
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
