//! The permit: a call that passed the gate, and one that was charged as well.
//!
//! [`Checked`] and [`Admitted`] hold the same facts and have no public way in: `check` makes the first, the
//! ledger turns it into the second, and the sandbox runs nothing else. The component travels inside, so
//! a call cannot be paired with another plugin than the one that was decided about.
//!
//! ```compile_fail
//! # fn forge(facts: Box<toolgate_admission::Facts<()>>) {
//! let admitted = toolgate_admission::Admitted(facts);
//! # }
//! ```

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Reason, refusal};
use serde_json::json;

use crate::approval::{Approval, Binding};
use crate::arguments::{Arguments, JsonError, parse_strict};
use crate::descriptor::{Mode, ToolDescriptor};
use crate::egress::Reach;
use crate::error::{CallError, ErrorType};
use crate::limits::Limits;
use crate::name::{ToolId, WireName};
use crate::rules::{Autonomy, Digest, Plugin, Tool};

/// Deepest nesting of a result: common parsers, those of callers among them, stop here.
const OUTPUT_DEPTH: u64 = 128;

/// What is known of a call that passed the gate.
pub struct Facts<P> {
    tool: Tool<P>,
    called: Arc<str>,
    arguments: Arguments,
    limits: Limits,
    reach: Arc<Reach>,
    reason: Reason,
}

/// A call that passed the gate. Only [`check()`](super::check()) makes one.
pub struct Checked<P>(Box<Facts<P>>);

/// A call that passed the gate and was charged: what the sandbox runs. Only
/// [`Ledger::charge`](crate::Ledger::charge) makes one.
pub struct Admitted<P>(Box<Facts<P>>);

/// A call that passed every rule but the one that asks for a person. Only [`check()`](super::check()) makes one, and only
/// an approval that covers it makes it a [`Checked`].
pub struct Unapproved<P> {
    checked: Checked<P>,
    autonomy: Autonomy,
}

impl<P> Unapproved<P> {
    pub(super) fn new(checked: Checked<P>, autonomy: Autonomy) -> Self {
        Self { checked, autonomy }
    }

    /// What an approval of this call is bound to: what it would do, and the rules that ask.
    pub fn binding(&self) -> Binding {
        Binding {
            tool: self.id().clone(),
            plugin: self.digest().clone(),
            rules: json!({
                "asked_by": self.reason().rule,
                "autonomy": self.autonomy.as_str(),
                "reaches": self.reach().bound(),
            })
            .to_string(),
            arguments: Arc::clone(self.arguments().raw_text()),
        }
    }

    /// Whether an approval covers the call.
    pub fn is_covered_by(&self, approval: &Approval) -> bool {
        approval.covers(&self.binding(), self.arguments().value())
    }

    /// The call as it may run, if the approval covers it; itself again if not. That the approval has not been used up
    /// is for the caller to see to, who keeps it.
    pub fn approved_by(self, approval: &Approval) -> Result<Checked<P>, Self> {
        match self.is_covered_by(approval) {
            true => Ok(self.checked),
            false => Err(self),
        }
    }
}

impl<P> Deref for Unapproved<P> {
    type Target = Facts<P>;

    fn deref(&self) -> &Facts<P> {
        &self.checked
    }
}

impl<P> fmt::Debug for Unapproved<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Unapproved").field(&self.checked).finish()
    }
}

impl<P> Checked<P> {
    pub(super) fn new(
        tool: Tool<P>,
        called: Arc<str>,
        arguments: Arguments,
        limits: Limits,
        reach: Arc<Reach>,
        reason: Reason,
    ) -> Self {
        Self(Box::new(Facts { tool, called, arguments, limits, reach, reason }))
    }

    /// For the ledger alone, once it has charged the call.
    pub(crate) fn admit(self) -> Admitted<P> {
        Admitted(self.0)
    }
}

impl<P> Deref for Checked<P> {
    type Target = Facts<P>;

    fn deref(&self) -> &Facts<P> {
        &self.0
    }
}

impl<P> Deref for Admitted<P> {
    type Target = Facts<P>;

    fn deref(&self) -> &Facts<P> {
        &self.0
    }
}

impl<P> Facts<P> {
    /// What runs.
    pub fn component(&self) -> &P {
        &self.tool.plugin().component
    }

