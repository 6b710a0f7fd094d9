//! Regular expressions in filters, of the same kind as those of the other tools.
//!
//! A filter asks for the same pattern for each of a thousand values, so patterns are kept.

use std::borrow::Cow;
use std::cell::RefCell;
use std::iter;
use std::ops::Range;
use std::rc::Rc;

use jaq_core::native::bome;
use jaq_core::{Bind, Cv, Exn, ValX, ValXs};
use jaq_json::{Error, Map, Val};
use regex::{Captures, Regex, RegexBuilder};

use super::functions::{Known, Query, text};
use super::written::MAX_TEXT_BYTES;
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
pub fn matches<'a>(mut cv: Cv<'a, Query>) -> ValXs<'a, Val> {
    bome(Search::new(&mut cv).and_then(|search| {
        let text = text(&cv.1)?;
        let mut cursor = Cursor::new(&text);
        let groups = search.hits(&text).map(|(captures, hit)| {
            groups(&search.regex, &captures, &text, cursor.character_at(hit.start), hit.start)
        });
        Ok(groups.collect())
    }))
}

/// Whether there is a match.
pub fn test<'a>(mut cv: Cv<'a, Query>) -> ValXs<'a, Val> {
    bome(Search::new(&mut cv).and_then(|search| {
        let is_found = match search.skips_empty {
            true => search.hits(&text(&cv.1)?).next().is_some(),
            false => search.regex.is_match(&text(&cv.1)?),
        };
        Ok(Val::Bool(is_found))
    }))
}

/// What the named groups of each match hold.
pub fn capture<'a>(mut cv: Cv<'a, Query>) -> ValXs<'a, Val> {
    let found = Search::new(&mut cv).and_then(|search| {
        let text = text(&cv.1)?;
        Ok(search.hits(&text).map(|(captures, _)| Ok(named(&search.regex, &captures))).collect::<Vec<_>>())
    });
    each(found)
}

/// Each match, or what its groups hold if it has some.
pub fn scan<'a>(mut cv: Cv<'a, Query>) -> ValXs<'a, Val> {
    let found = Search::new(&mut cv).and_then(|search| {
        let text = text(&cv.1)?;
        let found = search.hits(&text).map(|(captures, hit)| {
            let value = match search.regex.captures_len() {
                1 => Val::from(text[hit].to_owned()),
                count => (1..count).map(|group| held(&captures, group)).collect(),
            };
            Ok(value)
        });
        Ok(found.collect::<Vec<_>>())
    });
    each(found)
}

/// What is between the matches.
pub fn split<'a>(mut cv: Cv<'a, Query>) -> ValXs<'a, Val> {
    bome(Search::new(&mut cv).and_then(|search| {
        let text = text(&cv.1)?;
        let mut between = Vec::new();
        let mut copied_to = 0;
        for (_, hit) in search.hits(&text) {
            between.push(Val::from(text[copied_to..hit.start].to_owned()));
            copied_to = hit.end;
        }
        between.push(Val::from(text[copied_to..].to_owned()));
        Ok(between.into_iter().collect())
    }))
}

/// What `sub` takes: a pattern, a filter for what stands in place of a match, and flags.
pub const ARGUMENTS_OF_SUB: [Bind; 3] = [Bind::Var(()), Bind::Fun(()), Bind::Var(())];

/// Puts something else in place of each match. As in `jq` 1.7, where that has many outputs there are as many texts: the first
/// has the first for each match, and so on.
pub fn sub<'a>(mut cv: Cv<'a, Query>) -> ValXs<'a, Val> {
    let flags = cv.0.pop_var();
    let (filter, context) = cv.0.pop_fun();
    let pattern = cv.0.pop_var();
    let put = |search: &Search, text: &str| {
        let mut texts: Vec<String> = Vec::new();
        let (mut copied_to, mut bytes) = (0, 0);
        for (captures, hit) in search.hits(text) {
            let others = filter.run((context.clone(), named(&search.regex, &captures)));
            for (at, other) in others.enumerate() {
                let other = match other? {
                    // As in `jq`, what a group holds that is not in the match.
                    Val::Null => String::new(),
                    other => super::functions::text(&other)?.into_owned(),
                };
                if texts.len() == at {
                    texts.push(String::new());
                    bytes += size_of::<String>();
                }
                let before = &text[copied_to..hit.start];
                bytes += before.len() + other.len();
                // A filter may have outputs without end.
                if bytes > MAX_TEXT_BYTES {
                    return Err(Exn::from(Error::str(
                        "the text becomes too large: put something shorter in place",
                    )));
                }
                texts[at].push_str(before);
                texts[at].push_str(&other);
            }
            copied_to = hit.end;
        }
        if texts.is_empty() {
            return Ok((vec![text.to_owned()], String::new()));
        }
        Ok((texts, text[copied_to..].to_owned()))
    };
    let found = Search::of(cv.0.data(), &pattern, &flags)
        .and_then(|search| Ok((search, text(&cv.1)?)))
        .map_err(Exn::from)
        .and_then(|(search, text)| put(&search, &text));
    match found {
        // The end is put behind each as it is asked for: many texts with a long one would be too many bytes.
        Ok((texts, end)) => Box::new(texts.into_iter().map(move |text| Ok(Val::from(text + &end)))),
        Err(error) => Box::new(iter::once(Err(error))),
    }
}

fn each<'a>(found: Result<Vec<ValX<'a, Val>>, Error>) -> ValXs<'a, Val> {
    Box::new(found.unwrap_or_else(|error| vec![Err(Exn::from(error))]).into_iter())
}

/// A pattern, and which of its matches count.
struct Search {
    regex: Rc<Regex>,
    limit: usize,
    skips_empty: bool,
}

impl Search {
    fn new(cv: &mut Cv<'_, Query>) -> Result<Self, Error> {
        let flags = cv.0.pop_var();
        let pattern = cv.0.pop_var();
        Self::of(cv.0.data(), &pattern, &flags)
    }

    fn of(known: &Known, pattern: &Val, flags: &Val) -> Result<Self, Error> {
        let (pattern, more_flags) = in_list(pattern)?;
        let flags = [flags, more_flags].into_iter().filter(|flags| **flags != Val::Null);
        let flags = flags.map(|flags| text(flags).map(Cow::into_owned)).collect::<Result<String, _>>()?;
        Ok(Self {
            regex: known.patterns.get(&text(pattern)?, &flags)?,
            limit: if flags.contains('g') { usize::MAX } else { 1 },
            skips_empty: flags.contains('n'),
        })
    }

    fn hits<'t>(&self, text: &'t str) -> impl Iterator<Item = (Captures<'t>, Range<usize>)> {
        self.regex.captures_iter(text).take(self.limit).filter_map(|captures| {
            let hit = captures.get(0)?.range();
            (!(self.skips_empty && hit.is_empty())).then_some((captures, hit))
        })
    }
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

/// What a group holds, if it is in the match.
fn held(captures: &Captures<'_>, group: usize) -> Val {
    captures.get(group).map_or(Val::Null, |group| Val::from(group.as_str().to_owned()))
}

/// The named groups of a match, as an object.
fn named(regex: &Regex, captures: &Captures<'_>) -> Val {
    let mut fields = Map::default();
    for (group, name) in regex.capture_names().enumerate() {
        if let Some(name) = name {
            fields.insert(Val::from(name.to_owned()), held(captures, group));
        }
    }
    Val::obj(fields)
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
