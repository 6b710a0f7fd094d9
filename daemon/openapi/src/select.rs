//! Selects operations.
//!
//! An operation is selected if, for each kind of selector given, at least one matches: `tag:pets tag:users method:GET`
//! selects the `GET` operations that have either tag. No selector selects every operation.

use std::fmt;
use std::str::FromStr;

use toolgate_api::text::escape_for_display;

use crate::operations::Operation;

/// Selects some of the operations of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Operations with this tag, ignoring case.
    Tag(String),
    /// Operations on this path or below: `/users` includes `/users/{id}` but not `/userspace`.
    Path(String),
    /// Operations whose `operationId` or tool name matches; `*` stands for any text.
    Operation(String),
    /// Operations with this method, ignoring case.
    Method(String),
}

/// The text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a selector")]
pub struct SelectorError {
    shown: String,
    /// The accepted forms.
    pub hint: &'static str,
}

impl FromStr for Selector {
    type Err = SelectorError;

    /// Parses `tag:pets`, `path:/users`, `operation:users.*` or `method:GET`.
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let hint = "write `tag:pets`, `path:/users`, `operation:users.*` or `method:GET`";
        let refuse = || SelectorError { shown: escape_for_display(text, 80), hint };
        let (kind, value) = text.split_once(':').filter(|(_, value)| !value.is_empty()).ok_or_else(refuse)?;
        match kind {
            "tag" => Ok(Self::Tag(value.to_owned())),
            "path" if value.starts_with('/') => Ok(Self::Path(value.to_owned())),
            "operation" => Ok(Self::Operation(value.to_owned())),
            "method" => Ok(Self::Method(value.to_owned())),
            _ => Err(refuse()),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => write!(formatter, "tag:{tag}"),
            Self::Path(path) => write!(formatter, "path:{path}"),
            Self::Operation(pattern) => write!(formatter, "operation:{pattern}"),
            Self::Method(method) => write!(formatter, "method:{method}"),
        }
    }
}

/// Whether an operation is selected.
pub(crate) fn matches(selectors: &[Selector], operation: &Operation<'_>) -> bool {
    selectors.iter().all(|one| {
        let same_kind =
            selectors.iter().filter(|other| std::mem::discriminant(*other) == std::mem::discriminant(one));
        same_kind.into_iter().any(|selector| selector.matches(operation))
    })
}

impl Selector {
    fn matches(&self, operation: &Operation<'_>) -> bool {
        match self {
            Self::Tag(tag) => operation.tags().any(|own| own.to_lowercase() == tag.to_lowercase()),
            Self::Path(prefix) => is_below(operation.path, prefix),
            Self::Operation(pattern) => {
                operation.id().is_some_and(|id| glob(pattern, id)) || glob(pattern, &operation.name)
            }
            Self::Method(method) => operation.method.eq_ignore_ascii_case(method),
        }
    }
}

fn is_below(path: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a text matches a pattern in which `*` stands for any text. Backtracks only to the last star.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut read) = (0, 0);
    let mut star = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(letter) if Some(letter) == text.get(read) => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, read) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern.iter().skip(at).all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_reads_as_it_is_written() {
        for text in ["tag:pets", "path:/users", "operation:users.*", "method:GET", "tag:a:b"] {
            assert_eq!(text.parse::<Selector>().expect(text).to_string(), text);
        }
        for text in ["", "tag", "tag:", "path:users", "label:x"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_star_stands_for_any_text_and_all_else_for_itself() {
        for (pattern, text) in
            [("a*", "a"), ("a*", "abc"), ("*c", "abc"), ("a*b*c", "axxbyybc"), ("*", ""), ("a.b", "a.b")]
        {
            assert!(glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a*", "ba"), ("a.b", "axb"), ("a", "ab"), ("a*b", "abx"), ("", "a")] {
            assert!(!glob(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_path_selects_itself_and_what_is_below_but_no_longer_name() {
        for path in ["/users", "/users/{id}", "/users/"] {
            assert!(is_below(path, "/users") && is_below(path, "/"), "{path}");
        }
        assert!(!is_below("/userspace", "/users"));
    }
}
