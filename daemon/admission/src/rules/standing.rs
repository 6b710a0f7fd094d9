//! What platform and organization say of each tool: a byte of bits, one for each of their rules.
//!
//! A decision asks most rules about one tool, so what they say of it lies in one place. In a house of thousands of tools
//! and organizations that place is mostly not in the processor's cache, and each further one would cost as
//! much as all the rest of the decision. Agents are too many for this and keep sets.

use std::ops::Range;

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

#[cfg(test)]
mod tests {
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
}
