//! Names of plugins, tools, organizations and agents, and the wire names that models call.
//!
//! A namespace has no underscore and a tool's name has no hyphen, so a wire name `call_NAMESPACE_TOOL` parses in
//! exactly one way: the first underscore after `call_` ends the namespace. The mapping is therefore injective (G4)
//! without a table of exceptions. Names are ASCII and are compared after folding ASCII case, so two spellings that look
//! alike are never two tools.
//!
//! [`derive_tool_name`] and [`derive_namespace`] turn foreign names into ours.

mod derive;

use std::fmt;
use std::sync::Arc;

use crate::read::deserialize_parsed;
use crate::text::escape_for_display;

pub use derive::{derive_namespace, derive_tool_name, name_collisions};

/// Longest namespace, in bytes; `wit/describe.schema.json` has the same bound.
const NAMESPACE_BYTES: usize = 40;
/// Longest tool name, in bytes: the rest of a wire name whose namespace has one letter.
const TOOL_BYTES: usize = 58;
/// Longest wire name, in bytes: the smallest limit for function names among model providers.
const WIRE_BYTES: usize = 64;
/// Longest name of an organization or an agent, in bytes: paths and every audit record contain it.
const NAME_BYTES: usize = 64;
const WIRE_PREFIX: &str = "call_";

/// Longest `namespace/tool`, in bytes: a wire name without its prefix.
const ID_BYTES: usize = WIRE_BYTES - WIRE_PREFIX.len();

/// A text does not match the grammar of its kind of name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NameError {
    /// The rejected text and the kind of name.
    pub message: String,
    /// The grammar, with an example.
    pub hint: &'static str,
}

impl NameError {
    fn new(kind: &str, text: &str, hint: &'static str) -> Self {
        Self { message: format!("`{}` is not {kind}", escape_for_display(text, 80)), hint }
    }
}

macro_rules! text_type {
    ($name:ident) => {
        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

/// The name of a plugin: lower-case words joined by hyphens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(Arc<str>);
text_type!(Namespace);

impl Namespace {
    /// Parses a namespace, `[a-z][a-z0-9]*(-[a-z0-9]+)*`, at most 40 bytes.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.len() <= NAMESPACE_BYTES && is_words(text, b'-') {
            return Ok(Self(text.into()));
        }
        let hint = "a namespace is lower-case words joined by hyphens, at most 40 letters, like `weather` or `web-search`";
        Err(NameError::new("a namespace", text, hint))
    }
}

/// The name of a tool within its plugin: lower-case words joined by underscores.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(Arc<str>);
text_type!(ToolName);

impl ToolName {
    /// Parses a tool's name, `[a-z][a-z0-9]*(_[a-z0-9]+)*`, at most 58 bytes.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.len() <= TOOL_BYTES && is_words(text, b'_') {
            return Ok(Self(text.into()));
        }
        let hint = "a tool's name is lower-case words joined by underscores, at most 58 letters, like `read` or `list_files`";
        Err(NameError::new("a tool's name", text, hint))
    }
}

/// One tool of one plugin, written `namespace/tool`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolId {
    /// The plugin.
    pub namespace: Namespace,
    /// The tool within it.
    pub tool: ToolName,
}

impl ToolId {
    /// Parses `namespace/tool`, the form used in documents.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let hint = "a tool is named `namespace/tool`, like `files/read`";
        let (namespace, tool) = text.split_once('/').ok_or_else(|| NameError::new("a tool", text, hint))?;
        Ok(Self { namespace: Namespace::parse(namespace)?, tool: ToolName::parse(tool)? })
    }

    /// Returns the wire name, or an error if it would be longer than 64 bytes.
    pub fn wire(&self) -> Result<WireName, NameError> {
        let text = format!("{WIRE_PREFIX}{}_{}", self.namespace, self.tool);
        if text.len() > WIRE_BYTES {
            let hint =
                "`call_NAMESPACE_TOOL` has at most 64 letters: shorten the namespace or the tool's name";
            return Err(NameError::new("short enough for a wire name", &text, hint));
        }
        Ok(WireName(text.into()))
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.tool)
    }
}

