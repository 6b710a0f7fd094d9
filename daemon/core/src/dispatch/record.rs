//! The records of a call in the audit log, and its lines in the daemon's log.

use std::borrow::Cow;
use std::sync::Arc;

use toolgate_admission::{
    Admitted, Arguments, CallFacts, Catalogue, Refusal, Rules, ToolDescriptor, Verdict,
};
use toolgate_api::call::CallStatus;
use toolgate_api::error::{CallError, ErrorType, Fault};
use toolgate_api::limits::Limits;
use toolgate_api::name::{ToolId, read_called_name};
use toolgate_audit as audit;
use toolgate_audit::{
    Audit, AuditError, CallIntent, CallOutcome, EffectRecord, Entry, Executed, OutputStamp, PluginStamp,
    Reason, Sha256,
};
use toolgate_sandbox::workspace::WorkspaceError;
use toolgate_sandbox::{Component, FinishedCall, LogLevel};

use super::{Attempt, Charged, Origin};
use crate::call::{self, RequestedCall, usage_record};
use crate::logging::{AsJson, CAUGHT, GUESTS};
use crate::redact::{Secrets, redact, redact_effect, redact_unvalidated, secret_words};
use crate::sessions::{PendingCall, PendingOn, RepeatedRefusals, Session};

/// The decision on a call, and its inputs.
#[derive(Clone, Copy)]
pub(super) struct Decision<'a> {
    pub verdict: &'a Charged,
    pub catalogue: &'a Catalogue<Component>,
    pub revision: u64,
    /// E-mail addresses are not recorded.
    pub redacts_emails: bool,
}

/// Whether the platform's or the organization's policy keeps e-mail addresses out of the log. An organization can only add it.
pub(super) fn redacts_emails(rules: &Rules<Component>) -> bool {
    rules.platform.document().redact.emails || rules.organization.document().redact.emails
}

/// The intent: the request, the verdict, and the rule that decided.
pub(super) fn intent<'a>(decision: Decision<'a>, attempt: &Attempt<'a>) -> CallIntent<'a> {
    let Attempt { session, call, arguments_sha256, origin, .. } = *attempt;
    let recorded = RecordedVerdict::of(decision.catalogue, decision.verdict);
    // An unknown tool declares no `redact` pointers, so its arguments are not recorded.
    let arguments = recorded.descriptor.and_then(|tool| {
        let secrets = Secrets { pointers: &tool.redact, emails: decision.redacts_emails };
        match decision.verdict {
            Verdict::Refused(_) if is_readable(&call.arguments) => {
                redact_unvalidated(&call.arguments, secrets, tool.input.source())
            }
            Verdict::Refused(_) => None,
            // The validated arguments: the gate maps names of properties back (M5).
            Verdict::Run(facts) => redact(facts.arguments().raw(), secrets),
            Verdict::NeedsApproval(facts) => redact(facts.arguments().raw(), secrets),
        }
    });
    let nulls_removed = match (decision.verdict, recorded.descriptor) {
        (Verdict::Run(facts), Some(tool)) => removed_nulls(facts, tool),
        (Verdict::NeedsApproval(facts), Some(tool)) => removed_nulls(facts, tool),
        _ => Vec::new(),
    };
    let recorded =
        intent_without_arguments(session, (&call.id, &call.tool), recorded, decision.revision, origin);
    CallIntent { arguments, arguments_sha256, nulls_removed, ..recorded }
}

