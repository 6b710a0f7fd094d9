//! Which operations are wanted.
//!
//! Selectors of one kind widen each other, selectors of different kinds narrow: `tag:pets tag:users method:GET` is what reads
//! pets and what reads users. None at all means every operation.

use std::fmt;
use std::str::FromStr;

use toolgate_admission::show;

use crate::operations::Operation;

/// Some of the operations of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Those with this tag, in either case of letters.
    Tag(String),
    /// Those whose path is this or lies below: `/users` has `/users/{id}` and not `/userspace`.
    Path(String),
    /// Those whose `operationId`, or name as a tool, fits; `*` stands for any text.
    Operation(String),
    /// Those with this method.
    Method(String),
}

/// A text that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` selects nothing")]
pub struct SelectorError {
    shown: String,
    /// What a selector looks like.
    pub hint: &'static str,
}

impl FromStr for Selector {
    type Err = SelectorError;

    /// Reads `tag:pets`, `path:/users`, `operation:users.*` or `method:GET`.
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let hint = "write `tag:pets`, `path:/users`, `operation:users.*` or `method:GET`";
        let refuse = || SelectorError { shown: show(text, 80), hint };
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

/// Whether the selectors, taken together, want the operation.
pub(crate) fn wants(selectors: &[Selector], operation: &Operation<'_>) -> bool {
    selectors.iter().all(|one| {
        let same_kind =
            selectors.iter().filter(|other| std::mem::discriminant(*other) == std::mem::discriminant(one));
        same_kind.into_iter().any(|selector| selector.fits(operation))
    })
}

impl Selector {
    fn fits(&self, operation: &Operation<'_>) -> bool {
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

/// Whether a text fits a pattern in which `*` stands for any text. Linear but for the last star, to which it goes back.
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
    fn a_path_has_what_lies_below_it_and_not_what_begins_like_it() {
        for path in ["/users", "/users/{id}", "/users/"] {
            assert!(is_below(path, "/users") && is_below(path, "/"), "{path}");
        }
        assert!(!is_below("/userspace", "/users"));
    }
}
