//! The linter behind `toolgate check` (T11): validates a plugin file against the contract. Each finding has a code, a JSON
//! pointer, a message and a hint.
//!
//! Errors: a daemon would refuse the plugin, or an example fails. Warnings: the plugin could be better. The codes are
//! stable; [`CODES`] lists them, and `docs/check.md` is generated from it.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};
use toolgate_admission::{Descriptor, Rules, Schema, ToolDescriptor, descriptor_warnings, limits_of};
use toolgate_api::descriptor::{Example, LeftOut};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::{Capabilities, FilesystemAccess, Grant, RuntimeImport};
use toolgate_api::limits::{Limits, LimitsPatch};
use toolgate_api::read::ReadError;
use toolgate_api::text::escape_for_display;
use toolgate_macros::boxed;
use toolgate_sandbox::{Component, LogLevel, LogLine};

use super::example::{self, ExampleInputs, ExampleRunner, error_text, excerpt};
use super::{CompileTools, LOCAL_ORGANIZATION, PluginHarness};

/// A second seed that must give the same output, since calls in a daemon have random seeds.
const SECOND_SEED: [u8; 32] = [1; 32];

/// Longest excerpt of a log line in a finding, in characters.
const LOG_LINE_CHARS: usize = 300;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A daemon refuses the plugin, or an example fails.
    Error,
    /// The plugin could be better.
    Warning,
}

/// A kind of finding.
#[derive(Clone, Copy, Debug)]
pub struct FindingKind {
    /// The stable code.
    pub code: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// Its meaning, for the reference page.
    pub meaning: &'static str,
    /// How to fix it.
    pub hint: &'static str,
}

macro_rules! codes {
    ($($name:ident $severity:ident $meaning:literal $hint:literal;)*) => {
        $(const $name: FindingKind =
            FindingKind { code: stringify!($name), severity: Severity::$severity, meaning: $meaning, hint: $hint };)*
        /// Every code, errors first.
        pub const CODES: &[FindingKind] = &[$($name,)*];
    };
}

codes! {
    NOT_A_PLUGIN Error "the file is not a component that a daemon can load"
        "build it as the README of `toolgate new` shows, and give the whole file";
    UNDECLARED_IMPORT Error "the component imports an interface whose capability it does not ask for"
        "ask for it in the plugin's `capabilities`, as its README shows; name it in `unused` there if only the language's runtime imports it; or remove the code that imports it";
    NOTHING_STARTS Error "the component does not start under the default limits, so no call of it can run"
        "let the operator raise the limit that the message names, or build the component to need less";
    DESCRIBE_FAILED Error "`describe` returns no description"
        "make `describe` and each schema of your own return without a crash, files, clock or network";
    DESCRIPTION_VARIES Error "`describe` returns something else at another time, or with other random numbers"
        "make the description, and each schema of your own, a constant: a daemon calls `describe` once, when it loads the plugin";
    DESCRIPTION_INVALID Error "a field of the description is invalid"
        "write it as `wit/describe.schema.json` requires";
    EXAMPLE_REFUSED Error "the input of an example does not fit the tool's own schema"
        "fix the example or the schema";
    EXAMPLE_FAILED Error "an example fails"
        "fix the tool or the example";
    EXAMPLE_VARIES Error "an example gives another output when it is run again with the same clock and the same random numbers"
        "do not let the output depend on the order of a hash map or on an address";
    EXAMPLE_DIFFERS Error "an example does not give the output that it shows"
        "fix the tool or the example";
    EXAMPLE_NOT_RUN Warning "an example needs settings or a credential that were not given"
        "give them with `--settings`, or `--credential` and `--secret-env`";
    EXAMPLE_BY_CHANCE Warning "the output of an example depends on random numbers, which differ in each call"
        "do not let the output depend on the order of a hash map; for a random result, leave out the example's output";
    FUNCTION_LEFT_OUT Warning "a function of a component without the plugin contract is no tool"
        "the other functions are served; its author could change its types";
    UNKNOWN_FIELD Warning "the description has a field that this version does not know"
        "check its spelling; a field of a newer SDK may need a newer daemon";
    UNUSED_CAPABILITY Warning "the plugin asks for a capability that no import of the component can use"
        "leave it out of the plugin's `capabilities`: people have to consent to it";
    UNUSED_DECLARATION Warning "the plugin names a capability in `unused` that it asks for, or that no import of the component needs"
        "leave it out of `unused` of the plugin's `capabilities`, which is for what only the language's runtime imports";
    UNUSED_WORKSPACE Warning "`--workspace` is given, and the plugin asks for no files"
        "ask for `filesystem` in the plugin's `capabilities`, or leave `--workspace` out";
    LIMIT_WITHOUT_EFFECT Warning "a limit is above the maximum that an operator can set"
        "lower it in the plugin's `limits`: the maximum applies anyway";
    NOTHING_RUNS Warning "with a limit of 0 no call can run"
        "leave the limit out, or set it to what a call needs";
    NO_EXAMPLES Warning "a tool has no example"
        "write one in the tool's `examples`: it helps models to call the tool, and it is a test";
    NO_OUTPUT_SCHEMA Warning "a tool has no output schema"
        "give the result a type or an `output_schema` (for a client's tool: of what the client sends back): the daemon then validates each result";
    OPEN_INPUT Warning "the schema accepts arguments that it does not name"
        "set `additionalProperties` to false (in Rust: `deny_unknown_fields` of serde), so that a misspelt argument is refused";
    UNDESCRIBED_FIELD Warning "an argument, or a field of one, has no description"
        "describe it where it is declared: a model sees nothing else of it";
    NO_PURPOSE Warning "the plugin has no purpose"
        "write the plugin's `purpose` (in Rust it is the package's `description`): a catalogue shows it";
    NO_PUBLISHER Warning "the plugin has no publisher"
        "write the plugin's `publisher`";
}

