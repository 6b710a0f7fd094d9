//! `toolgate policy test`: whether the documents of a folder keep the assertions in it (G17).
//!
//! The rules are compiled and asked as a daemon does. Facts that a folder does not have are taken as those that open
//! more: plugins are enabled, their hints are confirmed, integrations are connected, and consent is given.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_admission::{
    AgentRules, Catalogue, DecisionBudget, Descriptor, Digest, OrgFacts, OrgRules, PlatformRules, Plugin,
    ResolvedAssertion, Rules, check_platform, parse_platform,
};
use toolgate_api::assertion::{Assertion, AssertionHolder, AssertionsDocument};
use toolgate_api::document::OrganizationDocument;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::Name;
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_api::read::ReadError;
use toolgate_api::tools::ToolPattern;
use toolgate_built_in::BUILT_IN;
use toolgate_cli::{Failure, Printer};
use toolgate_core::assertions::{AssertionViolation, Holder};
use toolgate_core::harness::{CompileTools, PluginHarness, UserCache};

/// The files of a folder, for the help.
pub(super) const FOLDER: &str = "\
Files of the folder, all of them optional:
  platform.json                the policy of the platform
  assertions.json              the assertions of the platform
  plugins/NAME.wasm            a plugin
  plugins/NAME.json            the description of a plugin, as `describe` returns it
  orgs/ORG/organization.json   the organization
  orgs/ORG/policy.json         its policy
  orgs/ORG/assertions.json     its assertions
  orgs/ORG/agents/AGENT.json   an agent

Built-in plugins that an assertion names are there too. The exit status is 1 if an assertion is broken.";

/// The documents of a folder.
struct Documents {
    platform: PlatformDocument,
    assertions: AssertionsDocument,
    organizations: BTreeMap<Name, OrganizationFiles>,
}

struct OrganizationFiles {
    organization: OrganizationDocument,
    policy: OrgDocument,
    assertions: AssertionsDocument,
    agents: BTreeMap<Name, AgentDocument>,
}

pub(super) async fn run(folder: &Path, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let documents = read_folder(folder)?;
    let catalogue = Arc::new(Catalogue::new(LimitsPatch::new(), plugins(folder, &documents).await?));
    check_platform(&documents.platform, &catalogue)
        .map_err(|error| in_file(&folder.join("platform.json"), error))?;
    warn_of_missing_tools(&documents, &catalogue, printer)?;
    let (violations, agents) = violations(folder, &documents, &catalogue)?;
    let organizations = documents.organizations.values();
    let assertions = documents.assertions.assertions.len()
        + organizations.map(|files| files.assertions.assertions.len()).sum::<usize>();
    if printer.is_json() {
        let broken: Vec<Value> = violations.iter().map(violation_json).collect();
        printer.json(&json!({"assertions": assertions, "agents": agents, "broken": broken}))?;
    } else {
        for violation in &violations {
            printer.error(&violation.message(true))?;
        }
        let broken = violations.len();
        printer.line(&format!("{assertions} assertions, {agents} agents, {broken} broken"))?;
    }
    match violations.len() {
        0 => Ok(()),
        count => Err(Failure::new(
            format!("{count} times an agent could break an assertion"),
            "change the documents, or the assertions",
        )),
    }
}

fn violation_json(violation: &AssertionViolation) -> Value {
    let error = violation.clone().into_call_error(true);
    json!({"message": error.message, "details": error.details_json()})
}

