//! Tools of a mounted server: the list that its owner consented to, and a newer list that waits for consent.
//!
//! A server can change its list, a description or a schema at any time, and a description is an instruction to the
//! model (prompt injection). Calls therefore use the consented list, and a changed one is a new version of the tool.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::json::PlainValue;
use toolgate_api::limits::{LimitName, LimitsPatch};

use crate::call::CallOutcome;
use crate::documents::ToolKey;

/// Limits of `discover` for its output and its host calls, enough for a tool list as large as a descriptor may be.
/// The daemon makes this call itself, so no agent's limits apply.
const LIST_BYTES: u64 = 4 * 1024 * 1024;
const HANDED_BYTES: u64 = 8 * 1024 * 1024;

/// The stored document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mount {
    /// The served list.
    pub discovered: Box<RawValue>,
    /// A newer list that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// A list that waits for consent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Waiting {
    /// Digest that the tool would have.
    pub digest: String,
    pub discovered: Box<RawValue>,
}

impl Mount {
    /// Creates a mount without a waiting list.
    pub fn new(discovered: Box<RawValue>) -> Self {
        Self { discovered, waiting: None }
    }

    pub fn parse(text: &str) -> Result<Self, CallError> {
        serde_json::from_str(text).map_err(|error| unreadable(&error))
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Records a discovered list: if it differs, it waits under the digest that `make` returns.
    pub async fn note(
        &mut self,
        found: Box<RawValue>,
        make: impl AsyncFnOnce(Box<RawValue>) -> Result<String, CallError>,
    ) -> Result<(), CallError> {
        // The left-out tools and the server's own version can change without an effect on what a model reads or how
        // the server is called.
        self.waiting = match seen_of(&found)? == seen_of(&self.discovered)? {
            true => None,
            false => Some(Waiting { digest: make(found.clone()).await?, discovered: found }),
        };
        Ok(())
    }

    /// Returns the mount with the waiting list as the served one.
    pub fn with_consent(self, key: &ToolKey, digest: &str) -> Result<Self, CallError> {
        match self.waiting {
            Some(waiting) if waiting.digest == digest => Ok(Self::new(waiting.discovered)),
            Some(_) => Err(not_that(key)),
            None => Err(CallError::new(
                ErrorType::Conflict,
                format!("nothing of the tool `{}` waits for consent", key.namespace),
                "ask its server again with `POST …/refresh`",
            )),
        }
    }
}

/// Raises the limits for the output of `discover`.
pub(super) fn widen(limits: &mut LimitsPatch) {
    limits.set(LimitName::OutputBytes, LIST_BYTES);
    limits.set(LimitName::HostCallBytes, HANDED_BYTES);
}

/// Returns the list without the tool that the error points to; `None` if the error points to no tool.
pub(super) fn without(discovered: &RawValue, error: &CallError) -> Option<Box<RawValue>> {
    let pointer = error.pointer()?;
    let at: usize = pointer.strip_prefix("/tools/")?.split('/').next()?.parse().ok()?;
    let PlainValue(mut list) = serde_json::from_str(discovered.get()).ok()?;
    let tools = list.get_mut("tools")?.as_array_mut().filter(|tools| at < tools.len() && tools.len() > 1)?;
    let name = tools.remove(at).get("name").cloned().unwrap_or_default();
    let left_out = serde_json::json!({"name": name, "why": error.message});
    list.get_mut("left_out")?.as_array_mut()?.push(left_out);
    serde_json::value::to_raw_value(&list).ok()
}

/// Returns the tools and the protocol family by which they are called.
fn seen_of(discovered: &RawValue) -> Result<(&str, Option<&str>), CallError> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(borrow)]
        tools: &'a RawValue,
        #[serde(borrow, default)]
        protocol: Option<&'a RawValue>,
    }
    let list: List<'_> = serde_json::from_str(discovered.get()).map_err(|error| unreadable(&error))?;
    Ok((list.tools.get(), list.protocol.map(RawValue::get)))
}

fn unreadable(error: &serde_json::Error) -> CallError {
    tracing::error!(%error, "what a mounted server has is stored in a way that cannot be read");
    CallError::new(
        ErrorType::Internal,
        "what the server has cannot be read from the store",
        "remove the tool and make it again",
    )
}

/// Error of a race: the tool was changed while the request to its server was in flight.
pub(super) fn replacement_error(key: &ToolKey) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("the tool `{}` was replaced meanwhile", key.namespace),
        "look at what it is now, and do it again",
    )
}

/// Error for a digest other than that of the waiting list.
pub(super) fn not_that(key: &ToolKey) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("what waits for consent at the tool `{}` has another digest", key.namespace),
        "look at what waits, and consent to that",
    )
}

/// Returns the output of a `discover` call, or its error.
pub(super) fn discovery_output(outcome: &CallOutcome) -> Result<Box<RawValue>, CallError> {
    if let Some(output) = outcome.output() {
        return Ok(output.to_owned());
    }
    match outcome.error() {
        Some(error) => {
            let message = format!("the server's tools cannot be discovered: {}", error.message);
            Err(CallError { message, ..error.clone() })
        }
        None => Err(CallError::new(
            ErrorType::Unavailable,
            "the server's tools cannot be discovered: the call did not end",
            "try again",
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(value: &serde_json::Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).expect("json")
    }

    fn error_at(pointer: &str) -> CallError {
        CallError::new(ErrorType::InvalidPolicy, "no", "no").with_pointer(pointer)
    }

    #[test]
    fn m4_the_tool_that_is_refused_is_left_out_with_the_reason() {
        let list = raw(&json!({"tools": [{"name": "a"}, {"name": "b"}], "left_out": []}));
        let rest = without(&list, &error_at("/tools/1/input_schema/type")).expect("another list");
        let rest: serde_json::Value = serde_json::from_str(rest.get()).expect("json");
        assert_eq!(rest, json!({"tools": [{"name": "a"}], "left_out": [{"name": "b", "why": "no"}]}));
        for elsewhere in ["/url", "/tools", "/tools/2", "/tools/x"] {
            assert!(without(&list, &error_at(elsewhere)).is_none(), "{elsewhere}");
        }
        let last = raw(&json!({"tools": [{"name": "a"}], "left_out": []}));
        assert!(without(&last, &error_at("/tools/0")).is_none());
    }

    #[tokio::test]
    async fn m4_only_what_a_model_is_told_waits_for_consent() {
        let list = |tools: serde_json::Value, version: u8| {
            raw(&json!({"tools": tools, "server": {"version": version}, "left_out": []}))
        };
        let mut mount = Mount::new(list(json!([{"name": "a"}]), 1));
        let digest = async |_| Ok("sha256:ab".to_owned());
        mount.note(list(json!([{"name": "a"}]), 2), digest).await.expect("noted");
        assert!(mount.waiting.is_none());
        mount.note(list(json!([{"name": "a", "description": "x"}]), 2), digest).await.expect("noted");
        assert_eq!(mount.waiting.as_ref().map(|waiting| waiting.digest.as_str()), Some("sha256:ab"));
        let other = raw(&json!({"tools": [{"name": "a"}], "protocol": "2025-11-25", "left_out": []}));
        mount.note(other, digest).await.expect("noted");
        assert!(mount.waiting.is_some(), "it is asked in another way");
        mount.note(list(json!([{"name": "a"}]), 3), digest).await.expect("noted");
        assert!(mount.waiting.is_none());
    }
}