/// A problem in a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// One of [`CODES`].
    pub code: &'static str,
    /// A JSON pointer into the description, or empty for the file.
    pub place: String,
    /// The problem.
    pub message: String,
    /// How to fix it.
    pub hint: String,
}

impl FindingKind {
    fn at(&self, place: impl Into<String>, message: impl Into<String>) -> Finding {
        let (severity, code) = (self.severity, self.code);
        Finding { severity, code, place: place.into(), message: message.into(), hint: self.hint.into() }
    }

    /// A finding with the message and hint of an error.
    fn error_finding(&self, place: impl Into<String>, error: &CallError) -> Finding {
        Finding { hint: error.hint.clone(), ..self.at(place, error.message.clone()) }
    }
}

/// The result of a check.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The plugin's name, if the description is valid.
    pub namespace: Option<String>,
    /// The plugin's version, if the description is valid.
    pub version: Option<String>,
    /// Number of tools.
    pub tools: usize,
    /// Number of examples that ran.
    pub examples: usize,
    /// Capabilities that the language's runtime imports and the plugin declares unused: nothing is granted by it.
    pub unused: Vec<&'static str>,
    /// Errors first.
    pub findings: Vec<Finding>,
}

impl Report {
    fn of(findings: Vec<Finding>) -> Self {
        Self { namespace: None, version: None, tools: 0, examples: 0, unused: Vec::new(), findings }
    }

    /// Whether there is no error.
    pub fn passes(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }
}

/// A file whose description was read.
pub struct Inspection {
    harness: PluginHarness,
    /// The description, by which the inputs of examples are made.
    pub descriptor: Descriptor,
    findings: Vec<Finding>,
}

/// The first half of a check.
pub enum Inspected {
    /// A daemon would not load the file.
    Refused(Report),
    /// The examples can run.
    Readable(Box<Inspection>),
}

/// Compiles a file and reads its description.
#[boxed]
pub async fn inspect(file: &[u8], tools: CompileTools) -> Result<Inspected, CallError> {
    let refused = |findings| Ok(Inspected::Refused(Report::of(findings)));
    let harness = match PluginHarness::open(file, tools).await {
        Ok(harness) => harness,
        Err(error) if error.error_type == ErrorType::InvalidPlugin => {
            return refused(vec![NOT_A_PLUGIN.error_finding("", &error)]);
        }
        Err(error) => return Err(error),
    };
    let described = match harness.describe().await {
        Ok(described) => described,
        // Without its hint, which is for callers of tools.
        Err(error) => return refused(vec![DESCRIBE_FAILED.at("", error_text(&error))]),
    };
    let mut findings = Vec::new();
    if harness.describe_otherwise().await.ok().as_ref() != Some(&described) {
        findings.push(DESCRIPTION_VARIES.at("", DESCRIPTION_VARIES.meaning));
    }
    let mut descriptor = match Descriptor::parse(&described) {
        Ok(descriptor) => descriptor,
        Err(first) => {
            findings.extend(descriptor_errors(&described, &first));
            return refused(findings);
        }
    };
    match harness.functions() {
        // Functions have no description that an author could complete.
        Some(functions) => functions.complete(&mut descriptor),
        None => findings.extend(text_findings(&descriptor)),
    }
    findings.extend(plugin_findings(harness.component(), &descriptor));
    Ok(Inspected::Readable(Box::new(Inspection { harness, descriptor, findings })))
}

