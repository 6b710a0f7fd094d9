//! Output of commands: tables and lines for people, one JSON document for machines.
//!
//! Much of the text comes from untrusted sources (tool output, a plugin's description), so control and hidden
//! characters are escaped. Styles are always written; the stream (`anstream`) strips them without a terminal or if
//! `NO_COLOR` is set.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

use clap::builder::styling::{AnsiColor, Style};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use toolgate_api::content::ContentBlock;
use toolgate_api::text;

const HEADING: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const WAITING: Style = AnsiColor::Yellow.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const GAP: &str = "  ";
/// Moves the cursor to the first cell, and clears the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J\u{1b}[3J";
/// Least width of a column that is trimmed to the terminal.
const TRIMMED_CHARS: usize = 12;

/// Limit of characters per cell: wider than a terminal, which suffices for a sentence, while no untrusted name or
/// reason can push the other columns off the screen. `--json` prints the whole text.
const CELL_CHARS: usize = 200;

/// Output streams for results and notes.
pub struct Printer<'out> {
    out: &'out mut dyn Write,
    notes: &'out mut dyn Write,
    json: bool,
    /// Columns of the terminal that shows the results; `None` for a pipe or file, which gets whole cells.
    columns: Option<usize>,
    assumes_yes: bool,
}

impl<'out> Printer<'out> {
    /// Creates a printer: results go to `out`, as JSON if `json` is set; notes for people go to `notes`.
    pub fn new(out: &'out mut dyn Write, notes: &'out mut dyn Write, json: bool) -> Self {
        Self { out, notes, json, columns: None, assumes_yes: false }
    }

    /// Sets whether questions are answered with yes.
    pub fn assume_yes(self, assumes_yes: bool) -> Self {
        Self { assumes_yes, ..self }
    }

    /// Whether questions are answered with yes.
    pub(crate) fn assumes_yes(&self) -> bool {
        self.assumes_yes
    }

