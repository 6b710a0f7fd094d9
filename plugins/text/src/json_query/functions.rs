//! Functions of `jq` that are not written in `jq` itself, and that `jaq` has only together with files and time zones.

use std::iter;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use jaq_core::native::{Fun, bome, run, unary, v};
use jaq_core::{DataT, Exn, Lut, Native, RunPtr, ValR, data::HasLut};
use jaq_json::{Error, Map, Val};
use jaq_std::ValT as _;

use super::patterns::{self, Patterns};
use super::{delete, rows, strict, time, written};

/// The kind of data that filters run over here.
pub struct Query;

/// What filters know while they run.
pub struct Known {
    lut: Lut<Query>,
    pub patterns: Patterns,
}

impl Known {
    pub fn new(lut: Lut<Query>) -> Self {
        Self { lut, patterns: Patterns::default() }
    }
}

impl DataT for Query {
    type V<'a> = Val;
    type Data<'a> = &'a Known;
}

impl<'a> HasLut<'a, Query> for &'a Known {
    fn lut(&self) -> &'a Lut<Query> {
        &self.lut
    }
}

/// Makes a function of one of two values.
macro_rules! of_two {
    ($function:expr) => {
        |mut cv| {
            let second = cv.0.pop_var();
            bome($function(cv.0.pop_var(), second))
        }
    };
}

/// The functions by their names.
pub fn functions() -> impl Iterator<Item = Fun<Query>> {
    let no_argument = nullary().into_iter().map(|(name, function)| run::<Query>((name, v(0), function)));
    let one_argument = [
        ("strftime", (|cv| unary(cv, time::strftime)) as RunPtr<Query>),
        ("strflocaltime", |cv| unary(cv, time::strftime)),
        ("strptime", |cv| unary(cv, time::strptime)),
        ("delpaths", |cv| unary(cv, |value, paths| delete::delete_paths(value, &paths))),
        ("join", |cv| unary(cv, |value, separator| rows::join(&value, &separator))),
        ("flatten", |cv| unary(cv, |value, depth| rows::flatten_by(&value, &depth))),
    ];
    let one_argument = one_argument.into_iter().map(|(name, function)| run::<Query>((name, v(1), function)));
    let two_arguments = two_numbers().into_iter().chain([
        ("matches", patterns::matches as RunPtr<Query>),
        ("test", patterns::test),
        ("capture", patterns::capture),
        ("_scan", patterns::scan),
        ("split_", patterns::split),
        (strict::DIVIDE, of_two!(strict::divide)),
        (strict::REMAINDER, of_two!(strict::remainder)),
    ]);
    no_argument
        .chain(kinds().into_iter().map(|(name, function)| run::<Query>((name, v(0), function))))
        .chain(selections().map(|(name, function)| (name, v(0), function)))
        .chain([
            ("empty", v(0), nothing()),
            run::<Query>(("sub", patterns::ARGUMENTS_OF_SUB.into(), patterns::sub)),
        ])
        .chain(one_argument)
        .chain(two_arguments.map(|(name, function)| run::<Query>((name, v(2), function))))
        .chain(strict::functions())
}

