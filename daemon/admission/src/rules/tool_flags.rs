//! The rules of the platform and of an organization about each tool: one byte of flags.
//!
//! A decision reads most rules for one tool, so its flags are one byte. With thousands of tools and organizations that
//! byte is usually not in the processor's cache, and each further cache miss would cost as much as the rest of the
//! decision. Organizations mostly decide about whole plugins, so [`CompactFlags`] has a code of two bits for each plugin in
//! front of the bytes; the table of each tool's plugin is shared by all organizations of a catalogue. There are too many
//! agents for such tables: their rules are sets.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use toolgate_api::tools::ToolList;

use super::catalogue::Catalogue;
use super::set::{ToolSet, matching_indexes};

/// One rule of the platform or the organization about a tool.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum ToolFlag {
    /// The operator has disabled the plugin.
    PluginDisabled = 1,
    /// In the platform's `blocked`.
    Blocked = 1 << 1,
    /// In the platform's `allowed`.
    Allowed = 1 << 2,
    /// In the platform's `universal`, and read-only (G14).
    Universal = 1 << 3,
    /// In the organization's `disabled`.
    Disabled = 1 << 4,
    /// In the organization's `enabled`.
    Enabled = 1 << 5,
    /// Needs an integration that the organization has not connected.
    Missing = 1 << 6,
    /// Blocked by some channel.
    Channel = 1 << 7,
}

/// The flags of one tool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToolFlags(u8);

impl ToolFlags {
    /// Whether the flag is set.
    pub(crate) fn has(self, flag: ToolFlag) -> bool {
        self.0 & flag as u8 != 0
    }
}

/// The flags of each tool of one catalogue.
#[derive(Clone, Debug)]
pub(crate) struct ToolFlagTable(Box<[u8]>);

impl ToolFlagTable {
    /// No flags, for `count` tools.
    pub(super) fn new(count: usize) -> Self {
        Self(vec![0; count].into())
    }

    /// Adds a code for each plugin, for faster reading.
    pub(super) fn compact<P>(self, catalogue: &Catalogue<P>) -> CompactFlags {
        let plugin_of = catalogue.plugin_of();
        let mut plugins: Vec<Option<u8>> = vec![None; plugin_of.last().map_or(0, |last| *last as usize + 1)];
        let mut left = &*self.0;
        for of_one in plugin_of.chunk_by(PartialEq::eq) {
            let (tools, others) = left.split_at_checked(of_one.len()).unwrap_or((left, &[]));
            let are_equal = tools.iter().all(|tool| Some(tool) == tools.first());
            plugins[of_one[0] as usize] = tools.first().copied().filter(|_| are_equal);
            left = others;
        }
        let common = most_common(plugins.iter().copied().flatten());
        let mut codes = vec![0; plugins.len().div_ceil(CODES)];
        for (at, flags) in plugins.iter().enumerate() {
            let code = common.iter().position(|common| Some(*common) == *flags).unwrap_or(USE_TABLE);
            codes[at / CODES] |= code << (at % CODES * CODE_BITS);
        }
        CompactFlags { codes: codes.into(), common, plugin_of: Arc::clone(plugin_of), table: self }
    }

    /// Returns the flags of the tool with this index; none if the catalogue has no such tool.
    pub(super) fn of(&self, index: usize) -> ToolFlags {
        ToolFlags(self.0.get(index).copied().unwrap_or_default())
    }

    /// Sets a flag of the tools that match a list.
    pub(super) fn add_list<P>(&mut self, flag: ToolFlag, list: &ToolList, catalogue: &Catalogue<P>) {
        list.patterns().iter().for_each(|pattern| self.add_range(flag, matching_indexes(pattern, catalogue)));
    }

    /// Sets a flag of these tools.
    pub(super) fn add(&mut self, flag: ToolFlag, tools: &ToolSet) {
        tools.iter().for_each(|index| self.add_range(flag, index..index + 1));
    }

    fn add_range(&mut self, flag: ToolFlag, tools: Range<usize>) {
        let tools = self.0.get_mut(tools).unwrap_or_default();
        tools.iter_mut().for_each(|bits| *bits |= flag as u8);
    }
}

