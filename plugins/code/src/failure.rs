//! The errors of scripts, for the model that wrote them: what failed, where in its text, and what to do.

use boa_engine::parser::lexer;
use boa_engine::{Context, JsError, JsValue, js_string, parser};
use serde_json::{Value, json};
use toolgate_sdk::Error;

use crate::engine::OPENING;
use crate::form::{Added, Script};

/// The name of the script in stacks.
pub const SCRIPT: &str = "script";
/// Most lines of a stack.
const STACK_LINES: usize = 10;

/// A failure, before the script's log is added.
pub struct Failure {
    message: String,
    details: Value,
}

impl Failure {
    pub fn with_log(mut self, log: Option<String>) -> Error {
        if let Some(log) = log {
            self.details["log"] = log.into();
        }
        // Not retryable, also if the failed call was: a second run would repeat the calls before it.
        Error::new(self.message).with_details(self.details)
    }
}

/// The error of an engine that does not start.
pub fn engine(error: &JsError) -> Error {
    Error::new(format!("the engine does not start: {error}"))
}

/// The error of a text that is no script.
pub fn syntax(error: &parser::Error, script: &str) -> Error {
    let text = match error {
        parser::Error::AbruptEnd => {
            let line = script.lines().count();
            return Error::invalid("the script ends too early: a bracket, string or template is not closed")
                .with_details(json!({"line": line}));
        }
        error => error.to_string(),
    };
    let position = match error {
        parser::Error::Lex { err: lexer::Error::Syntax(_, position) } => {
            Some((text.as_str(), position.line_number().into(), position.column_number().into()))
        }
        // Other messages end with their position.
        _ => text.rsplit_once(" at line ").and_then(|(text, position)| {
            let (line, column) = position.split_once(", col ")?;
            Some((text, line.parse().ok()?, column.parse().ok()?))
        }),
    };
    let Some((text, line, column)) = position else {
        return Error::invalid(format!("the script has a syntax error: {text}"));
    };
    let position = Position { line, column };
    let line = script.lines().nth(usize::try_from(line).unwrap_or_default().saturating_sub(1));
    let way_out = line.and_then(foreign).map(|way_out| format!("; {way_out}")).unwrap_or_default();
    Error::invalid(format!("the script has a syntax error at {position}: {text}{way_out}"))
        .with_details(position.json())
}

/// What to write in the place of a line in another form of the language.
fn foreign(line: &str) -> Option<&'static str> {
    let begins = |words: &[&str]| words.iter().any(|word| line.trim_start().starts_with(word));
    if begins(&["import ", "import{", "export "]) || line.contains("import(") {
        return Some("there are no modules: tools are in `tools`");
    }
    let runs = begins(&["enum ", "const enum ", "namespace ", "abstract "])
        || ["(private ", "(public ", "(protected ", "(readonly "].iter().any(|word| line.contains(word));
    runs.then_some("only the types of TypeScript are taken out: write JavaScript")
}

/// What to use in the place of a global that other hosts have.
fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "fetch" | "XMLHttpRequest" | "axios" => "call `tools.http.fetch({…})`, if the agent has it",
        "require" | "module" | "exports" | "fs" | "path" | "os" => {
            "there are no modules: tools are in `tools`"
        }
        "process" | "Deno" | "Bun" | "window" | "document" | "global" => "a script has no host but its tools",
        "setTimeout" | "setInterval" | "setImmediate" | "queueMicrotask" => {
            "there are no timers: await calls of tools"
        }
        "structuredClone" => "write `JSON.parse(JSON.stringify(value))`",
        "Buffer" | "btoa" | "atob" | "TextEncoder" | "TextDecoder" => {
            "use the tools of `tools.text`, if the agent has them"
        }
        "URL" | "URLSearchParams" => "take the address apart with `split`, and use `encodeURIComponent`",
        "Intl" => "there is no locale data: format it yourself",
        "crypto" | "performance" => "use `Math.random()` and `Date.now()`",
        _ => return None,
    })
}

