//! Which tools a channel blocks (G12): the platform's table, and what an organization adds to it.

use std::collections::BTreeMap;

use super::catalogue::Catalogue;
use super::document::{DocumentError, Fields, Part, Warning, pointer, unresolved};
use super::set::{SharedSet, ToolSet};
use super::tools::ToolList;
use crate::name::Name;

const FIELDS: Fields = Fields { whose: "a channel", known: &["blocked"], to_come: &[] };

/// Channels and the tools that each blocks, as a document has them.
pub type ChannelTable = BTreeMap<Name, ToolList>;

pub(super) fn read(part: &Part<'_>) -> Result<ChannelTable, DocumentError> {
    part.table("a channel", |channel| {
        channel.check_fields(&FIELDS)?;
        channel.member("blocked").map_or(Ok(ToolList::NONE), |blocked| blocked.tools())
    })
}

pub(super) fn warnings<P>(table: &ChannelTable, catalogue: &Catalogue<P>) -> Vec<Warning> {
    let place = |name: &Name| format!("{}/blocked", pointer("/channels", name.as_str()));
    table.iter().flat_map(|(name, blocked)| unresolved(&place(name), blocked, catalogue)).collect()
}

/// What each channel blocks, over the tools of one catalogue.
#[derive(Clone, Debug)]
pub(crate) struct Channels {
    blocked: BTreeMap<Name, SharedSet>,
}

impl Channels {
    /// Puts tables together: a channel blocks what any of them says. Beside it, what any channel blocks.
    pub fn compile<P>(tables: &[&ChannelTable], catalogue: &Catalogue<P>) -> (Self, ToolSet) {
        let mut sets: BTreeMap<Name, ToolSet> = BTreeMap::new();
        let count = catalogue.tools().len();
        for (name, list) in tables.iter().copied().flatten() {
            sets.entry(name.clone()).or_insert_with(|| ToolSet::empty(count)).add(list, catalogue);
        }
        let mut any = ToolSet::empty(count);
        sets.values().for_each(|set| any.unite(set));
        let blocked = sets.into_iter().map(|(name, set)| (name, SharedSet::new(set, catalogue))).collect();
        (Self { blocked }, any)
    }

    /// Whether a session on that channel may not call a tool that some channel blocks: so it is without a channel, or
    /// on one that is not defined any more.
    pub fn block(&self, channel: Option<&str>, index: usize) -> bool {
        let blocked = channel.and_then(|channel| self.blocked.get(channel));
        blocked.is_none_or(|blocked| blocked.contains(index))
    }

    /// The channels that there are.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.blocked.keys().map(Name::as_str)
    }
}
