//! JSON Schemas from Rust types, in the form that hosts and models handle best: independent of library versions, without
//! references except for recursion, and with the ranges of Rust's types.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value};

/// `f32::MAX` in the shortest form that JSON has.
const LARGEST_F32: f64 = 3.402_823_5e38;

/// The schema of a tool's arguments, from the struct that the macro generates for the parameters.
pub fn input<T: JsonSchema>() -> Schema {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_deserialize());
    // Some model providers refuse an object schema without `properties`, even if it has none.
    schema.ensure_object().entry("properties").or_insert_with(|| Value::Object(Map::new()));
    let object = schema.ensure_object();
    close_within(object);
    close(object);
    schema
}

/// Closes the objects with named fields below a schema, so that a misspelt field is refused at each depth.
fn close_within(object: &mut Map<String, Value>) {
    let has_fields = object.contains_key("properties");
    for (keyword, value) in object.iter_mut() {
        let is_form = matches!(keyword.as_str(), "oneOf" | "anyOf" | "allOf");
        let below: Vec<&mut Value> = match value {
            Value::Object(named) if matches!(keyword.as_str(), "properties" | "$defs") => {
                named.values_mut().collect()
            }
            Value::Array(forms) if is_form || keyword == "prefixItems" => forms.iter_mut().collect(),
            Value::Object(_) if matches!(keyword.as_str(), "items" | "additionalProperties") => vec![value],
            _ => Vec::new(),
        };
        for below in below.into_iter().filter_map(Value::as_object_mut) {
            close_within(below);
            // The forms of a flattened field are parts of one object, which is closed as a whole.
            if below.contains_key("properties") && !(is_form && has_fields) {
                close(below);
            }
        }
    }
}

/// Forbids other arguments, unless a flattened parameter accepts them.
fn close(object: &mut Map<String, Value>) {
    if ["additionalProperties", "unevaluatedProperties"].iter().any(|keyword| object.contains_key(*keyword)) {
        return;
    }
    let has_forms = ["oneOf", "anyOf", "allOf"].iter().any(|keyword| object.contains_key(*keyword));
    let keyword = if has_forms { "unevaluatedProperties" } else { "additionalProperties" };
    object.insert(keyword.to_owned(), Value::Bool(false));
}

/// The schema of a tool's result.
pub fn result<T: JsonSchema>() -> Schema {
    generate::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// The schema of any result.
pub fn any_result() -> Schema {
    json_schema!(true)
}

/// The schema of a plugin's settings.
pub fn settings<T: JsonSchema>() -> Schema {
    generate::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Schema {
    let mut schema = settings
        .with(|settings| {
            settings.meta_schema = None;
            settings.inline_subschemas = true;
        })
        .with_transform(RecursiveTransform(bound_numbers))
        .into_generator()
        .into_root_schema_for::<T>();
    // A Rust type name means nothing to a model. A title that the author set stays.
    if schema.get("title").and_then(Value::as_str) == Some(&T::schema_name()) {
        schema.remove("title");
    }
    schema
}

/// Replaces the formats of Rust's number types, which JSON Schema does not have, by their ranges.
fn bound_numbers(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    let bounds: Option<(Value, Value)> = match object.get("format").and_then(Value::as_str) {
        Some("int8") => Some((i8::MIN.into(), i8::MAX.into())),
        Some("uint8") => Some((0.into(), u8::MAX.into())),
        Some("int16") => Some((i16::MIN.into(), i16::MAX.into())),
        Some("uint16") => Some((0.into(), u16::MAX.into())),
        // A guest has 32 bits, even if its description is generated in a native test.
        Some("int32" | "int") => Some((i32::MIN.into(), i32::MAX.into())),
        Some("uint32" | "uint") => Some((0.into(), u32::MAX.into())),
        Some("int64") => Some((i64::MIN.into(), i64::MAX.into())),
        Some("float") => Some(((-LARGEST_F32).into(), LARGEST_F32.into())),
        // JSON parsers do not represent larger ranges exactly, and the host refuses such numbers.
        Some("uint64" | "int128" | "uint128" | "double") => None,
        _ => return,
    };
    object.remove("format");
    if let Some((minimum, maximum)) = bounds {
        // A narrower bound of the author stays.
        object.entry("minimum").or_insert(minimum);
        object.entry("maximum").or_insert(maximum);
    }
}
