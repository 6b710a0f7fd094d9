//! Answers what a test said, and keeps what the tool said.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::context::Level;

/// One event that a tool wrote to its log.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// How much it matters.
    pub level: Level,
    /// Its short name, as `cache_miss`.
    pub event: String,
    /// What it says.
    pub message: String,
    /// Names with their values as text, in the order given.
    pub fields: Vec<(String, String)>,
}

/// One report of a tool's progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How many units are finished.
    pub done: u64,
    /// How many there are, where that is known.
    pub total: Option<u64>,
    /// What a person is told.
    pub message: Option<String>,
}

pub(crate) struct Source {
    pub(crate) call_id: String,
    pub(crate) deadline_ms: u64,
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) settings: String,
    pub(crate) definition: Option<String>,
    pub(crate) logged: RefCell<Vec<Line>>,
    pub(crate) reported: RefCell<Vec<Report>>,
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
        self.logged.borrow_mut().push(line);
    }

    pub(crate) fn progress(&self, done: u64, total: Option<u64>, message: Option<&str>) {
        let report = Report { done, total, message: message.map(str::to_owned) };
        self.reported.borrow_mut().push(report);
    }
}
