//! What is set within what is not there yet, as `.a.b = 1` in an empty object and `.[0] = 1` in an empty list.
//!
//! `jq` makes the objects and lists that lead to it, and `jaq` fails. Here the entry is made before `jaq` looks for it, and
//! taken away again if the update gives none, as `|= empty`.

use std::rc::Rc;

use jaq_core::ValXs;
use jaq_core::native::bome;
use jaq_json::{Error, Map, Val};

/// The longest list that is made because an entry of it is set. No result has as many entries.
const MAX_ENTRIES: usize = 1 << 20;

/// Whether nothing has to be made for the update of an entry.
pub fn has_place(value: &Val, key: &Val) -> bool {
    match (value, key) {
        (Val::Null, _) => false,
        (Val::Arr(entries), Val::Num(_)) => position(key).is_none_or(|index| index < entries.len()),
        _ => true,
    }
}

/// Runs the update of an entry on a value that has a place for it.
pub fn update<'v>(mut value: Val, key: &Val, update: impl Fn(Val) -> ValXs<'v, Val>) -> ValXs<'v, Val> {
    match make(&mut value, key) {
        Ok(None) => update(value),
        Ok(Some(made)) => Box::new(update(value).map(move |updated| Ok(made.unless_set(updated?)))),
        Err(error) => bome(Err(error)),
    }
}

/// What was made.
struct Made {
    was_null: bool,
    entries_before: usize,
    entries: usize,
}

fn make(value: &mut Val, key: &Val) -> Result<Option<Made>, Error> {
    let was_null = matches!(value, Val::Null);
    let entries = match key {
        Val::TStr(_) | Val::BStr(_) if was_null => {
            *value = Val::obj(Map::default());
            return Ok(Some(Made { was_null, entries_before: 0, entries: 1 }));
        }
        _ => match position(key) {
            Some(index) => index + 1,
            None => return Ok(None),
        },
    };
    if was_null {
        *value = Val::Arr(Rc::default());
    }
    let Val::Arr(list) = value else { return Ok(None) };
    let entries_before = list.len();
    if entries <= entries_before {
        return Ok(None);
    }
    if entries > MAX_ENTRIES {
        return Err(Error::str(format!(
            "no list is made as long as [{key}] needs, which is more than {MAX_ENTRIES} entries: take an object, as \
             .[\"{key}\"]"
        )));
    }
    Rc::make_mut(list).resize(entries, Val::Null);
    Ok(Some(Made { was_null, entries_before, entries }))
}

/// The place in a list. What counts from the end has to be there.
fn position(key: &Val) -> Option<usize> {
    match key {
        Val::Num(index) => index.as_isize()?.try_into().ok(),
        _ => None,
    }
}

impl Made {
    fn unless_set(&self, mut updated: Val) -> Val {
        let is_set = match &updated {
            Val::Arr(entries) => entries.len() >= self.entries,
            Val::Obj(entries) => entries.len() >= self.entries,
            _ => true,
        };
        match &mut updated {
            _ if is_set => {}
            Val::Arr(entries) if !self.was_null => Rc::make_mut(entries).truncate(self.entries_before),
            _ => updated = Val::Null,
        }
        updated
    }
}