type Named = (&'static str, RunPtr<Query>);

/// Makes a function that says whether a value is of a kind.
macro_rules! is {
    ($kind:pat) => {
        |cv| bome(Ok(Val::Bool(matches!(cv.1, $kind))))
    };
}

/// What nearly every filter asks of its values. `jaq` has these in the language of `jq`, as comparisons with values of other
/// kinds, which take a hundred times as long.
fn kinds() -> Vec<Named> {
    vec![
        ("null", |_| bome(Ok(Val::Null))),
        ("true", |_| bome(Ok(Val::Bool(true)))),
        ("false", |_| bome(Ok(Val::Bool(false)))),
        ("not", is!(Val::Null | Val::Bool(false))),
        ("isboolean", is!(Val::Bool(_))),
        ("isnumber", is!(Val::Num(_))),
        ("isstring", is!(Val::TStr(_) | Val::BStr(_))),
        ("isarray", is!(Val::Arr(_))),
        ("isobject", is!(Val::Obj(_))),
        ("type", |cv| {
            let name = match cv.1 {
                Val::Null => "null",
                Val::Bool(_) => "boolean",
                Val::Num(_) => "number",
                Val::TStr(_) | Val::BStr(_) => "string",
                Val::Arr(_) => "array",
                Val::Obj(_) => "object",
            };
            bome(Ok(Val::from(name.to_owned())))
        }),
    ]
}

/// Makes a function that lets values of a kind through, also within a path and where they are updated.
macro_rules! only {
    ($kind:pat) => {{
        let only = Native::new(|cv| Box::new(matches!(cv.1, $kind).then_some(Ok(cv.1)).into_iter()));
        only.with_paths(|cv| Box::new(matches!(cv.1.0, $kind).then_some(Ok(cv.1)).into_iter())).with_update(
            |cv, update| match cv.1 {
                $kind => update(cv.1),
                _ => Box::new(iter::once(Ok(cv.1))),
            },
        )
    }};
}

/// The functions that let values of a kind through.
fn selections() -> [(&'static str, Native<Query>); 9] {
    [
        ("nulls", only!(Val::Null)),
        ("booleans", only!(Val::Bool(_))),
        ("numbers", only!(Val::Num(_))),
        ("strings", only!(Val::TStr(_) | Val::BStr(_))),
        ("arrays", only!(Val::Arr(_))),
        ("objects", only!(Val::Obj(_))),
        ("iterables", only!(Val::Arr(_) | Val::Obj(_))),
        ("scalars", only!(Val::Null | Val::Bool(_) | Val::Num(_) | Val::TStr(_) | Val::BStr(_))),
        (
            "values",
            only!(Val::Bool(_) | Val::Num(_) | Val::TStr(_) | Val::BStr(_) | Val::Arr(_) | Val::Obj(_)),
        ),
    ]
}

/// `empty`, which is a path as well, and leaves what is updated as it is.
fn nothing() -> Native<Query> {
    let nothing = Native::new(|_| Box::new(iter::empty()));
    nothing
        .with_paths(|_| Box::new(iter::empty()))
        .with_update(|cv, _| Box::new(iter::once(Ok::<_, Exn<'_, Val>>(cv.1))))
}

/// Makes a function of the method of a float.
macro_rules! of_number {
    ($function:expr) => {
        |cv| bome(float(&cv.1).map(|number| Val::from_float($function(number))))
    };
}

fn nullary() -> Vec<Named> {
    vec![
        ("acos", of_number!(f64::acos)),
        ("acosh", of_number!(f64::acosh)),
        ("asin", of_number!(f64::asin)),
        ("asinh", of_number!(f64::asinh)),
        ("atan", of_number!(f64::atan)),
        ("atanh", of_number!(f64::atanh)),
        ("cbrt", of_number!(f64::cbrt)),
        ("cos", of_number!(f64::cos)),
        ("cosh", of_number!(f64::cosh)),
        ("exp", of_number!(f64::exp)),
        ("exp10", of_number!(|number| 10_f64.powf(number))),
        ("exp2", of_number!(f64::exp2)),
        ("expm1", of_number!(f64::exp_m1)),
        ("fabs", of_number!(f64::abs)),
        ("log", of_number!(f64::ln)),
        ("log10", of_number!(f64::log10)),
        ("log1p", of_number!(f64::ln_1p)),
        ("log2", of_number!(f64::log2)),
        ("nearbyint", of_number!(f64::round_ties_even)),
        ("rint", of_number!(f64::round_ties_even)),
        ("sin", of_number!(f64::sin)),
        ("sinh", of_number!(f64::sinh)),
        ("sqrt", of_number!(f64::sqrt)),
        ("tan", of_number!(f64::tan)),
        ("tanh", of_number!(f64::tanh)),
        ("trunc", of_number!(f64::trunc)),
        ("escape_html", |cv| bome(escape_html(&cv.1))),
        ("encode_uri", |cv| bome(encode_uri(&cv.1))),
        ("decode_uri", |cv| bome(decode_uri(&cv.1))),
        ("encode_base64", |cv| bome(bytes(&cv.1).map(|bytes| Val::utf8_str(STANDARD.encode(bytes))))),
        ("decode_base64", |cv| bome(decode_base64(&cv.1))),
        ("fromjson", |cv| bome(written::from_json(&cv.1))),
        ("flatten", |cv| bome(rows::flatten(&cv.1))),
        ("to_entries", |cv| bome(rows::to_entries(&cv.1))),
        ("from_entries", |cv| bome(rows::from_entries(&cv.1))),
        ("_csv", |cv| bome(rows::csv(&cv.1))),
        ("_tsv", |cv| bome(rows::tsv(&cv.1))),
        ("tojson", |cv| bome(written::to_json(&cv.1))),
        ("tostring", |cv| bome(written::to_text(&cv.1))),
        (written::TO_TEXT, |cv| bome(written::to_text(&cv.1))),
        ("todateiso8601", |cv| bome(time::to_iso8601(&cv.1))),
        ("fromdateiso8601", |cv| bome(time::from_iso8601(&cv.1))),
        ("gmtime", |cv| bome(time::gmtime(&cv.1))),
        ("localtime", |cv| bome(time::gmtime(&cv.1))),
        ("mktime", |cv| bome(time::mktime(&cv.1))),
        ("now", |_| bome(time::now())),
        // There is no environment here, and nobody who reads what is written beside the results.
        ("env", |_| bome(Ok(Val::obj(Map::default())))),
        ("debug_empty", |_| Box::new(iter::empty())),
        ("stderr_empty", |_| Box::new(iter::empty())),
    ]
}

/// Makes a function of a method of two floats.
macro_rules! of_two_numbers {
    ($function:expr) => {
        |mut cv| {
            let second = cv.0.pop_var();
            let first = cv.0.pop_var();
            let result =
                float(&first).and_then(|first| Ok(Val::from_float($function(first, float(&second)?))));
            bome(result)
        }
    };
}

fn two_numbers() -> Vec<Named> {
    vec![
        ("atan2", of_two_numbers!(f64::atan2)),
        ("copysign", of_two_numbers!(f64::copysign)),
        ("fmax", of_two_numbers!(f64::max)),
        ("fmin", of_two_numbers!(f64::min)),
        ("fmod", of_two_numbers!(|first: f64, second: f64| first % second)),
        ("hypot", of_two_numbers!(f64::hypot)),
        ("ldexp", of_two_numbers!(|first: f64, second: f64| first * second.exp2())),
        ("pow", of_two_numbers!(f64::powf)),
    ]
}

/// Numbers that are whole again can be an index.
trait FromFloat {
    fn from_float(number: f64) -> Self;
}

impl FromFloat for Val {
    #[expect(clippy::cast_possible_truncation, reason = "integral and in range")]
    fn from_float(number: f64) -> Self {
        if number.fract() == 0.0 && number.abs() <= f64::from(i32::MAX) {
            return Self::from(number as isize);
        }
        Self::from(number)
    }
}

pub fn float(value: &Val) -> Result<f64, Error> {
    value.as_f64().ok_or_else(|| Error::typ(value.clone(), "number"))
}

pub fn bytes(value: &Val) -> Result<&[u8], Error> {
    value.as_bytes().ok_or_else(|| Error::typ(value.clone(), "string"))
}

pub fn text(value: &Val) -> Result<std::borrow::Cow<'_, str>, Error> {
    bytes(value).map(String::from_utf8_lossy)
}

fn escape_html(value: &Val) -> ValR<Val> {
    let text = text(value)?;
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\'' => escaped.push_str("&#39;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    Ok(Val::utf8_str(escaped))
}

fn encode_uri(value: &Val) -> ValR<Val> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::new();
    for byte in bytes(value)? {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(byte) {
            encoded.push(char::from(*byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(DIGITS[usize::from(byte >> 4)]));
            encoded.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    Ok(Val::utf8_str(encoded))
}

/// What is no escape stays as it is.
fn decode_uri(value: &Val) -> ValR<Val> {
    let mut rest = bytes(value)?;
    let mut decoded = Vec::with_capacity(rest.len());
    while let [first, after @ ..] = rest {
        let digit = |at: usize| after.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let escaped = digit(0).zip(digit(1)).filter(|_| *first == b'%');
        match escaped.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(byte) => {
                decoded.push(byte);
                rest = &after[2..];
            }
            None => {
                decoded.push(*first);
                rest = after;
            }
        }
    }
    Ok(Val::utf8_str(decoded))
}

/// As in `jq`, what fills the end up may be missing, as in a JWT, and what is over there may be anything.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

fn decode_base64(value: &Val) -> ValR<Val> {
    let decoded = LENIENT.decode(bytes(value)?);
    decoded.map(Val::utf8_str).map_err(|error| Error::str(format!("is no base64: {error}")))
}
