//! The tools that the conformance suite of the Model Context Protocol calls, by the names and with the results that its
//! scenarios ask for.

use std::borrow::Cow;
use std::fs;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use toolgate_sdk::{Content, Context, Error, WithContent, plugin, tool};

plugin! {
    "conformance",
    publisher = "Toolgate tests",
    category = "Tests",
    capabilities(filesystem = workspace),
    test_simple_text, test_image_content, test_audio_content, test_embedded_resource, test_multiple_content_types,
    test_error_handling, test_tool_with_progress, test_logging_tool, json_schema_2020_12_tool, binary_file, large_images, greet,
    slow_compute, failing_job
}

/// An image of one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

/// A recording without samples.
const WAV: &[u8] =
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0";

/// Returns a text.
#[tool(read_only)]
pub fn test_simple_text() -> String {
    "This is a simple text response for testing.".to_owned()
}

/// Returns an image.
#[tool(read_only)]
pub fn test_image_content() -> WithContent {
    WithContent { output: (), content: vec![Content::image("image/png", PNG)] }
}

/// Returns a recording.
#[tool(read_only)]
pub fn test_audio_content() -> WithContent {
    WithContent { output: (), content: vec![Content::audio("audio/wav", WAV)] }
}

/// Returns a file of the session.
#[tool(read_only)]
pub fn test_embedded_resource() -> Result<WithContent, Error> {
    Ok(WithContent {
        output: (),
        content: vec![file("embedded.txt", "This is an embedded resource content.")?],
    })
}

/// Returns a text, an image and a file.
#[tool(read_only)]
pub fn test_multiple_content_types() -> Result<WithContent, Error> {
    let text = Content::text("Multiple content types test:");
    let file = file("mixed.json", r#"{"test":"data","value":123}"#)?;
    Ok(WithContent { output: (), content: vec![text, Content::image("image/png", PNG), file] })
}

/// Fails.
#[tool(read_only)]
pub fn test_error_handling() -> Result<bool, Error> {
    Err(Error::new("This tool intentionally returns an error for testing"))
}

/// Reports its progress three times, once without words.
#[tool(read_only)]
pub fn test_tool_with_progress(context: &Context) -> bool {
    context.progress(0, Some(100), Some("begun"));
    context.progress(50, Some(100), None);
    context.progress(100, Some(100), Some("done"));
    true
}

/// Writes to the daemon's log.
#[tool(read_only)]
pub fn test_logging_tool(context: &Context) -> bool {
    context.log(toolgate_sdk::Level::Info, "tool_started", "Tool execution started", &[]);
    true
}

/// Greets a person.
#[tool(read_only)]
pub fn greet(
    /// Name
    name: String,
) -> String {
    format!("Hello, {name}!")
}

/// Returns how long it was waited for: a supervised agent waits for an approval.
#[tool]
pub fn slow_compute(
    /// Seconds until the approval
    seconds: u64,
    /// Distinguishes the call from others
    label: String,
) -> String {
    format!("{label} after {seconds} seconds")
}

/// Fails once it is approved.
#[tool]
pub fn failing_job(
    /// Distinguishes the call from others
    label: String,
) -> Result<bool, Error> {
    Err(Error::new(format!("{label} failed")))
}

/// Takes a person with a way to reach them.
#[tool(read_only)]
pub fn json_schema_2020_12_tool(
    /// The person
    #[serde(flatten)]
    person: Person,
) -> Option<String> {
    person.phone.or(person.email)
}

/// Arguments whose schema has references, alternatives and conditions.
#[derive(Deserialize)]
pub struct Person {
    phone: Option<String>,
    email: Option<String>,
}

impl JsonSchema for Person {
    fn schema_name() -> Cow<'static, str> {
        "Person".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "$defs": {"address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }},
            "properties": {
                "name": {"type": "string", "description": "Name"},
                "address": {"$ref": "#/$defs/address", "description": "Address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"], "description": "The way to reach them"},
                "phone": {"type": "string", "description": "Number"},
                "email": {"type": "string", "description": "Address of their mailbox"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        })
    }
}

/// Returns images of the given sizes.
#[tool(read_only)]
pub fn large_images(
    /// Bytes of each image
    sizes: Vec<usize>,
) -> WithContent {
    let content = sizes.into_iter().map(|bytes| Content::image("image/png", &vec![b'x'; bytes])).collect();
    WithContent { output: (), content }
}

/// Returns a file that is not text.
#[tool(read_only)]
pub fn binary_file() -> Result<WithContent, Error> {
    Ok(WithContent { output: (), content: vec![file("image.png", PNG)?] })
}

fn file(name: &str, bytes: impl AsRef<[u8]>) -> Result<Content, Error> {
    let path = format!("/workspace/{name}");
    fs::write(&path, bytes).map_err(|error| Error::new(format!("`{path}` cannot be written: {error}")))?;
    Ok(Content::file(path))
}
