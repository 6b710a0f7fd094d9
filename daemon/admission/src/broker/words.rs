//! Splits texts of tools and messages into words, and stems them.
//!
//! A word is a run of letters and digits in lower case; identifiers are split at `_`, `-` and camel case. Two words are
//! equal if their stems are. The stemmer is Snowball's for English (`rust_stemmers`); words in other scripts are compared
//! as they are.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

static STOP_WORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| lines(include_str!("stop_words.txt")).flat_map(str::split_whitespace).collect());

/// Base forms by irregular form.
static IRREGULAR: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let verbs = lines(include_str!("irregular.txt")).filter_map(|line| line.split_once(' '));
    verbs.flat_map(|(base, forms)| forms.split(' ').map(move |form| (form, base))).collect()
});

/// Words that can be inside a phrase.
const FILLERS: &[&str] = &[
    "a", "an", "her", "him", "his", "it", "its", "me", "my", "our", "that", "the", "their", "them", "this",
    "us", "you", "your",
];

/// Longest word. Longer runs are keys or encoded files, which are in no description of a tool.
const WORD_BYTES: usize = 40;

/// Whether a word is too common to select a tool by.
pub(super) fn is_stop_word(word: &str) -> bool {
    word.len() < 2 || STOP_WORDS.contains(word)
}

/// Whether a phrase may have this word inside: `get it back` is `get back`.
pub(super) fn is_filler(word: &str) -> bool {
    FILLERS.contains(&word)
}

/// Returns the stem, by which words are compared.
pub(super) fn stem(word: &str) -> Cow<'_, str> {
    let word = IRREGULAR.get(word).copied().unwrap_or(word);
    match word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        true => Stemmer::create(Algorithm::English).stem(word),
        false => Cow::Borrowed(word),
    }
}

/// Splits a text into words, without changing case or splitting camel case.
pub(super) fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let is_inside = |letter: char| letter.is_alphanumeric() || is_apostrophe(letter);
    text.split(move |letter| !is_inside(letter))
        .flat_map(|run| {
            // An apostrophe separates a suffix (`s`, `ll`, `re`), but in `o'clock` a word.
            let mut parts = run.split(is_apostrophe);
            parts.next().into_iter().chain(parts.filter(|part| part.len() > 2))
        })
        .filter(|piece| !piece.is_empty() && piece.len() <= WORD_BYTES)
}

/// Splits camel case: `dueDate` into `due` and `Date`, `HTTPServer` into `HTTP` and `Server`.
pub(super) fn split_camel_case(piece: &str) -> impl Iterator<Item = &str> {
    let mut rest = piece;
    std::iter::from_fn(move || {
        let (part, after) = rest.split_at(camel_case_end(rest));
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// Calls `each` with every word of a text in lower case, and with the parts of camel case: `WhatsApp` is indexed as
/// `whatsapp`, `whats` and `app`.
pub(super) fn for_each_word(text: &str, mut each: impl FnMut(&str)) {
    for piece in split_words(text) {
        let whole = piece.to_lowercase();
        each(&whole);
        if camel_case_end(piece) < piece.len() {
            split_camel_case(piece).for_each(|part| each(&part.to_lowercase()));
        }
    }
}

/// The lines of a word list without comments.
pub(super) fn lines(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().filter(|line| !line.starts_with('#'))
}

fn is_apostrophe(letter: char) -> bool {
    matches!(letter, '\'' | '’')
}

fn camel_case_end(text: &str) -> usize {
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
        for_each_word(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn the_lists_are_parsed() {
        assert_eq!((STOP_WORDS.len(), IRREGULAR.len()), (264, 80));
        assert!(is_stop_word("the") && is_stop_word("x") && !is_stop_word("invoice"));
    }

    #[test]
    fn identifiers_are_split_at_marks_and_camel_case() {
        assert_eq!(words("send_email-now"), ["send", "email", "now"]);
        assert_eq!(words("dueDate"), ["duedate", "due", "date"]);
        assert_eq!(words("HTTPServer"), ["httpserver", "http", "server"]);
        assert_eq!(words("WhatsApp"), ["whatsapp", "whats", "app"]);
    }

    #[test]
    fn a_suffix_after_an_apostrophe_is_no_word() {
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
        /// The stemmer slices bytes, and its input comes from users.
        #[test]
        fn every_text_has_words_and_stems(text in "[a-z']{0,60}|.{0,60}") {
            for_each_word(&text, |word| assert!(!word.is_empty() && (word.len() < 2 || !stem(word).is_empty())));
        }
    }
}