    /// Trims tables to the terminal, if standard output is one.
    pub fn fit_terminal(self) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let size = is_terminal.then(terminal_size::terminal_size).flatten();
        Self { columns: size.map(|(width, _)| usize::from(width.0)), ..self }
    }

    /// Whether results are read by a person: standard output is a terminal, and no JSON was asked for.
    pub fn is_terminal(&self) -> bool {
        self.columns.is_some() && !self.json
    }

    /// Sets the width of the terminal.
    #[cfg(test)]
    pub fn with_columns(self, columns: Option<usize>) -> Self {
        Self { columns, ..self }
    }

    /// Prints a document as the result: its fields at a terminal, else JSON, which can be edited and written back.
    pub fn document(&mut self, document: &Value) -> io::Result<()> {
        if !self.is_terminal() {
            return self.json(document);
        }
        let fields = readable_fields(document);
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| (name.as_str(), Some(value.clone()))).collect();
        self.fields(&fields)
    }

    /// Runs `print` with a printer whose results and notes go to these buffers.
    pub async fn capture<T>(
        &self,
        [out, notes]: [&mut Vec<u8>; 2],
        print: impl AsyncFn(&mut Printer<'_>) -> T,
    ) -> T {
        let Self { json, columns, .. } = *self;
        print(&mut Printer { out, notes, json, columns, assumes_yes: self.assumes_yes }).await
    }

    /// Prints results and notes of another printer; on a terminal, in the place of what it shows.
    pub fn redraw(&mut self, out: &[u8], notes: &[u8]) -> io::Result<()> {
        if self.columns.is_some() {
            self.out.write_all(CLEAR.as_bytes())?;
        }
        self.out.write_all(out)?;
        self.out.flush()?;
        self.notes.write_all(notes)
    }

    /// Whether the output is JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line of the result.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", visible(text))
    }

    /// Prints text of this program as the result, with its line breaks.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        text.lines().try_for_each(|line| self.line(line))
    }

    /// Prints the result: `value` as JSON, or `line` for people.
    pub fn result<T: Serialize + ?Sized>(&mut self, value: &T, line: &str) -> io::Result<()> {
        if self.json { self.json(value) } else { self.line(line) }
    }

    /// Prints a list as the result: `{"items": […]}` as JSON, or a table for people.
    pub fn list<T: Serialize, const N: usize>(
        &mut self,
        headings: [&str; N],
        items: &[T],
        row: impl Fn(&T) -> [String; N],
    ) -> io::Result<()> {
        if self.json {
            return self.json(&BTreeMap::from([("items", items)]));
        }
        self.table(headings, &items.iter().map(row).collect::<Vec<_>>())
    }

    /// Prints the output of a tool as the result, with line breaks and indents.
    pub fn output(&mut self, output: Option<&RawValue>) -> io::Result<()> {
        let value = output.and_then(|output| serde_json::from_str(output.get()).ok());
        self.json(&value.unwrap_or(Value::Null))
    }

    /// Prints a value as JSON as the result.
    pub fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> io::Result<()> {
        // The value can hold raw JSON of another author.
        self.json_text(&serde_json::to_string_pretty(value).unwrap_or_default())
    }

    /// Prints raw JSON of another author as the result: numbers, spaces and the order of keys stay unchanged.
    pub fn json_text(&mut self, text: &str) -> io::Result<()> {
        // Between tokens a carriage return has no meaning, and on a terminal it overwrites its line.
        for line in text.lines() {
            writeln!(self.out, "{}", escaped_in_json(&line.replace('\r', "")))?;
        }
        Ok(())
    }

    /// Prints the fields of one object, one per line; a field without a value is skipped.
    pub fn fields(&mut self, fields: &[(&str, Option<String>)]) -> io::Result<()> {
        let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in fields {
            if let Some(value) = value {
                let padding = width - name.chars().count();
                writeln!(self.out, "{HEADING}{name}{HEADING:#}{:padding$}{GAP}{}", "", visible(value))?;
            }
        }
        Ok(())
    }

    /// Prints a note to the notes stream.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.notes, "{}", visible(text))
    }

    /// Prints text of another author behind a label. Its further lines are indented, so that none looks like a note of this program.
    pub fn note_lines(&mut self, label: &str, text: &str) -> io::Result<()> {
        let indent = " ".repeat(label.chars().count());
        let mut label = label;
        for line in text.trim_end().lines() {
            self.note(&format!("{label}{line}"))?;
            label = &indent;
        }
        Ok(())
    }

    /// Prints a content block as a note: text in full, of data its type and size.
    pub fn block(&mut self, block: &ContentBlock) -> io::Result<()> {
        // Four digits of base64 stand for three bytes.
        let data_text = |kind: &str, data: &str, mime_type: &str| {
            let padding = data.len() - data.trim_end_matches('=').len();
            format!(
                "{kind} {mime_type}, {} bytes; `--json` has its data",
                data.len() / 4 * 3 - padding.min(2)
            )
        };
        match block {
            ContentBlock::Text { text } => self.note_lines("text  ", text),
            ContentBlock::Image { data, mime_type } => self.note(&data_text("image", data, mime_type)),
            ContentBlock::Audio { data, mime_type } => self.note(&data_text("audio", data, mime_type)),
            ContentBlock::File { path, mime_type: None } => self.note(&format!("file  {path}")),
            ContentBlock::File { path, mime_type: Some(mime_type) } => {
                self.note(&format!("file  {path}, {mime_type}"))
            }
        }
    }

    /// Prints an error to the notes stream.
    pub fn error(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.notes, "{ERROR}error:{ERROR:#} {}", visible(text))
    }

    /// Prints a warning to the notes stream.
    pub fn warning(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.notes, "{WARNING}warning:{WARNING:#} {}", visible(text))
    }

    /// Prints rows below their headings, each column as wide as its widest cell; a cell over the limit is truncated.
    pub fn table<const N: usize>(&mut self, headings: [&str; N], rows: &[[String; N]]) -> io::Result<()> {
        let rows: Vec<[String; N]> =
            rows.iter().map(|row| row.each_ref().map(|cell| cut_to(visible(cell), CELL_CHARS))).collect();
        let mut widths = headings.map(|heading| heading.chars().count());
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        if let Some(columns) = self.columns {
            trim(&mut widths, columns);
        }
        let fit = |row: &[String; N]| {
            let mut widths = widths.iter();
            row.each_ref().map(|cell| cut_to(cell.clone(), widths.next().copied().unwrap_or(CELL_CHARS)))
        };
        self.row(&fit(&headings.map(str::to_owned)), &widths, |_| HEADING)?;
        for row in &rows {
            self.row(&fit(row), &widths, style_of)?;
        }
        Ok(())
    }

    fn row<const N: usize>(
        &mut self,
        cells: &[String; N],
        widths: &[usize; N],
        style: impl Fn(&str) -> Style,
    ) -> io::Result<()> {
        for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let style = style(cell);
            write!(self.out, "{style}{cell}{style:#}")?;
            if index + 1 < N {
                let padding = width - cell.chars().count();
                write!(self.out, "{:padding$}{GAP}", "")?;
            }
        }
        writeln!(self.out)
    }
}