/// The places of removed `null`s. Names inside a secret argument are not told.
fn removed_nulls<'a>(facts: &'a CallFacts<Component>, tool: &'a ToolDescriptor) -> Vec<Cow<'a, str>> {
    let removed = facts.arguments().removed_nulls().iter();
    let shown = removed.map(|place| {
        let is_around = |secret: &&String| {
            place.strip_prefix(&***secret).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        Cow::from(tool.redact.iter().find(is_around).unwrap_or(place).as_str())
    });
    shown.collect()
}

fn intent_without_arguments<'a>(
    session: &'a Session,
    (call, called): (&'a str, &'a str),
    recorded: RecordedVerdict<'a>,
    policy_revision: u64,
    origin: &'a Origin,
) -> CallIntent<'a> {
    let setup = &session.setup;
    CallIntent {
        organization: setup.organization.as_str().into(),
        session: setup.id.as_str().into(),
        call: call.into(),
        parent: audit::outer_id(call).map(Cow::from),
        agent: setup.agent.as_str().into(),
        user: setup.user.as_deref().map(Cow::from),
        conversation: setup.conversation.as_deref().map(Cow::from),
        channel: setup.channel.as_deref().map(Cow::from),
        tool: recorded.tool.map_or(Cow::Borrowed(called), Cow::Owned),
        wire_name: called.into(),
        arguments: None,
        arguments_sha256: Sha256([0; 32]),
        nulls_removed: Vec::new(),
        verdict: recorded.verdict,
        reason: recorded.reason,
        repeated: None,
        policy_revision,
        plugin: recorded.plugin,
        source: origin.source.into(),
        principal: Cow::Borrowed(&origin.principal),
    }
}

/// Whether refused arguments can stand in a record. JSON that not every parser reads (a number beyond all doubles, half of
/// a surrogate pair, a hundred thousand levels) would make the log unreadable, and long arguments would fill it. Their hash
/// is always recorded.
fn is_readable(arguments: &Arc<str>) -> bool {
    Arguments::parse(arguments, Limits::DEFAULT.arguments_bytes, Limits::CEILING.arguments_depth).is_ok()
}

/// The recorded parts of a verdict.
struct RecordedVerdict<'a> {
    verdict: audit::Verdict,
    reason: Reason<'a>,
    tool: Option<String>,
    descriptor: Option<&'a ToolDescriptor>,
    plugin: Option<PluginStamp<'a>>,
}

impl<'a> RecordedVerdict<'a> {
    fn of(catalogue: &'a Catalogue<Component>, verdict: &'a Charged) -> Self {
        match verdict {
            Verdict::Run(checked) => Self::of_facts(checked, audit::Verdict::Run),
            Verdict::NeedsApproval(unapproved) => Self::of_facts(unapproved, audit::Verdict::NeedsApproval),
            Verdict::Refused(refusal) => Self::of_refusal(catalogue, refusal),
        }
    }

    fn of_facts(facts: &'a CallFacts<Component>, verdict: audit::Verdict) -> Self {
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

    /// The call was admitted, perhaps in an earlier run of the daemon, and waits for its client.
    fn of_client_part(outcome: &'a call::CallOutcome, reason: Reason<'a>) -> Self {
        Self {
            verdict: audit::Verdict::Run,
            reason,
            tool: outcome.tool.as_ref().map(ToString::to_string),
            descriptor: None,
            plugin: outcome.plugin.as_ref().map(|plugin| PluginStamp {
                version: plugin.version.as_str().into(),
                digest: plugin.digest.as_str().into(),
            }),
        }
    }

    fn of_refusal(catalogue: &'a Catalogue<Component>, refusal: &'a Refusal) -> Self {
        let tool = refusal.tool.as_ref().and_then(|id| catalogue.find(&id.to_string()));
        Self {
            verdict: audit::Verdict::Refused,
            reason: Reason { why: refusal.why.as_deref().map(shown_why), ..reason(&refusal.reason) },
            tool: refusal.tool.as_ref().map(ToString::to_string),
            descriptor: tool.map(|tool| tool.descriptor()),
            plugin: tool.map(|tool| PluginStamp {
                version: tool.plugin().descriptor.version.as_str().into(),
                digest: tool.plugin().digest.as_str().into(),
            }),
        }
    }
}

/// The beginning of a refusal's words: they name entries of documents, which can be long.
fn shown_why(why: &str) -> Cow<'_, str> {
    const BYTES: usize = 300;
    why.get(..why.floor_char_boundary(BYTES)).unwrap_or_default().into()
}

