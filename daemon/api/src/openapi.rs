//! OpenAPI schemas of types whose JSON is no plain struct.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type,
};
use utoipa::{PartialSchema, ToSchema};

use crate::assertion::AgentList;
use crate::limits::{LIMITS, LimitsPatch};
use crate::tools::ToolList;

impl PartialSchema for ToolList {
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

impl ToSchema for ToolList {
    fn name() -> Cow<'static, str> {
        "ToolPatterns".into()
    }
}

impl PartialSchema for AgentList {
    fn schema() -> RefOr<Schema> {
        let name = "[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?";
        let entry = || {
            ObjectBuilder::new()
                .schema_type(Type::String)
                .pattern(Some(format!(r"^(\*|({name}/)?{name}|{name}/\*)$")))
                .max_length(Some(129))
                .description(Some("`*`, `ORGANIZATION/*`, `ORGANIZATION/AGENT`, or `AGENT` in the document of an organization."))
                .examples(["acme/*"])
        };
        let list = ArrayBuilder::new()
            .items(entry())
            .max_items(Some(1_000))
            .description(Some("These. An empty list means none."));
        OneOfBuilder::new()
            .item(entry())
            .item(list)
            .description(Some("Agents: one entry, or a list; an empty list means none."))
            .into()
    }
}

impl ToSchema for AgentList {
    fn name() -> Cow<'static, str> {
        "AgentPatterns".into()
    }
}

impl PartialSchema for LimitsPatch {
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

impl ToSchema for LimitsPatch {
    fn name() -> Cow<'static, str> {
        "Limits".into()
    }
}
