//! The agent's layer: its document, and what it compiles to.
//!
//! A document is strict (`document.rs`). A tool of another server than the one that the agent is bound to is
//! refused when it is written (G5), as is a profile or a subtype that nobody defined; a tool that is not loaded is only
//! warned of.

use std::sync::Arc;

use toolgate_api::nearest;
use toolgate_api::text::escape_for_display;

use super::Rules;
use super::catalogue::{Catalogue, Mark};
use super::document::{DocumentError, Fields, Part, Warning, limits_without_effect, read, unresolved};
use super::organization::{OrgDocument, OrgRules};
use super::platform::{PlatformDocument, PlatformRules};
use super::set::{SharedSet, ToolSet};
use super::tools::ToolList;
use crate::egress::{NetworkRule, read_network};
use crate::limits::LimitsPatch;
use crate::name::{Name, Namespace};

/// Longest display name, in characters.
const DISPLAY_CHARS: usize = 200;

const FIELDS: Fields = Fields {
    whose: "an agent's document",
    known: &[
        "name",
        "enabled",
        "disabled",
        "server",
        "profile",
        "subtype",
        "autonomy",
        "require_approval_for",
        "limits",
        "network",
    ],
    to_come: &["quotas"],
};

/// An agent's document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentDocument {
    /// What people call it.
    pub name: Option<String>,
    /// The tools it may call. Absent: what its profile gives, and without a profile none.
    pub enabled: Option<ToolList>,
    /// The tools it may not call, whatever else says so.
    pub disabled: ToolList,
    /// The one plugin it is bound to.
    pub server: Option<Namespace>,
    /// The named set of tools that it has.
    pub profile: Option<Name>,
    /// What kind of agent it is, which gives it a profile where it names none.
    pub subtype: Option<Name>,
    /// How far it may go without a person.
    pub autonomy: Autonomy,
    /// The tools whose calls a person must approve.
    pub require_approval_for: Option<ToolList>,
    /// Its limits.
    pub limits: LimitsPatch,
    /// The requests that are left of what its tools were granted. Absent: all of them.
    pub network: Option<Arc<[NetworkRule]>>,
}

/// How far an agent may go without a person (G10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Autonomy {
    /// It has the tools that change nothing, and no others.
    DraftOnly,
    /// A person approves what its document names, or without that list whatever changes something.
    #[default]
    Supervised,
    /// A person approves what its document names, and nothing else.
    Autonomous,
}

impl Autonomy {
    const WORDS: [(&str, Self); 3] =
        [("draft_only", Self::DraftOnly), ("supervised", Self::Supervised), ("autonomous", Self::Autonomous)];

    /// As documents write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DraftOnly => "draft_only",
            Self::Supervised => "supervised",
            Self::Autonomous => "autonomous",
        }
    }
}

impl AgentDocument {
    /// Reads a document, or says what is wrong with it and where.
    pub fn parse(json: &str) -> Result<Self, DocumentError> {
        let value = read(json)?;
        let whole = Part::whole(&value, &FIELDS)?;
        let tools = |name| whole.member(name).map(|part| part.tools()).transpose();
        let document = Self {
            name: whole.member("name").map(|part| display_name(&part)).transpose()?,
            enabled: tools("enabled")?,
            disabled: tools("disabled")?.unwrap_or_default(),
            server: whole.member("server").map(|part| namespace(&part)).transpose()?,
            profile: whole.member("profile").map(|part| part.name()).transpose()?,
            subtype: whole.member("subtype").map(|part| part.name()).transpose()?,
            autonomy: whole
                .member("autonomy")
                .map_or(Ok(Autonomy::default()), |part| part.one_of(&Autonomy::WORDS))?,
            require_approval_for: tools("require_approval_for")?,
            limits: whole.member("limits").map_or(Ok(LimitsPatch::new()), |part| part.limits())?,
            network: whole.member("network").map(|part| read_network(&part)).transpose()?.map(Arc::from),
        };
        document.check_binding()?;
        Ok(document)
    }

    /// An agent that may call everything that the layers above give, without a person.
    pub fn everything() -> Self {
        Self { enabled: Some(ToolList::All), autonomy: Autonomy::Autonomous, ..Self::default() }
    }

