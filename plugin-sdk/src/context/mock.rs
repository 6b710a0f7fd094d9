//! A context for native tests: returns the values that a test set, and records log and progress.

use std::cell::RefCell;
use std::collections::BTreeMap;

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
