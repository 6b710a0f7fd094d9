//! What `config check` and `doctor` find, for people and as JSON.

use serde::Serialize;
use toolgate_cli::{Failure, Printer};

/// How a checked thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    Warning,
    Error,
}

/// A checked thing.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    /// The name of the thing.
    pub name: &'static str,
    pub state: State,
    /// The finding in words, with its value.
    pub message: String,
    /// How to fix it; empty if nothing is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

#[derive(Serialize)]
struct Findings<'a> {
    state: State,
    findings: &'a [Finding],
}

impl Finding {
    /// Something that is as it should be.
    pub(super) fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, state: State::Ok, message: message.into(), hint: String::new() }
    }

    /// Something that may become a problem.
    pub(super) fn warning(name: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, state: State::Warning, message: message.into(), hint: hint.into() }
    }

    /// Something with which the daemon does not start or work.
    pub(super) fn error(name: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, state: State::Error, message: message.into(), hint: hint.into() }
    }
}

/// Prints the findings, and returns whether one is an error.
pub(super) fn print(findings: &[Finding], printer: &mut Printer<'_>) -> Result<bool, Failure> {
    let worst = findings.iter().map(|finding| finding.state).max().unwrap_or(State::Ok);
    if printer.is_json() {
        printer.json(&Findings { state: worst, findings })?;
        return Ok(worst == State::Error);
    }
    for Finding { name, state, message, hint } in findings {
        let text = format!("{name}: {message}");
        match state {
            State::Ok => printer.line(&format!("ok: {text}"))?,
            State::Warning => printer.warning(&text)?,
            State::Error => printer.error(&text)?,
        }
        if !hint.is_empty() {
            printer.note(&format!("  {hint}"))?;
        }
    }
    Ok(worst == State::Error)
}
