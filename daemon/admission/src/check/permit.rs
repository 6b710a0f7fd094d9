//! Permits: a call that passed the gate ([`Checked`]), and one that was charged as well ([`Admitted`]).
//!
//! Both hold the same facts and have no public constructor: `check` creates the first, the ledger turns it into the
//! second, and the sandbox runs nothing else. The permit owns the component, so a call cannot be paired with another
//! plugin than the one that the decision was about.
//!
//! ```compile_fail
//! # fn forge(facts: Box<toolgate_admission::CallFacts<()>>) {
//! let admitted = toolgate_admission::Checked(facts);
//! # }
//! ```

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_api::content::{BLOCKS, ContentBlock};
use toolgate_api::descriptor::{Hints, Mode};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::json::{JsonError, parse_strict};
use toolgate_api::limits::Limits;
use toolgate_api::name::{ToolId, WireName};
use toolgate_api::policy::Autonomy;

use super::refusal;
use super::verdict::Reason;
use crate::approval::{Approval, ApprovalBinding};
use crate::arguments::Arguments;
use crate::descriptor::ToolDescriptor;
use crate::egress::CallAccess;
use crate::quota::{CallQuotas, Reservation, Used};
use crate::rules::{Digest, Plugin, Tool};
use crate::schema::{Schema, SchemaError, SchemaRole};

/// Deepest nesting of a result: common JSON parsers of clients return an error beyond it.
const OUTPUT_DEPTH: u64 = 128;

const BROKEN_CONTRACT: &str = "the plugin returned an invalid result: report it to its publisher";

/// A call that passed the gate: tool, arguments, limits and access.
pub struct CallFacts<P> {
    tool: Tool<P>,
    called: Arc<str>,
    arguments: Arguments,
    limits: Limits,
    access: Arc<CallAccess>,
    quotas: CallQuotas,
    settings: Option<Arc<str>>,
    reason: Reason,
}

/// A call that passed the gate. Only [`check()`](super::check()) creates one.
#[derive(Debug)]
pub struct Checked<P>(Box<CallFacts<P>>);

/// A call that passed the gate and was charged, which the sandbox runs. Only
/// [`Ledger::charge`](crate::Ledger::charge) creates one.
#[derive(Debug)]
pub struct Admitted<P> {
    facts: Box<CallFacts<P>>,
    reservation: Mutex<Reservation>,
}

/// A call that passed every rule and needs a person's approval. Only [`check()`](super::check()) creates one, and only an
/// approval that covers it turns it into a [`Checked`].
#[derive(Debug)]
pub struct Unapproved<P> {
    checked: Checked<P>,
    autonomy: Autonomy,
}

impl<P> Unapproved<P> {
    pub(super) fn new(checked: Checked<P>, autonomy: Autonomy) -> Self {
        Self { checked, autonomy }
    }

    /// Returns the key that an approval of this call is bound to: tool, arguments, and the rules that require approval.
    pub fn binding(&self) -> ApprovalBinding {
        ApprovalBinding {
            tool: self.id().clone(),
            plugin: self.digest().clone(),
            rules: json!({
                "asked_by": self.reason().rule,
                "autonomy": self.autonomy.as_str(),
                "reaches": self.access().binding(),
            })
            .to_string(),
            arguments: Arc::clone(self.arguments().raw_text()),
        }
    }

    /// Whether an approval covers the call.
    pub fn is_covered_by(&self, approval: &Approval) -> bool {
        approval.covers(&self.binding(), self.arguments().value())
    }

    /// Returns the call as [`Checked`] if the approval covers it, or itself as the error. The caller, which stores the
    /// approval, makes sure that it is not used up.
    pub fn approved_by(self, approval: &Approval) -> Result<Checked<P>, Self> {
        match self.is_covered_by(approval) {
            true => Ok(self.checked),
            false => Err(self),
        }
    }
}

impl<P> Deref for Unapproved<P> {
    type Target = CallFacts<P>;

    fn deref(&self) -> &CallFacts<P> {
        &self.checked
    }
}

impl<P> Checked<P> {
    pub(super) fn new(
        tool: Tool<P>,
        called: Arc<str>,
        arguments: Arguments,
        limits: Limits,
        access: Arc<CallAccess>,
        quotas: CallQuotas,
        reason: Reason,
    ) -> Self {
        let settings = None;
        Self(Box::new(CallFacts { tool, called, arguments, limits, access, quotas, settings, reason }))
    }

