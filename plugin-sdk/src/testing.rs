//! Calls tools in native tests, with JSON arguments and a context that the test builds.
//!
//! Arguments are parsed and results serialized as in a component, and `null` for an optional argument is absent. The daemon's
//! part of a call is missing: no schema is validated, no limit applies, and `std::fs` accesses the files of the machine. So
//! the function can receive arguments that the daemon would refuse, and return a result that its output schema does not
//! accept. `toolgate check` and `toolgate run` do all of this with the built component.
//!
//! ```
//! use serde_json::json;
//! use toolgate_sdk::{Context, testing, tool};
//!
//! /// Greets the user.
//! #[tool(read_only)]
//! fn greet(
//!     context: &Context,
//!     /// How to begin
//!     word: String,
//! ) -> String {
//!     format!("{word}, {}!", context.user().unwrap_or_default())
//! }
//!
//! let context = testing::context().user("Ada").build();
//! assert_eq!(testing::call::<greet>(&context, json!({"word": "Hello"})), Ok(json!("Hello, Ada!")));
//! ```

mod defined;
#[cfg(feature = "http")]
mod network;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::context::mock::{CallSource, Source};
pub use crate::context::mock::{Line, Report};
use crate::tool::{Plugin, ToolFacts, ToolOutput};
use crate::{CallFailure, Context, Error, Tool};
pub use defined::{DefinedPlugin, defined};
#[cfg(feature = "http")]
pub use network::{Network, Reply, Sent, network};

/// Calls a tool with a JSON object as arguments, and returns its result, or the payload for the client.
///
/// Fails like the tool, and with `INVALID_ARGUMENTS` if the arguments do not match the types of its parameters.
pub fn call<T: Tool>(context: &Context, arguments: Value) -> Result<Value, Error> {
    call_text::<T>(context, &arguments.to_string())
}

/// Calls a tool with arguments as JSON text.
pub fn call_text<T: Tool>(context: &Context, arguments: &str) -> Result<Value, Error> {
    parse_output(T::call(context, &without_nulls(arguments, &T::FACTS)))
}

/// Removes each `null` that stands for an absent optional argument, as the daemon does.
fn without_nulls<'a>(arguments: &'a str, tool: &ToolFacts) -> Cow<'a, str> {
    let Ok(Value::Object(mut members)) = serde_json::from_str(arguments) else { return arguments.into() };
    let schema = (tool.input_schema)().to_value();
    let is_required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.contains(&name.into()));
    let is_kept = |name: &str| is_required(name) || takes_null(&schema["properties"][name], &schema);
    let before = members.len();
    members.retain(|name, value| !value.is_null() || is_kept(name));
    // Arguments without such a null stay byte for byte.
    if members.len() == before { arguments.into() } else { Value::Object(members).to_string().into() }
}

/// Whether a schema gives `null` a meaning, or has no type at all.
fn takes_null(schema: &Value, root: &Value) -> bool {
    let is_null = |value: &Value| value.is_null() || value == "null";
    if let Some(path) = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
        return root.pointer(path).is_none_or(|target| takes_null(target, root));
    }
    for (keyword, found) in schema.as_object().into_iter().flatten() {
        match (keyword.as_str(), found) {
            ("type", Value::Array(types)) => return types.iter().any(is_null),
            ("type", one) => return is_null(one),
            ("enum", Value::Array(values)) => return values.iter().any(Value::is_null),
            ("const", value) => return value.is_null(),
            ("anyOf" | "oneOf", Value::Array(parts)) => {
                return parts.iter().any(|part| takes_null(part, root));
            }
            _ => {}
        }
    }
    true
}

fn parse_output(output: Result<ToolOutput, Error>) -> Result<Value, Error> {
    let (ToolOutput::Output(text) | ToolOutput::Client(text)) = output?;
    Ok(serde_json::from_str(&text)?)
}

/// Calls a tool of a plugin by its name; returns none if there is no such tool.
pub fn call_by_name<P: Plugin>(
    context: &Context,
    tool: &str,
    arguments: Value,
) -> Option<Result<Value, Error>> {
    let text = arguments.to_string();
    let facts = P::FACTS.tools.iter().find(|facts| facts.name == tool)?;
    P::call(tool, context, &without_nulls(&text, facts)).map(parse_output)
}

/// Calls the tool with the input of each of its examples, and returns those whose output differs.
///
/// ```
/// # use toolgate_sdk::{testing, tool};
/// /// Doubles a number.
/// #[tool(read_only, examples({"number": 2} => 4))]
/// fn double(
///     /// The number
///     number: i64,
/// ) -> i64 {
///     number * 2
/// }
///
/// assert_eq!(testing::wrong_examples::<double>(&testing::context().build()), []);
/// ```
pub fn wrong_examples<T: Tool>(context: &Context) -> Vec<WrongExample> {
    T::FACTS.examples.iter().filter_map(|example| try_example::<T>(context, example)).collect()
}

/// An example whose output is not the tool's.
#[derive(Debug, PartialEq)]
pub struct WrongExample {
    /// The arguments, a JSON object.
    pub input: Value,
    /// The output of the example.
    pub expected: Value,
    /// The tool's result.
    pub found: Result<Value, Error>,
}

