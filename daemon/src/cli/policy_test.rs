//! `toolgate policy test`: whether the documents of a folder keep the assertions in it (G17).
//!
//! The rules are compiled and asked as a daemon does. Facts that a folder does not have are taken as those that open
//! more: plugins are enabled, their hints are confirmed, integrations are connected, and consent is given.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_admission::{
    AgentRules, Catalogue, DecisionBudget, Descriptor, Digest, OrgFacts, OrgRules, PlatformRules, Plugin,
    ResolvedAssertion, Rules, Warning, assertion_warnings, check_platform, parse_platform,
};
use toolgate_api::assertion::{Assertion, AssertionHolder, AssertionsDocument};
use toolgate_api::document::OrganizationDocument;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::{Name, ToolId};
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_api::read::ReadError;
use toolgate_api::tools::ToolPattern;
use toolgate_built_in::BUILT_IN;
use toolgate_cli::folder::{FolderDocument, Kind};
use toolgate_cli::{Failure, Printer};
use toolgate_core::assertions::{AssertionViolation, Holder};
use toolgate_core::harness::{CompileTools, PluginHarness, UserCache};

/// The files of a folder, for the help.
pub(super) const FOLDER: &str = "\
Files of the folder, beside those of `toolgate apply --help`, all of them optional:
  plugins/NAME.wasm            a plugin
  plugins/NAME.json            the description of a plugin, as `describe` returns it

Built-in plugins that an assertion names are there too, and the tools that definitions make. Those of a mounted MCP server are known to
a daemon alone. The exit status is 1 if a file is wrong, an assertion is broken or, with `--strict`, a warning is printed.";

/// The documents of a folder.
#[derive(Default)]
struct Documents {
    platform: PlatformDocument,
    platform_file: Option<PathBuf>,
    assertions: AssertionsDocument,
    organizations: BTreeMap<Name, OrganizationFiles>,
}

#[derive(Default)]
struct OrganizationFiles {
    organization: OrganizationDocument,
    policy: OrgDocument,
    assertions: AssertionsDocument,
    agents: BTreeMap<Name, (PathBuf, AgentDocument)>,
    /// Definitions of tools.
    tools: Vec<FolderDocument>,
}

/// The tools and agents that an assertion covers.
#[derive(Default)]
struct Coverage {
    tools: BTreeSet<ToolId>,
    agents: usize,
}

/// The result of a test.
#[derive(Default)]
struct Outcome {
    violations: Vec<AssertionViolation>,
    agents: usize,
    /// By holder and name, in the order of the documents.
    coverage: Vec<(String, Coverage)>,
    warnings: Vec<String>,
}

pub(super) async fn run(folder: &Path, is_strict: bool, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let documents = read_folder(folder, printer)?;
    let base = plugins(folder, &documents, printer).await?;
    let outcome = test(&documents, &base, printer).await?;
    for warning in &outcome.warnings {
        printer.warning(warning)?;
    }
    let assertions = outcome.coverage.len();
    if printer.is_json() {
        let broken: Vec<Value> = outcome.violations.iter().map(violation_json).collect();
        let covers: Vec<Value> = outcome.coverage.iter().map(coverage_json).collect();
        printer.json(
            &json!({"assertions": assertions, "agents": outcome.agents, "broken": broken, "covers": covers,
                "warnings": outcome.warnings}),
        )?;
    } else {
        for violation in &outcome.violations {
            printer.error(&violation.message(true))?;
        }
        for (name, Coverage { tools, agents }) in &outcome.coverage {
            printer.line(&format!("{name} covers {} tools and {agents} agents", tools.len()))?;
        }
        let broken = outcome.violations.len();
        printer.line(&format!("{assertions} assertions, {} agents, {broken} broken", outcome.agents))?;
    }
    match (outcome.violations.len(), outcome.warnings.len()) {
        (0, 0) => Ok(()),
        (0, warnings) if is_strict => Err(Failure::new(
            format!("{warnings} warnings, with `--strict`"),
            "fix the names above; each assertion says how many tools and agents it covers",
        )),
        (0, _) => Ok(()),
        (count, _) => Err(Failure::new(
            format!("{count} times an agent could break an assertion"),
            "change the documents, or the assertions",
        )),
    }
}

