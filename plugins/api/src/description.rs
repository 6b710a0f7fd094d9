//! What `describe` answers for a definition: the JSON of `wit/describe.schema.json`.

use serde_json::{Map, Value, json};
use toolgate_sdk::Error;

use crate::definition::{Action, Definition};
use crate::plan::Piece;

/// Describes the plugin that a definition makes.
pub fn describe(definition: Definition) -> Result<Value, Error> {
    let capabilities = capabilities(&definition);
    let Definition { namespace, document, actions, .. } = definition;
    let provider = document.provider();
    let tools: Vec<Value> =
        actions.into_iter().map(|action| tool(action, provider)).collect::<Result<_, Error>>()?;
    Ok(without_nulls([
        ("name", namespace.into()),
        ("version", document.version.unwrap_or_else(|| "1".to_owned()).into()),
        ("publisher", document.publisher.into()),
        ("category", document.category.into()),
        ("purpose", document.description.into()),
        ("capabilities", capabilities),
        ("rate_limit", json!(document.rate_limit)),
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
    let credentials: Vec<&str> = definition.document.provider().into_iter().collect();
    let mut capabilities = json!({"network": [rule], "credentials": credentials});
    if definition.actions.iter().any(|action| action.plan.uses_workspace()) {
        capabilities["filesystem"] = json!("workspace");
    }
    capabilities
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
    let Action { name, definition, input_schema, hints, plan } = action;
    let original_name = Some(definition.name).filter(|original| *original != name);
    Ok(without_nulls([
        ("name", name.into()),
        ("original_name", original_name.into()),
        ("usage", definition.usage.unwrap_or_else(|| definition.description.clone()).into()),
        ("description", definition.description.into()),
        ("input_schema", input_schema),
        ("output_schema", definition.output_schema.unwrap_or_default()),
        ("hints", serde_json::to_value(hints)?),
        ("required_integrations", provider.map(|provider| json!([provider])).unwrap_or_default()),
        ("tags", definition.tags.into()),
        ("examples", serde_json::to_value(definition.examples)?),
        ("redact", definition.redact.into()),
        ("definition", serde_json::to_value(plan)?),
    ]))
}

/// Drops the members that are null.
fn without_nulls<const COUNT: usize>(members: [(&str, Value); COUNT]) -> Value {
    let members = members.into_iter().filter(|(_, value)| !value.is_null() && *value != json!([]));
    Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}
