//! The platform's layer: the operator's policy over everything that is loaded, and what it compiles to.
//!
//! Without a policy every loaded tool is allowed and nothing is universal; profiles, subtypes, channels and the rest are
//! the operator's to define. The tables that ship as an example are data like anybody's.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::catalogue::{Catalogue, Mark};
use super::channels::{self, ChannelTable, Channels};
use super::document::{
    DocumentError, Fields, Part, Warning, limits_without_effect, pointer, read, unresolved,
    unresolved_pattern,
};
use super::set::{SharedSet, ToolSet};
use super::standing::{Rule, Standings};
use super::tools::{ToolList, ToolPattern};
use crate::broker::{Intent, Patterns};
use crate::limits::LimitsPatch;
use crate::name::Name;

const FIELDS: Fields = Fields {
    whose: "the platform's policy",
    known: &[
        "allowed",
        "blocked",
        "universal",
        "profiles",
        "subtypes",
        "channels",
        "integrations",
        "intents",
        "limits",
        "server_binding",
    ],
    to_come: &[],
};

const INTENT_FIELDS: Fields = Fields { whose: "an intent", known: &["patterns", "tools"], to_come: &[] };

/// Profiles and the tools of each, as a document has them.
pub type ProfileTable = BTreeMap<Name, ToolList>;

/// Tools and the integration that each needs, as a document has them.
pub type IntegrationTable = Vec<(ToolPattern, Name)>;

/// Intents by name, as a document has them.
pub type IntentTable = BTreeMap<String, Intent>;

/// The platform's policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlatformDocument {
    /// The tools that there are for anybody. Absent: every loaded one.
    pub allowed: Option<ToolList>,
    /// The tools that nobody may call.
    pub blocked: ToolList,
    /// Tools that change nothing and stay available whatever profiles, lists and the broker leave out (G14).
    pub universal: ToolList,
    /// Named sets of tools (G9).
    pub profiles: ProfileTable,
    /// The profile that agents of a subtype have.
    pub subtypes: BTreeMap<Name, Name>,
    /// The channels that there are, and the tools that each blocks (G12).
    pub channels: ChannelTable,
    /// What tools need beyond what their plugins say (G8).
    pub integrations: IntegrationTable,
    /// What a message can be about, and the tools for it (G15).
    pub intents: IntentTable,
    /// Limits of every call.
    pub limits: LimitsPatch,
    /// Whether every agent must be bound to one plugin (G5).
    pub server_required: bool,
}

impl PlatformDocument {
    /// Reads a policy, or says what is wrong with it and where.
    pub fn parse(json: &str) -> Result<Self, DocumentError> {
        let value = read(json)?;
        let whole = Part::whole(&value, &FIELDS)?;
        let tools = |name| whole.member(name).map_or(Ok(ToolList::NONE), |part| part.tools());
        let document = Self {
            allowed: whole.member("allowed").map(|part| part.tools()).transpose()?,
            blocked: tools("blocked")?,
            universal: tools("universal")?,
            profiles: profiles(&whole)?,
            subtypes: whole
                .member("subtypes")
                .map_or(Ok(BTreeMap::new()), |part| part.table("a subtype", Part::name))?,
            channels: whole.member("channels").map_or(Ok(BTreeMap::new()), |part| channels::read(&part))?,
            integrations: integrations(&whole)?,
            intents: whole.member("intents").map_or(Ok(IntentTable::new()), |part| intents(&part))?,
            limits: whole.member("limits").map_or(Ok(LimitsPatch::new()), |part| part.limits())?,
            server_required: whole
                .member("server_binding")
                .map_or(Ok(false), |part| part.one_of(&[("optional", false), ("required", true)]))?,
        };
        document.check_subtypes()?;
        Ok(document)
    }