    /// That what it names is defined by the policies above, and that it is bound where they demand it.
    pub fn check(
        &self,
        platform: &PlatformDocument,
        organization: &OrgDocument,
    ) -> Result<(), DocumentError> {
        let profiles = platform.profiles.keys().chain(organization.profiles.keys()).map(Name::as_str);
        if let Some(profile) = &self.profile
            && !profiles.clone().any(|known| known == profile.as_str())
        {
            return Err(DocumentError::undefined("/profile", "profile", profile.as_str(), profiles));
        }
        let subtypes = platform.subtypes.keys().map(Name::as_str);
        if let Some(subtype) = &self.subtype
            && !platform.subtypes.contains_key(subtype)
        {
            return Err(DocumentError::undefined("/subtype", "subtype", subtype.as_str(), subtypes));
        }
        if platform.server_required && self.server.is_none() {
            let hint = "name the one plugin whose tools the agent may call";
            return Err(DocumentError::new(
                "/server",
                "the platform demands that every agent is bound to a server",
                hint,
            ));
        }
        Ok(())
    }

    /// What is accepted and probably not meant, under these rules of the layers above. Whether all of them together
    /// leave the agent anything is the gate's to say.
    pub fn warnings<P>(&self, rules: &Rules<P>) -> Vec<Warning> {
        let catalogue = &*rules.catalogue;
        let mut warnings = Vec::new();
        let mut list = |place: &str, list: &ToolList| warnings.extend(unresolved(place, list, catalogue));
        self.enabled.iter().for_each(|enabled| list("/enabled", enabled));
        list("/disabled", &self.disabled);
        self.require_approval_for.iter().for_each(|named| list("/require_approval_for", named));
        warnings.extend(self.unresolved_server(catalogue));
        let (platform, organization) = (rules.platform.document(), rules.organization.document());
        let above = catalogue.platform_limits().narrow(&platform.limits).narrow(&organization.limits);
        warnings.extend(limits_without_effect(&self.limits, &above));
        warnings.extend(self.undefined_names(rules));
        warnings
    }

    /// A profile or subtype that was defined when the document was written.
    fn undefined_names<P>(&self, rules: &Rules<P>) -> Option<Warning> {
        let undefined = self.check(rules.platform.document(), rules.organization.document()).err()?;
        Some(Warning::new("UNDEFINED", undefined.place, undefined.message))
    }

    fn unresolved_server<P>(&self, catalogue: &Catalogue<P>) -> Option<Warning> {
        let server = self.server.as_ref()?;
        if catalogue.plugin(server).is_some() {
            return None;
        }
        let loaded = catalogue.plugins().map(|plugin| plugin.descriptor.namespace.as_str());
        let message = format!("no loaded plugin is called `{server}`");
        let warning = Warning::new("UNRESOLVED_SERVER", "/server", message);
        Some(Warning { nearest: nearest(server.as_str(), loaded).map(str::to_owned), ..warning })
    }

    fn check_binding(&self) -> Result<(), DocumentError> {
        let Some(server) = &self.server else { return Ok(()) };
        let lists = [
            ("enabled", self.enabled.as_ref()),
            ("require_approval_for", self.require_approval_for.as_ref()),
        ];
        lists.into_iter().try_for_each(|(field, list)| check_binding(field, list, server))
    }
}

fn display_name(part: &Part<'_>) -> Result<String, DocumentError> {
    let name = part.text()?;
    if name.trim().is_empty()
        || name.chars().count() > DISPLAY_CHARS
        || toolgate_api::text::hidden_character(name).is_some()
    {
        let hint = format!("write at most {DISPLAY_CHARS} visible characters, or leave it out");
        return Err(part.error("the name is empty, too long or holds hidden characters", hint));
    }
    Ok(name.to_owned())
}

fn namespace(part: &Part<'_>) -> Result<Namespace, DocumentError> {
    Namespace::parse(part.text()?)
        .map_err(|error| part.error(escape_for_display(&error.message, 300), error.hint))
}

