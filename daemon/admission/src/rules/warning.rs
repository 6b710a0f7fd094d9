//! Warnings about valid parts of documents that are probably mistakes.

use toolgate_api::assertion::{AgentPattern, Assertion};
use toolgate_api::grant::{Capabilities, Grant};
use toolgate_api::limits::{LimitName, Limits, LimitsPatch};
use toolgate_api::name::{Name, Namespace};
use toolgate_api::nearest;
use toolgate_api::quota::Quota;
use toolgate_api::read::pointer;
use toolgate_api::tools::{ToolList, ToolPattern};

use super::catalogue::{Catalogue, Plugin};
use crate::descriptor::Descriptor;

/// A warning about a valid part of a document that is probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// A stable code: `UNRESOLVED_TOOL`, `UNRESOLVED_SERVER`, `NO_TOOLS`, `LIMIT_WITHOUT_EFFECT`, `NOTHING_RUNS`, `NO_EFFECT`,
    /// `UNDEFINED`, `UNCONFIRMED`, `EVERY_HOST`, `ASSERTION_BROKEN`, `ASSERTION_UNCHECKED`, `UNRESOLVED_AGENT`.
    pub code: &'static str,
    /// JSON pointer into the document.
    pub path: String,
    /// The finding, in one line.
    pub message: String,
    /// The nearest known name.
    pub nearest: Option<String>,
    /// The pattern that matches no tool here; the receiver may know further tools.
    pub unresolved: Option<ToolPattern>,
}

impl Warning {
    /// A warning without a guess.
    pub fn new(code: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, path: path.into(), message: message.into(), nearest: None, unresolved: None }
    }
}

/// The lists of tools of quotas, each with its place.
pub(super) fn quota_tools(quotas: &[Quota]) -> impl Iterator<Item = (String, &ToolList)> {
    let place = |(index, quota)| (format!("/quotas/{index}/tools"), quota);
    quotas
        .iter()
        .enumerate()
        .map(place)
        .filter_map(|(place, quota): (_, &Quota)| Some((place, quota.tools.as_ref()?)))
}

/// Returns warnings about valid entries of a grant that are probably mistakes, for a plugin with these requested
/// capabilities.
pub fn grant_warnings(grant: &Grant, asked: &Capabilities) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = limits_without_effect(&grant.limits, &Limits::CEILING).collect();
    if grant.filesystem > asked.filesystem {
        warnings.push(unasked("/filesystem", "files"));
    }
    if grant.filesystem < asked.filesystem {
        let message = "the plugin asks for the session's files, which are not granted (`{\"filesystem\":\"workspace\"}`)";
        warnings.push(Warning::new("WITHHELD", "/filesystem", message));
    }
    if grant.allows_every_host() {
        let message = "calls can reach every public host, so whatever the agent sees can go anywhere; name hosts where you can";
        warnings.push(Warning::new("EVERY_HOST", "/network", message));
    }
    if !grant.network.is_empty() && asked.network.is_empty() {
        warnings.push(unasked("/network", "network"));
    }
    let switches = [
        ("calls", grant.calls, asked.calls, "calls of other tools"),
        ("messages", grant.messages, asked.messages, "messages"),
    ];
    for (name, granted, _, what) in switches.into_iter().filter(|(_, granted, asked, _)| granted != asked) {
        warnings.push(match granted {
            true => unasked(&format!("/{name}"), what),
            false => {
                let message =
                    format!("the plugin asks for {what}, which are not granted (`{{\"{name}\":true}}`)");
                Warning::new("WITHHELD", format!("/{name}"), message)
            }
        });
    }
    warnings.extend(credential_warnings(grant, asked));
    warnings
}

/// A grant of something that the plugin does not request.
fn unasked(path: &str, what: &str) -> Warning {
    Warning::new("NO_EFFECT", path, format!("the plugin asks for no {what}, so its calls get none"))
}