/// A table of flags behind a code for each plugin.
#[derive(Clone, Debug)]
pub(crate) struct CompactFlags {
    /// For each plugin the index in `common` of the flags that all of its tools have, or [`USE_TABLE`].
    codes: Box<[usize]>,
    common: [u8; USE_TABLE],
    /// The plugin of each tool.
    plugin_of: Arc<[u32]>,
    table: ToolFlagTable,
}

/// The code of a plugin whose tools differ, or whose flags are not among the most common.
const USE_TABLE: usize = 3;
const CODE_BITS: usize = 2;
/// Codes in a word.
const CODES: usize = usize::BITS as usize / CODE_BITS;

impl CompactFlags {
    /// Returns the flags of the tool with this index; none if the catalogue has no such tool.
    pub(super) fn of(&self, index: usize) -> ToolFlags {
        let Some(plugin) = self.plugin_of.get(index) else { return ToolFlags::default() };
        let plugin = *plugin as usize;
        let codes = self.codes.get(plugin / CODES).copied().unwrap_or(usize::MAX);
        let code = codes >> (plugin % CODES * CODE_BITS) & USE_TABLE;
        self.common.get(code).map_or_else(|| self.table.of(index), |flags| ToolFlags(*flags))
    }
}

fn most_common(all: impl Iterator<Item = u8>) -> [u8; USE_TABLE] {
    let mut counts = [0_usize; 1 + u8::MAX as usize];
    all.for_each(|flags| counts[usize::from(flags)] += 1);
    let mut order: Vec<u8> = (0..=u8::MAX).collect();
    order.sort_by_key(|flags| Reverse(counts[usize::from(*flags)]));
    std::array::from_fn(|at| order[at])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolgate_api::limits::LimitsPatch;
    use toolgate_api::tools::ToolPattern;

    use super::*;
    use crate::check::tests::plugin;

    #[test]
    fn a_flag_is_set_for_the_tools_that_a_list_names_and_for_no_others() {
        let catalogue =
            Catalogue::new(LimitsPatch::new(), vec![plugin("a", &["x", "y"]), plugin("b", &["z"])]);
        let pattern = |text| ToolPattern::parse(text).unwrap();
        let mut some = ToolSet::empty(3);
        some.insert(1);
        let mut flags = ToolFlagTable::new(3);
        flags.add(ToolFlag::Blocked, &some);
        flags.add_list(ToolFlag::Allowed, &ToolList::All, &catalogue);
        flags.add_list(
            ToolFlag::Enabled,
            &ToolList::from_patterns(vec![pattern("a/*"), pattern("c/*")]),
            &catalogue,
        );
        let has = |flag| [0, 1, 2, 3].map(|index| flags.of(index).has(flag));
        assert_eq!(has(ToolFlag::Blocked), [false, true, false, false]);
        assert_eq!(has(ToolFlag::Allowed), [true, true, true, false]);
        assert_eq!(has(ToolFlag::Enabled), [true, true, false, false]);
        assert_eq!(has(ToolFlag::Missing), [false; 4]);
    }

    proptest! {
        /// Compact flags equal the table for every tool.
        #[test]
        fn compact_flags_equal_the_table(
            plugins in proptest::collection::vec((0_usize..4, proptest::collection::vec(0_u8..8, 1..4)), 0..80),
        ) {
            let names = ["a", "b", "c"];
            let loaded = plugins.iter().enumerate().map(|(at, (_, tools))| plugin(&format!("p{at:03}"), &names[..tools.len()]));
            let catalogue = Catalogue::new(LimitsPatch::new(), loaded.collect());
            // Few values for whole plugins, and tools that differ.
            let flags_of = |common: &usize, own: &u8| match common {
                0 => *own,
                1 => u8::MAX,
                other => u8::try_from(other * 16).unwrap(),
            };
            let bytes: Vec<u8> =
                plugins.iter().flat_map(|(common, tools)| tools.iter().map(|own| flags_of(common, own))).collect();
            let table = ToolFlagTable(bytes.clone().into());
            let compact = table.compact(&catalogue);
            for (index, expected) in bytes.iter().enumerate() {
                prop_assert_eq!(compact.of(index).0, *expected);
            }
            prop_assert_eq!(compact.of(bytes.len()).0, 0);
        }
    }
}
