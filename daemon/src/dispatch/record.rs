//! What the audit log and the daemon's own log are told of a call.

use std::borrow::Cow;
use std::sync::Arc;

use ring::digest;
use toolgate_admission::{
    Admitted, Arguments, CallError, ErrorType, Fault, Limits, Refusal, ToolId, Verdict,
};
use toolgate_sandbox::workspace::WorkspaceError;
use toolgate_sandbox::{Component, Finished, LogLevel};

use super::answer::{Answer, Status};
use super::{Origin, RequestedCall};
use crate::audit::{
    self, Audit, AuditError, CallIntent, CallOutcome, EffectRecord, Entry, OutputStamp, PluginStamp, Reason,
    Sha256,
};
use crate::redact::redacted;
use crate::registry::Snapshot;
use crate::sessions::Session;

/// What makes two calls with the same id the same call: the tool as called, and the arguments' bytes.
pub(super) fn fingerprint(tool: &str, arguments: &Sha256) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&arguments.0);
    context.update(tool.as_bytes());
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(context.finish().as_ref());
    fingerprint
}

/// The verdict as an intent: what was asked, what the gate said, and by which rule.
pub(super) fn intent<'a>(
    snapshot: &'a Snapshot,
    session: &'a Session,
    call: &'a RequestedCall,
    arguments_sha256: Sha256,
    verdict: &'a Verdict<Component>,
    origin: &'a Origin,
) -> CallIntent<'a> {
    let setup = &session.setup;
    let seen = Seen::of(snapshot, verdict);
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
        // Of a tool that nobody knows, nobody knows either which arguments are secret.
        arguments: seen
            .redact
            .filter(|_| seen.verdict == audit::Verdict::Run || is_readable(&call.arguments))
            .and_then(|pointers| redacted(&call.arguments, pointers)),
        arguments_sha256,
        verdict: seen.verdict,
        reason: seen.reason,
        policy_revision: snapshot.revision,
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
    redact: Option<&'a [String]>,
    plugin: Option<PluginStamp<'a>>,
}

impl<'a> Seen<'a> {
    fn of(snapshot: &'a Snapshot, verdict: &'a Verdict<Component>) -> Self {
        match verdict {
            Verdict::Run(checked) => Self {
                verdict: audit::Verdict::Run,
                reason: reason(checked.reason()),
                tool: Some(checked.id().to_string()),
                redact: Some(&checked.tool().redact),
                plugin: Some(PluginStamp {
                    version: checked.plugin().descriptor.version.as_str().into(),
                    digest: checked.plugin().digest.as_str().into(),
                }),
            },
            Verdict::NeedsApproval(refusal) => {
                Self::refused(snapshot, refusal, audit::Verdict::NeedsApproval)
            }
            Verdict::Refused(refusal) => Self::refused(snapshot, refusal, audit::Verdict::Refused),
        }
    }

    fn refused(snapshot: &'a Snapshot, refusal: &'a Refusal, verdict: audit::Verdict) -> Self {
        let tool = refusal.tool.as_ref().and_then(|id| snapshot.catalogue.find(&id.to_string()));
        Self {
            verdict,
            reason: reason(&refusal.reason),
            tool: refusal.tool.as_ref().map(ToString::to_string),
            redact: tool.map(|tool| tool.descriptor().redact.as_slice()),
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

/// What became of a call.
pub(super) fn outcome(answer: &Answer) -> CallOutcome<'static> {
    CallOutcome {
        status: match (answer.status, answer.error().map(|error| error.error_type)) {
            (_, Some(ErrorType::Cancelled)) => audit::Status::Cancelled,
            (Status::Ok, _) => audit::Status::Ok,
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
pub(super) fn effects(audit: &Audit, entry: &Entry, finished: &Finished) {
    for effect in &finished.effects {
        let record = EffectRecord { effect: effect.kind.into(), detail: effect.detail.as_str().into() };
        if let Err(error) = audit.effect(entry, record) {
            tracing::error!(%error, "an effect cannot be recorded");
        }
    }
}

/// An exception that was caught: a trap, a limit, an output that breaks the schema. The event has S3's name;
/// a plugin cannot write one, its own events go to a target of their own.
pub(super) fn exception(session: &Session, call: &RequestedCall, tool: &ToolId, answer: &Answer) {
    let Some(error) = answer.error().filter(|error| is_exception(error)) else { return };
    let conversation = session.setup.conversation.as_deref().unwrap_or("");
    tracing::error!(
        event = format!("[{}_call__Exception]", tool.tool),
        session = session.setup.id, conversation, %tool, call = call.id,
        error_type = error.error_type.as_str(), "{:?}", error.message
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
        let (event, message, fields) = (line.event.as_str(), line.message.as_str(), &line.fields);
        macro_rules! write {
            ($level:ident) => {
                tracing::$level!(
                    target: "toolgate::plugin",
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
    CallError::new(
        ErrorType::Unavailable,
        "the session's workspace cannot be opened",
        "call again; the daemon's log says more",
    )
}
