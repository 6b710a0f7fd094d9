//! Calls tools in native tests: with arguments in JSON, and a context made by hand.
//!
//! Arguments are read and results written as in a component. What the daemon does around a call is not done here: neither
//! schema is checked, nothing is limited, and `std::fs` reaches the files of the machine. So arguments that the daemon would
//! refuse come to the function where its types take them, and a result may be one that the output schema does not take.
//! `toolgate check` and `toolgate run` do all of it with the built component.
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

/// Calls a tool, with a JSON object as arguments, and gives its result, or what a client of it is to perform.
///
/// Fails as the tool does, and with `INVALID_ARGUMENTS` where the arguments do not fit the types of its parameters.
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
    /// The arguments, a JSON object.
    pub input: Value,
    /// The result that the example gives.
    pub expected: Value,
    /// What the tool gave.
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

/// A [`Context`] in the making. What is not said is not known, as for a tool whose host does not say it.
pub struct ContextBuilder {
    source: Source,
}

impl ContextBuilder {
    /// What [`Context::call_id`] answers; `call` unless said.
    pub fn call_id(mut self, id: &str) -> Self {
        self.source.call_id = id.to_owned();
        self
    }

    /// What [`Context::session`] answers.
    pub fn session(self, session: &str) -> Self {
        self.fact("session", session)
    }

    /// What [`Context::conversation`] answers.
    pub fn conversation(self, conversation: &str) -> Self {
        self.fact("conversation", conversation)
    }

    /// What [`Context::organization`] answers.
    pub fn organization(self, organization: &str) -> Self {
        self.fact("organization", organization)
    }

    /// What [`Context::agent`] answers, as `acme/clerk`.
    pub fn agent(self, agent: &str) -> Self {
        self.fact("agent", agent)
    }

    /// What [`Context::user`] answers.
    pub fn user(self, user: &str) -> Self {
        self.fact("user", user)
    }

    /// What [`Context::channel`] answers, as `sms`.
    pub fn channel(self, channel: &str) -> Self {
        self.fact("channel", channel)
    }

    /// What [`Context::get`] answers for a key.
    pub fn fact(mut self, key: &str, value: &str) -> Self {
        self.source.facts.insert(key.to_owned(), value.to_owned());
        self
    }

    /// What [`Context::time_left`] answers, to the millisecond; 30 seconds unless said. It does not run down.
    pub fn time_left(mut self, left: Duration) -> Self {
        self.source.deadline_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// What [`Context::settings`] reads; an empty object unless said. What cannot be written as JSON panics.
    pub fn settings(mut self, settings: impl Serialize) -> Self {
        self.source.settings = json!(settings).to_string();
        self
    }

    /// What [`Context::definition`] answers, JSON text.
    pub fn definition(mut self, definition: &str) -> Self {
        self.source.definition = Some(definition.to_owned());
        self
    }

    /// The context.
    pub fn build(self) -> Context {
        Context { source: self.source }
    }
}

/// What a tool wrote to its log, in its order.
pub fn logged(context: &Context) -> Vec<Line> {
    context.source.logged.borrow().clone()
}

/// What a tool reported of its progress, in its order.
pub fn reported(context: &Context) -> Vec<Report> {
    context.source.reported.borrow().clone()
}
