//! Names, compared with a second parser of their grammar (requirements 9.4).

use toolgate_api::name::{Name, NameError, Namespace, ToolId, ToolName, WireName, read_called_name};
use toolgate_api::tools::ToolPattern;

use crate::error_format::assert_error_text;

const NAMESPACE_BYTES: usize = 40;
const TOOL_BYTES: usize = 58;
const WIRE_BYTES: usize = 64;

/// Input: lines, each possibly a name of any kind.
///
/// A name is accepted exactly if the grammar allows it, is displayed as written, and parses back. Two tools never share a
/// wire name in any case of letters. A called name folds ASCII letters only.
pub fn names(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let lines: Vec<&str> = text.split('\n').take(8).collect();
    for line in &lines {
        check_parsers(line);
        check_called_name(line);
    }
    let ids: Vec<ToolId> = lines.iter().filter_map(|line| read_called_name(line)).collect();
    for one in &ids {
        for other in &ids {
            check_wire_names_differ(one, other);
        }
    }
}

fn check_parsers(text: &str) {
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
    check_parser(text, is_namespace, Namespace::parse(text));
    check_parser(text, is_tool_name, ToolName::parse(text));
    check_parser(text, is_id, ToolId::parse(text));
    check_parser(text, is_id || is_every || text == "*", ToolPattern::parse(text));
    check_parser(text, is_name(text), Name::parse(text));
}

/// A parsed name is displayed as written; an error has a message.
fn check_parser<T: std::fmt::Display>(text: &str, expected: bool, parsed: Result<T, NameError>) {
    match parsed {
        Ok(name) => assert!(expected && name.to_string() == text, "`{text}` is parsed as `{name}`"),
        Err(error) => {
            assert!(!expected, "`{text}` is refused: {error}");
            assert_error_text(&error.message, error.hint);
        }
    }
}

fn check_called_name(text: &str) {
    let parsed = read_called_name(text);
    assert_eq!(parsed, expected_tool(text), "`{text}`");
    let Some(id) = parsed else { return };
    assert!(text.is_ascii(), "`{text}`: a non-ASCII letter is folded");
    for spelt in [text.to_ascii_uppercase(), text.to_ascii_lowercase(), id.to_string()] {
        assert_eq!(read_called_name(&spelt).as_ref(), Some(&id), "`{spelt}`");
    }
    let wire_bytes = "call__".len() + id.namespace.as_str().len() + id.tool.as_str().len();
    assert_eq!(id.wire().is_ok(), wire_bytes <= WIRE_BYTES);
    match id.wire() {
        Ok(wire) => check_wire_name(&wire, &id),
        Err(error) => assert_error_text(&error.message, error.hint),
    }
}

/// Model providers accept `[a-zA-Z0-9_-]{1,64}`.
fn check_wire_name(wire: &WireName, id: &ToolId) {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    assert!(wire.as_str().len() <= WIRE_BYTES && wire.as_str().bytes().all(plain), "{wire}");
    assert_eq!(read_called_name(wire.as_str()).as_ref(), Some(id), "{wire}");
}

fn check_wire_names_differ(one: &ToolId, other: &ToolId) {
    if let (Ok(one_wire), Ok(other_wire)) = (one.wire(), other.wire()) {
        let is_alike = one_wire.as_str().eq_ignore_ascii_case(other_wire.as_str());
        assert_eq!(one == other, is_alike, "`{one}` and `{other}` are `{one_wire}` and `{other_wire}`");
    }
}

/// The tool of a called name, by string operations only.
fn expected_tool(text: &str) -> Option<ToolId> {
    let folded = text.to_ascii_lowercase();
    let (namespace, tool) = match folded.split_once('/') {
        Some(parts) => parts,
        None => folded.strip_prefix("call_")?.split_once('_')?,
    };
    // A name without a wire name is not the name of a tool.
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

/// Seeds, each with a name for its content.
#[rustfmt::skip]
pub const SEEDS: &[(&str, &str)] = &[
    ("bidirectional", "a\u{202e}b/c"),
    ("digits-first", "1a/b
1a"),
    ("dotted-i", "call_fİles_read"),
    ("empty-parts", "/
a/
/b
call_
call__b
call_a_
"),
    ("every-tool-of-a-plugin", "files/*"),
    ("fullwidth-letters", "ｃall_a_b"),
    ("joints-at-the-edge", "-a/b
a-/b
a/_b
a/b_"),
    ("joints-doubled", "a--b/c__d"),
    ("kelvin-sign", "call_K_read"),
    ("long-s", "call_fileſ_read"),
    ("longer-than-any-name", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"),
    ("longest-namespace", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/b
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/b"),
    ("longest-wire-name", "a/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
call_a_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"),
    ("namespace", "web-search"),
    ("nul-and-newline", "a\0b/c"),
    ("one-letter-too-long", "a/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
call_a_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"),
    ("organization-with-both-joints", "acme-corp_2"),
    ("tool-id", "web-search/by_image"),
    ("tool-name", "list_files"),
    ("traversal", "..
../a
a/.."),
    ("two-slashes", "a/b/c"),
    ("two-spellings", "files/read
CALL_FILES_READ
Files/Read"),
    ("underscore-in-namespace", "call_a_b_c
a/b_c
a-b/c"),
    ("wire-name", "call_web-search_by_image"),
    ("wire-name-in-capitals", "CALL_Web-Search_By_Image"),
];