fn reason(reason: &toolgate_admission::Reason) -> Reason<'_> {
    Reason::by(reason.layer.as_str(), reason.rule)
}

/// The outcome as it is recorded.
pub(super) fn outcome(outcome: &call::CallOutcome) -> CallOutcome<'static> {
    CallOutcome {
        status: match (outcome.status(), outcome.error().map(|error| error.error_type)) {
            (_, Some(ErrorType::Cancelled)) => audit::Status::Cancelled,
            (CallStatus::Ok, _) => audit::Status::Ok,
            (CallStatus::ClientRequired, _) => audit::Status::ClientRequired,
            (CallStatus::ApprovalRequired, _) => audit::Status::ApprovalRequired,
            (CallStatus::Running, _) => audit::Status::Running,
            (CallStatus::Unknown, _) => audit::Status::Unknown,
            (CallStatus::Error, _) => audit::Status::Error,
        },
        error_type: outcome.error().map(|error| error.error_type.as_str().into()),
        executed: outcome.executed,
        usage: usage_record(&outcome.usage),
        duration_us: u64::try_from(outcome.duration.as_micros()).unwrap_or(u64::MAX),
        output: match outcome.spilled_result() {
            Some(result) => Some(OutputStamp { sha256: result.sha256, bytes: result.bytes }),
            None => outcome.output().map(|json| OutputStamp {
                sha256: audit::sha256(json.get().as_bytes()),
                bytes: json.get().len() as u64,
            }),
        },
    }
}

/// The outcome of a refused call.
pub(super) fn refused_outcome(error_type: ErrorType) -> CallOutcome<'static> {
    CallOutcome {
        status: audit::Status::Error,
        error_type: Some(error_type.as_str().into()),
        executed: Executed::No,
        usage: audit::Usage::default(),
        duration_us: 0,
        output: None,
    }
}

/// The outcome of a pending call. The record of its first part has the usage.
pub(super) fn client_outcome(outcome: &call::CallOutcome) -> CallOutcome<'static> {
    CallOutcome { usage: audit::Usage::default(), ..self::outcome(outcome) }
}

/// Equal refusals that were counted, as one record: the intent of the last of them.
pub(super) fn repeated_intent<'a>(
    session: &'a Session,
    refusals: &'a RepeatedRefusals,
    origin: &'a Origin,
) -> CallIntent<'a> {
    let RepeatedRefusals { kind, last, count } = refusals;
    let recorded = RecordedVerdict {
        verdict: audit::Verdict::Refused,
        reason: reason(&kind.reason),
        tool: last.tool.as_ref().map(ToString::to_string),
        descriptor: None,
        plugin: None,
    };
    let call = (last.call.as_str(), &*kind.called);
    let recorded = intent_without_arguments(session, call, recorded, last.policy_revision, origin);
    CallIntent { repeated: Some(*count), arguments_sha256: last.arguments_sha256, ..recorded }
}

/// Records the effects of a call. A record that fails stops the log, and closing the entry reports it.
///
/// Arguments that the tool declares secret are removed, also from URLs.
pub(super) fn effects(
    audit: &Audit,
    entry: &Entry,
    admitted: &Admitted<Component>,
    finished: &FinishedCall,
    redacts_emails: impl FnOnce() -> bool,
) {
    if finished.effects.is_empty() {
        return;
    }
    let secrets = secret_words(admitted.arguments().raw(), &admitted.tool().redact);
    let emails = redacts_emails();
    for effect in &finished.effects {
        let record =
            EffectRecord { effect: effect.kind.into(), detail: redact_effect(effect, &secrets, emails) };
        if let Err(error) = audit.effect(entry, record) {
            tracing::error!(%error, "an effect cannot be recorded");
        }
    }
}

