//! Calls tools in native tests as the daemon calls them: with arguments in JSON, and a context made by hand.
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

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::context::by_hand::Source;
pub use crate::context::by_hand::{Line, Report};
use crate::tool::{Answer, Plugin};
use crate::{Context, Error, Tool};
pub use defined::{DefinedPlugin, defined};
#[cfg(feature = "http")]
pub use network::{Network, Reply, Sent, network};

/// Calls a tool. `arguments` is a JSON object, as a value or as text that stays as it is.
pub fn call<T: Tool>(context: &Context, arguments: Value) -> Result<Value, Error> {
    call_text::<T>(context, &arguments.to_string())
}

/// Calls a tool with arguments as the JSON text that a model wrote.
pub fn call_text<T: Tool>(context: &Context, arguments: &str) -> Result<Value, Error> {
    read_answer(T::call(context, arguments))
}

fn read_answer(answer: Result<Answer, Error>) -> Result<Value, Error> {
    let (Answer::Output(text) | Answer::Client(text)) = answer?;
    Ok(serde_json::from_str(&text)?)
}

/// Calls a tool of a plugin by its name, or gives none when there is no such tool.
pub fn call_by_name<P: Plugin>(
    context: &Context,
    tool: &str,
    arguments: Value,
) -> Option<Result<Value, Error>> {
    P::call(tool, context, &arguments.to_string()).map(read_answer)
}

/// Calls the tool with the input of each of its examples, and gives those whose output differs.
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

/// An example that does not say what the tool does.
#[derive(Debug, PartialEq)]
pub struct WrongExample {
    pub input: Value,
    pub expected: Value,
    pub found: Result<Value, Error>,
}

fn try_example<T: Tool>(context: &Context, example: &crate::tool::Example) -> Option<WrongExample> {
    let expected = serde_json::from_str(example.output?).unwrap_or(Value::Null);
    let found = call_text::<T>(context, example.input);
    let input = serde_json::from_str(example.input).unwrap_or(Value::Null);
    (found.as_ref() != Ok(&expected)).then_some(WrongExample { input, expected, found })
}

/// What `describe` of the plugin answers.
///
/// # Panics
/// When an example of a tool is not JSON, which the macros do not let through.
#[expect(clippy::panic, reason = "only tests call this")]
pub fn describe<P: Plugin>() -> Value {
    crate::describe::describe(&P::FACTS)
        .and_then(|text| Ok(serde_json::from_str(&text)?))
        .unwrap_or_else(|error| panic!("the plugin cannot be described: {error}"))
}

/// Begins a context in which nothing is known and there is time enough.
pub fn context() -> ContextBuilder {
    ContextBuilder {
        source: Source {
            call_id: "call".to_owned(),
            deadline_ms: 30_000,
            facts: BTreeMap::new(),
            settings: "{}".to_owned(),
            definition: None,
            logged: Vec::new().into(),
            reported: Vec::new().into(),
        },
    }
}

/// A [`Context`] in the making.
pub struct ContextBuilder {
    source: Source,
}

impl ContextBuilder {
    pub fn call_id(mut self, id: &str) -> Self {
        self.source.call_id = id.to_owned();
        self
    }

    pub fn session(self, session: &str) -> Self {
        self.fact("session", session)
    }

    pub fn conversation(self, conversation: &str) -> Self {
        self.fact("conversation", conversation)
    }

    pub fn organization(self, organization: &str) -> Self {
        self.fact("organization", organization)
    }

    pub fn agent(self, agent: &str) -> Self {
        self.fact("agent", agent)
    }

    pub fn user(self, user: &str) -> Self {
        self.fact("user", user)
    }

    pub fn channel(self, channel: &str) -> Self {
        self.fact("channel", channel)
    }

    /// What [`Context::get`] answers for a key.
    pub fn fact(mut self, key: &str, value: &str) -> Self {
        self.source.facts.insert(key.to_owned(), value.to_owned());
        self
    }

    pub fn time_left(mut self, left: Duration) -> Self {
        self.source.deadline_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        self
    }

    pub fn settings(mut self, settings: impl Serialize) -> Self {
        self.source.settings = json!(settings).to_string();
        self
    }

    pub fn definition(mut self, definition: &str) -> Self {
        self.source.definition = Some(definition.to_owned());
        self
    }

    pub fn build(self) -> Context {
        Context { source: self.source }
    }
}

/// What a tool wrote to its log.
pub fn logged(context: &Context) -> Vec<Line> {
    context.source.logged.borrow().clone()
}

/// What a tool reported of its progress.
pub fn reported(context: &Context) -> Vec<Report> {
    context.source.reported.borrow().clone()
}
