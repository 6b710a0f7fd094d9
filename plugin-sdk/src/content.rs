//! Content blocks beside a tool's output.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::schema;

/// The keyword that [`WithContent`] leaves in its schema for `describe`, which no other type has.
pub(crate) const MARKER: &str = "x-toolgate-output";

/// The result of a tool with text, images, audio or files beside its output. A model gets them as the content blocks of its
/// provider.
///
/// ```
/// use toolgate_sdk::{Content, WithContent, tool};
///
/// /// Draws a dot.
/// #[tool(read_only)]
/// fn draw() -> WithContent<u32> {
///     WithContent { output: 1, content: vec![Content::image("image/png", b"\x89PNG...")] }
/// }
/// # fn main() {}
/// ```
#[derive(Debug, Serialize)]
pub struct WithContent<T = ()> {
    /// The output, which the tool's output schema describes.
    pub output: T,
    /// The blocks, at most 64.
    pub content: Vec<Content>,
}

/// A content block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text for the model.
    Text {
        /// The text.
        text: String,
    },
    /// An image; [`Content::image`] encodes its bytes.
    Image {
        /// The bytes in base64.
        data: String,
        /// The media type, such as `image/png`.
        mime_type: String,
    },
    /// A recording; [`Content::audio`] encodes its bytes.
    Audio {
        /// The bytes in base64.
        data: String,
        /// The media type, such as `audio/wav`.
        mime_type: String,
    },
    /// A file of the session.
    File {
        /// Its path, such as `/workspace/report.pdf`.
        path: String,
    },
}

impl Content {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// An image of this media type.
    pub fn image(mime_type: &str, bytes: &[u8]) -> Self {
        Self::Image { data: STANDARD.encode(bytes), mime_type: mime_type.to_owned() }
    }

    /// A recording of this media type.
    pub fn audio(mime_type: &str, bytes: &[u8]) -> Self {
        Self::Audio { data: STANDARD.encode(bytes), mime_type: mime_type.to_owned() }
    }

    /// A file in `/workspace`.
    pub fn file(path: impl Into<String>) -> Self {
        Self::File { path: path.into() }
    }
}

impl<T: JsonSchema> JsonSchema for WithContent<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WithContent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // As that of a result of its own: transforms do not reach into an unknown keyword.
        json_schema!({ (MARKER): schema::result::<T>() })
    }
}

/// Takes the schema of the output out of that of a result with content.
pub(crate) fn split(mut schema: Schema) -> (Schema, bool) {
    let Some(output) = schema.remove(MARKER) else { return (schema, false) };
    (Schema::try_from(output).unwrap_or(schema), true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r11_a_result_with_content_has_the_schema_of_its_output() {
        let (output, has_content) = split(schema::result::<WithContent<Vec<u8>>>());
        assert!(has_content);
        assert_eq!(output.to_value(), schema::result::<Vec<u8>>().to_value());
        assert!(!split(schema::result::<Vec<u8>>()).1);
    }

    #[test]
    fn r11_a_result_with_content_is_written_as_the_host_reads_it() {
        let result =
            WithContent { output: 1, content: vec![Content::image("image/png", b"ABC"), Content::text("x")] };
        assert_eq!(
            serde_json::to_value(result).unwrap(),
            json!({"output": 1, "content": [
                {"type": "image", "data": "QUJD", "mime_type": "image/png"}, {"type": "text", "text": "x"},
            ]})
        );
    }
}
