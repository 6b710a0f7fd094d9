//! Keys of stored documents, and the preconditions of their writes (optimistic locking).
//!
//! A document is replaced whole and carries an entity tag (RFC 9110, section 8.8.3) made from its revision. Each
//! write states the revision that it replaces: `If-Match` with the tag, or `If-None-Match: *` for a new document. A
//! write without either header is refused, since it could silently overwrite a concurrent change.
//!
//! The module does not access the store; `store::documents` does.

use std::fmt;

use toolgate_admission::Warning;
use toolgate_api::document::{DocumentWarning, OrganizationDocument};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::{Name, Namespace};
use toolgate_api::text::is_hidden;

/// The platform and each organization have one policy; the key of its row needs a constant name.
const PLATFORM_NAME: &str = "platform";
const POLICY_NAME: &str = "organization";
const ASSERTIONS_NAME: &str = "assertions";

/// Longest `display_name` of an organization, in characters, as for an agent: a line of a list.
const DISPLAY_CHARS: usize = 200;
/// Limit of connected integrations: as many as a policy can name, since each is held in memory.
const CONNECTED: usize = 10_000;
/// Longest name of an integration, in characters: no tool can require a longer one.
const INTEGRATION_CHARS: usize = 100;

/// Hint for an unknown name.
pub const NOT_MADE: &str = "check the name, and that it was made before";

/// Key of a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DocumentKey {
    /// Policy of the platform.
    Platform,
    Organization(Name),
    /// Policy of an organization.
    Policy(Name),
    Agent {
        organization: Name,
        agent: Name,
    },
    /// The operator's grant of a plugin.
    Grant(Namespace),
    /// Definition of a custom tool (C1, M4).
    Tool(ToolKey),
    /// Discovered tools of a mounted server: the consented list, and one that waits for consent.
    Mount(ToolKey),
    /// The operator's grant of a custom tool.
    ToolGrant(ToolKey),
    /// An organization's settings of a plugin, and its consent (C5, C6).
    Enabled(ToolKey),
    /// Policy assertions of an organization, or of the platform (G17).
    Assertions(Option<Name>),
    /// A publisher's key of the platform (`None`) or of an organization (O2).
    PublisherKey(Option<Name>, Name),
}

/// Key of a custom tool, or of a plugin as an organization has it: the organization and the namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolKey {
    pub organization: Name,
    pub namespace: Namespace,
}

/// Key of a plugin of the platform, or of one that an organization loaded for itself (rule 9.16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginKey {
    /// The organization; `None` for the platform.
    pub owner: Option<Name>,
    pub namespace: Namespace,
}

impl From<&Namespace> for PluginKey {
    fn from(namespace: &Namespace) -> Self {
        Self { owner: None, namespace: namespace.clone() }
    }
}

impl From<&ToolKey> for PluginKey {
    fn from(key: &ToolKey) -> Self {
        Self { owner: Some(key.organization.clone()), namespace: key.namespace.clone() }
    }
}

impl PluginKey {
    /// The key among the tools of its organization; `None` for a plugin of the platform.
    pub fn in_organization(&self) -> Option<ToolKey> {
        Some(ToolKey { organization: self.owner.clone()?, namespace: self.namespace.clone() })
    }

    /// The key of the operator's grant.
    pub fn grant(&self) -> DocumentKey {
        match self.in_organization() {
            Some(key) => DocumentKey::ToolGrant(key),
            None => DocumentKey::Grant(self.namespace.clone()),
        }
    }
}

/// Kind of a document, with its text form in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    Platform,
    Organization,
    Policy,
    Agent,
    Grant,
    Tool,
    Mount,
    ToolGrant,
    Enabled,
    Assertions,
    PublisherKey,
}

/// Number of the change that wrote a document; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub key: DocumentKey,
    pub body: String,
    pub revision: Revision,
    pub updated_ms: u64,
}

/// Precondition of a write, from its request headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// No header was sent; every write is refused.
    Missing,
    /// `If-None-Match: *`: no document exists.
    Absent,
    /// `If-Match: *`: a document exists, of any revision.
    Present,
    /// `If-Match: "17", …`: the document has one of these revisions.
    OneOf(Vec<Revision>),
}

/// Reason why a precondition fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreconditionFailure {
    /// The document exists and should be new.
    Exists,
    /// The document to replace or delete does not exist.
    Gone,
    /// The document has another revision than the one that was read.
    Changed,
}

/// Result of a precondition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreconditionResult {
    Holds,
    Fails(PreconditionFailure),
    Required,
}

