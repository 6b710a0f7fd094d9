//! The lifecycle events of a call (G6).

use std::sync::Arc;

use tokio_util::task::task_tracker::TaskTrackerToken;
use toolgate_api::approval::ApprovalState;
use toolgate_api::call::{CallStatus, Executed};
use toolgate_api::error::CallError;
use toolgate_api::event::{Event, EventApproval, EventKind, EventProgress};
use toolgate_audit::outer_id;
use toolgate_sandbox::ProgressSink;
use toolgate_state::clock::now_ms;

use crate::call::{CallOutcome, OutcomeState, RequestedCall};
use crate::events::Events;
use crate::sessions::Session;

/// The events of one call: the attempt, and its end, exactly once, also where its caller disconnects.
pub(super) struct CallEvents<'a> {
    events: &'a Events,
    session: &'a Session,
    call: &'a RequestedCall,
    ended: bool,
    /// Released when the end is emitted: of the session's calls and of all calls.
    _pending: [TaskTrackerToken; 2],
}

impl<'a> CallEvents<'a> {
    /// Emits the attempt, unless the call was emitted before it waited for approval.
    pub(super) fn begin(
        events: &'a Events,
        session: &'a Session,
        call: &'a RequestedCall,
        is_new: bool,
    ) -> Self {
        if is_new {
            emit(events, session, &call.id, &call.tool, |_| EventKind::ToolCall);
        }
        let pending = [session.pending_events().token(), events.pending().token()];
        Self { events, session, call, ended: false, _pending: pending }
    }

    /// The call waits on as it did before this attempt, so nothing has ended.
    pub(super) fn wait_on(mut self) {
        self.ended = true;
    }

    /// Emits the end of the call, or that it waits for a person or client.
    pub(super) fn end(mut self, outcome: &CallOutcome) {
        self.ended = true;
        emit_end(self.events, self.session, outcome);
    }
}

impl Drop for CallEvents<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let state = OutcomeState::Error(CallError::cancellation());
            let outcome = CallOutcome::new(&self.call.id, &self.call.tool, Executed::Unknown, state);
            emit_end(self.events, self.session, &outcome);
        }
    }
}

/// Emits the end of a call, or that it waits for a person or client.
pub(super) fn emit_end(events: &Events, session: &Session, outcome: &CallOutcome) {
    emit(events, session, &outcome.id, &outcome.called, |event| {
        let status = outcome.status();
        event.status = Some(status.as_str().into());
        let error = outcome.error();
        event.error_type = error.map(|error| error.error_type);
        event.message = error.map(|error| error.message.clone());
        event.approval = outcome
            .approval()
            .map(|approval| EventApproval { id: approval.id.clone(), state: ApprovalState::Pending });
        match (status, outcome.executed) {
            (CallStatus::ApprovalRequired, _) => EventKind::Approval,
            (CallStatus::ClientRequired, _) => EventKind::Client,
            (_, Executed::No) => EventKind::ToolError,
            // A call that may have run counts as one that ran.
            (_, Executed::Yes | Executed::Unknown) => EventKind::ToolResult,
        }
    });
}

/// Emits the decision about the approval that a call waits for.
pub(super) fn emit_decision(
    events: &Events,
    session: &Session,
    outcome: &CallOutcome,
    approval: &str,
    state: ApprovalState,
) {
    emit(events, session, &outcome.id, &outcome.called, |event| {
        event.approval = Some(EventApproval { id: approval.to_owned(), state });
        EventKind::Approval
    });
}

/// The sink for the progress of a call; empty where no subscriber listens when the call begins.
pub(super) fn progress(events: &Events, session: &Arc<Session>, call: &RequestedCall) -> ProgressSink {
    if !events.has_subscribers() {
        return ProgressSink::NONE;
    }
    let (events, session, call) = (events.clone(), Arc::clone(session), call.clone());
    ProgressSink::new(move |done, total, message| {
        emit(&events, &session, &call.id, &call.tool, |event| {
            event.progress = Some(EventProgress { done, total, message: message.map(str::to_owned) });
            EventKind::Progress
        });
    })
}

fn emit(
    events: &Events,
    session: &Session,
    call: &str,
    tool: &str,
    fill: impl FnOnce(&mut Event) -> EventKind,
) {
    let setup = &session.setup;
    events.emit(&setup.organization, || {
        let (organization, agent) = (setup.organization.as_str(), setup.agent.as_str());
        let mut event = Event {
            session: setup.id.clone(),
            conversation: setup.conversation.clone(),
            call: call.into(),
            parent: outer_id(call).map(str::to_owned),
            tool: tool.into(),
            ..Event::new(EventKind::ToolCall, now_ms(), organization, agent)
        };
        event.event = fill(&mut event);
        event
    });
}