/// The members of a document by their names, joined by dots. Lists of words are one line, other lists a line for each entry.
fn readable_fields(document: &Value) -> Vec<(String, String)> {
    fn walk(name: String, value: &Value, fields: &mut Vec<(String, String)>) {
        let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
        match value {
            Value::Null => {}
            Value::Object(members) if !members.is_empty() => {
                for (member, value) in members {
                    let name = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
                    walk(name, value, fields);
                }
            }
            Value::Array(items) if items.is_empty() => fields.push((name, "none".to_owned())),
            Value::Array(items) if items.iter().all(is_scalar) => {
                fields.push((name, items.iter().map(scalar_text).collect::<Vec<_>>().join(", ")));
            }
            Value::Array(items) => {
                fields.extend(items.iter().map(|item| (name.clone(), entry_text(item))));
            }
            _ => fields.push((name, scalar_text(value))),
        }
    }
    let mut fields = Vec::new();
    walk(String::new(), document, &mut fields);
    fields
}

/// An entry of a list in one line: the members that have a value.
fn entry_text(entry: &Value) -> String {
    let Value::Object(members) = entry else { return scalar_text(entry) };
    let members = members.iter().filter(|(_, value)| !value.is_null());
    members.map(|(name, value)| format!("{name}={}", scalar_text(value))).collect::<Vec<_>>().join(" ")
}

fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the text of a table cell; `-` if absent.
pub(crate) fn cell(text: Option<&impl AsRef<str>>) -> String {
    text.map_or("-", AsRef::as_ref).to_owned()
}

/// Names a token by its label, if it has one, and its id. People who sign in and webhooks have ids that tell who they are.
pub(crate) fn token_text(id: &str, label: Option<&str>) -> String {
    match label {
        Some(label) => format!("{label} (token {id})"),
        None if id.contains(':') => id.to_owned(),
        None => format!("token {id}"),
    }
}

/// Returns the name of a variant, as JSON has it.
pub(crate) fn word(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(Value::String(word)) => word,
        _ => "-".to_owned(),
    }
}

/// Narrows the widest columns until a row fits into `columns`. The first two stay, since one of them is the name that other
/// commands take.
fn trim(widths: &mut [usize], columns: usize) {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(columns);
    while excess > 0 {
        let Some(widest) = widths.iter_mut().skip(2).max() else { return };
        if *widest <= TRIMMED_CHARS {
            return;
        }
        *widest -= 1;
        excess -= 1;
    }
}

/// Truncates a cell to `chars` characters with an ellipsis at the end.
fn cut_to(mut cell: String, chars: usize) -> String {
    if let Some((end, _)) = cell.char_indices().nth(chars) {
        let last = cell[..end].char_indices().next_back().map_or(0, |(at, _)| at);
        cell.replace_range(last.., "…");
    }
    cell
}

