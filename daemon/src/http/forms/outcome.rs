//! What became of a call, read from the result object of our own form, and what is said of it in all others.
//!
//! The result is text when it comes here, and recorded as that; most of it is put into the answer as it is.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::envelope::MaybeText;
use crate::frame;
use crate::http::body::Object;

/// The members of a result that other forms have a place for.
#[derive(Deserialize)]
pub struct Outcome<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The tool as it was called.
    #[serde(borrow)]
    pub tool: Cow<'a, str>,
    #[serde(borrow)]
    pub tool_name: Cow<'a, str>,
    pub action: Option<String>,
    #[serde(borrow)]
    pub status: Cow<'a, str>,
    #[serde(borrow)]
    pub executed: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub error: Option<Failure<'a>>,
    #[serde(borrow, default)]
    text: MaybeText<'a>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub payload: Option<&'a RawValue>,
    #[serde(borrow)]
    pub approval: Option<&'a RawValue>,
    #[serde(borrow)]
    pub expires_at: Option<&'a RawValue>,
}

/// Why a call has no result.
#[derive(Deserialize)]
pub struct Failure<'a> {
    #[serde(borrow)]
    pub error_type: Cow<'a, str>,
    #[serde(borrow)]
    pub message: Cow<'a, str>,
    #[serde(borrow)]
    pub hint: Cow<'a, str>,
    pub retryable: bool,
    #[serde(borrow)]
    pub details: Option<&'a RawValue>,
}

impl<'a> Outcome<'a> {
    /// Reads a result object.
    pub fn read(result: &'a str) -> Self {
        match serde_json::from_str::<Object<Self>>(result) {
            Ok(Object(outcome)) => outcome,
            Err(_) => Self::unreadable(),
        }
    }

    /// What a model reads: the result's text, marked as data; of a call that has not ended, what it waits for.
    pub fn content(&self) -> Cow<'_, str> {
        match (self.pending_words(), &self.text.0) {
            (None, Some(text)) => Cow::Borrowed(&**text),
            (words, _) => frame::tool_result(&self.tool, &self.status, words.unwrap_or_default()).into(),
        }
    }

    /// What a call that has not ended waits for, in words that fit a model as well as a person.
    pub fn pending_words(&self) -> Option<&'static str> {
        match &*self.status {
            "approval_required" => Some(
                "The call has not run. It waits for a person's approval, and runs when it is posted again with the \
                 same id after that. Say that it waits, and do not make it again in other words.",
            ),
            "client_required" => Some(
                "The call is prepared and waits for the client to carry it out. Its result follows when the client \
                 has delivered it. Do not make it again.",
            ),
            "running" => {
                Some("The call still runs. Its result follows when it has ended. Do not make it again.")
            }
            _ => None,
        }
    }

    /// A result that is none: a fault of this daemon, told as one.
    fn unreadable() -> Self {
        Self {
            id: "".into(),
            tool: "".into(),
            tool_name: "".into(),
            action: None,
            status: "error".into(),
            executed: "unknown".into(),
            output: None,
            error: Some(Failure {
                error_type: "INTERNAL".into(),
                message: "the daemon could not write the result of the call".into(),
                hint: "ask for the call by its id, and tell the operator".into(),
                retryable: false,
                details: None,
            }),
            text: MaybeText(None),
            payload: None,
            approval: None,
            expires_at: None,
        }
    }
}

/// What an orchestrator's program acts on, beside the list for the model.
#[derive(Serialize)]
pub struct State<'a> {
    id: &'a str,
    status: &'a str,
    executed: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<&'a RawValue>,
}

impl<'a> From<&'a Outcome<'_>> for State<'a> {
    fn from(outcome: &'a Outcome<'_>) -> Self {
        Self {
            id: &outcome.id,
            status: &outcome.status,
            executed: &outcome.executed,
            error_type: outcome.error.as_ref().map(|error| &*error.error_type),
            retryable: outcome.error.as_ref().map(|error| error.retryable),
            details: outcome.error.as_ref().and_then(|error| error.details),
            approval: outcome.approval,
            payload: outcome.payload,
            expires_at: outcome.expires_at,
        }
    }
}

/// A value that is there, `null` too: a tool may well answer that.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}
