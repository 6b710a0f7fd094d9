//! What a message asks for: its words with everything that they may mean.
//!
//! A word counts as one however many of its meanings a tool has, and however often it stands in the message. A
//! word that no tool has and that means nothing is tried as a slip of the keyboard.

use std::collections::HashSet;

use super::lexicon::{Lexicon, Meaning};
use super::shape::shapes;
use super::words::{humps, is_filler, is_stop_word, pieces, stem};

/// How much of a message is read: about a page. What somebody wants stands there; what follows is a quoted
/// thread or a pasted file, which has a word of every tool.
const MESSAGE_BYTES: usize = 2 * 1024;
/// How many words of a message count, which bounds the work whatever is written.
const WORDS: usize = 100;
/// How many unknown words are tried as slips.
const SLIPS: usize = 20;
/// Longest phrase, in words.
pub(super) const PHRASE_WORDS: usize = 4;

/// A word or a phrase of a message.
#[derive(Debug)]
pub(super) struct Wanted {
    /// As it stands in the message, in lower case.
    pub said: Box<str>,
    pub meanings: Vec<Meaning>,
}

/// The part of a message that is looked at.
pub(super) fn beginning(message: &str) -> &str {
    message.get(..message.floor_char_boundary(MESSAGE_BYTES)).unwrap_or(message)
}

/// What the beginning of a message asks for, in the order of its words.
pub(super) fn read(message: &str, lexicon: &Lexicon) -> Vec<Wanted> {
    let mut reader = Reader { lexicon, wanted: Vec::new(), seen: HashSet::new(), slips: SLIPS };
    let mut words: Vec<(String, String)> = pieces(message).map(word_and_stem).collect();
    reader.phrases(&words);
    words.retain(|(word, _)| !is_filler(word));
    reader.phrases(&words);
    pieces(message).for_each(|piece| reader.piece(piece));
    for (word, shape) in shapes(message) {
        reader.add(word.to_lowercase(), lexicon.meanings(shape));
    }
    reader.wanted
}

fn word_and_stem(piece: &str) -> (String, String) {
    let word = piece.to_lowercase();
    let stem = stem(&word).into_owned();
    (word, stem)
}

struct Reader<'a> {
    lexicon: &'a Lexicon,
    wanted: Vec<Wanted>,
    /// Words and phrases that were looked at already.
    seen: HashSet<String>,
    slips: usize,
}

impl Reader<'_> {
    fn phrases(&mut self, words: &[(String, String)]) {
        for place in 0..words.len() {
            for length in 2..=PHRASE_WORDS {
                words.get(place..place + length).into_iter().for_each(|words| self.phrase(words));
            }
        }
    }

    fn phrase(&mut self, words: &[(String, String)]) {
        let stems: Vec<&str> = words.iter().map(|(_, stem)| stem.as_str()).collect();
        let mut meanings = self.lexicon.phrase(&stems.join(" ")).to_vec();
        if let [(first, _), (second, _)] = words {
            // `check out` may be what a tool calls `checkout`, and `e-mail` what it calls `email`.
            let joined = format!("{first}{second}");
            if self.lexicon.knows(&joined) && !(is_stop_word(first) && is_stop_word(second)) {
                meanings.extend(self.lexicon.meanings(&joined));
            }
        }
        if !meanings.is_empty() {
            let said: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
            self.add(said.join(" "), meanings);
        }
    }

    fn piece(&mut self, piece: &str) {
        let word = piece.to_lowercase();
        let meanings = self.lexicon.meanings(&word);
        if !meanings.is_empty() || is_stop_word(&word) {
            return self.add(word, meanings);
        }
        let parts: Vec<&str> = humps(piece).collect();
        if parts.len() > 1 {
            return parts.into_iter().for_each(|part| self.piece(part));
        }
        if self.slips > 0 && !self.seen.contains(&word) {
            self.slips -= 1;
            let meanings = self.lexicon.meanings_of_slip(&word);
            self.add(word, meanings);
        }
    }

    fn add(&mut self, said: String, meanings: Vec<Meaning>) {
        if self.wanted.len() == WORDS || meanings.is_empty() || !self.seen.insert(said.clone()) {
            return;
        }
        self.wanted.push(Wanted { said: said.into(), meanings });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(message: &str) -> Vec<String> {
        let mut lexicon = Lexicon::default();
        for word in ["invoice", "delete", "checkout", "whatsapp"] {
            lexicon.learn(word);
        }
        lexicon.learn_synonyms();
        read(message, &lexicon).iter().map(|wanted| wanted.said.to_string()).collect()
    }

    #[test]
    fn words_of_tools_are_wanted_once() {
        assert_eq!(said("The invoice, the INVOICE!"), ["invoice"]);
    }

    #[test]
    fn phrases_and_words_written_apart_are_understood() {
        assert_eq!(said("Get rid of it"), ["get rid of"]);
        assert_eq!(said("at check out"), ["check out"]);
    }

    #[test]
    fn a_slip_is_wanted_as_it_was_written() {
        assert_eq!(said("the invioce"), ["invioce"]);
    }

    #[test]
    fn a_long_message_is_cut_at_a_letter() {
        let long = "ż".repeat(5_000);
        assert_eq!(beginning(&long).len(), 2048);
        assert_eq!(beginning("short"), "short");
    }

    #[test]
    fn no_message_has_more_words_than_count() {
        let lexicon = {
            let mut lexicon = Lexicon::default();
            for number in 0..500 {
                lexicon.learn(&format!("w{number}"));
            }
            lexicon
        };
        let message: String = (0..500).map(|number| format!("w{number} ")).collect();
        assert_eq!(read(&message, &lexicon).len(), WORDS);
    }
}