/// Returns the style of a state or outcome: good, bad, or plain for all others.
fn style_of(cell: &str) -> Style {
    match cell {
        "ok" | "active" | "allowed" | "approved" | "✔" => GOOD,
        "error" | "failed" | "quarantined" | "crashed" | "unknown" | "refused" | "denied" | "✘" => BAD,
        "needs approval" | "pending" | "?" => WAITING,
        _ => Style::new(),
    }
}

/// Escapes control and hidden characters.
pub(crate) fn visible(text: &str) -> String {
    written_out(text, |letter| letter.escape_unicode().to_string())
}

/// Escapes control and hidden characters in JSON with JSON's own escapes, so the text stays parseable.
fn escaped_in_json(text: &str) -> String {
    written_out(text, |letter| {
        // A tab stands between tokens: inside a valid JSON string it is escaped already.
        if letter == '\t' {
            return letter.to_string();
        }
        let mut units = [0; 2];
        letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    })
}

fn written_out(text: &str, write: impl Fn(char) -> String) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_hidden(letter) { shown.push_str(&write(letter)) } else { shown.push(letter) }
    }
    shown
}

/// Whether a character is a control character, a bidirectional control, of zero width, or otherwise hidden.
fn is_hidden(letter: char) -> bool {
    letter.is_control() || text::is_hidden(letter)
}

/// Formats milliseconds since 1970 as a date and time in UTC (RFC 3339).
pub fn time_text(at_ms: u64) -> String {
    let time = i64::try_from(at_ms).ok().and_then(|at_ms| Timestamp::from_millisecond(at_ms).ok());
    time.map_or_else(|| at_ms.to_string(), |time| format!("{time:.3}"))
}

