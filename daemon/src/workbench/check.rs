//! A plugin file held against the contract, as a linter does it (T11): each finding has a code, a place, what is
//! wrong there, and the way out.
//!
//! An error is what a daemon would refuse, or an example that does not come out as it says. A warning is what
//! makes a tool worse than it could be. The codes are stable; [`CODES`] is the reference, and the page
//! `docs/check.md` is made from it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use toolgate_admission::{
    CallError, Descriptor, DescriptorError, ErrorType, Example, FilesystemAccess, Limits, LimitsPatch, Rules,
    ToolDescriptor, Violation, show,
};
use toolgate_sandbox::{CallClock, Component, LogLevel};

use super::{Circumstances, Ran, Workbench};
use crate::temporary;

/// The time at which examples run: 2025-01-01T00:00:00Z. It stands still, so that an example of a tool that
/// reads the clock has one right answer.
const EXAMPLES_AT: Duration = Duration::from_secs(1_735_689_600);
/// The seed with which they run, for the same reason.
const EXAMPLES_SEED: [u8; 32] = [0; 32];
/// Another one, with which the output that an example shows must be the same: no call of a daemon has the first.
const OTHER_SEED: [u8; 32] = [1; 32];

/// Longest piece of a log line that a finding shows, in characters.
const LOGGED_CHARS: usize = 300;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The plugin is not accepted, or does not do what it says.
    Error,
    /// It could be better.
    Warning,
}

/// One kind of finding.
#[derive(Clone, Copy, Debug)]
pub struct CodeRow {
    /// The stable code.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What it means.
    pub meaning: &'static str,
    /// The way out.
    pub hint: &'static str,
}

macro_rules! codes {
    ($($name:ident $severity:ident $meaning:literal $hint:literal;)*) => {
        $(const $name: CodeRow =
            CodeRow { code: stringify!($name), severity: Severity::$severity, meaning: $meaning, hint: $hint };)*
        /// Every code, errors first.
        pub const CODES: &[CodeRow] = &[$($name,)*];
    };
}

codes! {
    NOT_A_PLUGIN Error "the file is no component that this contract can load"
        "build it for `wasm32-wasip2` with the SDK's `plugin!`, and give the whole file";
    UNDECLARED_IMPORT Error "it imports what it does not ask for"
        "write `capabilities(filesystem = workspace)` or `capabilities(network = [\"GET https://api.example.com/v1/\"])` in `plugin!` (without the SDK: ask for it in `capabilities` of the description), or remove what imports it";
    DESCRIBE_FAILED Error "`describe` does not answer"
        "make `describe` (with the SDK: each `JsonSchema` of your own) answer without a crash, files, clock or network";
    DESCRIPTION_VARIES Error "`describe` answers differently when it is asked again"
        "make the description (with the SDK: each `JsonSchema` of your own) a constant: it is asked once at load and believed from then on";
    DESCRIPTION_INVALID Error "a field of the description cannot be used"
        "write what `wit/describe.schema.json` asks for";
    EXAMPLE_REFUSED Error "the input of an example does not fit the tool's own schema"
        "mend the example or the schema";
    EXAMPLE_FAILED Error "an example does not end well"
        "mend the tool or the example";
    EXAMPLE_VARIES Error "an example gives another result when it is run again with the same clock and the same random numbers"
        "take order from the data, not from a hash map or an address";
    EXAMPLE_DIFFERS Error "an example does not give the output that it shows"
        "mend the tool or the example";
    EXAMPLE_BY_CHANCE Warning "the output that an example shows hangs on random numbers: calls have others"
        "take order from the data, not from a hash map; where chance is meant, show no output";
    UNKNOWN_FIELD Warning "the description has a field that this version does not know"
        "check its spelling; one that a newer SDK wrote, a newer daemon may know";
    UNUSED_CAPABILITY Warning "it asks for a capability that nothing in it can use"
        "leave it out of the plugin's `capabilities`: people have to consent to it";
    UNUSED_WORKSPACE Warning "`--workspace` is given, and the plugin asks for no files"
        "write `capabilities(filesystem = workspace)` in `plugin!` (without the SDK: ask for `filesystem` in `capabilities` of the description), or leave `--workspace` out";
    LIMIT_WITHOUT_EFFECT Warning "a limit is above the most that any operator can give"
        "write a smaller one in the plugin's `limits`: the smaller one holds anyway";
    NOTHING_RUNS Warning "with a limit of 0 no call can run"
        "leave the limit out, or write what a call needs";
    NO_EXAMPLES Warning "a tool has no example"
        "write one in the tool's `examples`: models call a tool better that they have seen called, and it is a test";
    NO_OUTPUT_SCHEMA Warning "a tool does not say what it answers"
        "give the result a type (`result = Type` in `#[tool]`, where a client gives it; without the SDK: an `output_schema`): the daemon then holds the tool to it";
    OPEN_INPUT Warning "arguments that the schema does not name are taken without a word"
        "set `additionalProperties` to false (`#[serde(deny_unknown_fields)]` on a type of your own), so that a misspelt one is refused";
    NO_PURPOSE Warning "the plugin does not say what it is for"
        "write the package's `description` (without the SDK: `purpose`): a catalogue shows it";
    NO_PUBLISHER Warning "the plugin does not say who answers for it"
        "write `publisher = \"…\"` in `plugin!` (without the SDK: `publisher`)";
}

