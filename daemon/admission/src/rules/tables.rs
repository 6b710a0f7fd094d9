//! The tables that both policies have, the platform's and an organization's: profiles (G9), channels (G12) and
//! integrations (G8).

use std::collections::BTreeMap;

use toolgate_api::name::Name;
use toolgate_api::policy::{ChannelTable, IntegrationTable, ProfileTable};
use toolgate_api::read::pointer;

use super::catalogue::Catalogue;
use super::set::{SharedSet, ToolSet};
use super::warning::{Warning, unresolved_entries, unresolved_pattern};

/// Returns a warning for each entry of the tables that matches no loaded tool.
pub(super) fn table_warnings<'a, P>(
    profiles: &'a ProfileTable,
    channels: &'a ChannelTable,
    integrations: &'a IntegrationTable,
    catalogue: &'a Catalogue<P>,
) -> impl Iterator<Item = Warning> + 'a {
    let profiles = profiles
        .iter()
        .flat_map(|(name, list)| unresolved_entries(&pointer("/profiles", name.as_str()), list, catalogue));
    let channels = channels.iter().flat_map(|(name, channel)| {
        unresolved_entries(
            &format!("{}/blocked", pointer("/channels", name.as_str())),
            &channel.blocked,
            catalogue,
        )
    });
    let integrations = integrations.keys().filter_map(|pattern| {
        unresolved_pattern(&pointer("/integrations", &pattern.to_string()), pattern, catalogue)
    });
    profiles.chain(channels).chain(integrations)
}

/// Compiles the profiles of a policy.
pub(super) fn compile_profiles<P>(
    table: &ProfileTable,
    catalogue: &Catalogue<P>,
) -> BTreeMap<Name, SharedSet> {
    table.iter().map(|(name, list)| (name.clone(), SharedSet::compile(Some(list), catalogue))).collect()
}

/// The tools that each channel blocks.
#[derive(Clone, Debug)]
pub(crate) struct Channels {
    blocked: BTreeMap<Name, SharedSet>,
}

impl Channels {
    /// Merges tables: a channel blocks the tools that any of them names. Also returns the tools that some channel blocks.
    pub(crate) fn compile<P>(tables: &[&ChannelTable], catalogue: &Catalogue<P>) -> (Self, ToolSet) {
        let mut sets: BTreeMap<Name, ToolSet> = BTreeMap::new();
        let count = catalogue.tools().len();
        for (name, channel) in tables.iter().copied().flatten() {
            let set = sets.entry(name.clone()).or_insert_with(|| ToolSet::empty(count));
            set.add(&channel.blocked, catalogue);
        }
        let mut any = ToolSet::empty(count);
        sets.values().for_each(|set| any.unite(set));
        let blocked = sets.into_iter().map(|(name, set)| (name, SharedSet::new(set, catalogue))).collect();
        (Self { blocked }, any)
    }

    /// Whether a tool that some channel blocks is blocked for a session of this channel. No channel blocks it for a session
    /// without one; a channel that is no longer defined blocks what any does.
    pub(crate) fn block(&self, channel: Option<&str>, index: usize) -> bool {
        let Some(channel) = channel else { return false };
        self.blocked.get(channel).is_none_or(|blocked| blocked.contains(index))
    }

    /// The names of the defined channels.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.blocked.keys().map(Name::as_str)
    }
}
