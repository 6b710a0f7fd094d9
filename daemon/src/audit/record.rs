//! The content of records: plain structs, serialized when something happens and deserialized by a search.
//!
//! A payload is one line of JSON with the fields below. Field names are stable, since readers of exported logs depend on
//! them; new ones may be added. Strings are `Cow`, so that a call borrows its values and a search returns owned ones.
//! Arguments are JSON text, redacted by the caller, beside the SHA-256 of the bytes before redaction.

use std::borrow::Cow;
use std::fmt;

use ring::digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// Limit of an effect's detail, so that a plugin that is denied a thousand long paths cannot fill the log.
pub const EFFECT_DETAIL_BYTES: usize = 1024;
/// Limit of an effect's name.
pub(super) const EFFECT_NAME_BYTES: usize = 64;
/// Limit of an `error_type`, longer than any in use, since an outcome must fit into its reserved space.
pub(super) const ERROR_TYPE_BYTES: usize = 64;

/// The type of a row. A call is two records, folded into one row.
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
    pub(super) fn from_code(code: i64) -> Option<Self> {
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
    /// SHA-256 of the arguments before redaction.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub arguments_sha256: Sha256,
    /// The decision of the gate.
    pub verdict: Verdict,
    /// The layer and rule that decided.
    pub reason: Reason<'a>,
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
    Run,
    NeedsApproval,
    Refused,
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

fn is_hidden(rule: &str) -> bool {
    rule.is_empty()
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

impl CallOutcome<'_> {
    /// The outcome that the log itself writes for a call without one.
    pub(super) fn implicit(
        status: Status,
        error_type: &'static str,
        executed: Executed,
    ) -> CallOutcome<'static> {
        let error_type = Some(Cow::Borrowed(error_type));
        CallOutcome { status, error_type, executed, usage: Usage::default(), duration_us: 0, output: None }
    }
}

/// Status of a call. Records never contain `running`; a search returns it for an intent without outcome.
//
// The numbers are stored in the index: add new ones, never change one. A partial index depends on 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditStatus)]
pub enum Status {
    Running = 0,
    Ok = 1,
    Error = 2,
    ClientRequired = 3,
    ApprovalRequired = 4,
    /// The entry was dropped without an outcome: the client disconnected.
    Cancelled = 5,
    /// The entry was dropped by a panic in the daemon.
    Crashed = 6,
    /// The daemon died while the call ran.
    Unknown = 7,
}

impl Status {
    pub(super) fn from_code(code: i64) -> Option<Self> {
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

/// Whether guest code started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditExecuted)]
pub enum Executed {
    Yes,
    No,
    Unknown,
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
    /// Calls from the guest to the host.
    pub host_calls: u64,
    /// Bytes sent and received over the network.
    pub egress_bytes: u64,
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
    /// `ok`, or an `error_type`.
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
    /// Number of calls that were running when the daemon died; each gets the outcome `unknown`.
    pub unknown: u64,
}

impl Recovery {
    pub fn is_needed(&self) -> bool {
        *self != Self::default()
    }

    /// Returns whether a crash does not explain the findings.
    pub fn is_suspicious(&self) -> bool {
        self.lost.is_some() || self.anchor_missing
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

/// A SHA-256 hash, displayed and serialized as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = [0; 32];
        sum.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
        Self(sum)
    }

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
