//! A value as JSON text, as `tojson`, `tostring` and `"\(…)"` write it.
//!
//! `jaq` writes what is not JSON, as `NaN` and `Infinity`, and `1.0` where `jq` writes `1`.

use jaq_core::ValR;
use jaq_json::{Error, Num, Val, read};
use toolgate_sdk::serde_json;

use super::shown::{self, MAX_DEPTH};

/// Whole floats below this are written as integers, as in `jq`: these are the digits that a float can tell.
const WHOLE_BELOW: f64 = 1e17;
const WHOLE_DIGITS: usize = 17;

/// Far more than a result may have, for a filter may look only at a part of it.
pub(super) const MAX_TEXT_BYTES: usize = 16 << 20;

/// The largest number, as `jq` writes what is infinite.
const LARGEST: &str = "1.7976931348623157e+308";

/// What makes a text of a value within `"\(…)"`. No filter can name it, for it is no word.
pub const TO_TEXT: &str = " to text";

/// A text as it is, and all else as JSON.
pub fn to_text(value: &Val) -> ValR<Val> {
    match value {
        Val::TStr(text) | Val::BStr(text) => Ok(Val::TStr(text.clone())),
        other => to_json(other),
    }
}

pub fn to_json(value: &Val) -> ValR<Val> {
    let mut json = String::new();
    write(value, &mut json, 0)?;
    Ok(Val::from(json))
}

/// The one value of a JSON text.
pub fn from_json(value: &Val) -> ValR<Val> {
    let Val::TStr(text) = value else { return Err(Error::typ(value.clone(), "string")) };
    let mut values = read::parse_many(text);
    let first = values.next().transpose().and_then(|first| Ok((first, values.next().transpose()?)));
    match first {
        Ok((Some(value), None)) => Ok(value),
        Ok((None, _)) => Err(Error::str("an empty text is no JSON: leave it out with `select(. != \"\")`")),
        Ok((Some(_), Some(_))) => Err(Error::str(format!(
            "a text of more than one JSON value: take it apart with `splits`; it is {value}"
        ))),
        Err(error) => Err(Error::str(format!("the text is no JSON, {error}: {value}"))),
    }
}

fn write(value: &Val, json: &mut String, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::str(format!(
            "the value is nested more than {MAX_DEPTH} deep: write a part of it"
        )));
    }
    // Values share their parts, so that a small one may be a huge text.
    if json.len() > MAX_TEXT_BYTES {
        return Err(Error::str("the value is too large to be written as JSON: write a part of it"));
    }
    match value {
        Val::Null => json.push_str("null"),
        Val::Bool(value) => json.push_str(if *value { "true" } else { "false" }),
        Val::Num(number) => json.push_str(&number_text(number)),
        Val::TStr(text) | Val::BStr(text) => write_text(&String::from_utf8_lossy(text), json),
        Val::Arr(entries) => {
            json.push('[');
            for (index, entry) in entries.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                write(entry, json, depth + 1)?;
            }
            json.push(']');
        }
        Val::Obj(entries) => {
            json.push('{');
            for (index, (key, entry)) in entries.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                write_text(&shown::key_text(key), json);
                json.push(':');
                write(entry, json, depth + 1)?;
            }
            json.push('}');
        }
    }
    Ok(())
}

fn write_text(text: &str, json: &mut String) {
    // A text can always be written.
    json.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// As `jq` writes it: whole numbers without a fraction. Others keep the digits that they came with.
fn number_text(number: &Num) -> String {
    match number {
        Num::Int(_) | Num::BigInt(_) => number.to_string(),
        Num::Float(number) => float_text(*number),
        Num::Dec(digits) => {
            whole_digits(digits).unwrap_or_else(|| match digits.parse::<serde_json::Number>() {
                Ok(_) => digits.to_string(),
                Err(_) => float_text(digits.parse().unwrap_or(f64::NAN)),
            })
        }
    }
}

fn float_text(number: f64) -> String {
    match number {
        _ if number.is_nan() => "null".to_owned(),
        f64::INFINITY => LARGEST.to_owned(),
        f64::NEG_INFINITY => format!("-{LARGEST}"),
        _ if number.fract() == 0.0 && number.abs() < WHOLE_BELOW => format!("{number:.0}"),
        _ => Num::Float(number).to_string(),
    }
}

/// The digits of a whole number that is written with a point or an exponent, as `1.0` and `1e3`. Read as text, for a
/// float forgets the end of `1.000000000000000000001`.
fn whole_digits(written: &str) -> Option<String> {
    let (sign, number) = written.strip_prefix('-').map_or(("", written), |number| ("-", number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{before}{after}");
    let kept = digits.trim_end_matches('0');
    let significant = kept.trim_start_matches('0');
    if significant.is_empty() {
        return Some(format!("{sign}0"));
    }
    let point = before.len() as i64 + exponent.parse::<i64>().ok()?;
    let zeros = usize::try_from(point - kept.len() as i64).ok()?;
    (significant.len() + zeros <= WHOLE_DIGITS).then(|| format!("{sign}{significant}{}", "0".repeat(zeros)))
}
