//! The functions that `jaq_std` has only together with time zones from files, which a plugin without a grant cannot
//! import: mathematics, escapes, regular expressions and dates. The definitions of `jaq_std` and of `defs.jq` call them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::SystemTime;

use jaq_core::data::HasLut;
use jaq_core::native::{self, Fun, bome, run, unary, v};
use jaq_core::{Ctx, Cv, DataT, Filter, Lut, RunPtr, ValR, ValT as _, Vars};
use jaq_json::{Error, Num, Val};
use jaq_std::ValT as _;
use jiff::Timestamp;
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::{Offset, TimeZone};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use regex::{Captures, Regex};

use super::Stop;
use crate::base64;
use crate::pattern::{self, Cursor};

/// All characters but the unreserved ones (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Deeper texts would exhaust the stack of the reader of JSON.
pub const MAX_NESTING: usize = 200;

/// The kind of data that filters run over.
pub struct Query;

/// A compiled filter, and its state while it runs.
pub struct Program {
    filter: Filter<Query>,
    variables: Vec<Val>,
    /// The last regular expression and its source: a filter uses the same for each of a thousand values.
    last: RefCell<Option<(String, Regex)>>,
    /// The documents that no filter has read yet.
    inputs: RefCell<VecDeque<Val>>,
    /// Refuses values that are too large to be written.
    check: fn(&Val) -> Result<(), String>,
}

impl Program {
    /// `check` refuses values that `tojson` must not write, since `jaq` writes without a limit.
    pub fn new(
        filter: Filter<Query>,
        variables: Vec<Val>,
        inputs: VecDeque<Val>,
        check: fn(&Val) -> Result<(), String>,
    ) -> Self {
        Self { filter, variables, last: RefCell::default(), inputs: RefCell::new(inputs), check }
    }

    /// Runs the filter on a document. Here and not in the plugins, which would each hold `jaq` a second time.
    pub fn run(&self, document: Val) -> impl Iterator<Item = Result<Val, Stop>> {
        let context = Ctx::<Query>::new(self, Vars::new(self.variables.clone()));
        self.filter.id.run((context, document)).map(|output| output.map_err(Stop::from))
    }

    pub fn next_input(&self) -> Option<Val> {
        self.inputs.borrow_mut().pop_front()
    }
}

impl DataT for Query {
    type V<'a> = Val;
    type Data<'a> = &'a Program;
}

impl<'a> HasLut<'a, Query> for &'a Program {
    fn lut(&self) -> &'a Lut<Query> {
        &self.filter.lut
    }
}

/// Makes functions of an input, which the first function reads and the second one maps to the output.
macro_rules! map_input {
    ($read:ident, $($name:literal: $map:expr),*) => {
        [$(($name, v(0), (|cv| bome($read(&cv.1).map($map).map(Val::from))) as RunPtr<Query>)),*]
    };
}

pub fn functions() -> impl Iterator<Item = Fun<Query>> {
    let of_numbers = map_input![
        number, "cbrt": f64::cbrt, "cos": f64::cos, "exp": f64::exp, "exp10": |number| 10_f64.powf(number), "exp2": f64::exp2,
        "fabs": f64::abs, "log": f64::ln, "log10": f64::log10, "log2": f64::log2, "rint": f64::round_ties_even,
        "sin": f64::sin, "sqrt": f64::sqrt, "tan": f64::tan, "trunc": f64::trunc
    ];
    let of_texts = map_input![
        text, "encode_base64": |text| base64::encode(text.as_bytes()), "encode_uri": |text| utf8_percent_encode(text, RESERVED).to_string(),
        "decode_uri": |text| Val::utf8_str(percent_decode_str(text).collect::<Vec<_>>())
    ];
    let others: [native::Filter<RunPtr<Query>>; 18] = [
        ("decode_base64", v(0), |cv| bome(text(&cv.1).and_then(decode_base64))),
        ("tojson", v(0), |cv| bome(to_json(&cv))),
        ("shallow", v(0), |cv| bome(shallow(cv.1))),
        ("tostring", v(0), |cv| bome(if cv.1.is_utf8_str() { Ok(cv.1) } else { to_json(&cv) })),
        ("env", v(0), |_| bome(Val::from_map([]))),
        ("debug_empty", v(0), |_| Box::new(std::iter::empty())),
        ("stderr_empty", v(0), |_| Box::new(std::iter::empty())),
        ("now", v(0), |_| {
            bome(SystemTime::UNIX_EPOCH.elapsed().map_err(Error::str).map(|since| since.as_secs_f64().into()))
        }),
        ("fromdateiso8601", v(0), |cv| {
            bome(text(&cv.1).and_then(|text| text.parse().map_err(Error::str)).map(seconds))
        }),
        ("format_seconds", v(1), |cv| unary(cv, |seconds, format| format_seconds(&seconds, &format))),
        ("parse_seconds", v(1), |cv| unary(cv, |time, format| parse_seconds(&time, &format))),
        ("pow", v(2), |mut cv| {
            bome(
                number(&cv.0.pop_var())
                    .and_then(|exponent| Ok(number(&cv.0.pop_var())?.powf(exponent).into())),
            )
        }),
        ("matches", v(2), |cv| bome(search(cv, false, true))),
        ("split_matches", v(2), |cv| bome(search(cv, true, true))),
        ("split_", v(2), |cv| bome(search(cv, true, false))),
        ("concat", v(0), |cv| bome(concat(&cv.1))),
        ("@csv", v(0), |cv| bome(row(&cv.1, ",", |text| format!("\"{}\"", text.replace('"', "\"\""))))),
        ("@tsv", v(0), |cv| bome(row(&cv.1, "\t", escape_tsv))),
    ];
    of_numbers.into_iter().chain(of_texts).chain(others).map(run::<Query>)
}

