//! The result of an import: the definition with a report of all differences from the document, or an error.

use serde_json::Value;

/// Most notes of one import; the last one counts those that were dropped.
const NOTES: usize = 2_000;

/// A document as a definition.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The definition, of kind `http`.
    pub definition: Value,
    /// Number of operations in the document, selected or not.
    pub operations: usize,
    /// Number of operations that were selected.
    pub selected: usize,
    /// Selected parts of the document that are not in the definition.
    pub left_out: Vec<LeftOut>,
    /// Differences between document and definition.
    pub notes: Vec<Note>,
}

/// A part of the document that is not in the definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct LeftOut {
    /// An operation like `GET /users`, or a path.
    pub what: String,
    /// The reason, and the way out if there is one.
    pub why: String,
}

/// A part of the definition that differs from the document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{about}: {text}")]
pub struct Note {
    /// An operation like `GET /users`, or a JSON pointer into the document.
    pub about: String,
    /// The difference.
    pub text: String,
}

/// The document has no definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ImportError {
    /// JSON pointer into the document; empty for the whole document.
    pub pointer: String,
    /// The cause.
    pub message: String,
    /// The way out.
    pub hint: String,
    /// If no operation could be taken: the reason of each.
    pub left_out: Vec<LeftOut>,
}

impl ImportError {
    pub(crate) fn new(
        pointer: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { pointer: pointer.into(), message: message.into(), hint: hint.into(), left_out: Vec::new() }
    }
}

/// Collects what was left out and the notes.
#[derive(Default)]
pub(crate) struct Report {
    left_out: Vec<LeftOut>,
    notes: Vec<Note>,
    dropped_notes: usize,
}

impl Report {
    pub(crate) fn leave_out(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.left_out.push(LeftOut { what: what.into(), why: why.into() });
    }

    pub(crate) fn note(&mut self, about: impl Into<String>, text: impl Into<String>) {
        if self.notes.len() == NOTES {
            self.dropped_notes += 1;
            return;
        }
        self.notes.push(Note { about: about.into(), text: text.into() });
    }

    pub(crate) fn finish(mut self) -> (Vec<LeftOut>, Vec<Note>) {
        if self.dropped_notes > 0 {
            let text = format!("{} more notes are not shown: select fewer operations", self.dropped_notes);
            self.notes.push(Note { about: "notes".to_owned(), text });
        }
        (self.left_out, self.notes)
    }
}
