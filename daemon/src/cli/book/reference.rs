//! Pages of the reference, made from the command line, the schemas of the documents, the limits and the contract. Each test compares a
//! page, and with `TOOLGATE_BLESS` writes it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use serde_json::Value;
use toolgate_api::limits::LIMITS;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use super::super::command_line;
use super::{folder, workspace};

/// Heading of the options that every command with a connection has.
const GLOBAL: &str = "Global options";

fn page_head(title: &str, source: &str) -> String {
    format!(
        "# {title}\n\nThis page is generated from {source} by\n`TOOLGATE_BLESS=1 cargo test -p toolgate --lib book`.\n\n"
    )
}

/// Compares a page with the one in the folder, and writes it first if that is asked for.
fn expect_page(file: &str, page: &str) {
    let path = folder().join(file);
    if std::env::var_os("TOOLGATE_BLESS").is_some() {
        fs::write(&path, page).unwrap();
    }
    let current = fs::read_to_string(path).unwrap_or_default();
    assert!(current == page, "docs/{file} is out of date: run this test with TOOLGATE_BLESS=1");
}

/// A cell of a table, on one line.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

#[test]
fn o6_the_page_of_commands_says_what_their_help_says() {
    let mut root = command_line();
    root.build();
    let mut page = page_head("Commands", "the definition of the command line");
    page += "`toolgate help COMMAND` prints the same. Exit status: 0 for success, 1 for a refusal or failure, 2 for wrong usage.\n\n";
    page += "**Options of each command that uses a daemon**\n\n";
    let status = root.find_subcommand("status").expect("a command that uses a daemon");
    write_arguments(&mut page, status, true);
    write_command(&mut page, &root);
    expect_page("reference-cli.md", &page);
}

/// Writes a section for each command below `command`.
fn write_command(page: &mut String, command: &clap::Command) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        let path = below.get_bin_name().unwrap_or_default();
        let about = below.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = write!(page, "\n## `{path}`\n\n{about}.\n");
        if !below.has_subcommands() {
            let usage = below.clone().render_usage().to_string();
            let _ = write!(page, "\n```text\n{}\n```\n\n", usage.trim_start_matches("Usage: ").trim());
            write_arguments(page, below, false);
            let examples = below.get_after_help().map(ToString::to_string).unwrap_or_default();
            let _ = write!(page, "\n```text\n{}\n```\n", examples.trim());
        }
        write_command(page, below);
    }
}

/// Writes the arguments of a command, or those that all have.
fn write_arguments(page: &mut String, command: &clap::Command, global: bool) {
    let shown = |argument: &&clap::Arg| {
        let is_global = argument.get_help_heading() == Some(GLOBAL);
        is_global == global
            && !argument.is_hide_set()
            && !["help", "version"].contains(&argument.get_id().as_str())
    };
    let arguments: Vec<_> = command.get_arguments().filter(shown).collect();
    if arguments.is_empty() {
        return;
    }
    page.push_str("| argument | meaning |\n|---|---|\n");
    for argument in arguments {
        let mut meaning = argument.get_help().map(ToString::to_string).unwrap_or_default();
        // A switch has values too, which are not written.
        if argument.get_action().takes_values() {
            let values = argument.get_possible_values();
            let shown: Vec<_> =
                values.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name()).collect();
            if !shown.is_empty() {
                meaning += &format!(" ({})", shown.join(", "));
            }
            if let Some(default) = argument.get_default_values().first().filter(|value| !value.is_empty()) {
                meaning += &format!(" [default: {}]", default.to_string_lossy());
            }
        }
        if let Some(variable) = argument.get_env() {
            meaning += &format!(" (or the variable {})", variable.to_string_lossy());
        }
        let _ = writeln!(page, "| `{}` | {} |", argument.to_string().replace('|', "\\|"), cell(&meaning));
    }
}

/// Schemas by name, each with its fields in the order of the code.
type Schemas = BTreeMap<String, (Vec<String>, Value)>;

/// The documents, with what each is and where it is.
const DOCUMENTS: [(&str, &str); 9] = [
    ("PlatformPolicy", "`/v1/platform/policy`, `toolgate policy put platform`"),
    ("OrganizationDocument", "`/v1/orgs/{org}`, `toolgate org put`"),
    ("OrganizationPolicy", "`/v1/orgs/{org}/policy`, `toolgate policy put ORG`"),
    (
        "AgentDocument",
        "`/v1/orgs/{org}/agents/{agent}`, `toolgate agent put` or `toolgate policy put ORG/AGENT`",
    ),
    ("Grant", "`/v1/plugins/{namespace}/grant`, `toolgate plugin grant`, `toolgate tool grant`"),
    ("Assertions", "`/v1/platform/policy/assertions`, `toolgate policy assertions put`"),
    ("EnabledPluginDocument", "`/v1/orgs/{org}/enabled/{namespace}`, `toolgate org enable`"),
    (
        "PublisherKeyDocument",
        "`/v1/platform/publisher-keys/{name}`, `/v1/orgs/{org}/publisher-keys/{name}`, `toolgate plugin key put`",
    ),
    ("WebhookRequest", "`/v1/orgs/{org}/webhooks/{name}`, `toolgate webhook put`"),
];

