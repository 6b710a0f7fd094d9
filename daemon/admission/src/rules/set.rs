//! Sets of tools of one catalogue, by index.
//!
//! [`ToolSet`] is a bit set to build sets with. [`SharedSet`] is the immutable form that rules hold: a hundred thousand
//! agents have a few of them each, and most contain every tool, none, or a few, which [`SharedSet`] stores inline to save
//! memory and a cache miss for each decision.

use std::ops::Range;
use std::sync::Arc;

use toolgate_api::tools::{ToolList, ToolPattern};

use super::catalogue::{Catalogue, Tool};

/// A mutable set of tools of one catalogue: one bit for each index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSet {
    words: Box<[u64]>,
}

impl ToolSet {
    /// No tool, of a catalogue of `count` tools.
    pub fn empty(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)].into() }
    }

    /// Every tool of the catalogue.
    pub fn all<P>(catalogue: &Catalogue<P>) -> Self {
        Self::matching(catalogue, |_| true)
    }

    /// The tools that match a list.
    pub fn compile<P>(list: &ToolList, catalogue: &Catalogue<P>) -> Self {
        let mut set = Self::empty(catalogue.tools().len());
        set.add(list, catalogue);
        set
    }

    /// Adds the tools that match a list.
    pub fn add<P>(&mut self, list: &ToolList, catalogue: &Catalogue<P>) {
        list.patterns().iter().for_each(|pattern| self.add_pattern(pattern, catalogue));
    }

    /// Adds the tools that match one entry of a list.
    pub fn add_pattern<P>(&mut self, pattern: &ToolPattern, catalogue: &Catalogue<P>) {
        matching_indexes(pattern, catalogue).for_each(|index| self.insert(index));
    }

    /// The tools for which `is_in` holds.
    pub fn matching<P>(catalogue: &Catalogue<P>, is_in: impl Fn(&Tool<P>) -> bool) -> Self {
        let mut set = Self::empty(catalogue.tools().len());
        catalogue.tools().iter().filter(|tool| is_in(tool)).for_each(|tool| set.insert(tool.index()));
        set
    }

    /// Adds a tool by index; an index beyond the catalogue changes nothing.
    pub fn insert(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    /// Adds the tools of a set of the same catalogue.
    pub fn unite(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Removes the tools that are not in the other set, of the same catalogue.
    pub fn intersect(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Whether the tool with this index is in the set.
    pub fn contains(&self, index: usize) -> bool {
        has_bit(&self.words, index)
    }

    /// The indexes of the tools in it, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(at * 64 + bit)
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

/// Returns the indexes of the tools that match one entry of a list.
pub(super) fn matching_indexes<P>(pattern: &ToolPattern, catalogue: &Catalogue<P>) -> Range<usize> {
    match pattern {
        ToolPattern::All => 0..catalogue.tools().len(),
        ToolPattern::Plugin(namespace) => catalogue.indexes_of(namespace),
        ToolPattern::Tool(id) => catalogue.number_of(id).map_or(0..0, |index| index..index + 1),
    }
}

/// An immutable set of tools of one catalogue; clones share its memory.
#[derive(Clone, Debug, Default)]
pub struct SharedSet(Storage);

#[derive(Clone, Debug, Default)]
enum Storage {
    #[default]
    None,
    All,
    /// Indexes; unused elements repeat the first.
    Inline([u32; INLINE]),
    /// Sorted indexes.
    Sorted(Arc<[u32]>),
    /// One bit for each index.
    Bits(Arc<[u64]>),
}

/// As many indexes as fit without making the enum larger.
const INLINE: usize = 5;

impl SharedSet {
    /// No tool.
    pub const NONE: Self = Self(Storage::None);
    /// Every tool of any catalogue.
    pub const ALL: Self = Self(Storage::All);

    /// Stores a set in the smallest form.
    pub fn new<P>(set: ToolSet, catalogue: &Catalogue<P>) -> Self {
        let count = set.len();
        // A catalogue has far fewer than 2^32 tools.
        let indexes = || set.iter().filter_map(|index| u32::try_from(index).ok());
        Self(if count == 0 {
            Storage::None
        } else if count == catalogue.tools().len() {
            Storage::All
        } else if count <= INLINE {
            inline(indexes())
        } else if count <= set.words.len() * 2 {
            Storage::Sorted(indexes().collect())
        } else {
            Storage::Bits(set.words.into())
        })
    }

    /// The tools that match a list; none without a list.
    pub fn compile<P>(list: Option<&ToolList>, catalogue: &Catalogue<P>) -> Self {
        match list {
            None => Self::NONE,
            Some(ToolList::All) => Self::ALL,
            Some(list) => Self::new(ToolSet::compile(list, catalogue), catalogue),
        }
    }

    /// Whether the tool with this index is in the set.
    pub fn contains(&self, index: usize) -> bool {
        match &self.0 {
            Storage::None => false,
            Storage::All => true,
            Storage::Inline(few) => u32::try_from(index).is_ok_and(|index| few.contains(&index)),
            Storage::Sorted(few) => u32::try_from(index).is_ok_and(|index| few.binary_search(&index).is_ok()),
            Storage::Bits(words) => has_bit(words, index),
        }
    }

    /// Whether no tool is in the set.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Storage::None)
    }

    /// Copies the set to a mutable one.
    pub fn to_set<P>(&self, catalogue: &Catalogue<P>) -> ToolSet {
        ToolSet::matching(catalogue, |tool| self.contains(tool.index()))
    }
}

fn inline(mut indexes: impl Iterator<Item = u32>) -> Storage {
    let Some(first) = indexes.next() else { return Storage::None };
    let mut array = [first; INLINE];
    array.iter_mut().skip(1).zip(indexes).for_each(|(element, index)| *element = index);
    Storage::Inline(array)
}

fn has_bit(words: &[u64], index: usize) -> bool {
    words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolgate_api::limits::LimitsPatch;

    use super::*;
    use crate::check::tests::plugin;

    #[test]
    fn a_set_has_the_size_of_three_words() {
        assert_eq!(size_of::<SharedSet>(), 3 * size_of::<usize>());
    }

    #[test]
    fn an_index_beyond_the_catalogue_is_in_no_set() {
        let mut set = ToolSet::empty(3);
        set.insert(1_000);
        assert!(set.is_empty() && !set.contains(1_000) && !set.contains(usize::MAX));
    }

    proptest! {
        /// A set contains the inserted tools in every storage form.
        #[test]
        fn a_shared_set_has_the_inserted_tools(numbers in proptest::collection::btree_set(0_usize..200, 0..200)) {
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
