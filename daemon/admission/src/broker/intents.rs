//! Intents: an organization's own words for what its customers want, and the tools that do it.
//!
//! An intent has patterns and tools; a message that one of the patterns finds has the intent. Patterns are
//! regular expressions without look-around and back-references, so matching is linear in the message, and
//! all patterns of a policy are one automaton of bounded size. Case is no difference.
//!
//! Patterns are checked when a policy is written ([`Patterns::compile`]), before anything is loaded; the
//! tools are looked up when a catalogue is there ([`Intents::compile`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use toolgate_api::text::{escape_for_display, hidden_character};

use crate::rules::{Catalogue, DocumentError, ToolList, ToolSet};

/// Most intents of a policy.
const INTENTS: usize = 200;
/// Most patterns of all intents together.
const PATTERNS: usize = 1_000;
/// Longest name of an intent, in characters: it stands in each explanation.
const NAME_CHARS: usize = 64;
/// Longest pattern, in bytes.
const PATTERN_BYTES: usize = 500;
/// Size of one compiled pattern: some hundred states. A list of words takes a tenth.
const COMPILED_BYTES: usize = 64 * 1024;
/// Size of all patterns of a policy, and of the cache that one fills when it matches.
const ALL_COMPILED_BYTES: usize = 1024 * 1024;

/// One intent, as a policy writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Regular expressions, of which one has to be found in the message.
    pub patterns: Vec<String>,
    /// The tools that serve it.
    pub tools: ToolList,
}

/// The checked patterns of a policy's intents.
#[derive(Clone, Debug)]
pub struct Patterns {
    set: RegexSet,
    /// By number of the pattern: the number of its intent.
    owners: Vec<usize>,
    names: Vec<Arc<str>>,
}

impl Patterns {
    /// Checks the names and patterns of `intents`, which stand at the JSON pointer `place` of their document.
    pub fn compile(intents: &BTreeMap<String, Intent>, place: &str) -> Result<Self, DocumentError> {
        let all: usize = intents.values().map(|intent| intent.patterns.len()).sum();
        if intents.len() > INTENTS || all > PATTERNS {
            let message = format!("there are {} intents with {all} patterns", intents.len());
            let hint = format!("write at most {INTENTS} intents with {PATTERNS} patterns together");
            return Err(refuse(place, message, hint));
        }
        let mut sources = Vec::with_capacity(all);
        let mut owners = Vec::with_capacity(all);
        for (owner, (name, intent)) in intents.iter().enumerate() {
            let place = format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
            check_name(name, &place)?;
            for (index, pattern) in intent.patterns.iter().enumerate() {
                check_pattern(pattern, &format!("{place}/patterns/{index}"))?;
                sources.push(pattern.as_str());
                owners.push(owner);
            }
        }
        Ok(Self {
            set: together(&sources, place)?,
            owners,
            names: intents.keys().map(|name| name.as_str().into()).collect(),
        })
    }

    /// The numbers of the intents that a message has, in the order of their names.
    fn matching(&self, message: &str) -> BTreeSet<usize> {
        let matches = self.set.matches(message);
        matches.into_iter().filter_map(|pattern| self.owners.get(pattern).copied()).collect()
    }
}

/// The intents of a policy, over the tools of one catalogue.
#[derive(Clone)]
pub struct Intents {
    patterns: Patterns,
    tools: Vec<ToolSet>,
}

impl fmt::Debug for Intents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Intents").field("names", &self.patterns.names).finish_non_exhaustive()
    }
}

impl Intents {
    /// No intents: the words of the tools decide alone.
    pub fn none() -> Self {
        let patterns = Patterns { set: RegexSet::empty(), owners: Vec::new(), names: Vec::new() };
        Self { patterns, tools: Vec::new() }
    }

    /// Compiles the intents that stand at the JSON pointer `place` of their document. A tool that is not loaded
    /// is in no intent.
    pub fn compile<P>(
        intents: &BTreeMap<String, Intent>,
        place: &str,
        catalogue: &Catalogue<P>,
    ) -> Result<Self, DocumentError> {
        let patterns = Patterns::compile(intents, place)?;
        let tools = intents.values().map(|intent| ToolSet::compile(&intent.tools, catalogue)).collect();
        Ok(Self { patterns, tools })
    }

    /// The intents that a message has, in the order of their names, with their tools.
    pub fn matching(&self, message: &str) -> Vec<(&Arc<str>, &ToolSet)> {
        let numbers = self.patterns.matching(message).into_iter();
        numbers
            .filter_map(|number| Some((self.patterns.names.get(number)?, self.tools.get(number)?)))
            .collect()
    }
}

fn check_name(name: &str, place: &str) -> Result<(), DocumentError> {
    if !name.trim().is_empty() && name.chars().count() <= NAME_CHARS && hidden_character(name).is_none() {
        return Ok(());
    }
    let message = format!("`{}` is no name of an intent", escape_for_display(name, NAME_CHARS));
    Err(refuse(place, message, format!("write at most {NAME_CHARS} visible characters, like `billing`")))
}