/// Returns the view of a warning.
pub fn warning_view(Warning { code, path, message, nearest, unresolved }: Warning) -> DocumentWarning {
    DocumentWarning { code: code.into(), path, message, nearest, tool: unresolved }
}

/// Validates the lengths. Stored documents are not validated again.
pub fn check_organization(document: &OrganizationDocument) -> Result<(), CallError> {
    document.display_name.as_deref().map_or(Ok(()), check_display_name)?;
    if document.connected.len() > CONNECTED {
        let message =
            format!("`connected` has {} entries and may have {CONNECTED}", document.connected.len());
        return Err(unsound(message, "leave some out".to_owned()));
    }
    document.connected.iter().enumerate().try_for_each(|(index, name)| check_integration(index, name))
}

fn check_display_name(name: &str) -> Result<(), CallError> {
    let hint = || format!("write 1 to {DISPLAY_CHARS} visible characters, or leave it out");
    let chars = name.chars().count();
    if chars > DISPLAY_CHARS {
        let message = format!("`display_name` has {chars} characters and may have {DISPLAY_CHARS}");
        return Err(unsound(message, hint()));
    }
    match name.trim().is_empty() || name.chars().any(is_hidden) {
        true => Err(unsound("`display_name` is empty or holds hidden characters".to_owned(), hint())),
        false => Ok(()),
    }
}

fn check_integration(index: usize, name: &str) -> Result<(), CallError> {
    let hint = || "write one word each, like `stripe`".to_owned();
    let chars = name.chars().count();
    if chars > INTEGRATION_CHARS {
        let message =
            format!("entry {index} of `connected` has {chars} characters and may have {INTEGRATION_CHARS}");
        return Err(unsound(message, hint()));
    }
    match name.is_empty() || name.chars().any(|letter| letter.is_whitespace() || is_hidden(letter)) {
        true => Err(unsound(format!("entry {index} of `connected` is not a word"), hint())),
        false => Ok(()),
    }
}

fn unsound(message: String, hint: String) -> CallError {
    CallError::new(ErrorType::InvalidRequest, message, hint)
}

impl DocumentKey {
    pub fn agent(organization: &Name, agent: &Name) -> Self {
        Self::Agent { organization: organization.clone(), agent: agent.clone() }
    }

    pub fn kind(&self) -> DocumentKind {
        match self {
            Self::Platform => DocumentKind::Platform,
            Self::Organization(_) => DocumentKind::Organization,
            Self::Policy(_) => DocumentKind::Policy,
            Self::Agent { .. } => DocumentKind::Agent,
            Self::Grant(_) => DocumentKind::Grant,
            Self::Tool(_) => DocumentKind::Tool,
            Self::Mount(_) => DocumentKind::Mount,
            Self::ToolGrant(_) => DocumentKind::ToolGrant,
            Self::Enabled(_) => DocumentKind::Enabled,
            Self::Assertions(_) => DocumentKind::Assertions,
            Self::PublisherKey(..) => DocumentKind::PublisherKey,
        }
    }

    /// The organization that the document belongs to; empty for the platform's own.
    pub fn scope(&self) -> &str {
        match self {
            Self::Platform | Self::Organization(_) | Self::Grant(_) => "",
            _ => self.organization().map_or("", Name::as_str),
        }
    }

    /// The organization that must exist before the document can.
    pub fn organization(&self) -> Option<&Name> {
        match self {
            Self::Platform | Self::Organization(_) | Self::Grant(_) => None,
            Self::Policy(organization) | Self::Agent { organization, .. } => Some(organization),
            Self::Tool(key) | Self::Mount(key) | Self::ToolGrant(key) | Self::Enabled(key) => {
                Some(&key.organization)
            }
            Self::Assertions(organization) | Self::PublisherKey(organization, _) => organization.as_ref(),
        }
    }

    /// The name of the document within its scope.
    pub fn name(&self) -> &str {
        match self {
            Self::Platform => PLATFORM_NAME,
            Self::Organization(name) | Self::Agent { agent: name, .. } => name.as_str(),
            Self::Policy(_) => POLICY_NAME,
            Self::Assertions(_) => ASSERTIONS_NAME,
            Self::PublisherKey(_, name) => name.as_str(),
            Self::Grant(namespace) => namespace.as_str(),
            Self::Tool(key) | Self::Mount(key) | Self::ToolGrant(key) | Self::Enabled(key) => {
                key.namespace.as_str()
            }
        }
    }

