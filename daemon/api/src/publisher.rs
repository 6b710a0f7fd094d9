//! Keys of publishers, which prove who published a plugin file (O2).

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::name::{NameError, Namespace};
use crate::pattern_list::{Pattern, PatternList};
use crate::read::{ReadError, deserialize_parsed, null_is_default, read_document, text, word};

/// A key of a publisher, and the namespaces that it may publish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublisherKeyDocument {
    /// The publisher, as its plugins name it: 1 to 200 visible characters. Several keys can be of one publisher.
    #[serde(deserialize_with = "text::<_, _, 200>")]
    #[schema(min_length = 1, max_length = 200, example = "acme")]
    pub publisher: String,
    /// The Ed25519 key: `ed25519:` and its 32 bytes in base64.
    #[serde(deserialize_with = "word::<_, _, 100>")]
    #[schema(
        pattern = "^ed25519:[A-Za-z0-9+/]{43}=$",
        example = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
    )]
    pub public_key: String,
    /// The namespaces that the key may publish. Without it, none.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schema(value_type = Option<NamespaceList>)]
    pub namespaces: NamespaceList,
    /// Whether the key is revoked: it verifies nothing any more. Default: `false`.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schema(value_type = Option<bool>)]
    pub revoked: bool,
    /// When the key begins to verify loads, in milliseconds since 1970. Default: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, maximum = 9_007_199_254_740_991u64)]
    pub valid_from: Option<u64>,
    /// When the key stops to verify loads, in milliseconds since 1970. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, maximum = 9_007_199_254_740_991u64)]
    pub valid_until: Option<u64>,
}

impl PublisherKeyDocument {
    /// Parses a document. The key itself is checked by the daemon.
    pub fn parse(json: &str) -> Result<Self, ReadError> {
        let document: Self = read_document(json)?;
        match (document.valid_from, document.valid_until) {
            (Some(from), Some(until)) if from >= until => Err(ReadError::new(
                "/valid_until",
                "`valid_until` is not after `valid_from`, so the key would never verify anything",
                "give a later time, in milliseconds since 1970, or leave it out",
            )),
            _ => Ok(document),
        }
    }
}

/// One entry of a list of namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespacePattern {
    /// `*`: every namespace.
    All,
    /// `billing-*`: the namespaces that begin with this text.
    Prefix(Box<str>),
    /// One namespace.
    Exact(Namespace),
}

impl NamespacePattern {
    /// Parses an entry.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text == "*" {
            return Ok(Self::All);
        }
        match text.strip_suffix("-*") {
            // The prefix is itself a namespace: whole words, so that `crm-*` covers no `crmx`.
            Some(words) => Namespace::parse(words).map(|words| Self::Prefix(format!("{words}-").into())),
            None => Namespace::parse(text).map(Self::Exact),
        }
    }

    fn matches(&self, namespace: &Namespace) -> bool {
        match self {
            Self::All => true,
            Self::Prefix(prefix) => namespace.as_str().starts_with(&**prefix),
            Self::Exact(exact) => exact == namespace,
        }
    }
}

deserialize_parsed!(NamespacePattern, NamespacePattern::parse);

impl fmt::Display for NamespacePattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => formatter.write_str("*"),
            Self::Prefix(prefix) => write!(formatter, "{prefix}*"),
            Self::Exact(namespace) => namespace.fmt(formatter),
        }
    }
}

/// A list of namespaces.
pub type NamespaceList = PatternList<NamespacePattern>;

impl Pattern for NamespacePattern {
    const ALL: &'static [Self] = &[Self::All];
    const MAX_ENTRIES: usize = 1_000;
    const LIST: &'static str = "a list of namespaces";
    const HINT: &'static str = "write \"*\", or a list like [\"crm\", \"billing-*\"]";

    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

impl NamespaceList {
    /// Whether an entry matches the namespace.
    pub fn covers(&self, namespace: &Namespace) -> bool {
        self.patterns().iter().any(|pattern| pattern.matches(namespace))
    }

    /// Whether the list matches nothing.
    pub fn is_empty(&self) -> bool {
        self.patterns().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(namespaces: &str) -> Result<PublisherKeyDocument, ReadError> {
        let json = format!(r#"{{"publisher":"acme","public_key":"ed25519:x","namespaces":{namespaces}}}"#);
        PublisherKeyDocument::parse(&json)
    }

    fn covers(namespaces: &str, namespace: &str) -> bool {
        let namespace = Namespace::parse(namespace).expect("a namespace");
        document(namespaces).expect("sound").namespaces.covers(&namespace)
    }

    #[test]
    fn a_list_covers_its_namespaces_alone() {
        assert!(covers(r#"["crm","billing-*"]"#, "crm"));
        assert!(covers(r#"["crm","billing-*"]"#, "billing-eu"));
        for other in ["crm-eu", "billing", "billings", "x"] {
            assert!(!covers(r#"["crm","billing-*"]"#, other), "{other}");
        }
        assert!(covers(r#""*""#, "crm") && covers(r#"["*"]"#, "crm"));
    }

    #[test]
    fn an_empty_list_means_nothing() {
        assert!(!covers("[]", "crm") && !covers("null", "crm"));
        let without = PublisherKeyDocument::parse(r#"{"publisher":"acme","public_key":"ed25519:x"}"#);
        assert!(without.expect("sound").namespaces.is_empty());
    }

    #[test]
    fn a_list_is_written_as_it_is_read() {
        for text in [r#""*""#, r#"["crm","billing-*"]"#, "[]"] {
            let list = document(text).expect("sound").namespaces;
            assert_eq!(serde_json::to_string(&list).expect("written"), text);
        }
    }

    #[test]
    fn an_unsound_document_is_refused() {
        for namespaces in [r#""crm""#, r#"["CRM"]"#, r#"["*-crm"]"#, r#"["-*"]"#, r#"["crm*"]"#, "7"] {
            assert!(document(namespaces).is_err(), "{namespaces}");
        }
        let window = |from: u64, until: u64| {
            PublisherKeyDocument::parse(&format!(
                r#"{{"publisher":"acme","public_key":"ed25519:x","valid_from":{from},"valid_until":{until}}}"#
            ))
        };
        assert!(window(1, 2).is_ok());
        assert_eq!(window(2, 2).expect_err("empty").place, "/valid_until");
    }
}
