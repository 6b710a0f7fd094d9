//! JSON Schemas from Rust types, in the form that hosts and models take best: nothing that depends on the version of a
//! library, no references where there is no recursion, and bounds where Rust has them.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value};

/// The schema of a tool's arguments, from the struct that the macro makes of the parameters.
pub fn input<T: JsonSchema>() -> Schema {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_deserialize());
    // Some providers of models refuse an object that does not list its properties, even if it has none.
    schema.ensure_object().entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema
}

/// The schema of a tool's result.
pub fn result<T: JsonSchema>() -> Schema {
    generate::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// The schema of a result of which nothing is said.
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
    // The name of a Rust type means nothing to a model. A title that the author gave stays.
    if schema.get("title").and_then(Value::as_str) == Some(&T::schema_name()) {
        schema.remove("title");
    }
    schema
}

/// Replaces the names of Rust's number types, which JSON Schema does not know, by what they mean.
fn bound_numbers(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    let bounds = match object.get("format").and_then(Value::as_str) {
        Some("int8") => Some((i64::from(i8::MIN), i64::from(i8::MAX))),
        Some("uint8") => Some((0, i64::from(u8::MAX))),
        Some("int16") => Some((i64::from(i16::MIN), i64::from(i16::MAX))),
        Some("uint16") => Some((0, i64::from(u16::MAX))),
        Some("int32") => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
        Some("uint32") => Some((0, i64::from(u32::MAX))),
        // Wider bounds are beyond what many readers of schemas represent exactly. The host refuses such numbers.
        Some("int64" | "uint64" | "int128" | "uint128" | "int" | "uint" | "float" | "double") => None,
        _ => return,
    };
    object.remove("format");
    if let Some((minimum, maximum)) = bounds {
        keep_or_insert(object, "minimum", minimum);
        keep_or_insert(object, "maximum", maximum);
    }
}

/// A bound that the author gave is the narrower one.
fn keep_or_insert(object: &mut Map<String, Value>, key: &str, bound: i64) {
    object.entry(key).or_insert_with(|| bound.into());
}
