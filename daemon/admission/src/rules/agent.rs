//! The agent's layer: its document, and the rules it compiles to.
//!
//! Writing a document fails if it names a tool of another server than the one that the agent is bound to (G5), or an
//! undefined profile or subtype. A tool that is not loaded only causes a warning.

use std::sync::Arc;

use toolgate_api::nearest;
use toolgate_api::text::{escape_for_display, hidden_character};

use super::Rules;
use super::catalogue::{Catalogue, SnapshotId};
use super::document::{DocumentError, Fields, Part, Warning, limits_without_effect, read, unresolved};
use super::organization::{OrgDocument, OrgRules};
use super::platform::{PlatformDocument, PlatformRules};
use super::set::SharedSet;
use super::tools::{ToolList, ToolPattern};
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
    /// Its display name.
    pub name: Option<String>,
    /// The tools that it may call. Absent: those of its profile, and without a profile none.
    pub enabled: Option<ToolList>,
    /// The tools that it may not call. This list wins over all others.
    pub disabled: ToolList,
    /// The one plugin that it is bound to.
    pub server: Option<Namespace>,
    /// Its profile, a named list of tools.
    pub profile: Option<Name>,
    /// Its subtype, which gives it a profile if it names none.
    pub subtype: Option<Name>,
    /// Which calls it may make without a person's approval.
    pub autonomy: Autonomy,
    /// The tools whose calls need approval.
    pub require_approval_for: Option<ToolList>,
    /// Its limits.
    pub limits: LimitsPatch,
    /// The requests that its tools may send, of those that their grants allow. Absent: all of them.
    pub network: Option<Arc<[NetworkRule]>>,
}

/// Which calls an agent may make without a person's approval (G10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Autonomy {
    /// It has read-only tools alone.
    DraftOnly,
    /// Calls of the tools in `require_approval_for` need approval; without that list, calls of all tools that are not
    /// read-only.
    #[default]
    Supervised,
    /// Calls of the tools in `require_approval_for` need approval, and no others.
    Autonomous,
}

impl Autonomy {
    /// INVARIANT: in the order of the variants.
    const WORDS: [(&str, Self); 3] =
        [("draft_only", Self::DraftOnly), ("supervised", Self::Supervised), ("autonomous", Self::Autonomous)];

    /// The word for it in documents.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

impl AgentDocument {
    /// Parses a document.
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

    /// A document that allows every tool of the layers above, without approval.
    pub fn allow_all() -> Self {
        Self { enabled: Some(ToolList::All), autonomy: Autonomy::Autonomous, ..Self::default() }
    }

    /// Returns an error if a profile or subtype is undefined, or a server binding that the platform demands is missing.
    pub fn check(
        &self,
        platform: &PlatformDocument,
        organization: &OrgDocument,
    ) -> Result<(), DocumentError> {
        let profiles = platform.profiles.keys().chain(organization.profiles.keys()).map(Name::as_str);
        if let Some(profile) = &self.profile
            && !profiles.clone().any(|known| known == profile.as_str())
        {
            return Err(DocumentError::undefined_name("/profile", "profile", profile.as_str(), profiles));
        }
        let subtypes = platform.subtypes.keys().map(Name::as_str);
        if let Some(subtype) = &self.subtype
            && !platform.subtypes.contains_key(subtype)
        {
            return Err(DocumentError::undefined_name("/subtype", "subtype", subtype.as_str(), subtypes));
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

    /// Returns a warning for each part of the document that has no effect under these rules. Whether all layers together
    /// leave a callable tool is not checked here but by [`no_tools_warning`](crate::no_tools_warning).
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

    /// A profile or subtype that is no longer defined.
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
        for (field, list) in
            [("enabled", &self.enabled), ("require_approval_for", &self.require_approval_for)]
        {
            let patterns = list.as_ref().map(ToolList::patterns).unwrap_or_default();
            for (index, pattern) in patterns.iter().enumerate() {
                if pattern.namespace().is_some_and(|namespace| namespace != server) {
                    let message =
                        format!("the agent is bound to the server `{server}`, and `{pattern}` is not of it");
                    let hint = "take it out of the list, or leave out `server`";
                    return Err(DocumentError::new(format!("/{field}/{index}"), message, hint));
                }
            }
        }
        Ok(())
    }
}

fn display_name(part: &Part<'_>) -> Result<String, DocumentError> {
    let name = part.text()?;
    if name.trim().is_empty() || name.chars().count() > DISPLAY_CHARS || hidden_character(name).is_some() {
        let hint = format!("write at most {DISPLAY_CHARS} visible characters, or leave it out");
        return Err(part.error("the name is empty, too long or holds hidden characters", hint));
    }
    Ok(name.to_owned())
}

fn namespace(part: &Part<'_>) -> Result<Namespace, DocumentError> {
    Namespace::parse(part.text()?)
        .map_err(|error| part.error(escape_for_display(&error.message, 300), error.hint))
}

/// The compiled document of an agent, for the tools of one catalogue.
#[derive(Clone, Debug)]
pub struct AgentRules {
    document: Arc<AgentDocument>,
    /// The tools of the server that the agent is bound to; all if it is bound to none.
    pub(crate) bound: SharedSet,
    pub(crate) disabled: SharedSet,
    /// The tools of its profile; all if it has none.
    pub(crate) profile: SharedSet,
    pub(crate) enabled: SharedSet,
    /// The tools that its autonomy allows.
    pub(crate) autonomy: SharedSet,
    /// The tools whose calls need approval.
    pub(crate) approval: SharedSet,
    parent: SnapshotId,
}

impl AgentRules {
    /// Compiles a document under the rules of its organization and the platform.
    pub fn compile<P>(
        document: Arc<AgentDocument>,
        organization: &OrgRules,
        platform: &PlatformRules,
        catalogue: &Catalogue<P>,
    ) -> Self {
        let name = document.profile_under(platform.document());
        let profile = name.map(|name| name.and_then(|name| organization.profile(name, platform)).cloned());
        let profile = profile.map(Option::unwrap_or_default);
        let enabled = match (&document.enabled, &profile) {
            (None, Some(_)) => SharedSet::ALL,
            (list, _) => SharedSet::compile(list.as_ref(), catalogue),
        };
        Self {
            bound: server_tools(&document, platform, catalogue),
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
            parent: organization.id().clone(),
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
        self.parent == *organization.id()
    }

    /// Whether its profile, or that of its subtype, has the tool; false without a profile.
    pub fn prefers(&self, index: usize, platform: &PlatformRules) -> bool {
        self.document.profile_under(platform.document()).is_some() && self.profile.contains(index)
    }
}

impl AgentDocument {
    /// Returns the profile that it names, or that of its subtype. The inner `None` is a subtype that is no longer defined,
    /// which has no tools.
    pub(crate) fn profile_under<'a>(&'a self, platform: &'a PlatformDocument) -> Option<Option<&'a Name>> {
        match (&self.profile, &self.subtype) {
            (Some(profile), _) => Some(Some(profile)),
            (None, Some(subtype)) => Some(platform.subtypes.get(subtype)),
            (None, None) => None,
        }
    }
}

fn server_tools<P>(
    document: &AgentDocument,
    platform: &PlatformRules,
    catalogue: &Catalogue<P>,
) -> SharedSet {
    match &document.server {
        Some(server) => {
            let list = ToolList::List(vec![ToolPattern::Plugin(server.clone())]);
            SharedSet::compile(Some(&list), catalogue)
        }
        None if platform.document().server_required => SharedSet::NONE,
        None => SharedSet::ALL,
    }
}

#[cfg(test)]
mod tests;
