//! The platform's layer: the rules that the operator's policy for all loaded tools compiles to.
//!
//! Without a policy every loaded tool is allowed and none is universal, and there are no profiles, subtypes or channels.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_api::name::Name;
use toolgate_api::policy::{IntegrationTable, PlatformDocument};
use toolgate_api::read::{ReadError, pointer};
use toolgate_api::tools::{ToolList, ToolPattern};

use super::catalogue::{Catalogue, SnapshotId};
use super::intents::IntentPatterns;
use super::set::{SharedSet, ToolSet};
use super::tables::{Channels, compile_profiles, table_warnings};
use super::tool_flags::{ToolFlag, ToolFlagTable};
use super::warning::{Warning, limits_without_effect, quota_tools, unresolved_entries};

/// Parses a policy, and compiles the patterns of its intents to validate them.
pub fn parse_platform(json: &str) -> Result<PlatformDocument, ReadError> {
    let document = PlatformDocument::parse(json)?;
    IntentPatterns::compile(&document.intents, "/intents")?;
    Ok(document)
}

/// Returns an error if a loaded tool in `universal` is not read-only.
pub fn check_platform<P>(document: &PlatformDocument, catalogue: &Catalogue<P>) -> Result<(), ReadError> {
    for (index, pattern) in document.universal.patterns().iter().enumerate() {
        let mut set = ToolSet::empty(catalogue.tools().len());
        set.add_pattern(pattern, catalogue);
        let changing = set.iter().filter(|index| !catalogue.read_only().contains(*index));
        if let Some(tool) = changing.filter_map(|index| catalogue.tools().get(index)).next() {
            let message = format!("`{}` is not read-only, which universal tools must be", tool.id());
            let hint = "list read-only tools only; add other tools to `profiles` and `enabled`";
            return Err(ReadError::new(format!("/universal/{index}"), message, hint));
        }
    }
    Ok(())
}

/// Returns a warning for each part of the policy that has no effect with the loaded tools.
pub fn platform_warnings<P>(document: &PlatformDocument, catalogue: &Catalogue<P>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut list = |place: &str, list: &ToolList| warnings.extend(unresolved_entries(place, list, catalogue));
    document.allowed.iter().for_each(|allowed| list("/allowed", allowed));
    list("/blocked", &document.blocked);
    list("/universal", &document.universal);
    quota_tools(&document.quotas).for_each(|(place, tools)| list(&place, tools));
    warnings.extend(table_warnings(
        &document.profiles,
        &document.channels,
        &document.integrations,
        catalogue,
    ));
    for (name, intent) in &document.intents {
        let place = format!("{}/tools", pointer("/intents", name));
        warnings.extend(unresolved_entries(&place, &intent.tools, catalogue));
    }
    warnings.extend(limits_without_effect(&document.limits, catalogue.platform_limits()));
    warnings.extend(universal_without_effect(document));
    warnings
}

/// Universal tools that the platform's own lists exclude.
fn universal_without_effect(document: &PlatformDocument) -> impl Iterator<Item = Warning> + '_ {
    let patterns = document.universal.patterns().iter().enumerate();
    patterns.filter_map(|(index, pattern)| {
        let ToolPattern::Tool(id) = pattern else { return None };
        let is_out = document.blocked.entry_for(id).is_some()
            || document.allowed.as_ref().is_some_and(|allowed| allowed.entry_for(id).is_none());
        let message = format!("`{id}` is universal, and the platform's own lists exclude it");
        is_out.then(|| Warning::new("NO_EFFECT", format!("/universal/{index}"), message))
    })
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
