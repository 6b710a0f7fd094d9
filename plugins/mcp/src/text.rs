//! Texts of a server that a model or a person will read.
//!
//! The daemon takes no text that holds what nobody sees (control, bidirectional and invisible characters), since that can
//! say something to a model that a person did not read. A server's texts are cleaned of it before they are offered; the
//! test compares with the daemon's own list.

use std::borrow::Cow;

/// Whether a character is one that a reader cannot see, or that changes how its neighbours read.
pub fn is_hidden(letter: char) -> bool {
    if letter.is_ascii() {
        return letter.is_ascii_control() && !matches!(letter, '\t' | '\n');
    }
    letter.is_control()
        || matches!(letter,
            // Soft hyphen, joiner, fillers.
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{3164}' | '\u{ffa0}'
            // What turns the direction of writing.
            | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Zero width, separators, invisible operators, the byte order mark.
            | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}'
            | '\u{206a}'..='\u{206f}' | '\u{feff}'
            // Variation selectors but the common one, annotations, tags.
            | '\u{fe00}'..='\u{fe0e}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The first hidden character of a text.
pub fn hidden(text: &str) -> Option<char> {
    // Nearly all texts are such, and they are gone through by the megabyte.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return None;
    }
    text.chars().find(|letter| is_hidden(*letter))
}

/// The text without hidden characters and without space around it, at most so many characters; none where nothing is left.
pub fn clean(text: &str, most_chars: usize) -> Option<String> {
    let visible = match hidden(text) {
        None => Cow::Borrowed(text),
        Some(_) => {
            let lines = text.replace("\r\n", "\n").replace('\r', "\n");
            Cow::Owned(lines.chars().filter(|letter| !is_hidden(*letter)).collect())
        }
    };
    let visible = visible.trim();
    (!visible.is_empty()).then(|| cut(visible, most_chars))
}

/// At most so many characters, the last of them `…` where more came.
pub fn cut(text: &str, most_chars: usize) -> String {
    match text.char_indices().nth(most_chars) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(most_chars.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

/// A stranger's text in a message: one line, short, with hidden characters written out.
pub fn shown(text: &str, most_chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let escaped: String = line.chars().take(most_chars).map(escape).collect();
    if line.chars().nth(most_chars).is_some() { format!("{escaped}…") } else { escaped }
}

fn escape(letter: char) -> String {
    if is_hidden(letter) { letter.escape_unicode().to_string() } else { letter.to_string() }
}
