//! Policy assertions: statements about what agents can call, which every change must keep true (G17).
//!
//! An assertion gives and takes no right. A change that would break one is refused before it takes effect.

use std::fmt::{self, Display};

use serde::{Deserialize, Deserializer, Serialize};

use crate::name::Name;
use crate::pattern_list::{Pattern, PatternList};
use crate::read::{ReadError, deserialize_parsed, invalid, list_of, read_document};
use crate::tools::ToolList;

/// Most assertions of one document. A change of rules evaluates each.
const ASSERTIONS: usize = 256;

const AGENTS_HINT: &str =
    "write \"*\", `ORGANIZATION/*` or `ORGANIZATION/AGENT`; in an organization's document \"*\" or `AGENT`";

/// The assertions of the platform or of an organization.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Assertions))]
pub struct AssertionsDocument {
    /// The assertions, each with a name of its own.
    #[serde(default, deserialize_with = "assertions")]
    #[cfg_attr(feature = "openapi", schema(max_items = 256))]
    pub assertions: Vec<Assertion>,
    /// The assertions that do not hold now, at most a hundred. Only responses have it; in a request it is ignored.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(read_only, max_items = 100))]
    pub broken: Vec<BrokenAssertion>,
}

/// An assertion that does not hold: an agent could call a tool against it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BrokenAssertion {
    /// The name of the assertion.
    pub assertion: String,
    /// `ORGANIZATION/AGENT`.
    pub agent: String,
    /// `namespace/tool`.
    pub tool: String,
    /// The call that is possible, and the rule that lets it through.
    pub message: String,
}

/// A statement about what agents can call: exactly one of `never`, `always_approval` and `only`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Assertion {
    /// The name, which a refused change tells.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: Name,
    /// The agents cannot call the tools.
    pub never: Option<AssertionScope>,
    /// Each call of these tools by these agents waits for a person, or is refused.
    pub always_approval: Option<AssertionScope>,
    /// No other agents than these can call these tools.
    pub only: Option<AssertionScope>,
}

/// The agents and tools of an assertion.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssertionScope {
    /// The agents: `"*"`, `ORGANIZATION/*`, `ORGANIZATION/AGENT`, or a list of them. The document of an organization names
    /// its agents alone. Default: every agent.
    #[serde(default = "every_agent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<AgentList>))]
    pub agents: AgentList,
    /// The tools. An empty list is none.
    pub tools: ToolList,
}

/// The kind of an assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssertionKind {
    /// The agents cannot call the tools.
    Never,
    /// Calls need a person's approval.
    AlwaysApproval,
    /// Other agents cannot call the tools.
    Only,
}

/// The agents of an assertion.
pub type AgentList = PatternList<AgentPattern>;

/// An entry of a list of agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentPattern {
    /// `*`: every agent.
    All,
    /// `ORGANIZATION/*`: the agents of an organization.
    Organization(Name),
    /// `ORGANIZATION/AGENT`: one agent.
    Agent(Name, Name),
    /// `AGENT`: an agent of the organization that holds the document.
    Own(Name),
}

/// The holder of a document of assertions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssertionHolder {
    /// The platform, for the agents of every organization.
    Platform,
    /// An organization, for its agents.
    Organization,
}

impl AssertionKind {
    /// The field of the document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::AlwaysApproval => "always_approval",
            Self::Only => "only",
        }
    }
}

impl AssertionsDocument {
    /// Parses a document. Agents are named as its holder can name them.
    pub fn parse(json: &str, holder: AssertionHolder) -> Result<Self, ReadError> {
        let document: Self = read_document(json)?;
        for (index, assertion) in document.assertions.iter().enumerate() {
            let Some((kind, AssertionScope { agents: AgentList::List(agents), .. })) = assertion.statement()
            else {
                continue;
            };
            let is_foreign = |pattern: &AgentPattern| match pattern {
                AgentPattern::All => false,
                AgentPattern::Own(_) => holder == AssertionHolder::Platform,
                AgentPattern::Organization(_) | AgentPattern::Agent(..) => {
                    holder == AssertionHolder::Organization
                }
            };
            if let Some(place) = agents.iter().position(is_foreign) {
                let place = format!("/assertions/{index}/{}/agents/{place}", kind.as_str());
                let message = match holder {
                    AssertionHolder::Platform => "an agent of the platform's assertions has an organization",
                    AssertionHolder::Organization => {
                        "an organization's assertions name its own agents, without the organization"
                    }
                };
                return Err(ReadError::new(place, message, AGENTS_HINT));
            }
        }
        Ok(document)
    }
}

