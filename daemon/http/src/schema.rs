//! Schemas of raw bytes and of documents, and the largest integer.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// The largest integer that every JSON reader keeps exactly: 2^53 - 1 (RFC 8259, section 6).
pub(super) const SAFE_INTEGER: u64 = (1 << 53) - 1;

/// A schema with the schemas that it names.
#[derive(Serialize)]
struct WithDefinitions {
    #[serde(rename = "$defs")]
    definitions: BTreeMap<String, RefOr<Schema>>,
    #[serde(flatten)]
    schema: RefOr<Schema>,
}

/// The JSON Schema of a document, as text: its members are in the order in which they are described. References end with the name
/// of one of its `$defs`.
pub fn document_schema<T: ToSchema>() -> String {
    let mut definitions = Vec::new();
    T::schemas(&mut definitions);
    let schema = WithDefinitions { definitions: definitions.into_iter().collect(), schema: T::schema() };
    serde_json::to_string(&schema).unwrap_or_default()
}

/// A WebAssembly component, as raw bytes.
pub(super) struct ComponentFile;

/// The content of a file, as raw bytes.
pub(super) struct FileBytes;

impl PartialSchema for ComponentFile {
    fn schema() -> RefOr<Schema> {
        bytes("A WebAssembly component.")
    }
}

impl ToSchema for ComponentFile {}

impl PartialSchema for FileBytes {
    fn schema() -> RefOr<Schema> {
        bytes("The bytes of a file.")
    }
}

impl ToSchema for FileBytes {}

/// Returns a schema of raw bytes. OpenAPI 3.1 requires none, but code generators read this form as a byte stream.
fn bytes(description: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
        .description(Some(description))
        .into()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use toolgate_api::name::{Name, Namespace};

    #[test]
    fn the_lengths_of_addresses_are_those_of_names() {
        use super::super::path_params::{AgentPath, PluginPath};
        use utoipa::IntoParams;
        let longest = |parameters: Vec<utoipa::openapi::path::Parameter>, at: usize| {
            let parameter: Value = serde_json::to_value(&parameters[at]).expect("a parameter");
            usize::try_from(parameter["schema"]["maxLength"].as_u64().expect("a length")).expect("a length")
        };
        let name = longest(AgentPath::into_params(|| None), 1);
        let namespace = longest(PluginPath::into_params(|| None), 0);
        let text = |length| "x".repeat(length);
        assert!(Name::parse(&text(name)).is_ok() && Name::parse(&text(name + 1)).is_err());
        assert!(
            Namespace::parse(&text(namespace)).is_ok() && Namespace::parse(&text(namespace + 1)).is_err()
        );
    }
}
