//! Texts of an MCP server for models and people.
//!
//! The daemon refuses descriptions with hidden characters (control, bidirectional, invisible), so they are removed from a
//! server's texts first.

use std::borrow::Cow;

use toolgate_api::text::{escape_for_display, hidden_character, is_hidden};

/// The text without hidden characters and without space around it, at most so many characters; none where nothing is left.
pub fn clean(text: &str, most_chars: usize) -> Option<String> {
    let visible = match hidden_character(text) {
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

/// Untrusted text in a message: on one line, short, with hidden characters escaped.
pub fn display(text: &str, most_chars: usize) -> String {
    escape_for_display(&text.split_whitespace().collect::<Vec<_>>().join(" "), most_chars)
}
