//! The platform's layer: the operator's policy for all loaded tools, and the rules it compiles to.
//!
//! Without a policy every loaded tool is allowed and none is universal, and there are no profiles, subtypes or channels.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::catalogue::{Catalogue, SnapshotId};
use super::document::{
    DocumentError, Fields, Part, Warning, limits_without_effect, pointer, read, unresolved,
};
use super::intents::{IntentTable, read_intents};
use super::set::{SharedSet, ToolSet};
use super::tables::{
    ChannelTable, Channels, IntegrationTable, ProfileTable, compile_profiles, read_channels,
    read_integrations, read_profiles, table_warnings,
};
use super::tool_flags::{ToolFlag, ToolFlagTable};
use super::tools::{ToolList, ToolPattern};
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

/// The platform's policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlatformDocument {
    /// The tools that any agent may have. Absent: every loaded tool.
    pub allowed: Option<ToolList>,
    /// The tools that no agent may call.
    pub blocked: ToolList,
    /// Read-only tools that stay available without being in profiles, lists or the broker's selection (G14).
    pub universal: ToolList,
    /// Named sets of tools (G9).
    pub profiles: ProfileTable,
    /// The profile of each subtype of agents.
    pub subtypes: BTreeMap<Name, Name>,
    /// The channels, and the tools that each blocks (G12).
    pub channels: ChannelTable,
    /// Integrations that tools need, in addition to those of their plugins' descriptions (G8).
    pub integrations: IntegrationTable,
    /// Intents of messages, and the tools for each (G15).
    pub intents: IntentTable,
    /// Limits of every call.
    pub limits: LimitsPatch,
    /// Whether every agent must be bound to one plugin (G5).
    pub server_required: bool,
}

impl PlatformDocument {
    /// Parses a policy.
    pub fn parse(json: &str) -> Result<Self, DocumentError> {
        let value = read(json)?;
        let whole = Part::whole(&value, &FIELDS)?;
        let tools = |name| whole.member(name).map_or(Ok(ToolList::NONE), |part| part.tools());
        let document = Self {
            allowed: whole.member("allowed").map(|part| part.tools()).transpose()?,
            blocked: tools("blocked")?,
            universal: tools("universal")?,
            profiles: read_profiles(&whole)?,
            subtypes: whole
                .member("subtypes")
                .map_or(Ok(BTreeMap::new()), |part| part.table("a subtype", Part::name))?,
            channels: read_channels(&whole)?,
            integrations: read_integrations(&whole)?,
            intents: whole.member("intents").map_or(Ok(IntentTable::new()), |part| read_intents(&part))?,
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
        Err(DocumentError::undefined_name(
            pointer("/subtypes", subtype.as_str()),
            "profile",
            profile.as_str(),
            self.profiles.keys().map(Name::as_str),
        ))
    }

    /// Returns an error if a loaded tool in `universal` is not read-only.
    pub fn check<P>(&self, catalogue: &Catalogue<P>) -> Result<(), DocumentError> {
        for (index, pattern) in self.universal.patterns().iter().enumerate() {
            let mut set = ToolSet::empty(catalogue.tools().len());
            set.add_pattern(pattern, catalogue);
            let changing = set.iter().filter(|index| !catalogue.read_only().contains(*index));
            if let Some(tool) = changing.filter_map(|index| catalogue.tools().get(index)).next() {
                let message = format!("`{}` is not read-only, which universal tools must be", tool.id());
                let hint = "list read-only tools only; add other tools to `profiles` and `enabled`";
                return Err(DocumentError::new(format!("/universal/{index}"), message, hint));
            }
        }
        Ok(())
    }

    /// Returns a warning for each part of the policy that has no effect with the loaded tools.
    pub fn warnings<P>(&self, catalogue: &Catalogue<P>) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut list = |place: &str, list: &ToolList| warnings.extend(unresolved(place, list, catalogue));
        self.allowed.iter().for_each(|allowed| list("/allowed", allowed));
        list("/blocked", &self.blocked);
        list("/universal", &self.universal);
        warnings.extend(table_warnings(&self.profiles, &self.channels, &self.integrations, catalogue));
        for (name, intent) in &self.intents {
            let place = format!("{}/tools", pointer("/intents", name));
            warnings.extend(unresolved(&place, &intent.tools, catalogue));
        }
        warnings.extend(limits_without_effect(&self.limits, catalogue.platform_limits()));
        warnings.extend(self.universal_without_effect());
        warnings
    }

