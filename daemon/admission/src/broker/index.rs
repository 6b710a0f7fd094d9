//! A search index over the tools of a catalogue.
//!
//! BM25F (Robertson, Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, section 3.6): the score of
//! a word depends on its field, is lower in a long field, and is lower if many tools have the word. All of that is known
//! when the index is built, so a posting has the final score and a query only adds scores.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::lexicon::Lexicon;
use super::words::for_each_word;
use crate::descriptor::ToolDescriptor;
use crate::rules::{Catalogue, Tool};

/// The BM25 parameter k1: how fast the score of a repeated word saturates.
const SATURATION: f32 = 2.0;
/// Levels of a schema whose property names are indexed. Deeper ones describe how to fill in a call, not its purpose.
const SCHEMA_LEVELS: u32 = 6;

/// The indexed fields of a tool.
#[derive(Clone, Copy)]
enum Field {
    Name,
    Namespace,
    Tags,
    Description,
    Usage,
    Arguments,
    ArgumentTexts,
}

const FIELDS: usize = 7;

/// The weight and the length normalization (the BM25 parameter b) of each field.
const FIELD_PARAMETERS: [(f32, f32); FIELDS] =
    [(3.0, 0.3), (1.5, 0.3), (2.5, 0.3), (1.5, 0.6), (0.5, 0.6), (0.7, 0.6), (0.3, 0.6)];

/// A tool that has a word, and the score of the word for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Posting {
    pub tool: u32,
    pub score: f32,
}

/// The words of every tool of one catalogue. Tools are identified by their index in that catalogue.
#[derive(Debug)]
pub struct BrokerIndex {
    pub(super) lexicon: Lexicon,
    /// By term; the postings of a term are sorted by tool.
    postings: Vec<Vec<Posting>>,
    /// By tool: the index of its plugin.
    plugins: Arc<[u32]>,
    /// By tool: its hint `read_only`.
    read_only: Vec<bool>,
}

impl BrokerIndex {
    /// Indexes the tools of a catalogue. Build one index for each catalogue, not for each session.
    pub fn build<P>(catalogue: &Catalogue<P>) -> Self {
        let mut lexicon = Lexicon::default();
        let tools: Vec<Words> = catalogue.tools().iter().map(|tool| Words::of(tool, &mut lexicon)).collect();
        let postings = score_postings(&tools, lexicon.len());
        lexicon.add_synonyms();
        let read_only = catalogue.tools().iter().map(|tool| tool.hints().read_only).collect();
        Self { lexicon, postings, plugins: Arc::clone(catalogue.plugin_of()), read_only }
    }

    /// The number of tools.
    pub fn tools(&self) -> usize {
        self.plugins.len()
    }

    pub(super) fn postings(&self, term: u32) -> &[Posting] {
        self.postings.get(term as usize).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn has(&self, term: u32, tool: u32) -> bool {
        self.postings(term).binary_search_by_key(&tool, |posting| posting.tool).is_ok()
    }

    pub(super) fn is_read_only(&self, tool: usize) -> bool {
        self.read_only.get(tool).is_some_and(|read_only| *read_only)
    }

    /// Returns the index of a tool's plugin, which is less than the number of tools.
    pub(super) fn plugin(&self, tool: usize) -> Option<usize> {
        self.plugins.get(tool).map(|plugin| *plugin as usize)
    }
}

/// The number of occurrences of each term in each field of a tool.
#[derive(Default)]
struct Words {
    counts: BTreeMap<u32, [f32; FIELDS]>,
    lengths: [f32; FIELDS],
}

impl Words {
    fn of<P>(tool: &Tool<P>, lexicon: &mut Lexicon) -> Self {
        let mut words = Self::default();
        let mut add = |field: Field, text: &str| words.add(field, text, lexicon);
        let descriptor = tool.descriptor();
        let ToolDescriptor { id, description, usage, tags, .. } = descriptor;
        add(Field::Name, id.tool.as_str());
        add(Field::Namespace, id.namespace.as_str());
        tags.iter().for_each(|tag| add(Field::Tags, tag));
        add(Field::Description, description);
        add(Field::Usage, usage);
        add_schema(descriptor.input.source(), SCHEMA_LEVELS, &mut add);
        words
    }

    fn add(&mut self, field: Field, text: &str, lexicon: &mut Lexicon) {
        for_each_word(text, |word| {
            let Some(term) = lexicon.add_word(word) else { return };
            self.counts.entry(term).or_default()[field as usize] += 1.0;
            self.lengths[field as usize] += 1.0;
        });
    }
}

/// Adds the names of arguments, their descriptions and their `enum` values.
fn add_schema(schema: &Value, levels: u32, add: &mut impl FnMut(Field, &str)) {
    let Some(below) = levels.checked_sub(1) else { return };
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        add(Field::Arguments, name);
        for text in ["title", "description"].iter().filter_map(|key| property.get(key)?.as_str()) {
            add(Field::ArgumentTexts, text);
        }
        let choices = property.get("enum").and_then(Value::as_array).into_iter().flatten();
        choices.filter_map(Value::as_str).for_each(|choice| add(Field::ArgumentTexts, choice));
        add_schema(property, below, add);
    }
    if let Some(items) = schema.get("items") {
        add_schema(items, below, add);
    }
    for alternatives in ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(key)?.as_array()) {
        alternatives.iter().for_each(|alternative| add_schema(alternative, below, add));
    }
}

fn score_postings(tools: &[Words], terms: usize) -> Vec<Vec<Posting>> {
    let count = approximate(tools.len());
    let averages: [f32; FIELDS] = std::array::from_fn(|field| {
        let total: f32 = tools.iter().map(|tool| tool.lengths[field]).sum();
        (total / count.max(1.0)).max(1.0)
    });
    let mut postings: Vec<Vec<Posting>> = vec![Vec::new(); terms];
    for (number, tool) in (0..).zip(tools) {
        for (term, counts) in &tool.counts {
            let frequency = FIELD_PARAMETERS.iter().enumerate().map(|(field, (weight, normalization))| {
                let length = 1.0 + normalization * (tool.lengths[field] / averages[field] - 1.0);
                weight * counts[field] / length
            });
            let frequency: f32 = frequency.sum();
            let score = frequency / (frequency + SATURATION);
            if let Some(postings) = postings.get_mut(*term as usize) {
                postings.push(Posting { tool: number, score });
            }
        }
    }
    for postings in &mut postings {
        let having = approximate(postings.len());
        let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
        postings.iter_mut().for_each(|posting| posting.score *= rarity);
    }
    postings
}

/// Converts a count without loss up to 65,535; larger counts make no difference to a score.
fn approximate(count: usize) -> f32 {
    u16::try_from(count).map_or(f32::from(u16::MAX), f32::from)
}
