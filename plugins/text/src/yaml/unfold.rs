//! From the events of the YAML parser to documents, with aliases and merge keys unfolded.
//!
//! Done here and not by a library of `serde`, which tells neither how a scalar is written nor how wide a number is, and
//! says what is wrong in words of its programmers. Every limit below is one on work: what is refused is refused before
//! it is made.

use std::collections::HashMap;

use indexmap::IndexMap;
use indexmap::map::Entry;
use serde_saphyr::granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use toolgate_sdk::Error;

use super::scalar;
use crate::tree::Tree;

/// Deeper nesting is a mistake, or an attack.
const MAX_DEPTH: usize = 64;

/// Nodes of all documents, unfolded. More than 1 MiB of text has without aliases.
const MAX_NODES: usize = 600_000;

/// Nodes that aliases may add. Ten times what large configurations have.
const MAX_REPEATED_NODES: usize = 100_000;

/// All text that aliases may add, and all that is kept for them.
const MAX_REPEATED_BYTES: usize = 4 * 1024 * 1024;

/// What a text holds.
pub struct Unfolded {
    pub documents: Vec<Tree>,
    /// Whether there are numbers that are given as text, for they are too wide.
    pub has_wide: bool,
}

pub fn read(text: &str) -> Result<Unfolded, Error> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        kept: Size::default(),
        repeated: Size::default(),
        has_wide: false,
    };
    let mut documents = Vec::new();
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(Unfolded { documents, has_wide: reader.has_wide }),
            (Event::DocumentStart(..), _) => {
                let tree = reader.node(0)?;
                // Nothing between two `---` is no document.
                if tree != Tree::Null {
                    documents.push(tree);
                }
                reader.anchors.clear();
            }
            _ => {}
        }
    }
}

/// How large a part of a document is.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    bytes: usize,
}

impl Size {
    fn of(tree: &Tree) -> Self {
        let mut size = Self { nodes: 1, bytes: 0 };
        match tree {
            Tree::Text(text) => size.bytes += text.len(),
            Tree::List(entries) => entries.iter().for_each(|entry| size.add(Self::of(entry))),
            Tree::Map(entries) => entries.iter().for_each(|(key, entry)| {
                size.add(Self::of(entry));
                size.bytes += key.len();
            }),
            _ => {}
        }
        size
    }

    fn add(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.bytes += other.bytes;
    }
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// What has a name in this document. A node that is still being read is none yet.
    anchors: HashMap<usize, (Tree, Size)>,
    kept: Size,
    repeated: Size,
    has_wide: bool,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Error> {
        self.parser
            .next_event()
            .unwrap_or(Ok((Event::StreamEnd, Span::default())))
            .map_err(|error| no_yaml(&error))
    }

    fn node(&mut self, depth: usize) -> Result<Tree, Error> {
        let (event, span) = self.next()?;
        self.node_of(event, span, depth)
    }

