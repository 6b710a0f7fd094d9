//! How much a call gives back.
//!
//! The host refuses a result of more than 1 MiB of JSON, and a model has no use for as much. A list is therefore cut
//! where it becomes too long, and says where to go on. A text that was made from another one is never cut, for half of
//! it would pass for the whole: it fits, or the call fails and says so.

use toolgate_sdk::Error;

/// A text in a result, written as JSON. The host's limit less what stands around the text.
pub const MAX_TEXT_BYTES: usize = 960 * 1024;

/// All entries of a list in a result, written as JSON.
const MAX_LIST_BYTES: usize = 256 * 1024;

/// How many bytes the text takes as a JSON string.
pub fn in_json(text: &str) -> usize {
    let escapes: usize = text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
            0..0x20 => 5,
            _ => 0,
        })
        .sum();
    text.len() + escapes + 2
}

/// Gives the text, if it fits into a result.
pub fn whole(text: String) -> Result<String, Error> {
    check(in_json(&text))?;
    Ok(text)
}

/// Fails while a text is still being made, before it takes all the memory there is.
pub fn check(bytes: usize) -> Result<(), Error> {
    if bytes <= MAX_TEXT_BYTES { Ok(()) } else { Err(too_large()) }
}

pub fn too_large() -> Error {
    Error::new(format!(
        "the result would be larger than {} KiB, which is the most a call gives: work on a part of the text at a time",
        MAX_TEXT_BYTES / 1024
    ))
}

/// The bytes that are left for a list.
pub struct ListBudget {
    left: usize,
    /// Whether anything was taken yet: the first entry is given even if it fills a result of its own.
    is_fresh: bool,
}

impl ListBudget {
    pub fn for_list() -> Self {
        Self { left: MAX_LIST_BYTES, is_fresh: true }
    }

    /// Takes so many bytes, if there are as many left.
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.left || (self.is_fresh && bytes <= MAX_TEXT_BYTES);
        if fits {
            self.left = self.left.saturating_sub(bytes);
            self.is_fresh = false;
        }
        fits
    }
}

/// Collects one page of a list: entries are counted while they go by, and kept from `offset` on while bytes are left.
pub struct Page<T> {
    pub entries: Vec<T>,
    pub total: usize,
    offset: usize,
    limit: usize,
    budget: ListBudget,
    is_closed: bool,
}

impl<T> Page<T> {
    pub fn new(offset: u32, limit: u32) -> Self {
        Self {
            entries: Vec::new(),
            total: 0,
            offset: offset as usize,
            limit: limit.max(1) as usize,
            budget: ListBudget::for_list(),
            is_closed: false,
        }
    }

    /// Whether the next entry may stand on this page, so that it need not be made if not.
    pub fn is_open(&self) -> bool {
        !self.is_closed && self.total >= self.offset && self.entries.len() < self.limit
    }

    /// Counts an entry that is not on this page.
    pub fn pass(&mut self) {
        self.total += 1;
    }

    /// Adds an entry that takes so many bytes of JSON.
    pub fn add(&mut self, entry: T, bytes: usize) {
        if self.is_open() && self.budget.take(bytes) {
            self.entries.push(entry);
        } else if self.is_open() {
            self.is_closed = true;
        }
        self.total += 1;
    }

    /// The offset of the next page, if there is one. Fails where an entry is too large for any page.
    pub fn next(&self, what: &str) -> Result<Option<usize>, Error> {
        let next = self.offset + self.entries.len();
        if self.is_closed && self.entries.is_empty() {
            return Err(Error::new(format!(
                "the {what} at offset {next} is larger than a result may be: work on a part of the text"
            )));
        }
        Ok((next < self.total).then_some(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_in_json_is_what_json_takes() {
        for text in ["", "plain", "\"\\/\n\r\t\u{8}\u{c}\u{1}\u{1f}\u{7f}", "ä€😀\u{2028}"] {
            assert_eq!(in_json(text), toolgate_sdk::serde_json::to_string(text).unwrap().len(), "{text:?}");
        }
    }

    #[test]
    fn a_page_ends_where_the_room_does_and_says_where_to_go_on() {
        let mut page = Page::new(1, 10);
        for entry in 0..5 {
            page.add(entry, 100 * 1024);
        }

        assert_eq!((page.entries.as_slice(), page.total), (&[1, 2][..], 5));
        assert_eq!(page.next("part"), Ok(Some(3)));
    }

    #[test]
    fn an_entry_too_large_for_any_page_is_no_endless_loop() {
        let mut page = Page::new(0, 10);
        page.add((), 2 * 1024 * 1024);
        page.add((), 1);

        assert!(page.next("part").unwrap_err().message().starts_with("the part at offset 0 is larger"));
    }
}