    /// Gives the call its organization's settings of the plugin.
    pub(super) fn with_settings(mut self, settings: Option<Arc<str>>) -> Self {
        self.0.settings = settings;
        self
    }

    /// Narrows the limits to what the quotas of the call have left.
    pub(crate) fn narrow(&mut self, limits: Limits) {
        self.0.limits = limits;
    }

    /// Only for the ledger, after it has charged the call.
    pub(crate) fn admit(self, reservation: Reservation) -> Admitted<P> {
        Admitted { facts: self.0, reservation: Mutex::new(reservation) }
    }
}

impl<P> Deref for Checked<P> {
    type Target = CallFacts<P>;

    fn deref(&self) -> &CallFacts<P> {
        &self.0
    }
}

impl<P> Deref for Admitted<P> {
    type Target = CallFacts<P>;

    fn deref(&self) -> &CallFacts<P> {
        &self.facts
    }
}

impl<P> Admitted<P> {
    /// Notes that the guest begins to run. A call that never begins used nothing; one that is dropped while it runs used
    /// all that its quotas reserved for it.
    pub fn begin(&self) {
        self.reservation.lock().begin();
    }

    /// Counts what the call used instead of what was reserved; none for a call that never ran.
    pub fn settle(&self, used: Option<&Used>) {
        self.reservation.lock().settle(used);
    }

    /// The error of a call that used up the fuel that a quota left it; none if its own limit was lower.
    pub fn fuel_quota_error(&self) -> Option<CallError> {
        self.reservation.lock().narrowed_by().map(refusal::fuel_quota_error)
    }
}

impl<P> CallFacts<P> {
    /// The component to run.
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

    /// The organization's settings of the plugin, as JSON text; none if it has set nothing.
    pub fn settings(&self) -> Option<&Arc<str>> {
        self.settings.as_ref()
    }

    /// The tool as its plugin describes it.
    pub fn tool(&self) -> &ToolDescriptor {
        self.tool.descriptor()
    }

    /// The hints that count.
    pub fn hints(&self) -> Hints {
        self.tool.hints()
    }

    /// `namespace/tool`.
    pub fn id(&self) -> &ToolId {
        self.tool.id()
    }

    /// The tool's wire name, which models call it by.
    pub fn wire(&self) -> &WireName {
        &self.tool.descriptor().wire
    }

    /// The name as the model wrote it.
    pub fn called_name(&self) -> &str {
        &self.called
    }

    /// The arguments, as raw text and parsed.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// The limits of the call.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The files, requests and credentials that the call may access.
    pub fn access(&self) -> &Arc<CallAccess> {
        &self.access
    }

    pub(crate) fn quotas(&self) -> &CallQuotas {
        &self.quotas
    }

    /// The rule that let the call pass.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Validates a result against the output schema (R3). Returns its output byte for byte and its content blocks if the tool
    /// declares such (R11); otherwise the whole result is the output.
    pub fn check_result(&self, json: &str) -> Result<Option<(String, Vec<ContentBlock>)>, CallError> {
        if !self.tool().content {
            return self.check_output(json).map(|()| None);
        }
        // Also refuses what the parser below would take: repeated keys, too deep values.
        parse_strict(json, OUTPUT_DEPTH).map_err(|error| self.unreadable(&error))?;
        let result: ResultWithContent<'_> =
            serde_json::from_str(json).map_err(|error| self.wrong_content(&error.to_string()))?;
        if result.content.len() > BLOCKS {
            return Err(self.wrong_content(&format!("more than {BLOCKS} blocks")));
        }
        if let Some(fault) = result.content.iter().find_map(ContentBlock::fault) {
            return Err(self.wrong_content(fault));
        }
        let output = result.output.map_or("null", RawValue::get);
        self.check_output(output)?;
        Ok(Some((output.to_owned(), result.content)))
    }

    fn wrong_content(&self, fault: &str) -> CallError {
        let message = format!("the result of `{}` is no output with content blocks: {fault}", self.id());
        CallError::new(ErrorType::InvalidOutput, message, BROKEN_CONTRACT)
    }

