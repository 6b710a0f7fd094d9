//! Names, held to their grammar (requirements 9.4) read by other means, and to what must be true of every mapping.

use toolgate_admission::{
    Name, NameError, Namespace, ToolId, ToolName, ToolPattern, WireName, read_called_name,
};

use crate::tell::assert_told;

const NAMESPACE_BYTES: usize = 40;
const TOOL_BYTES: usize = 58;
const WIRE_BYTES: usize = 64;

/// Each line is a text that may be a name of any kind.
///
/// Accepted exactly where the grammar has it; what is read shows as it was written, and reads again as the same. Two
/// tools never share a wire name, in any case of letters. A called name folds ASCII letters and no others.
pub fn names(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let lines: Vec<&str> = text.split('\n').take(8).collect();
    for line in &lines {
        parsed(line);
        called(line);
    }
    let ids: Vec<ToolId> = lines.iter().filter_map(|line| read_called_name(line)).collect();
    for one in &ids {
        for other in &ids {
            injective(one, other);
        }
    }
}

fn parsed(text: &str) {
    let is_namespace = is_words(text, '-') && text.len() <= NAMESPACE_BYTES;
    let is_tool_name = is_words(text, '_') && text.len() <= TOOL_BYTES;
    let is_id = text.split_once('/').is_some_and(|(namespace, tool)| {
        is_words(namespace, '-')
            && namespace.len() <= NAMESPACE_BYTES
            && is_words(tool, '_')
            && tool.len() <= TOOL_BYTES
    });
    let is_every = text
        .strip_suffix("/*")
        .is_some_and(|namespace| is_words(namespace, '-') && namespace.len() <= NAMESPACE_BYTES);
    same(text, is_namespace, Namespace::parse(text));
    same(text, is_tool_name, ToolName::parse(text));
    same(text, is_id, ToolId::parse(text));
    same(text, is_id || is_every || text == "*", ToolPattern::parse(text));
    same(text, is_name(text), Name::parse(text));
}

/// What is read shows as it was written; what is not is told.
fn same<T: std::fmt::Display>(text: &str, expected: bool, read: Result<T, NameError>) {
    match read {
        Ok(name) => assert!(expected && name.to_string() == text, "`{text}` is read as `{name}`"),
        Err(error) => {
            assert!(!expected, "`{text}` is refused: {error}");
            assert_told(&error.message, error.hint);
        }
    }
}

fn called(text: &str) {
    let read = read_called_name(text);
    assert_eq!(read, resolved(text), "`{text}`");
    let Some(id) = read else { return };
    assert!(text.is_ascii(), "`{text}` folds what is not ASCII");
    for spelt in [text.to_ascii_uppercase(), text.to_ascii_lowercase(), id.to_string()] {
        assert_eq!(read_called_name(&spelt).as_ref(), Some(&id), "`{spelt}`");
    }
    let wire = id.wire();
    assert_eq!(
        wire.is_ok(),
        "call__".len() + id.namespace.as_str().len() + id.tool.as_str().len() <= WIRE_BYTES
    );
    match wire {
        Ok(wire) => reads_back(&wire, &id),
        Err(error) => assert_told(&error.message, error.hint),
    }
}

/// Model providers take `[a-zA-Z0-9_-]{1,64}`.
fn reads_back(wire: &WireName, id: &ToolId) {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    assert!(wire.as_str().len() <= WIRE_BYTES && wire.as_str().bytes().all(plain), "{wire}");
    assert_eq!(read_called_name(wire.as_str()).as_ref(), Some(id), "{wire}");
}

fn injective(one: &ToolId, other: &ToolId) {
    if let (Ok(one_wire), Ok(other_wire)) = (one.wire(), other.wire()) {
        let is_alike = one_wire.as_str().eq_ignore_ascii_case(other_wire.as_str());
        assert_eq!(one == other, is_alike, "`{one}` and `{other}` are `{one_wire}` and `{other_wire}`");
    }
}

/// What a called name means, step by step over owned text.
fn resolved(text: &str) -> Option<ToolId> {
    let folded = text.to_ascii_lowercase();
    let (namespace, tool) = match folded.split_once('/') {
        Some(parts) => parts,
        None => folded.strip_prefix("call_")?.split_once('_')?,
    };
    // What has no wire name is no tool's.
    let is_short = "call_".len() + namespace.len() + "/".len() + tool.len() <= WIRE_BYTES;
    is_short.then(|| ToolId::parse(&format!("{namespace}/{tool}")).ok())?
}

fn is_words(text: &str, joint: char) -> bool {
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|letter| matches!(letter, 'a'..='z' | '0'..='9'));
    text.starts_with(|letter: char| letter.is_ascii_lowercase()) && text.split(joint).all(is_word)
}

fn is_name(text: &str) -> bool {
    let letters: Vec<char> = text.chars().collect();
    let is_edge = |letter: &char| matches!(letter, 'a'..='z' | '0'..='9');
    letters.len() <= 64
        && letters.first().is_some_and(is_edge)
        && letters.last().is_some_and(is_edge)
        && letters.iter().all(|letter| is_edge(letter) || matches!(letter, '_' | '-'))
}