/// The error of a text that is no body of a function, though it begins with one.
pub fn syntax_around(error: &JsError) -> Error {
    let text = error.as_native().map_or_else(|| error.to_string(), |native| native.message().to_owned());
    let text = text.split(" at line ").next().unwrap_or_default();
    Error::invalid(format!("the script has a syntax error, perhaps a `}}` too many: {text}"))
}

/// The error of a script that threw.
pub fn uncaught(error: JsError, script: &Script, context: &mut Context) -> Failure {
    let stack: Vec<(String, Position)> = stack_of(&error.to_string(), script.added);
    let text = match error.as_opaque() {
        Some(value) => text_of(value, context),
        None => error.as_native().map_or_else(|| error.to_string(), ToString::to_string),
    };
    let text = text.lines().next().unwrap_or_default();
    let mut details = json!({});
    let mut place = String::new();
    if let Some((_, position)) = stack.first() {
        details = position.json();
        place = format!(" at {position}");
        details["stack"] =
            stack.iter().map(|(function, position)| format!("{function} ({position})")).collect();
    }
    if let Some(object) = error.as_opaque().and_then(JsValue::as_object) {
        for key in ["code", "details"] {
            let value = object.get(js_string!(key), context).and_then(|value| value.to_json(context));
            if let Ok(Some(value)) = value
                && !value.is_null()
            {
                details[key] = value;
            }
        }
    }
    let missing = text.strip_prefix("ReferenceError: ").and_then(|text| text.strip_suffix(" is not defined"));
    let way_out = missing.and_then(instead_of).map(|way_out| format!("; {way_out}")).unwrap_or_default();
    Failure { message: format!("the script failed{place}: {text}{way_out}"), details }
}

/// The error of a script that awaits for ever.
pub fn pending() -> Failure {
    let message =
        "the script awaits a promise that never settles: there are no timers, await calls of tools only";
    Failure { message: message.to_owned(), details: json!({}) }
}

/// The error of a value that is no JSON for others.
pub fn unfit_value(error: &serde_json::Error) -> Failure {
    let message =
        format!("the value that the script returned cannot be read as JSON: {error}; return a flatter value");
    Failure { message, details: json!({}) }
}

/// A thrown value in one line, as `String(value)` shows it.
pub fn text_of(value: &JsValue, context: &mut Context) -> String {
    let text = value.to_string(context).map(|text| text.to_std_string_lossy());
    text.unwrap_or_else(|_| "a value that has no text".to_owned())
}

/// A position in the script, from 1.
struct Position {
    line: u64,
    column: u64,
}

impl Position {
    fn read(line: &str, column: &str, added: Option<Added>) -> Option<Self> {
        let (line, column): (u64, u64) = (line.parse().ok()?, column.parse().ok()?);
        let opening = if line == 1 { OPENING.len() as u64 } else { 0 };
        let column = column.saturating_sub(opening);
        let is_behind = |added: &Added| added.line == line && column >= added.column + added.columns;
        let added = added.filter(is_behind).map_or(0, |added| added.columns);
        Some(Self { line, column: (column - added).max(1) })
    }

    fn json(&self) -> Value {
        json!({"line": self.line, "column": self.column})
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "line {}, column {}", self.line, self.column)
    }
}

/// Reads the functions and positions in the script from the lines `    at NAME (script:LINE:COLUMN)` of an error.
fn stack_of(text: &str, added: Option<Added>) -> Vec<(String, Position)> {
    let entries = text.lines().filter_map(|line| {
        let (function, place) = line.strip_prefix("    at ")?.rsplit_once(" (")?;
        let (line, column) =
            place.strip_prefix(SCRIPT)?.strip_prefix(':')?.strip_suffix(')')?.split_once(':')?;
        Some((function.to_owned(), Position::read(line, column, added)?))
    });
    entries.take(STACK_LINES).collect()
}