/// The first violation of each assertion and agent, and the number of agents.
fn violations(
    folder: &Path,
    documents: &Documents,
    catalogue: &Arc<Catalogue<()>>,
) -> Result<(Vec<AssertionViolation>, usize), Failure> {
    let (mut violations, mut agents, mut budget) = (Vec::new(), 0, DecisionBudget::new(u64::MAX));
    let platform = Arc::new(PlatformRules::compile(Arc::new(documents.platform.clone()), catalogue));
    for (organization, files) in &documents.organizations {
        let connected = Arc::new(files.organization.connected.iter().cloned().collect());
        let facts = OrgFacts { connected, ..OrgFacts::default() };
        let policy = Arc::new(files.policy.clone());
        let compiled = Arc::new(OrgRules::compile(policy, facts, &platform, catalogue));
        let holders = [
            (Holder::Platform, &documents.assertions.assertions),
            (Holder::Organization, &files.assertions.assertions),
        ];
        let assertions = holders.into_iter().flat_map(|(holder, list)| {
            list.iter().filter_map(move |one| Some((holder, ResolvedAssertion::new(one, catalogue)?)))
        });
        let assertions: Vec<_> = assertions.collect();
        for (agent, document) in &files.agents {
            agents += 1;
            document.check(&documents.platform, &files.policy).map_err(|error| {
                in_file(&folder.join(format!("orgs/{organization}/agents/{agent}.json")), error)
            })?;
            let document = Arc::new(document.clone());
            let rules = Rules {
                agent: Arc::new(AgentRules::compile(document, &compiled, &platform, catalogue)),
                organization: Arc::clone(&compiled),
                platform: Arc::clone(&platform),
                catalogue: Arc::clone(catalogue),
            };
            let concerned = assertions.iter().filter(|(_, one)| one.concerns(organization, agent));
            violations.extend(concerned.filter_map(|(holder, resolved)| {
                let breach = resolved.breach(None, &rules, &mut budget).ok().flatten()?;
                Some(AssertionViolation::new(*holder, resolved.assertion(), (organization, agent), breach))
            }));
        }
    }
    Ok((violations, agents))
}

fn read_folder(folder: &Path) -> Result<Documents, Failure> {
    if !folder.is_dir() {
        let hint = "name a folder with `platform.json`, `assertions.json`, `orgs` and `plugins`";
        return Err(Failure::new(format!("`{}` is no folder", folder.display()), hint));
    }
    let mut organizations = BTreeMap::new();
    for (name, path) in entries(&folder.join("orgs"))? {
        organizations.insert(parse_name(&name, &path)?, read_organization(&path)?);
    }
    let assertions = |text: &str| AssertionsDocument::parse(text, AssertionHolder::Platform);
    Ok(Documents {
        platform: read(&folder.join("platform.json"), parse_platform)?,
        assertions: read(&folder.join("assertions.json"), assertions)?,
        organizations,
    })
}

fn read_organization(folder: &Path) -> Result<OrganizationFiles, Failure> {
    let mut agents = BTreeMap::new();
    for (name, path) in entries(&folder.join("agents"))? {
        let Some(name) = name.strip_suffix(".json") else { continue };
        agents.insert(parse_name(name, &path)?, read(&path, AgentDocument::parse)?);
    }
    let assertions = |text: &str| AssertionsDocument::parse(text, AssertionHolder::Organization);
    let organization = |text: &str| {
        serde_json::from_str::<OrganizationDocument>(text)
            .map_err(|error| ReadError::new("", error.to_string(), "write `display_name` and `connected`"))
    };
    Ok(OrganizationFiles {
        organization: read(&folder.join("organization.json"), organization)?,
        policy: read(&folder.join("policy.json"), OrgDocument::parse)?,
        assertions: read(&folder.join("assertions.json"), assertions)?,
        agents,
    })
}