    /// Hint for a document that does not exist, without a disclosure of other documents.
    pub fn hint_without(&self) -> &'static str {
        match self {
            Self::Platform => "none is in force, so every plugin is allowed; a `PUT` there makes one",
            Self::Assertions(_) => "none are in force; a `PUT` there makes them",
            Self::Grant(_) | Self::ToolGrant(_) => {
                "check the name; if it is right, it has no explicit grant: create one with `toolgate plugin grant` or `toolgate tool grant`"
            }
            _ => NOT_MADE,
        }
    }

    /// Parses the key of a stored row; `None` if the row is invalid.
    pub fn from_row(kind: &str, scope: &str, name: &str) -> Option<Self> {
        if kind == "grant" {
            return Namespace::parse(name).ok().filter(|_| scope.is_empty()).map(Self::Grant);
        }
        let of_a_tool = match kind {
            "tool" => Some(Self::Tool as fn(ToolKey) -> Self),
            "mount" => Some(Self::Mount as fn(ToolKey) -> Self),
            "tool_grant" => Some(Self::ToolGrant as fn(ToolKey) -> Self),
            "enabled" => Some(Self::Enabled as fn(ToolKey) -> Self),
            _ => None,
        };
        if let Some(of_a_tool) = of_a_tool {
            let (organization, namespace) = (Name::parse(scope).ok()?, Namespace::parse(name).ok()?);
            return Some(of_a_tool(ToolKey { organization, namespace }));
        }
        let name = Name::parse(name).ok()?;
        match kind {
            "platform" if scope.is_empty() && name.as_str() == PLATFORM_NAME => Some(Self::Platform),
            "organization" if scope.is_empty() => Some(Self::Organization(name)),
            "policy" if name.as_str() == POLICY_NAME => Some(Self::Policy(Name::parse(scope).ok()?)),
            "publisher_key" if scope.is_empty() => Some(Self::PublisherKey(None, name)),
            "publisher_key" => Some(Self::PublisherKey(Some(Name::parse(scope).ok()?), name)),
            "assertions" if name.as_str() == ASSERTIONS_NAME && scope.is_empty() => {
                Some(Self::Assertions(None))
            }
            "assertions" if name.as_str() == ASSERTIONS_NAME => {
                Some(Self::Assertions(Some(Name::parse(scope).ok()?)))
            }
            "agent" => Some(Self::Agent { organization: Name::parse(scope).ok()?, agent: name }),
            _ => None,
        }
    }
}

/// Formats the key for messages: ``agent `acme/support` ``.
impl fmt::Display for DocumentKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Platform => out.write_str("policy of the platform"),
            Self::Organization(name) => write!(out, "organization `{name}`"),
            Self::Policy(organization) => write!(out, "policy of organization `{organization}`"),
            Self::Agent { organization, agent } => write!(out, "agent `{organization}/{agent}`"),
            Self::Grant(namespace) => write!(out, "grant of plugin `{namespace}`"),
            Self::Tool(key) => write!(out, "tool `{key}`"),
            Self::Mount(key) => write!(out, "list of the server behind tool `{key}`"),
            Self::ToolGrant(key) => write!(out, "grant of tool `{key}`"),
            Self::Enabled(key) => write!(out, "settings and consent of plugin `{key}`"),
            Self::PublisherKey(None, name) => write!(out, "publisher key `{name}`"),
            Self::PublisherKey(Some(organization), name) => {
                write!(out, "publisher key `{name}` of organization `{organization}`")
            }
            Self::Assertions(None) => out.write_str("assertions of the platform"),
            Self::Assertions(Some(organization)) => {
                write!(out, "assertions of organization `{organization}`")
            }
        }
    }
}

impl fmt::Display for ToolKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.organization, self.namespace)
    }
}

impl DocumentKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Organization => "organization",
            Self::Policy => "policy",
            Self::Agent => "agent",
            Self::Grant => "grant",
            Self::Tool => "tool",
            Self::Mount => "mount",
            Self::ToolGrant => "tool_grant",
            Self::Enabled => "enabled",
            Self::Assertions => "assertions",
            Self::PublisherKey => "publisher_key",
        }
    }
}

impl Revision {
    /// The entity tag, including its quotes.
    pub fn etag(self) -> String {
        format!("\"{}\"", self.0)
    }

    /// Parses a strong entity tag of this daemon.
    fn from_etag(tag: &str) -> Option<Self> {
        let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
        let number: u64 = digits.parse().ok()?;
        // Another spelling of the same number ("+17", "017") is another tag.
        (number.to_string() == digits).then_some(Self(number))
    }
}

