//! The sign that separates the fields of a row.

use csv::{ByteRecord, ReaderBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::Error;

/// The character between two fields.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Delimiter {
    Comma,
    Semicolon,
    Tab,
    Pipe,
}

impl Delimiter {
    const ALL: [Self; 4] = [Self::Comma, Self::Semicolon, Self::Tab, Self::Pipe];

    fn of(sign: char) -> Option<Self> {
        Self::ALL.into_iter().find(|delimiter| char::from(delimiter.byte()) == sign)
    }

    pub fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
            Self::Pipe => b'|',
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Comma => "comma",
            Self::Semicolon => "semicolon",
            Self::Tab => "tab",
            Self::Pipe => "pipe",
        }
    }
}

/// The hint of Excel in the first line, such as `sep=;`, which LibreOffice and DuckDB read too.
struct Hint<'a> {
    sign: char,
    /// The text after the line. It begins with the end of the line, so that the lines keep their numbers: a reader of CSV
    /// passes over an empty line.
    rest: &'a str,
}

impl<'a> Hint<'a> {
    /// Returns the hint of a text without a byte order mark. The line may be in quotes, and programs that do not know the
    /// hint write the sign once for each column.
    fn find(text: &'a str) -> Option<Self> {
        let (line, rest) = text.split_at(text.find(['\r', '\n']).unwrap_or(text.len()));
        let content = line.strip_prefix('"').and_then(|line| line.strip_suffix('"')).unwrap_or(line);
        let (name, signs) = content.split_at_checked("sep=".len())?;
        let sign = signs.chars().next().filter(|sign| !sign.is_alphanumeric() && *sign != '"')?;
        let is_hint = name.eq_ignore_ascii_case("sep=") && signs.chars().all(|other| other == sign);
        is_hint.then_some(Self { sign, rest })
    }

    /// Returns the delimiter that is given, or the one of the hint.
    fn delimiter(&self, given: Option<Delimiter>) -> Result<Guess, Error> {
        let sign = self.sign.escape_debug();
        let Some(delimiter) = given.or_else(|| Delimiter::of(self.sign)) else {
            return Err(Error::invalid(format!(
                "the first line `sep={sign}` says that `{sign}` separates the fields, and only comma, semicolon, tab and pipe \
                 are read: replace `{sign}` by one of them and delete the line, or give `delimiter` if the line is wrong"
            )));
        };
        let note = format!("the first line `sep={sign}` tells the delimiter and is no row");
        Ok(Guess { delimiter, note: Some(note) })
    }
}

/// Bytes that are judged: enough rows to tell a separator from signs within fields, for little fuel.
const JUDGED_BYTES: usize = 16 * 1024;

/// Rows that are judged.
const JUDGED_ROWS: usize = 100;

/// A delimiter that was judged by the rows.
#[derive(Debug)]
pub struct Guess {
    pub delimiter: Delimiter,
    /// The note for the caller about the judgement.
    pub note: Option<String>,
}

/// How evenly a delimiter separates the rows.
struct Fit {
    delimiter: Delimiter,
    /// The number of fields that most rows have.
    fields: usize,
    /// Rows with that number.
    even_rows: usize,
    rows: usize,
}

impl Guess {
    /// Takes the delimiter that is given, or the one of a hint, or judges; returns it with the text after a hint.
    pub fn choose(text: &str, given: Option<Delimiter>) -> Result<(Self, &str), Error> {
        if let Some(hint) = Hint::find(text) {
            return Ok((hint.delimiter(given)?, hint.rest));
        }
        Ok((given.map_or_else(|| Self::of(text), |delimiter| Self { delimiter, note: None }), text))
    }

    /// Judges by the first rows: a separator gives them the same number of fields, two or more. As csv.Sniffer, Papa Parse
    /// and DuckDB do, it looks at many rows, so that a quote or a decimal comma in the first does not decide.
    fn of(text: &str) -> Self {
        let is_whole = text.len() <= JUDGED_BYTES;
        let sample = &text[..text.floor_char_boundary(JUDGED_BYTES)];
        let fits = Delimiter::ALL.map(|delimiter| Fit::of(delimiter, sample, is_whole));
        let has_decimal_commas = commas_are_decimal(sample);
        let best = fits.iter().filter(|fit| fit.fields > 1).max_by_key(|fit| fit.rank(has_decimal_commas));
        let Some(best) = best else {
            let note = "no comma, semicolon, tab or pipe separates the rows, so each has one field";
            return Self {
                delimiter: Delimiter::Comma,
                note: (!text.trim().is_empty()).then(|| note.to_owned()),
            };
        };
        let other = fits.iter().find(|fit| {
            fit.delimiter != best.delimiter && fit.fields > 1 && fit.even_rows == fit.rows && fit.rows > 1
        });
        let name = best.delimiter.name();
        let note = match other {
            Some(other) => Some(format!(
                "the rows fit a {name} and a {}: give `delimiter` if it is not the {name}",
                other.delimiter.name()
            )),
            None if best.even_rows < best.rows => Some(format!(
                "a {name} was judged to separate the fields: {} of the first {} rows have {} fields",
                best.even_rows, best.rows, best.fields
            )),
            None => None,
        };
        Self { delimiter: best.delimiter, note }
    }
}

impl Fit {
    fn of(delimiter: Delimiter, sample: &str, is_whole: bool) -> Self {
        let mut records = ReaderBuilder::new()
            .delimiter(delimiter.byte())
            .has_headers(false)
            .flexible(true)
            .from_reader(sample.as_bytes());
        let mut record = ByteRecord::new();
        let mut counts = Vec::new();
        while counts.len() < JUDGED_ROWS && records.read_byte_record(&mut record).unwrap_or(false) {
            counts.push(record.len());
        }
        // The last row of a sample is cut, unless it is the only one.
        if !is_whole && counts.len() > 1 && counts.len() < JUDGED_ROWS {
            counts.pop();
        }
        let rows_with = |fields: usize| counts.iter().filter(|count| **count == fields).count();
        let fields = counts.iter().copied().max_by_key(|fields| (rows_with(*fields), *fields)).unwrap_or(0);
        Self { delimiter, fields, even_rows: rows_with(fields), rows: counts.len() }
    }

    /// Evenness first, in thousandths. A tab is rarer within fields than the others, and a comma between digits separates
    /// decimals. Then more fields are better, and what is more common.
    fn rank(&self, has_decimal_commas: bool) -> impl Ord + use<> {
        let evenness = self.even_rows * 1_000 / self.rows.max(1);
        let likelihood = match self.delimiter {
            Delimiter::Tab => 2,
            Delimiter::Comma if has_decimal_commas => 0,
            _ => 1,
        };
        let commonness = match self.delimiter {
            Delimiter::Comma => 3,
            Delimiter::Semicolon => 2,
            Delimiter::Tab => 1,
            Delimiter::Pipe => 0,
        };
        (evenness, likelihood, self.fields, commonness)
    }
}

fn commas_are_decimal(sample: &str) -> bool {
    let bytes = sample.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    sample.match_indices(',').all(|(at, _)| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)))
}