/// `input` and `inputs`.
pub fn inputs() -> impl Iterator<Item = Fun<Query>> {
    let functions: [native::Filter<RunPtr<Query>>; 2] = [
        ("input", v(0), |cv| Box::new(cv.0.data().next_input().map(Ok).into_iter())),
        ("inputs", v(0), |cv| {
            let data = *cv.0.data();
            Box::new(std::iter::from_fn(move || data.next_input().map(Ok)))
        }),
    ];
    functions.into_iter().map(run::<Query>)
}

fn number(value: &Val) -> Result<f64, Error> {
    value.as_f64().ok_or_else(|| Error::typ(value.clone(), "number"))
}

fn text(value: &Val) -> Result<&str, Error> {
    let bytes = value.as_utf8_bytes().ok_or_else(|| Error::typ(value.clone(), "string"))?;
    std::str::from_utf8(bytes).map_err(Error::str)
}

fn list(value: &Val) -> Result<Vec<Val>, Error> {
    value.clone().into_seq().map_err(|value| Error::typ(value, "array"))
}

/// Replaces that of `jaq`, which writes without a limit.
fn to_json((context, value): &Cv<'_, Query>) -> ValR<Val> {
    (context.data().check)(value).map_err(Error::str)?;
    Ok(value.to_string().into())
}

/// Returns a text of JSON that can be read.
fn shallow(value: Val) -> ValR<Val> {
    if nesting(text(&value)?.as_bytes()) > MAX_NESTING {
        return Err(Error::str(format!("the text is nested more than {MAX_NESTING} deep")));
    }
    Ok(value)
}

/// Returns how deep brackets are nested, which may be any number if the text is not JSON.
pub fn nesting(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            // The position after the closing quote, past escapes.
            b'"' => {
                while bytes
                    .next()
                    .is_some_and(|byte| *byte != b'"' && (*byte != b'\\' || bytes.next().is_some()))
                {
                }
            }
            // A comment, which `jaq` takes.
            b'#' => while bytes.next().is_some_and(|byte| *byte != b'\n') {},
            _ => {}
        }
    }
    deepest
}

fn decode_base64(text: &str) -> ValR<Val> {
    // The padding may be missing, as in a JWT.
    let decoded = base64::decode(text.trim_end_matches('='));
    decoded.map(Val::utf8_str).map_err(|error| Error::str(format!("is no base64: {error}")))
}

fn format_seconds(seconds: &Val, format: &Val) -> ValR<Val> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a number beyond the range becomes its end, which no date has"
    )]
    let timestamp =
        Timestamp::from_microsecond((number(seconds)? * 1e6).round() as i64).map_err(Error::str)?;
    strtime::format(text(format)?, &timestamp.to_zoned(TimeZone::UTC)).map(Val::from).map_err(Error::str)
}

fn parse_seconds(time: &Val, format: &Val) -> ValR<Val> {
    let mut parsed = BrokenDownTime::parse(text(format)?, text(time)?).map_err(Error::str)?;
    if parsed.offset().is_none() {
        parsed.set_offset(Some(Offset::UTC));
    }
    parsed.to_timestamp().map(seconds).map_err(Error::str)
}