impl Precondition {
    /// Parses the two header values as received; several header lines are joined by commas.
    pub fn from_headers(if_match: Option<&str>, if_none_match: Option<&str>) -> Result<Self, CallError> {
        match (if_match.map(str::trim), if_none_match.map(str::trim)) {
            (None, None) => Ok(Self::Missing),
            (None, Some("*")) => Ok(Self::Absent),
            (Some("*"), None) => Ok(Self::Present),
            (Some(tags), None) => read_tags(tags),
            (None, Some(_)) => Err(unusable("`If-None-Match` of a write can only be `*`")),
            (Some(_), Some(_)) => Err(unusable("`If-Match` and `If-None-Match` exclude each other")),
        }
    }

    /// Returns whether a write may proceed if the document has revision `current`, or does not exist for `None`.
    pub fn check(&self, current: Option<Revision>) -> PreconditionResult {
        match (self, current) {
            (Self::Missing, _) => PreconditionResult::Required,
            (Self::Absent, None) | (Self::Present, Some(_)) => PreconditionResult::Holds,
            (Self::Absent, Some(_)) => PreconditionResult::Fails(PreconditionFailure::Exists),
            (Self::Present | Self::OneOf(_), None) => PreconditionResult::Fails(PreconditionFailure::Gone),
            (Self::OneOf(revisions), Some(current)) if revisions.contains(&current) => {
                PreconditionResult::Holds
            }
            (Self::OneOf(_), Some(_)) => PreconditionResult::Fails(PreconditionFailure::Changed),
        }
    }
}

/// Parses a list of tags. A foreign or weak tag is valid and never matches (RFC 9110, section 13.1.1); only a syntax
/// error is an error.
fn read_tags(tags: &str) -> Result<Precondition, CallError> {
    let mut revisions = Vec::new();
    let mut left = tags.trim_start_matches([' ', '\t', ',']);
    while !left.is_empty() {
        // A tag may contain commas, but no quotes.
        let opaque = left.strip_prefix("W/").unwrap_or(left);
        let end = opaque.strip_prefix('"').and_then(|inner| inner.find('"'));
        let end = end.ok_or_else(|| unusable("`If-Match` takes entity tags in double quotes"))?;
        let (tag, rest) = left.split_at(left.len() - opaque.len() + end + 2);
        revisions.extend(Revision::from_etag(tag));
        let after = rest.trim_start_matches([' ', '\t']);
        if !after.is_empty() && !after.starts_with(',') {
            return Err(unusable("`If-Match` takes entity tags separated by commas"));
        }
        left = after.trim_start_matches([' ', '\t', ',']);
    }
    Ok(Precondition::OneOf(revisions))
}

