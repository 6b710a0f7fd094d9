//! `toolgate plugin import`: creates a tool from an OpenAPI document, without code.
//!
//! The document is parsed here, so it may be larger than the body limit of the daemon; only the definition is sent.

use clap::{Args, Subcommand};
use serde_json::json;
use toolgate_openapi::{ImportError, ImportOptions, Imported, Selector};

use super::document::text_from;
use super::failure::Failure;
use super::print::Printer;
use super::tool;
use crate::client::Client;

/// Default namespace of a definition that is printed.
const NAMESPACE: &str = "imported";

#[derive(Subcommand)]
pub enum ImportCommand {
    /// Create a tool from an OpenAPI document (3.0 or 3.1, JSON or YAML)
    Openapi(Box<OpenApi>),
}

#[derive(Args)]
pub struct OpenApi {
    /// The document, or `-` for standard input
    file: String,
    /// The tool to create, `organization/namespace`; without it the definition is printed
    name: Option<String>,
    /// The namespace of a definition that is printed
    #[arg(long, value_name = "NS", conflicts_with = "name")]
    namespace: Option<String>,
    /// The base URL of the API, instead of the one in the document
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Operations to include: `tag:pets`, `path:/users`, `operation:users.*`, `method:GET`; several may be given
    #[arg(long, value_name = "WHICH")]
    select: Vec<Selector>,
    /// Include deprecated operations
    #[arg(long)]
    deprecated: bool,
    /// The security scheme to use, if the document has several
    #[arg(long, value_name = "NAME")]
    scheme: Option<String>,
    /// Treat GET, HEAD and OPTIONS as safe methods (RFC 9110): their actions are read-only
    #[arg(long)]
    safe_methods: bool,
    /// Validate responses against the schemas of the document
    #[arg(long)]
    output_schemas: bool,
}

impl ImportCommand {
    /// Returns whether the command sends requests to a daemon.
    pub fn needs_daemon(&self) -> bool {
        let Self::Openapi(options) = self;
        options.name.is_some()
    }
}

/// Prints the definition.
pub fn run_here(command: &ImportCommand, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let ImportCommand::Openapi(options) = command;
    let imported = import(options, options.namespace.as_deref().unwrap_or(NAMESPACE), printer)?;
    Ok(printer.value(&imported.definition)?)
}

/// Creates the tool.
pub async fn run(command: ImportCommand, client: &Client, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let ImportCommand::Openapi(options) = &command;
    let Some(name) = &options.name else { return run_here(&command, printer) };
    let path = tool::path(name)?;
    let namespace = name.split_once('/').map_or("", |(_, namespace)| namespace);
    let imported = import(options, namespace, printer)?;
    tool::put(client, printer, &path, imported.definition.to_string()).await
}

fn import(options: &OpenApi, namespace: &str, printer: &mut Printer<'_>) -> Result<Imported, Failure> {
    let text = text_from(&options.file)?;
    let wanted = ImportOptions {
        base_url: options.base_url.as_deref(),
        select: &options.select,
        deprecated: options.deprecated,
        scheme: options.scheme.as_deref(),
        safe_methods: options.safe_methods,
        output_schemas: options.output_schemas,
        ..ImportOptions::new(namespace)
    };
    let imported = match toolgate_openapi::import(&text, &wanted) {
        Ok(imported) => imported,
        Err(error) => return Err(refused(error, printer)?),
    };
    tell(printer, &imported)?;
    Ok(imported)
}

/// Reports the operations that were skipped, with the reason, and the deviations from the document.
fn tell(printer: &mut Printer<'_>, imported: &Imported) -> Result<(), Failure> {
    if printer.json() {
        return Ok(());
    }
    for note in &imported.notes {
        printer.note(&note.to_string())?;
    }
    for left in &imported.left_out {
        printer.warning(&format!("left out: {left}"))?;
    }
    let taken = imported.definition.get("actions").and_then(|actions| Some(actions.as_array()?.len()));
    let (selected, operations) = (imported.selected, imported.operations);
    let of = json!(taken.unwrap_or_default());
    printer.note(&format!(
        "{of} actions of {selected} operations that were selected, of {operations} in the document"
    ))?;
    Ok(())
}

fn refused(error: ImportError, printer: &mut Printer<'_>) -> Result<Failure, Failure> {
    for left in &error.left_out {
        printer.warning(&format!("left out: {left}"))?;
    }
    let place = if error.pointer.is_empty() { String::new() } else { format!(" (`{}`)", error.pointer) };
    Ok(Failure::new(format!("{}{place}", error.message), error.hint))
}

#[cfg(test)]
mod tests {
    use super::super::testing::run_with;
    use super::*;
    use crate::client::testing::Canned;

    const SHOP: &str = r#"{"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://api.example.com"}],
        "paths": {"/items": {"get": {"operationId": "listItems", "responses": {}}},
            "/files": {"post": {"operationId": "putFile", "responses": {},
                "requestBody": {"required": true, "content": {"multipart/form-data": {"schema": {"type": "object"}}}}}}}}"#;

    fn command(folder: &std::path::Path, name: Option<&str>) -> ImportCommand {
        let file = folder.join("shop.json");
        std::fs::write(&file, SHOP).expect("written");
        ImportCommand::Openapi(Box::new(OpenApi {
            file: file.display().to_string(),
            name: name.map(str::to_owned),
            namespace: None,
            base_url: None,
            select: Vec::new(),
            deprecated: false,
            scheme: None,
            safe_methods: name.is_some(),
            output_schemas: false,
        }))
    }

    #[tokio::test]
    async fn c2_a_definition_is_printed_with_what_was_left_out_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let command = command(folder.path(), None);
        assert!(!command.needs_daemon());
        let run = run_with(vec![], false, async |client, printer| run(command, client, printer).await).await;
        run.result.expect("imported");
        let definition: serde_json::Value = serde_json::from_str(&run.out).expect("json");
        assert_eq!(definition["actions"][0]["name"], "listItems", "{definition}");
        assert_eq!(definition.get("safe_methods"), None, "nobody said so");
        assert!(run.notes.contains("left out: POST /files"), "{}", run.notes);
        assert!(run.notes.contains("1 actions of 2 operations"), "{}", run.notes);
        assert!(run.asked.is_empty());
    }

    #[tokio::test]
    async fn c2_a_tool_is_made_of_it_where_one_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let command = command(folder.path(), Some("acme/shop"));
        assert!(command.needs_daemon());
        let made =
            json!({"namespace": "shop", "state": "active", "tools": [{"wire_name": "call_shop_list_items"}]});
        let answers = vec![Canned::empty(404), Canned::json(201, made)];
        let run = run_with(answers, false, async |client, printer| run(command, client, printer).await).await;
        run.result.expect("imported");
        assert_eq!(run.asked[1].line(), "PUT /v1/orgs/acme/tools/shop");
        assert!(run.asked[1].body.contains("listItems"), "{}", run.asked[1].body);
        assert!(run.asked[1].body.contains(r#""safe_methods":true"#), "{}", run.asked[1].body);
    }
}
