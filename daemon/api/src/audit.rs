//! Records of the audit log.
//!
//! Field names are stable, since readers of exported logs depend on them; new ones may be added. Strings are `Cow`, so
//! that the daemon borrows the values of a call and a reader gets owned ones.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::call::Executed;

/// Largest page size in rows, since each row may contain its arguments.
pub const PAGE_ROWS_MAX: u32 = 500;

/// A page of the audit log.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// The records.
    pub items: Vec<Row>,
    /// The `cursor` of the next page; null on the last page.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

/// One call with its outcome, one effect, one administrative act, one recovery, or a range of damaged records. `kind` says
/// which of the last fields are set.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditRecord)]
pub struct Row {
    /// Sequence in the log; never used twice.
    pub sequence: u64,
    /// Type of the record.
    pub kind: Kind,
    /// Time of the record, in milliseconds since 1970.
    pub at_ms: u64,
    /// Status of the call, `running` before its end. Administrative acts have only `running`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Status, required = false)]
    pub status: Option<Status>,
    /// The intent of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CallIntent<'static>, required = false)]
    pub call: Option<CallIntent<'static>>,
    /// Time of the outcome, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub closed_at_ms: Option<u64>,
    /// The outcome of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CallOutcome<'static>, required = false)]
    pub outcome: Option<CallOutcome<'static>>,
    /// The organization's data was deleted: the arguments of the call, the detail of the effect, or the details of the decision
    /// about a call cannot be read any more.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(value_type = bool, required = false)]
    pub arguments_deleted: bool,
    /// Number of effects that did not fit into the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub effects_lost: Option<u64>,
    /// Sequence of the call that the effect belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub of: Option<u64>,
    /// The effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = EffectRecord<'static>, required = false)]
    pub effect: Option<EffectRecord<'static>>,
    /// The administrative act.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AdminRecord<'static>, required = false)]
    pub admin: Option<AdminRecord<'static>>,
    /// The findings of a start after a crash.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Recovery, required = false)]
    pub recovery: Option<Recovery>,
    /// The damaged part of this row. With the kind `damaged`, unreadable records between the previous and the next row, of
    /// unknown organizations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = DamagedRange, required = false)]
    pub damaged: Option<DamagedRange>,
}

/// Order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The default.
    #[default]
    NewestFirst,
    /// To follow the log.
    OldestFirst,
}

/// A range of the log that no longer contains what was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditDamaged)]
pub struct DamagedRange {
    /// Number of unreadable records, of any organization.
    pub records: u64,
    /// Number of the segment; hidden from tenants, and unknown for an outcome that was lost with other records.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub segment: Option<u64>,
    /// Offset in the segment, in bytes; present if `segment` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub offset: Option<u64>,
    /// The reason.
    pub what: Cow<'static, str>,
}

/// The type of a row. A call is two records, folded into one row, and so is an administrative act.
//
// The numbers are stored in the index: add new ones, never change one. A partial index depends on 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditKind)]
pub enum Kind {
    /// A call: its intent and outcome.
    Call = 0,
    /// An outside effect of a call, done or denied.
    Effect = 1,
    /// An administrative act.
    Admin = 2,
    /// A recovery of the log at a start after a crash.
    Recovery = 3,
    /// Unreadable records; only a search returns this.
    Damaged = 4,
}

impl Kind {
    /// Returns the kind with this number in the index.
    pub fn from_code(code: i64) -> Option<Self> {
        [Self::Call, Self::Effect, Self::Admin, Self::Recovery, Self::Damaged]
            .into_iter()
            .find(|kind| *kind as i64 == code)
    }
}

