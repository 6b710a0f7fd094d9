//! Tool output framed for a model, held to what a frame promises.

use toolgate::frame::tool_result;

use crate::tell::hidden;

/// Bytes of content and of a name that are shown.
const CONTENT_BYTES: usize = 64 * 1024;
const NAME_BYTES: usize = 256;
/// One character more than fits, written out, and the words that say what is missing.
const OVERHANG_BYTES: usize = 64;

const OPENING: &str = "<tool_result tool_name=\"";
const BETWEEN: &str = "\" status=\"ok\">";
const CLOSING: &str = "</tool_result>";

/// A first line that is the tool's name as a model called it, and the output after it.
///
/// Whatever they hold, there is one frame, nothing in it looks like markup or like a call, every character shows, it
/// has an end, and what was neither cut nor hidden reads back.
pub fn frame(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (name, content) = text.split_once('\n').unwrap_or(("", text));
    let framed = tool_result(name, "ok", content);
    let inside = framed.strip_prefix(OPENING).and_then(|rest| rest.strip_suffix(CLOSING)).expect("a frame");
    let (shown_name, shown) = inside.split_once(BETWEEN).expect("a frame");
    part(name, shown_name, NAME_BYTES, &['<', '>', '"']);
    part(content, shown, CONTENT_BYTES, &['<', '>']);
    // What is beside each other after framing, too.
    assert!(!framed.contains("[[") && !framed.contains("]]"), "a call is opened or closed");
    assert_eq!(hidden(&framed), None, "a character is hidden");
}

fn part(sent: &str, shown: &str, most_bytes: usize, never: &[char]) {
    assert!(!shown.contains(never), "markup in `{shown}`");
    assert!(shown.len() <= most_bytes + OVERHANG_BYTES, "{} bytes", shown.len());
    let (whole, left_out) = match shown
        .rsplit_once("… [")
        .and_then(|(whole, rest)| Some((whole, rest.strip_suffix(" bytes more]")?)))
    {
        Some((whole, count)) if shown.len() >= most_bytes => (whole, count.parse().expect("a count")),
        _ => (shown, 0_usize),
    };
    let kept =
        sent.len().checked_sub(left_out).and_then(|kept| sent.get(..kept)).expect("a cut between characters");
    // Written out, a hidden character looks like an output that wrote it so itself.
    if hidden(kept).is_none() && !whole.contains("\\u{") {
        assert_eq!(unescaped(whole), kept, "it does not read back");
    }
}

fn unescaped(text: &str) -> String {
    let plain = text.replace("&#91;", "[").replace("&#93;", "]").replace("&quot;", "\"");
    plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}