fn credential_warnings(grant: &Grant, asked: &Capabilities) -> Vec<Warning> {
    let granted = grant.credentials.iter().enumerate();
    let mut warnings: Vec<Warning> = granted
        .filter(|(_, provider)| !asked.credentials.contains(provider))
        .map(|(index, _)| unasked(&format!("/credentials/{index}"), "credential of this provider"))
        .collect();
    warnings.extend(asked.credentials.iter().filter(|provider| !grant.credentials.contains(*provider)).map(|provider| {
        let message = format!("the plugin asks for the credential of `{provider}`, which is not granted: its requests go without");
        Warning::new("WITHHELD", "/credentials", message)
    }));
    warnings
}

/// Returns warnings about valid values of a description that are probably mistakes, under the limits of the platform.
pub fn descriptor_warnings(descriptor: &Descriptor, platform: &Limits) -> Vec<Warning> {
    limits_without_effect(&descriptor.limits, platform).collect()
}

/// Returns warnings about descriptions, hints and settings in a grant that have no effect: of tools that the plugin lacks, or of a plugin that is
/// described by its definition alone (`None`).
pub fn description_warnings(grant: &Grant, described: Option<&Descriptor>) -> Vec<Warning> {
    let has_tool = |name: &str| {
        described.is_some_and(|descriptor| descriptor.tools.iter().any(|tool| tool.name.as_str() == name))
    };
    let described_tools = grant.descriptions.keys().map(|name| ("/descriptions", name));
    let named = described_tools.chain(grant.hints.keys().map(|name| ("/hints", name)));
    let unused = named.filter(|(_, name)| !has_tool(name));
    let warning = |(place, name): (&str, &String)| {
        let path = pointer(place, name);
        match described {
            None => {
                Warning::new("NO_EFFECT", path, "the definition describes its tools, so this has no effect")
            }
            Some(descriptor) => Warning {
                nearest: nearest(name, descriptor.tools.iter().map(|tool| tool.name.as_str()))
                    .map(str::to_owned),
                ..Warning::new("UNRESOLVED_TOOL", path, format!("the plugin has no tool `{name}`"))
            },
        }
    };
    unused.map(warning).chain(settings_warning(grant, described)).collect()
}

/// Returns a warning about settings: those of a grant that have no effect, or those that a component asks for and does not get.
fn settings_warning(grant: &Grant, described: Option<&Descriptor>) -> Option<Warning> {
    let takes = described.is_some_and(|descriptor| descriptor.has_granted_settings);
    let asks = described.is_some_and(|descriptor| descriptor.asks_for_settings);
    match grant.settings.is_empty() {
        false if !takes => Some(Warning::new(
            "NO_EFFECT",
            "/settings",
            "the plugin describes its settings itself, so an organization sets them",
        )),
        true if takes && asks => Some(Warning::new(
            "WITHHELD",
            "/settings",
            "the component reads settings (`wasi:config/store`) and its grant names none: add `\"settings\":{\"NAME\":\"text\"}`, with the names that its documentation has. A secret is no setting: write a placeholder, and keep the secret as a credential for the host",
        )),
        _ => None,
    }
}

/// Returns a warning about hints in the plugin's grant that do not count: those of its version are not confirmed (9.11).
pub fn unconfirmed_hints<P>(plugin: &Plugin<P>) -> Option<Warning> {
    if plugin.granted.hints.is_empty() || plugin.has_confirmed_hints() {
        return None;
    }
    let message = format!(
        "the hints do not count until they are confirmed for the version that serves: add `\"confirmed_hints\":\"{}\"`",
        plugin.digest
    );
    Some(Warning::new("UNCONFIRMED", "/hints", message))
}