/// An intent: a call and the decision of the gate. A refused call has an intent too, closed at once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditIntent)]
pub struct CallIntent<'a> {
    /// The agent's organization.
    pub organization: Cow<'a, str>,
    /// The session.
    pub session: Cow<'a, str>,
    /// The call's id.
    pub call: Cow<'a, str>,
    /// The call whose script made this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub parent: Option<Cow<'a, str>>,
    /// The agent's name.
    pub agent: Cow<'a, str>,
    /// The user that the orchestrator acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub user: Option<Cow<'a, str>>,
    /// The orchestrator's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub conversation: Option<Cow<'a, str>>,
    /// The channel of the session, such as `sms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub channel: Option<Cow<'a, str>>,
    /// `namespace/tool`, or the called name of an unknown tool.
    pub tool: Cow<'a, str>,
    /// The tool name in the model's call.
    pub wire_name: Cow<'a, str>,
    /// Redacted arguments; absent if the arguments were not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub arguments: Option<Cow<'a, RawValue>>,
    /// SHA-256 of the arguments as they were sent.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub arguments_sha256: Sha256,
    /// The decision of the gate.
    pub verdict: Verdict,
    /// The layer and rule that decided.
    pub reason: Reason<'a>,
    /// Number of equal refusals that this record stands for: same session, tool, code and rule. The last one is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub repeated: Option<u64>,
    /// Revision of the rules that decided; grows with every change.
    pub policy_revision: u64,
    /// The plugin at the time of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PluginStamp<'a>, required = false)]
    pub plugin: Option<PluginStamp<'a>>,
    /// Interface of the call: `http`, `mcp`, `try`, `quickstart`.
    pub source: Cow<'a, str>,
    /// Id of the calling token.
    pub principal: Cow<'a, str>,
}

/// The decision of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditVerdict)]
pub enum Verdict {
    /// The call runs.
    Run,
    /// The call waits for a person.
    NeedsApproval,
    /// The call is refused.
    Refused,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_hidden(rule: &str) -> bool {
    rule.is_empty()
}

/// The layer and rule that decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditReason)]
pub struct Reason<'a> {
    /// `platform`, `organization`, `agent`, `session`, …
    pub layer: Cow<'a, str>,
    /// The rule within the layer; rules of the platform are hidden from tenants.
    #[serde(default, skip_serializing_if = "is_hidden")]
    #[schema(value_type = String, required = false)]
    pub rule: Cow<'a, str>,
}

/// The plugin at the time of the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditPlugin)]
pub struct PluginStamp<'a> {
    /// Version that the plugin declares.
    pub version: Cow<'a, str>,
    /// SHA-256 of the component: `sha256:` and 64 hexadecimal digits.
    pub digest: Cow<'a, str>,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditOutcome)]
pub struct CallOutcome<'a> {
    /// How the call ended.
    pub status: Status,
    /// Error code, if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub error_type: Option<Cow<'a, str>>,
    /// Whether guest code started.
    pub executed: Executed,
    /// Resources used, also by a call that was stopped.
    #[serde(default)]
    pub usage: Usage,
    /// Time from intent to outcome, including waits, in microseconds.
    #[serde(default)]
    pub duration_us: u64,
    /// Hash and size of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = OutputStamp, required = false)]
    pub output: Option<OutputStamp>,
}

/// Status of a call. Records never contain `running`; a search returns it for an intent without outcome.
//
// The numbers are stored in the index: add new ones, never change one. Partial indexes depend on 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditStatus)]
pub enum Status {
    /// The call has not ended.
    Running = 0,
    /// The tool returned a result.
    Ok = 1,
    /// The call was refused, or failed.
    Error = 2,
    /// The client performs a payload.
    ClientRequired = 3,
    /// A person must approve the call.
    ApprovalRequired = 4,
    /// The entry was dropped without an outcome: the client disconnected.
    Cancelled = 5,
    /// The entry was dropped by a panic in the daemon.
    Crashed = 6,
    /// The daemon died while the call ran.
    Unknown = 7,
}

impl Status {
    /// Returns the status with this number in the index.
    pub fn from_code(code: i64) -> Option<Self> {
        [
            Self::Running,
            Self::Ok,
            Self::Error,
            Self::ClientRequired,
            Self::ApprovalRequired,
            Self::Cancelled,
            Self::Crashed,
            Self::Unknown,
        ]
        .into_iter()
        .find(|status| *status as i64 == code)
    }
}

/// Resources used by a call, also by one that was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = AuditUsage)]
pub struct Usage {
    /// Executed guest instructions.
    pub fuel: u64,
    /// Peak memory, in bytes.
    pub memory_bytes: u64,
    /// Time in the sandbox, in microseconds.
    pub duration_us: u64,
    /// Processor time of the guest, in microseconds.
    #[serde(default)]
    pub cpu_us: u64,
    /// Calls from the guest to the host.
    pub host_calls: u64,
    /// Bytes sent and received over the network.
    pub egress_bytes: u64,
    /// Units that the tool declares as the cost of a call that ran.
    #[serde(default)]
    pub cost: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
}

