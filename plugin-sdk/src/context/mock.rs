//! A context for native tests: returns the values that a test set, and records log and progress.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::CallFailure;
use crate::context::Level;

/// An event that a tool wrote to its log.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its severity.
    pub level: Level,
    /// Its short name, like `cache_miss`.
    pub event: String,
    /// Its message.
    pub message: String,
    /// Its fields as text, in the given order.
    pub fields: Vec<(String, String)>,
}

/// A progress report of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The number of finished units.
    pub done: u64,
    /// The number of all units, if it is known.
    pub total: Option<u64>,
    /// The message for the waiting person.
    pub message: Option<String>,
}

pub(crate) struct Source {
    pub(crate) call_id: String,
    pub(crate) deadline_ms: u64,
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) settings: String,
    pub(crate) definition: Option<String>,
    pub(crate) log_lines: RefCell<Vec<Line>>,
    pub(crate) progress_reports: RefCell<Vec<Report>>,
    pub(crate) calls: CallSource,
}

impl Source {
    pub(crate) fn call_id(&self) -> String {
        self.call_id.clone()
    }

    pub(crate) fn get(&self, key: &str) -> Option<String> {
        self.facts.get(key).cloned()
    }

    pub(crate) fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }

    pub(crate) fn settings(&self) -> String {
        self.settings.clone()
    }

    pub(crate) fn definition(&self) -> Option<String> {
        self.definition.clone()
    }

    pub(crate) fn calls(&self) -> CallSource {
        self.calls.clone()
    }

    pub(crate) fn log(&self, level: Level, event: &str, message: &str, fields: &[(String, String)]) {
        let line =
            Line { level, event: event.to_owned(), message: message.to_owned(), fields: fields.to_vec() };
        self.log_lines.borrow_mut().push(line);
    }

    pub(crate) fn progress(&self, done: u64, total: Option<u64>, message: Option<&str>) {
        let report = Report { done, total, message: message.map(str::to_owned) };
        self.progress_reports.borrow_mut().push(report);
    }
}

/// The other tools of a test.
#[derive(Clone, Default)]
pub(crate) struct CallSource {
    tools: Rc<RefCell<BTreeMap<String, OtherTool>>>,
    pub(crate) made: Rc<RefCell<Vec<(String, Value)>>>,
}

#[derive(Clone)]
struct OtherTool {
    description: String,
    call: Rc<dyn Fn(Value) -> Result<Value, CallFailure>>,
}

impl CallSource {
    pub(crate) fn add(
        &self,
        tool: &str,
        description: &str,
        call: impl Fn(Value) -> Result<Value, CallFailure> + 'static,
    ) {
        let other = OtherTool { description: description.to_owned(), call: Rc::new(call) };
        self.tools.borrow_mut().insert(tool.to_owned(), other);
    }

    pub(crate) fn tools(&self) -> String {
        let tools = self.tools.borrow();
        let listed = tools.iter().map(|(name, tool)| json!({"name": name, "description": tool.description}));
        Value::from_iter(listed).to_string()
    }

    pub(crate) fn describe(&self, tool: &str) -> Result<String, CallFailure> {
        let found = self.find(tool)?;
        Ok(format!("tools.{}(object): Promise<unknown>\n\n{}", tool.replace('/', "."), found.description))
    }

    pub(crate) fn call(&self, tool: &str, arguments: &str) -> Result<String, CallFailure> {
        let arguments = serde_json::from_str(arguments)
            .map_err(|error| failure("INVALID_ARGUMENTS", format!("the arguments are not JSON: {error}")))?;
        let found = self.find(tool)?;
        self.made.borrow_mut().push((tool.to_owned(), Value::clone(&arguments)));
        // The tools are not borrowed while one runs: it may look at them itself.
        (found.call)(arguments).map(|output| output.to_string())
    }

    /// One after another, as a native test has no daemon.
    pub(crate) fn call_all(&self, calls: &[(String, String)]) -> Vec<Result<String, CallFailure>> {
        calls.iter().map(|(tool, arguments)| self.call(tool, arguments)).collect()
    }

    fn find(&self, tool: &str) -> Result<OtherTool, CallFailure> {
        let found = self.tools.borrow().get(tool).cloned();
        found.ok_or_else(|| failure("UNKNOWN_TOOL", format!("there is no tool `{tool}`")))
    }
}

fn failure(code: &str, message: String) -> CallFailure {
    CallFailure { code: code.to_owned(), message, retryable: false, details: None }
}
