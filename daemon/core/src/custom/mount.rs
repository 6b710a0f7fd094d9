//! Tools of a mounted server: the list that its owner consented to, and a newer list that waits for consent.
//!
//! A server can change its list, a description or a schema at any time, and a description is an instruction to the
//! model (prompt injection). Calls therefore use the consented list, and a changed one is a new version of the tool.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_admission::{Schema, SchemaRole};
use toolgate_api::custom_tool::LeftOut;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::json::PlainValue;
use toolgate_api::limits::{LimitName, LimitsPatch};
use toolgate_api::text::escape_for_display;
use toolgate_state::documents::ToolKey;

use crate::call::CallOutcome;

/// Limits of `discover` for its output and its host calls, enough for a tool list as large as a descriptor may be.
/// The daemon makes this call itself, so no agent's limits apply.
const LIST_BYTES: u64 = 4 * 1024 * 1024;
const HANDED_BYTES: u64 = 8 * 1024 * 1024;
/// Deadline of `discover`: a server may start first, and lists its tools in up to 24 pages.
const LIST_DEADLINE_MS: u64 = 120_000;

/// Longest pattern in a note, in characters.
const PATTERN_CHARS: usize = 60;
/// Reasons that the message of a failed mount repeats, and left-out tools that its details name.
const REASONS: usize = 5;
const LEFT_OUT_SHOWN: usize = 100;

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
    pub(super) fn new(discovered: Box<RawValue>) -> Self {
        Self { discovered, waiting: None }
    }

    pub(super) fn parse(text: &str) -> Result<Self, CallError> {
        serde_json::from_str(text).map_err(|error| unreadable(&error))
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Records a discovered list: if it differs, it waits under the digest that `make` returns.
    pub(super) async fn note(
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
    pub(super) fn with_consent(self, key: &ToolKey, digest: &str) -> Result<Self, CallError> {
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
    limits.set(LimitName::DeadlineMs, LIST_DEADLINE_MS);
}

/// Returns the list without the cause of the error: the patterns that the daemon's engine lacks, which are left to the server
/// to check, or else the tool that the error points to. `None` if the error points to no tool.
pub(super) fn without(discovered: &RawValue, error: &CallError) -> Option<Box<RawValue>> {
    let pointer = error.pointer()?;
    let at: usize = pointer.strip_prefix("/tools/")?.split('/').next()?.parse().ok()?;
    let PlainValue(mut list) = serde_json::from_str(discovered.get()).ok()?;
    let tools = list.get_mut("tools")?.as_array_mut().filter(|tools| at < tools.len())?;
    let (member, found) = match pointer.ends_with("/pattern").then(|| drop_patterns(tools, at)) {
        Some(dropped) if !dropped.is_empty() => ("simplified", dropped),
        _ => {
            let name = tools.remove(at).get("name").cloned().unwrap_or_default();
            ("left_out", vec![json!({"name": name, "why": error.message})])
        }
    };
    list.as_object_mut()?.entry(member).or_insert_with(|| json!([])).as_array_mut()?.extend(found);
    serde_json::value::to_raw_value(&list).ok()
}

/// Removes from all tools the patterns of the tool at `at` that do not compile, and returns a note for each.
fn drop_patterns(tools: &mut [Value], at: usize) -> Vec<Value> {
    let mut unusable = BTreeSet::new();
    visit_patterns(&mut tools[at], &mut |pattern| {
        if Schema::compile(&json!({"pattern": pattern}), SchemaRole::Output).is_err() {
            unusable.insert(pattern.to_owned());
        }
        false
    });
    let mut notes = Vec::new();
    for tool in tools {
        let name = tool.get("name").cloned().unwrap_or_default();
        visit_patterns(tool, &mut |pattern| {
            let is_unusable = unusable.contains(pattern);
            if is_unusable {
                let pattern = escape_for_display(pattern, PATTERN_CHARS);
                notes.push(
                    json!({"name": name, "what": format!("the pattern `{pattern}` is left to the server")}),
                );
            }
            is_unusable
        });
    }
    notes
}

/// Visits each keyword `pattern` of a tool's schemas, and removes those for which `is_removed` holds.
fn visit_patterns(value: &mut Value, is_removed: &mut impl FnMut(&str) -> bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| visit_patterns(item, is_removed)),
        Value::Object(members) => {
            if members.get("pattern").and_then(Value::as_str).is_some_and(&mut *is_removed) {
                members.remove("pattern");
            }
            let is_data = |name: &str| matches!(name, "const" | "default" | "enum" | "examples");
            let schemas = members.iter_mut().filter(|(name, _)| !is_data(name));
            schemas.for_each(|(_, member)| visit_patterns(member, is_removed));
        }
        _ => {}
    }
}

