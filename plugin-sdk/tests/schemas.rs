//! Generated schemas accept exactly the arguments that the types accept.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_sdk::{plugin, testing, tool};

#[derive(Deserialize, JsonSchema, Serialize)]
struct Page {
    number: u8,
    size: Option<u8>,
}

#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Payment {
    Card { number: u32 },
    Cash,
}

#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum Target {
    File { path: String },
    Line(u8),
}

/// Flattens a struct.
#[tool]
fn of_struct(
    /// A
    a: u8,
    /// Which page
    #[serde(flatten)]
    page: Page,
) -> Value {
    json!([a, page])
}

/// Flattens a struct that may be missing.
#[tool]
fn of_option(
    /// A
    a: u8,
    /// Which page
    #[serde(flatten)]
    page: Option<Page>,
) -> Value {
    json!([a, page])
}

/// Flattens an enum with a tag inside.
#[tool]
fn of_tagged(
    /// A
    a: u8,
    /// How it is paid
    #[serde(flatten)]
    payment: Payment,
) -> Value {
    json!([a, payment])
}

/// Flattens an enum.
#[tool]
fn of_enum(
    /// A
    a: u8,
    /// The target
    #[serde(flatten)]
    target: Target,
) -> Value {
    json!([a, target])
}

/// Flattens a map.
#[tool]
fn of_map(
    /// A
    a: u8,
    /// Further members
    #[serde(flatten)]
    rest: BTreeMap<String, u8>,
) -> Value {
    json!([a, rest])
}

/// Takes numbers.
#[tool]
fn numbers(
    /// As many as a guest can count
    #[default(0)]
    size: usize,
    /// The same, in both directions
    #[default(0)]
    offset: isize,
    /// A wide one
    #[default(0)]
    wide: i64,
    /// A wide one that the author made narrower
    #[default(0)]
    #[schemars(range(min = 0))]
    positive: i64,
    /// A short float
    #[default(0.0)]
    short: f32,
) -> bool {
    let _ = (size, offset, wide, positive);
    short.is_finite()
}

plugin!("schemas", of_struct, of_option, of_tagged, of_enum, of_map, numbers);

fn schema_of(tool: &str) -> Value {
    let description = testing::describe::<ThisPlugin>();
    let found = description["tools"].as_array().unwrap().iter().find(|found| found["name"] == tool);
    found.unwrap()["input_schema"].clone()
}

fn fits(tool: &str, arguments: &Value) -> bool {
    jsonschema::validator_for(&schema_of(tool)).unwrap().is_valid(arguments)
}

fn call(tool: &str, arguments: &Value) -> Result<Value, toolgate_sdk::Error> {
    testing::call_by_name::<ThisPlugin>(&testing::context().build(), tool, arguments.clone()).unwrap()
}

#[test]
fn t2_the_fields_of_a_flattened_parameter_are_arguments() {
    for (tool, arguments, read) in [
        ("of_struct", json!({"a": 1, "number": 2}), json!([1, {"number": 2, "size": null}])),
        ("of_option", json!({"a": 1, "number": 2.0}), json!([1, {"number": 2, "size": null}])),
        ("of_option", json!({"a": 1}), json!([1, null])),
        (
            "of_tagged",
            json!({"a": 1, "kind": "card", "number": 3}),
            json!([1, {"kind": "card", "number": 3}]),
        ),
        ("of_tagged", json!({"kind": "cash", "a": 1}), json!([1, {"kind": "cash"}])),
        ("of_enum", json!({"a": 1, "line": 4}), json!([1, {"line": 4}])),
        ("of_enum", json!({"a": 1, "file": {"path": "b"}}), json!([1, {"file": {"path": "b"}}])),
        ("of_map", json!({"a": 1, "b": 2, "c": 3}), json!([1, {"b": 2, "c": 3}])),
        ("of_map", json!({"a": 1}), json!([1, {}])),
    ] {
        assert!(fits(tool, &arguments), "{tool}: {arguments}");
        assert_eq!(call(tool, &arguments), Ok(read), "{tool}");
    }
}

#[test]
fn t2_the_schema_refuses_unknown_arguments_also_beside_a_flattened_parameter() {
    for (tool, arguments) in [
        ("of_struct", json!({"a": 1, "number": 2, "b": 3})),
        ("of_struct", json!({"a": 1})),
        ("of_option", json!({"a": 1, "b": 3})),
        ("of_tagged", json!({"a": 1, "kind": "cash", "b": 3})),
        ("of_tagged", json!({"a": 1, "kind": "cheque"})),
        ("of_enum", json!({"a": 1, "line": 4, "b": 3})),
        ("of_map", json!({"a": 1, "b": "3"})),
        ("of_map", json!({"b": 3})),
    ] {
        assert!(!fits(tool, &arguments), "{tool}: {arguments}");
    }
}

#[test]
fn t2_a_number_that_matches_its_schema_matches_its_type() {
    for arguments in [
        json!({"size": u32::MAX, "offset": i32::MIN}),
        json!({"wide": i64::MAX, "positive": i64::MAX}),
        json!({"wide": i64::MIN, "positive": 0}),
        json!({"short": 3.402_823_5e38}),
        json!({"short": f32::MIN}),
    ] {
        assert!(fits("numbers", &arguments), "{arguments}");
        assert_eq!(call("numbers", &arguments), Ok(json!(true)), "{arguments}");
    }
    for arguments in [
        json!({"size": u64::from(u32::MAX) + 1}),
        json!({"size": -1}),
        json!({"offset": i64::from(i32::MIN) - 1}),
        json!({"wide": 1_u64 << 63}),
        json!({"wide": u64::MAX}),
        json!({"positive": 1_u64 << 63}),
        json!({"positive": -1}),
        json!({"short": 3.5e38}),
        json!({"short": -3.5e38}),
    ] {
        assert!(!fits("numbers", &arguments), "{arguments}");
    }
}