#[boxed]
impl Inspection {
    /// Starts the component once, and runs the examples with this grant and these inputs.
    pub async fn run_examples(self, granted: Grant, inputs: &ExampleInputs) -> Result<Report, CallError> {
        let Self { harness, descriptor, findings } = self;
        let mut report = Report {
            namespace: Some(descriptor.namespace.to_string()),
            version: Some(descriptor.version.clone()),
            tools: descriptor.tools.len(),
            examples: 0,
            unused: descriptor.capabilities.unused.iter().map(|unused| unused.as_str()).collect(),
            findings,
        };
        report.findings.extend(inputs.workspace.as_ref().and_then(|_| unused_workspace(&descriptor)));
        let rules = harness.rules_granting(granted, descriptor, LimitsPatch::default());
        match start_finding(&harness, &rules).await {
            Some(finding) => report.findings.push(finding),
            None => run_examples(&harness, &rules, inputs, &mut report).await?,
        }
        report.findings.sort_by_key(|finding| finding.severity);
        Ok(report)
    }
}

/// The finding about a component none of whose calls can start. Language runtimes need more instances or memory than plugins of
/// Rust, and `describe` runs under limits of its own.
async fn start_finding(harness: &PluginHarness, rules: &Rules<Component>) -> Option<Finding> {
    let plugin = rules.catalogue.plugins().next()?;
    let tool = plugin.descriptor.tools.first()?;
    let limits = limits_of(rules, tool.wire.as_str());
    // `NOTHING_RUNS` is about a limit of 0.
    let error = harness.sandbox.start(&harness.component, &limits).await.err()?;
    (limits.fuel > 0 && limits.deadline_ms > 0).then(|| NOTHING_STARTS.at("", error_text(&error)))
}

/// Parses the tools one by one after the first error, so that an author sees one error of each tool.
fn descriptor_errors(described: &str, first: &ReadError) -> Vec<Finding> {
    let finding = |error: &ReadError, place: String| Finding {
        hint: error.hint.clone(),
        ..DESCRIPTION_INVALID.at(place, error.message.clone())
    };
    let Ok(mut value) = serde_json::from_str::<Value>(described) else {
        return vec![finding(first, first.place.clone())];
    };
    let tools = value.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut findings = vec![finding(first, first.place.clone())];
    for (at, tool) in tools.into_iter().enumerate() {
        value["tools"] = Value::Array(vec![tool]);
        let Err(error) = Descriptor::parse(&value.to_string()) else { continue };
        if let Some(inside) = error.place.strip_prefix("/tools/0") {
            findings.push(finding(&error, format!("/tools/{at}{inside}")));
        }
    }
    let mut seen = BTreeSet::new();
    findings.retain(|finding| seen.insert((finding.place.clone(), finding.message.clone())));
    findings
}

fn plugin_findings(component: &Component, descriptor: &Descriptor) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = component.check_manifest(&descriptor.capabilities) {
        findings.push(UNDECLARED_IMPORT.error_finding("/capabilities", &error.into()));
    }
    for name in component.unused_capabilities(&descriptor.capabilities) {
        let message = format!("`{name}` is asked for, and no import of the component can use it");
        findings.push(UNUSED_CAPABILITY.at(format!("/capabilities/{name}"), message));
    }
    for (at, unused) in descriptor.capabilities.unused.iter().enumerate() {
        let (place, name) = (format!("/capabilities/unused/{at}"), unused.as_str());
        if asks_for(&descriptor.capabilities, *unused) {
            let message = format!("`{name}` is declared unused, and the plugin asks for it");
            findings.push(UNUSED_DECLARATION.at(place, message));
        } else if !component.needs().any(|need| need == name) {
            let message = format!("`{name}` is declared unused, and the component imports nothing of it");
            findings.push(UNUSED_DECLARATION.at(place, message));
        }
    }
    for LeftOut { name, why } in &descriptor.left_out {
        findings.push(FUNCTION_LEFT_OUT.at("", format!("`{name}`: {why}")));
    }
    for place in &descriptor.unknown_fields {
        findings.push(UNKNOWN_FIELD.at(place, UNKNOWN_FIELD.meaning));
    }
    for warning in descriptor_warnings(descriptor, &Limits::CEILING) {
        let kind = if warning.code == NOTHING_RUNS.code { NOTHING_RUNS } else { LIMIT_WITHOUT_EFFECT };
        findings.push(kind.at(warning.path, warning.message));
    }
    findings
}