fn coverage_json((name, Coverage { tools, agents }): &(String, Coverage)) -> Value {
    json!({"assertion": name, "tools": tools.iter().map(ToString::to_string).collect::<Vec<_>>(), "agents": agents})
}

fn violation_json(violation: &AssertionViolation) -> Value {
    let error = violation.clone().into_call_error(true);
    json!({"message": error.message, "details": error.details_json()})
}

/// Compiles the rules of each organization, and asks about each of its agents.
async fn test(
    documents: &Documents,
    base: &[Arc<Plugin<()>>],
    printer: &mut Printer<'_>,
) -> Result<Outcome, Failure> {
    let common = Catalogue::new(LimitsPatch::new(), base.to_vec());
    if let Some(file) = &documents.platform_file {
        check_platform(&documents.platform, &common).map_err(|error| in_file(file, error))?;
    }
    let mut organizations = Vec::new();
    for (name, files) in &documents.organizations {
        let mut plugins = base.to_vec();
        plugins.extend(plugins_of_definitions(name, files, printer).await?);
        let catalogue = Arc::new(Catalogue::new(LimitsPatch::new(), plugins));
        organizations.push(Organization { documents, name, files, catalogue });
    }
    let mut outcome = Outcome::default();
    for organization in &organizations {
        organization.test(&mut outcome)?;
    }
    for (holder, assertions) in all_assertions(documents) {
        let concerned: Vec<_> =
            organizations.iter().filter(|one| holder.is_none_or(|name| name == one.name)).collect();
        let catalogue = match (holder, &*concerned) {
            (Some(_), [own]) => &own.catalogue,
            _ => &common,
        };
        outcome.add_warnings(documents, (holder, assertions), catalogue, &concerned);
        for assertion in assertions {
            outcome.add_coverage(assertion, holder, &concerned);
        }
    }
    Ok(outcome)
}

/// An organization with its tools.
struct Organization<'a> {
    documents: &'a Documents,
    name: &'a Name,
    files: &'a OrganizationFiles,
    catalogue: Arc<Catalogue<()>>,
}

impl Organization<'_> {
    /// Asks about each agent.
    fn test(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        let Self { documents, name, files, catalogue } = self;
        let platform = Arc::new(PlatformRules::compile(Arc::new(documents.platform.clone()), catalogue));
        let connected = Arc::new(files.organization.connected.iter().cloned().collect());
        let facts = OrgFacts { connected, ..OrgFacts::default() };
        let organization =
            Arc::new(OrgRules::compile(Arc::new(files.policy.clone()), facts, &platform, catalogue));
        let holders = [
            (Holder::Platform, &documents.assertions.assertions),
            (Holder::Organization, &files.assertions.assertions),
        ];
        let assertions: Vec<_> = holders
            .into_iter()
            .flat_map(|(holder, list)| list.iter().map(move |assertion| (holder, assertion)))
            .filter_map(|(holder, assertion)| Some((holder, ResolvedAssertion::new(assertion, catalogue)?)))
            .collect();
        let mut budget = DecisionBudget::new(u64::MAX);
        for (agent, (file, document)) in &files.agents {
            outcome.agents += 1;
            document.check(&documents.platform, &files.policy).map_err(|error| in_file(file, error))?;
            let document = Arc::new(document.clone());
            let rules = Rules {
                agent: Arc::new(AgentRules::compile(document, &organization, &platform, catalogue)),
                organization: Arc::clone(&organization),
                platform: Arc::clone(&platform),
                catalogue: Arc::clone(catalogue),
            };
            let concerned = assertions.iter().filter(|(_, one)| one.concerns(name, agent));
            outcome.violations.extend(concerned.filter_map(|(holder, resolved)| {
                let breach = resolved.breach(None, &rules, &mut budget).ok().flatten()?;
                Some(AssertionViolation::new(*holder, resolved.assertion(), (name, agent), breach))
            }));
        }
        Ok(())
    }

    /// Whether a tool answers to the pattern.
    fn answers(&self, tools: &ToolPattern) -> bool {
        self.catalogue.tools().iter().any(|tool| tools.matches(tool.id()))
    }
}

