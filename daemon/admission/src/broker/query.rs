//! Parses a message into query terms: its words and phrases with all their senses.
//!
//! A term counts once, however many of its senses a tool has and however often the message has it. An unknown word is
//! treated as a typo.

use std::collections::HashSet;

use super::lexicon::{Lexicon, Sense};
use super::shape::shapes;
use super::words::{is_filler, is_stop_word, split_camel_case, split_words, stem};

/// Bytes of a message that are parsed, about a page. The rest is usually a quoted thread or a pasted file, which has words of
/// every tool.
const MESSAGE_BYTES: usize = 2 * 1024;
/// Most terms of a message, which limits the work for any message.
const WORDS: usize = 100;
/// Most unknown words that typo correction is tried for.
const TYPOS: usize = 20;
/// Longest phrase, in words.
pub(super) const PHRASE_WORDS: usize = 4;

/// A word or a phrase of a message.
#[derive(Debug)]
pub(super) struct QueryTerm {
    /// The text of the message, in lower case.
    pub text: Box<str>,
    pub senses: Vec<Sense>,
}

/// Returns the part of a message that is parsed.
pub(super) fn truncate_message(message: &str) -> &str {
    message.get(..message.floor_char_boundary(MESSAGE_BYTES)).unwrap_or(message)
}

/// Parses a truncated message.
pub(super) fn parse(message: &str, lexicon: &Lexicon) -> Vec<QueryTerm> {
    let mut parser = Parser { lexicon, terms: Vec::new(), seen: HashSet::new(), typos: TYPOS };
    let mut words: Vec<(String, String)> = split_words(message).map(word_and_stem).collect();
    parser.phrases(&words);
    words.retain(|(word, _)| !is_filler(word));
    parser.phrases(&words);
    split_words(message).for_each(|piece| parser.word(piece));
    for (word, shape) in shapes(message) {
        parser.add(word.to_lowercase(), lexicon.senses(shape));
    }
    parser.terms
}

fn word_and_stem(piece: &str) -> (String, String) {
    let word = piece.to_lowercase();
    let stem = stem(&word).into_owned();
    (word, stem)
}

struct Parser<'a> {
    lexicon: &'a Lexicon,
    terms: Vec<QueryTerm>,
    /// Words and phrases that were added already.
    seen: HashSet<String>,
    typos: usize,
}

impl Parser<'_> {
    fn phrases(&mut self, words: &[(String, String)]) {
        for start in 0..words.len() {
            for length in 2..=PHRASE_WORDS {
                words.get(start..start + length).into_iter().for_each(|words| self.phrase(words));
            }
        }
    }

    fn phrase(&mut self, words: &[(String, String)]) {
        let stems: Vec<&str> = words.iter().map(|(_, stem)| stem.as_str()).collect();
        let mut senses = self.lexicon.phrase(&stems.join(" ")).to_vec();
        if let [(first, _), (second, _)] = words {
            // `check out` can stand for `checkout`, and `e-mail` for `email`.
            let joined = format!("{first}{second}");
            if self.lexicon.contains(&joined) && !(is_stop_word(first) && is_stop_word(second)) {
                senses.extend(self.lexicon.senses(&joined));
            }
        }
        if !senses.is_empty() {
            let text: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
            self.add(text.join(" "), senses);
        }
    }

    fn word(&mut self, piece: &str) {
        let word = piece.to_lowercase();
        let senses = self.lexicon.senses(&word);
        if !senses.is_empty() || is_stop_word(&word) {
            return self.add(word, senses);
        }
        let parts: Vec<&str> = split_camel_case(piece).collect();
        if parts.len() > 1 {
            return parts.into_iter().for_each(|part| self.word(part));
        }
        if self.typos > 0 && !self.seen.contains(&word) {
            self.typos -= 1;
            let senses = self.lexicon.senses_of_typo(&word);
            self.add(word, senses);
        }
    }

    fn add(&mut self, text: String, senses: Vec<Sense>) {
        if self.terms.len() == WORDS || senses.is_empty() || !self.seen.insert(text.clone()) {
            return;
        }
        self.terms.push(QueryTerm { text: text.into(), senses });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(message: &str) -> Vec<String> {
        let mut lexicon = Lexicon::default();
        for word in ["invoice", "delete", "checkout", "whatsapp"] {
            lexicon.add_word(word);
        }
        lexicon.add_synonyms();
        parse(message, &lexicon).iter().map(|term| term.text.to_string()).collect()
    }

    #[test]
    fn a_repeated_word_is_one_term() {
        assert_eq!(terms("The invoice, the INVOICE!"), ["invoice"]);
    }

    #[test]
    fn phrases_and_words_written_apart_are_understood() {
        assert_eq!(terms("Get rid of it"), ["get rid of"]);
        assert_eq!(terms("at check out"), ["check out"]);
    }

    #[test]
    fn a_typo_keeps_its_spelling() {
        assert_eq!(terms("the invioce"), ["invioce"]);
    }

    #[test]
    fn a_long_message_is_cut_at_a_letter() {
        let long = "ż".repeat(5_000);
        assert_eq!(truncate_message(&long).len(), 2048);
        assert_eq!(truncate_message("short"), "short");
    }

    #[test]
    fn a_message_has_a_limited_number_of_terms() {
        let lexicon = {
            let mut lexicon = Lexicon::default();
            for number in 0..500 {
                lexicon.add_word(&format!("w{number}"));
            }
            lexicon
        };
        let message: String = (0..500).map(|number| format!("w{number} ")).collect();
        assert_eq!(parse(&message, &lexicon).len(), WORDS);
    }
}