/// Hash and size of an output, which is tenant data and not recorded itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditOutput)]
pub struct OutputStamp {
    /// SHA-256 of the output as JSON text.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub sha256: Sha256,
    /// Size of the output, in bytes.
    pub bytes: u64,
}

/// An outside effect of a call: a write, a request, a denial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditEffect)]
pub struct EffectRecord<'a> {
    /// The kind of effect: `workspace_write`, `file_denied`, `network_denied`, `network_request`.
    pub effect: Cow<'a, str>,
    /// Details without query strings and secrets, cut to `EFFECT_DETAIL_BYTES`.
    pub detail: Cow<'a, str>,
}

/// An administrative act.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditAct)]
pub struct AdminRecord<'a> {
    /// Organization of the act; absent for an act of the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub organization: Option<Cow<'a, str>>,
    /// Id of the acting token; `toolgate` for the daemon itself.
    pub principal: Cow<'a, str>,
    /// Such as `plugin.load`, `agent.put`, `token.revoke`.
    pub action: Cow<'a, str>,
    /// Object of the act: a namespace, a document's key.
    pub target: Cow<'a, str>,
    /// `ok`, or an `error_type`: `UNKNOWN` while the act runs, and after a crash during it.
    pub outcome: Cow<'a, str>,
    /// Revision of the rules in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub revision: Option<u64>,
    /// Further details, whose schema depends on the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub details: Option<Cow<'a, RawValue>>,
    /// Interface of the act: `http`, or `daemon` for the daemon itself.
    pub source: Cow<'a, str>,
}

/// The findings of a start after a crash. Also recorded in the chain, so that cuts and losses stay known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = AuditRecovery)]
pub struct Recovery {
    /// The torn end of the newest segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = TornEnd, required = false)]
    pub cut: Option<TornEnd>,
    /// Acknowledged records that the `head` file or the index knows and the folder lacks. A crash cannot cause this: a file
    /// was truncated, the folder was emptied or replaced by an older copy, or the disk ignores syncs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = LostRecords, required = false)]
    pub lost: Option<LostRecords>,
    /// The `head` file was missing, so that a missing end of the log cannot be detected.
    pub anchor_missing: bool,
    /// Number of calls and administrative acts that were running when the daemon died; each gets the outcome `unknown`.
    pub unknown: u64,
    /// The folder is a copy of the one that the daemon wrote to: an earlier one that was put back, or one that was made while
    /// a daemon wrote to the original, so that some of its files are later than others.
    #[serde(skip_serializing_if = "is_false")]
    #[schema(required = false)]
    pub copied: bool,
}

impl Recovery {
    /// Whether the start found anything.
    pub fn is_needed(&self) -> bool {
        *self != Self::default()
    }

    /// Whether a crash does not explain the findings.
    pub fn is_suspicious(&self) -> bool {
        self.lost.is_some() || self.anchor_missing
    }
}

/// The findings in words, the most serious one first; `-` for none.
impl std::fmt::Display for Recovery {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut findings = Vec::new();
        if let Some(lost) = &self.lost {
            let LostRecords { after_sequence, acknowledged_sequence, .. } = lost;
            findings.push(if self.copied {
                format!(
                    "the folder is a copy: records behind {after_sequence}, up to {acknowledged_sequence}, are in the \
                     original alone"
                )
            } else {
                format!("acknowledged records behind {after_sequence} are gone, up to {acknowledged_sequence}")
            });
        }
        if self.anchor_missing {
            findings.push("the `head` file was missing, so an end that is gone would not show".to_owned());
        }
        if let Some(TornEnd { segment, offset, bytes }) = &self.cut {
            findings.push(format!("{bytes} torn bytes cut off segment {segment} at byte {offset}"));
        }
        if self.unknown > 0 {
            findings.push(format!("calls and acts that ended as unknown: {}", self.unknown));
        }
        out.write_str(if findings.is_empty() { "-" } else { "" })?;
        out.write_str(&findings.join("; "))
    }
}

