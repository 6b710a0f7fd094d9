//! What a mounted server said that it has: what its owner consented to, and what was found since and waits.
//!
//! A server can change its list, a description, or a schema at any time, and a description is what steers a model. So calls go
//! by the list that somebody saw, and a changed one is another version of the tool.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_admission::{CallError, ErrorType, LimitName, LimitsPatch};

use crate::call::CallOutcome;
use crate::documents::ToolKey;

/// What `discover` may answer, and hand over with its answer: a list of tools as large as a description can be. The call is
/// the daemon's own, and its limits are no agent's.
const LIST_BYTES: u64 = 4 * 1024 * 1024;
const HANDED_BYTES: u64 = 8 * 1024 * 1024;

/// The stored document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mount {
    /// What is served.
    pub discovered: Box<RawValue>,
    /// What was found since and differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// What waits for consent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Waiting {
    /// The digest that the tool would have.
    pub digest: String,
    pub discovered: Box<RawValue>,
}

impl Mount {
    /// Nothing waits.
    pub fn consented(discovered: Box<RawValue>) -> Self {
        Self { discovered, waiting: None }
    }

    pub fn parse(text: &str) -> Result<Self, CallError> {
        serde_json::from_str(text).map_err(|error| unreadable(&error))
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Takes down what was found: it waits where it differs, under the digest that `make` says.
    pub async fn note(
        &mut self,
        found: Box<RawValue>,
        make: impl AsyncFnOnce(Box<RawValue>) -> Result<String, CallError>,
    ) -> Result<(), CallError> {
        // What is left out and the server's own version change without changing what a model is told, or how it is asked.
        self.waiting = match seen_of(&found)? == seen_of(&self.discovered)? {
            true => None,
            false => Some(Waiting { digest: make(found.clone()).await?, discovered: found }),
        };
        Ok(())
    }

    /// The same with what waited in force.
    pub fn with_consent(self, key: &ToolKey, digest: &str) -> Result<Self, CallError> {
        match self.waiting {
            Some(waiting) if waiting.digest == digest => Ok(Self::consented(waiting.discovered)),
            Some(_) => Err(not_that(key)),
            None => Err(CallError::new(
                ErrorType::Conflict,
                format!("nothing of the tool `{}` waits for consent", key.namespace),
                "ask its server again with `POST …/refresh`",
            )),
        }
    }
}

/// Room for the answer of `discover`.
pub(super) fn widen(limits: &mut LimitsPatch) {
    limits.set(LimitName::OutputBytes, LIST_BYTES);
    limits.set(LimitName::HostCallBytes, HANDED_BYTES);
}

/// The same list without the tool at which its description was refused; none where it was not refused at a tool.
pub(super) fn without(discovered: &RawValue, error: &CallError) -> Option<Box<RawValue>> {
    let pointer = error.pointer()?;
    let at: usize = pointer.strip_prefix("/tools/")?.split('/').next()?.parse().ok()?;
    let mut list: serde_json::Value = serde_json::from_str(discovered.get()).ok()?;
    let tools = list.get_mut("tools")?.as_array_mut().filter(|tools| at < tools.len() && tools.len() > 1)?;
    let name = tools.remove(at).get("name").cloned().unwrap_or_default();
    let left_out = serde_json::json!({"name": name, "why": error.message});
    list.get_mut("left_out")?.as_array_mut()?.push(left_out);
    serde_json::value::to_raw_value(&list).ok()
}

/// The tools, and the family of the protocol that they are called by.
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

/// Somebody else changed the tool while its server was asked.
pub(super) fn replaced(key: &ToolKey) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("the tool `{}` was replaced meanwhile", key.namespace),
        "look at what it is now, and do it again",
    )
}

/// Something else waits than what was consented to.
pub(super) fn not_that(key: &ToolKey) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("what waits for consent at the tool `{}` has another digest", key.namespace),
        "look at what waits, and consent to that",
    )
}

/// The output of the call of `discover`, or the error without one.
pub(super) fn discovered(outcome: &CallOutcome) -> Result<Box<RawValue>, CallError> {
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

    fn refused(pointer: &str) -> CallError {
        CallError::new(ErrorType::InvalidPolicy, "no", "no").with_pointer(pointer)
    }

    #[test]
    fn m4_the_tool_that_is_refused_is_left_out_with_the_reason() {
        let list = raw(&json!({"tools": [{"name": "a"}, {"name": "b"}], "left_out": []}));
        let rest = without(&list, &refused("/tools/1/input_schema/type")).expect("another list");
        let rest: serde_json::Value = serde_json::from_str(rest.get()).expect("json");
        assert_eq!(rest, json!({"tools": [{"name": "a"}], "left_out": [{"name": "b", "why": "no"}]}));
        for elsewhere in ["/url", "/tools", "/tools/2", "/tools/x"] {
            assert!(without(&list, &refused(elsewhere)).is_none(), "{elsewhere}");
        }
        let last = raw(&json!({"tools": [{"name": "a"}], "left_out": []}));
        assert!(without(&last, &refused("/tools/0")).is_none());
    }

    #[tokio::test]
    async fn m4_only_what_a_model_is_told_waits_for_consent() {
        let list = |tools: serde_json::Value, version: u8| {
            raw(&json!({"tools": tools, "server": {"version": version}, "left_out": []}))
        };
        let mut mount = Mount::consented(list(json!([{"name": "a"}]), 1));
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
