//! What a record says: plain structs that go in when something happens and come out of a search.
//!
//! A payload is one line of JSON that begins with `kind` and `at_ms`; the rest are the fields below under
//! their own names, which are stable: readers of exported logs hold on to them, new ones may be added.
//! Strings are `Cow`, so that the way of a call borrows what it has, and a search hands out what it owns.
//! Arguments come in as text that is JSON already, redacted by the caller, beside the SHA-256 of the bytes
//! before redaction; nothing here looks into them.

use std::borrow::Cow;
use std::fmt;

use ring::digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// Bytes kept of an effect's detail, so that a plugin that is refused a thousand long paths cannot fill the
/// log.
pub const EFFECT_DETAIL_BYTES: usize = 1024;
/// Bytes kept of an effect's name.
pub(super) const EFFECT_NAME_BYTES: usize = 64;
/// Bytes kept of an `error_type`. The closed list has nothing near it; outcomes must fit the space set aside
/// for them.
pub(super) const ERROR_TYPE_BYTES: usize = 64;

/// What a record is about. One call is two records, folded into one row of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditKind)]
pub enum Kind {
    /// A call: what was asked for, and what became of it.
    Call,
    /// Something that a call did or tried outside of itself.
    Effect,
    /// An act of administration.
    Admin,
    /// Written by the log itself when it started after a crash.
    Recovery,
    /// Never written: a search shows it of records that can no longer be read, or be known from others.
    Damaged,
}

/// An intent: this call was attempted, and this is what the gate said. A refused call has one too, closed at
/// once.
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
    /// Whom the orchestrator acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub user: Option<Cow<'a, str>>,
    /// The orchestrator's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub conversation: Option<Cow<'a, str>>,
    /// Where the session takes place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub channel: Option<Cow<'a, str>>,
    /// `namespace/tool`, or the name as it was called where there is no such tool.
    pub tool: Cow<'a, str>,
    /// The name that the model called.
    pub wire_name: Cow<'a, str>,
    /// Redacted arguments; none where what came was not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub arguments: Option<Cow<'a, RawValue>>,
    /// Over the bytes as they came, before redaction.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub arguments_sha256: Sha256,
    /// What the gate decided.
    pub verdict: Verdict,
    /// Which layer decided, by which rule.
    pub reason: Reason<'a>,
    /// The number of the rules that decided; it grows with every change.
    pub policy_revision: u64,
    /// The plugin as it was when the call was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PluginStamp<'a>, required = false)]
    pub plugin: Option<PluginStamp<'a>>,
    /// The door it came in by: `http`, `mcp`, `try`, `quickstart`.
    pub source: Cow<'a, str>,
    /// The id of the token that asked.
    pub principal: Cow<'a, str>,
}

/// What the gate decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditVerdict)]
pub enum Verdict {
    Run,
    NeedsApproval,
    Refused,
}

/// Which layer decided, by which rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditReason)]
pub struct Reason<'a> {
    /// `platform`, `organization`, `agent`, `session`, …
    pub layer: Cow<'a, str>,
    /// The rule within it; not shown of the platform's layer to its tenants.
    #[serde(default, skip_serializing_if = "is_hidden")]
    #[schema(value_type = String, required = false)]
    pub rule: Cow<'a, str>,
}

fn is_hidden(rule: &str) -> bool {
    rule.is_empty()
}

/// The plugin as it was when the call was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditPlugin)]
pub struct PluginStamp<'a> {
    /// As the plugin says.
    pub version: Cow<'a, str>,
    /// SHA-256 of the component: `sha256:` and 64 hexadecimal digits.
    pub digest: Cow<'a, str>,
}

/// An outcome: what became of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditOutcome)]
pub struct CallOutcome<'a> {
    /// How it ended.
    pub status: Status,
    /// The code, where it ended in an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub error_type: Option<Cow<'a, str>>,
    /// Whether guest code began.
    pub executed: Executed,
    /// What it used, also when it was stopped.
    #[serde(default)]
    pub usage: Usage,
    /// From the intent to the outcome, waits included, in microseconds.
    #[serde(default)]
    pub duration_us: u64,
    /// What proves the output, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = OutputStamp, required = false)]
    pub output: Option<OutputStamp>,
}