    fn check_subtypes(&self) -> Result<(), DocumentError> {
        let undefined = self.subtypes.iter().find(|(_, profile)| !self.profiles.contains_key(*profile));
        let Some((subtype, profile)) = undefined else { return Ok(()) };
        Err(DocumentError::undefined(
            pointer("/subtypes", subtype.as_str()),
            "profile",
            profile.as_str(),
            self.profiles.keys().map(Name::as_str),
        ))
    }

    /// That the tools which are loaded already can be what the policy makes them.
    pub fn check<P>(&self, catalogue: &Catalogue<P>) -> Result<(), DocumentError> {
        for (index, pattern) in self.universal.patterns().iter().enumerate() {
            let mut set = ToolSet::empty(catalogue.tools().len());
            set.add_pattern(pattern, catalogue);
            let changes = set.iter().filter(|number| !catalogue.read_only().contains(*number));
            if let Some(tool) = changes.filter_map(|number| catalogue.tools().get(number)).next() {
                let message = format!("`{}` is not read-only, which universal tools must be", tool.id());
                let hint =
                    "name only tools that change nothing; others are given by `profiles` and `enabled`";
                return Err(DocumentError::new(format!("/universal/{index}"), message, hint));
            }
        }
        Ok(())
    }

    /// What is accepted and probably not meant, given what is loaded.
    pub fn warnings<P>(&self, catalogue: &Catalogue<P>) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut list = |place: &str, list: &ToolList| warnings.extend(unresolved(place, list, catalogue));
        self.allowed.iter().for_each(|allowed| list("/allowed", allowed));
        list("/blocked", &self.blocked);
        list("/universal", &self.universal);
        profile_warnings(&self.profiles, catalogue, &mut warnings);
        warnings.extend(channels::warnings(&self.channels, catalogue));
        warnings.extend(integration_warnings(&self.integrations, catalogue));
        for (name, intent) in &self.intents {
            let place = format!("{}/tools", pointer("/intents", name));
            warnings.extend(unresolved(&place, &intent.tools, catalogue));
        }
        warnings.extend(limits_without_effect(&self.limits, catalogue.platform_limits()));
        warnings.extend(self.universal_without_effect());
        warnings
    }

    /// A universal tool that the platform's own lists keep out.
    fn universal_without_effect(&self) -> impl Iterator<Item = Warning> + '_ {
        let patterns = self.universal.patterns().iter().enumerate();
        patterns.filter_map(|(index, pattern)| {
            let ToolPattern::Tool(id) = pattern else { return None };
            let is_out = self.blocked.entry_for(id).is_some()
                || self.allowed.as_ref().is_some_and(|allowed| allowed.entry_for(id).is_none());
            let message = format!("`{id}` is universal, and the platform's own lists keep it out");
            is_out.then(|| Warning::new("NO_EFFECT", format!("/universal/{index}"), message))
        })
    }
}

fn intents(part: &Part<'_>) -> Result<IntentTable, DocumentError> {
    let table = part.table("an intent", |intent| {
        intent.check_fields(&INTENT_FIELDS)?;
        Ok(Intent {
            patterns: intent.member("patterns").map_or(Ok(Vec::new()), |patterns| patterns.texts())?,
            tools: intent.member("tools").map_or(Ok(ToolList::NONE), |tools| tools.tools())?,
        })
    })?;
    let table: IntentTable = table.into_iter().map(|(name, intent)| (name.to_string(), intent)).collect();
    Patterns::compile(&table, "/intents")?;
    Ok(table)
}

pub(super) fn profiles(whole: &Part<'_>) -> Result<ProfileTable, DocumentError> {
    whole.member("profiles").map_or(Ok(BTreeMap::new()), |part| part.table("a profile", Part::tools))
}

pub(super) fn integrations(whole: &Part<'_>) -> Result<IntegrationTable, DocumentError> {
    whole.member("integrations").map_or(Ok(Vec::new()), |part| part.tool_table(Part::name))
}

pub(super) fn profile_warnings<P>(
    profiles: &ProfileTable,
    catalogue: &Catalogue<P>,
    warnings: &mut Vec<Warning>,
) {
    for (name, list) in profiles {
        warnings.extend(unresolved(&pointer("/profiles", name.as_str()), list, catalogue));
    }
}

