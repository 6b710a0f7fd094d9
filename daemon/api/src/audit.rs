//! Records of the audit log.
//!
//! Field names are stable, since readers of exported logs depend on them; new ones may be added. Strings are `Cow`, so
//! that the daemon borrows the values of a call and a reader gets owned ones.

mod integrity;
mod sha256;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

pub use integrity::{
    AcceptedLoss, Anchor, AnchorSource, Corruption, LostRecords, NotedRecovery, NotedRestore, Recovery,
    RestoredFrom, TornEnd, VerifyReport,
};
pub use sha256::Sha256;

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
#[optional_fields]
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
    pub status: Option<Status>,
    /// The label of the token that made the call or the administrative act. The log has the ids of tokens alone.
    pub principal_label: Option<String>,
    /// The intent of the call.
    pub call: Option<CallIntent<'static>>,
    /// Time of the outcome, in milliseconds since 1970.
    pub closed_at_ms: Option<u64>,
    /// The outcome of the call.
    pub outcome: Option<CallOutcome<'static>>,
    /// The organization's data was deleted: the arguments of the call, the detail of the effect, or the details of the decision
    /// about a call cannot be read any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub arguments_deleted: bool,
    /// Number of effects that did not fit into the log.
    pub effects_lost: Option<u64>,
    /// Sequence of the call that the effect belongs to.
    pub of: Option<u64>,
    /// The effect.
    pub effect: Option<EffectRecord<'static>>,
    /// The administrative act.
    pub admin: Option<AdminRecord<'static>>,
    /// The findings of a start after a crash.
    pub recovery: Option<Recovery>,
    /// The damaged part of this row. With the kind `damaged`, unreadable records between the previous and the next row, of
    /// unknown organizations.
    pub damaged: Option<DamagedRange>,
}

impl Row {
    /// A row without a record.
    pub fn new(sequence: u64, at_ms: u64, kind: Kind) -> Self {
        Self {
            sequence,
            kind,
            at_ms,
            status: None,
            principal_label: None,
            call: None,
            closed_at_ms: None,
            outcome: None,
            arguments_deleted: false,
            effects_lost: None,
            of: None,
            effect: None,
            admin: None,
            recovery: None,
            damaged: None,
        }
    }

    /// The id of the token that made the call or the administrative act.
    pub fn principal(&self) -> Option<&str> {
        let of_call = self.call.as_ref().map(|call| &*call.principal);
        of_call.or(self.admin.as_ref().map(|act| &*act.principal))
    }
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
#[optional_fields]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditDamaged)]
pub struct DamagedRange {
    /// Number of unreadable records, of any organization.
    pub records: u64,
    /// Number of the segment; hidden from tenants, and unknown for an outcome that was lost with other records.
    pub segment: Option<u64>,
    /// Offset in the segment, in bytes; present if `segment` is.
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
#[optional_fields]
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
    pub parent: Option<Cow<'a, str>>,
    /// The agent's name.
    pub agent: Cow<'a, str>,
    /// The user that the orchestrator acts for.
    pub user: Option<Cow<'a, str>>,
    /// The orchestrator's conversation.
    pub conversation: Option<Cow<'a, str>>,
    /// The channel of the session, such as `sms`.
    pub channel: Option<Cow<'a, str>>,
    /// `namespace/tool`, or the called name of an unknown tool.
    pub tool: Cow<'a, str>,
    /// The tool name in the model's call.
    pub wire_name: Cow<'a, str>,
    /// Redacted arguments; absent if the arguments were not JSON.
    #[schema(value_type = Value)]
    pub arguments: Option<Cow<'a, RawValue>>,
    /// SHA-256 of the arguments as they were sent.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub arguments_sha256: Sha256,
    /// JSON pointers of the `null`s for optional arguments that were removed before validation; a redacted argument stands for
    /// what is in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub nulls_removed: Vec<Cow<'a, str>>,
    /// The decision of the gate.
    pub verdict: Verdict,
    /// The layer and rule that decided.
    pub reason: Reason<'a>,
    /// Number of equal refusals that this record stands for: same session, tool, code and rule. The last one is named.
    pub repeated: Option<u64>,
    /// Revision of the rules that decided; grows with every change.
    pub policy_revision: u64,
    /// The plugin at the time of the decision.
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
    #[schema(value_type = String)]
    pub rule: Cow<'a, str>,
    /// Why a call was refused, in the words of `explain`; hidden like the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'a, str>>,
}

impl<'a> Reason<'a> {
    /// The reason by a rule of a layer.
    pub fn by(layer: impl Into<Cow<'a, str>>, rule: impl Into<Cow<'a, str>>) -> Self {
        Self { layer: layer.into(), rule: rule.into(), why: None }
    }

    /// Hides what tenants do not see of a rule of the platform.
    pub fn hide(&mut self) {
        (self.rule, self.why) = ("".into(), None);
    }
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
#[optional_fields]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditOutcome)]
pub struct CallOutcome<'a> {
    /// How the call ended.
    pub status: Status,
    /// Error code, if the call failed.
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
#[optional_fields]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditAct)]
pub struct AdminRecord<'a> {
    /// Organization of the act; absent for an act of the platform.
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
    pub revision: Option<u64>,
    /// Further details, whose schema depends on the action.
    #[schema(value_type = Value)]
    pub details: Option<Cow<'a, RawValue>>,
    /// Interface of the act: `http`, or `daemon` for the daemon itself.
    pub source: Cow<'a, str>,
}
