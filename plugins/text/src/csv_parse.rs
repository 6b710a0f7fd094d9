//! `csv_parse`: rows of fields into JSON.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use csv::{ReaderBuilder, StringRecord};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use toolgate_sdk::serde_json::{self, value::RawValue};
use toolgate_sdk::{Error, tool};

use crate::delimiter::{Delimiter, Guess};
use crate::document::is_wide_integer;
use crate::size::{Page, in_json};

/// Reads CSV or TSV into rows.
///
/// - With a header, each row is an object by column; without, a list of fields.
/// - Columns without a name are called `column_1`, `column_2`, …; of two with the same name the second is `name_2`.
/// - A quote that is not closed is refused; one within a field without quotes is a sign like others.
/// - Every field is a text, unless `convert` is true.
/// - `total` counts all rows; if there are more than are given, `next_offset` is the `offset` of the next call.
#[tool(
    read_only,
    tags("csv", "tsv", "table", "spreadsheet", "parse", "json"),
    examples(
        {"text": "name,age\nAda,36\n\"Lovelace, A.\",\n"} => {
            "columns": ["name", "age"],
            "rows": [{"name": "Ada", "age": "36"}, {"name": "Lovelace, A.", "age": ""}],
            "total": 2, "delimiter": "comma"
        },
        "typed, without a header": {"text": "1;x\n2.5;\n", "header": false, "convert": true} => {
            "rows": [[1, "x"], [2.5, null]], "total": 2, "delimiter": "semicolon"
        },
    )
)]
pub fn csv_parse(
    /// The CSV
    text: String,
    /// Character between two fields; left out, a first line `sep=;` or the first rows tell
    delimiter: Option<Delimiter>,
    /// Whether the first row names the columns
    #[default(true)]
    header: bool,
    /// Whether numbers, `true`, `false` and empty fields become JSON numbers, booleans and null; `007` and integers beyond 64 bits stay texts
    #[default]
    convert: bool,
    /// How many rows to pass over
    #[default]
    offset: u32,
    /// How many rows to give at most
    #[default(1000)]
    #[schemars(range(min = 1))]
    limit: u32,
) -> Result<Table, Error> {
    let text = text.trim_start_matches('\u{feff}');
    let (Guess { delimiter, note }, text) = Guess::choose(text, delimiter)?;
    check_quotes(text, delimiter)?;
    let mut records = ReaderBuilder::new()
        .delimiter(delimiter.byte())
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    let mut columns = None;
    if header && records.read_record(&mut record)? {
        columns = Some(Rc::new(name_columns(&record)));
    }
    let mut page = Page::new(offset, limit);
    while records.read_record(&mut record)? {
        if let Some(columns) = &columns {
            check_width(text, &record, columns, delimiter)?;
        }
        if page.is_open() {
            let row = read_row(&record, columns.clone(), convert);
            let bytes = row.bytes();
            page.add(row, bytes);
        } else {
            page.pass();
        }
    }
    Ok(Table {
        columns: columns.map(|columns| columns.to_vec()).unwrap_or_default(),
        next_offset: page.next("row")?,
        total: page.total,
        rows: page.entries,
        delimiter: delimiter.name(),
        notes: note.into_iter().collect(),
    })
}

/// The rows of a CSV text.
#[derive(Debug, serde::Serialize, JsonSchema)]
pub struct Table {
    /// The names of the columns, in order; none without a header
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub columns: Vec<String>,
    /// An object for each row, or without a header a list
    pub rows: Vec<Row>,
    /// How many rows there are, without the header
    pub total: usize,
    /// Row at which the next call goes on, if there are more rows
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// What stood between the fields
    pub delimiter: &'static str,
    /// Notes about the delimiter
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub notes: Vec<String>,
}

/// One row.
#[derive(Debug)]
pub struct Row {
    columns: Option<Rc<Vec<String>>>,
    cells: Vec<Cell>,
}

#[derive(Debug)]
enum Cell {
    Null,
    Bool(bool),
    Number(Box<RawValue>),
    Text(String),
}

impl Row {
    fn bytes(&self) -> usize {
        let names = self.columns.iter().flat_map(|columns| columns.iter()).map(|name| in_json(name) + 1);
        let cells = self.cells.iter().map(|cell| match cell {
            Cell::Text(text) => in_json(text) + 1,
            Cell::Number(number) => number.get().len() + 1,
            Cell::Null | Cell::Bool(_) => 6,
        });
        names.sum::<usize>() + cells.sum::<usize>() + 3
    }
}