/// Records that the call consumed a use of an approval.
pub(super) fn approval_use(audit: &Audit, entry: &Entry, approval: &str) {
    let record = EffectRecord { effect: "approval_used".into(), detail: approval.into() };
    if let Err(error) = audit.effect(entry, record) {
        tracing::error!(%error, "an effect cannot be recorded");
    }
}

/// The client's part of a call, recorded as a call of its own under the same id.
pub(super) fn client_intent<'a>(
    session: &'a Session,
    pending: &'a PendingCall,
    policy_revision: u64,
    origin: &'a Origin,
) -> CallIntent<'a> {
    let reason = Reason::by("session", "client_result");
    let recorded = RecordedVerdict::of_client_part(&pending.outcome, reason);
    pending_intent(session, pending, recorded, policy_revision, origin)
}

/// The cancellation of a pending call, recorded as a call of its own under the same id.
pub(super) fn cancelled_intent<'a>(
    session: &'a Session,
    pending: &'a PendingCall,
    policy_revision: u64,
    origin: &'a Origin,
) -> CallIntent<'a> {
    let reason = Reason::by("session", "cancelled");
    let recorded = match &pending.on {
        PendingOn::Client(_) => RecordedVerdict::of_client_part(&pending.outcome, reason),
        PendingOn::Person | PendingOn::Script { .. } => RecordedVerdict {
            verdict: audit::Verdict::NeedsApproval,
            reason,
            tool: read_called_name(&pending.outcome.called).map(|tool| tool.to_string()),
            descriptor: None,
            plugin: None,
        },
    };
    pending_intent(session, pending, recorded, policy_revision, origin)
}

fn pending_intent<'a>(
    session: &'a Session,
    pending: &'a PendingCall,
    recorded: RecordedVerdict<'a>,
    policy_revision: u64,
    origin: &'a Origin,
) -> CallIntent<'a> {
    let call = (pending.outcome.id.as_str(), &*pending.outcome.called);
    let recorded = intent_without_arguments(session, call, recorded, policy_revision, origin);
    CallIntent { arguments_sha256: Sha256(pending.arguments), ..recorded }
}

/// Logs a failure that the plugin did not report itself (T6). The event has S3's name. A plugin cannot write one, since its
/// events go to another target.
pub(super) fn log_exception(session: &Session, outcome: &call::CallOutcome, tool: &ToolId) {
    let Some(error) = outcome.error().filter(|error| is_exception(error)) else { return };
    let setup = &session.setup;
    tracing::error!(
        target: CAUGHT,
        event = format!("[{}_call__Exception]", tool.tool),
        organization = %setup.organization, agent = %setup.agent,
        session = setup.id, conversation = setup.conversation_or_empty(), %tool, call = outcome.id,
        error_type = error.error_type.as_str(), "{:?}", AsJson(&error.message)
    );
}

/// A trap, a limit, or invalid output (T6). A failure that the plugin reports itself is an answer.
fn is_exception(error: &CallError) -> bool {
    error.error_type.fault() == Fault::Sandbox && error.error_type != ErrorType::ToolFailed
}

/// Logs the plugin's lines, with session, conversation and tool added.
pub(super) fn log_lines(
    session: &Session,
    call: &RequestedCall,
    admitted: &Admitted<Component>,
    finished: &FinishedCall,
) {
    let tool = admitted.id();
    let conversation = session.setup.conversation_or_empty();
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

/// A call that cannot be recorded does not run (9.10).
pub(super) fn unrecordable(error: &AuditError) -> CallError {
    let error_type = match error {
        AuditError::TooLarge { .. } => ErrorType::TooLarge,
        _ => ErrorType::Unavailable,
    };
    CallError::new(error_type, error.to_string(), error.hint())
}

/// The error without the path, which only the daemon's log has.
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
