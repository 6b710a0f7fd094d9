//! What the audit log and the daemon's own log are told of a call.

use std::borrow::Cow;
use std::sync::Arc;

use toolgate_admission::{
    Admitted, Arguments, CallError, Catalogue, ErrorType, Facts, Fault, Limits, Refusal, ToolDescriptor,
    ToolId, Verdict, read_called_name,
};
use toolgate_sandbox::workspace::WorkspaceError;
use toolgate_sandbox::{Component, Finished, LogLevel};

use super::answer::Answer;
use super::{Origin, RequestedCall};
use crate::audit::{
    self, Audit, AuditError, CallIntent, CallOutcome, EffectRecord, Entry, OutputStamp, PluginStamp, Reason,
    Sha256,
};
use crate::logging::{AsJson, CAUGHT, GUESTS};
use crate::redact::{redact, redact_effect, redact_unvalidated, secret_words};
use crate::sessions::{ClientCall, Session, Status, WaitsFor};

/// What the gate said of a call, and what it looked at.
#[derive(Clone, Copy)]
pub(super) struct Decided<'a> {
    pub verdict: &'a Verdict<Component>,
    pub catalogue: &'a Catalogue<Component>,
    pub revision: u64,
}

/// The verdict as an intent: what was asked, what the gate said, and by which rule.
pub(super) fn intent<'a>(
    decided: Decided<'a>,
    session: &'a Session,
    call: &'a RequestedCall,
    arguments_sha256: Sha256,
    origin: &'a Origin,
) -> CallIntent<'a> {
    let seen = Seen::of(decided.catalogue, decided.verdict);
    // Of a tool that nobody knows, nobody knows either which arguments are secret.
    let arguments = seen.descriptor.and_then(|tool| match seen.verdict {
        audit::Verdict::Refused if is_readable(&call.arguments) => {
            redact_unvalidated(&call.arguments, &tool.redact, tool.input.source())
        }
        audit::Verdict::Refused => None,
        audit::Verdict::Run | audit::Verdict::NeedsApproval => redact(&call.arguments, &tool.redact),
    });
    let recorded = by_session(session, call, seen, decided.revision, origin);
    CallIntent { arguments, arguments_sha256, ..recorded }
}

/// An intent without its arguments.
fn by_session<'a>(
    session: &'a Session,
    call: &'a RequestedCall,
    seen: Seen<'a>,
    policy_revision: u64,
    origin: &'a Origin,
) -> CallIntent<'a> {
    let setup = &session.setup;
    CallIntent {
        organization: setup.organization.as_str().into(),
        session: setup.id.as_str().into(),
        call: call.id.as_str().into(),
        agent: setup.agent.as_str().into(),
        user: setup.user.as_deref().map(Cow::from),
        conversation: setup.conversation.as_deref().map(Cow::from),
        channel: setup.channel.as_deref().map(Cow::from),
        tool: seen.tool.map_or(Cow::Borrowed(&*call.tool), Cow::Owned),
        wire_name: (&*call.tool).into(),
        arguments: None,
        arguments_sha256: Sha256([0; 32]),
        verdict: seen.verdict,
        reason: seen.reason,
        policy_revision,
        plugin: seen.plugin,
        source: origin.door.into(),
        principal: Cow::Borrowed(&origin.principal),
    }
}

/// Whether arguments that were refused can stand in a record: what not every reader can read (a number beyond all
/// doubles, half of a surrogate pair, a hundred thousand levels) would make the whole log unreadable, and what is
/// refused for its length would fill it. Their hash is recorded in any case.
fn is_readable(arguments: &Arc<str>) -> bool {
    Arguments::parse(arguments, Limits::DEFAULT.arguments_bytes, Limits::CEILING.arguments_depth).is_ok()
}

/// The parts of a verdict that are recorded.
struct Seen<'a> {
    verdict: audit::Verdict,
    reason: Reason<'a>,
    tool: Option<String>,
    descriptor: Option<&'a ToolDescriptor>,
    plugin: Option<PluginStamp<'a>>,
}

impl<'a> Seen<'a> {
    fn of(catalogue: &'a Catalogue<Component>, verdict: &'a Verdict<Component>) -> Self {
        match verdict {
            Verdict::Run(checked) => Self::sound(checked, audit::Verdict::Run),
            Verdict::NeedsApproval(unapproved) => Self::sound(unapproved, audit::Verdict::NeedsApproval),
            Verdict::Refused(refusal) => Self::refused(catalogue, refusal, audit::Verdict::Refused),
        }
    }

