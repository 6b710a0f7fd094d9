//! Schemas of what is no plain struct here: documents that are kept as they came, and raw bytes.
//!
//! Documents are read by `toolgate-admission`, which knows nothing of OpenAPI. What is said of them here is
//! held against that reader by the tests below; limits come from its table.

use toolgate_admission::LIMITS;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// The largest integer that every JSON reader keeps exactly: 2^53 - 1 (RFC 8259, section 6).
pub(super) const SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The rules of an agent. Every field may be left out, and `null` is the same.
#[derive(ToSchema)]
#[schema(as = AgentDocument)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct AgentForm {
    /// What people call it: at most 200 visible characters.
    name: Option<String>,
    /// The tools that it may call. Left out: none.
    enabled: Option<ToolPatterns>,
    /// The tools that it may not call, whatever else says so.
    disabled: Option<ToolPatterns>,
    /// The namespace of the one plugin that it is bound to; `enabled` then names no other.
    #[schema(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40)]
    server: Option<String>,
    /// The tools whose calls a person must approve.
    require_approval_for: Option<ToolPatterns>,
    /// What its calls may use at most. Layers only take away: the smallest of all values holds.
    limits: Option<LimitsForm>,
}

/// The policy of an organization. Every field may be left out, and `null` is the same.
#[derive(ToSchema)]
#[schema(as = OrganizationPolicy)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct PolicyForm {
    /// What calls for the organization may use at most. Layers only take away: the smallest of all values holds.
    limits: Option<LimitsForm>,
}

/// `"*"`, or a list of `namespace/tool`, `namespace/*` and `*`.
pub(super) struct ToolPatterns;

/// Limits by name.
pub(super) struct LimitsForm;

/// A WebAssembly component, as bytes.
pub(super) struct ComponentFile;

/// A file, as bytes.
pub(super) struct FileBytes;

impl PartialSchema for ToolPatterns {
    fn schema() -> RefOr<Schema> {
        let pattern = r"^(\*|[a-z][a-z0-9]*(-[a-z0-9]+)*/(\*|[a-z][a-z0-9]*(_[a-z0-9]+)*))$";
        let entry = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(pattern))
            .max_length(Some(58))
            .description(Some(
                "`namespace/tool`, `namespace/*`, or `*` for every tool that the layer above gives.",
            ))
            .examples(["arithmetic/*"]);
        let all = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["*"]))
            .description(Some("Every tool that the layer above gives."));
        let list = ArrayBuilder::new()
            .items(entry)
            .max_items(Some(10_000))
            .description(Some("These. An empty list means none."));
        OneOfBuilder::new()
            .item(all)
            .item(list)
            .description(Some("Tools: `\"*\"` for every tool that the layer above gives, or a list; an empty list means none."))
            .into()
    }
}

impl ToSchema for ToolPatterns {}

impl PartialSchema for LimitsForm {
    fn schema() -> RefOr<Schema> {
        let limits = LIMITS.iter().fold(ObjectBuilder::new(), |object, limit| {
            let text = format!("{} By default {}, at most {}.", limit.why, limit.default, limit.ceiling);
            let value = ObjectBuilder::new()
                .schema_type(Type::Integer)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
                .minimum(Some(0))
                .description(Some(text));
            object.property(limit.name, value)
        });
        limits
            .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
            .description(Some("Limits of one call by name; the unit is the last word of each. One that is not there is as the layer above has it."))
            .examples([serde_json::json!({"deadline_ms": 5000, "memory_bytes": 16_777_216})])
            .into()
    }
}

impl ToSchema for LimitsForm {
    fn name() -> std::borrow::Cow<'static, str> {
        "Limits".into()
    }
}

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

/// Raw bytes. 3.1 needs no schema for them, but generators know this form as a stream of bytes.
fn bytes(description: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
        .description(Some(description))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use toolgate_admission::{AgentDocument, LimitsPatch, Name, Namespace, OrgDocument};

    fn properties(schema: &RefOr<Schema>) -> Vec<String> {
        let schema = serde_json::to_value(schema).expect("a schema");
        schema["properties"].as_object().expect("properties").keys().cloned().collect()
    }

    #[test]
    fn every_field_that_is_described_is_read() {
        for field in properties(&AgentForm::schema()) {
            AgentDocument::parse(&json!({ field: null }).to_string()).expect("a field of agents");
        }
        for field in properties(&PolicyForm::schema()) {
            OrgDocument::parse(&json!({ field: null }).to_string()).expect("a field of policies");
        }
    }

    #[test]
    fn every_field_that_is_read_is_described() {
        let whole = json!({
            "name": "x", "enabled": "*", "disabled": [], "server": null, "require_approval_for": [], "limits": {"fuel": 1},
        });
        let read = AgentDocument::parse(&whole.to_string()).expect("a document");
        let described = properties(&AgentForm::schema());
        let written = serde_json::to_value(read).expect("a document");
        assert!(written.as_object().expect("an object").keys().all(|field| described.contains(field)));
        // A hint of the reader lists what it knows.
        let unknown = OrgDocument::parse(r#"{"zzzzzzzz":1}"#).expect_err("an unknown field");
        assert_eq!(unknown.hint, "an organization's policy document has `limits`");
    }

    #[test]
    fn every_limit_is_described_and_read() {
        for limit in properties(&LimitsForm::schema()) {
            serde_json::from_value::<LimitsPatch>(json!({ limit: 1 })).expect("a limit");
        }
        assert_eq!(properties(&LimitsForm::schema()).len(), LIMITS.len());
    }

    #[test]
    fn the_lengths_of_addresses_are_those_of_names() {
        use super::super::address::{AgentAddress, PluginAddress};
        use utoipa::IntoParams;
        let longest = |parameters: Vec<utoipa::openapi::path::Parameter>, at: usize| {
            let parameter: Value = serde_json::to_value(&parameters[at]).expect("a parameter");
            usize::try_from(parameter["schema"]["maxLength"].as_u64().expect("a length")).expect("a length")
        };
        let name = longest(AgentAddress::into_params(|| None), 1);
        let namespace = longest(PluginAddress::into_params(|| None), 0);
        let text = |length| "x".repeat(length);
        assert!(Name::parse(&text(name)).is_ok() && Name::parse(&text(name + 1)).is_err());
        assert!(
            Namespace::parse(&text(namespace)).is_ok() && Namespace::parse(&text(namespace + 1)).is_err()
        );
    }
}