    fn node_of(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Tree, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::invalid(format!(
                "the YAML is nested more than {MAX_DEPTH} deep{}: convert an inner part by itself",
                at(&span.start)
            )));
        }
        let anchor = event.anchor_id();
        let tree = match event {
            Event::Alias(id) => return self.alias(id, &span),
            Event::Scalar(text, style, _, tag) => self.scalar(&text, style, tag.as_deref(), &span)?,
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.map(depth)?,
            _ => return Err(Error::invalid(format!("the YAML ends too early{}", at(&span.start)))),
        };
        if let Some(anchor) = anchor {
            self.keep(anchor, &tree)?;
        }
        Ok(tree)
    }

    fn list(&mut self, depth: usize) -> Result<Tree, Error> {
        let mut entries = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Tree::List(entries)),
                (event, span) => entries.push(self.node_of(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Tree, Error> {
        let mut entries = IndexMap::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::MappingEnd => break,
                Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<" => {
                    let value = self.node(depth + 1)?;
                    collect_merged(value, &mut merged, &span)?;
                }
                event => {
                    let key = self.key(event, &span, depth + 1)?;
                    let value = self.node(depth + 1)?;
                    match entries.entry(key) {
                        Entry::Vacant(place) => drop(place.insert(value)),
                        Entry::Occupied(place) => return Err(twice(place.key(), &span)),
                    }
                }
            }
        }
        // What stands in the mapping itself wins over what is merged, and of that the first.
        for (key, value) in merged {
            entries.entry(key).or_insert(value);
        }
        Ok(Tree::Map(Box::new(entries)))
    }

    fn key(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<String, Error> {
        let written = match &event {
            // As it is written: `1.10` is no other key than it was.
            Event::Scalar(text, ..) => Some(text.clone().into_owned()),
            _ => None,
        };
        match (self.node_of(event, *span, depth)?, written) {
            (Tree::Null, _) => Ok("null".to_owned()),
            (Tree::Text(text), None) => Ok(text),
            (Tree::Bool(value), None) => Ok(value.to_string()),
            (Tree::Integer(value), None) => Ok(value.to_string()),
            (Tree::Unsigned(value), None) => Ok(value.to_string()),
            (Tree::Float(value), None) => Ok(value.to_string()),
            (Tree::List(_) | Tree::Map(_), _) => Err(Error::invalid(format!(
                "a key{} is a list or a mapping, and a key of JSON is a text: give it a text",
                at(&span.start)
            ))),
            (_, Some(written)) => Ok(written),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: &Span,
    ) -> Result<Tree, Error> {
        let tag = match tag {
            // `!` alone says that it is a text. Tags of one's own say nothing here.
            Some(tag) if matches!(tag.parts(), ("", "!") | ("!", "")) => Some("str"),
            Some(tag) => tag.core_suffix(),
            None if style == ScalarStyle::Plain => None,
            None => Some("str"),
        };
        if tag == Some("str") {
            return Ok(Tree::Text(text.to_owned()));
        }
        // Only these are white space in YAML (5.5): a no-break space is a character like any other.
        let read = scalar::plain(text.trim_matches([' ', '\t', '\n', '\r']));
        let fits = match tag {
            Some("int") => read.is_wide || matches!(read.tree, Tree::Integer(_) | Tree::Unsigned(_)),
            Some("float") => {
                read.is_wide || matches!(read.tree, Tree::Float(_) | Tree::Integer(_) | Tree::Unsigned(_))
            }
            Some("bool") => matches!(read.tree, Tree::Bool(_)),
            Some("null") => read.tree == Tree::Null,
            _ => {
                let is_plain = style == ScalarStyle::Plain;
                self.has_wide |= is_plain && read.is_wide;
                return Ok(if is_plain { read.tree } else { Tree::Text(text.to_owned()) });
            }
        };
        if !fits {
            return Err(Error::invalid(format!(
                "the value{} is no `!!{}`: correct it, or leave out the tag",
                at(&span.start),
                tag.unwrap_or_default()
            )));
        }
        self.has_wide |= read.is_wide;
        Ok(read.tree)
    }

    fn keep(&mut self, anchor: usize, tree: &Tree) -> Result<(), Error> {
        let size = Size::of(tree);
        self.kept.add(size);
        if self.kept.nodes > MAX_NODES || self.kept.bytes > MAX_REPEATED_BYTES {
            return Err(unfolds_too_far());
        }
        self.anchors.insert(anchor, (tree.clone(), size));
        Ok(())
    }

    fn alias(&mut self, id: usize, span: &Span) -> Result<Tree, Error> {
        let Some((tree, size)) = self.anchors.get(&id) else {
            return Err(Error::invalid(format!(
                "the alias{} stands within what it repeats, which would never end: write out what is meant",
                at(&span.start)
            )));
        };
        self.repeated.add(*size);
        if self.repeated.nodes > MAX_REPEATED_NODES || self.repeated.bytes > MAX_REPEATED_BYTES {
            return Err(unfolds_too_far());
        }
        Ok(tree.clone())
    }
}

/// The entries of one mapping, or of a list of them.
fn collect_merged(value: Tree, merged: &mut Vec<(String, Tree)>, span: &Span) -> Result<(), Error> {
    match value {
        Tree::Map(entries) => merged.extend(*entries),
        Tree::List(maps) if maps.iter().all(|map| matches!(map, Tree::Map(_))) => {
            for map in maps {
                collect_merged(map, merged, span)?;
            }
        }
        Tree::Null => {}
        _ => {
            return Err(Error::invalid(format!(
                "the merge key `<<`{} has no mapping to merge: give it one, or put it in quotes if it is a key like others",
                at(&span.start)
            )));
        }
    }
    Ok(())
}

#[cold]
fn no_yaml(error: &ScanError) -> Error {
    Error::invalid(format!(
        "the text is not YAML that can be converted: {}{}; check the indentation, the quotes and the brackets there",
        error.info().replace('\n', ", ").replace("EOF", "end").replace("eof", "end"),
        at(error.marker())
    ))
}

#[cold]
fn twice(key: &str, span: &Span) -> Error {
    let shown: String = key.chars().take(60).collect();
    Error::invalid(format!(
        "the key `{shown}` is there twice in one mapping, the second time{}: rename one of them, or take it out",
        at(&span.start)
    ))
}

#[cold]
fn unfolds_too_far() -> Error {
    Error::invalid(format!(
        "the aliases unfold to more than {MAX_REPEATED_NODES} values or {} MiB of text: write out what is needed, or convert \
         a part of the text",
        MAX_REPEATED_BYTES / 1024 / 1024
    ))
}

fn at(marker: &Marker) -> String {
    format!(" at line {}, column {}", marker.line(), marker.col() + 1)
}