    fn sound(facts: &'a Facts<Component>, verdict: audit::Verdict) -> Self {
        Self {
            verdict,
            reason: reason(facts.reason()),
            tool: Some(facts.id().to_string()),
            descriptor: Some(facts.tool()),
            plugin: Some(PluginStamp {
                version: facts.plugin().descriptor.version.as_str().into(),
                digest: facts.plugin().digest.as_str().into(),
            }),
        }
    }

    fn refused(catalogue: &'a Catalogue<Component>, refusal: &'a Refusal, verdict: audit::Verdict) -> Self {
        let tool = refusal.tool.as_ref().and_then(|id| catalogue.find(&id.to_string()));
        Self {
            verdict,
            reason: reason(&refusal.reason),
            tool: refusal.tool.as_ref().map(ToString::to_string),
            descriptor: tool.map(|tool| tool.descriptor()),
            plugin: tool.map(|tool| PluginStamp {
                version: tool.plugin().descriptor.version.as_str().into(),
                digest: tool.plugin().digest.as_str().into(),
            }),
        }
    }
}

fn reason(reason: &toolgate_admission::Reason) -> Reason<'_> {
    Reason { layer: reason.layer.as_str().into(), rule: reason.rule.into() }
}

/// An attempt at what the agent may not call, under S1's name (G3): for those who watch the daemon's own log.
pub(super) fn refused(session: &Session, call: &RequestedCall, verdict: &Verdict<Component>) {
    let Verdict::Refused(refusal) = verdict else { return };
    if refusal.error.error_type != ErrorType::AccessDenied {
        return;
    }
    let setup = &session.setup;
    tracing::warn!(
        event = "unauthorized_access", organization = %setup.organization, agent = %setup.agent,
        session = setup.id, conversation = setup.conversation.as_deref().unwrap_or(""), call = call.id,
        tool = ?call.tool, layer = refusal.reason.layer.as_str(), rule = refusal.reason.rule,
        "an agent attempted a tool that it may not call"
    );
}

/// What became of a call.
pub(super) fn outcome(answer: &Answer) -> CallOutcome<'static> {
    CallOutcome {
        status: match (answer.status, answer.error().map(|error| error.error_type)) {
            (_, Some(ErrorType::Cancelled)) => audit::Status::Cancelled,
            (Status::Ok, _) => audit::Status::Ok,
            (Status::ClientRequired, _) => audit::Status::ClientRequired,
            (Status::ApprovalRequired, _) => audit::Status::ApprovalRequired,
            (Status::Running, _) => audit::Status::Running,
            (Status::Unknown, _) => audit::Status::Unknown,
            (Status::Error, _) => audit::Status::Error,
        },
        error_type: answer.error().map(|error| error.error_type.as_str().into()),
        executed: answer.executed.into(),
        usage: (&answer.usage).into(),
        duration_us: u64::try_from(answer.waited.as_micros()).unwrap_or(u64::MAX),
        output: answer
            .output()
            .map(|json| OutputStamp { sha256: Sha256::of(json.as_bytes()), bytes: json.len() as u64 }),
    }
}

/// What the call did outside itself. A record that does not go in stops the log, and closing says so.
///
/// What of the arguments the tool calls secret is in none of them, also where it was put into an address.
pub(super) fn effects(
    audit: &Audit,
    entry: &Entry,
    call: &RequestedCall,
    admitted: &Admitted<Component>,
    finished: &Finished,
) {
    if finished.effects.is_empty() {
        return;
    }
    let secrets = secret_words(&call.arguments, &admitted.tool().redact);
    for effect in &finished.effects {
        let record = EffectRecord { effect: effect.kind.into(), detail: redact_effect(effect, &secrets) };
        if let Err(error) = audit.effect(entry, record) {
            tracing::error!(%error, "an effect cannot be recorded");
        }
    }
}

/// That a person's approval was used for a call.
pub(super) fn approval_used(audit: &Audit, entry: &Entry, approval: &str) {
    let record = EffectRecord { effect: "approval_used".into(), detail: approval.into() };
    if let Err(error) = audit.effect(entry, record) {
        tracing::error!(%error, "an effect cannot be recorded");
    }
}

/// The second half of a call, which its client performed, as a call of its own under the same id.
pub(super) fn client_intent<'a>(
    session: &'a Session,
    call: &'a RequestedCall,
    client: &'a ClientCall,
    policy_revision: u64,
    origin: &'a Origin,
) -> CallIntent<'a> {
    let reason = Reason { layer: "session".into(), rule: "client_result".into() };
    let seen = Seen { reason, ..Seen::sound(&client.admitted, audit::Verdict::Run) };
    let recorded = by_session(session, call, seen, policy_revision, origin);
    CallIntent { arguments_sha256: Sha256(client.arguments), ..recorded }
}