/// A torn end of a segment: bytes that were never acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditCut)]
pub struct TornEnd {
    /// Number of the segment.
    pub segment: u64,
    /// Offset in the segment, in bytes.
    pub offset: u64,
    /// Size, up to the last byte that was not zero.
    pub bytes: u64,
}

/// Acknowledged records that are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditLost)]
pub struct LostRecords {
    /// Sequence of the last remaining record.
    pub after_sequence: u64,
    /// Sequence of the last acknowledged record.
    pub acknowledged_sequence: u64,
    /// Hash of that record, in hexadecimal digits.
    pub acknowledged_hash: String,
}

/// Result of reading the whole log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditVerification)]
pub struct VerifyReport {
    /// Whether the log is intact: no damaged record, and no recovery that lost acknowledged records.
    pub ok: bool,
    /// Valid records before the first damaged one.
    pub records: u64,
    /// Segment files read.
    pub segments: u64,
    /// The last valid record. Store its hash elsewhere to compare the log with it later.
    pub head: Anchor,
    /// The last record that retention removed: the log begins after it, as a record of the chain says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Anchor, required = false)]
    pub cut: Option<Anchor>,
    /// The source of the anchor that the end of the chain was compared with.
    pub anchor: AnchorSource,
    /// The first damaged record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Corruption, required = false)]
    pub first_bad: Option<Corruption>,
    /// Recoveries that a crash does not explain. With `lost`, the log is not `ok`; with a missing `head` file, a loss
    /// cannot be excluded.
    pub suspicious: Vec<NotedRecovery>,
    /// Restores from a backup, which records of the chain tell of. What was recorded after the backup is not in this log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub restores: Vec<NotedRestore>,
}

/// The backup that a data folder was restored from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RestoredFrom {
    /// The id of the backup.
    pub backup: String,
    /// The time at which it was made, in milliseconds since 1970.
    pub made_at_ms: u64,
    /// The version of the program that made it.
    pub version: String,
    /// The last record in it.
    pub head: Anchor,
}

/// A restore from a backup, as its record in the chain tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditRestore)]
pub struct NotedRestore {
    /// Sequence of the record.
    pub sequence: u64,
    /// Time of the first start after the restore, in milliseconds since 1970.
    pub at_ms: u64,
    /// The backup.
    pub from: RestoredFrom,
}

/// A position at which the log is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditBadPlace)]
pub struct Corruption {
    /// Path on the daemon's host.
    #[schema(value_type = String)]
    pub file: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The reason.
    pub what: String,
}

/// A recovery that a crash does not explain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditNotedRecovery)]
pub struct NotedRecovery {
    /// Sequence of its record in the log.
    pub sequence: u64,
    /// Time of the recovery, in milliseconds since 1970.
    pub at_ms: u64,
    /// The findings.
    pub recovery: Recovery,
}

/// The last record of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditHead)]
pub struct Anchor {
    /// Sequence of the record in the log.
    pub sequence: u64,
    /// Number of its segment.
    pub segment: u64,
    /// Offset in the segment at which the next record begins, in bytes.
    pub offset: u64,
    /// SHA-256 over the record and the previous hash.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub hash: Sha256,
}

impl Anchor {
    /// The start of an empty log.
    pub const fn empty(segment: u64) -> Self {
        Self { sequence: 0, segment, offset: 0, hash: Sha256([0; 32]) }
    }
}

/// The source of the anchor that the end of the chain was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditAnchor)]
pub enum AnchorSource {
    /// The memory of the running daemon.
    Daemon,
    /// The file `head` in the audit folder.
    HeadFile,
    /// No anchor: a missing end cannot be detected.
    None,
}

/// A SHA-256 hash, displayed and serialized as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes().as_chunks::<2>();
        let (pairs, []) = digits else { return None };
        let pairs: &[[u8; 2]; 32] = pairs.try_into().ok()?;
        let mut sum = [0; 32];
        for (byte, [high, low]) in sum.iter_mut().zip(pairs) {
            *byte = hex_value(*high)? << 4 | hex_value(*low)?;
        }
        Some(Self(sum))
    }

    fn hex(&self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        text
    }
}

fn hex_value(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.hex()).unwrap_or_default())
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(str::from_utf8(&self.hex()).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("expected 64 hexadecimal digits"))
    }
}