fn check_pattern(pattern: &str, place: &str) -> Result<(), DocumentError> {
    if pattern.len() > PATTERN_BYTES {
        let message =
            format!("the pattern has {} bytes, more than the {PATTERN_BYTES} allowed", pattern.len());
        return Err(refuse(place, message, "make several patterns of it"));
    }
    let compiled = RegexBuilder::new(pattern).case_insensitive(true).size_limit(COMPILED_BYTES).build();
    let compiled = compiled.map_err(|error| of_engine(pattern, &error, place))?;
    if finds_everything(&compiled) {
        let message = format!("the pattern `{}` is found in every message", escape_for_display(pattern, 80));
        return Err(refuse(
            place,
            message,
            "write the words that only such messages have, like `refund|charge`",
        ));
    }
    Ok(())
}

/// A pattern that finds the empty text finds it everywhere: `refund|` is a slip for `refund`.
fn finds_everything(pattern: &Regex) -> bool {
    pattern.is_match("")
}

fn of_engine(pattern: &str, error: &regex::Error, place: &str) -> DocumentError {
    let shown = escape_for_display(pattern, 80);
    match error {
        regex::Error::CompiledTooBig(_) => {
            let hint = "repeat less in it: `{1,1000}` of a class has a thousand states";
            refuse(place, format!("the pattern `{shown}` is too large"), hint)
        }
        error => {
            // The engine draws the pattern with a mark below; its last line says what is wrong.
            let text = error.to_string();
            let said = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let hint = "patterns are regular expressions without look-around and back-references, like `refund|charge`";
            refuse(
                place,
                format!("the pattern `{shown}` is not valid: {}", escape_for_display(said, 200)),
                hint,
            )
        }
    }
}

fn together(patterns: &[&str], place: &str) -> Result<RegexSet, DocumentError> {
    let set = RegexSetBuilder::new(patterns)
        .case_insensitive(true)
        .size_limit(ALL_COMPILED_BYTES)
        .dfa_size_limit(ALL_COMPILED_BYTES)
        .build();
    set.map_err(|_| {
        refuse(place, "the patterns are too large together", "write fewer of them, or repeat less in them")
    })
}

fn refuse(place: &str, message: impl Into<String>, hint: impl Into<String>) -> DocumentError {
    DocumentError { place: place.to_owned(), message: message.into(), hint: hint.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intents by name with their patterns; which tools they are for is no matter here.
    fn compile(intents: &[(&str, &[&str])]) -> Result<Patterns, DocumentError> {
        let intent = |patterns: &[&str]| Intent {
            patterns: patterns.iter().map(ToString::to_string).collect(),
            tools: ToolList::NONE,
        };
        let table = intents.iter().map(|(name, patterns)| ((*name).to_owned(), intent(patterns))).collect();
        Patterns::compile(&table, "/intents")
    }

    fn names(patterns: &Patterns, message: &str) -> Vec<String> {
        patterns.matching(message).iter().map(|number| patterns.names[*number].to_string()).collect()
    }

    #[test]
    fn a_message_has_the_intents_whose_patterns_it_contains() {
        let patterns =
            compile(&[("billing", &["invoice", "refund"]), ("email", &["send.*message"])]).unwrap();
        assert_eq!(names(&patterns, "REFUND my Invoice"), ["billing"]);
        assert_eq!(names(&patterns, "send a message about the refund"), ["billing", "email"]);
        assert!(names(&patterns, "hello").is_empty());
    }

    #[test]
    fn a_bad_pattern_is_told_with_its_place() {
        for (pattern, wrong) in [
            ("(", "is not valid: unclosed group"),
            (r"(a)\1", "is not valid"),
            ("(?=a)", "is not valid"),
            ("(a{100}){1000}", "is too large"),
            ("refund|", "is found in every message"),
            ("", "is found in every message"),
        ] {
            let refused = compile(&[("a/b", &["fine", pattern])]).unwrap_err();
            assert_eq!(refused.place, "/intents/a~1b/patterns/1", "{pattern}");
            assert!(refused.message.contains(wrong) && !refused.hint.is_empty(), "{refused}");
        }
        let long = "a".repeat(PATTERN_BYTES + 1);
        assert!(compile(&[("a", &[&long])]).unwrap_err().message.contains("501 bytes"));
    }

    #[test]
    fn patterns_are_bounded_together() {
        let many: Vec<String> = (0..=PATTERNS).map(|number| format!("word{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(compile(&[("a", &many[1..])]).is_ok());
        assert!(compile(&[("a", &many)]).is_err());
        let large: Vec<String> = (0..500).map(|number| format!("[a-z]{{20}}{number}")).collect();
        let large: Vec<&str> = large.iter().map(String::as_str).collect();
        let refused = compile(&[("a", &large)]).unwrap_err();
        assert_eq!(
            (refused.place.as_str(), refused.message.as_str()),
            ("/intents", "the patterns are too large together")
        );
    }

    #[test]
    fn an_intent_has_a_name_that_can_be_shown() {
        for name in ["", " ", "a\u{202e}b", &"x".repeat(65)] {
            assert!(compile(&[(name, &["a"])]).is_err(), "{name:?}");
        }
        assert!(compile(&[("billing", &["a"])]).is_ok());
    }
}
