//! `delpaths`: takes entries out of a document, all of them as they stood before.
//!
//! `jaq` takes one out after the other, so that the second of `del(.[0, 1])` is another one by then. Here the paths are
//! sorted and those of one list or object go at once, as in `jq`. What is not there is deleted already.

use std::ops::Range;
use std::rc::Rc;

use jaq_core::ValR;
use jaq_json::{Error, Val};
use jaq_std::ValT as _;

/// Longer paths lead into no document that could be given back, and each step is a call within a call.
const MAX_PATH: usize = 1_000;

pub fn delete_paths(value: Val, paths: &Val) -> ValR<Val> {
    let mut sorted = list(paths)?.iter().map(|path| list(path)).collect::<Result<Vec<_>, _>>()?;
    if sorted.iter().any(|path| path.len() > MAX_PATH) {
        return Err(Error::str(format!("a path has more than {MAX_PATH} steps")));
    }
    sorted.sort();
    delete(value, &sorted)
}

fn list(value: &Val) -> Result<&[Val], Error> {
    match value {
        Val::Arr(entries) => Ok(entries),
        other => Err(Error::str(format!("{other} is no path: a path is a list, as [\"a\", 0]"))),
    }
}

/// Sorted, what leads to the same entry stands together, and an entry itself before what is within it.
fn delete(mut value: Val, paths: &[&[Val]]) -> ValR<Val> {
    if paths.first().is_some_and(|path| path.is_empty()) {
        return Ok(Val::Null);
    }
    let mut whole: Vec<&Val> = Vec::new();
    for group in paths.chunk_by(|left, right| left.first() == right.first()).rev() {
        let [key, within @ ..] = group[0] else { continue };
        if within.is_empty() {
            whole.push(key);
        } else {
            let steps: Vec<&[Val]> = group.iter().map(|path| &path[1..]).collect();
            value = delete_within(value, key, &steps)?;
        }
    }
    delete_entries(value, whole)
}

fn delete_within(mut value: Val, key: &Val, steps: &[&[Val]]) -> ValR<Val> {
    match (&mut value, key) {
        (Val::Null, _) => {}
        (Val::Obj(entries), Val::TStr(_) | Val::BStr(_)) => {
            if let Some(entry) = Rc::make_mut(entries).get_mut(key) {
                *entry = delete(std::mem::take(entry), steps)?;
            }
        }
        (Val::Arr(entries), Val::Num(_)) => {
            if let Some(index) = position(key, entries.len()) {
                let entry = &mut Rc::make_mut(entries)[index];
                *entry = delete(std::mem::take(entry), steps)?;
            }
        }
        (Val::Arr(entries), Val::Obj(_)) => {
            let range = positions(key, entries.len())?;
            let part = entries[range.clone()].iter().cloned().collect();
            if let Val::Arr(left) = delete(part, steps)? {
                Rc::make_mut(entries).splice(range, left.iter().cloned());
            }
        }
        (other, key) => return Err(no_entry(other, key)),
    }
    Ok(value)
}

fn delete_entries(mut value: Val, mut keys: Vec<&Val>) -> ValR<Val> {
    match &mut value {
        _ if keys.is_empty() => {}
        Val::Null => {}
        Val::Obj(entries) => {
            if let Some(key) = keys.iter().find(|key| !matches!(key, Val::TStr(_) | Val::BStr(_))) {
                return Err(no_entry(&value, key));
            }
            keys.sort();
            Rc::make_mut(entries).retain(|key, _| keys.binary_search(&key).is_err());
        }
        Val::Arr(entries) => {
            let mut is_deleted = vec![false; entries.len()];
            for key in keys {
                let range = match key {
                    Val::Num(_) => position(key, entries.len()).map_or(0..0, |index| index..index + 1),
                    Val::Obj(_) => positions(key, entries.len())?,
                    key => return Err(no_entry(&value, key)),
                };
                is_deleted[range].fill(true);
            }
            let mut is_deleted = is_deleted.into_iter();
            Rc::make_mut(entries).retain(|_| !is_deleted.next().unwrap_or_default());
        }
        other => return Err(no_entry(other, keys[0])),
    }
    Ok(value)
}

/// The place of an entry. Negative numbers count from the end, and a fraction is cut off.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "compared with the length before"
)]
fn position(key: &Val, length: usize) -> Option<usize> {
    let index = key.as_f64()?.floor();
    let index = if index < 0.0 { index + length as f64 } else { index };
    (0.0..length as f64).contains(&index).then_some(index as usize)
}

/// The places of `.[start:end]`, which are cut to what there is.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "within the length"
)]
fn positions(key: &Val, length: usize) -> Result<Range<usize>, Error> {
    let Val::Obj(bounds) = key else { return Ok(0..0) };
    let bound = |name: &str, without: usize, round: fn(f64) -> f64| match bounds
        .get(&Val::utf8_str(name.to_owned()))
    {
        None | Some(Val::Null) => Ok(without),
        Some(bound) => {
            let bound = bound.as_f64().ok_or_else(|| Error::typ(bound.clone(), "number"))?;
            let bound = if bound < 0.0 { bound + length as f64 } else { bound };
            Ok(round(bound).clamp(0.0, length as f64) as usize)
        }
    };
    let (start, end) = (bound("start", 0, f64::floor)?, bound("end", length, f64::ceil)?);
    Ok(start..end.max(start))
}

fn no_entry(value: &Val, key: &Val) -> Error {
    let kind = match value {
        Val::Null => "null",
        Val::Bool(_) => "a boolean",
        Val::Num(_) => "a number",
        Val::TStr(_) | Val::BStr(_) => "a text",
        Val::Arr(_) => "a list",
        Val::Obj(_) => "an object",
    };
    Error::str(format!("{key} cannot be deleted from {kind}: it has no such entries"))
}