fn check_binding(field: &str, list: Option<&ToolList>, server: &Namespace) -> Result<(), DocumentError> {
    let patterns = list.map(ToolList::patterns).unwrap_or_default();
    let foreign = patterns
        .iter()
        .enumerate()
        .find(|(_, pattern)| pattern.namespace().is_some_and(|named| named != server));
    let Some((index, pattern)) = foreign else { return Ok(()) };
    let message = format!("the agent is bound to the server `{server}`, and `{pattern}` is not of it");
    Err(DocumentError::new(
        format!("/{field}/{index}"),
        message,
        "take it out of the list, or leave out `server`",
    ))
}

/// What an agent's document says, over the tools of one catalogue.
#[derive(Clone, Debug)]
pub struct AgentRules {
    document: Arc<AgentDocument>,
    /// The tools of the server that the agent is bound to; all where it is bound to none.
    pub(crate) bound: SharedSet,
    pub(crate) disabled: SharedSet,
    /// What its profile gives; all where it has none.
    pub(crate) profile: SharedSet,
    pub(crate) enabled: SharedSet,
    /// What its autonomy leaves.
    pub(crate) autonomy: SharedSet,
    /// What a person must approve.
    pub(crate) approval: SharedSet,
    of: Mark,
}

impl AgentRules {
    /// Compiles a document under the rules of its organization and the platform.
    pub fn compile<P>(
        document: Arc<AgentDocument>,
        organization: &OrgRules,
        platform: &PlatformRules,
        catalogue: &Catalogue<P>,
    ) -> Self {
        let named = document.profile_under(platform.document());
        let profile = named.map(|name| name.and_then(|name| organization.profile(name, platform)).cloned());
        let profile = profile.map(Option::unwrap_or_default);
        let enabled = match (&document.enabled, &profile) {
            (None, Some(_)) => SharedSet::ALL,
            (list, _) => SharedSet::compile(list.as_ref(), catalogue),
        };
        Self {
            bound: bound(&document, platform, catalogue),
            disabled: SharedSet::compile(Some(&document.disabled), catalogue),
            profile: profile.unwrap_or(SharedSet::ALL),
            enabled,
            autonomy: match document.autonomy {
                Autonomy::DraftOnly => catalogue.read_only().clone(),
                Autonomy::Supervised | Autonomy::Autonomous => SharedSet::ALL,
            },
            approval: match (&document.require_approval_for, document.autonomy) {
                (None, Autonomy::Supervised) => catalogue.changing().clone(),
                (list, _) => SharedSet::compile(list.as_ref(), catalogue),
            },
            of: organization.mark().clone(),
            document,
        }
    }

    /// The document.
    pub fn document(&self) -> &Arc<AgentDocument> {
        &self.document
    }

    /// The agent's limits.
    pub fn limits(&self) -> &LimitsPatch {
        &self.document.limits
    }

    /// Whether these rules were compiled under those of the organization.
    pub fn is_under(&self, organization: &OrgRules) -> bool {
        self.of == *organization.mark()
    }

    /// Whether its profile, or that of its subtype, names the tool; without one nothing is preferred.
    pub fn prefers(&self, index: usize, platform: &PlatformRules) -> bool {
        self.document.profile_under(platform.document()).is_some() && self.profile.contains(index)
    }
}

impl AgentDocument {
    /// The profile that it asks for: the one it names, or that of its subtype. Inside, none where the subtype is not
    /// defined any more, which gives nothing.
    pub(crate) fn profile_under<'a>(&'a self, platform: &'a PlatformDocument) -> Option<Option<&'a Name>> {
        match (&self.profile, &self.subtype) {
            (Some(profile), _) => Some(Some(profile)),
            (None, Some(subtype)) => Some(platform.subtypes.get(subtype)),
            (None, None) => None,
        }
    }
}

fn bound<P>(document: &AgentDocument, platform: &PlatformRules, catalogue: &Catalogue<P>) -> SharedSet {
    match &document.server {
        Some(server) => {
            let mut set = ToolSet::empty(catalogue.tools().len());
            catalogue.numbers_of(server).for_each(|number| set.insert(number));
            SharedSet::new(set, catalogue)
        }
        None if platform.document().server_required => SharedSet::NONE,
        None => SharedSet::ALL,
    }
}

#[cfg(test)]
mod tests;