/// Something about a plugin that its author should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// One of [`CODES`].
    pub code: &'static str,
    /// Where: a JSON pointer into the description, or empty for the file.
    pub place: String,
    /// What is wrong there.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl CodeRow {
    fn at(&self, place: impl Into<String>, message: impl Into<String>) -> Finding {
        let (severity, code) = (self.severity, self.code);
        Finding { severity, code, place: place.into(), message: message.into(), hint: self.hint.into() }
    }

    /// With the words of whoever refused it.
    fn of(&self, place: impl Into<String>, error: &CallError) -> Finding {
        Finding { hint: error.hint.clone(), ..self.at(place, error.message.clone()) }
    }
}

/// What was found, and what the plugin is.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The plugin's name, where it could be read.
    pub namespace: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Tools that were looked at.
    pub tools: usize,
    /// Examples that were run.
    pub examples: usize,
    /// Errors first.
    pub findings: Vec<Finding>,
}

impl Report {
    fn of(findings: Vec<Finding>) -> Self {
        Self { namespace: None, version: None, tools: 0, examples: 0, findings }
    }

    /// Whether a daemon would take the plugin and its examples hold.
    pub fn passes(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }
}

/// Checks a file. Examples start with a copy of `workspace`, or with no files.
pub async fn check(file: &[u8], worker: PathBuf, workspace: Option<&Path>) -> Result<Report, CallError> {
    let bench = match Workbench::open(file, worker).await {
        Ok(bench) => bench,
        Err(error) if error.error_type == ErrorType::InvalidPlugin => {
            return Ok(Report::of(vec![NOT_A_PLUGIN.of("", &error)]));
        }
        Err(error) => return Err(error),
    };
    let described = match bench.describe().await {
        Ok(described) => described,
        // Its hint is for those who call tools.
        Err(error) => return Ok(Report::of(vec![DESCRIBE_FAILED.at("", worded(&error))])),
    };
    let mut findings = Vec::new();
    if bench.describe().await.ok().as_ref() != Some(&described) {
        findings.push(DESCRIPTION_VARIES.at("", DESCRIPTION_VARIES.meaning));
    }
    let descriptor = match Descriptor::parse(&described) {
        Ok(descriptor) => descriptor,
        Err(first) => {
            findings.extend(every_error(&described, &first));
            return Ok(Report::of(findings));
        }
    };
    findings.extend(about_the_plugin(bench.component(), &descriptor));
    findings.extend(workspace.and_then(|_| unused_workspace(&descriptor)));
    findings.extend(descriptor.tools.iter().enumerate().flat_map(about_a_tool));
    let mut report = Report {
        namespace: Some(descriptor.namespace.to_string()),
        version: Some(descriptor.version.clone()),
        tools: descriptor.tools.len(),
        examples: descriptor.tools.iter().map(|tool| tool.examples.len()).sum(),
        findings,
    };
    let rules = bench.rules(descriptor, LimitsPatch::default());
    report.findings.extend(about_examples(&bench, &rules, workspace).await?);
    report.findings.sort_by_key(|finding| finding.severity);
    Ok(report)
}