/// Limits that are above what the layers above leave, and those under which nothing runs.
pub(crate) fn limits_without_effect<'a>(
    limits: &'a LimitsPatch,
    above: &'a Limits,
) -> impl Iterator<Item = Warning> + 'a {
    limits.iter().filter_map(|(name, value)| {
        let warning = |code, message| Some(Warning::new(code, format!("/limits/{name}"), message));
        if value > above.get(name) {
            let message = format!(
                "`{name}` of {value} is above {}, which is all that there is to give",
                above.get(name)
            );
            return warning("LIMIT_WITHOUT_EFFECT", message);
        }
        let is_needed = [LimitName::Fuel, LimitName::MemoryBytes, LimitName::DeadlineMs].contains(&name);
        match value == 0 && is_needed {
            true => warning("NOTHING_RUNS", format!("with a `{name}` of 0 no call can run")),
            false => None,
        }
    })
}

/// Warnings about assertions that cover no tool or no agent, which hold whatever the documents say. `exists` tells of an agent of an
/// organization; `organization` holds the document, or the platform does.
pub fn assertion_warnings<P>(
    assertions: &[Assertion],
    catalogue: &Catalogue<P>,
    organization: Option<&Name>,
    exists: impl Fn(&Name, &Name) -> bool,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (index, assertion) in assertions.iter().enumerate() {
        let Some((kind, scope)) = assertion.statement() else { continue };
        let place = format!("/assertions/{index}/{}", kind.as_str());
        warnings.extend(unresolved_entries(&format!("{place}/tools"), &scope.tools, catalogue));
        for (at, agent) in scope.agents.patterns().iter().enumerate() {
            let (of, name) = match (agent, organization) {
                (AgentPattern::Agent(of, name), _) | (AgentPattern::Own(name), Some(of)) => (of, name),
                _ => continue,
            };
            if !exists(of, name) {
                let message = format!("there is no agent `{of}/{name}`");
                warnings.push(Warning::new("UNRESOLVED_AGENT", format!("{place}/agents/{at}"), message));
            }
        }
    }
    warnings
}

/// Entries of a list that no loaded tool answers to, with the nearest that one does.
pub(super) fn unresolved_entries<P>(place: &str, list: &ToolList, catalogue: &Catalogue<P>) -> Vec<Warning> {
    let patterns = list.patterns().iter().enumerate();
    patterns
        .filter_map(|(index, pattern)| unresolved_pattern(&format!("{place}/{index}"), pattern, catalogue))
        .collect()
}

/// The same for one entry.
pub(super) fn unresolved_pattern<P>(
    place: &str,
    pattern: &ToolPattern,
    catalogue: &Catalogue<P>,
) -> Option<Warning> {
    let is_loaded = match pattern {
        ToolPattern::All => true,
        ToolPattern::Plugin(namespace) => catalogue.plugin(namespace).is_some(),
        ToolPattern::Tool(id) => catalogue.number_of(id).is_some(),
    };
    (!is_loaded).then(|| Warning {
        nearest: nearest_pattern(pattern, catalogue),
        unresolved: Some(pattern.clone()),
        ..Warning::new("UNRESOLVED_TOOL", place, format!("no loaded tool answers to `{pattern}`"))
    })
}

fn nearest_pattern<P>(pattern: &ToolPattern, catalogue: &Catalogue<P>) -> Option<String> {
    let namespaces = || catalogue.plugins().map(|plugin| plugin.descriptor.namespace.as_str());
    let ToolPattern::Tool(id) = pattern else {
        return nearest(pattern.namespace()?.as_str(), namespaces())
            .map(|namespace| format!("{namespace}/*"));
    };
    // The plugin first: a right plugin with a wrong tool is the common slip.
    let namespace = Namespace::parse(nearest(id.namespace.as_str(), namespaces())?).ok()?;
    let tools = &catalogue.plugin(&namespace)?.descriptor.tools;
    let tool = nearest(id.tool.as_str(), tools.iter().map(|tool| tool.name.as_str()))?;
    Some(format!("{namespace}/{tool}"))
}
