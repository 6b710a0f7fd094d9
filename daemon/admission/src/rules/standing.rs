//! What platform and organization say of each tool: a byte of bits, one for each of their rules.
//!
//! A decision asks most rules about one tool, so what they say of it lies in one place. In a house of thousands of tools
//! and organizations that place is mostly not in the processor's cache, and each further one would cost as
//! much as all the rest of the decision. Most of what an organization says it says of whole plugins, so two bits for each
//! plugin stand in front of an organization's bytes; which plugin a tool is of, all organizations of a catalogue share.
//! Agents are too many for this and keep sets.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use super::catalogue::Catalogue;
use super::set::{ToolSet, numbers};
use super::tools::ToolList;

/// One rule of the platform or the organization, and what it says of a tool.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Rule {
    /// The plugin is switched off.
    PluginDisabled = 1,
    /// In the platform's `blocked`.
    Blocked = 1 << 1,
    /// In the platform's `allowed`.
    Allowed = 1 << 2,
    /// In the platform's `universal`, and known to change nothing (G14).
    Universal = 1 << 3,
    /// In the organization's `disabled`.
    Disabled = 1 << 4,
    /// In the organization's `enabled`.
    Enabled = 1 << 5,
    /// It needs an integration that the organization has not connected.
    Missing = 1 << 6,
    /// Some channel blocks it.
    Channel = 1 << 7,
}

/// What the rules say of one tool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing(u8);

impl Standing {
    /// Whether that rule names the tool.
    pub fn has(self, rule: Rule) -> bool {
        self.0 & rule as u8 != 0
    }
}

/// What the rules say of each tool of one catalogue.
#[derive(Clone, Debug)]
pub(crate) struct Standings(Box<[u8]>);

impl Standings {
    /// No rule names any of `count` tools.
    pub fn new(count: usize) -> Self {
        Self(vec![0; count].into())
    }

    /// The same, to be asked often.
    pub fn outlined<P>(self, catalogue: &Catalogue<P>) -> Outlined {
        let plugin_of = catalogue.plugin_of();
        let mut plugins: Vec<Option<u8>> = vec![None; plugin_of.last().map_or(0, |last| *last as usize + 1)];
        let mut left = &*self.0;
        for of_one in plugin_of.chunk_by(PartialEq::eq) {
            let (tools, others) = left.split_at_checked(of_one.len()).unwrap_or((left, &[]));
            let alike = tools.iter().all(|tool| Some(tool) == tools.first());
            plugins[of_one[0] as usize] = tools.first().copied().filter(|_| alike);
            left = others;
        }
        let common = most_common(plugins.iter().copied().flatten());
        let mut outline = vec![0; plugins.len().div_ceil(CODES)];
        for (at, said) in plugins.iter().enumerate() {
            let code = common.iter().position(|common| Some(*common) == *said).unwrap_or(LOOK_CLOSER);
            outline[at / CODES] |= code << (at % CODES * CODE_BITS);
        }
        Outlined { outline: outline.into(), common, plugin_of: Arc::clone(plugin_of), standings: self }
    }

    /// What is said of the tool with this number; of one that the catalogue does not have, nothing.
    pub fn of(&self, index: usize) -> Standing {
        Standing(self.0.get(index).copied().unwrap_or_default())
    }

    /// The rule names what a list names.
    pub fn add_list<P>(&mut self, rule: Rule, list: &ToolList, catalogue: &Catalogue<P>) {
        list.patterns().iter().for_each(|pattern| self.add_range(rule, numbers(pattern, catalogue)));
    }

    /// The rule names these tools.
    pub fn add(&mut self, rule: Rule, tools: &ToolSet) {
        tools.iter().for_each(|index| self.add_range(rule, index..index + 1));
    }

    fn add_range(&mut self, rule: Rule, tools: Range<usize>) {
        let named = self.0.get_mut(tools).unwrap_or_default();
        named.iter_mut().for_each(|bits| *bits |= rule as u8);
    }
}

