//! Regular expressions in filters, of the same kind as those of the other tools.
//!
//! A filter asks for the same pattern for each of a thousand values, so patterns are kept.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use jaq_core::native::bome;
use jaq_core::{Cv, ValXs};
use jaq_json::{Error, Map, Val};
use regex::{Captures, Regex, RegexBuilder};

use super::functions::{Query, text};
use crate::pattern::{self, Cursor};

/// More patterns than these are made by the filter itself.
const MAX_KEPT: usize = 16;

/// Patterns that were compiled, with their flags.
#[derive(Default)]
pub struct Patterns(RefCell<Vec<(String, String, Rc<Regex>)>>);

impl Patterns {
    fn get(&self, pattern: &str, flags: &str) -> Result<Rc<Regex>, Error> {
        let mut kept = self.0.borrow_mut();
        if let Some((_, _, regex)) = kept.iter().find(|(kept, with, _)| kept == pattern && with == flags) {
            return Ok(Rc::clone(regex));
        }
        let regex = Rc::new(compile(pattern, flags)?);
        if kept.len() == MAX_KEPT {
            kept.clear();
        }
        kept.push((pattern.to_owned(), flags.to_owned(), Rc::clone(&regex)));
        Ok(regex)
    }
}

/// All matches, each a list of its groups.
pub fn matches<'a>(cv: Cv<'a, Query>) -> ValXs<'a, Val> {
    bome(search(cv, false, true))
}

/// What is between the matches, and the matches.
pub fn split_matches<'a>(cv: Cv<'a, Query>) -> ValXs<'a, Val> {
    bome(search(cv, true, true))
}

/// What is between the matches.
pub fn split<'a>(cv: Cv<'a, Query>) -> ValXs<'a, Val> {
    bome(search(cv, true, false))
}

fn search(mut cv: Cv<'_, Query>, with_between: bool, with_matches: bool) -> Result<Val, Error> {
    let flags = cv.0.pop_var();
    let pattern = cv.0.pop_var();
    let (pattern, more_flags) = in_list(&pattern)?;
    let flags = [&flags, more_flags].into_iter().filter(|flags| **flags != Val::Null);
    let flags = flags.map(|flags| text(flags).map(Cow::into_owned)).collect::<Result<String, _>>()?;
    let regex = cv.0.data().patterns.get(&text(pattern)?, &flags)?;
    let text = text(&cv.1)?;

    let limit = if flags.contains('g') { usize::MAX } else { 1 };
    let skips_empty = flags.contains('n');
    let mut cursor = Cursor::new(&text);
    let mut found = Vec::new();
    let mut copied_to = 0;
    for captures in regex.captures_iter(&text).take(limit) {
        let Some(hit) = captures.get(0).filter(|hit| !(skips_empty && hit.is_empty())) else { continue };
        if with_between {
            found.push(Val::from(text[copied_to..hit.start()].to_owned()));
            copied_to = hit.end();
        }
        if with_matches {
            found.push(groups(&regex, &captures, &text, cursor.character_at(hit.start()), hit.start()));
        }
    }
    if with_between {
        found.push(Val::from(text[copied_to..].to_owned()));
    }
    Ok(found.into_iter().collect())
}

/// The pattern and its flags where a list of both stands for them, as `jq` lets it: `test(["a", "i"])`.
fn in_list(pattern: &Val) -> Result<(&Val, &Val), Error> {
    let Val::Arr(both) = pattern else { return Ok((pattern, &Val::Null)) };
    match both.as_slice() {
        [pattern] => Ok((pattern, &Val::Null)),
        [pattern, flags] => Ok((pattern, flags)),
        _ => Err(Error::str("a list for a pattern has it and its flags, as in `[\"a\", \"gi\"]`")),
    }
}

/// The groups of a match as `jq` gives them. The first of them is the whole match.
fn groups(regex: &Regex, captures: &Captures<'_>, text: &str, start: usize, start_byte: usize) -> Val {
    let names = regex.capture_names().enumerate();
    let group = |(number, name): (usize, Option<&str>)| {
        let mut fields = Map::default();
        let mut set = |key: &str, value: Val| fields.insert(Val::from(key.to_owned()), value);
        match captures.get(number) {
            Some(group) => {
                let before = text.get(start_byte..group.start()).map_or(0, |before| before.chars().count());
                set("offset", Val::from(start + before));
                set("length", Val::from(group.as_str().chars().count()));
                set("string", Val::from(group.as_str().to_owned()));
            }
            None => {
                set("offset", Val::from(-1_isize));
                set("length", Val::from(0_usize));
                set("string", Val::Null);
            }
        }
        if number > 0 {
            set("name", name.map_or(Val::Null, |name| Val::from(name.to_owned())));
        }
        Val::obj(fields)
    };
    names.map(group).collect()
}

fn compile(pattern: &str, flags: &str) -> Result<Regex, Error> {
    let mut builder = RegexBuilder::new(pattern);
    for flag in flags.chars() {
        match flag {
            'g' | 'n' => {}
            'i' => drop(builder.case_insensitive(true)),
            'x' => drop(builder.ignore_whitespace(true)),
            // In the engine of `jq` a dot with `s`, and lines with `m` in others.
            's' => drop(builder.dot_matches_new_line(true)),
            'm' => drop(builder.multi_line(true)),
            'p' => drop(builder.dot_matches_new_line(true).multi_line(true)),
            'l' => drop(builder.swap_greed(true)),
            other => {
                return Err(Error::str(format!(
                    "`{other}` is no flag of a pattern, but g, i, m, n, p, s and x"
                )));
            }
        }
    }
    builder
        .size_limit(pattern::MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| Error::str(pattern::explain(&error)))
}