/// Findings about what people and models read.
fn text_findings(descriptor: &Descriptor) -> Vec<Finding> {
    let purpose = descriptor.purpose.is_none().then(|| NO_PURPOSE.at("/purpose", NO_PURPOSE.meaning));
    let publisher =
        descriptor.publisher.is_none().then(|| NO_PUBLISHER.at("/publisher", NO_PUBLISHER.meaning));
    let tools = descriptor.tools.iter().enumerate().flat_map(tool_findings);
    purpose.into_iter().chain(publisher).chain(tools).collect()
}

/// The finding about `--workspace` for a plugin that cannot access files.
pub fn unused_workspace(descriptor: &Descriptor) -> Option<Finding> {
    let message = format!("`{}` asks for no files, so `--workspace` has no effect", descriptor.namespace);
    (!asks_for_files(descriptor)).then(|| UNUSED_WORKSPACE.at("/capabilities/filesystem", message))
}

fn asks_for_files(descriptor: &Descriptor) -> bool {
    asks_for(&descriptor.capabilities, RuntimeImport::Filesystem)
}

fn asks_for(capabilities: &Capabilities, import: RuntimeImport) -> bool {
    match import {
        RuntimeImport::Filesystem => capabilities.filesystem == FilesystemAccess::Workspace,
        RuntimeImport::Network => !capabilities.network.is_empty(),
    }
}

fn tool_findings((at, tool): (usize, &ToolDescriptor)) -> Vec<Finding> {
    let (place, name) = (format!("/tools/{at}"), &tool.name);
    let mut findings = Vec::new();
    if tool.examples.is_empty() {
        findings.push(NO_EXAMPLES.at(format!("{place}/examples"), format!("`{name}` has no example")));
    }
    if tool.output.is_none() {
        let message = format!("`{name}` has no output schema");
        findings.push(NO_OUTPUT_SCHEMA.at(format!("{place}/output_schema"), message));
    }
    let (input, place) = (tool.input.source(), format!("{place}/input_schema"));
    let is_closed = |keyword| input.get(keyword) == Some(&Value::Bool(false));
    let is_open = !is_closed("additionalProperties") && !is_closed("unevaluatedProperties");
    let whole = is_open.then(|| place.clone());
    let inside = open_objects(input, place.clone()).into_iter().filter(|open| *open != place);
    for open in whole.into_iter().chain(inside) {
        findings
            .push(OPEN_INPUT.at(open, format!("`{name}` accepts arguments that its schema does not name")));
    }
    let arguments = format!("{place}/properties/");
    for field in undescribed_fields(input, place) {
        let message = match field.strip_prefix(&arguments) {
            Some(argument) if !argument.contains('/') => {
                format!("the argument `{argument}` of `{name}` has no description")
            }
            _ => format!("a field of an argument of `{name}` has no description"),
        };
        findings.push(UNDESCRIBED_FIELD.at(field, message));
    }
    findings
}

/// The JSON pointers of properties without a description, at any depth. A reference has the description of its target.
fn undescribed_fields(schema: &Value, place: String) -> Vec<String> {
    let is_described = |property: &Value| {
        property.get("description").or_else(|| property.get("$ref")).is_some() || property.is_boolean()
    };
    let mut found = Vec::new();
    walk_schemas(schema, place, &mut |schema, place| {
        let properties = schema.get("properties").and_then(Value::as_object);
        let bare = properties.into_iter().flatten().filter(|(_, property)| !is_described(property));
        found.extend(bare.map(|(name, _)| format!("{place}/properties/{}", pointer_token(name))));
    });
    found
}

/// Visits a schema and those inside it, each with its JSON pointer.
fn walk_schemas(schema: &Value, place: String, visit: &mut impl FnMut(&Value, &str)) {
    let Value::Object(members) = schema else { return };
    visit(schema, &place);
    for (keyword, inner) in members {
        let place = format!("{place}/{keyword}");
        match (keyword.as_str(), inner) {
            ("properties" | "$defs", Value::Object(named)) => {
                for (name, schema) in named {
                    walk_schemas(schema, format!("{place}/{}", pointer_token(name)), visit);
                }
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                for (at, schema) in schemas.iter().enumerate() {
                    walk_schemas(schema, format!("{place}/{at}"), visit);
                }
            }
            ("items" | "additionalProperties", schema) => walk_schemas(schema, place, visit),
            _ => {}
        }
    }
}

