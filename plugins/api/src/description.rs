//! What `describe` answers for a definition: the JSON of `wit/describe.schema.json`.

use serde_json::{Map, Value, json};
use toolgate_sdk::Error;

use crate::definition::{Action, Definition};
use crate::plan::Piece;

/// Describes the plugin that a definition makes.
pub fn describe(definition: Definition) -> Result<Value, Error> {
    let capabilities = capabilities(&definition);
    let Definition {
        namespace, version, publisher, category, purpose, provider, rate_limit, actions, ..
    } = definition;
    let tools: Vec<Value> =
        actions.into_iter().map(|action| tool(action, provider.as_deref())).collect::<Result<_, Error>>()?;
    Ok(without_nulls([
        ("name", namespace.into()),
        ("version", version.into()),
        ("publisher", publisher.into()),
        ("category", category.into()),
        ("purpose", purpose.into()),
        ("capabilities", capabilities),
        ("rate_limit", rate_limit.unwrap_or_default()),
        ("tools", tools.into()),
    ]))
}

/// One rule for all requests: the host, the methods that the actions have, and what lies below the base URL.
fn capabilities(definition: &Definition) -> Value {
    let base = &definition.base;
    let mut methods: Vec<&str> =
        definition.actions.iter().map(|action| action.plan.method.as_str()).collect();
    methods.sort_unstable();
    methods.dedup();
    let rule = without_nulls([
        ("scheme", base.scheme().into()),
        ("host", base.host.clone().into()),
        ("port", base.port.into()),
        ("methods", methods.into()),
        ("path", rule_path(definition).into()),
    ]);
    json!({"network": [rule], "credentials": definition.provider.iter().collect::<Vec<_>>()})
}

/// `/v1/` is what lies below `/v1`; `/v1` is that and itself, and is asked for only where an action requests it.
fn rule_path(definition: &Definition) -> Option<String> {
    let path = &definition.base.path;
    let is_base = |action: &Action| matches!(&action.plan.path[..], [Piece::Text(text)] if text == path);
    match path.is_empty() {
        true => None,
        false if definition.actions.iter().any(is_base) => Some(path.clone()),
        false => Some(format!("{path}/")),
    }
}

fn tool(action: Action, provider: Option<&str>) -> Result<Value, Error> {
    let plan = serde_json::to_value(&action.plan)?;
    let hints = action.hints;
    let hints = json!({
        "read_only": hints.read_only,
        "destructive": hints.destructive,
        "idempotent": hints.idempotent,
        "open_world": hints.open_world,
    });
    let original_name = Some(action.original_name).filter(|original| *original != action.name);
    Ok(without_nulls([
        ("name", action.name.into()),
        ("original_name", original_name.into()),
        ("description", action.description.into()),
        ("usage", action.usage.into()),
        ("input_schema", action.input_schema),
        ("output_schema", action.output_schema.unwrap_or_default()),
        ("hints", hints),
        ("required_integrations", provider.map(|provider| json!([provider])).unwrap_or_default()),
        ("tags", action.tags.into()),
        ("examples", action.examples.into()),
        ("redact", action.redact.into()),
        ("definition", plan),
    ]))
}

/// What is not said is left out.
fn without_nulls<const COUNT: usize>(members: [(&str, Value); COUNT]) -> Value {
    let members = members.into_iter().filter(|(_, value)| !value.is_null() && *value != json!([]));
    Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}
