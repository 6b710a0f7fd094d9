//! Cleans texts of the document for models: without hidden characters, and cut to a limit.

use toolgate_api::text::is_hidden;

/// Removes hidden characters, surrounding space and repeated empty lines, and cuts to `most_chars` characters.
pub(crate) fn clean(text: &str, most_chars: usize) -> String {
    let mut cleaned = String::new();
    let mut lines_ended = 0;
    for letter in text.trim().chars().filter(|letter| !is_hidden(*letter)) {
        lines_ended = if letter == '\n' { lines_ended + 1 } else { 0 };
        if lines_ended <= 2 {
            cleaned.push(letter);
        }
    }
    cut(cleaned.trim(), most_chars)
}

/// The same, on one line.
pub(crate) fn clean_line(text: &str, most_chars: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    clean(&words.join(" "), most_chars)
}

/// Cuts at the end of a word, and marks the cut with ` …`.
pub(crate) fn cut(text: &str, most_chars: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most_chars) else { return text.to_owned() };
    let limit = text.char_indices().nth(most_chars.saturating_sub(2)).map_or(end, |(at, _)| at);
    let start = text.get(..limit).unwrap_or_default();
    // Inside the last word, if that word is most of the text.
    let at_word = start.rfind(char::is_whitespace).filter(|at| *at > start.len() / 2);
    let kept = start.get(..at_word.unwrap_or(start.len())).unwrap_or_default();
    format!("{} …", kept.trim_end())
}

/// Whether a text has no hidden characters, which the daemon would refuse.
pub(crate) fn is_visible(text: &str) -> bool {
    !text.chars().any(is_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_and_repeated_empty_lines_are_removed() {
        assert_eq!(clean("  a\r\n\r\n\r\n\r\nb\u{202e}c\u{200b} \n", 80), "a\n\nbc");
        assert_eq!(clean_line("a\n b\tc", 80), "a b c");
        assert!(is_visible(&clean("\u{feff}\u{0}x", 9)) && !is_visible("\u{0}"));
    }

    #[test]
    fn a_long_text_is_cut_after_a_word_with_a_mark() {
        assert_eq!(cut("one two three", 11), "one two …");
        assert_eq!(cut("one two three", 13), "one two three");
        assert_eq!(cut("abcdefghij", 5), "abc …");
        assert_eq!(cut("żółć żółć", 7).chars().count(), 6);
        for most in 2..12 {
            assert!(cut("ab cde fghi jk", most).chars().count() <= most.max(2), "{most}");
        }
    }
}
