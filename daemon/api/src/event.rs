//! Lifecycle events of calls, as server-sent events carry them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::approval::ApprovalState;
use crate::error::ErrorType;
use crate::words::words;

words! {
    /// The kind of an event.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    pub enum EventKind {
        /// A call was attempted.
        ToolCall = "tool_call",
        /// The tool reported progress.
        Progress = "progress",
        /// The call waits for a person, or a person has decided.
        Approval = "approval",
        /// The tool prepared a payload for the client.
        Client = "client",
        /// The call ran, with or without success.
        ToolResult = "tool_result",
        /// The call did not run.
        ToolError = "tool_error",
        /// An agent sent a message to this one (T12). It has no session, call or tool.
        Message = "message",
        /// A session was refused, since its agent has no tools. It has no call and no tool.
        Error = "error",
    }
}

/// An event of a call.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// The kind.
    pub event: EventKind,
    /// The time, in milliseconds since 1970.
    pub at_ms: u64,
    /// The organization.
    pub organization: String,
    /// The agent.
    pub agent: String,
    /// The session; of the event `error`, the one that was not opened.
    pub session: String,
    /// The orchestrator's conversation.
    pub conversation: Option<String>,
    /// The call's id; empty in the event `error`.
    pub call: String,
    /// The call whose script made this one.
    pub parent: Option<String>,
    /// The tool as the model named it; empty in the event `error`.
    pub tool: String,
    /// The call's status.
    pub status: Option<Cow<'static, str>>,
    /// The error's code, where the call ended in one.
    #[schema(value_type = String)]
    pub error_type: Option<ErrorType>,
    /// The error's message.
    pub message: Option<String>,
    /// The approval's id and state.
    pub approval: Option<EventApproval>,
    /// The tool's progress.
    pub progress: Option<EventProgress>,
    /// The message that arrived.
    pub inbox: Option<EventMessage>,
}

impl Event {
    /// An event of an agent, without a session or a call.
    pub fn new(event: EventKind, at_ms: u64, organization: &str, agent: &str) -> Self {
        Self {
            event,
            at_ms,
            organization: organization.to_owned(),
            agent: agent.to_owned(),
            session: String::new(),
            conversation: None,
            call: String::new(),
            parent: None,
            tool: String::new(),
            status: None,
            error_type: None,
            message: None,
            approval: None,
            progress: None,
            inbox: None,
        }
    }
}

/// An item of a stream. The stream of a call ends with the event `answer`, which is the call's result.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum StreamEvent {
    /// The event named by its member `event`.
    Event(Box<Event>),
    /// The event `dropped`: the subscriber lagged behind, or came back too late.
    Dropped(EventsDropped),
}

/// Events that a subscriber missed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EventsDropped {
    /// Their number, of all sessions of the organization; 0 if it is not known.
    pub dropped: u64,
    /// Whether the number is not known: the stream was to be resumed at an event that the daemon no longer knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

/// An approval in an event.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EventApproval {
    /// Its id.
    pub id: String,
    /// `pending`, `approved`, `denied`, …
    #[schema(value_type = String)]
    pub state: ApprovalState,
}

/// A message to the agent of an event.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EventMessage {
    /// Its id.
    pub id: String,
    /// The agent that sent it.
    pub from: String,
    /// The number of unread messages in the inbox.
    pub unread: u64,
}

/// The progress of a tool, as it reports it.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EventProgress {
    /// The amount done.
    pub done: u64,
    /// The whole amount.
    pub total: Option<u64>,
    /// The progress in words.
    pub message: Option<String>,
}
