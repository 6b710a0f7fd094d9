//! A regular expression that finds nothing beyond the end of a line, so that a whole file can be searched at once.
//!
//! The signs that end lines are taken out of everything that could match them. A line that matches on its own is then found in the
//! whole file too, and nothing else is. The engine runs in linear time, so no pattern can hang a call.

use formats::escape_lone_braces;
use regex_automata::meta::{Builder, Config, Regex};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, LookSet,
};
use toolgate_sdk::Error;

/// A compiled pattern larger than this is a mistake, or an attack.
const MAX_PATTERN_BYTES: usize = 2 * 1024 * 1024;

/// A longer pattern is a text to compare, for which this is the wrong tool.
const MAX_WRITTEN_BYTES: usize = 10_000;

/// Bytes between lines and in none. A carriage return is found only where a pattern asks for just that.
const LINE_ENDS: [u8; 2] = [b'\n', b'\r'];

#[derive(Debug)]
pub struct Pattern {
    /// Finds the lines, and with `exact` perhaps others too.
    pub regex: Regex,
    /// Says of a line that was found whether it is one. Only where `regex` leaves something out: the fast engines give
    /// up where `\b` stands in a text that is not ASCII, and the others take a hundred times as long.
    pub exact: Option<Regex>,
}

impl Pattern {
    pub fn compile(written: &str, literal: bool, ignore_case: bool) -> Result<Self, Error> {
        if written.len() > MAX_WRITTEN_BYTES {
            return Err(Error::invalid(format!("`pattern` is longer than {MAX_WRITTEN_BYTES} bytes")));
        }
        let escaped = literal.then(|| regex_syntax::escape(written));
        let parse = |pattern: &str| {
            let mut parser = ParserBuilder::new();
            parser
                .multi_line(true)
                .crlf(true)
                .utf8(false)
                .case_insensitive(ignore_case)
                .build()
                .parse(pattern)
                .map_err(|error| error.to_string())
        };
        let hir = parse(escaped.as_deref().unwrap_or(written)).or_else(|error| {
            let relaxed = escape_lone_braces(written).and_then(|pattern| parse(&pattern).ok());
            relaxed.ok_or_else(|| refusal(&error))
        })?;
        let hir = within_a_line(hir)?;
        let looks_for_words = hir.properties().look_set().contains_word_unicode();
        if !looks_for_words {
            return Ok(Self { regex: build(&hir)?, exact: None });
        }
        let exact = build(&hir)?;
        Ok(Self { regex: build(&without_word_ends(hir)?)?, exact: Some(exact) })
    }
}

fn build(hir: &Hir) -> Result<Regex, Error> {
    // Without SIMD it takes longer to look for several texts at once than to run the engine.
    let is_one_text = Extractor::new().extract(hir).literals().is_some_and(|texts| texts.len() == 1);
    let config =
        Config::new().utf8_empty(false).auto_prefilter(is_one_text).nfa_size_limit(Some(MAX_PATTERN_BYTES));
    Builder::new().configure(config).build_from_hir(hir).map_err(|error| match error.size_limit() {
        Some(_) => Error::invalid("`pattern` is beyond the size limit: write smaller numbers in `{…}`"),
        None => refusal(&error.to_string()),
    })
}

/// An expression that finds what this one does and more: it does not ask where words begin and end.
fn without_word_ends(hir: Hir) -> Result<Hir, Error> {
    match hir.into_kind() {
        HirKind::Look(look) if LookSet::singleton(look).contains_word_unicode() => Ok(Hir::empty()),
        kind => with_parts(kind, &without_word_ends),
    }
}

/// Takes the ends of lines out of what an expression matches.
fn within_a_line(hir: Hir) -> Result<Hir, Error> {
    match hir.into_kind() {
        HirKind::Literal(literal) if literal.0.contains(&b'\n') => Err(Error::invalid(
            "`pattern` has a line feed in it, and a match is within one line: search for one of the lines",
        )),
        HirKind::Class(Class::Unicode(mut class)) => {
            class.difference(&ClassUnicode::new(
                LINE_ENDS.map(|end| ClassUnicodeRange::new(end.into(), end.into())),
            ));
            Ok(Hir::class(Class::Unicode(class)))
        }
        HirKind::Class(Class::Bytes(mut class)) => {
            class.difference(&ClassBytes::new(LINE_ENDS.map(|end| ClassBytesRange::new(end, end))));
            Ok(Hir::class(Class::Bytes(class)))
        }
        kind => with_parts(kind, &within_a_line),
    }
}

/// The same expression with each of its parts changed. Groups are of no use here and go.
fn with_parts(kind: HirKind, change: &dyn Fn(Hir) -> Result<Hir, Error>) -> Result<Hir, Error> {
    let each = |parts: Vec<Hir>| parts.into_iter().map(change).collect::<Result<Vec<_>, _>>();
    Ok(match kind {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Repetition(mut repetition) => {
            repetition.sub = Box::new(change(*repetition.sub)?);
            Hir::repetition(repetition)
        }
        HirKind::Capture(capture) => change(*capture.sub)?,
        HirKind::Concat(parts) => Hir::concat(each(parts)?),
        HirKind::Alternation(parts) => Hir::alternation(each(parts)?),
    })
}

fn refusal(message: &str) -> Error {
    // The message draws the pattern on lines of its own; the last one says what is wrong with it.
    let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
    Error::invalid(format!(
        "`pattern` is no regular expression: {reason}; put `\\` before a sign that is meant as it is, or set `literal`"
    ))
}
