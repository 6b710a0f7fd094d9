//! What is made of the entries of a list or an object, in one go.
//!
//! `jaq` has most of these in the language of `jq`, where each entry takes ten thousands of instructions, and a text that grows is
//! copied for each part of it. Lists of some thousand entries would take all of a call's fuel.

use jaq_core::ValR;
use jaq_json::{Error, Map, Val};
use jaq_std::ValT as _;

use super::functions::float;
use super::written::{self, MAX_TEXT_BYTES};

type Entries<'v> = Box<dyn Iterator<Item = &'v Val> + 'v>;

/// What `.[]` gives.
fn entries(value: &Val) -> Result<Entries<'_>, Error> {
    match value {
        Val::Arr(entries) => Ok(Box::new(entries.iter())),
        Val::Obj(entries) => Ok(Box::new(entries.values())),
        other => Err(Error::typ(other.clone(), "iterable (array or object)")),
    }
}

/// A text that grows, up to a limit.
#[derive(Default)]
struct Growing(Vec<u8>);

impl Growing {
    fn push(&mut self, part: &[u8]) -> Result<(), Error> {
        if self.0.len() + part.len() > MAX_TEXT_BYTES {
            return Err(Error::str("the text becomes too large: take fewer entries"));
        }
        self.0.extend_from_slice(part);
        Ok(())
    }
}

/// `join(",")`.
pub fn join(value: &Val, separator: &Val) -> ValR<Val> {
    let mut joined = Growing::default();
    for (index, part) in entries(value)?.enumerate() {
        if index > 0 {
            match separator {
                Val::Null => {}
                Val::TStr(text) | Val::BStr(text) => joined.push(text)?,
                other => return Err(Error::typ(other.clone(), "a separator, which is a text")),
            }
        }
        match part {
            Val::Null => {}
            Val::TStr(text) | Val::BStr(text) => joined.push(text)?,
            Val::Arr(_) | Val::Obj(_) => {
                return Err(Error::str(format!(
                    "cannot join {part}: make a text of it with `tostring` first"
                )));
            }
            other => joined.push(text_of(other)?.as_bytes())?,
        }
    }
    Ok(Val::utf8_str(joined.0))
}

/// `@csv`.
pub fn csv(value: &Val) -> ValR<Val> {
    row(value, "@csv", b",", |text, row| {
        row.push(b"\"")?;
        for (index, part) in text.split(|sign| *sign == b'"').enumerate() {
            row.push(if index > 0 { b"\"\"" } else { b"" })?;
            row.push(part)?;
        }
        row.push(b"\"")
    })
}

/// `@tsv`.
pub fn tsv(value: &Val) -> ValR<Val> {
    row(value, "@tsv", b"\t", |text, row| {
        text.iter().try_for_each(|sign| {
            row.push(match sign {
                b'\\' => b"\\\\",
                b'\t' => b"\\t",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                other => std::slice::from_ref(other),
            })
        })
    })
}

fn row(
    value: &Val,
    format: &str,
    separator: &[u8],
    write: impl Fn(&[u8], &mut Growing) -> Result<(), Error>,
) -> ValR<Val> {
    let mut row = Growing::default();
    for (index, entry) in entries(value)?.enumerate() {
        row.push(if index > 0 { separator } else { b"" })?;
        match entry {
            Val::Null => {}
            // As in `jq`, what is not a number is nothing.
            Val::Num(_) if entry.as_f64().is_some_and(f64::is_nan) => {}
            Val::TStr(text) | Val::BStr(text) => write(text, &mut row)?,
            Val::Arr(_) => return Err(Error::str(format!("{format} takes no array within a row"))),
            Val::Obj(_) => return Err(Error::str(format!("{format} takes no object within a row"))),
            other => row.push(text_of(other)?.as_bytes())?,
        }
    }
    Ok(Val::utf8_str(row.0))
}

fn text_of(value: &Val) -> Result<String, Error> {
    match written::to_text(value)? {
        Val::TStr(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        other => Err(Error::typ(other, "string")),
    }
}

/// `flatten`, however deep.
pub fn flatten(value: &Val) -> ValR<Val> {
    flatten_to(value, usize::MAX)
}

/// `flatten(1)`.
pub fn flatten_by(value: &Val, depth: &Val) -> ValR<Val> {
    let depth = float(depth)?;
    if depth < 0.0 {
        return Err(Error::str("flatten depth must not be negative"));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a depth beyond the range is its end"
    )]
    flatten_to(value, depth.ceil() as usize)
}

/// With a stack of its own, for lists may be nested deeper than that of the component.
fn flatten_to(value: &Val, depth: usize) -> ValR<Val> {
    let mut flat = Vec::new();
    let mut open = vec![entries(value)?];
    while let Some(list) = open.last_mut() {
        match list.next() {
            Some(Val::Arr(inner)) if open.len() <= depth => open.push(Box::new(inner.iter())),
            Some(entry) => flat.push(entry.clone()),
            None => drop(open.pop()),
        }
    }
    Ok(flat.into_iter().collect())
}

/// `to_entries`.
pub fn to_entries(value: &Val) -> ValR<Val> {
    let entry = |key: Val, value: &Val| {
        let mut entry = Map::default();
        entry.insert(name("key"), key);
        entry.insert(name("value"), value.clone());
        Val::obj(entry)
    };
    match value {
        Val::Obj(entries) => Ok(entries.iter().map(|(key, value)| entry(key.clone(), value)).collect()),
        Val::Arr(entries) => {
            Ok(entries.iter().enumerate().map(|(key, value)| entry(Val::from(key), value)).collect())
        }
        other => Err(Error::typ(other.clone(), "iterable (array or object)")),
    }
}

/// `from_entries`, with every name that `jq` knows for a key and a value.
pub fn from_entries(value: &Val) -> ValR<Val> {
    let mut object = Map::default();
    for entry in entries(value)? {
        let fields = match entry {
            Val::Obj(fields) => fields,
            other => return Err(Error::index(other.clone(), name("key"))),
        };
        let field = |names: &[&str]| names.iter().find_map(|field| fields.get(&name(field)));
        let known = || {
            ["key", "k", "name", "Name", "K", "Key"].into_iter().filter_map(|field| fields.get(&name(field)))
        };
        // The first that is not null, be it false. A key that is written as null is one as well.
        let Some(key) = known().find(|key| **key != Val::Null).or_else(|| known().next()) else {
            return Err(Error::str(format!(
                "from_entries needs a key in each entry, as {{\"key\": \"a\", \"value\": 1}}, and there is {entry}"
            )));
        };
        let value = field(&["value", "v", "Value", "V"]).cloned().unwrap_or_default();
        object.insert(written::to_text(key)?, value);
    }
    Ok(Val::obj(object))
}

fn name(name: &str) -> Val {
    Val::from(name.to_owned())
}