/// Adds the reasons of the left-out tools to the error of a server without any other tool.
pub(super) fn with_left_out(error: CallError, discovered: &RawValue) -> CallError {
    #[derive(Deserialize)]
    struct List {
        tools: Vec<IgnoredAny>,
        left_out: Vec<LeftOut>,
    }
    let list = serde_json::from_str(discovered.get()).ok();
    let Some(List { left_out, .. }) =
        list.filter(|list: &List| list.tools.is_empty() && !list.left_out.is_empty())
    else {
        return error;
    };
    let reasons: Vec<_> = left_out.iter().map(|left| format!("`{}`: {}", left.name, left.why)).collect();
    let rest = reasons.len().saturating_sub(REASONS);
    let rest = if rest > 0 { format!("; and {rest} more") } else { String::new() };
    let reasons = reasons.into_iter().take(REASONS).collect::<Vec<_>>().join("; ");
    let left_out: Vec<_> = left_out.into_iter().take(LEFT_OUT_SHOWN).collect();
    let details = json!({"pointer": error.pointer().unwrap_or("/url"), "left_out": left_out});
    let hint = "let the server be fixed, or mount another one";
    CallError::new(error.error_type, format!("{}: {reasons}{rest}", error.message), hint)
        .with_details(details)
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
    }

    #[test]
    fn m4_a_pattern_that_the_engine_lacks_is_left_to_the_server() {
        let tool = |name: &str, pattern: &str| {
            json!({"name": name, "inputSchema": {"properties": {
                "a": {"pattern": pattern, "default": {"pattern": "("}}, "pattern": {"type": "string"},
            }}})
        };
        let odd = "^[\\w-.]+$";
        let list = raw(&json!({"tools": [tool("a", odd), tool("b", "^x$"), tool("c", odd)], "left_out": []}));
        let error = error_at("/tools/0/input_schema/properties/a/pattern");
        let rest = without(&list, &error).expect("another list");
        let rest: Value = serde_json::from_str(rest.get()).expect("json");
        let mut bare = tool("a", odd);
        bare["inputSchema"]["properties"]["a"] = json!({"default": {"pattern": "("}});
        assert_eq!((&rest["tools"][0], &rest["tools"][1]), (&bare, &tool("b", "^x$")));
        assert_eq!(rest["tools"][2].pointer("/inputSchema/properties/a/pattern"), None);
        let names: Vec<_> =
            rest["simplified"].as_array().expect("a list").iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(rest["left_out"], json!([]));
        // A pattern that compiles is not the cause.
        let list = raw(&json!({"tools": [tool("b", "^x$")], "left_out": []}));
        let rest = without(&list, &error).expect("another list");
        assert!(rest.get().contains(r#""left_out":[{"name":"b","why":"no"}]"#), "{rest}");
    }

    #[test]
    fn m4_a_server_without_a_usable_tool_is_refused_with_the_reasons() {
        let refusal = || CallError::new(ErrorType::InvalidPolicy, "no tool", "see").with_pointer("/url");
        let left: Vec<_> = (0..7).map(|at| json!({"name": format!("t{at}"), "why": "odd"})).collect();
        let told = with_left_out(refusal(), &raw(&json!({"tools": [], "left_out": left})));
        assert_eq!(
            told.message,
            "no tool: `t0`: odd; `t1`: odd; `t2`: odd; `t3`: odd; `t4`: odd; and 2 more"
        );
        let details = told.details_json().expect("details");
        assert_eq!((&details["pointer"], &details["left_out"]), (&json!("/url"), &json!(left)));
        for list in [json!({"tools": [{}], "left_out": left}), json!({"tools": [], "left_out": []})] {
            assert_eq!(with_left_out(refusal(), &raw(&list)).message, "no tool", "{list}");
        }
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
