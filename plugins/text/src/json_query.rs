//! `json_query`: a program in the language of `jq`, run by `jaq`.
//!
//! A program may loop for ever, which the host's fuel ends, and may give results without end, which are counted here.

mod output;

use std::collections::{BTreeMap, VecDeque};

use formats::jq::{self, Program, Stop};
use jaq_json::{Val, read};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, serde_json, tool};

use crate::document::{self, AnyValue};
use crate::size::ListBudget;
use output::Converter;

/// Queries and transforms JSON with a jq program.
///
/// Use it to pick, filter, sort, group, count, sum or reshape data without writing it out by hand.
///
/// - `filter` is what one writes for `jq`: `.items[] | select(.price > 10) | {name, price}`, `group_by(.city) | map({city: .[0].city, n: length})`, `[.[].amount] | add`, `to_entries`, `test("^a")`, `@csv`.
/// - Give the document as `value`, or as JSON `text`. A text may hold many documents, as JSON Lines; the filter runs on each, or with `slurp` once on a list of them all.
/// - `variables` are `$name` in the filter: give texts of users there, not in the filter itself.
/// - Integers of any size are read, compared and calculated exactly; in `results` those beyond 64 bits are text, and `notes` says so.
/// - The language is that of jaq 3. Other than in jq:
///   `6 / 2` is `3.0`, a division by zero gives `Infinity`, `%` keeps fractions, and `.[0]` of an object is null;
///   an index is an integer (`.[length / 2 | floor]`);
///   nothing is made on the way to what is set: `.a |= (. // {}) | .a.b = 1`, and a list grows by `. + [1]`;
///   `del(.[0, 1])` deletes one after the other: take `.[2:]` or `map(select(…))`;
///   `join` and `tostring` write null as `null` and `1.0` as `1.0`; `from_entries` takes `key` and `value` only;
///   `pick` of a list gives an object; `fromjson` and `tonumber` of many values give each;
///   a pattern is a text, its flags the second argument; `sub` and `gsub` take the first output of the replacement; many outputs of both sides of an operator come in another order.
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
    let filter = jq::compile(&filter, &names, false)?;
    let documents = read_documents(document::choose(&value, text.as_deref())?, slurp)?;

    let check = |value: &Val| Converter::default().convert(value, 0).map(drop);
    let program = Program::new(filter, values, VecDeque::new(), check);
    let mut collected = Results::default();
    let mut budget = ListBudget::for_list();
    for output in documents.into_iter().flat_map(|document| program.run(document)) {
        let output = match output {
            Ok(output) => output,
            Err(early) => return stop(early, collected),
        };
        let mut converter = Converter::default();
        let tree = converter.convert(&output, 0).map_err(Error::new)?;
        let result = AnyValue::write(&tree)?;
        let bytes = result.json().map_or(0, str::len);
        if collected.results.len() == limit.max(1) as usize || !budget.take(bytes) {
            collected.truncated = true;
            break;
        }
        collected.results.push(result);
        if converter.has_wide {
            collected.notes = vec![document::WIDE_NUMBERS];
        }
    }
    Ok(collected)
}

/// The results of a filter.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Results {
    /// Each output of the filter
    pub results: Vec<AnyValue>,
    /// Whether there are more results than are given
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub truncated: bool,
    /// Values that are not as they were written
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub notes: Vec<&'static str>,
}

fn read_variables(variables: &BTreeMap<String, AnyValue>) -> Result<(Vec<String>, Vec<Val>), Error> {
    let mut names = Vec::new();
    let mut values = Vec::new();
    for (name, value) in variables {
        names.push(format!("${}", name.trim_start_matches('$')));
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

/// Ends early: with an error, or with what was collected.
#[cold]
fn stop(stop: Stop, collected: Results) -> Result<Results, Error> {
    let message = match stop {
        Stop::Failed(message) => message,
        Stop::Halted(0) => return Ok(collected),
        Stop::Halted(code) => return Err(Error::new(format!("the filter halted with code {code}"))),
    };
    let after = match collected.results.len() {
        0 => String::new(),
        count => format!(", after {count} results"),
    };
    Err(Error::new(format!(
        "the filter failed{after}: {message}; look at the data with `keys` or `type`, or put `?` behind what may fail"
    )))
}
