//! `replace`: one text for another.

use formats::pattern;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::size;

/// Replaces each occurrence of a text by another, literally.
///
/// No sign has a special meaning; `regex_replace` replaces by a pattern. `count` is 0 if nothing was found.
#[tool(
    read_only,
    tags("text", "substitute", "edit"),
    examples(
        {"text": "1.5 + 2.5", "find": ".", "replacement": ","} => {"text": "1,5 + 2,5", "count": 2},
        {"text": "Foo foo FOO", "find": "foo", "replacement": "bar", "ignore_case": true, "limit": 2} => {"text": "bar bar FOO", "count": 2},
    )
)]
pub fn replace(
    /// The text to change
    text: String,
    /// The text to look for
    find: String,
    /// Text in its place; empty to remove it
    replacement: String,
    /// Whether `a` finds `A` too
    #[default]
    ignore_case: bool,
    /// How many occurrences to replace at most, from the start; left out, all
    #[schemars(range(min = 1))]
    limit: Option<u32>,
) -> Result<Replaced, Error> {
    let places = pattern::compile_literal(&find, ignore_case)?;
    let mut replaced = Replacing::new(&text);
    for place in places.find_iter(&text).take(limit.map_or(usize::MAX, |limit| limit as usize)) {
        replaced.put(place.start(), place.end(), &replacement)?;
    }
    replaced.finish()
}

/// A changed text.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Replaced {
    /// The text after the change
    pub text: String,
    /// How many places were changed
    pub count: usize,
}

/// A text while it is being changed from its start to its end.
pub struct Replacing<'t> {
    text: &'t str,
    copied_to: usize,
    changed: String,
    count: usize,
}

impl<'t> Replacing<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, copied_to: 0, changed: String::with_capacity(text.len()), count: 0 }
    }

    /// Puts the replacement in the place of some bytes that follow the last ones.
    pub fn put(&mut self, start: usize, end: usize, replacement: &str) -> Result<(), Error> {
        self.keep_to(start);
        self.add(replacement)?;
        self.pass_to(end);
        Ok(())
    }

    /// Keeps the text up to here as it is.
    pub fn keep_to(&mut self, start: usize) {
        self.changed.push_str(&self.text[self.copied_to..start]);
    }

    /// Adds to what takes the place of the next bytes.
    pub fn add(&mut self, replacement: &str) -> Result<(), Error> {
        size::check(self.changed.len() + replacement.len())?;
        self.changed.push_str(replacement);
        Ok(())
    }

    /// Leaves out the text up to here.
    pub fn pass_to(&mut self, end: usize) {
        self.copied_to = end;
        self.count += 1;
    }

    pub fn finish(mut self) -> Result<Replaced, Error> {
        self.changed.push_str(&self.text[self.copied_to..]);
        Ok(Replaced { text: size::whole(self.changed)?, count: self.count })
    }
}
