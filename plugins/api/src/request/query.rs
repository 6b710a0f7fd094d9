//! Arguments as pairs of a query, in the styles that APIs take.

use toolgate_api::definition::Style;
use toolgate_sdk::Error;

use super::arguments::{Given, Value, refuse};
use crate::path::encode_into;
use crate::plan::{Place, Target};

/// Pairs of a query or a form, encoded.
#[derive(Default)]
pub struct Pairs(String);

impl Pairs {
    /// Begins with what is encoded already.
    pub fn after(encoded: &str) -> Self {
        Self(encoded.to_owned())
    }

    pub fn add(&mut self, name: &str, value: &str) {
        self.begin(name);
        encode_into(&mut self.0, value);
    }

    /// Adds the items as one value. The separator stands as it is sent.
    fn add_joined(&mut self, name: &str, items: &[impl AsRef<str>], separator: &str) {
        self.begin(name);
        for (index, item) in items.iter().enumerate() {
            self.0.push_str(if index == 0 { "" } else { separator });
            encode_into(&mut self.0, item.as_ref());
        }
    }

    fn begin(&mut self, name: &str) {
        self.0.push_str(if self.0.is_empty() { "" } else { "&" });
        encode_into(&mut self.0, name);
        self.0.push('=');
    }

    pub fn finish(self) -> String {
        self.0
    }
}

/// The query with its `?`; empty where there is none.
pub fn write(always: &str, given: &[(&Place, Given<'_>)]) -> Result<String, Error> {
    let mut pairs = Pairs::after(always);
    for (place, given) in given {
        if let Target::Query { name, style } = &place.target {
            add(&mut pairs, name, *style, place.whole_numbers, given)?;
        }
    }
    let query = pairs.finish();
    Ok(if query.is_empty() { query } else { format!("?{query}") })
}

fn add(pairs: &mut Pairs, name: &str, style: Style, is_whole: bool, given: &Given<'_>) -> Result<(), Error> {
    match style {
        Style::Json => {
            pairs.add(name, given.value.json());
            Ok(())
        }
        Style::DeepObject => add_members(pairs, name, is_whole, given),
        Style::Form | Style::Comma | Style::Space | Style::Pipe => {
            let items = given.value.words(is_whole).ok_or_else(|| {
                refuse(given.name, "goes into the query, which takes a word, a number or a list of them")
            })?;
            match separator(style) {
                Some(separator) if !items.is_empty() => pairs.add_joined(name, &items, separator),
                _ => items.iter().for_each(|item| pairs.add(name, item)),
            }
            Ok(())
        }
    }
}

fn separator(style: Style) -> Option<&'static str> {
    match style {
        Style::Comma => Some(","),
        Style::Space => Some("%20"),
        Style::Pipe => Some("%7C"),
        Style::Form | Style::DeepObject | Style::Json => None,
    }
}

fn add_members(pairs: &mut Pairs, name: &str, is_whole: bool, given: &Given<'_>) -> Result<(), Error> {
    let wanted = || refuse(given.name, "goes into the query as an object");
    let members = given.value.members().ok_or_else(wanted)?;
    add_each(pairs, name, members, is_whole, DEEPEST)
        .ok_or_else(|| refuse(given.name, "is nested too deeply"))
}

/// Levels of objects in a query or a form.
const DEEPEST: usize = 16;

fn add_each<'a>(
    pairs: &mut Pairs,
    name: &str,
    members: impl IntoIterator<Item = (impl AsRef<str>, Value<'a>)>,
    is_whole: bool,
    levels: usize,
) -> Option<()> {
    members.into_iter().try_for_each(|(member, value)| {
        add_nested(pairs, &format!("{name}[{}]", member.as_ref()), value, is_whole, levels)
    })
}

/// A pair for each word inside of an object, as qs, Rails and PHP read it: `filter[a][b]=1`. A list of words repeats its
/// name, and one of objects counts: `filter[a][0][b]=1`. A value that is no object is written as it is, since an empty word
/// may mean that all of it goes.
fn add_nested(pairs: &mut Pairs, name: &str, value: Value<'_>, is_whole: bool, levels: usize) -> Option<()> {
    let levels = levels.checked_sub(1)?;
    if let Some(members) = value.members() {
        return add_each(pairs, name, members, is_whole, levels);
    }
    if value.words(is_whole).is_some() {
        return add_to_form(pairs, name, value, is_whole);
    }
    let items = value.items()?.into_iter().enumerate().map(|(index, item)| (index.to_string(), item));
    add_each(pairs, name, items, is_whole, levels)
}

/// A field of a form for each word inside of an object.
pub fn add_object_to_form(pairs: &mut Pairs, name: &str, value: Value<'_>, is_whole: bool) -> Option<()> {
    add_nested(pairs, name, value, is_whole, DEEPEST)
}

/// A pair of a form: a list gives one for each item.
pub fn add_to_form(pairs: &mut Pairs, name: &str, value: Value<'_>, is_whole: bool) -> Option<()> {
    value.words(is_whole)?.iter().for_each(|item| pairs.add(name, item));
    Some(())
}