deserialize_parsed!(Namespace, Namespace::parse);
deserialize_parsed!(ToolName, ToolName::parse);
deserialize_parsed!(Name, Name::parse);

/// The function name that a model calls: `call_NAMESPACE_TOOL`, at most 64 bytes. Constructed by [`ToolId::wire`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WireName(Box<str>);
text_type!(WireName);

/// The name of an organization or of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);
text_type!(Name);

/// Allows map lookups by `&str`.
impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Name {
    /// Parses a name, `[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let bytes = text.as_bytes();
        let inner = |byte: &u8| is_word_byte(*byte) || matches!(byte, b'_' | b'-');
        let edges =
            [bytes.first(), bytes.last()].into_iter().all(|edge| edge.copied().is_some_and(is_word_byte));
        if bytes.len() <= NAME_BYTES && edges && bytes.iter().all(inner) {
            return Ok(Self(text.into()));
        }
        let hint = "a name is lower-case letters and digits, with hyphens and underscores inside, at most 64 letters";
        Err(NameError::new("a name", text, hint))
    }
}

/// Parses the name by which a caller calls a tool: a wire name or `namespace/tool`, ignoring ASCII case.
///
/// Does not check whether such a tool is loaded.
pub fn read_called_name(text: &str) -> Option<ToolId> {
    let key = CalledKey::read(text)?;
    ToolId::parse(std::str::from_utf8(key.as_bytes()).ok()?).ok()
}

/// A called name normalized to the key of the tool table. The text is stored inline, so parsing does not allocate.
#[derive(Clone, Debug)]
pub struct CalledKey {
    /// The length of the text, then the text.
    written: [u8; 1 + ID_BYTES],
}

impl CalledKey {
    /// Parses a called name; `None` if the text has neither form or is longer than the longest tool id.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        let (id, separator) = match text.iter().position(|byte| *byte == b'/') {
            Some(separator) => (text, separator),
            None => {
                let id = strip_prefix_ignoring_case(text, WIRE_PREFIX.as_bytes())?;
                (id, id.iter().position(|byte| *byte == b'_')?)
            }
        };
        let mut written = [0; 1 + ID_BYTES];
        let (length, bytes) = written.split_first_mut()?;
        *length = u8::try_from(id.len()).ok()?;
        let target = bytes.get_mut(..id.len())?;
        target.copy_from_slice(id);
        target.make_ascii_lowercase();
        *target.get_mut(separator)? = b'/';
        Some(Self { written })
    }

    /// `namespace/tool` in lower case.
    fn as_bytes(&self) -> &[u8] {
        self.key_bytes().split_first().map_or(&[], |(_, text)| text)
    }

    /// The length byte followed by `namespace/tool` in lower case, so that no key is a prefix of another.
    pub fn key_bytes(&self) -> &[u8] {
        let [length, ..] = self.written;
        self.written.get(..1 + usize::from(length)).unwrap_or_default()
    }
}

