//! Messages between the agents of an organization, for a plugin with `capabilities(messages = true)`.
//!
//! Messages work in a component only; a native test of such a tool checks what it does before and after.

use crate::Error;

/// Sends a message to an agent, and returns the message's id.
pub fn send(recipient: &str, body: &str) -> Result<String, Error> {
    host::send(recipient, body)
}

/// Returns the oldest unread messages of this agent as JSON text: `{"messages": [{"id", "from", "sent_ms", "body"}],
/// "unread": 1}`. Those up to the id `read` are marked as read before.
pub fn read(limit: u32, read: Option<&str>) -> Result<String, Error> {
    host::read(limit, read)
}

#[cfg(target_family = "wasm")]
mod host {
    use crate::Error;
    use crate::bindings::toolgate::plugin::messages;
    use crate::bindings::toolgate::plugin::types::Failure;

    pub(super) fn send(recipient: &str, body: &str) -> Result<String, Error> {
        messages::send(recipient, body).map_err(to_error)
    }

    pub(super) fn read(limit: u32, read: Option<&str>) -> Result<String, Error> {
        messages::read(limit, read).map_err(to_error)
    }

    fn to_error(failure: Failure) -> Error {
        let error = Error::new(failure.message);
        if failure.retryable { error.retryable() } else { error }
    }
}

#[cfg(not(target_family = "wasm"))]
mod host {
    use crate::Error;

    pub(super) fn send(_: &str, _: &str) -> Result<String, Error> {
        Err(outside())
    }

    pub(super) fn read(_: u32, _: Option<&str>) -> Result<String, Error> {
        Err(outside())
    }

    fn outside() -> Error {
        Error::new("messages work in a component only")
    }
}
