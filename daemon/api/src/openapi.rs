//! OpenAPI schemas of types whose JSON is no plain struct.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type,
};
use utoipa::{PartialSchema, ToSchema};

use crate::assertion::AgentPattern;
use crate::limits::{LIMITS, LimitsPatch};
use crate::name::{Name, Namespace};
use crate::pattern_list::{Pattern, PatternList};
use crate::publisher::NamespacePattern;
use crate::tools::ToolPattern;

/// The schema of a list of patterns.
pub trait PatternSchema: Pattern {
    /// The schema's name.
    const NAME: &'static str;
    /// Describes the list.
    const DESCRIPTION: &'static str;
    /// Describes text in the place of a list: `"*"`, unless the text can be any entry.
    const ALL_DESCRIPTION: Option<&'static str>;

    fn entry() -> ObjectBuilder;
}

/// Schemas of names. They repeat the grammars of the types; a test compares the two.
macro_rules! name_schemas {
    ($($name:ty: $pattern:literal, $max_length:literal;)*) => { $(
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String);
                text.pattern(Some($pattern)).max_length(Some($max_length)).into()
            }
        }

        impl ToSchema for $name {}
    )* };
}

name_schemas! {
    Name: "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", 64;
    Namespace: "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", 40;
}

impl<P: PatternSchema> PartialSchema for PatternList<P> {
    fn schema() -> RefOr<Schema> {
        let text = match P::ALL_DESCRIPTION {
            Some(text) => ObjectBuilder::new()
                .schema_type(Type::String)
                .enum_values(Some(["*"]))
                .description(Some(text)),
            None => P::entry(),
        };
        let list = ArrayBuilder::new()
            .items(P::entry())
            .max_items(Some(P::MAX_ENTRIES))
            .description(Some("These. An empty list means none."));
        OneOfBuilder::new().item(text).item(list).description(Some(P::DESCRIPTION)).into()
    }
}

impl<P: PatternSchema> ToSchema for PatternList<P> {
    fn name() -> Cow<'static, str> {
        P::NAME.into()
    }
}

fn entry(pattern: &str, max_length: usize, description: &str, example: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern))
        .max_length(Some(max_length))
        .description(Some(description))
        .examples([example])
}

impl PatternSchema for ToolPattern {
    const NAME: &'static str = "ToolPatterns";
    const DESCRIPTION: &'static str =
        "Tools: `\"*\"` for every tool that the layer above gives, or a list; an empty list means none.";
    const ALL_DESCRIPTION: Option<&'static str> = Some("Every tool that the layer above gives.");

    fn entry() -> ObjectBuilder {
        let pattern = r"^(\*|[a-z][a-z0-9]*(-[a-z0-9]+)*/(\*|[a-z][a-z0-9]*(_[a-z0-9]+)*))$";
        let description =
            "`namespace/tool`, `namespace/*`, or `*` for every tool that the layer above gives.";
        entry(pattern, 58, description, "arithmetic/*")
    }
}

impl PatternSchema for AgentPattern {
    const NAME: &'static str = "AgentPatterns";
    const DESCRIPTION: &'static str = "Agents: one entry, or a list; an empty list means none.";
    const ALL_DESCRIPTION: Option<&'static str> = None;

    fn entry() -> ObjectBuilder {
        let name = "[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?";
        let pattern = format!(r"^(\*|({name}/)?{name}|{name}/\*)$");
        let description =
            "`*`, `ORGANIZATION/*`, `ORGANIZATION/AGENT`, or `AGENT` in the document of an organization.";
        entry(&pattern, 129, description, "acme/*")
    }
}

impl PatternSchema for NamespacePattern {
    const NAME: &'static str = "NamespacePatterns";
    const DESCRIPTION: &'static str = "Namespaces of plugins.";
    const ALL_DESCRIPTION: Option<&'static str> = Some("Every namespace.");

    fn entry() -> ObjectBuilder {
        let pattern = r"^(\*|[a-z][a-z0-9]*(-[a-z0-9]+)*(-\*)?)$";
        entry(pattern, 42, "A namespace, its first words with `-*`, or `*` for every namespace.", "billing-*")
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
