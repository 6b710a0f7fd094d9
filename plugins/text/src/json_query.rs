//! `json_query`: a program in the language of `jq`, run by `jaq`.
//!
//! A program may loop for ever, which the host's fuel ends, and may give results without end, which are counted here.
//! Results go straight from `jaq`'s values into the answer: nothing is written and read in between.

mod delete;
mod dialect;
mod functions;
mod made;
mod patterns;
pub mod program;
mod rows;
mod shown;
mod strict;
mod time;
mod written;

use std::collections::BTreeMap;

use jaq_core::{Ctx, Exn, Vars};
use jaq_json::{Val, read};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, serde_json, tool};

use crate::document::{self, AnyValue};
use crate::size::Room;
use functions::{Known, Query};
use shown::Shown;

/// Enough of a message that quotes whole documents.
const MAX_MESSAGE_CHARACTERS: usize = 300;

/// Queries and transforms JSON with a jq program.
///
/// Use it to pick, filter, sort, group, count, sum or reshape data without writing it out by hand.
///
/// - `filter` is what one writes for `jq`: `.items[] | select(.price > 10) | {name, price}`, `group_by(.city) | map({city: .[0].city, n: length})`, `[.[].amount] | add`, `to_entries`, `test("^a")`, `@csv`.
/// - Give the document as `value`, or as JSON `text`. A text may hold many documents, as JSON Lines; the filter runs on each, or with `slurp` once on a list of them all.
/// - `variables` are `$name` in the filter: give texts of users there, not in the filter itself.
/// - Integers of any size are read, compared and calculated exactly; in `results` those beyond 64 bits are text, and `notes` says so.
/// - As in jq, a division by zero fails, and so does `.[0]` of an object: `?` behind it gives nothing instead.
/// - As in jq, what is set may be within what is not there yet: `.a.b[0] = 1` makes all of it. A slice, as `.a[1:]`, has to be of a list that is there.
/// - Every output is an entry of `results`. `truncated: true` says that there are more: narrow the filter, or page with `.[100:200]`.
#[tool(
    read_only,
    tags("json", "jq", "filter", "transform", "extract", "aggregate", "jsonl"),
    examples(
        {"filter": ".items[] | select(.price > $least) | .name", "value": {"items": [{"name": "pen", "price": 2}, {"name": "book", "price": 12}]}, "variables": {"least": 10}} => {"results": ["book"]},
        "JSON Lines": {"filter": "map(.n) | add", "text": "{\"n\": 1}\n{\"n\": 2}\n", "slurp": true} => {"results": [3]},
        "a number too wide for JSON": {"filter": ".id", "text": "{\"id\": 123456789012345678901234567890}"} => {
            "results": ["123456789012345678901234567890"],
            "notes": ["numbers beyond 64 bits are given as text, so that no digit is lost"]
        },
    )
)]
pub fn json_query(
    /// The jq program
    filter: String,
    /// The document
    #[default]
    value: AnyValue,
    /// The document as JSON text, or many of them, instead of `value`
    text: Option<String>,
    /// Whether to run the filter once, on a list of all documents of `text`
    #[default]
    slurp: bool,
    /// Values that the filter knows as `$name`
    #[default]
    variables: BTreeMap<String, AnyValue>,
    /// How many results to give at most
    #[default(1000)]
    #[schemars(range(min = 1))]
    limit: u32,
) -> Result<Results, Error> {
    let (names, values) = read_variables(&variables)?;
    let program = program::compile(&filter, &names)?;
    let documents = read_documents(document::choose(&value, text.as_deref())?, slurp)?;

    let known = Known::new(program.lut);
    let context = Ctx::<Query>::new(&known, Vars::new(values));
    let mut collected = Results::default();
    let mut room = Room::for_list();
    for document in documents {
        for output in program.id.run((context.clone(), document)) {
            let output = match output {
                Ok(output) => output,
                Err(exception) => return stop(exception, collected),
            };
            let shown = Shown::read(output)?;
            if collected.results.len() == limit.max(1) as usize || !room.take(shown.bytes) {
                collected.truncated = true;
                return Ok(collected);
            }
            if shown.has_wide {
                collected.notes = vec![document::WIDE_NUMBERS];
            }
            collected.results.push(shown);
        }
    }
    Ok(collected)
}

/// What a filter gave.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Results {
    /// Each output of the filter
    pub results: Vec<Shown>,
    /// Whether there are more results than are given
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub truncated: bool,
    /// What is not as it was written
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub notes: Vec<&'static str>,
}

fn read_variables(variables: &BTreeMap<String, AnyValue>) -> Result<(Vec<String>, Vec<Val>), Error> {
    let mut names = Vec::new();
    let mut values = Vec::new();
    for (name, value) in variables {
        let name = name.trim_start_matches('$');
        let is_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
        if name.is_empty()
            || name.starts_with(|first: char| first.is_ascii_digit())
            || !name.chars().all(is_name)
        {
            return Err(Error::invalid(format!(
                "`{name}` is no name of a variable: use letters, digits and `_`, as in `min_price`"
            )));
        }
        names.push(format!("${name}"));
        let json = document::choose(value, None)?;
        values.push(read::parse_single(json.as_bytes()).map_err(|error| explain_document(json, &error))?);
    }
    Ok((names, values))
}

fn read_documents(json: &str, slurp: bool) -> Result<Vec<Val>, Error> {
    let documents: Result<Vec<Val>, _> = read::parse_many(json.as_bytes()).collect();
    let documents = documents.map_err(|error| explain_document(json, &error))?;
    if slurp {
        return Ok(vec![documents.into_iter().collect()]);
    }
    if documents.is_empty() {
        return Err(Error::invalid("`text` is empty: give a JSON document"));
    }
    Ok(documents)
}

/// The reader of `jaq` counts bytes, that of `serde_json` lines.
#[cold]
fn explain_document(json: &str, error: &read::Error) -> Error {
    let documents = serde_json::Deserializer::from_str(json).into_iter::<serde::de::IgnoredAny>();
    match documents.filter_map(Result::err).next() {
        Some(error) => document::explain(&error),
        None => Error::invalid(format!("the document is not JSON: {error}")),
    }
}

/// Ends with what the filter threw: an error, or a halt.
#[cold]
fn stop(exception: Exn<'_, Val>, collected: Results) -> Result<Results, Error> {
    match exception.get_err() {
        Ok(error) => {
            let message = shorten(&message_of(error));
            let after = match collected.results.len() {
                0 => String::new(),
                count => format!(", after {count} results"),
            };
            Err(Error::new(format!(
                "the filter failed{after}: {message}; look at the data with `keys` or `type`, or put `?` behind what may \
                 fail"
            )))
        }
        Err(exception) => match exception.get_halt() {
            Ok(0) => Ok(collected),
            Ok(code) => Err(Error::new(format!("the filter halted with code {code}"))),
            Err(_) => Err(Error::new("the filter stopped: a `break` has no `label` around it")),
        },
    }
}

/// What `error("…")` was given, or what `jaq` says.
fn message_of(error: jaq_core::Error<Val>) -> String {
    match error.into_val() {
        Val::TStr(text) => String::from_utf8_lossy(&text).into_owned(),
        other => other.to_string(),
    }
}

fn shorten(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARACTERS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}