/// Parses a time as [`time_text`] writes it (RFC 3339), or as milliseconds since 1970.
pub(crate) fn time_from(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a time: write it like `2026-11-26T08:00:00Z`");
    match (text.parse(), text.parse::<Timestamp>()) {
        (Ok(at_ms), _) => Ok(at_ms),
        (_, Ok(time)) => u64::try_from(time.as_millisecond()).map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn print_text(json: bool, print: impl FnOnce(&mut Printer<'_>) -> io::Result<()>) -> String {
        let (mut out, mut notes) = (anstream::StripStream::new(Vec::new()), Vec::new());
        print(&mut Printer::new(&mut out, &mut notes, json)).expect("printed");
        String::from_utf8(out.into_inner()).expect("text")
    }

    #[test]
    fn a_table_has_columns() {
        let rows = [["a".to_owned(), "ok".to_owned()], ["longer".to_owned(), "failed".to_owned()]];
        let text = print_text(false, |printer| printer.table(["NAME", "STATE"], &rows));
        assert_eq!(text, "NAME    STATE\na       ok\nlonger  failed\n");
    }

    /// A format width is at most 65,535, and a line of that length is unreadable anyway.
    #[test]
    fn a_cell_that_is_far_too_long_is_cut_and_one_that_fits_is_not() {
        let rows = [200, 201, 66_000].map(|letters| ["é".repeat(letters), "ok".to_owned()]);
        let text = print_text(false, |printer| printer.table(["NAME", "STATE"], &rows));
        let cut = format!("{}…", "é".repeat(199));
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(lines, ["é".repeat(200), cut.clone(), cut].map(|name| format!("{name}  ok")));
    }

    #[test]
    fn a_document_is_fields_at_a_terminal_and_json_in_a_pipe() {
        let document = json!({"enabled": ["a/*", "b/c"], "limits": {"fuel": 5}, "quotas": [{"calls": 1, "of": null}],
            "disabled": []});
        let shown = |columns: Option<usize>| {
            let (mut out, mut notes) = (anstream::StripStream::new(Vec::new()), Vec::new());
            let mut printer = Printer::new(&mut out, &mut notes, false).with_columns(columns);
            printer.document(&document).expect("printed");
            String::from_utf8(out.into_inner()).expect("text")
        };
        let fields = shown(Some(80));
        for line in ["disabled     none", "enabled      a/*, b/c", "limits.fuel  5", "quotas       calls=1"] {
            assert!(fields.contains(line), "{fields}");
        }
        assert_eq!(serde_json::from_str::<Value>(&shown(None)).expect("json"), document);
    }

    #[test]
    fn a_table_is_trimmed_to_the_terminal_and_never_in_a_pipe() {
        let rows = [["a_0123456789".to_owned(), "ok".to_owned(), "w".repeat(60)]];
        let (mut out, mut notes) = (anstream::StripStream::new(Vec::new()), Vec::new());
        let printer = Printer::new(&mut out, &mut notes, false);
        Printer { columns: Some(50), ..printer }.table(["ID", "STATE", "WHY"], &rows).expect("printed");
        let text = String::from_utf8(out.into_inner()).expect("text");
        assert!(text.lines().all(|line| line.chars().count() <= 50), "{text}");
        assert!(text.contains("a_0123456789  ok     www") && text.contains("…"), "{text}");
        let whole = print_text(false, |printer| printer.table(["ID", "STATE", "WHY"], &rows));
        assert!(whole.contains(&rows[0][2]), "{whole}");
        // A terminal that is too narrow for all columns wraps its lines.
        let mut widths = [12, 12, 12];
        trim(&mut widths, 10);
        assert_eq!(widths, [12, 12, 12]);
    }

    #[test]
    fn a_cell_cannot_break_its_row_or_steer_the_terminal() {
        let rows = [["a\nb".to_owned(), "\u{9b}31m".to_owned()]];
        let text = print_text(false, |printer| printer.table(["A", "B"], &rows));
        assert_eq!(text, "A        B\na\\u{a}b  \\u{9b}31m\n");
    }

    #[test]
    fn json_stays_json_with_hidden_characters_escaped() {
        let value = json!({"text": "a\u{202e}b\u{7f}c\u{e0041}", "n": 1});
        let text = print_text(true, |printer| printer.json(&value));
        assert!(text.contains(r"a\u202eb\u007fc\udb40\udc41"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("json"), value);
    }

    #[test]
    fn json_of_somebody_else_keeps_its_numbers_spaces_and_order() {
        let text = "{\"b\":1.0,\r\n\t\"a\": 1E2, \"c\": \"x\u{202e}\u{3164}\"}";
        let shown = print_text(true, |printer| printer.json_text(text));
        assert_eq!(shown, "{\"b\":1.0,\n\t\"a\": 1E2, \"c\": \"x\\u202e\\u3164\"}\n");
        let as_it_was: Value = serde_json::from_str(text).expect("json");
        assert_eq!(serde_json::from_str::<Value>(&shown).expect("json"), as_it_was);
        // A carriage return could overwrite the text before it.
        assert!(!print_text(true, |printer| printer.json_text("{\"a\": 1,\r \"b\": 2}")).contains('\r'));
    }

    #[test]
    fn fields_stand_in_a_column_and_one_without_a_value_is_left_out() {
        let fields = [("id", Some("a\r1".to_owned())), ("user", None), ("channel", Some("sms".to_owned()))];
        let shown = print_text(false, |printer| printer.fields(&fields));
        assert_eq!(shown, "id       a\\u{d}1\nchannel  sms\n");
    }

    #[test]
    fn ordinary_text_of_any_language_stays_as_it_is() {
        for text in ["naïve café", "日本語", "🙂", "a\u{301}"] {
            assert_eq!(visible(text), text);
        }
    }

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(time_text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time_text(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(time_text(1_767_225_599_999), "2025-12-31T23:59:59.999Z");
        assert_eq!(time_text(1_795_309_323_045), "2026-11-22T01:02:03.045Z");
        assert_eq!(time_text(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
        assert_eq!(time_text(u64::MAX), u64::MAX.to_string());
        for at_ms in [0, 1_795_309_323_045] {
            assert_eq!((time_from(&time_text(at_ms)), time_from(&at_ms.to_string())), (Ok(at_ms), Ok(at_ms)));
        }
        assert_eq!(time_from("2026-11-22T02:02:03.045+01:00"), Ok(1_795_309_323_045));
        for text in ["", "tomorrow", "1969-12-31T23:59:59Z"] {
            time_from(text).expect_err(text);
        }
    }
}
