//! Messages between the agents of an organization (T12), as the plugin `messages` sends and reads them.
//!
//! A message is in the store when its sender has the id. Its reader gets it until a later read names it, so a crash between
//! the two repeats it and loses none. The body is a tool's result for the reader, and so it is data (R9).

use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::event::{Event, EventKind, EventMessage};
use toolgate_api::name::Name;
use toolgate_api::policy::Recipients;
use toolgate_sandbox::Messages;
use toolgate_state::clock::now_ms;
use toolgate_state::identifier;
use toolgate_state::store::{InboxKey, MessageRow, Store, StoreError};

use crate::events::Events;
use crate::sessions::Session;

/// Longest body in bytes.
const BODY_BYTES: usize = 64 * 1024;
/// Most messages of one read.
const READ_MESSAGES: u32 = 50;
/// Unread messages of one sender in an inbox: more would bury those of others.
const UNREAD_OF_SENDER: u64 = 200;

/// The inbox of a session's agent, and the agents that it may write to.
pub struct Mailbox {
    pub store: Store,
    pub events: Events,
    pub session: Arc<Session>,
    pub recipients: Recipients,
}

/// Messages as `messages/read` returns them.
#[derive(Serialize)]
struct Inbox {
    messages: Vec<MessageView>,
    unread: u64,
}

#[derive(Serialize)]
struct MessageView {
    id: String,
    from: String,
    sent_ms: u64,
    body: String,
}

impl Mailbox {
    async fn deliver(&self, recipient: &str, body: String) -> Result<String, CallError> {
        let setup = &self.session.setup;
        let recipient = self.recipient(recipient)?;
        if body.len() > BODY_BYTES {
            let message = format!("the message has {} bytes, more than the {BODY_BYTES} allowed", body.len());
            let hint = "shorten it, or write a file that the other agent can read";
            return Err(CallError::new(ErrorType::TooLarge, message, hint));
        }
        let inbox = InboxKey { organization: &setup.organization, agent: &recipient };
        let row = MessageRow {
            id: identifier::fresh("m"),
            sender: setup.agent.as_str().to_owned(),
            body,
            sent_ms: now_ms(),
        };
        let unread = match self.store.add_message(inbox, &row, UNREAD_OF_SENDER).await {
            Ok(Some(unread)) => unread,
            Ok(None) => return Err(full_inbox(&recipient)),
            Err(StoreError::NotFound { .. }) => return Err(no_agent(&recipient)),
            Err(error) => return Err(error.into()),
        };
        self.emit(&recipient, &row, unread);
        Ok(row.id)
    }

    fn recipient(&self, recipient: &str) -> Result<Name, CallError> {
        let setup = &self.session.setup;
        let name = Name::parse(recipient)
            .map_err(|error| CallError::new(ErrorType::InvalidArguments, error.message, error.hint))?;
        match self.recipients.has(&name) && name != setup.agent {
            true => Ok(name),
            false => Err(CallError::new(
                ErrorType::AccessDenied,
                format!("`{}` may not write to `{name}`", setup.agent),
                "the organization's owner can name the agent in `messages_to` of this agent's document",
            )),
        }
    }

    /// Tells those who wait for the recipient's next message.
    fn emit(&self, recipient: &Name, row: &MessageRow, unread: u64) {
        let organization = &self.session.setup.organization;
        self.events.emit(organization, || Event {
            inbox: Some(EventMessage { id: row.id.clone(), from: row.sender.clone(), unread }),
            ..Event::new(EventKind::Message, row.sent_ms, organization.as_str(), recipient.as_str())
        });
    }

    async fn inbox(&self, limit: u32, read: Option<&str>) -> Result<String, CallError> {
        let setup = &self.session.setup;
        let inbox = InboxKey { organization: &setup.organization, agent: &setup.agent };
        let limit = limit.clamp(1, READ_MESSAGES);
        if let Some(read) = read {
            self.store.mark_read(inbox, read, now_ms()).await?;
        }
        let (rows, unread) = self.store.unread_messages(inbox, limit).await?;
        let view = |row: MessageRow| MessageView {
            id: row.id,
            from: row.sender,
            sent_ms: row.sent_ms,
            body: row.body,
        };
        let inbox = Inbox { messages: rows.into_iter().map(view).collect(), unread };
        serde_json::to_string(&inbox)
            .map_err(|error| CallError::new(ErrorType::Internal, error.to_string(), "tell the operator"))
    }
}

impl Messages for Mailbox {
    fn send(
        &self,
        recipient: String,
        body: String,
    ) -> Pin<Box<dyn Future<Output = Result<String, CallError>> + Send + '_>> {
        Box::pin(async move { self.deliver(&recipient, body).await })
    }

    fn read(
        &self,
        limit: u32,
        read: Option<String>,
    ) -> Pin<Box<dyn Future<Output = Result<String, CallError>> + Send + '_>> {
        Box::pin(async move { self.inbox(limit, read.as_deref()).await })
    }
}

fn full_inbox(recipient: &Name) -> CallError {
    CallError::new(
        ErrorType::QuotaExceeded,
        format!("`{recipient}` has not read the last {UNREAD_OF_SENDER} messages of this agent"),
        "wait until it has read some",
    )
}

fn no_agent(recipient: &Name) -> CallError {
    CallError::new(
        ErrorType::NotFound,
        format!("the organization has no agent `{recipient}`"),
        "check the name; it is that of the agent's document",
    )
}
