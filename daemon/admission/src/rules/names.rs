//! The names of a catalogue's tools, and the number behind each.
//!
//! In a large house what a decision costs is the places in memory that it looks at. So all names are one text, and the
//! table in front of it holds eight bytes for each: with ten thousand tools both are half a megabyte, which a processor
//! mostly has in a cache of its own.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::name::CalledKey;

/// Numbers by name.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    entries: HashTable<Entry>,
    /// Each name as its key writes it, one behind the other.
    text: Vec<u8>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u32,
    /// Where the name begins in the text.
    start: u32,
}

impl NameTable {
    /// Gives a number a name. Of two of the same name the first stays.
    pub fn insert(&mut self, name: &CalledKey, number: u32) {
        // A catalogue has far fewer names than this, of 60 bytes at most.
        let Ok(start) = u32::try_from(self.text.len()) else { return };
        if self.find(name).is_some() {
            return;
        }
        self.text.extend_from_slice(name.written());
        let (text, hasher) = (&self.text, &self.hasher);
        let hash_of = |entry: &Entry| hasher.hash_one(written_at(text, entry.start));
        self.entries.insert_unique(hasher.hash_one(name.written()), Entry { number, start }, hash_of);
    }

    /// The number of a name.
    pub fn find(&self, name: &CalledKey) -> Option<u32> {
        let written = name.written();
        let is_it = |entry: &Entry| {
            self.text.get(entry.start as usize..).is_some_and(|text| text.starts_with(written))
        };
        self.entries.find(self.hasher.hash_one(written), is_it).map(|entry| entry.number)
    }
}

/// The name that begins there: its length says where it ends.
fn written_at(text: &[u8], start: u32) -> &[u8] {
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
    fn of_two_of_one_name_the_first_stays() {
        let mut table = NameTable::default();
        table.insert(&key("a/b"), 1);
        table.insert(&key("a/b"), 2);
        assert_eq!(table.find(&key("call_a_b")), Some(1));
    }
}
