//! JSON Schemas from Rust types, in the form that hosts and models take best: nothing that depends on the version of a
//! library, no references where there is no recursion, and bounds where Rust has them.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value};

/// `f32::MAX` in the fewest digits, as it is written in JSON.
const LARGEST_F32: f64 = 3.402_823_5e38;

/// The schema of a tool's arguments, from the struct that the macro makes of the parameters.
pub fn input<T: JsonSchema>() -> Schema {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_deserialize());
    // Some providers of models refuse an object that does not list its properties, even if it has none.
    schema.ensure_object().entry("properties").or_insert_with(|| Value::Object(Map::new()));
    close(schema.ensure_object());
    schema
}

/// Says that there are no other arguments, where no flattened parameter takes them.
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
    let bounds: Option<(Value, Value)> = match object.get("format").and_then(Value::as_str) {
        Some("int8") => Some((i8::MIN.into(), i8::MAX.into())),
        Some("uint8") => Some((0.into(), u8::MAX.into())),
        Some("int16") => Some((i16::MIN.into(), i16::MAX.into())),
        Some("uint16") => Some((0.into(), u16::MAX.into())),
        // A guest has 32 bits, also where its description is made in a native test.
        Some("int32" | "int") => Some((i32::MIN.into(), i32::MAX.into())),
        Some("uint32" | "uint") => Some((0.into(), u32::MAX.into())),
        Some("int64") => Some((i64::MIN.into(), i64::MAX.into())),
        Some("float") => Some(((-LARGEST_F32).into(), LARGEST_F32.into())),
        // What lies beyond these no reader of JSON represents exactly, and the host refuses.
        Some("uint64" | "int128" | "uint128" | "double") => None,
        _ => return,
    };
    object.remove("format");
    if let Some((minimum, maximum)) = bounds {
        // A bound that the author gave is the narrower one.
        object.entry("minimum").or_insert(minimum);
        object.entry("maximum").or_insert(maximum);
    }
}