impl Assertion {
    /// The kind and scope; `None` only of a value that was not parsed.
    pub fn statement(&self) -> Option<(AssertionKind, &AssertionScope)> {
        let statements = [
            (AssertionKind::Never, &self.never),
            (AssertionKind::AlwaysApproval, &self.always_approval),
            (AssertionKind::Only, &self.only),
        ];
        statements.into_iter().find_map(|(kind, scope)| Some((kind, scope.as_ref()?)))
    }

    /// Whether it restricts this agent.
    pub fn restricts(&self, organization: &Name, agent: &Name) -> bool {
        self.statement().is_some_and(|(kind, scope)| {
            scope.agents.has(organization, agent) == (kind != AssertionKind::Only)
        })
    }
}

impl AgentList {
    /// Whether an entry matches the agent. The organization of an entry without one is that of the agent.
    pub fn has(&self, organization: &Name, agent: &Name) -> bool {
        self.patterns().iter().any(|pattern| match pattern {
            AgentPattern::All => true,
            AgentPattern::Organization(named) => named == organization,
            AgentPattern::Agent(of, named) => of == organization && named == agent,
            AgentPattern::Own(named) => named == agent,
        })
    }
}

/// Message and hint of text that is no agent.
struct HintedError {
    message: String,
    hint: &'static str,
}

fn parse_entry(text: &str) -> Result<AgentPattern, HintedError> {
    let name = |text: &str| {
        Name::parse(text).map_err(|error| HintedError { message: error.message, hint: AGENTS_HINT })
    };
    match text.split_once('/') {
        None if text == "*" => Ok(AgentPattern::All),
        None => name(text).map(AgentPattern::Own),
        Some((organization, "*")) => name(organization).map(AgentPattern::Organization),
        Some((organization, agent)) => Ok(AgentPattern::Agent(name(organization)?, name(agent)?)),
    }
}

deserialize_parsed!(AgentPattern, parse_entry);

impl Display for AgentPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => formatter.write_str("*"),
            Self::Organization(organization) => write!(formatter, "{organization}/*"),
            Self::Agent(organization, agent) => write!(formatter, "{organization}/{agent}"),
            Self::Own(agent) => write!(formatter, "{agent}"),
        }
    }
}

impl Pattern for AgentPattern {
    const ALL: &'static [Self] = &[Self::All];
    const MAX_ENTRIES: usize = 1_000;
    const LIST: &'static str = "a list of agents";
    const HINT: &'static str = AGENTS_HINT;

    /// False: an agent of another organization is refused beside `*` too.
    fn is_all(&self) -> bool {
        false
    }

    fn parse_list<E: serde::de::Error>(text: &str) -> Result<AgentList, E> {
        match parse_entry(text) {
            Ok(AgentPattern::All) => Ok(AgentList::All),
            Ok(pattern) => Ok(AgentList::List(vec![pattern])),
            Err(error) => Err(invalid(error.message, error.hint)),
        }
    }
}

fn every_agent() -> AgentList {
    AgentList::All
}

