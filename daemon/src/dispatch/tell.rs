//! What those who listen are told of a call.

use std::sync::Arc;

use tokio_util::task::task_tracker::TaskTrackerToken;
use toolgate_sandbox::ProgressSink;

use super::answer::{Answer, Executed};
use super::{RequestedCall, now_ms};
use crate::events::{Event, EventApproval, EventBody, EventKind, EventProgress, Events};
use crate::sessions::{Session, Status};

/// Tells of one call: that it is attempted, and how it ends, once, also where its caller hangs up.
pub(super) struct Teller<'a> {
    events: &'a Events,
    session: &'a Session,
    call: &'a RequestedCall,
    ended: bool,
    /// Let go of when the end is told: of the session's calls and of all.
    _telling: [TaskTrackerToken; 2],
}

impl<'a> Teller<'a> {
    /// Tells that the call is attempted; not again of one that waited for approval.
    pub fn begin(events: &'a Events, session: &'a Session, call: &'a RequestedCall, is_new: bool) -> Self {
        if is_new {
            tell(events, session, call, |_| EventKind::ToolCall);
        }
        let telling = [session.telling().token(), events.telling().token()];
        Self { events, session, call, ended: false, _telling: telling }
    }

    /// Tells that the call ended, or waits for somebody.
    pub fn end(mut self, answer: &Answer) {
        self.ended = true;
        ended(self.events, self.session, self.call, answer);
    }
}

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        if !self.ended {
            ended(self.events, self.session, self.call, &Answer::cancelled());
        }
    }
}

/// A call ended, or waits for somebody.
pub(super) fn ended(events: &Events, session: &Session, call: &RequestedCall, answer: &Answer) {
    tell(events, session, call, |body| {
        body.status = Some(answer.status.as_str());
        let error = answer.error();
        body.error_type = error.map(|error| error.error_type.as_str());
        body.message = error.map(|error| error.message.as_str());
        body.approval = answer.approval_id().map(|id| EventApproval { id, state: "pending" });
        match (answer.status, answer.executed) {
            (Status::ApprovalRequired, _) => EventKind::Approval,
            (Status::ClientRequired, _) => EventKind::Client,
            (_, Executed::No) => EventKind::ToolError,
            // What may have run is told as what did.
            (_, Executed::Yes | Executed::Unknown) => EventKind::ToolResult,
        }
    });
}

/// A person has decided about the approval that a call waits for.
pub(super) fn decided(
    events: &Events,
    session: &Session,
    call: &RequestedCall,
    approval: &str,
    state: &'static str,
) {
    tell(events, session, call, |body| {
        body.approval = Some(EventApproval { id: approval, state });
        EventKind::Approval
    });
}

/// Tells how far a call is; nothing where nobody listens when it begins.
pub(super) fn progress(events: &Events, session: &Arc<Session>, call: &RequestedCall) -> ProgressSink {
    if !events.anybody() {
        return ProgressSink::NONE;
    }
    let (events, session, call) = (events.clone(), Arc::clone(session), call.clone());
    ProgressSink::new(move |done, total, message| {
        tell(&events, &session, &call, |body| {
            body.progress = Some(EventProgress { done, total, message });
            EventKind::Progress
        });
    })
}

fn tell<'a>(
    events: &Events,
    session: &'a Session,
    call: &'a RequestedCall,
    fill: impl FnOnce(&mut EventBody<'a>) -> EventKind,
) {
    let setup = &session.setup;
    events.tell(&setup.organization, || {
        let mut body = EventBody {
            event: EventKind::ToolCall,
            at_ms: now_ms(),
            organization: setup.organization.as_str(),
            agent: setup.agent.as_str(),
            session: &setup.id,
            conversation: setup.conversation.as_deref(),
            call: &call.id,
            tool: &call.tool,
            status: None,
            error_type: None,
            message: None,
            approval: None,
            progress: None,
        };
        body.event = fill(&mut body);
        Event {
            kind: body.event,
            session: setup.id.as_str().into(),
            call: call.id.as_str().into(),
            // Strings and numbers: nothing of it can fail.
            json: serde_json::to_string(&body).unwrap_or_default().into(),
        }
    });
}