pub(super) fn integration_warnings<'a, P>(
    table: &'a IntegrationTable,
    catalogue: &'a Catalogue<P>,
) -> impl Iterator<Item = Warning> + 'a {
    table.iter().filter_map(|(pattern, _)| {
        unresolved_pattern(&pointer("/integrations", &pattern.to_string()), pattern, catalogue)
    })
}

/// What the platform's policy says, over the tools of one catalogue.
#[derive(Clone, Debug)]
pub struct PlatformRules {
    document: Arc<PlatformDocument>,
    /// What it says of each tool, before any organization has said something.
    pub(super) standings: Standings,
    profiles: BTreeMap<Name, SharedSet>,
    pub(super) channels: Arc<Channels>,
    /// The tools that need an integration, by what plugins and the platform say.
    pub(super) needs: BTreeMap<Box<str>, ToolSet>,
    of: Mark,
    mark: Mark,
}

impl PlatformRules {
    /// Compiles a policy against what is loaded.
    pub fn compile<P>(document: Arc<PlatformDocument>, catalogue: &Catalogue<P>) -> Self {
        let (channels, channelled) = Channels::compile(&[&document.channels], catalogue);
        let compile = |list: &ToolList| SharedSet::compile(Some(list), catalogue);
        Self {
            standings: standings(&document, &channelled, catalogue),
            profiles: document.profiles.iter().map(|(name, list)| (name.clone(), compile(list))).collect(),
            channels: Arc::new(channels),
            needs: needs(&document.integrations, catalogue),
            of: catalogue.mark().clone(),
            mark: Mark::new(),
            document,
        }
    }

    /// The policy.
    pub fn document(&self) -> &Arc<PlatformDocument> {
        &self.document
    }

    /// Whether these rules were compiled against this catalogue.
    pub fn is_for<P>(&self, catalogue: &Catalogue<P>) -> bool {
        self.of == *catalogue.mark()
    }

    /// Whether a tool stays available whatever lists and profiles say.
    pub fn is_universal(&self, index: usize) -> bool {
        self.standings.of(index).has(Rule::Universal)
    }

    pub(super) fn profile(&self, name: &Name) -> Option<&SharedSet> {
        self.profiles.get(name)
    }

    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }
}

fn standings<P>(document: &PlatformDocument, channelled: &ToolSet, catalogue: &Catalogue<P>) -> Standings {
    let mut universal = ToolSet::compile(&document.universal, catalogue);
    universal.intersect(&catalogue.read_only().to_set(catalogue));
    let mut standings = Standings::new(catalogue.tools().len());
    standings.add(Rule::PluginDisabled, &ToolSet::matching(catalogue, |tool| tool.plugin().disabled));
    standings.add_list(Rule::Blocked, &document.blocked, catalogue);
    standings.add_list(Rule::Allowed, document.allowed.as_ref().unwrap_or(&ToolList::All), catalogue);
    standings.add(Rule::Universal, &universal);
    standings.add(Rule::Channel, channelled);
    standings
}

fn needs<P>(table: &IntegrationTable, catalogue: &Catalogue<P>) -> BTreeMap<Box<str>, ToolSet> {
    let mut needs = BTreeMap::new();
    for tool in catalogue.tools() {
        for integration in &tool.descriptor().required_integrations {
            of(&mut needs, integration, catalogue).insert(tool.index());
        }
    }
    for (pattern, integration) in table {
        of(&mut needs, integration.as_str(), catalogue).add_pattern(pattern, catalogue);
    }
    needs
}

fn of<'a, P>(
    needs: &'a mut BTreeMap<Box<str>, ToolSet>,
    integration: &str,
    catalogue: &Catalogue<P>,
) -> &'a mut ToolSet {
    needs.entry(integration.into()).or_insert_with(|| ToolSet::empty(catalogue.tools().len()))
}

#[cfg(test)]
mod tests;