fn unusable(message: &str) -> CallError {
    let hint = "send `If-Match` with the `ETag` that was read, or `If-None-Match: *` for a new document";
    CallError::new(ErrorType::InvalidRequest, message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(if_match: Option<&str>, if_none_match: Option<&str>) -> Precondition {
        Precondition::from_headers(if_match, if_none_match).expect("sound headers")
    }

    #[test]
    fn a_write_that_says_nothing_is_asked_to_say_what_it_replaces() {
        assert_eq!(read(None, None).check(None), PreconditionResult::Required);
        assert_eq!(read(None, None).check(Some(Revision(1))), PreconditionResult::Required);
    }

    #[test]
    fn a_new_document_must_not_be_there() {
        assert_eq!(read(None, Some("*")).check(None), PreconditionResult::Holds);
        assert_eq!(
            read(None, Some("*")).check(Some(Revision(1))),
            PreconditionResult::Fails(PreconditionFailure::Exists)
        );
    }

    #[test]
    fn a_star_matches_whatever_is_there() {
        assert_eq!(read(Some("*"), None).check(Some(Revision(9))), PreconditionResult::Holds);
        assert_eq!(read(Some("*"), None).check(None), PreconditionResult::Fails(PreconditionFailure::Gone));
    }

    #[test]
    fn a_tag_matches_its_revision_alone() {
        let precondition = read(Some(&Revision(17).etag()), None);
        assert_eq!(precondition.check(Some(Revision(17))), PreconditionResult::Holds);
        assert_eq!(
            precondition.check(Some(Revision(18))),
            PreconditionResult::Fails(PreconditionFailure::Changed)
        );
        assert_eq!(precondition.check(None), PreconditionResult::Fails(PreconditionFailure::Gone));
    }

    #[test]
    fn one_of_several_tags_is_enough() {
        for tags in ["\"3\", \"17\"", "\"a,b\",W/\"3\" ,, \"17\""] {
            assert_eq!(read(Some(tags), None).check(Some(Revision(17))), PreconditionResult::Holds, "{tags}");
        }
    }

    #[test]
    fn weak_and_foreign_tags_match_nothing() {
        for tags in ["W/\"17\"", "\"017\"", "\"+17\"", "\"abc\"", "\"\"", ",", "\"a,b\""] {
            assert_eq!(
                read(Some(tags), None).check(Some(Revision(17))),
                PreconditionResult::Fails(PreconditionFailure::Changed),
                "{tags}"
            );
        }
    }

    #[test]
    fn headers_that_are_no_tags_are_refused() {
        let cases = [
            (Some("17"), None),
            (Some("\"3\" \"17\""), None),
            (Some("\"3\", 17"), None),
            (Some("\""), None),
            (None, Some("\"17\"")),
            (Some("*"), Some("*")),
        ];
        for (if_match, if_none_match) in cases {
            let error = Precondition::from_headers(if_match, if_none_match).expect_err("no precondition");
            assert_eq!(error.error_type, ErrorType::InvalidRequest);
        }
    }

    #[test]
    fn a_key_reads_back_from_its_row() {
        let name = |text| Name::parse(text).expect("a name");
        let policy = DocumentKey::Policy(name("acme"));
        let agent = DocumentKey::agent(&name("acme"), &name("bot"));
        let weather = Namespace::parse("weather").expect("a namespace");
        let grant = DocumentKey::Grant(weather.clone());
        let own = ToolKey { organization: name("acme"), namespace: weather };
        let platform = [DocumentKey::Platform, DocumentKey::Organization(name("acme")), grant];
        let tool = [DocumentKey::Tool, DocumentKey::Mount, DocumentKey::ToolGrant, DocumentKey::Enabled]
            .map(|key| key(own.clone()));
        let assertions = [None, Some(name("acme"))].map(DocumentKey::Assertions);
        let publishers =
            [None, Some(name("acme"))].map(|owner| DocumentKey::PublisherKey(owner, name("acme-2026")));
        for key in platform.into_iter().chain(tool).chain([policy, agent]).chain(assertions).chain(publishers)
        {
            let row = DocumentKey::from_row(key.kind().as_str(), key.scope(), key.name());
            assert_eq!(row, Some(key));
        }
        assert_eq!(DocumentKey::from_row("organization", "acme", "bot"), None);
        assert_eq!(DocumentKey::from_row("policy", "acme", "bot"), None);
    }

    #[test]
    fn a_misspelt_field_of_an_organization_is_refused() {
        assert!(serde_json::from_str::<OrganizationDocument>(r#"{"conected":[]}"#).is_err());
        assert!(serde_json::from_str::<OrganizationDocument>(r#"{"connected":["stripe"]}"#).is_ok());
    }

    fn with_display_name(display_name: &str) -> OrganizationDocument {
        OrganizationDocument { display_name: Some(display_name.into()), ..Default::default() }
    }

    fn with_connections(names: Vec<String>) -> OrganizationDocument {
        OrganizationDocument { connected: names, ..Default::default() }
    }

    #[test]
    fn texts_of_an_organization_are_bounded_and_what_they_had_is_said() {
        for sound in [with_display_name(&"é".repeat(200)), with_connections(vec!["x".repeat(100); 10_000])] {
            check_organization(&sound).expect("at the bound");
        }
        let cases = [
            (with_display_name(&"é".repeat(201)), "`display_name` has 201 characters and may have 200"),
            (with_display_name(" "), "`display_name` is empty or holds hidden characters"),
            (with_display_name("Ac\nme\u{202e}"), "`display_name` is empty or holds hidden characters"),
            (with_connections(vec!["x".into(); 10_001]), "`connected` has 10001 entries and may have 10000"),
            (
                with_connections(vec!["x".into(), "é".repeat(101)]),
                "entry 1 of `connected` has 101 characters and may have 100",
            ),
            (with_connections(vec![String::new()]), "entry 0 of `connected` is not a word"),
            (with_connections(vec!["two words".into()]), "entry 0 of `connected` is not a word"),
        ];
        for (document, message) in cases {
            let error = check_organization(&document).expect_err(message);
            assert_eq!((error.error_type, error.message.as_str()), (ErrorType::InvalidRequest, message));
        }
    }
}
