//! `csv_write`: JSON rows into CSV.

use std::borrow::Cow;
use std::fmt;

use csv::{Writer, WriterBuilder};
use indexmap::{IndexMap, IndexSet};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use toolgate_sdk::serde_json::{self, value::RawValue};
use toolgate_sdk::{Error, tool};

use crate::delimiter::Delimiter;
use crate::size;

/// Writes rows as CSV or TSV.
///
/// Rows are objects, whose keys name the columns, or lists of fields. Fields get quotes where they need them, null
/// becomes an empty field, and lists and objects within a row are written as JSON.
#[tool(
    read_only,
    tags("csv", "tsv", "table", "spreadsheet", "export"),
    examples(
        {"rows": [{"age": 36, "name": "Ada"}, {"born": 1815, "name": "Lovelace, A."}]} => "age,name,born\n36,Ada,\n,\"Lovelace, A.\",1815\n",
        "lists": {"rows": [[1, true], [2, null]], "columns": ["id", "ok"], "delimiter": "tab"} => "id\tok\n1\ttrue\n2\t\n",
    )
)]
pub fn csv_write(
    /// The rows: all objects, or all lists
    rows: Vec<WrittenRow>,
    /// Names of the columns, in order; of objects only these are written. Left out, objects give all their keys, and lists get no header.
    columns: Option<Vec<String>>,
    /// Character between two fields
    #[default(Delimiter::Comma)]
    delimiter: Delimiter,
) -> Result<String, Error> {
    let mut writer = WriterBuilder::new().delimiter(delimiter.byte()).flexible(true).from_writer(Vec::new());
    if matches!(rows.first(), Some(WrittenRow::Object(_))) {
        write_objects(&mut writer, &rows, columns)?;
    } else {
        write_lists(&mut writer, &rows, columns)?;
    }
    let written = writer.into_inner().map_err(|error| Error::new(error.to_string()))?;
    size::whole(String::from_utf8(written)?)
}

/// A row to write.
pub enum WrittenRow {
    Object(IndexMap<String, Field>),
    List(Vec<Field>),
}

/// The value of a field, as it is written.
pub struct Field(String);

fn write_objects(
    writer: &mut Writer<Vec<u8>>,
    rows: &[WrittenRow],
    columns: Option<Vec<String>>,
) -> Result<(), Error> {
    let columns = columns.unwrap_or_else(|| all_keys(rows));
    if columns.is_empty() {
        return Err(Error::invalid(
            "there are no columns: the rows are empty objects, or `columns` is an empty list",
        ));
    }
    writer.write_record(&columns)?;
    // Many rows that each lack many columns are far larger written than they were read.
    size::check(rows.len().saturating_mul(columns.len()))?;
    for (index, row) in rows.iter().enumerate() {
        let WrittenRow::Object(fields) = row else { return Err(is_mixed(index, "a list", "an object")) };
        writer.write_record(columns.iter().map(|name| fields.get(name).map_or("", |field| &field.0)))?;
    }
    Ok(())
}

fn write_lists(
    writer: &mut Writer<Vec<u8>>,
    rows: &[WrittenRow],
    columns: Option<Vec<String>>,
) -> Result<(), Error> {
    if let Some(columns) = columns.filter(|columns| !columns.is_empty()) {
        writer.write_record(&columns)?;
    }
    for (index, row) in rows.iter().enumerate() {
        let WrittenRow::List(fields) = row else { return Err(is_mixed(index, "an object", "a list")) };
        writer.write_record(fields.iter().map(|field| &field.0))?;
    }
    Ok(())
}

/// The keys of all rows, in the order in which they come first.
fn all_keys(rows: &[WrittenRow]) -> Vec<String> {
    let mut keys = IndexSet::new();
    for row in rows {
        if let WrittenRow::Object(fields) = row {
            for key in fields.keys() {
                if !keys.contains(key) {
                    keys.insert(key.clone());
                }
            }
        }
    }
    keys.into_iter().collect()
}

fn is_mixed(index: usize, found: &str, expected: &str) -> Error {
    Error::invalid(format!(
        "row {index} is {found}, and the rows before it are not: make each of them {expected}"
    ))
}

impl JsonSchema for WrittenRow {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WrittenRow".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["object", "array"]})
    }
}

impl<'de> Deserialize<'de> for WrittenRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RowVisitor)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = WrittenRow;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a row: an object or a list of fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WrittenRow, A::Error> {
        let mut fields = IndexMap::new();
        while let Some((key, field)) = map.next_entry::<String, Field>()? {
            fields.insert(key, field);
        }
        Ok(WrittenRow::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<WrittenRow, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = sequence.next_element()? {
            fields.push(field);
        }
        Ok(WrittenRow::List(fields))
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        Ok(Self(match json.as_bytes().first() {
            Some(b'"') => serde_json::from_str(json).map_err(serde::de::Error::custom)?,
            Some(b'n') => String::new(),
            _ => json.to_owned(),
        }))
    }
}