#[derive(Deserialize)]
#[serde(transparent)]
struct List(#[serde(deserialize_with = "list_of::<_, _, ASSERTIONS>")] Vec<Assertion>);

fn assertions<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Assertion>, D::Error> {
    let assertions = Option::<List>::deserialize(from)?.map(|List(list)| list).unwrap_or_default();
    for (index, assertion) in assertions.iter().enumerate() {
        let statements = [&assertion.never, &assertion.always_approval, &assertion.only];
        if statements.into_iter().flatten().count() != 1 {
            return Err(crate::read::invalid_at(
                format_args!("/{index}"),
                format_args!("the assertion `{}` does not state exactly one thing", assertion.name),
                "write one of `never`, `always_approval` and `only`; another statement is another assertion",
            ));
        }
        if assertions[..index].iter().any(|earlier| earlier.name == assertion.name) {
            return Err(crate::read::invalid_at(
                format_args!("/{index}/name"),
                format_args!("two assertions are called `{}`", assertion.name),
                "give each assertion a name of its own",
            ));
        }
    }
    Ok(assertions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn parse(text: &str, holder: AssertionHolder) -> Result<Vec<Assertion>, String> {
        let document = AssertionsDocument::parse(text, holder);
        document.map(|document| document.assertions).map_err(|error| error.place)
    }

    #[test]
    fn g17_an_assertion_restricts_the_agents_that_it_is_about() {
        let text = r#"{"assertions":[
            {"name":"a","never":{"tools":["files/delete"]}},
            {"name":"b","never":{"agents":"acme/*","tools":"*"}},
            {"name":"c","always_approval":{"agents":["acme/bot"],"tools":["pay/*"]}},
            {"name":"d","only":{"agents":["acme/bot"],"tools":["pay/*"]}},
            {"name":"e","never":{"agents":[],"tools":["pay/*"]}}]}"#;
        let assertions = parse(text, AssertionHolder::Platform).unwrap();
        let restricted = |organization: &str, agent: &str| -> Vec<bool> {
            let is_restricted =
                |assertion: &Assertion| assertion.restricts(&name(organization), &name(agent));
            assertions.iter().map(is_restricted).collect()
        };
        assert_eq!(restricted("acme", "bot"), [true, true, true, false, false]);
        assert_eq!(restricted("acme", "clerk"), [true, true, false, true, false]);
        assert_eq!(restricted("rival", "bot"), [true, false, false, true, false]);
    }

    #[test]
    fn g17_unsound_assertions_are_refused_with_their_place() {
        let tools = r#"{"tools":["pay/*"]}"#;
        for (assertions, place) in [
            (r#"[{"name":"a"}]"#.to_owned(), "/assertions/0"),
            (format!(r#"[{{"name":"a","never":{tools},"only":{tools}}}]"#), "/assertions/0"),
            (format!(r#"[{{"name":"a","sometimes":{tools}}}]"#), "/assertions/0/sometimes"),
            (r#"[{"name":"a","never":{}}]"#.to_owned(), "/assertions/0/never"),
            (
                format!(r#"[{{"name":"a","never":{tools}}},{{"name":"a","only":{tools}}}]"#),
                "/assertions/1/name",
            ),
            (
                r#"[{"name":"a","never":{"agents":["bot"],"tools":[]}}]"#.to_owned(),
                "/assertions/0/never/agents/0",
            ),
        ] {
            let found = parse(&format!(r#"{{"assertions":{assertions}}}"#), AssertionHolder::Platform);
            let found = found.expect_err("unsound");
            assert!(found.starts_with(place), "{assertions}: {found}");
        }
    }

    #[test]
    fn g17_an_organization_names_its_own_agents_alone() {
        let text = |agent: &str| {
            format!(r#"{{"assertions":[{{"name":"a","never":{{"agents":["{agent}"],"tools":["pay/*"]}}}}]}}"#)
        };
        for agent in ["bot", "*"] {
            parse(&text(agent), AssertionHolder::Organization).unwrap();
        }
        for agent in ["acme/bot", "acme/*", "Bot", ""] {
            parse(&text(agent), AssertionHolder::Organization).unwrap_err();
        }
        assert!(parse("{}", AssertionHolder::Organization).unwrap().is_empty());
        // A response can be sent back.
        let shown = r#"{"broken":[{"assertion":"a","agent":"acme/bot","tool":"pay/send","message":"m"}]}"#;
        assert!(parse(shown, AssertionHolder::Organization).unwrap().is_empty());
    }
}