/// A name as a part of a JSON pointer (RFC 6901).
fn pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The JSON pointers of object schemas that name properties and accept others too. An object schema without properties
/// is a map on purpose.
fn open_objects(schema: &Value, place: String) -> Vec<String> {
    let mut found = Vec::new();
    walk_schemas(schema, place, &mut |schema, place| {
        let is_open = schema.get("properties").is_some()
            && matches!(schema.get("additionalProperties"), None | Some(Value::Bool(true)))
            && schema.get("unevaluatedProperties") != Some(&Value::Bool(false));
        found.extend(is_open.then(|| place.to_owned()));
    });
    found
}

async fn run_examples(
    harness: &PluginHarness,
    rules: &Rules<Component>,
    inputs: &ExampleInputs,
    report: &mut Report,
) -> Result<(), CallError> {
    for plugin in rules.catalogue.plugins() {
        let missing = missing_inputs(&plugin.descriptor, inputs);
        for (at, tool) in plugin.descriptor.tools.iter().enumerate() {
            for (number, example) in tool.examples.iter().enumerate() {
                let place = format!("/tools/{at}/examples/{number}");
                if let Some(message) = example::input_fault(tool, example) {
                    report.findings.push(EXAMPLE_REFUSED.at(format!("{place}/input"), message));
                } else if let Some(missing) = missing {
                    let message = format!("an example of `{}` needs {missing}", tool.name);
                    report.findings.push(EXAMPLE_NOT_RUN.at(place, message));
                } else {
                    report.examples += 1;
                    report
                        .findings
                        .extend(check_example(harness, rules, (tool, example), &place, inputs).await?);
                }
            }
        }
    }
    Ok(())
}

/// The inputs that examples need and the author did not give. Settings that may all be left out are not needed.
fn missing_inputs(descriptor: &Descriptor, inputs: &ExampleInputs) -> Option<&'static str> {
    let takes_none = |schema: &Schema| schema.validate(&Value::Object(Map::new())).is_ok();
    let needs_settings = descriptor.config_schema.as_ref().is_some_and(|schema| !takes_none(schema));
    match (needs_settings && inputs.settings.is_none(), &descriptor.capabilities.credentials[..]) {
        (true, _) => Some("the settings of the plugin"),
        (false, [_, ..]) if inputs.credential.is_none() => Some("a credential"),
        _ => None,
    }
}

async fn check_example(
    harness: &PluginHarness,
    rules: &Rules<Component>,
    (tool, example): (&ToolDescriptor, &Example),
    place: &str,
    inputs: &ExampleInputs,
) -> Result<Option<Finding>, CallError> {
    let organization = LOCAL_ORGANIZATION;
    let runner = ExampleRunner { sandbox: &harness.sandbox, rules, inputs, organization };
    let run = |seed| runner.run(tool, example, seed);
    let first = run(example::SEED).await?;
    let again = run(example::SEED).await?;
    let output = match &first.outcome {
        Ok(output) => output,
        Err(error) => {
            let mut finding = EXAMPLE_FAILED.at(place, error_text(error) + &last_error(&first.log));
            finding.hint += hint_about_inputs(rules, inputs, error);
            return Ok(Some(finding));
        }
    };
    if again.outcome.as_ref().ok() != Some(output) {
        let message = format!("`{}` gives another output the second time", tool.name);
        return Ok(Some(EXAMPLE_VARIES.at(place, message)));
    }
    if example.output.is_none() {
        return Ok(None);
    }
    if let Some(message) = example::difference(example, output) {
        return Ok(Some(EXAMPLE_DIFFERS.at(format!("{place}/output"), message)));
    }
    let other = run(SECOND_SEED).await?.outcome.unwrap_or_else(|error| error_text(&error));
    Ok((other != *output).then(|| {
        let other = serde_json::from_str(&other).unwrap_or(Value::String(other));
        let message = format!("with other random numbers the tool returns `{}`", excerpt(&other));
        EXAMPLE_BY_CHANCE.at(format!("{place}/output"), message)
    }))
}