    /// The plugin it belongs to.
    pub fn plugin(&self) -> &Plugin<P> {
        self.tool.plugin()
    }

    /// The digest of the plugin.
    pub fn digest(&self) -> &Digest {
        &self.tool.plugin().digest
    }

    /// What the plugin says of the tool.
    pub fn tool(&self) -> &ToolDescriptor {
        self.tool.descriptor()
    }

    /// `namespace/tool`.
    pub fn id(&self) -> &ToolId {
        self.tool.id()
    }

    /// What a model calls the tool.
    pub fn wire(&self) -> &WireName {
        &self.tool.descriptor().wire
    }

    /// The name that the model called, as it wrote it.
    pub fn called(&self) -> &str {
        &self.called
    }

    /// The arguments, as they came and as they read.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// What the call may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What the call may reach: asked for, granted, and left by the agent's document.
    pub fn reach(&self) -> &Arc<Reach> {
        &self.reach
    }

    /// Why it may run.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Checks a result against the output schema (R3) and gives it back byte for byte.
    pub fn check_output(&self, json: impl Into<String>) -> Result<String, CallError> {
        let json = json.into();
        self.check_mode(Mode::Server)?;
        self.check_text(&json)?;
        let value = parse_strict(&json, OUTPUT_DEPTH).map_err(|error| self.unreadable(&error))?;
        if let Some(schema) = &self.tool().output {
            schema.check(&value).map_err(|violations| refusal::invalid_output(&violations, &self.called))?;
        }
        Ok(json)
    }

    /// Checks what a client says came of its part of a call (T3), and gives it back byte for byte.
    pub fn check_client_result(&self, json: impl Into<String>) -> Result<String, CallError> {
        let json = json.into();
        self.check_text(&json)?;
        let value =
            parse_strict(&json, OUTPUT_DEPTH).map_err(|error| refusal::unreadable_client_result(&error))?;
        match &self.tool().output {
            None => Ok(json),
            Some(schema) => match schema.check(&value) {
                Ok(()) => Ok(json),
                Err(violations) => Err(refusal::invalid_client_result(&violations, &self.called)),
            },
        }
    }

    /// Checks the payload that a tool of mode `client` prepared, and gives it back byte for byte. Its form is
    /// a matter between plugin and client.
    pub fn check_client_payload(&self, json: impl Into<String>) -> Result<String, CallError> {
        let json = json.into();
        self.check_mode(Mode::Client)?;
        self.check_text(&json)?;
        parse_strict(&json, OUTPUT_DEPTH).map_err(|error| self.unreadable(&error))?;
        Ok(json)
    }

    /// T3: a tool ends where it said it would.
    fn check_mode(&self, ended: Mode) -> Result<(), CallError> {
        let declared = self.tool().mode;
        if declared == ended {
            return Ok(());
        }
        let message = format!(
            "the tool `{}` has mode `{}` and answered as one of mode `{}`",
            self.id(),
            declared.as_str(),
            ended.as_str()
        );
        Err(CallError::new(
            ErrorType::InvalidOutput,
            message,
            "the plugin broke its own contract: tell its publisher",
        ))
    }

    fn check_text(&self, json: &str) -> Result<(), CallError> {
        if json.len() as u64 <= self.limits.output_bytes {
            return Ok(());
        }
        let message = format!(
            "the result has {} bytes, more than the {} allowed",
            json.len(),
            self.limits.output_bytes
        );
        Err(CallError::new(
            ErrorType::OutputTooLarge,
            message,
            "ask for less: a narrower query, or a part at a time",
        ))
    }

    fn unreadable(&self, error: &JsonError) -> CallError {
        let message = format!("the result of `{}` is not acceptable JSON: {error}", self.id());
        CallError::new(
            ErrorType::InvalidOutput,
            message,
            "the plugin broke its own contract: tell its publisher",
        )
    }
}

/// Shows what was decided and nothing of what was sent.
impl<P> fmt::Debug for Facts<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Facts")
            .field("id", &self.id().to_string())
            .field("arguments", &self.arguments)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<P> fmt::Debug for Checked<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Checked").field(&self.0).finish()
    }
}

impl<P> fmt::Debug for Admitted<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Admitted").field(&self.0).finish()
    }
}
