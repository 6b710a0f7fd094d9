//! The format of every error: one line, a hint, and a JSON pointer that resolves.

use serde_json::Value;

/// Longest message, in characters: room for several excerpts, but not for a complete input.
const MESSAGE_CHARS: usize = 2_000;

pub fn assert_error_text(message: &str, hint: &str) {
    assert!(!message.trim().is_empty(), "an error has no message");
    assert!(!hint.trim().is_empty(), "an error has no hint: {message}");
    for text in [message, hint] {
        assert!(text.chars().count() <= MESSAGE_CHARS, "a message of {} characters", text.chars().count());
        assert_eq!(find_hidden(text), None, "a message hides a character: {}", text.escape_debug());
        assert!(!text.contains(['\n', '\t']), "a message has lines: {}", text.escape_debug());
    }
}

/// The syntax of RFC 6901.
pub fn assert_pointer(pointer: &str) {
    assert!(pointer.is_empty() || pointer.starts_with('/'), "`{pointer}` is not a JSON pointer");
    let escapes_well = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    assert!(escapes_well, "`{pointer}` has a bare `~`");
}

/// The pointer resolves in the value, or names a missing member of an existing value.
pub fn assert_pointer_into(value: &Value, pointer: &str) {
    assert_pointer(pointer);
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    let is_in = value.pointer(pointer).is_some() || value.pointer(parent).is_some();
    assert!(is_in, "`{pointer}` points to nothing");
}

/// The first invisible character, by a list independent of the daemon's: controls, the general category format (Cf), and
/// characters without width.
pub fn find_hidden(text: &str) -> Option<char> {
    text.chars().find(|letter| {
        (letter.is_control() && !matches!(letter, '\n' | '\t'))
            || matches!(u32::from(*letter),
                0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
                | 0xfff9..=0xfffb | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe007f)
    })
}