/// The option that may be what a failed example lacks.
fn hint_about_inputs(rules: &Rules<Component>, inputs: &ExampleInputs, error: &CallError) -> &'static str {
    let needs_files = || rules.catalogue.plugins().any(|plugin| asks_for_files(&plugin.descriptor));
    match error.error_type {
        ErrorType::NetworkDenied | ErrorType::ApiUnavailable => {
            "; allow a server of yours with `--allow-network URL`, or give the grant with `--grant FILE`"
        }
        _ if inputs.workspace.is_none() && needs_files() => {
            "; give the files that it needs with `--workspace`"
        }
        _ => "",
    }
}

/// The last error in the log of a call, in brackets: the message of a panic is there.
fn last_error(log: &[LogLine]) -> String {
    let last = log.iter().rfind(|line| line.level == LogLevel::Error);
    let last = last.map(|line| format!(" ({})", escape_for_display(line.message.trim(), LOG_LINE_CHARS)));
    last.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The page `docs/check.md`.
    fn markdown_page() -> String {
        let mut page = String::from(
            "# What `toolgate check` finds\n\n\
             Generated from the code; do not edit. `toolgate check FILE.wasm` prints each finding with a JSON pointer into the\n\
             plugin's description; `--json` prints JSON. The exit status is 1 if there is an error.\n\n\
             Each example runs twice in fresh instances, with a clock that is stopped at 2025-01-01T00:00:00Z and the same random\n\
             numbers. If the plugin asks for files, each run has its own copy of the folder that `--workspace` names. An example\n\
             with an output runs once more with other random numbers. `describe` runs twice, with other times and random numbers.\n\n\
             | code | severity | meaning | how to fix it |\n|---|---|---|---|\n",
        );
        for kind in CODES {
            let severity = match kind.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            page.push_str(&format!("| `{}` | {severity} | {} | {} |\n", kind.code, kind.meaning, kind.hint));
        }
        page
    }

    #[test]
    fn the_page_of_codes_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/check.md");
        if std::env::var_os("TOOLGATE_BLESS").is_some() {
            std::fs::write(&path, markdown_page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), markdown_page(), "run with TOOLGATE_BLESS=1");
    }

    #[test]
    fn arguments_that_a_schema_closes_in_either_way_are_not_open() {
        let places = |rest: &str| {
            let described = format!(
                r#"{{"name":"x","version":"1","tools":[{{"name":"a","description":"D","usage":"U",
                    "input_schema":{{"type":"object","properties":{{}}{rest}}}}}]}}"#
            );
            let descriptor = Descriptor::parse(&described).unwrap();
            let findings = tool_findings((0, &descriptor.tools[0])).into_iter();
            let open = findings.filter(|finding| finding.code == OPEN_INPUT.code);
            open.map(|finding| finding.place).collect::<Vec<_>>()
        };
        assert_eq!(places(""), ["/tools/0/input_schema"]);
        for closed in [r#","additionalProperties":false"#, r#","unevaluatedProperties":false"#] {
            assert_eq!(places(closed), [""; 0], "{closed}");
        }
    }

    #[test]
    fn fields_of_arguments_without_a_description_are_found() {
        let described = r##"{"name":"x","version":"1","tools":[{"name":"a","description":"D","usage":"U","input_schema":
            {"type":"object","additionalProperties":false,"properties":{"bare":{"type":"string"},"order":{"$ref":"#/$defs/Order"}},
             "$defs":{"Order":{"type":"object","additionalProperties":false,"properties":
                {"id":{"type":"string"},"note":{"type":"string","description":"A note"}}}}}}]}"##;
        let descriptor = Descriptor::parse(described).unwrap();
        let findings = tool_findings((0, &descriptor.tools[0])).into_iter();
        let bare = findings.filter(|finding| finding.code == UNDESCRIBED_FIELD.code);
        let places: Vec<_> = bare.map(|finding| finding.place).collect();
        assert_eq!(
            places,
            ["/tools/0/input_schema/properties/bare", "/tools/0/input_schema/$defs/Order/properties/id"]
        );
    }

    #[test]
    fn one_error_of_each_tool_is_shown() {
        let described = r#"{"name":"x","version":"1","tools":[
            {"name":"a","description":"","usage":"U","input_schema":{"type":"object"}},
            {"name":"b","description":"D","usage":"U","input_schema":{"type":"object"}},
            {"name":"C","description":"D","usage":"U","input_schema":{"type":"object"}}]}"#;
        let first = Descriptor::parse(described).unwrap_err();
        let places: Vec<String> =
            descriptor_errors(described, &first).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["/tools/0/description", "/tools/2/name"]);
    }
}