impl CallOutcome<'_> {
    /// What is written for a call that nobody closed.
    pub(super) fn abandoned(
        status: Status,
        error_type: &'static str,
        executed: Executed,
    ) -> CallOutcome<'static> {
        let error_type = Some(Cow::Borrowed(error_type));
        CallOutcome { status, error_type, executed, usage: Usage::default(), duration_us: 0, output: None }
    }
}

/// `running` is never written; it is what a search shows of an intent without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditStatus)]
pub enum Status {
    Running,
    Ok,
    Error,
    ClientRequired,
    ApprovalRequired,
    /// The entry was dropped without an outcome: the caller hung up.
    Cancelled,
    /// The entry was dropped by a panic in the daemon.
    Crashed,
    /// The daemon died while it ran.
    Unknown,
}

/// Whether guest code began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditExecuted)]
pub enum Executed {
    Yes,
    No,
    Unknown,
}

/// What the call used, also when it was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = AuditUsage)]
pub struct Usage {
    /// Guest instructions.
    pub fuel: u64,
    /// The most memory that it had at one time, in bytes.
    pub memory_bytes: u64,
    /// Time in the sandbox, in microseconds.
    pub duration_us: u64,
    /// Calls of the guest into the host.
    pub host_calls: u64,
    /// Bytes over the network, both ways together.
    pub egress_bytes: u64,
    /// What it wrote to the log, in bytes.
    pub log_bytes: u64,
}

/// The output is a tenant's data and stays out of the log; this is enough to prove what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditOutput)]
pub struct OutputStamp {
    /// Over the output as JSON text.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub sha256: Sha256,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Something a call did or tried outside of itself: a write, a request, a denial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditEffect)]
pub struct EffectRecord<'a> {
    /// The kind of effect: `workspace_write`, `file_denied`, `network_denied`, `network_request`.
    pub effect: Cow<'a, str>,
    /// Cut to `EFFECT_DETAIL_BYTES`; without queries and secrets.
    pub detail: Cow<'a, str>,
}

/// An administrative act.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditAct)]
pub struct AdminRecord<'a> {
    /// The organization that it concerns; none for the platform's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub organization: Option<Cow<'a, str>>,
    /// The id of the token that acted; `toolgate` for what the daemon did by itself.
    pub principal: Cow<'a, str>,
    /// `plugin.load`, `agent.put`, `token.revoke`.
    pub action: Cow<'a, str>,
    /// What it acted on: a namespace, a document's key.
    pub target: Cow<'a, str>,
    /// `ok`, or an `error_type`.
    pub outcome: Cow<'a, str>,
    /// The number of the rules that were in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub revision: Option<u64>,
    /// More, in a form that depends on the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub details: Option<Cow<'a, RawValue>>,
    /// The door it came in by: `http`; `daemon` for what came in by none.
    pub source: Cow<'a, str>,
}

/// What the log found when it was started after a crash. Also a record of its own in the chain, so that what
/// was cut stays known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = AuditRecovery)]
pub struct Recovery {
    /// The end of the newest segment that was not a whole record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Cut, required = false)]
    pub cut: Option<Cut>,
    /// Acknowledged records that the `head` file or the index knows and the folder no longer has. A crash cannot
    /// do this: somebody, or a disk that lies about syncs, shortened a file, emptied the folder, or put back an
    /// older copy of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Lost, required = false)]
    pub lost: Option<Lost>,
    /// The `head` file was not there, so that nobody can say whether the end of the log is.
    pub anchor_missing: bool,
    /// Calls that were running when the daemon died; each has got the outcome `unknown`.
    pub unknown: u64,
}

impl Recovery {
    pub fn is_needed(&self) -> bool {
        *self != Self::default()
    }

    /// Whether more happened than a crash explains.
    pub fn is_suspicious(&self) -> bool {
        self.lost.is_some() || self.anchor_missing
    }
}

/// A torn end, made of bytes that were never acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditCut)]
pub struct Cut {
    /// The number of the segment.
    pub segment: u64,
    /// Where in it, in bytes.
    pub offset: u64,
    /// From there to the last byte that was not zero.
    pub bytes: u64,
}

/// What should be there and is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditLost)]
pub struct Lost {
    /// The last record that is still there.
    pub after_sequence: u64,
    /// The last record that was acknowledged.
    pub acknowledged_sequence: u64,
    /// The hash that the chain had there, in hexadecimal digits.
    pub acknowledged_hash: String,
}

/// A SHA-256, shown and stored as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = [0; 32];
        sum.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
        Self(sum)
    }

    /// Reads 64 hexadecimal digits.
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
