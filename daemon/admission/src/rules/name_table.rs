//! A hash table from the names of a catalogue's tools to their indexes.
//!
//! With many tools the cost of a decision is its cache misses. So all names are one buffer, and a table entry has eight
//! bytes: with ten thousand tools both have half a megabyte, which usually fits the cache of one processor core.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use toolgate_api::name::CalledKey;

/// Tool indexes by name.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    entries: HashTable<Entry>,
    /// All names, in the encoding of their keys, without gaps.
    text: Vec<u8>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    index: u32,
    /// The offset of the name in the text.
    start: u32,
}

impl NameTable {
    /// Adds a name, unless the table has it.
    pub(super) fn insert(&mut self, name: &CalledKey, index: u32) {
        // A catalogue has far fewer than 2^32 bytes of names.
        let Ok(start) = u32::try_from(self.text.len()) else { return };
        if self.find(name).is_some() {
            return;
        }
        self.text.extend_from_slice(name.key_bytes());
        let (text, hasher) = (&self.text, &self.hasher);
        let hash_of = |entry: &Entry| hasher.hash_one(name_at(text, entry.start));
        self.entries.insert_unique(hasher.hash_one(name.key_bytes()), Entry { index, start }, hash_of);
    }

    /// Returns the index of the tool with this name.
    pub(super) fn find(&self, name: &CalledKey) -> Option<u32> {
        let written = name.key_bytes();
        let is_equal = |entry: &Entry| {
            self.text.get(entry.start as usize..).is_some_and(|text| text.starts_with(written))
        };
        self.entries.find(self.hasher.hash_one(written), is_equal).map(|entry| entry.index)
    }
}

/// Returns the name at an offset: its first byte is its length.
fn name_at(text: &[u8], start: u32) -> &[u8] {
    let text = text.get(start as usize..).unwrap_or_default();
    let end = text.first().map_or(0, |length| 1 + usize::from(*length));
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> CalledKey {
        CalledKey::read(text).expect(text)
    }

    #[test]
    fn a_name_is_found_and_no_part_of_one_or_of_two() {
        let mut table = NameTable::default();
        let names: Vec<String> = (0..1_000).map(|number| format!("a{}/b{number}", number % 7)).collect();
        for (number, name) in (0..).zip(&names) {
            table.insert(&key(name), number);
        }
        for (number, name) in (0..).zip(&names) {
            assert_eq!(table.find(&key(name)), Some(number), "{name}");
        }
        for name in ["a0/b", "a1/b0", "a0/b00", "a0/b0\u{4}a1/b1", "b/a0"] {
            assert_eq!(table.find(&key(name)), None, "{name:?}");
        }
    }

    #[test]
    fn the_first_of_two_equal_names_stays() {
        let mut table = NameTable::default();
        table.insert(&key("a/b"), 1);
        table.insert(&key("a/b"), 2);
        assert_eq!(table.find(&key("call_a_b")), Some(1));
    }
}
