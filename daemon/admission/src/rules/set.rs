//! Sets of tools of one catalogue: bits over their numbers.
//!
//! [`ToolSet`] is what sets are made with. [`SharedSet`] is what rules keep: a hundred thousand agents have a few of them
//! each, and most are everything, nothing, or a handful of tools, which then take no more room than that. What a decision
//! costs in a large house is the places in memory that it looks at, so a handful is kept in the set itself.

use std::ops::Range;
use std::sync::Arc;

use super::catalogue::{Catalogue, Tool};
use super::tools::{ToolList, ToolPattern};

/// A set of tools of one catalogue, to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSet {
    words: Box<[u64]>,
}

impl ToolSet {
    /// No tool of `count`.
    pub fn empty(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)].into() }
    }

    /// Every tool of the catalogue.
    pub fn all<P>(catalogue: &Catalogue<P>) -> Self {
        Self::matching(catalogue, |_| true)
    }

    /// The tools that a list names.
    pub fn compile<P>(list: &ToolList, catalogue: &Catalogue<P>) -> Self {
        let mut set = Self::empty(catalogue.tools().len());
        set.add(list, catalogue);
        set
    }

    /// Adds the tools that a list names.
    pub fn add<P>(&mut self, list: &ToolList, catalogue: &Catalogue<P>) {
        list.patterns().iter().for_each(|pattern| self.add_pattern(pattern, catalogue));
    }

    /// Adds the tools that one entry of a list names.
    pub fn add_pattern<P>(&mut self, pattern: &ToolPattern, catalogue: &Catalogue<P>) {
        numbers(pattern, catalogue).for_each(|number| self.insert(number));
    }

    /// The tools for which `is_in` holds.
    pub fn matching<P>(catalogue: &Catalogue<P>, is_in: impl Fn(&Tool<P>) -> bool) -> Self {
        let mut set = Self::empty(catalogue.tools().len());
        catalogue.tools().iter().filter(|tool| is_in(tool)).for_each(|tool| set.insert(tool.index()));
        set
    }

    /// Adds a tool by number; a number that no tool of the catalogue has changes nothing.
    pub fn insert(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    /// Adds the tools of a set of the same catalogue.
    pub fn unite(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Leaves the tools that are in the other set of the same catalogue too.
    pub fn intersect(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Whether the tool with this number is in the set.
    pub fn contains(&self, index: usize) -> bool {
        has_bit(&self.words, index)
    }

    /// The numbers of the tools in it, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(place, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(place * 64 + bit)
            })
        })
    }

    /// How many tools are in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no tool is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
}

/// The numbers of the tools that one entry of a list names.
pub(super) fn numbers<P>(pattern: &ToolPattern, catalogue: &Catalogue<P>) -> Range<usize> {
    match pattern {
        ToolPattern::All => 0..catalogue.tools().len(),
        ToolPattern::Plugin(namespace) => catalogue.numbers_of(namespace),
        ToolPattern::Tool(id) => catalogue.number_of(id).map_or(0..0, |number| number..number + 1),
    }
}

/// A set of tools of one catalogue, to be kept: copies share it.
#[derive(Clone, Debug, Default)]
pub struct SharedSet(Form);

#[derive(Clone, Debug, Default)]
enum Form {
    #[default]
    None,
    All,
    /// A handful; the places left over repeat the first.
    Handful([u32; HANDFUL]),
    /// In order.
    Few(Arc<[u32]>),
    /// Bits.
    Many(Arc<[u64]>),
}

/// As many as fit in the room that the other forms take anyway.
const HANDFUL: usize = 5;

impl SharedSet {
    /// No tool.
    pub const NONE: Self = Self(Form::None);
    /// Every tool of whatever catalogue.
    pub const ALL: Self = Self(Form::All);

    /// Keeps a set in the least room.
    pub fn new<P>(set: ToolSet, catalogue: &Catalogue<P>) -> Self {
        let count = set.len();
        // A catalogue has far fewer tools than numbers of 32 bits.
        let numbers = || set.iter().filter_map(|index| u32::try_from(index).ok());
        Self(if count == 0 {
            Form::None
        } else if count == catalogue.tools().len() {
            Form::All
        } else if count <= HANDFUL {
            handful(numbers())
        } else if count <= set.words.len() * 2 {
            Form::Few(numbers().collect())
        } else {
            Form::Many(set.words.into())
        })
    }

    /// The tools that a list names; none without a list.
    pub fn compile<P>(list: Option<&ToolList>, catalogue: &Catalogue<P>) -> Self {
        match list {
            None => Self::NONE,
            Some(ToolList::All) => Self::ALL,
            Some(list) => Self::new(ToolSet::compile(list, catalogue), catalogue),
        }
    }

    /// Whether the tool with this number is in the set.
    pub fn contains(&self, index: usize) -> bool {
        match &self.0 {
            Form::None => false,
            Form::All => true,
            Form::Handful(few) => u32::try_from(index).is_ok_and(|index| few.contains(&index)),
            Form::Few(few) => u32::try_from(index).is_ok_and(|index| few.binary_search(&index).is_ok()),
            Form::Many(words) => has_bit(words, index),
        }
    }

    /// Whether no tool is in the set.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Form::None)
    }

    /// The same set, to be changed.
    pub fn to_set<P>(&self, catalogue: &Catalogue<P>) -> ToolSet {
        ToolSet::matching(catalogue, |tool| self.contains(tool.index()))
    }
}

fn handful(mut numbers: impl Iterator<Item = u32>) -> Form {
    let Some(first) = numbers.next() else { return Form::None };
    let mut handful = [first; HANDFUL];
    handful.iter_mut().skip(1).zip(numbers).for_each(|(place, number)| *place = number);
    Form::Handful(handful)
}

fn has_bit(words: &[u64], index: usize) -> bool {
    words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::check::tests::plugin;
    use crate::limits::LimitsPatch;

    #[test]
    fn a_set_takes_the_room_of_three_words() {
        assert_eq!(size_of::<SharedSet>(), 3 * size_of::<usize>());
    }

    #[test]
    fn a_number_beyond_the_catalogue_is_in_no_set() {
        let mut set = ToolSet::empty(3);
        set.insert(1_000);
        assert!(set.is_empty() && !set.contains(1_000) && !set.contains(usize::MAX));
    }

    proptest! {
        /// However a set is kept, it has the tools that were put in.
        #[test]
        fn a_kept_set_has_what_was_put_in(numbers in proptest::collection::btree_set(0_usize..200, 0..200)) {
            let names: Vec<String> = (0..200).map(|number| format!("t{number}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let catalogue = Catalogue::new(LimitsPatch::new(), vec![plugin("many", &names)]);
            let mut set = ToolSet::empty(200);
            numbers.iter().for_each(|number| set.insert(*number));
            let kept = SharedSet::new(set.clone(), &catalogue);
            for number in 0..200 {
                prop_assert_eq!(kept.contains(number), numbers.contains(&number));
            }
            prop_assert_eq!(kept.is_empty(), numbers.is_empty());
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), numbers.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(kept.to_set(&catalogue), set);
        }
    }
}