    /// Validates an output against the output schema (R3).
    pub fn check_output(&self, json: &str) -> Result<(), CallError> {
        self.check_mode(Mode::Server)?;
        let value = parse_strict(json, OUTPUT_DEPTH).map_err(|error| self.unreadable(&error))?;
        let Some(schema) = &self.tool().output else { return Ok(()) };
        schema.validate(&value).map_err(|violations| refusal::invalid_output(&violations, &self.called))
    }

    /// Validates the result that a client sends for its part of a call (T3), and returns it byte for byte.
    pub fn check_client_result(&self, json: impl Into<String>) -> Result<String, CallError> {
        check_client_result(
            json.into(),
            &self.called,
            self.limits.output_bytes,
            self.tool().output.as_deref(),
        )
    }

    /// Checks the payload that a tool of mode `client` prepared for the client, and returns it byte for byte. It has no
    /// schema.
    pub fn check_client_payload(&self, json: impl Into<String>) -> Result<String, CallError> {
        let json = json.into();
        self.check_mode(Mode::Client)?;
        parse_output(&json, self.limits.output_bytes, |error| self.unreadable(error))?;
        Ok(json)
    }

    /// Refuses a result of another mode than the tool declares (T3).
    fn check_mode(&self, found: Mode) -> Result<(), CallError> {
        let declared = self.tool().mode;
        if declared == found {
            return Ok(());
        }
        let (id, declared, found) = (self.id(), declared.as_str(), found.as_str());
        let message = format!("the tool `{id}` has mode `{declared}` and answered as one of mode `{found}`");
        Err(CallError::new(ErrorType::InvalidOutput, message, BROKEN_CONTRACT))
    }

    fn unreadable(&self, error: &JsonError) -> CallError {
        let message = format!("the result of `{}` is not acceptable JSON: {error}", self.id());
        CallError::new(ErrorType::InvalidOutput, message, BROKEN_CONTRACT)
    }
}

/// The check of a client's result (T3) without the call's permit, for a call that outlives the daemon which admitted it.
#[derive(Debug)]
pub struct ClientResultCheck {
    called: Arc<str>,
    output_bytes: u64,
    schema: Option<Schema>,
}

impl ClientResultCheck {
    /// Compiles the tool's output schema. `called` is the tool as the model named it.
    pub fn new(called: Arc<str>, output_bytes: u64, schema: Option<&Value>) -> Result<Self, SchemaError> {
        let schema = schema.map(|source| Schema::compile(source, SchemaRole::Output)).transpose()?;
        Ok(Self { called, output_bytes, schema })
    }

    /// Validates a result, and returns it byte for byte.
    pub fn check(&self, json: impl Into<String>) -> Result<String, CallError> {
        check_client_result(json.into(), &self.called, self.output_bytes, self.schema.as_ref())
    }

    /// Most bytes of a result, and the source of its schema.
    pub fn source(&self) -> (u64, Option<&Value>) {
        (self.output_bytes, self.schema.as_ref().map(Schema::source))
    }
}

fn check_client_result(
    json: String,
    called: &str,
    most: u64,
    schema: Option<&Schema>,
) -> Result<String, CallError> {
    let value = parse_output(&json, most, refusal::unreadable_client_result)?;
    if let Some(schema) = schema {
        schema.validate(&value).map_err(|violations| refusal::invalid_client_result(&violations, called))?;
    }
    Ok(json)
}

fn parse_output(json: &str, most: u64, error: impl Fn(&JsonError) -> CallError) -> Result<Value, CallError> {
    let bytes = json.len() as u64;
    if bytes > most {
        let message = format!("the result has {bytes} bytes, more than the {most} allowed");
        let hint = "ask for less: a narrower query, or a part at a time";
        return Err(CallError::new(ErrorType::OutputTooLarge, message, hint));
    }
    parse_strict(json, OUTPUT_DEPTH).map_err(|json_error| error(&json_error))
}

/// A result of a tool that declares `content`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultWithContent<'a> {
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    content: Vec<ContentBlock>,
}

/// Omits the arguments, which can hold secrets.
impl<P> fmt::Debug for CallFacts<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CallFacts")
            .field("id", &self.id().to_string())
            .field("arguments", &self.arguments)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}