/// Standings behind an outline of them.
#[derive(Clone, Debug)]
pub(crate) struct Outlined {
    /// A code for each plugin: which of the common standings all of its tools have.
    outline: Box<[usize]>,
    common: [u8; LOOK_CLOSER],
    /// The plugin of each tool.
    plugin_of: Arc<[u32]>,
    standings: Standings,
}

/// The code of a plugin whose tools differ, or are not like many others.
const LOOK_CLOSER: usize = 3;
const CODE_BITS: usize = 2;
/// Codes in a word.
const CODES: usize = usize::BITS as usize / CODE_BITS;

impl Outlined {
    /// What is said of the tool with this number; of one that the catalogue does not have, nothing.
    pub fn of(&self, index: usize) -> Standing {
        let Some(plugin) = self.plugin_of.get(index) else { return Standing::default() };
        let plugin = *plugin as usize;
        let codes = self.outline.get(plugin / CODES).copied().unwrap_or(usize::MAX);
        let code = codes >> (plugin % CODES * CODE_BITS) & LOOK_CLOSER;
        self.common.get(code).map_or_else(|| self.standings.of(index), |said| Standing(*said))
    }
}

/// Those of which there are most.
fn most_common(all: impl Iterator<Item = u8>) -> [u8; LOOK_CLOSER] {
    let mut counts = [0_usize; 1 + u8::MAX as usize];
    all.for_each(|said| counts[usize::from(said)] += 1);
    let mut order: Vec<u8> = (0..=u8::MAX).collect();
    order.sort_by_key(|said| Reverse(counts[usize::from(*said)]));
    std::array::from_fn(|at| order[at])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::check::tests::plugin;
    use crate::limits::LimitsPatch;
    use crate::rules::ToolPattern;

    #[test]
    fn a_rule_is_told_of_the_tools_that_it_names_and_of_no_others() {
        let catalogue =
            Catalogue::new(LimitsPatch::new(), vec![plugin("a", &["x", "y"]), plugin("b", &["z"])]);
        let pattern = |text| ToolPattern::parse(text).unwrap();
        let mut some = ToolSet::empty(3);
        some.insert(1);
        let mut standings = Standings::new(3);
        standings.add(Rule::Blocked, &some);
        standings.add_list(Rule::Allowed, &ToolList::All, &catalogue);
        standings.add_list(Rule::Enabled, &ToolList::of(vec![pattern("a/*"), pattern("c/*")]), &catalogue);
        let told = |rule| [0, 1, 2, 3].map(|index| standings.of(index).has(rule));
        assert_eq!(told(Rule::Blocked), [false, true, false, false]);
        assert_eq!(told(Rule::Allowed), [true, true, true, false]);
        assert_eq!(told(Rule::Enabled), [true, true, false, false]);
        assert_eq!(told(Rule::Missing), [false; 4]);
    }

    proptest! {
        /// An outline says of each tool what the standings say, whatever plugins have in common.
        #[test]
        fn an_outline_says_what_is_behind_it(
            plugins in proptest::collection::vec((0_usize..4, proptest::collection::vec(0_u8..8, 1..4)), 0..80),
        ) {
            let names = ["a", "b", "c"];
            let loaded = plugins.iter().enumerate().map(|(at, (_, tools))| plugin(&format!("p{at:03}"), &names[..tools.len()]));
            let catalogue = Catalogue::new(LimitsPatch::new(), loaded.collect());
            // Few patterns for whole plugins, and tools that differ.
            let said = |common: &usize, own: &u8| match common {
                0 => *own,
                1 => u8::MAX,
                other => u8::try_from(other * 16).unwrap(),
            };
            let bytes: Vec<u8> =
                plugins.iter().flat_map(|(common, tools)| tools.iter().map(|own| said(common, own))).collect();
            let standings = Standings(bytes.clone().into());
            let outlined = standings.outlined(&catalogue);
            for (index, said) in bytes.iter().enumerate() {
                prop_assert_eq!(outlined.of(index).0, *said);
            }
            prop_assert_eq!(outlined.of(bytes.len()).0, 0);
        }
    }
}