#[expect(clippy::cast_precision_loss, reason = "a fraction of a second in a float, as in jq")]
fn seconds(timestamp: Timestamp) -> Val {
    match timestamp.subsec_nanosecond() {
        0 => Val::Num(Num::from_integral(timestamp.as_second())),
        _ => Val::from(timestamp.as_microsecond() as f64 / 1e6),
    }
}

/// Joins texts in linear time and memory, where `add` copies all that it has for each of them.
fn concat(texts: &Val) -> ValR<Val> {
    let mut all = String::new();
    for part in list(texts)?.iter().filter(|part| **part != Val::Null) {
        all.push_str(text(part)?);
    }
    Ok(Val::from(all))
}

/// Writes a row of a table.
fn row(fields: &Val, separator: &str, escape: fn(&str) -> String) -> ValR<Val> {
    let fields = list(fields)?;
    let fields = fields.iter().map(|field| match field {
        Val::Null => Ok(String::new()),
        Val::Bool(_) | Val::Num(_) => Ok(field.to_string()),
        _ => text(field).map(escape),
    });
    Ok(Val::from(fields.collect::<Result<Vec<_>, _>>()?.join(separator)))
}

fn escape_tsv(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

/// Returns the texts between matches, or the groups of each match, or both in turn.
fn search(mut cv: Cv<'_, Query>, gives_between: bool, gives_groups: bool) -> ValR<Val> {
    let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
    let (searched, flags) = (text(&cv.1)?, text(&flags)?);
    let regex = compile(cv.0.data(), text(&pattern)?, flags)?;
    let most = if flags.contains('g') { usize::MAX } else { 1 };
    let hits =
        regex.captures_iter(searched).filter(|hit| !flags.contains('n') || !hit.get_match().is_empty());
    let mut cursor = Cursor::new(searched);
    let (mut found, mut end) = (Vec::new(), 0);
    for captures in hits.take(most) {
        let hit = captures.get_match();
        if gives_between {
            found.push(cv.1.as_sub_str(&searched.as_bytes()[end..hit.start()]));
            end = hit.end();
        }
        if gives_groups {
            found.push(groups(&regex, &captures, cursor.character_at(hit.start()), searched)?);
        }
    }
    if gives_between {
        found.push(cv.1.as_sub_str(&searched.as_bytes()[end..]));
    }
    Ok(found.into_iter().collect())
}

/// The groups of a match, of which the first is the whole match.
fn groups(regex: &Regex, captures: &Captures<'_>, start_character: usize, searched: &str) -> ValR<Val> {
    let start = captures.get_match().start();
    let groups = captures.iter().zip(regex.capture_names()).map(|(group, name)| {
        let offset = group.map_or(Val::from(-1_isize), |group| {
            Val::from(start_character + searched[start..group.start()].chars().count())
        });
        let text = group.map(|group| group.as_str());
        let fields = [
            ("offset", offset),
            ("length", Val::from(text.unwrap_or_default().chars().count())),
            ("string", text.map_or(Val::Null, |text| Val::from(text.to_owned()))),
        ];
        let fields = fields.into_iter().chain(name.map(|name| ("name", Val::from(name.to_owned()))));
        Val::from_map(fields.map(|(key, value)| (Val::from(key.to_owned()), value)))
    });
    groups.collect()
}

/// Compiles a pattern with the flags of `jaq`, of which the library has some other names.
fn compile(program: &Program, pattern: &str, flags: &str) -> Result<Regex, Error> {
    if let Some(unknown) = flags.chars().find(|flag| !"gilmnpsx".contains(*flag)) {
        return Err(Error::str(format!(
            "`{unknown}` is no flag of a pattern, but g, i, l, m, n, p, s and x"
        )));
    }
    let inline = flags.replace(['g', 'n'], "").replace('l', "U").replace('p', "ms");
    let source = if inline.is_empty() { pattern.to_owned() } else { format!("(?{inline}){pattern}") };
    let mut last = program.last.borrow_mut();
    if let Some((_, regex)) = last.as_ref().filter(|(last, _)| *last == source) {
        return Ok(regex.clone());
    }
    let regex = pattern::compile(&source, false).map_err(|error| Error::str(error.message()))?;
    *last = Some((source, regex.clone()));
    Ok(regex)
}
