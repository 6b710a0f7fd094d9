//! Sessions and the tools that can be called in them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::audit::Status;
use crate::call::Executed;
use crate::plugin::ToolDetails;

/// A request to open a session.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    /// The agent, as `ORGANIZATION/AGENT`.
    #[schema(
        pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?/[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$",
        max_length = 129,
        example = "acme/support"
    )]
    pub agent: String,
    /// The user for whom the orchestrator acts: an id that it assigns, at most 200 bytes.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$", example = "u-17")]
    pub user: Option<String>,
    /// The conversation of the orchestrator: an id that it assigns, at most 200 bytes.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    pub conversation: Option<String>,
    /// The channel of the conversation: `sms`, `email`, `webchat`, …
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$", example = "webchat")]
    pub channel: Option<String>,
}

/// An open session.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// The id of the session.
    pub session: String,
    /// The agent, as `ORGANIZATION/AGENT`.
    pub agent: String,
    /// The user for whom the orchestrator acts.
    #[schema(required)]
    pub user: Option<String>,
    /// The conversation of the orchestrator.
    #[schema(required)]
    pub conversation: Option<String>,
    /// The channel of the conversation.
    #[schema(required)]
    pub channel: Option<String>,
    /// The callable tools.
    #[schema(value_type = Vec<ToolDefinition>)]
    pub tools: Box<RawValue>,
    /// The system prompt that restricts a model to these tools. It only advises the model; the gate enforces access
    /// without it.
    pub system_prompt: String,
    /// The time at which an unused session ends, in milliseconds since 1970.
    pub expires_at: u64,
}

/// Whether a session takes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// It takes calls.
    Open,
    /// It was ended, or was not used for too long.
    Ended,
}

/// A session in a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SessionSummary {
    /// The id of the session.
    pub session: String,
    /// Whether it takes calls.
    pub state: SessionState,
    /// The agent, as `ORGANIZATION/AGENT`.
    pub agent: String,
    /// The user for whom the orchestrator acts.
    #[schema(required)]
    pub user: Option<String>,
    /// The conversation of the orchestrator.
    #[schema(required)]
    pub conversation: Option<String>,
    /// The channel of the conversation.
    #[schema(required)]
    pub channel: Option<String>,
    /// The id of the token that opened it.
    pub opened_by: String,
    /// The label of that token.
    #[schema(required)]
    pub opened_by_label: Option<String>,
    /// The number of requests with calls so far.
    pub rounds: u64,
    /// The time at which it was opened, in milliseconds since 1970.
    pub created_at: u64,
    /// The time of its last use, in milliseconds since 1970.
    pub last_used_at: u64,
    /// The time at which it ended, in milliseconds since 1970.
    #[schema(required)]
    pub ended_at: Option<u64>,
}

/// A call in the list of a session.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CallSummary {
    /// The id of the call. A call that waited for a person or for its client is in the list once for each attempt.
    pub id: String,
    /// The tool, as `namespace/tool`.
    pub tool: String,
    /// The name that the model called.
    pub name: String,
    /// The call whose script made this one.
    #[schema(required)]
    pub parent: Option<String>,
    /// The status, `running` before its end.
    pub status: Status,
    /// The error's code, where the call ended in one.
    #[schema(required)]
    pub error_type: Option<String>,
    /// Whether guest code began to run; null before the call's end.
    #[schema(required)]
    pub executed: Option<Executed>,
    /// The time at which it was recorded, in milliseconds since 1970.
    pub created_at: u64,
    /// The time at which it ended, in milliseconds since 1970.
    #[schema(required)]
    pub ended_at: Option<u64>,
}

/// The definition of a tool for a model.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ToolDefinition {
    /// The name that a model calls.
    pub name: String,
    /// The name at its source, if it differs.
    #[schema(required)]
    pub original_name: Option<String>,
    /// The description of the tool, with advice on its use.
    pub description: String,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    pub input_schema: Value,
    /// JSON Schema of the result, where the tool declares one.
    #[schema(value_type = Option<Object>, required)]
    pub output_schema: Option<Value>,
    /// Whether the tool changes nothing; unconfirmed hints do not count.
    pub read_only: bool,
    /// Whether a person must approve each call.
    pub requires_approval: bool,
    /// The place of execution: `server`, or `client`, which then executes a prepared payload.
    #[schema(pattern = "^(server|client)$")]
    pub mode: String,
    /// Its details.
    #[serde(flatten)]
    pub details: ToolDetails,
}

/// The tools of a session.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ToolList {
    /// The callable tools, in the requested format: the value of `tools` in a request to that provider.
    #[schema(value_type = Vec<Value>)]
    pub tools: Box<RawValue>,
    /// The differences between the schemas shown here and the enforced ones. Arguments are validated against the latter.
    #[serde(default)]
    #[schema(required)]
    pub changed: Vec<SchemaChange>,
    /// The callable tools that are not in the list.
    #[serde(default)]
    #[schema(required)]
    pub left_out: Vec<LeftOutTool>,
}

/// A difference between the schema of a tool in a list and the enforced schema.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SchemaChange {
    /// The name that a model calls.
    pub tool: String,
    /// JSON pointer into the schema in the list; empty for its root.
    pub pointer: String,
    /// The change.
    pub change: String,
}

/// A callable tool that is not in a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LeftOutTool {
    /// The name that a model calls.
    pub tool: String,
    /// Why the provider would refuse it.
    pub reason: String,
}

/// A request to select tools for a message.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectRequest {
    /// The last message of the conversation.
    #[schema(example = "please refund the last invoice of Ms Bauer")]
    pub message: String,
}

/// The tools that matter for a message.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SelectedTools {
    /// The selected tools, the most relevant first, in the requested format.
    #[schema(value_type = Vec<Value>)]
    pub tools: Box<RawValue>,
    /// The differences between the schemas shown here and the enforced ones.
    #[serde(default)]
    #[schema(required)]
    pub changed: Vec<SchemaChange>,
    /// The selected tools that are not in the list.
    #[serde(default)]
    #[schema(required)]
    pub left_out: Vec<LeftOutTool>,
    /// The reasons for each selected tool, in the same order.
    pub why: Vec<SelectedTool>,
    /// Whether a tool was left out. False if the broker of the organization is disabled, too few tools match the
    /// message, or the session has few tools.
    pub narrowed: bool,
    /// The system prompt that names these tools.
    pub system_prompt: String,
}

/// The reasons for a selected tool.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SelectedTool {
    /// The name that a model calls.
    pub name: String,
    /// Intents and words of the message that match the tool, or the reason for a selection regardless of the message.
    pub why: Vec<String>,
}

/// A request to disable or enable a tool in a session.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolSwitch {
    /// `true` disables the tool; `false` enables it, also after it was disabled for repeated failures.
    pub disabled: bool,
}
