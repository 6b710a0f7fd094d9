//! Characters allowed in text for models and operators, and the one escaper for excerpts of untrusted text.
//!
//! Control characters move cursors and split log lines, bidirectional controls reorder text, and invisible characters
//! carry text that a model reads and a person does not see. Descriptors must not contain any of them; excerpts of
//! untrusted input escape them.

use std::io;

use serde_json::Value;

/// Whether a character is invisible or changes the reading order of its neighbours.
///
/// Tab and line feed are allowed for usage texts, and U+FE0F as a part of common symbols.
pub fn is_hidden(letter: char) -> bool {
    if letter.is_ascii() {
        return letter.is_ascii_control() && !matches!(letter, '\t' | '\n');
    }
    letter.is_control()
        || matches!(letter,
            // Soft hyphen, grapheme joiner, fillers of Hangul, Khmer and Mongolian.
            '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{3164}' | '\u{ffa0}'
            // Marks, embeddings, overrides and isolates of the bidirectional algorithm.
            | '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Zero-width characters, line and paragraph separators, invisible operators, the byte order mark.
            | '\u{200b}'..='\u{200d}' | '\u{2028}'..='\u{2029}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
            | '\u{feff}'
            // Variation selectors but the common one, annotations, tags: each can smuggle bytes.
            | '\u{fe00}'..='\u{fe0e}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The first hidden character of a text.
pub fn hidden_character(text: &str) -> Option<char> {
    // Fast path: most texts are printable ASCII, and tool lists of MCP servers have megabytes of them.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return None;
    }
    text.chars().find(|letter| is_hidden(*letter))
}

/// Returns at most `max_chars` characters of a text on one line, with hidden characters escaped and `…` where it is cut.
pub fn escape_for_display(text: &str, max_chars: usize) -> String {
    // Fast path: most texts are short printable ASCII.
    if text.len() <= max_chars && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut left = max_chars;
    for letter in text.chars() {
        if left == 0 {
            shown.push('…');
            break;
        }
        left -= 1;
        match letter {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            letter if is_hidden(letter) => shown.extend(letter.escape_unicode()),
            letter => shown.push(letter),
        }
    }
    shown
}

/// Joins at most `most` words, each escaped and in backticks, with commas.
pub fn list<'a>(words: impl Iterator<Item = &'a str>, most: usize) -> String {
    let mut words = words.peekable();
    let shown: Vec<String> =
        words.by_ref().take(most).map(|word| format!("`{}`", escape_for_display(word, 64))).collect();
    let rest = if words.peek().is_some() { ", …" } else { "" };
    format!("{}{rest}", shown.join(", "))
}

/// The start of a value's JSON text on one line, at most `max_chars` characters, escaped for display.
pub fn json_start(value: &Value, max_chars: usize) -> String {
    // UTF-8 takes at most four bytes per character; one extra character shows that there is more.
    let mut start = Start { bytes: Vec::new(), left: (max_chars + 1) * 4 };
    // `Start` stops serialization early with an error, which is expected.
    let _ = serde_json::to_writer(&mut start, value);
    let text = String::from_utf8_lossy(&start.bytes);
    escape_for_display(text.trim_end_matches(char::REPLACEMENT_CHARACTER), max_chars)
}

/// Writer that keeps the first bytes and refuses the rest, so that a large value is not serialized whole.
struct Start {
    bytes: Vec<u8>,
    left: usize,
}

impl io::Write for Start {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.bytes.extend(bytes.iter().take(taken));
        self.left -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A time as a person says it, rounded up: `850 ms`, `90 s`, `20 min`, `7 h 46 min`, `3 days`.
pub fn duration_text(ms: u64) -> String {
    let (seconds, minutes) = (ms.div_ceil(1_000), ms.div_ceil(60_000));
    match minutes {
        _ if ms < 1_000 => format!("{ms} ms"),
        0..=2 => format!("{seconds} s"),
        3..=119 => format!("{minutes} min"),
        120..=2_880 if minutes % 60 == 0 => format!("{} h", minutes / 60),
        120..=2_880 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} days", minutes.div_ceil(24 * 60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_as_people_say_it() {
        for (ms, text) in [
            (850, "850 ms"),
            (1_001, "2 s"),
            (90_000, "90 s"),
            (1_200_000, "20 min"),
            (27_952_826, "7 h 46 min"),
            (86_400_000, "24 h"),
            (172_800_001, "3 days"),
        ] {
            assert_eq!(duration_text(ms), text);
        }
    }

    #[test]
    fn ordinary_text_in_any_script_hides_nothing() {
        for text in ["plain", "two\nlines\tand a tab", "żółć", "日本語", "العربية", "❤\u{fe0f}"]
        {
            assert_eq!(hidden_character(text), None, "{text}");
        }
    }

    #[test]
    fn control_bidirectional_and_invisible_characters_are_found() {
        for letter in [
            '\0',
            '\u{1b}',
            '\r',
            '\u{7f}',
            '\u{85}',
            '\u{202e}',
            '\u{2066}',
            '\u{200b}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert_eq!(hidden_character(&format!("a{letter}b")), Some(letter));
        }
    }

    #[test]
    fn a_shown_text_is_one_short_line_without_hidden_characters() {
        assert_eq!(escape_for_display("a\nb\u{202e}c", 80), "a\\nb\\u{202e}c");
        assert_eq!(escape_for_display("abcdef", 3), "abc…");
        assert_eq!(escape_for_display("abc", 3), "abc");
    }

    #[test]
    fn the_start_of_a_value_is_cut_where_it_is_long() {
        assert_eq!(json_start(&Value::from(vec![1, 2]), 5), "[1,2]");
        assert_eq!(json_start(&Value::from("é".repeat(1_000_000)), 3), "\"éé…");
        assert_eq!(json_start(&Value::from(vec!["x".repeat(1_000_000)]), 4), "[\"xx…");
    }

    #[test]
    fn a_list_says_when_it_leaves_something_out() {
        assert_eq!(list(["a", "b"].into_iter(), 2), "`a`, `b`");
        assert_eq!(list(["a", "b", "c"].into_iter(), 2), "`a`, `b`, …");
    }
}
