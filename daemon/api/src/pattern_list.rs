//! Lists of patterns in documents: `"*"`, or a list. An empty list matches nothing.

use std::fmt::{self, Display};
use std::marker::PhantomData;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::read::invalid;

/// An entry of a [`PatternList`].
pub trait Pattern: for<'de> Deserialize<'de> + 'static {
    /// The entries of the list `"*"`.
    const ALL: &'static [Self];
    /// Longest list in a document.
    const MAX_ENTRIES: usize;
    /// The list in messages: `a list of tools`.
    const LIST: &'static str;
    /// The hint of a refused list. It begins with `write `.
    const HINT: &'static str;

    /// Whether a list with this entry is [`PatternList::All`].
    fn is_all(&self) -> bool;

    /// Reads text in the place of a list.
    fn parse_list<E: de::Error>(text: &str) -> Result<PatternList<Self>, E> {
        match text {
            "*" => Ok(PatternList::All),
            _ => Err(invalid(format_args!("the value is not {}", Self::LIST), Self::HINT)),
        }
    }
}

/// A list of patterns, or all of them. In a document `"*"` and `["*"]` are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternList<P> {
    /// `"*"`: matches everything that the layer above allows.
    All,
    /// These; an empty list matches nothing.
    List(Vec<P>),
}

impl<P> PatternList<P> {
    /// The list that matches nothing.
    pub const NONE: Self = Self::List(Vec::new());
}

impl<P> Default for PatternList<P> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<P: Pattern> PatternList<P> {
    /// A list of these entries; one `*` among them makes it [`PatternList::All`].
    pub fn from_patterns(patterns: Vec<P>) -> Self {
        if patterns.iter().any(P::is_all) { Self::All } else { Self::List(patterns) }
    }

    /// The entries; `"*"` is one entry.
    pub fn patterns(&self) -> &[P] {
        match self {
            Self::All => P::ALL,
            Self::List(patterns) => patterns,
        }
    }
}

impl<P: Pattern + Display> Serialize for PatternList<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("*"),
            Self::List(patterns) => serializer.collect_seq(patterns.iter().map(P::to_string)),
        }
    }
}

impl<'de, P: Pattern> Deserialize<'de> for PatternList<P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ListVisitor(PhantomData))
    }
}

struct ListVisitor<P>(PhantomData<P>);

impl<'de, P: Pattern> Visitor<'de> for ListVisitor<P> {
    type Value = PatternList<P>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(P::HINT.trim_start_matches("write "))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PatternList<P>, E> {
        P::parse_list(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<PatternList<P>, A::Error> {
        let mut patterns = Vec::new();
        while let Some(pattern) = items.next_element()? {
            if patterns.len() == P::MAX_ENTRIES {
                return Err(invalid(
                    format_args!("the list has more than {} entries", P::MAX_ENTRIES),
                    P::HINT,
                ));
            }
            patterns.push(pattern);
        }
        Ok(PatternList::from_patterns(patterns))
    }
}