fn try_example<T: Tool>(context: &Context, example: &crate::tool::Example) -> Option<WrongExample> {
    let expected = serde_json::from_str(example.output?).unwrap_or(Value::Null);
    let found = call_text::<T>(context, example.input);
    let input = serde_json::from_str(example.input).unwrap_or(Value::Null);
    (found.as_ref() != Ok(&expected)).then_some(WrongExample { input, expected, found })
}

/// Returns the description of the plugin.
///
/// # Panics
/// If an example of a tool is not JSON, which the macros prevent.
#[expect(clippy::panic, reason = "only tests call this")]
pub fn describe<P: Plugin>() -> Value {
    crate::describe::describe(&P::FACTS)
        .and_then(|text| Ok(serde_json::from_str(&text)?))
        .unwrap_or_else(|error| panic!("the plugin cannot be described: {error}"))
}

/// Builds a context without any facts, 30 seconds before its deadline.
pub fn context() -> ContextBuilder {
    ContextBuilder {
        source: Source {
            call_id: "call".to_owned(),
            deadline_ms: 30_000,
            facts: BTreeMap::new(),
            settings: "{}".to_owned(),
            definition: None,
            log_lines: Vec::new().into(),
            progress_reports: Vec::new().into(),
            calls: CallSource::default(),
        },
    }
}

/// Builds a [`Context`]. A fact that is not set is unknown to the tool.
pub struct ContextBuilder {
    source: Source,
}

impl ContextBuilder {
    /// Sets [`Context::call_id`]; the default is `call`.
    pub fn call_id(mut self, id: &str) -> Self {
        self.source.call_id = id.to_owned();
        self
    }

    /// Sets [`Context::session`].
    pub fn session(self, session: &str) -> Self {
        self.fact("session", session)
    }

    /// Sets [`Context::conversation`].
    pub fn conversation(self, conversation: &str) -> Self {
        self.fact("conversation", conversation)
    }

    /// Sets [`Context::organization`].
    pub fn organization(self, organization: &str) -> Self {
        self.fact("organization", organization)
    }

    /// Sets [`Context::agent`], like `acme/clerk`.
    pub fn agent(self, agent: &str) -> Self {
        self.fact("agent", agent)
    }

    /// Sets [`Context::user`].
    pub fn user(self, user: &str) -> Self {
        self.fact("user", user)
    }

    /// Sets [`Context::channel`], like `sms`.
    pub fn channel(self, channel: &str) -> Self {
        self.fact("channel", channel)
    }

    /// Sets the value of [`Context::get`] for a key.
    pub fn fact(mut self, key: &str, value: &str) -> Self {
        self.source.facts.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets [`Context::time_left`], to the millisecond; the default is 30 seconds. It does not decrease.
    pub fn time_left(mut self, left: Duration) -> Self {
        self.source.deadline_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Sets [`Context::settings`]; the default is an empty object. Panics if the value cannot be serialized.
    pub fn settings(mut self, settings: impl Serialize) -> Self {
        self.source.settings = json!(settings).to_string();
        self
    }

    /// Sets [`Context::definition`], JSON text.
    pub fn definition(mut self, definition: &str) -> Self {
        self.source.definition = Some(definition.to_owned());
        self
    }

    /// Adds a tool that [`Context::calls`] finds, by its name like `files/read`.
    pub fn tool(
        self,
        name: &str,
        description: &str,
        call: impl Fn(Value) -> Result<Value, CallFailure> + 'static,
    ) -> Self {
        self.source.calls.add(name, description, call);
        self
    }

    /// Returns the context.
    pub fn build(self) -> Context {
        Context { source: self.source }
    }
}

/// Returns the log events of a tool, in order.
pub fn logged(context: &Context) -> Vec<Line> {
    context.source.log_lines.borrow().clone()
}

/// Returns the progress reports of a tool, in order.
pub fn reported(context: &Context) -> Vec<Report> {
    context.source.progress_reports.borrow().clone()
}

/// Returns the calls of other tools that a tool made, in order: names and arguments.
pub fn called(context: &Context) -> Vec<(String, Value)> {
    context.source.calls.made.borrow().clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_a_test_stands_in_for_the_other_tools() {
        let echo = |arguments| Ok(json!([arguments]));
        let context = context().tool("some/echo", "Returns its arguments.", echo).build();
        let calls = context.calls();

        assert_eq!(calls.tools(), r#"[{"description":"Returns its arguments.","name":"some/echo"}]"#);
        assert!(calls.describe("some/echo").unwrap().starts_with("tools.some.echo("));
        assert_eq!(calls.call("some/echo", r#"{"a": 1}"#), Ok(r#"[{"a":1}]"#.to_owned()));
        assert_eq!(calls.call("some/other", "{}").unwrap_err().code, "UNKNOWN_TOOL");
        assert_eq!(called(&context), [("some/echo".to_owned(), json!({"a": 1}))]);
    }

    #[test]
    fn m5_a_null_is_kept_where_the_schema_gives_it_a_meaning() {
        let root = json!({"$defs": {"speed": {"enum": ["slow", "fast"]}}});
        for (schema, takes) in [
            (json!({"type": ["string", "null"]}), true),
            (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), true),
            (json!({}), true),
            (json!({"type": "string", "description": "a null is no text"}), false),
            (json!({"anyOf": [{"type": "integer"}, {"const": "all"}]}), false),
            (json!({"$ref": "#/$defs/speed", "default": "slow"}), false),
        ] {
            assert_eq!(takes_null(&schema, &root), takes, "{schema}");
        }
    }
}