    /// Universal tools that the platform's own lists exclude.
    fn universal_without_effect(&self) -> impl Iterator<Item = Warning> + '_ {
        let patterns = self.universal.patterns().iter().enumerate();
        patterns.filter_map(|(index, pattern)| {
            let ToolPattern::Tool(id) = pattern else { return None };
            let is_out = self.blocked.entry_for(id).is_some()
                || self.allowed.as_ref().is_some_and(|allowed| allowed.entry_for(id).is_none());
            let message = format!("`{id}` is universal, and the platform's own lists exclude it");
            is_out.then(|| Warning::new("NO_EFFECT", format!("/universal/{index}"), message))
        })
    }
}

/// The compiled policy of the platform, for the tools of one catalogue.
#[derive(Clone, Debug)]
pub struct PlatformRules {
    document: Arc<PlatformDocument>,
    /// The flags of each tool, before those of any organization.
    pub(super) flags: ToolFlagTable,
    profiles: BTreeMap<Name, SharedSet>,
    pub(super) channels: Arc<Channels>,
    /// The tools that need each integration, by their descriptions and the platform's policy.
    pub(super) needs: BTreeMap<Box<str>, ToolSet>,
    parent: SnapshotId,
    id: SnapshotId,
}

impl PlatformRules {
    /// Compiles a policy for the loaded tools.
    pub fn compile<P>(document: Arc<PlatformDocument>, catalogue: &Catalogue<P>) -> Self {
        let (channels, channel_tools) = Channels::compile(&[&document.channels], catalogue);
        Self {
            flags: compile_flags(&document, &channel_tools, catalogue),
            profiles: compile_profiles(&document.profiles, catalogue),
            channels: Arc::new(channels),
            needs: needs(&document.integrations, catalogue),
            parent: catalogue.id().clone(),
            id: SnapshotId::new(),
            document,
        }
    }

    /// The policy.
    pub fn document(&self) -> &Arc<PlatformDocument> {
        &self.document
    }

    /// Whether these rules were compiled against this catalogue.
    pub fn is_for<P>(&self, catalogue: &Catalogue<P>) -> bool {
        self.parent == *catalogue.id()
    }

    /// Whether a tool is universal: it stays available without being in lists and profiles.
    pub fn is_universal(&self, index: usize) -> bool {
        self.flags.of(index).has(ToolFlag::Universal)
    }

    pub(super) fn profile(&self, name: &Name) -> Option<&SharedSet> {
        self.profiles.get(name)
    }

    pub(super) fn id(&self) -> &SnapshotId {
        &self.id
    }
}

fn compile_flags<P>(
    document: &PlatformDocument,
    channel_tools: &ToolSet,
    catalogue: &Catalogue<P>,
) -> ToolFlagTable {
    let mut universal = ToolSet::compile(&document.universal, catalogue);
    universal.intersect(&catalogue.read_only().to_set(catalogue));
    let mut flags = ToolFlagTable::new(catalogue.tools().len());
    flags.add(ToolFlag::PluginDisabled, &ToolSet::matching(catalogue, |tool| tool.plugin().disabled));
    flags.add_list(ToolFlag::Blocked, &document.blocked, catalogue);
    flags.add_list(ToolFlag::Allowed, document.allowed.as_ref().unwrap_or(&ToolList::All), catalogue);
    flags.add(ToolFlag::Universal, &universal);
    flags.add(ToolFlag::Channel, channel_tools);
    flags
}

fn needs<P>(table: &IntegrationTable, catalogue: &Catalogue<P>) -> BTreeMap<Box<str>, ToolSet> {
    let mut needs: BTreeMap<Box<str>, ToolSet> = BTreeMap::new();
    let none = ToolSet::empty(catalogue.tools().len());
    for tool in catalogue.tools() {
        for integration in &tool.descriptor().required_integrations {
            needs.entry(integration.as_str().into()).or_insert_with(|| none.clone()).insert(tool.index());
        }
    }
    for (pattern, integration) in table {
        let tools = needs.entry(integration.as_str().into()).or_insert_with(|| none.clone());
        tools.add_pattern(pattern, catalogue);
    }
    needs
}

#[cfg(test)]
mod tests;