/// Reading stops at the first error. So that an author sees one of each tool, the tools are read one by one.
fn every_error(described: &str, first: &DescriptorError) -> Vec<Finding> {
    let finding = |error: &DescriptorError, place: String| Finding {
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

fn about_the_plugin(component: &Component, descriptor: &Descriptor) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = component.check_manifest(&descriptor.capabilities) {
        findings.push(UNDECLARED_IMPORT.of("/capabilities", &error.into()));
    }
    let asked = [
        ("filesystem", asks_for_files(descriptor)),
        ("network", !descriptor.capabilities.network.is_empty()),
    ];
    for (name, _) in
        asked.iter().filter(|(name, asked)| *asked && !component.needs().any(|need| need == *name))
    {
        let message = format!("`{name}` is asked for, and no import of the component can use it");
        findings.push(UNUSED_CAPABILITY.at(format!("/capabilities/{name}"), message));
    }
    for place in &descriptor.unknown_fields {
        findings.push(UNKNOWN_FIELD.at(place, UNKNOWN_FIELD.meaning));
    }
    for warning in descriptor.warnings(&Limits::CEILING) {
        let row = if warning.code == NOTHING_RUNS.code { NOTHING_RUNS } else { LIMIT_WITHOUT_EFFECT };
        findings.push(row.at(warning.path, warning.message));
    }
    if descriptor.purpose.is_none() {
        findings.push(NO_PURPOSE.at("/purpose", NO_PURPOSE.meaning));
    }
    if descriptor.publisher.is_none() {
        findings.push(NO_PUBLISHER.at("/publisher", NO_PUBLISHER.meaning));
    }
    findings
}

/// What there is to say where a folder is named for a plugin that does not see it.
pub fn unused_workspace(descriptor: &Descriptor) -> Option<Finding> {
    let message =
        format!("`{}` asks for no files, so it sees nothing of `--workspace`", descriptor.namespace);
    (!asks_for_files(descriptor)).then(|| UNUSED_WORKSPACE.at("/capabilities/filesystem", message))
}

fn asks_for_files(descriptor: &Descriptor) -> bool {
    descriptor.capabilities.filesystem == FilesystemAccess::Workspace
}

fn about_a_tool((at, tool): (usize, &ToolDescriptor)) -> Vec<Finding> {
    let (place, name) = (format!("/tools/{at}"), &tool.name);
    let mut findings = Vec::new();
    if tool.examples.is_empty() {
        findings.push(NO_EXAMPLES.at(format!("{place}/examples"), format!("`{name}` has no example")));
    }
    if tool.output.is_none() {
        let message = format!("`{name}` does not say what it answers");
        findings.push(NO_OUTPUT_SCHEMA.at(format!("{place}/output_schema"), message));
    }
    let (input, place) = (tool.input.source(), format!("{place}/input_schema"));
    let is_closed = |keyword| input.get(keyword) == Some(&Value::Bool(false));
    let is_open = !is_closed("additionalProperties") && !is_closed("unevaluatedProperties");
    let whole = is_open.then(|| place.clone());
    let inside = open_objects(input, place.clone()).into_iter().filter(|open| *open != place);
    for open in whole.into_iter().chain(inside) {
        findings.push(OPEN_INPUT.at(open, format!("`{name}` takes what its schema does not name")));
    }
    findings
}

/// The places of a schema whose objects name members and take others too. One that names none is meant to be a table.
fn open_objects(schema: &Value, place: String) -> Vec<String> {
    let Value::Object(members) = schema else { return Vec::new() };
    let below = members.iter().flat_map(|(keyword, inner)| {
        let place = format!("{place}/{keyword}");
        match (keyword.as_str(), inner) {
            ("properties" | "$defs", Value::Object(named)) => named
                .iter()
                .flat_map(|(name, schema)| {
                    open_objects(schema, format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")))
                })
                .collect(),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                let schemas = schemas.iter().enumerate();
                schemas.flat_map(|(at, schema)| open_objects(schema, format!("{place}/{at}"))).collect()
            }
            ("items" | "additionalProperties", schema) => open_objects(schema, place),
            _ => Vec::new(),
        }
    });
    let below: Vec<String> = below.collect();
    let is_open = members.contains_key("properties")
        && matches!(members.get("additionalProperties"), None | Some(Value::Bool(true)))
        && members.get("unevaluatedProperties") != Some(&Value::Bool(false));
    is_open.then_some(place).into_iter().chain(below).collect()
}

async fn about_examples(
    bench: &Workbench,
    rules: &Rules<Component>,
    workspace: Option<&Path>,
) -> Result<Vec<Finding>, CallError> {
    let mut findings = Vec::new();
    for plugin in rules.catalogue.plugins() {
        for (at, tool) in plugin.descriptor.tools.iter().enumerate() {
            for (number, example) in tool.examples.iter().enumerate() {
                let place = format!("/tools/{at}/examples/{number}");
                findings.extend(about_example(bench, rules, tool, example, &place, workspace).await?);
            }
        }
    }
    Ok(findings)
}

async fn about_example(
    bench: &Workbench,
    rules: &Rules<Component>,
    tool: &ToolDescriptor,
    example: &Example,
    place: &str,
    workspace: Option<&Path>,
) -> Result<Option<Finding>, CallError> {
    if let Err(violations) = tool.input.check(&example.input) {
        let message = violations.first().map_or("", Violation::sentence);
        return Ok(Some(EXAMPLE_REFUSED.at(format!("{place}/input"), message)));
    }
    let run = |seed| run_example(bench, rules, tool, example, workspace, seed);
    let first = run(EXAMPLES_SEED).await?;
    let again = run(EXAMPLES_SEED).await?;
    let output = match &first.outcome {
        Ok(output) => output,
        Err(error) => {
            // What a panic says stands in the log.
            let last =
                first.log.iter().rfind(|line| line.level == LogLevel::Error).map(|line| line.message.trim());
            let last = last.map(|last| format!(" ({})", show(last, LOGGED_CHARS))).unwrap_or_default();
            let mut finding = EXAMPLE_FAILED.at(place, worded(error) + &last);
            if workspace.is_none()
                && rules.catalogue.plugins().any(|plugin| asks_for_files(&plugin.descriptor))
            {
                finding.hint += "; give the files that it needs with `--workspace`";
            }
            return Ok(Some(finding));
        }
    };
    if again.outcome.as_ref().ok() != Some(output) {
        let message = format!("`{}` answers differently the second time", tool.name);
        return Ok(Some(EXAMPLE_VARIES.at(place, message)));
    }
    let (Some(shown), Ok(given)) = (&example.output, serde_json::from_str::<Value>(output)) else {
        return Ok(None);
    };
    if *shown != given {
        let message = format!("it shows `{}`, the tool answers `{}`", excerpt(shown), excerpt(&given));
        return Ok(Some(EXAMPLE_DIFFERS.at(format!("{place}/output"), message)));
    }
    let other = run(OTHER_SEED).await?.outcome.unwrap_or_else(|error| worded(&error));
    Ok((other != *output).then(|| {
        let other = serde_json::from_str(&other).unwrap_or(Value::String(other));
        let message = format!("with other random numbers the tool answers `{}`", excerpt(&other));
        EXAMPLE_BY_CHANCE.at(format!("{place}/output"), message)
    }))
}

async fn run_example(
    bench: &Workbench,
    rules: &Rules<Component>,
    tool: &ToolDescriptor,
    example: &Example,
    workspace: Option<&Path>,
    seed: [u8; 32],
) -> Result<Ran, CallError> {
    let folder = temporary::folder()?;
    if let Some(workspace) = workspace {
        copy_folder(workspace, folder.path()).map_err(|error| {
            CallError::new(
                ErrorType::InvalidRequest,
                format!("`{}` cannot be copied for an example: {error}", workspace.display()),
                "let `--workspace` name a folder whose files you may read, and the variable `TMPDIR` one outside of it that has room for a copy",
            )
        })?;
    }
    let circumstances = Circumstances {
        workspace: Some(folder.path().to_owned()),
        clock: CallClock::Stopped { at: EXAMPLES_AT },
        seed,
    };
    Ok(bench.call(rules, tool.wire.as_str(), &example.input.to_string(), &circumstances).await)
}

/// Files and folders; links are left out, as a workspace has none.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            std::fs::create_dir(&target)?;
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// An error as part of a finding.
fn worded(error: &CallError) -> String {
    format!("{}: {}", error.error_type.as_str(), error.message)
}

/// Enough of a value to see what is meant.
fn excerpt(value: &Value) -> String {
    const CHARACTERS: usize = 200;
    let text = value.to_string();
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The reference page.
pub fn page() -> String {
    let mut page = String::from(
        "# What `toolgate check` finds\n\n\
         Made from the code; do not edit. `toolgate check FILE.wasm` prints each finding with its place, a JSON pointer into\n\
         what the plugin says of itself; `--json` prints them for machines. The exit status is 1 where there is an error.\n\n\
         Examples run twice in fresh instances, with the clock standing still at 2025-01-01T00:00:00Z and the same random\n\
         numbers, each on its own copy of the folder that `--workspace` names, where the plugin asks for files. One that shows its\n\
         output runs once more with other random numbers.\n\n\
         | code | severity | what it means | the way out |\n|---|---|---|---|\n",
    );
    for row in CODES {
        let severity = match row.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        page.push_str(&format!("| `{}` | {severity} | {} | {} |\n", row.code, row.meaning, row.hint));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_codes_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/check.md");
        if std::env::var_os("TOOLGATE_BLESS").is_some() {
            std::fs::write(&path, page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), page(), "run with TOOLGATE_BLESS=1");
    }

    #[test]
    fn arguments_that_a_schema_closes_in_either_way_are_not_open() {
        let places = |rest: &str| {
            let described = format!(
                r#"{{"name":"x","version":"1","tools":[{{"name":"a","description":"D","usage":"U",
                    "input_schema":{{"type":"object","properties":{{}}{rest}}}}}]}}"#
            );
            let descriptor = Descriptor::parse(&described).unwrap();
            let findings = about_a_tool((0, &descriptor.tools[0])).into_iter();
            let open = findings.filter(|finding| finding.code == OPEN_INPUT.code);
            open.map(|finding| finding.place).collect::<Vec<_>>()
        };
        assert_eq!(places(""), ["/tools/0/input_schema"]);
        for closed in [r#","additionalProperties":false"#, r#","unevaluatedProperties":false"#] {
            assert_eq!(places(closed), [""; 0], "{closed}");
        }
    }

    #[test]
    fn one_error_of_each_tool_is_shown() {
        let described = r#"{"name":"x","version":"1","tools":[
            {"name":"a","description":"","usage":"U","input_schema":{"type":"object"}},
            {"name":"b","description":"D","usage":"U","input_schema":{"type":"object"}},
            {"name":"C","description":"D","usage":"U","input_schema":{"type":"object"}}]}"#;
        let first = Descriptor::parse(described).unwrap_err();
        let places: Vec<String> =
            every_error(described, &first).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["/tools/0/description", "/tools/2/name"]);
    }
}
