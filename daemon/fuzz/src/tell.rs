//! What every refusal owes to whoever reads it: words on one line, a way out, and a place that can be looked up.

use serde_json::Value;

/// Longest message, in characters. Several excerpts fit, nothing that somebody sent does.
const MESSAGE_CHARS: usize = 2_000;

/// Holds a message and its hint to their form.
pub fn assert_told(message: &str, hint: &str) {
    assert!(!message.trim().is_empty(), "a refusal says nothing");
    assert!(!hint.trim().is_empty(), "no way out of: {message}");
    for text in [message, hint] {
        assert!(text.chars().count() <= MESSAGE_CHARS, "a message of {} characters", text.chars().count());
        assert_eq!(hidden(text), None, "a message hides a character: {}", text.escape_debug());
        assert!(!text.contains(['\n', '\t']), "a message has lines: {}", text.escape_debug());
    }
}

/// Holds a JSON pointer to RFC 6901.
pub fn assert_pointer(pointer: &str) {
    assert!(pointer.is_empty() || pointer.starts_with('/'), "`{pointer}` is no JSON pointer");
    let escapes_well = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    assert!(escapes_well, "`{pointer}` has a bare `~`");
}

/// A pointer names a place in the value, or one that is missing in a place that is there.
pub fn assert_place(value: &Value, pointer: &str) {
    assert_pointer(pointer);
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    assert!(
        value.pointer(pointer).is_some() || value.pointer(parent).is_some(),
        "`{pointer}` points to nothing"
    );
}

/// The first character that a person does not see, by a list of its own: controls, and those whose general
/// category is format (Cf) or that have no width.
pub fn hidden(text: &str) -> Option<char> {
    text.chars().find(|letter| {
        (letter.is_control() && !matches!(letter, '\n' | '\t'))
            || matches!(u32::from(*letter),
                0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
                | 0xfff9..=0xfffb | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe007f)
    })
}
