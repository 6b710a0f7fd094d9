//! Output of one approval for people.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::print::time_text;
use crate::client::ClientError;

/// An approval as in the response of the daemon. Text of other authors stays raw JSON.
#[derive(Deserialize)]
pub struct Approval {
    id: String,
    state: String,
    organization: String,
    agent: String,
    session: String,
    call: String,
    user: Option<String>,
    conversation: Option<String>,
    channel: Option<String>,
    tool: String,
    plugin_version: String,
    plugin_digest: String,
    arguments: Box<RawValue>,
    rules: Box<RawValue>,
    asked_by: String,
    created_at: u64,
    pub expires_at: u64,
    pub uses_left: u64,
    constraints: Option<Box<RawValue>>,
    reason: Option<String>,
    decided_by: Option<String>,
    decided_at: Option<u64>,
}

impl Approval {
    pub fn read(text: &RawValue) -> Result<Self, ClientError> {
        serde_json::from_str(text.get()).map_err(|_| ClientError::unexpected(200, text.get().as_bytes()))
    }

    pub fn row(&self) -> [String; 6] {
        let agent = format!("{}/{}", self.organization, self.agent);
        let (asked_at, expires_at) = (time_text(self.created_at), time_text(self.expires_at));
        [self.id.clone(), self.state.clone(), agent, self.tool.clone(), asked_at, expires_at]
    }

    /// Returns the rows of the output: first the call, then its origin, then its state.
    pub fn fields(&self) -> [(&'static str, Option<String>); 19] {
        let text = |text: &str| Some(text.to_owned());
        let token = |id: &String| format!("token {id}");
        let is_approved = self.state == "approved";
        [
            ("approval", text(&self.id)),
            ("state", text(&self.state)),
            ("tool", text(&self.tool)),
            ("arguments", text(self.arguments.get())),
            ("may vary", self.constraints.as_ref().map(|shape| shape.get().to_owned())),
            ("plugin", Some(format!("{} {}", self.plugin_version, self.plugin_digest))),
            ("rules", text(self.rules.get())),
            ("agent", Some(format!("{}/{}", self.organization, self.agent))),
            ("user", self.user.clone()),
            ("channel", self.channel.clone()),
            ("conversation", self.conversation.clone()),
            ("session", text(&self.session)),
            ("call", text(&self.call)),
            ("asked", Some(format!("{} by {}", time_text(self.created_at), token(&self.asked_by)))),
            ("expires", Some(time_text(self.expires_at))),
            ("uses left", is_approved.then(|| self.uses_left.to_string())),
            ("decided", self.decided_at.map(time_text)),
            ("decided by", self.decided_by.as_ref().map(token)),
            ("reason", self.reason.clone()),
        ]
    }
}
