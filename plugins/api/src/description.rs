//! What `describe` answers for a definition: the JSON of `wit/describe.schema.json`.

use serde_json::{Value, json};
use toolgate_api::definition::sparse_object;
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
    Ok(document.describe(&namespace, capabilities, tools))
}

/// One rule for all requests: the host, the methods that the actions have, and what lies below the base URL.
fn capabilities(definition: &Definition) -> Value {
    let base = &definition.base;
    let mut methods: Vec<&str> =
        definition.actions.iter().map(|action| action.plan.method.as_str()).collect();
    methods.sort_unstable();
    methods.dedup();
    let rule = sparse_object([
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
    Ok(sparse_object([
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
