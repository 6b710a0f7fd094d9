//! The tools of a catalogue by their words, weighed once.
//!
//! BM25F (Robertson, Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, section 3.6): a
//! word counts by the field it stands in, less in a long field than in a short one, and less when many tools have
//! it. All of that is known when the catalogue is, so a posting holds the finished number and a question only
//! adds.

use std::collections::BTreeMap;

use serde_json::Value;

use super::lexicon::Lexicon;
use super::words::each_word;
use crate::descriptor::ToolDescriptor;
use crate::rules::{Catalogue, Tool};

/// How soon more of the same word stops counting.
const SATURATION: f32 = 2.0;
/// Levels of a schema whose names are read. What lies deeper tells how to fill in a call, not what it is for.
const SCHEMA_LEVELS: u32 = 6;

/// What is told of a tool, each with what a word in it counts and how much the length of the text takes off.
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

impl Field {
    const fn weight(self) -> f32 {
        match self {
            Self::Name => 3.0,
            Self::Tags => 2.5,
            Self::Namespace => 1.5,
            Self::Description => 1.5,
            Self::Arguments => 0.7,
            Self::Usage => 0.5,
            Self::ArgumentTexts => 0.3,
        }
    }

    const fn length_matters(self) -> f32 {
        match self {
            Self::Name | Self::Namespace | Self::Tags => 0.3,
            Self::Description | Self::Usage | Self::Arguments | Self::ArgumentTexts => 0.6,
        }
    }
}

/// That a tool has a word, and what that is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Posting {
    pub tool: u32,
    pub worth: f32,
}

/// The words of every tool of one catalogue. Numbers of tools are those of that catalogue and of no other.
#[derive(Debug)]
pub struct Index {
    pub(super) lexicon: Lexicon,
    /// By word; within a word by tool.
    postings: Vec<Vec<Posting>>,
    /// By tool: the number of its plugin.
    plugins: Vec<u32>,
    /// By tool: whether it only looks things up.
    read_only: Vec<bool>,
}

impl Index {
    /// Reads every tool of a catalogue. Build one per revision of the catalogue, not per session.
    pub fn build<P>(catalogue: &Catalogue<P>) -> Self {
        let mut lexicon = Lexicon::default();
        let tools: Vec<Words> = catalogue.tools().iter().map(|tool| Words::of(tool, &mut lexicon)).collect();
        let postings = weigh(&tools, lexicon.len());
        lexicon.learn_synonyms();
        let read_only = catalogue.tools().iter().map(|tool| tool.descriptor().hints.read_only).collect();
        Self { lexicon, postings, plugins: plugins(catalogue), read_only }
    }

    /// How many tools there are.
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

    /// The number of a tool's plugin, which is below the number of tools.
    pub(super) fn plugin(&self, tool: usize) -> Option<usize> {
        self.plugins.get(tool).map(|plugin| *plugin as usize)
    }
}

fn plugins<P>(catalogue: &Catalogue<P>) -> Vec<u32> {
    let mut number = 0;
    let mut before = None;
    let mut plugins = Vec::with_capacity(catalogue.tools().len());
    for tool in catalogue.tools() {
        // Tools of one plugin stand together in a catalogue.
        let namespace = &tool.id().namespace;
        number += u32::from(before.is_some_and(|before| before != namespace));
        before = Some(namespace);
        plugins.push(number);
    }
    plugins
}

/// How often each word stands in each field of a tool.
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
        read_schema(descriptor.input.source(), SCHEMA_LEVELS, &mut add);
        words
    }

    fn add(&mut self, field: Field, text: &str, lexicon: &mut Lexicon) {
        each_word(text, |word| {
            let Some(term) = lexicon.learn(word) else { return };
            self.counts.entry(term).or_default()[field as usize] += 1.0;
            self.lengths[field as usize] += 1.0;
        });
    }
}

/// The names of arguments, what is said of them and which words they may hold.
fn read_schema(schema: &Value, levels: u32, add: &mut impl FnMut(Field, &str)) {
    let Some(below) = levels.checked_sub(1) else { return };
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        add(Field::Arguments, name);
        for text in ["title", "description"].iter().filter_map(|key| property.get(key)?.as_str()) {
            add(Field::ArgumentTexts, text);
        }
        let choices = property.get("enum").and_then(Value::as_array).into_iter().flatten();
        choices.filter_map(Value::as_str).for_each(|choice| add(Field::ArgumentTexts, choice));
        read_schema(property, below, add);
    }
    if let Some(items) = schema.get("items") {
        read_schema(items, below, add);
    }
    for alternatives in ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(key)?.as_array()) {
        alternatives.iter().for_each(|alternative| read_schema(alternative, below, add));
    }
}

const EVERY_FIELD: [Field; FIELDS] = [
    Field::Name,
    Field::Namespace,
    Field::Tags,
    Field::Description,
    Field::Usage,
    Field::Arguments,
    Field::ArgumentTexts,
];

fn weigh(tools: &[Words], terms: usize) -> Vec<Vec<Posting>> {
    let count = approximate(tools.len());
    let averages = EVERY_FIELD.map(|field| {
        let total: f32 = tools.iter().map(|tool| tool.lengths[field as usize]).sum();
        (total / count.max(1.0)).max(1.0)
    });
    let mut postings: Vec<Vec<Posting>> = vec![Vec::new(); terms];
    for (number, tool) in (0..).zip(tools) {
        for (term, counts) in &tool.counts {
            let frequency = EVERY_FIELD.iter().map(|field| {
                let place = *field as usize;
                let length = 1.0 + field.length_matters() * (tool.lengths[place] / averages[place] - 1.0);
                field.weight() * counts[place] / length
            });
            let frequency: f32 = frequency.sum();
            let worth = frequency / (frequency + SATURATION);
            if let Some(postings) = postings.get_mut(*term as usize) {
                postings.push(Posting { tool: number, worth });
            }
        }
    }
    for postings in &mut postings {
        let having = approximate(postings.len());
        let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
        postings.iter_mut().for_each(|posting| posting.worth *= rarity);
    }
    postings
}

/// A count as a number to weigh with; beyond some millions it does not matter.
fn approximate(count: usize) -> f32 {
    u16::try_from(count).map_or(f32::from(u16::MAX), f32::from)
}
