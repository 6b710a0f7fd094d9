//! `toolgate plugin`: the requests of `toolgate-cli`, and `import`, which creates a tool from an OpenAPI document.
//!
//! The document is parsed here, so it may be larger than the body limit of the daemon; only the definition is sent.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use serde_json::json;
use toolgate_cli::document::text_from;
use toolgate_cli::{Failure, Printer, Remote, tool};
use toolgate_openapi::{COMMAND_DOCUMENT_BYTES, ImportError, ImportOptions, Imported, Selector};

use super::sign::{self, Keygen, Sign, Verify};

use super::push::{self, PushOptions};

const IMPORT_EXAMPLES: &str = "
  toolgate plugin import openapi shop.yaml --select tag:orders
  toolgate plugin import openapi shop.yaml acme/shop
  toolgate plugin push weather.wasm oci://registry.example.org/tools/weather:1.2.0
  toolgate plugin push weather.wasm oci://127.0.0.1:5000/weather:test --plain-http";

/// Default namespace of a definition that is printed.
const NAMESPACE: &str = "imported";

#[derive(Args)]
#[command(after_help = format!("{}{IMPORT_EXAMPLES}{}", toolgate_cli::plugin::EXAMPLES, sign::EXAMPLES))]
pub(super) struct PluginOptions {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Subcommand)]
enum PluginCommand {
    #[command(flatten)]
    Remote(toolgate_cli::plugin::PluginCommand),
    /// Generate a key to sign plugin files with, and print its public part
    Keygen(Keygen),
    /// Sign a plugin file
    Sign(Sign),
    /// Verify the signature of a plugin file
    Verify(Verify),
    /// Create a tool from an API without code
    Import {
        #[command(subcommand)]
        from: ImportCommand,
    },
    /// Push a plugin file to an OCI registry, from which daemons load it
    Push(Box<PushOptions>),
}

#[derive(Subcommand)]
enum ImportCommand {
    /// Create a tool from an OpenAPI document (3.0, 3.1 or Swagger 2.0; JSON or YAML)
    Openapi(Box<OpenApi>),
}

#[derive(Args)]
struct OpenApi {
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

pub(super) fn run(options: PluginOptions, environment_token: Option<OsString>) -> Result<(), Failure> {
    let PluginOptions { remote, command } = options;
    match command {
        PluginCommand::Remote(command) => remote.run(environment_token, async |client, printer| {
            toolgate_cli::plugin::run(command, client, printer).await
        }),
        PluginCommand::Push(options) => {
            super::here(remote.json, async |printer| push::run(*options, printer).await)
        }
        PluginCommand::Keygen(options) => {
            super::here(remote.json, async |printer| sign::keygen(&options, printer))
        }
        PluginCommand::Sign(options) => {
            super::here(remote.json, async |printer| sign::sign(&options, printer).await)
        }
        PluginCommand::Verify(options) => {
            super::here(remote.json, async |printer| sign::verify(&options, printer))
        }
        PluginCommand::Import { from: ImportCommand::Openapi(options) } => match &options.name {
            None => super::here(remote.json, async |printer| {
                let imported = import(&options, options.namespace.as_deref().unwrap_or(NAMESPACE), printer)?;
                Ok(printer.json(&imported.definition)?)
            }),
            Some(name) => remote.run(environment_token, async |client, printer| {
                let path = tool::path(name)?;
                let namespace = name.split_once('/').map_or("", |(_, namespace)| namespace);
                let imported = import(&options, namespace, printer)?;
                tool::put(client, printer, &path, imported.definition.to_string()).await
            }),
        },
    }
}

fn import(options: &OpenApi, namespace: &str, printer: &mut Printer<'_>) -> Result<Imported, Failure> {
    let text = text_from(&options.file)?;
    let wanted = ImportOptions {
        base_url: options.base_url.as_deref(),
        max_bytes: COMMAND_DOCUMENT_BYTES,
        select: &options.select,
        deprecated: options.deprecated,
        scheme: options.scheme.as_deref(),
        safe_methods: options.safe_methods,
        output_schemas: options.output_schemas,
        ..ImportOptions::new(namespace)
    };
    let imported = match toolgate_openapi::import(&text, &wanted) {
        Ok(imported) => imported,
        Err(error) => return Err(import_failure(error, printer)?),
    };
    tell(printer, &imported)?;
    Ok(imported)
}

/// Reports the operations that were skipped, with the reason, and the deviations from the document.
fn tell(printer: &mut Printer<'_>, imported: &Imported) -> Result<(), Failure> {
    if printer.is_json() {
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

fn import_failure(error: ImportError, printer: &mut Printer<'_>) -> Result<Failure, Failure> {
    for left in &error.left_out {
        printer.warning(&format!("left out: {left}"))?;
    }
    let place = if error.pointer.is_empty() { String::new() } else { format!(" (`{}`)", error.pointer) };
    Ok(Failure::new(format!("{}{place}", error.message), error.hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = r#"{"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://api.example.com"}],
        "paths": {"/items": {"get": {"operationId": "listItems", "responses": {}}},
            "/files": {"post": {"operationId": "putFile", "responses": {},
                "requestBody": {"required": true, "content": {"multipart/form-data": {"schema": {"type": "object"}}}}}}}}"#;

    #[test]
    fn c2_a_definition_has_what_fits_and_the_notes_name_the_rest() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("shop.json");
        std::fs::write(&file, SHOP).expect("written");
        for safe_methods in [false, true] {
            let options = OpenApi {
                file: file.display().to_string(),
                name: None,
                namespace: None,
                base_url: None,
                select: Vec::new(),
                deprecated: false,
                scheme: None,
                safe_methods,
                output_schemas: false,
            };
            let (mut out, mut notes) = (Vec::new(), anstream::StripStream::new(Vec::new()));
            let imported = import(&options, "shop", &mut Printer::new(&mut out, &mut notes, false));
            let definition = imported.expect("imported").definition;
            assert_eq!(definition["actions"][0]["name"], "listItems", "{definition}");
            let stated = definition.get("safe_methods").and_then(serde_json::Value::as_bool);
            assert_eq!(stated, safe_methods.then_some(true), "{definition}");
            let notes = String::from_utf8(notes.into_inner()).expect("text");
            assert!(notes.contains("left out: POST /files"), "{notes}");
            assert!(notes.contains("1 actions of 2 operations"), "{notes}");
        }
    }
}