fn read_row(record: &StringRecord, columns: Option<Rc<Vec<String>>>, convert: bool) -> Row {
    let cells =
        record.iter().map(|field| if convert { convert_field(field) } else { Cell::Text(field.to_owned()) });
    Row { columns, cells: cells.collect() }
}

fn convert_field(field: &str) -> Cell {
    match field {
        "" => Cell::Null,
        "true" | "TRUE" | "True" => Cell::Bool(true),
        "false" | "FALSE" | "False" => Cell::Bool(false),
        _ if field.starts_with(|sign: char| sign.is_ascii_digit() || sign == '-') => {
            // What JSON takes for a number is one, so a leading zero makes a text: `007` is a name.
            match serde_json::from_str::<Box<RawValue>>(field) {
                Ok(number) if number.get() == field && fits(field) => Cell::Number(number),
                _ => Cell::Text(field.to_owned()),
            }
        }
        _ => Cell::Text(field.to_owned()),
    }
}

/// Whether readers of JSON take the number for what it is. An account of 20 digits is a name too.
fn fits(number: &str) -> bool {
    !is_wide_integer(number) && number.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Fails where a quote is opened and never closed: all that follows it is one field to the reader of CSV, and all rows
/// after it would be gone in silence.
fn check_quotes(text: &str, delimiter: Delimiter) -> Result<(), Error> {
    let (mut line, mut opened) = (1, None);
    let mut is_start = true;
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        line += usize::from(byte == b'\n');
        match (byte, opened) {
            (b'"', Some(_)) if bytes.peek() == Some(&b'"') => drop(bytes.next()),
            (b'"', Some(_)) => opened = None,
            (b'"', None) if is_start => opened = Some(line),
            _ => {}
        }
        is_start = byte == delimiter.byte() || byte == b'\n' || byte == b'\r';
    }
    let Some(line) = opened else { return Ok(()) };
    Err(Error::invalid(format!(
        "the quote that opens at line {line} is never closed: close it, or double it (`\"\"`) within a field in quotes"
    )))
}

/// Gives each column a name of its own, so that no field is lost in an object.
fn name_columns(record: &StringRecord) -> Vec<String> {
    let mut taken = HashSet::new();
    // The number to go on counting from for a name, since a header may have a million equal ones.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::with_capacity(record.len());
    for (index, field) in record.iter().enumerate() {
        let wanted = match field.trim() {
            "" => format!("column_{}", index + 1),
            name => name.to_owned(),
        };
        let mut name = wanted.clone();
        while !taken.insert(name.clone()) {
            let number = numbers.entry(wanted.clone()).or_insert(1);
            *number += 1;
            name = format!("{wanted}_{number}");
        }
        names.push(name);
    }
    names
}

fn check_width(
    text: &str,
    record: &StringRecord,
    columns: &[String],
    delimiter: Delimiter,
) -> Result<(), Error> {
    if record.len() == columns.len() {
        return Ok(());
    }
    let line = record.position().map_or(0, |position| {
        // The position is before the empty lines that are passed over, and within an end in CRLF.
        let rest = text.bytes().skip(usize::try_from(position.byte()).unwrap_or(usize::MAX));
        let ends = rest.take_while(|byte| matches!(byte, b'\r' | b'\n')).filter(|byte| *byte == b'\n');
        position.line() + ends.count() as u64
    });
    Err(Error::invalid(format!(
        "the row at line {line} has {} fields, and the header has {}, separated by a {}: give another `delimiter`, correct \
         the row, or set `header` to false, for then rows may differ",
        record.len(),
        columns.len(),
        delimiter.name()
    )))
}

impl JsonSchema for Row {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Row".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["object", "array"]})
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(columns) = &self.columns else {
            let mut list = serializer.serialize_seq(Some(self.cells.len()))?;
            for cell in &self.cells {
                list.serialize_element(cell)?;
            }
            return list.end();
        };
        let mut map = serializer.serialize_map(Some(columns.len()))?;
        for (name, cell) in columns.iter().zip(&self.cells) {
            map.serialize_entry(name, cell)?;
        }
        map.end()
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}