/// The schemas of the documents and of all that they contain.
fn schemas() -> Schemas {
    fn add<T: ToSchema>(all: &mut Vec<(String, RefOr<Schema>)>) {
        all.push((T::name().into_owned(), T::schema()));
        T::schemas(all);
    }
    let mut all = Vec::new();
    add::<toolgate_api::policy::PlatformDocument>(&mut all);
    add::<toolgate_api::document::OrganizationDocument>(&mut all);
    add::<toolgate_api::policy::OrgDocument>(&mut all);
    add::<toolgate_api::policy::AgentDocument>(&mut all);
    add::<toolgate_api::grant::Grant>(&mut all);
    add::<toolgate_api::assertion::AssertionsDocument>(&mut all);
    add::<toolgate_api::catalogue::EnabledDocument>(&mut all);
    add::<toolgate_api::publisher::PublisherKeyDocument>(&mut all);
    add::<toolgate_api::webhook::WebhookRequest>(&mut all);
    all.into_iter()
        .map(|(name, schema)| (name, (fields(&schema), serde_json::to_value(schema).unwrap())))
        .collect()
}

fn fields(schema: &RefOr<Schema>) -> Vec<String> {
    match schema {
        RefOr::T(Schema::Object(object)) => object.properties.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

#[test]
fn o6_the_page_of_documents_says_what_their_schemas_say() {
    let schemas = schemas();
    let mut page = page_head("Documents", "their schemas");
    page += "A document is a JSON object that is replaced as a whole. [Policies](policy.md) explains how the layers work together. An unknown\nfield is an error. `null` is the same as an absent field.\n";
    for (name, place) in DOCUMENTS {
        write_schema(&mut page, name, &schemas[name], Some(place));
    }
    page += "\n# Parts of documents\n";
    for (name, schema) in &schemas {
        if name != "Limits" && !DOCUMENTS.iter().any(|(document, _)| document == name) {
            write_schema(&mut page, name, schema, None);
        }
    }
    page += "\n## Limits\n\nLimits of one call, by name: a layer can only lower them. The last word of a name is its unit.\n\n";
    page += "| limit | default | ceiling | meaning |\n|---|---:|---:|---|\n";
    for row in LIMITS {
        let _ = writeln!(page, "| `{}` | {} | {} | {} |", row.name, row.default, row.ceiling, cell(row.why));
    }
    expect_page("reference-documents.md", &page);
}

fn write_schema(page: &mut String, name: &str, (fields, schema): &(Vec<String>, Value), place: Option<&str>) {
    let description = schema["description"].as_str().unwrap_or_default();
    let place = place.map(|place| format!("\n\n{place}")).unwrap_or_default();
    let _ = write!(page, "\n## {name}\n\n{}{place}\n", cell(description));
    if fields.is_empty() {
        let _ = write!(page, "\n{}\n", kind(schema));
        return;
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    page.push_str("\n| field | value | meaning |\n|---|---|---|\n");
    for field in fields {
        let schema = &schema["properties"][field];
        let needed = if required.iter().any(|name| name == field) { " (required)" } else { "" };
        let _ = writeln!(page, "| `{field}`{needed} | {} | {} |", kind(schema), cell(meaning(schema)));
    }
}

/// The description of a field, which stands beside a reference or in its first alternative.
fn meaning(schema: &Value) -> &str {
    let first = ["oneOf", "allOf"].iter().find_map(|name| schema[name].get(0));
    schema["description"].as_str().or_else(|| first?["description"].as_str()).unwrap_or_default()
}

/// The kind of value that a schema takes.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .map(|value| format!("`{}`", value.to_string().replace('|', "\\|")))
            .collect::<Vec<_>>()
            .join(", ");
    }
    if let Some(kinds) = ["oneOf", "anyOf", "allOf"].iter().find_map(|name| schema[name].as_array()) {
        let kinds = kinds.iter().filter(|kind| kind["type"] != "null").map(kind);
        return kinds.collect::<Vec<_>>().join(" or ");
    }
    let word = match &schema["type"] {
        Value::Array(words) => words.iter().find_map(|word| word.as_str().filter(|word| *word != "null")),
        word => word.as_str(),
    };
    match word {
        Some("array") => format!("list of {}", kind(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("object, each value {}", kind(&schema["additionalProperties"]))
        }
        Some(word) => word.to_owned(),
        None => "any JSON".to_owned(),
    }
}

#[test]
fn o6_the_page_of_the_contract_says_what_the_wit_file_says() {
    let wit = fs::read_to_string(workspace().join("wit/plugin.wit")).unwrap();
    let mut page = page_head("The contract with plugins", "`wit/plugin.wit`");
    page += "The WASI interfaces that a component may import are in the readme of the contract, `wit/README.md`.\n\n";
    write_contract(&mut page, &wit);
    expect_page("reference-wit.md", &page);
}

/// Writes each item with its comment: a heading for interfaces and worlds, a list for what they contain.
fn write_contract(page: &mut String, wit: &str) {
    let (mut comment, mut depth) = (Vec::new(), 0_usize);
    for line in wit.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text.trim());
        } else if line == "}" {
            depth -= 1;
        } else if !line.is_empty() {
            let item = line.trim_end_matches(['{', ';', ',']).trim();
            // An item of a list has one paragraph.
            let text = if depth == 0 { comment.join("\n") } else { cell(&comment.join(" ")) };
            let indent = "  ".repeat(depth.saturating_sub(1));
            let _ = match depth {
                0 => write!(page, "\n## `{item}`\n\n{text}\n\n"),
                _ => writeln!(page, "{indent}- `{item}`{}{text}", if text.is_empty() { "" } else { ": " }),
            };
            comment.clear();
            depth += usize::from(line.ends_with('{'));
        }
    }
}

#[test]
fn a_schema_and_a_contract_are_written_as_documentation() {
    let schema = serde_json::json!({"type": ["array", "null"], "items": {"$ref": "#/a/Quota"}});
    assert_eq!(kind(&schema), "list of [Quota](#quota)");
    let mut page = String::new();
    write_contract(&mut page, "/// What.\ninterface a {\n  /// Does.\n  f: func();\n}\n");
    assert_eq!(page, "\n## `interface a`\n\nWhat.\n\n- `f: func()`: Does.\n");
}
