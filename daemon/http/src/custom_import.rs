//! Handler of OpenAPI imports: an OpenAPI document becomes a custom tool (C2). `toolgate_openapi` decides which parts
//! are imported.

use axum::http::StatusCode;
use serde_json::json;
use toolgate_api::custom_tool::{CustomToolView, ImportRequest, ImportView, LeftOutView, NoteView};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_openapi::{ImportError, ImportOptions, Imported, Selector};
use toolgate_state::documents::ToolKey;

use super::body::Json;
use super::custom::own_tool;
use super::error_responses::{
    AssertionBroken, AuditUnavailable, InvalidDocument, NoOrganization, PlatformNamespace, TooManyTools,
    ToolExists,
};
use super::extract::{Client, Path};
use super::path_params::OrgPath;
use super::plugins::parse_namespace;
use super::problem::Problem;

/// Maximum number of selectors of one import.
const SELECTORS: usize = 100;

/// Import a custom tool from an OpenAPI document.
///
/// Each callable operation becomes an action; the response lists the other operations with the reason. The request is
/// refused if the organization already has a tool in this namespace: replace that tool with the definition from a dry
/// run.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/tools/import", tag = "custom tools", operation_id = "import_custom_tool", params(OrgPath),
    request_body(content = ImportRequest, example = json!({"namespace": "shop", "document": {
        "openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "servers": [{"url": "https://api.example.com"}],
        "paths": {"/items": {"get": {"operationId": "listItems", "responses": {}}}}}})),
    responses(
        (status = 200, description = "The definitions that the import would make.", body = ImportView),
        (status = 201, description = "It is made.", body = ImportView),
        NoOrganization, PlatformNamespace, ToolExists, TooManyTools, InvalidDocument, AssertionBroken, AuditUnavailable,
    ),
)]
pub async fn post(
    Client { app, caller }: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
    request: Result<Json<ImportRequest>, Problem>,
) -> Result<(StatusCode, axum::Json<ImportView>), Problem> {
    let Json(request) = request.map_err(name_command)?;
    let key = own_tool(&caller, ToolKey { organization, namespace: parse_namespace(&request.namespace)? })?;
    let is_dry = request.dry_run.unwrap_or(false);
    let import = move || import(&request);
    let (imported, tool) = app.admin().import_custom_tool(app.actor(&caller), &key, import, is_dry).await?;
    let status = if tool.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(view(imported, tool))))
}

/// Names the command where a document is too large to be sent.
fn name_command(mut problem: Problem) -> Problem {
    if problem.0.error_type == ErrorType::TooLarge {
        problem.0.hint = "import it with `toolgate plugin import openapi FILE ORG/NAMESPACE --select WHICH`, which sends only \
                          what is selected, or ask the operator to raise `http.body_bytes`"
            .to_owned();
    }
    problem
}

fn import(request: &ImportRequest) -> Result<Imported, CallError> {
    let select = request.select.as_deref().unwrap_or_default();
    if select.len() > SELECTORS {
        let message = format!("`select` has {} entries and may have {SELECTORS}", select.len());
        return Err(CallError::new(ErrorType::InvalidRequest, message, "select wider, by `tag:` or `path:`"));
    }
    let select = select
        .iter()
        .map(|text| text.parse())
        .collect::<Result<Vec<Selector>, _>>()
        .map_err(|error| CallError::new(ErrorType::InvalidRequest, error.to_string(), error.hint))?;
    let wanted = ImportOptions {
        base_url: request.base_url.as_deref(),
        select: &select,
        deprecated: request.deprecated.unwrap_or(false),
        scheme: request.scheme.as_deref(),
        safe_methods: request.safe_methods.unwrap_or(false),
        output_schemas: request.output_schemas.unwrap_or(false),
        ..ImportOptions::new(&request.namespace)
    };
    // A document in a string can be YAML.
    let text: Option<String> = serde_json::from_str(request.document.get()).ok();
    let text = text.as_deref().unwrap_or(request.document.get());
    toolgate_openapi::import(text, &wanted).map_err(import_error)
}

fn view(imported: Imported, tool: Option<CustomToolView>) -> ImportView {
    let left_out = imported.left_out.into_iter();
    let notes = imported.notes.into_iter();
    ImportView {
        definition: imported.definition,
        tool,
        left_out: left_out.map(|left| LeftOutView { what: left.what, why: left.why }).collect(),
        notes: notes.map(|note| NoteView { about: note.about, text: note.text }).collect(),
    }
}

/// Returns the error of an import without actions; it lists the operations that were not imported.
fn import_error(error: ImportError) -> CallError {
    let left_out: Vec<String> = error.left_out.iter().take(SELECTORS).map(ToString::to_string).collect();
    CallError::new(ErrorType::InvalidPolicy, error.message, error.hint)
        .with_details(json!({"pointer": error.pointer, "left_out": left_out}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c2_a_document_that_is_too_large_to_be_sent_leads_to_the_command() {
        let hint = |error_type| name_command(Problem::new(error_type, "m", "send less")).0.hint;
        assert!(
            hint(ErrorType::TooLarge).contains("`toolgate plugin import openapi FILE ORG/NAMESPACE --select")
        );
        assert_eq!(hint(ErrorType::InvalidRequest), "send less");
    }

    #[test]
    fn more_selectors_than_an_import_takes_are_refused_and_none_is_passed_over() {
        let import = |selectors: usize| {
            let document = json!({
                "openapi": "3.1.0", "info": {"title": "Shop", "version": "1"},
                "servers": [{"url": "https://api.example.com"}],
                "paths": {"/last": {"get": {"operationId": "last", "responses": {"200": {"description": "OK"}}}}},
            });
            let mut select = vec!["path:/nowhere"; selectors - 1];
            select.push("path:/last");
            let request = json!({"namespace": "shop", "document": document, "select": select});
            super::import(&serde_json::from_value(request).expect("a request"))
        };
        let refused = import(SELECTORS + 1).expect_err("too many");
        assert_eq!(refused.message, "`select` has 101 entries and may have 100");
        assert_eq!(import(SELECTORS).expect("imported").definition["actions"][0]["name"], "last");
    }
}
