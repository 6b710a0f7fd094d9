//! Lines of an exported audit log: each a JSON object with one member, which names its kind.
//!
//! A receiver can check that each hash fits its record, and, where nothing was filtered out, that the whole chain fits together.
//! Only a hash that the daemon told elsewhere proves that it recorded them:
//!
//! - hash of a record = SHA-256(`previous_hash` · length of the payload u32 · kind u32 · first 8 bytes of the payload's
//!   SHA-256 · `sequence` u64 · `of` u64 · `at_ms` u64 · `durable` u64 · SHA-256 of the payload), numbers in little endian;
//! - the first record of a segment continues the hash of the segment, which is the SHA-256 of its header, and the header has the
//!   hash of the record before it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::audit::Sha256;

/// One line of an export.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditExportLine)]
pub enum ExportLine {
    /// The first line: what was asked for.
    Begin(ExportBegin),
    /// A segment of the log begins. Only in an export of all organizations.
    Segment(ExportSegment),
    /// A record.
    Record(ExportRecord),
    /// Records that are missing: damaged, or cut from the log.
    Gap(ExportGap),
    /// The last line of a complete export.
    End(ExportEnd),
}

/// The contents of an export.
#[optional_fields]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditExportBegin)]
pub struct ExportBegin {
    /// The cursor after which it begins: the sequence of the last record before it.
    pub after: String,
    /// Only records of this organization.
    pub organization: Option<String>,
    /// Only records from this time on, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Only records before this time, in milliseconds since 1970.
    pub until_ms: Option<u64>,
}

impl ExportBegin {
    /// Whether every record is exported, so that the chain has no holes.
    pub fn is_whole(&self) -> bool {
        self.organization.is_none() && self.since_ms.is_none() && self.until_ms.is_none()
    }
}

/// The header of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditExportSegment)]
pub struct ExportSegment {
    /// Number of the segment.
    pub segment: u64,
    /// Sequence of its first record.
    pub first_sequence: u64,
    /// Time of its beginning, in milliseconds since 1970.
    pub made_at_ms: u64,
    /// Hash of the last record of the segment before.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub previous_hash: Sha256,
    /// Sequences of the intents that had no outcome yet.
    pub open_intents: Vec<u64>,
    /// SHA-256 of the header, which the first record continues.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub hash: Sha256,
}

/// The kind of a record in the log. The numbers are those that its hash covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditRecordKind)]
pub enum ExportKind {
    /// The intent of a call.
    Call = 1,
    /// The outcome of the call or the act whose intent `of` names.
    Outcome = 2,
    /// An effect of the call that `of` names.
    Effect = 3,
    /// An act of the daemon, with its outcome.
    Act = 4,
    /// The findings of a start after a crash.
    Recovery = 5,
    /// The intent of an administrative act.
    ActIntent = 6,
}

/// A record as the log has it.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditExportRecord)]
pub struct ExportRecord {
    /// Sequence in the log, and the cursor after this line.
    pub sequence: u64,
    /// Kind of the record.
    pub kind: ExportKind,
    /// Time of the record, in milliseconds since 1970.
    pub at_ms: u64,
    /// Sequence of the intent that an outcome or an effect belongs to; 0 for others.
    #[serde(default)]
    #[schema(required = false)]
    pub of: u64,
    /// Offset up to which the segment was on disk when the record was written.
    pub durable: u64,
    /// Hash that this record continues: of the record or the segment header before it. Absent where `not_provable`.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub previous_hash: Option<Sha256>,
    /// Hash of this record. Absent where `not_provable`.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub hash: Option<Sha256>,
    /// A rule of the platform is hidden from tenants, in this record or shortly before it, and the hashes would confirm guesses
    /// of it. Only in an export of one organization.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_provable: bool,
    /// The payload that the hash covers, where it has line breaks; `payload` has spaces for them.
    pub payload_text: Option<String>,
    /// The arguments of a call, or the details of a decision about one, decrypted.
    #[schema(value_type = Value)]
    pub arguments: Option<Box<RawValue>>,
    /// The detail of an effect, decrypted.
    pub detail: Option<String>,
    /// The organization's data was deleted: arguments or detail cannot be decrypted any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub arguments_deleted: bool,
    /// The record itself, byte for byte, but for a hidden rule and line breaks. `sealed` in it is the encrypted form of arguments or detail.
    #[schema(value_type = Value)]
    pub payload: Box<RawValue>,
}

/// Records that an export does not have although it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditExportGap)]
pub struct ExportGap {
    /// Sequence of the first missing record.
    pub from: u64,
    /// Sequence of the last missing record.
    pub to: u64,
    /// The reason.
    pub what: String,
}

/// The end of an export.
#[optional_fields]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditExportEnd)]
pub struct ExportEnd {
    /// The cursor to go on from, in `after`.
    pub cursor: String,
    /// Hash of the last record that was read, of any organization. Absent where it would confirm guesses of a hidden rule.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub hash: Option<Sha256>,
}