/// The end of a call that was cancelled while it waited for somebody, as a call of its own under the same id.
pub(super) fn cancelled_intent<'a>(
    session: &'a Session,
    call: &'a RequestedCall,
    waited_for: &'a WaitsFor,
    policy_revision: u64,
    origin: &'a Origin,
) -> CallIntent<'a> {
    let reason = Reason { layer: "session".into(), rule: "cancelled".into() };
    let (seen, arguments) = match waited_for {
        WaitsFor::Client(client) => {
            (Seen { reason, ..Seen::sound(&client.admitted, audit::Verdict::Run) }, client.arguments)
        }
        WaitsFor::Person(waiting) => {
            let tool = read_called_name(&call.tool).map(|tool| tool.to_string());
            let verdict = audit::Verdict::NeedsApproval;
            (Seen { verdict, reason, tool, descriptor: None, plugin: None }, waiting.arguments)
        }
    };
    let recorded = by_session(session, call, seen, policy_revision, origin);
    CallIntent { arguments_sha256: Sha256(arguments), ..recorded }
}

/// How a tool ended, for those who watch the daemon's own log (O5). One that worked is told at `debug`: the audit log has
/// every call, and a line of text for each would cost more than the gate.
pub(super) fn ended(session: &Session, call: &RequestedCall, tool: &ToolId, answer: &Answer) {
    let conversation = session.setup.conversation.as_deref().unwrap_or("");
    let Some(error) = answer.error() else {
        tracing::debug!(
            event = "tool_executed", organization = %session.setup.organization, agent = %session.setup.agent,
            session = session.setup.id, conversation, %tool, call = call.id, fuel = answer.usage.fuel, "a tool was executed"
        );
        return;
    };
    if !is_exception(error) {
        return;
    }
    // A trap, a limit, an output that breaks the schema. The event has S3's name; a plugin cannot write one, its own
    // events go to a target of their own.
    tracing::error!(
        target: CAUGHT,
        event = format!("[{}_call__Exception]", tool.tool),
        session = session.setup.id, conversation, %tool, call = call.id,
        error_type = error.error_type.as_str(), "{:?}", AsJson(&error.message)
    );
}

/// A failure that the plugin reports itself is an answer.
fn is_exception(error: &CallError) -> bool {
    error.error_type.fault() == Fault::Sandbox && error.error_type != ErrorType::ToolFailed
}

/// What the plugin logged, with session, conversation and tool added.
pub(super) fn log(
    session: &Session,
    call: &RequestedCall,
    admitted: &Admitted<Component>,
    finished: &Finished,
) {
    let tool = admitted.id();
    let conversation = session.setup.conversation.as_deref().unwrap_or("");
    let session = session.setup.id.as_str();
    for line in &finished.log {
        let (event, message, fields) = (AsJson(&line.event), AsJson(&line.message), AsJson(&line.fields));
        macro_rules! write {
            ($level:ident) => {
                tracing::$level!(
                    target: GUESTS,
                    session, conversation, %tool, call = call.id, event = ?event, fields = ?fields,
                    "{message:?}"
                )
            };
        }
        match line.level {
            LogLevel::Debug => write!(debug),
            LogLevel::Info => write!(info),
            LogLevel::Warn => write!(warn),
            LogLevel::Error => write!(error),
        }
    }
    if finished.log_lines_dropped > 0 {
        let dropped = finished.log_lines_dropped;
        tracing::warn!(session, conversation, %tool, dropped, "the log of a call was cut at its limit");
    }
}

/// A call that cannot be recorded does not run.
pub(super) fn unrecordable(error: &AuditError) -> CallError {
    let error_type = match error {
        AuditError::TooLarge { .. } => ErrorType::TooLarge,
        _ => ErrorType::Unavailable,
    };
    CallError::new(error_type, error.to_string(), error.hint())
}

/// The session's files cannot be reached. The path stays in the daemon's log.
pub(super) fn workspace_unavailable(error: &WorkspaceError) -> CallError {
    tracing::error!(%error, "a workspace cannot be opened");
    let (message, hint) = match error {
        WorkspaceError::DiskFull => (error.to_string(), error.hint()),
        _ => {
            ("the session's workspace cannot be opened".to_owned(), "call again; the daemon's log says more")
        }
    };
    CallError::new(ErrorType::Unavailable, message, hint)
}
