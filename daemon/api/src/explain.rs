//! Explanations: why an agent may call a tool, or may not.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::error::ErrorType;
use crate::plugin::ToolDetails;

/// The tools that an agent may call, with the reasons.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// `ORGANIZATION/AGENT`.
    pub agent: String,
    /// The channel of the explanation.
    #[schema(required)]
    pub channel: Option<String>,
    /// The session of the explanation.
    #[schema(required)]
    pub session: Option<String>,
    /// Counts changes of rules and plugins since the daemon was started.
    pub revision: u64,
    /// The tools, those of a plugin beside each other.
    pub tools: Vec<ExplainedTool>,
}

/// Whether an agent may call a tool, and why.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ExplainedTool {
    /// `namespace/tool`, or the requested name where there is no such tool.
    pub tool: String,
    /// The verdict on a call: `allowed`, `needs_approval`, `refused`.
    pub verdict: ToolVerdict,
    /// The code of a refused call.
    pub error_type: Option<ErrorType>,
    /// The layer that decided.
    pub layer: Cow<'static, str>,
    /// The rule that decided. Tenants do not see the platform's rules.
    pub rule: Option<Cow<'static, str>>,
    /// The same in words.
    pub why: Option<String>,
    /// The lists that leave out a tool that can be called: MCP clients that cannot perform its calls are not shown a tool of mode
    /// `client`.
    pub left_out: Option<Cow<'static, str>>,
    /// Credentials that calls over MCP without a user go without, since they are not shared; as `PROVIDER/NAME`.
    pub not_over_mcp: Option<Vec<String>>,
    /// What the plugin asks for and has no grant for, as fields of a grant: what needs it fails, also after an approval.
    pub not_granted: Option<Vec<Cow<'static, str>>>,
    /// Every rule of the gate in order, with its verdict; only for one requested tool.
    pub steps: Option<Vec<ExplainedStep>>,
    /// The details of the tool; only for one requested tool.
    pub details: Option<ToolDetails>,
}

/// The verdict on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolVerdict {
    /// The call runs.
    Allowed,
    /// The call waits for a person.
    NeedsApproval,
    /// The call is refused.
    Refused,
}

/// One rule of the gate.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ExplainedStep {
    /// The rule's layer.
    pub layer: Cow<'static, str>,
    /// The rule. Tenants do not see the platform's rules.
    pub rule: Option<Cow<'static, str>>,
    /// The verdict.
    pub verdict: StepAnswer,
    /// The verdict in words.
    pub why: Option<String>,
}

/// The verdict of one rule of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepAnswer {
    /// The rule lets the tool through.
    Passes,
    /// The rule asks for a person's approval.
    NeedsApproval,
    /// The rule refuses the tool.
    Refuses,
}
