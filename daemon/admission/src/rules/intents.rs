//! Intents of the platform's policy (G15): requests that users have in the words of the operator, and the tools for them.
//!
//! An intent has patterns and tools; a message that matches one of the patterns has the intent. Patterns are regular
//! expressions without look-around and back-references, so matching takes linear time, and all patterns of a policy
//! compile to one automaton of limited size. Matching ignores case. Patterns are validated when a policy is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use toolgate_api::policy::IntentTable;
use toolgate_api::read::{ReadError, pointer};
use toolgate_api::text::{escape_for_display, hidden_character};

/// Most intents of a policy.
const INTENTS: usize = 200;
/// Most patterns of all intents together.
const PATTERNS: usize = 1_000;
/// Longest name of an intent, in characters: every explanation of a selection has it.
const NAME_CHARS: usize = 64;
/// Longest pattern, in bytes.
const PATTERN_BYTES: usize = 500;
/// Size of one compiled pattern: some hundred states. A list of words takes a tenth.
const COMPILED_BYTES: usize = 64 * 1024;
/// Size of all compiled patterns of a policy, and of the DFA cache that matching fills.
const ALL_COMPILED_BYTES: usize = 1024 * 1024;

/// The compiled patterns of a policy's intents.
#[derive(Clone, Debug)]
pub struct IntentPatterns {
    set: RegexSet,
    /// By index of the pattern: the index of its intent.
    owners: Vec<usize>,
    names: Vec<Arc<str>>,
}

impl IntentPatterns {
    /// No patterns.
    pub fn empty() -> Self {
        Self { set: RegexSet::empty(), owners: Vec::new(), names: Vec::new() }
    }

    /// Validates the names and patterns of `intents`, which are at the JSON pointer `place` of their document.
    pub fn compile(intents: &IntentTable, place: &str) -> Result<Self, ReadError> {
        let all: usize = intents.values().map(|intent| intent.patterns.len()).sum();
        if intents.len() > INTENTS || all > PATTERNS {
            let message = format!("there are {} intents with {all} patterns", intents.len());
            let hint = format!("write at most {INTENTS} intents with {PATTERNS} patterns together");
            return Err(ReadError::new(place, message, hint));
        }
        let mut sources = Vec::with_capacity(all);
        let mut owners = Vec::with_capacity(all);
        for (owner, (name, intent)) in intents.iter().enumerate() {
            let place = pointer(place, name);
            check_name(name, &place)?;
            for (index, pattern) in intent.patterns.iter().enumerate() {
                check_pattern(pattern, &format!("{place}/patterns/{index}"))?;
                sources.push(pattern.as_str());
                owners.push(owner);
            }
        }
        let set = RegexSetBuilder::new(&sources)
            .case_insensitive(true)
            .size_limit(ALL_COMPILED_BYTES)
            .dfa_size_limit(ALL_COMPILED_BYTES)
            .build()
            .map_err(|_| {
                let hint = "write fewer of them, or repeat less in them";
                ReadError::new(place, "the patterns are too large together", hint)
            })?;
        Ok(Self { set, owners, names: intents.keys().map(|name| name.as_str().into()).collect() })
    }

    /// Returns the indexes and names of the intents that a message has, in the order of their names.
    pub fn matching(&self, message: &str) -> impl Iterator<Item = (usize, &Arc<str>)> {
        let matches = self.set.matches(message);
        let intents: BTreeSet<usize> =
            matches.into_iter().filter_map(|pattern| self.owners.get(pattern).copied()).collect();
        intents.into_iter().filter_map(|intent| Some((intent, self.names.get(intent)?)))
    }
}

fn check_name(name: &str, place: &str) -> Result<(), ReadError> {
    if !name.trim().is_empty() && name.chars().count() <= NAME_CHARS && hidden_character(name).is_none() {
        return Ok(());
    }
    let message = format!("`{}` is not a valid name of an intent", escape_for_display(name, NAME_CHARS));
    let hint = format!("write at most {NAME_CHARS} visible characters, like `billing`");
    Err(ReadError::new(place, message, hint))
}

fn check_pattern(pattern: &str, place: &str) -> Result<(), ReadError> {
    if pattern.len() > PATTERN_BYTES {
        let message =
            format!("the pattern has {} bytes, more than the {PATTERN_BYTES} allowed", pattern.len());
        return Err(ReadError::new(place, message, "split it into several patterns"));
    }
    let compiled = RegexBuilder::new(pattern).case_insensitive(true).size_limit(COMPILED_BYTES).build();
    let compiled: Regex = compiled.map_err(|error| engine_error(pattern, &error, place))?;
    // A pattern that matches the empty text matches every text: `refund|` is a typo of `refund`.
    if compiled.is_match("") {
        let message = format!("the pattern `{}` is found in every message", escape_for_display(pattern, 80));
        let hint = "write the words that only such messages have, like `refund|charge`";
        return Err(ReadError::new(place, message, hint));
    }
    Ok(())
}

fn engine_error(pattern: &str, error: &regex::Error, place: &str) -> ReadError {
    let shown = escape_for_display(pattern, 80);
    if let regex::Error::CompiledTooBig(_) = error {
        let hint = "repeat less in it: `{1,1000}` of a class has a thousand states";
        return ReadError::new(place, format!("the pattern `{shown}` is too large"), hint);
    }
    // The engine's error has the pattern with a mark below; the last line is the message.
    let text = error.to_string();
    let message =
        escape_for_display(text.lines().last().unwrap_or_default().trim_start_matches("error: "), 200);
    let hint =
        "patterns are regular expressions without look-around and back-references, like `refund|charge`";
    ReadError::new(place, format!("the pattern `{shown}` is not valid: {message}"), hint)
}

#[cfg(test)]
mod tests {
    use toolgate_api::policy::Intent;
    use toolgate_api::tools::ToolList;

    use super::*;

    /// Intents by name with their patterns, for no tools.
    fn compile(intents: &[(&str, &[&str])]) -> Result<IntentPatterns, ReadError> {
        let intent = |patterns: &[&str]| Intent {
            patterns: patterns.iter().map(ToString::to_string).collect(),
            tools: ToolList::NONE,
        };
        let table = intents.iter().map(|(name, patterns)| ((*name).to_owned(), intent(patterns))).collect();
        IntentPatterns::compile(&table, "/intents")
    }

    fn names(patterns: &IntentPatterns, message: &str) -> Vec<String> {
        patterns.matching(message).map(|(_, name)| name.to_string()).collect()
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