impl Outcome {
    /// Warns of names without a tool or agent in any of these organizations.
    fn add_warnings(
        &mut self,
        documents: &Documents,
        (holder, assertions): (Option<&Name>, &[Assertion]),
        catalogue: &Catalogue<()>,
        organizations: &[&Organization<'_>],
    ) {
        let exists = |organization: &Name, agent: &Name| {
            documents.organizations.get(organization).is_some_and(|files| files.agents.contains_key(agent))
        };
        let is_somebodys = |tools: &ToolPattern| organizations.iter().any(|one| one.answers(tools));
        let of = holder.map_or_else(|| "the platform".to_owned(), |name| format!("`{name}`"));
        let warnings = assertion_warnings(assertions, catalogue, holder, exists);
        let warnings =
            warnings.into_iter().filter(|warning| !warning.unresolved.as_ref().is_some_and(is_somebodys));
        self.warnings.extend(
            warnings.map(|Warning { path, message, .. }| format!("assertions of {of}, `{path}`: {message}")),
        );
    }

    /// Counts the tools and agents that an assertion covers in these organizations.
    fn add_coverage(
        &mut self,
        assertion: &Assertion,
        holder: Option<&Name>,
        organizations: &[&Organization<'_>],
    ) {
        let mut covered = Coverage::default();
        for Organization { name, files, catalogue, .. } in organizations {
            let Some(resolved) = ResolvedAssertion::new(assertion, catalogue) else { continue };
            covered.tools.extend(resolved.tools().cloned());
            covered.agents += files.agents.keys().filter(|agent| resolved.concerns(name, agent)).count();
        }
        let name = match holder {
            Some(organization) => format!("`{}` of `{organization}`", assertion.name),
            None => format!("`{}`", assertion.name),
        };
        if covered.tools.is_empty() || covered.agents == 0 {
            let effect = "so it holds whatever the documents say";
            self.warnings.push(format!("{name} covers no tool of an agent here, {effect}"));
        }
        self.coverage.push((name, covered));
    }
}

fn read_folder(folder: &Path, printer: &mut Printer<'_>) -> Result<Documents, Failure> {
    if !folder.is_dir() {
        let hint = "name a folder with `platform.json`, `assertions.json`, `orgs` and `plugins`";
        return Err(Failure::new(format!("`{}` is no folder", folder.display()), hint));
    }
    let found = toolgate_cli::folder::read(folder);
    found.check("nothing was tested", printer)?;
    let mut documents = Documents::default();
    for document in found.documents {
        let file = document.file.clone();
        documents.add(document).map_err(|error| in_file(&file, error))?;
    }
    Ok(documents)
}

impl Documents {
    /// Adds a document, which was checked when it was read.
    fn add(&mut self, document: FolderDocument) -> Result<(), ReadError> {
        let text = document.text.as_str();
        let name =
            |text: &str| Name::parse(text).map_err(|error| ReadError::new("", error.message, error.hint));
        let Some(organization) = document.organization.as_deref().map(name).transpose()? else {
            match document.kind {
                Kind::Platform => {
                    self.platform = parse_platform(text)?;
                    self.platform_file = Some(document.file);
                }
                Kind::Assertions => {
                    self.assertions = AssertionsDocument::parse(text, AssertionHolder::Platform)?;
                }
                _ => {}
            }
            return Ok(());
        };
        let files = self.organizations.entry(organization).or_default();
        match document.kind {
            Kind::Organization => {
                files.organization = serde_json::from_str(text).map_err(|error| {
                    ReadError::new("", error.to_string(), "write `display_name` and `connected`")
                })?;
            }
            Kind::Policy => files.policy = OrgDocument::parse(text)?,
            Kind::Assertions => {
                files.assertions = AssertionsDocument::parse(text, AssertionHolder::Organization)?;
            }
            Kind::Agent => {
                let agent = AgentDocument::parse(text)?;
                files.agents.insert(name(&document.name)?, (document.file, agent));
            }
            Kind::Tool => files.tools.push(document),
            _ => {}
        }
        Ok(())
    }
}

/// The names and paths in a folder, sorted; none if there is no such folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, &error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(folder, &error))?;
        found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    found.sort();
    Ok(found)
}

/// The plugins that definitions of an organization make.
async fn plugins_of_definitions(
    organization: &Name,
    files: &OrganizationFiles,
    printer: &mut Printer<'_>,
) -> Result<Vec<Arc<Plugin<()>>>, Failure> {
    let mut plugins = Vec::new();
    for tool in &files.tools {
        let component = match tool.value["kind"].as_str() {
            Some("mcp") => {
                printer.note(&format!(
                    "the tools of {} are known to a daemon alone: they are not tested",
                    tool.label
                ))?;
                continue;
            }
            Some("shell") => "shell",
            _ => "api",
        };
        let built_in = BUILT_IN.iter().find(|built_in| built_in.name == component);
        let Some(built_in) = built_in else { continue };
        let input = format!(r#"{{"namespace":"{}","definition":{}}}"#, tool.name, tool.text);
        let place = tool.file.display().to_string();
        let harness = open(built_in.component).await.map_err(|error| of_plugin(&place, &error))?;
        let described = harness.describe_definition(organization.as_str(), input).await;
        let described = described.map_err(|error| of_plugin(&place, &error))?;
        plugins.push(plugin(&described).map_err(|error| in_file(&tool.file, error))?);
    }
    Ok(plugins)
}

/// The plugins of the folder, and the built-in ones that an assertion names.
async fn plugins(
    folder: &Path,
    documents: &Documents,
    printer: &mut Printer<'_>,
) -> Result<Vec<Arc<Plugin<()>>>, Failure> {
    let mut plugins = Vec::new();
    for (name, path) in entries(&folder.join("plugins"))? {
        let described = match name.rsplit_once('.') {
            Some((_, "json")) => fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?,
            Some((_, "wasm")) => {
                let file = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
                describe(&file).await.map_err(|error| of_plugin(&path.display().to_string(), &error))?
            }
            _ => {
                let hint =
                    "let it end in `.wasm`, or in `.json` for a description, or move it out of the folder";
                return Err(Failure::new(format!("`{}` is no plugin", path.display()), hint));
            }
        };
        plugins.push(plugin(&described).map_err(|error| in_file(&path, error))?);
    }
    let is_there = |plugins: &[Arc<Plugin<()>>], name: &str| {
        plugins.iter().any(|plugin| plugin.descriptor.namespace.as_str() == name)
    };
    for built_in in BUILT_IN {
        if is_there(&plugins, built_in.name) || !is_named(documents, built_in.name) {
            continue;
        }
        printer.note(&format!(
            "describing the built-in plugin `{}`; the first time compiles it",
            built_in.name
        ))?;
        let described = describe(built_in.component).await;
        // The components behind custom tools have no description of their own.
        let Ok(described) = described else { continue };
        plugins.extend(plugin(&described).ok());
    }
    Ok(plugins)
}

async fn describe(file: &[u8]) -> Result<String, CallError> {
    open(file).await?.describe().await
}

async fn open(file: &[u8]) -> Result<PluginHarness, CallError> {
    let worker = std::env::current_exe()
        .map_err(|error| CallError::new(ErrorType::Internal, error.to_string(), "start it by its path"))?;
    PluginHarness::open(file, CompileTools { worker, cache: UserCache::from_environment() }).await
}

fn plugin(described: &str) -> Result<Arc<Plugin<()>>, ReadError> {
    let descriptor = Descriptor::parse(described)?;
    Ok(Arc::new(Plugin::with_trusted_hints(
        Digest::from_sha256(toolgate_audit::sha256(described.as_bytes()).0),
        Arc::default(),
        descriptor,
        (),
    )))
}

/// The assertions of the platform, and those of each organization.
fn all_assertions(documents: &Documents) -> impl Iterator<Item = (Option<&Name>, &[Assertion])> {
    let organizations = documents.organizations.iter();
    let organizations = organizations.map(|(name, files)| (Some(name), &*files.assertions.assertions));
    std::iter::once((None, &*documents.assertions.assertions)).chain(organizations)
}

fn patterns(documents: &Documents) -> impl Iterator<Item = &ToolPattern> {
    let assertions = all_assertions(documents).flat_map(|(_, assertions)| assertions);
    assertions.filter_map(Assertion::statement).flat_map(|(_, scope)| scope.tools.patterns())
}

/// Whether an assertion is about tools of this namespace.
fn is_named(documents: &Documents, namespace: &str) -> bool {
    patterns(documents).any(|pattern| pattern.namespace().is_none_or(|named| named.as_str() == namespace))
}

fn in_file(path: &Path, error: ReadError) -> Failure {
    let error = error.into_call_error(ErrorType::InvalidPolicy);
    of_plugin(&path.display().to_string(), &error)
}

fn of_plugin(place: &str, error: &CallError) -> Failure {
    let pointer = error.details_json().and_then(|details| Some(details.get("pointer")?.as_str()?.to_owned()));
    let pointer = pointer.map(|pointer| format!(" (`{pointer}`)")).unwrap_or_default();
    Failure::new(format!("`{place}`: {}{pointer}", error.message), error.hint.to_string())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("`{}` cannot be read: {error}", path.display()),
        "check the path and its permissions",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAY: &str = r#"{"name":"pay","version":"1","tools":[
        {"name":"send","description":"D.","usage":"U.","input_schema":{"type":"object"}},
        {"name":"quote","description":"D.","usage":"U.","input_schema":{"type":"object"},"hints":{"read_only":true}}]}"#;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("written");
        }
        folder
    }

    async fn tested(files: &[(&str, &str)], json: bool) -> (Result<(), Failure>, String, String) {
        let folder = folder(files);
        let (mut out, mut notes) = (Vec::new(), anstream::StripStream::new(Vec::new()));
        let result = run(folder.path(), false, &mut Printer::new(&mut out, &mut notes, json)).await;
        let notes = String::from_utf8(notes.into_inner()).expect("text");
        (result, String::from_utf8(out).expect("text"), notes)
    }

    const NEVER: (&str, &str) =
        ("assertions.json", r#"{"assertions":[{"name":"no-send","never":{"tools":["pay/send"]}}]}"#);

    #[tokio::test]
    async fn g17_a_folder_that_keeps_its_assertions_passes() {
        let files = [
            ("plugins/pay.json", PAY),
            ("orgs/acme/policy.json", r#"{"enabled":["pay/*"]}"#),
            ("orgs/acme/agents/bot.json", r#"{"enabled":["pay/quote"]}"#),
            NEVER,
        ];
        let (result, out, notes) = tested(&files, false).await;
        result.expect("it passes");
        let expected = "`no-send` covers 1 tools and 1 agents\n1 assertions, 1 agents, 0 broken\n";
        assert_eq!((out.as_str(), notes.as_str()), (expected, ""));
    }

    #[tokio::test]
    async fn g17_each_broken_assertion_of_a_folder_is_told() {
        let own = r#"{"assertions":[{"name":"ask","always_approval":{"agents":["bot"],"tools":["pay/*"]}}]}"#;
        let files = [
            ("plugins/pay.json", PAY),
            ("orgs/acme/policy.json", r#"{"enabled":["pay/*"]}"#),
            ("orgs/acme/assertions.json", own),
            ("orgs/acme/agents/bot.json", r#"{"enabled":"*","autonomy":"autonomous"}"#),
            NEVER,
        ];
        let (result, _, notes) = tested(&files, false).await;
        result.expect_err("two are broken");
        for part in ["`no-send`", "`ask`", "`acme/bot`", "`pay/send`"] {
            assert!(notes.contains(part), "{part}: {notes}");
        }
        let (_, out, _) = tested(&files, true).await;
        let told: Value = serde_json::from_str(&out).expect("json");
        assert_eq!((&told["assertions"], told["broken"].as_array().map(Vec::len)), (&json!(2), Some(2)));
        assert_eq!(told["broken"][0]["details"]["agent"], "acme/bot");
    }

    #[tokio::test]
    async fn g17_unsound_documents_and_unknown_tools_are_told() {
        let (result, ..) = tested(&[("orgs/acme/policy.json", r#"{"enabled":["Pay"]}"#)], false).await;
        let failure = result.expect_err("unsound");
        assert!(failure.to_string().contains("1 of the files are wrong"), "{failure}");
        let (result, _, notes) = tested(&[NEVER], false).await;
        result.expect("nothing is broken");
        assert!(notes.contains("no loaded tool answers to `pay/send`"), "{notes}");
        run(
            Path::new("/nowhere"),
            false,
            &mut Printer::new(&mut Vec::new(), &mut anstream::StripStream::new(Vec::new()), false),
        )
        .await
        .expect_err("no folder");
    }

    /// operators.md 23 and 24, audit.md 6: neither a file nor a name is passed over in silence.
    #[tokio::test]
    async fn g17_what_is_not_read_or_covers_nothing_is_told() {
        let policy = ("orgs/acme/policy.json", r#"{"enabled":["pay/*"]}"#);
        let yaml = "enabled:\n  - pay/send\nautonomy: autonomous\n";
        let files = [("plugins/pay.json", PAY), policy, ("orgs/acme/agents/bot.yaml", yaml), NEVER];
        let (result, _, notes) = tested(&files, false).await;
        result.expect_err("the agent of the YAML file breaks it");
        assert!(notes.contains("`acme/bot`"), "{notes}");
        for (file, told) in [
            ("org/acme/policy.json", "is not the file of a document"),
            ("orgs/acme/agents/bot.toml", "let it end in `.json`, `.yaml` or `.yml`"),
            ("orgs/acme/policy.yml", "is the same document as"),
        ] {
            let (result, _, notes) = tested(&[policy, (file, "enabled: []")], false).await;
            result.expect_err("a wrong file");
            assert!(notes.contains(file) && notes.contains(told), "{notes}");
        }
        let typo = r#"{"assertions":[{"name":"no-send","never":{"agents":["bto"],"tools":["pay/sned"]}}]}"#;
        let files = [("plugins/pay.json", PAY), policy, ("orgs/acme/assertions.json", typo)];
        let (result, out, notes) = tested(&files, false).await;
        result.expect("a warning");
        for told in ["`pay/sned`", "there is no agent `acme/bto`", "holds whatever the documents say"] {
            assert!(notes.contains(told), "{told}: {notes}");
        }
        assert!(out.contains("`no-send` of `acme` covers 0 tools and 0 agents"), "{out}");
        let folder = folder(&files);
        let mut notes = anstream::StripStream::new(Vec::new());
        run(folder.path(), true, &mut Printer::new(&mut Vec::new(), &mut notes, false))
            .await
            .expect_err("strict");
    }
}