/// Reads a document; the default one if there is no file.
fn read<T: Default>(path: &Path, parse: impl Fn(&str) -> Result<T, ReadError>) -> Result<T, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text).map_err(|error| in_file(path, error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(unreadable(path, &error)),
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

fn parse_name(text: &str, path: &Path) -> Result<Name, Failure> {
    Name::parse(text)
        .map_err(|error| Failure::new(format!("`{}`: {}", path.display(), error.message), error.hint))
}

/// The plugins of the folder, and the built-in ones that an assertion names.
async fn plugins(folder: &Path, documents: &Documents) -> Result<Vec<Arc<Plugin<()>>>, Failure> {
    let mut plugins = Vec::new();
    for (name, path) in entries(&folder.join("plugins"))? {
        let described = match name.rsplit_once('.') {
            Some((_, "json")) => fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?,
            Some((_, "wasm")) => {
                let file = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
                describe(&file).await.map_err(|error| of_plugin(&path.display().to_string(), &error))?
            }
            _ => continue,
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
        let described = describe(built_in.component).await;
        // The components behind custom tools have no description of their own.
        let Ok(described) = described else { continue };
        plugins.extend(plugin(&described).ok());
    }
    Ok(plugins)
}

async fn describe(file: &[u8]) -> Result<String, CallError> {
    let worker = std::env::current_exe()
        .map_err(|error| CallError::new(ErrorType::Internal, error.to_string(), "start it by its path"))?;
    let tools = CompileTools { worker, cache: UserCache::from_environment() };
    PluginHarness::open(file, tools).await?.describe().await
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

fn all_assertions(documents: &Documents) -> impl Iterator<Item = &Assertion> {
    let organizations = documents.organizations.values().flat_map(|files| &files.assertions.assertions);
    documents.assertions.assertions.iter().chain(organizations)
}

fn patterns(documents: &Documents) -> impl Iterator<Item = &ToolPattern> {
    let scopes = all_assertions(documents).filter_map(Assertion::statement);
    scopes.flat_map(|(_, scope)| scope.tools.patterns())
}

/// Whether an assertion is about tools of this namespace.
fn is_named(documents: &Documents, namespace: &str) -> bool {
    patterns(documents).any(|pattern| pattern.namespace().is_none_or(|named| named.as_str() == namespace))
}

/// An assertion about a tool that is not there holds, which its author may not expect.
fn warn_of_missing_tools(
    documents: &Documents,
    catalogue: &Catalogue<()>,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    for pattern in patterns(documents) {
        if !catalogue.tools().iter().any(|tool| pattern.matches(tool.id())) {
            printer.warning(&format!("no plugin has `{pattern}`, so assertions about it are not checked"))?;
        }
    }
    Ok(())
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

    async fn test(files: &[(&str, &str)], json: bool) -> (Result<(), Failure>, String, String) {
        let folder = folder(files);
        let (mut out, mut notes) = (Vec::new(), anstream::StripStream::new(Vec::new()));
        let result = run(folder.path(), &mut Printer::new(&mut out, &mut notes, json)).await;
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
        let (result, out, notes) = test(&files, false).await;
        result.expect("it passes");
        assert_eq!((out.as_str(), notes.as_str()), ("1 assertions, 1 agents, 0 broken\n", ""));
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
        let (result, _, notes) = test(&files, false).await;
        result.expect_err("two are broken");
        for part in ["`no-send`", "`ask`", "`acme/bot`", "`pay/send`"] {
            assert!(notes.contains(part), "{part}: {notes}");
        }
        let (_, out, _) = test(&files, true).await;
        let told: Value = serde_json::from_str(&out).expect("json");
        assert_eq!((&told["assertions"], told["broken"].as_array().map(Vec::len)), (&json!(2), Some(2)));
        assert_eq!(told["broken"][0]["details"]["agent"], "acme/bot");
    }

    #[tokio::test]
    async fn g17_unsound_documents_and_unknown_tools_are_told() {
        let (result, ..) = test(&[("orgs/acme/policy.json", r#"{"enabled":["Pay"]}"#)], false).await;
        let failure = result.expect_err("unsound");
        assert!(failure.to_string().contains("policy.json`"), "{failure}");
        let (result, _, notes) = test(&[NEVER], false).await;
        result.expect("nothing is broken");
        assert!(notes.contains("no plugin has `pay/send`"), "{notes}");
        run(
            Path::new("/nowhere"),
            &mut Printer::new(&mut Vec::new(), &mut anstream::StripStream::new(Vec::new()), false),
        )
        .await
        .expect_err("no folder");
    }
}
