//! What counts as a word, in the texts of tools and in messages alike.
//!
//! A word is a run of letters and digits in lower case; identifiers come apart at `_`, `-` and humps. Two words
//! are the same when their stems are. Stemming knows English; words of other languages are compared as they
//! are written.

mod lists;

use std::borrow::Cow;

use lists::{FILLERS, IRREGULAR, STOP_WORDS};
use rust_stemmers::{Algorithm, Stemmer};

/// Longest word. What is longer is a key or an encoded file, which no tool is described by.
const WORD_BYTES: usize = 40;

/// Whether a word says nothing about which tool is meant.
pub(super) fn is_stop_word(word: &str) -> bool {
    word.len() < 2 || STOP_WORDS.binary_search(&word).is_ok()
}

/// Whether a word may stand inside a phrase without being of it: `get it back` is `get back`.
pub(super) fn is_filler(word: &str) -> bool {
    FILLERS.contains(&word)
}

/// The form in which words are compared.
pub(super) fn stem(word: &str) -> Cow<'_, str> {
    let place = IRREGULAR.binary_search_by_key(&word, |(form, _)| form);
    let word = place.ok().and_then(|place| IRREGULAR.get(place)).map_or(word, |(_, word)| word);
    match word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        true => Stemmer::create(Algorithm::English).stem(word),
        false => Cow::Borrowed(word),
    }
}

/// The words of a text in order, as they stand there: the humps of `dueDate` are still in one piece.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let is_inside = |letter: char| letter.is_alphanumeric() || is_apostrophe(letter);
    text.split(move |letter| !is_inside(letter))
        .flat_map(|run| {
            // What follows an apostrophe is `s`, `ll`, `re`, but in `o'clock` it is the word.
            let mut parts = run.split(is_apostrophe);
            parts.next().into_iter().chain(parts.filter(|part| part.len() > 2))
        })
        .filter(|piece| !piece.is_empty() && piece.len() <= WORD_BYTES)
}

/// The humps of an identifier: `dueDate` has `due` and `Date`, `HTTPServer` has `HTTP` and `Server`. A word
/// without humps is its own only one.
pub(super) fn humps(piece: &str) -> impl Iterator<Item = &str> {
    let mut rest = piece;
    std::iter::from_fn(move || {
        let (hump, after) = rest.split_at(hump_end(rest));
        rest = after;
        (!hump.is_empty()).then_some(hump)
    })
}

/// Calls `each` with every word that a text is found by: the pieces in lower case, and the humps of those
/// that have some. `WhatsApp` is found as `whatsapp`, `whats` and `app`.
pub(super) fn each_word(text: &str, mut each: impl FnMut(&str)) {
    for piece in pieces(text) {
        let whole = piece.to_lowercase();
        each(&whole);
        if hump_end(piece) < piece.len() {
            humps(piece).for_each(|hump| each(&hump.to_lowercase()));
        }
    }
}

fn is_apostrophe(letter: char) -> bool {
    matches!(letter, '\'' | '’')
}

fn hump_end(text: &str) -> usize {
    let mut letters = text.char_indices().peekable();
    let mut before = None;
    while let Some((place, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        let starts = match before {
            Some(before) if letter.is_uppercase() => {
                !char::is_uppercase(before) || next.is_some_and(char::is_lowercase)
            }
            _ => false,
        };
        if starts {
            return place;
        }
        before = Some(letter);
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn the_lists_are_sorted_so_that_they_are_found() {
        assert!(STOP_WORDS.is_sorted() && IRREGULAR.is_sorted());
        assert!(is_stop_word("the") && is_stop_word("x") && !is_stop_word("invoice"));
    }

    #[test]
    fn identifiers_come_apart_at_marks_and_humps() {
        assert_eq!(words("send_email-now"), ["send", "email", "now"]);
        assert_eq!(words("dueDate"), ["duedate", "due", "date"]);
        assert_eq!(words("HTTPServer"), ["httpserver", "http", "server"]);
        assert_eq!(words("WhatsApp"), ["whatsapp", "whats", "app"]);
    }

    #[test]
    fn what_an_apostrophe_cuts_off_is_no_word() {
        assert_eq!(words("the client's don’t o'clock"), ["the", "client", "don", "o", "clock"]);
    }

    #[test]
    fn a_key_is_no_word() {
        assert!(words(&"a".repeat(41)).is_empty());
        assert_eq!(words(&"a".repeat(40)).len(), 1);
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        assert_eq!(stem("invoices"), stem("invoicing"));
        assert_eq!(stem("cancellation"), stem("cancelled"));
        assert_eq!(stem("sent"), stem("sending"));
        assert_eq!(stem("żółć"), "żółć");
    }

    proptest::proptest! {
        /// The stemmer slices bytes, and is given what anybody writes.
        #[test]
        fn every_text_has_words_and_stems(text in "[a-z']{0,60}|.{0,60}") {
            each_word(&text, |word| assert!(!word.is_empty() && (word.len() < 2 || !stem(word).is_empty())));
        }
    }
}
