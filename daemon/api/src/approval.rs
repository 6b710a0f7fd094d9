//! Approvals and decisions about them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::words::words;

words! {
    /// State of an approval.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
    pub enum ApprovalState {
        /// Not decided yet.
        Pending = "pending",
        /// Approved, with uses left.
        Approved = "approved",
        /// Denied.
        Denied = "denied",
        /// Approved, with all uses consumed.
        Used = "used",
        /// Expired before a decision or the last use.
        Expired = "expired",
        /// The tool, arguments or rules that it was bound to have changed, or the session ended.
        Void = "void",
    }
}

impl ApprovalState {
    /// Parses a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// An approval.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ApprovalView {
    /// The approval's id.
    pub id: String,
    /// The approval's state.
    pub state: ApprovalState,
    /// The organization.
    pub organization: String,
    /// The agent that made the call.
    pub agent: String,
    /// The session.
    pub session: String,
    /// The id of the call that requires the approval.
    pub call: String,
    /// The user that the orchestrator acts for.
    #[schema(required)]
    pub user: Option<String>,
    /// The orchestrator's conversation.
    #[schema(required)]
    pub conversation: Option<String>,
    /// The channel of the conversation.
    #[schema(required)]
    pub channel: Option<String>,
    /// `namespace/tool`.
    pub tool: String,
    /// The plugin's version, as the plugin declares it.
    pub plugin_version: String,
    /// The hash of the plugin's bytes; the approval is valid for this plugin only.
    pub plugin_digest: String,
    /// The arguments, byte for byte, as an approved call runs with them.
    #[schema(value_type = Object)]
    pub arguments: Box<RawValue>,
    /// The rules that required the approval and the call's network access; a change of them makes the approval void.
    #[schema(value_type = Object)]
    pub rules: Box<RawValue>,
    /// The id of the token that made the call.
    pub asked_by: String,
    /// The label of that token.
    pub asked_by_label: Option<String>,
    /// When the approval was requested.
    pub created_at: u64,
    /// The deadline for the decision, or for the use of an approved call.
    pub expires_at: u64,
    /// The number of calls that the approval still allows.
    pub uses_left: u64,
    /// The fields of the arguments that may vary, and how.
    #[schema(value_type = Object)]
    pub constraints: Option<Box<RawValue>>,
    /// The arguments that the approver gave, with which the call runs in place of `arguments`.
    #[schema(value_type = Object)]
    pub arguments_instead: Option<Box<RawValue>>,
    /// The decider's reason.
    pub reason: Option<String>,
    /// The id of the token that decided.
    pub decided_by: Option<String>,
    /// The label of that token.
    pub decided_by_label: Option<String>,
    /// When the decision was made.
    pub decided_at: Option<u64>,
}

/// A decision about an approval.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// `approve` or `deny`.
    pub decision: Choice,
    /// The reason, in words. The model is told the reason of a denial.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Places of the arguments that may vary: JSON pointers, each with a JSON Schema, or with the value that it must
    /// have. Other places keep the value that is shown. Without it exactly this call is approved.
    #[schema(value_type = Object, example = json!({"/amount": {"type": "integer", "maximum": 100}}))]
    pub arguments: Option<Box<RawValue>>,
    /// Other arguments, with which the call runs once when it is posted again. They are validated as the call's own, and
    /// the model is told them as the approver's. Not together with `arguments` or `uses`.
    #[schema(value_type = Object)]
    pub arguments_instead: Option<Box<RawValue>>,
    /// Calls that are approved. Left out: 1.
    #[schema(minimum = 1, maximum = 1000)]
    pub uses: Option<u64>,
    /// When the approval expires, in milliseconds since 1970. Left out: after the time that the operator has set.
    pub expires_at: Option<u64>,
}

/// Approve or deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The call may run.
    Approve,
    /// The call ends as denied.
    Deny,
}

/// The approval that a call waits for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ApprovalStamp {
    /// Its id, under `/v1/approvals`.
    pub id: String,
    /// Its state.
    pub state: ApprovalState,
    /// When it expires, in milliseconds since 1970.
    pub expires_at: u64,
}