fn strip_prefix_ignoring_case<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Matches words of lower-case letters and digits separated by single `joint`s, the first starting with a letter.
fn is_words(text: &str, joint: u8) -> bool {
    let begins_with_letter = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    let is_word = |word: &[u8]| !word.is_empty() && word.iter().copied().all(is_word_byte);
    begins_with_letter && text.as_bytes().split(|byte| *byte == joint).all(is_word)
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(text: &str) -> ToolId {
        ToolId::parse(text).expect("a tool")
    }

    #[test]
    fn a_namespace_is_words_joined_by_hyphens() {
        for text in ["a", "a1", "web-search", "a-1", "x-y-z"] {
            assert_eq!(Namespace::parse(text).expect(text).as_str(), text);
        }
        for text in ["", "1a", "-a", "a-", "a--b", "a_b", "A", "é", "a b", "a/b", "a.b", &"a".repeat(41)] {
            assert!(Namespace::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_tool_name_is_words_joined_by_underscores() {
        for text in ["a", "a1", "list_files", "a_1"] {
            assert_eq!(ToolName::parse(text).expect(text).as_str(), text);
        }
        for text in ["", "1a", "_a", "a_", "a__b", "a-b", "A", "getWeather", &"a".repeat(59)] {
            assert!(ToolName::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_name_of_an_organization_begins_and_ends_with_a_letter_or_a_digit() {
        for text in ["a", "0", "acme", "acme-corp_2", &"a".repeat(64)] {
            assert!(Name::parse(text).is_ok(), "{text}");
        }
        for text in ["", "-a", "a-", "_", "Acme", "a/b", "..", "a.b", "a\0", &"a".repeat(65)] {
            assert!(Name::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_refused_name_is_shown_short_and_escaped() {
        let refused = Namespace::parse(&format!("\u{202e}\n{}", "x".repeat(500))).unwrap_err();
        assert!(
            refused.message.len() < 160 && !refused.message.contains(['\n', '\u{202e}']),
            "{}",
            refused.message
        );
        assert!(!refused.hint.is_empty());
    }

    /// G4: the model sees `call_server_api`.
    #[test]
    fn a_wire_name_keeps_the_hyphens_of_its_namespace() {
        assert_eq!(id("web-search/by_image").wire().unwrap().as_str(), "call_web-search_by_image");
    }

    #[test]
    fn a_wire_name_has_at_most_64_letters() {
        assert!(id(&format!("a/{}", "b".repeat(57))).wire().is_ok());
        assert!(id(&format!("a/{}", "b".repeat(58))).wire().is_err());
    }

    /// G4: case-insensitive on the way in.
    #[test]
    fn a_called_name_reads_in_either_form_and_either_case() {
        for text in ["call_files_read_all", "CALL_Files_Read_ALL", "files/read_all", "FILES/read_all"] {
            assert_eq!(read_called_name(text), Some(id("files/read_all")), "{text}");
        }
    }

    #[test]
    fn what_has_neither_form_names_no_tool() {
        let long = format!("a/{}", "b".repeat(90));
        for text in [
            "",
            "call_",
            "call_files",
            "call__read",
            "files_read",
            "files",
            "/",
            "a/",
            "/b",
            "a/b/c",
            "call_a_",
            &long,
        ] {
            assert_eq!(read_called_name(text), None, "{text}");
        }
    }

    #[test]
    fn letters_that_only_fold_outside_ascii_are_other_letters() {
        assert_eq!(read_called_name("call_\u{212a}_read"), None, "the sign for kelvin is not a k");
    }

    fn any_id() -> impl Strategy<Value = ToolId> {
        ("[a-z][a-z0-9]{0,3}(-[a-z0-9]{1,3}){0,2}", "[a-z][a-z0-9]{0,3}(_[a-z0-9]{1,3}){0,3}")
            .prop_map(|(namespace, tool)| id(&format!("{namespace}/{tool}")))
    }

    proptest! {
        /// G4: two tools can never share a wire name, in any case of letters.
        #[test]
        fn wire_names_are_injective(left in any_id(), right in any_id()) {
            let (left_wire, right_wire) = (left.wire().unwrap(), right.wire().unwrap());
            prop_assert_eq!(left == right, left_wire.as_str().eq_ignore_ascii_case(right_wire.as_str()));
        }

        /// G4: a wire name in any case parses to the tool that it was made from.
        #[test]
        fn a_wire_name_reads_back(tool in any_id(), upper in any::<bool>()) {
            let wire = tool.wire().unwrap().to_string();
            let called = if upper { wire.to_ascii_uppercase() } else { wire };
            prop_assert_eq!(read_called_name(&called), Some(tool));
        }

        #[test]
        fn no_text_makes_reading_a_name_panic(text in "\\PC{0,80}") {
            let _ = read_called_name(&text);
            let _ = Name::parse(&text);
        }
    }
}
