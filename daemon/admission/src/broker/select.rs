//! Selects the tools that a model is shown for a message.
//!
//! Universal, recent and always shown tools come first, and the best of the ranking fill the remaining places. If too few
//! tools match, the whole list is shown: a missing tool costs more than a superfluous one.

use std::fmt;
use std::sync::Arc;

use super::index::BrokerIndex;
use super::intents::Intents;
use super::query::{self, QueryTerm};
use super::rank::{Ranked, rank, rank_all};
use crate::rules::ToolSet;

/// Matching tools below which the whole list is shown (S2).
const MATCHES: usize = 5;
/// Tools that are shown also if their scores are low.
const LEAST: usize = 10;
/// Most tools that are shown, unless more must stay.
const MOST: usize = 15;
/// Share of the best score below which a tool beyond [`LEAST`] is not shown.
const SCORE_CUTOFF: f32 = 0.2;

/// The input of [`select`]. Sets and indexes belong to the catalogue that the index was built from.
#[derive(Clone, Copy, Debug)]
pub struct SelectQuery<'a> {
    /// The last message, of any length.
    pub message: &'a str,
    /// The callable tools. The selection is a subset of them.
    pub callable: &'a ToolSet,
    /// The tools that were used last. All of them stay, so pass a few.
    pub recent: &'a [usize],
    /// The platform's universal tools.
    pub universal: &'a ToolSet,
    /// The tools that the organization always shows.
    pub always_show: &'a ToolSet,
    /// The tools of the agent's profile, if it has one: they are preferred a little.
    pub profile: Option<&'a ToolSet>,
}

/// The tools to show.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The tools, the best first, without duplicates.
    pub tools: Vec<Selected>,
    /// Whether these are all callable tools, because too few matched or there are few.
    pub whole: bool,
}

/// One tool of a selection.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// Its index in the catalogue.
    pub tool: usize,
    /// Why it was selected; never empty.
    pub reasons: Vec<SelectReason>,
}

/// Why a tool was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectReason {
    /// The message has this intent.
    Intent(Arc<str>),
    /// The message has words of the tool.
    Words(Vec<WordMatch>),
    /// A tool of the same plugin matched.
    Sibling,
    /// The tool was used recently.
    Recent,
    /// The tool is universal.
    Universal,
    /// The tool is in `always_show` of the organization's policy.
    AlwaysShow,
    /// The whole list is shown.
    Whole,
}

/// A word of the message and the matching word of the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordMatch {
    /// The word of the message, in lower case.
    pub in_message: Box<str>,
    /// A form of the word of the tool.
    pub in_tool: Box<str>,
}

impl fmt::Display for SelectReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intent(name) => write!(formatter, "intent `{name}`"),
            Self::Words(words) => {
                formatter.write_str("words ")?;
                words.iter().enumerate().try_for_each(|(place, word)| {
                    let comma = if place == 0 { "" } else { ", " };
                    write!(formatter, "{comma}{word}")
                })
            }
            Self::Sibling => formatter.write_str("sibling"),
            Self::Recent => formatter.write_str("recent"),
            Self::Universal => formatter.write_str("universal"),
            Self::AlwaysShow => formatter.write_str("always_show"),
            Self::Whole => formatter.write_str("whole list"),
        }
    }
}

impl fmt::Display for WordMatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_message == self.in_tool {
            true => write!(formatter, "`{}`", self.in_message),
            false => write!(formatter, "`{}` (`{}`)", self.in_message, self.in_tool),
        }
    }
}

/// Selects the tools to show for a message. A pure function: the same query has the same result.
pub fn select(index: &BrokerIndex, intents: &Intents, query: &SelectQuery<'_>) -> Selection {
    let message = query::truncate_message(query.message);
    let terms = query::parse(message, &index.lexicon);
    let intents = intents.matching(message);
    let sets: Vec<&ToolSet> = intents.iter().map(|(_, tools)| *tools).collect();
    let ranked = rank(index, &terms, &sets, query);
    let explainer = Explainer { index, terms: &terms, intents: &intents, query };
    let matches = ranked.iter().filter(|ranked| ranked.matched).count();
    let whole = matches < MATCHES || query.callable.len() <= LEAST;
    let tools = if whole { whole_list(index, &ranked, query) } else { narrow(index, &ranked, query) };
    Selection { tools: tools.into_iter().map(|tool| explainer.explain(tool, whole)).collect(), whole }
}

/// Searches all tools for words, by name, search words, description and arguments, also misspelt ones and synonyms. Returns the
/// index and the score of each tool that has one of them, the best first.
pub fn search(index: &BrokerIndex, words: &str) -> Vec<(usize, f32)> {
    rank_all(index, &query::parse(query::truncate_message(words), &index.lexicon))
}

impl SelectQuery<'_> {
    fn must_stay(&self, tool: usize) -> bool {
        self.universal.contains(tool) || self.always_show.contains(tool) || self.recent.contains(&tool)
    }
}

/// Returns all callable tools, the ranked ones first.
fn whole_list(index: &BrokerIndex, ranked: &[Ranked], query: &SelectQuery<'_>) -> Vec<usize> {
    let mut tools: Vec<usize> = ranked.iter().map(|ranked| ranked.tool).collect();
    append(&mut tools, index, |tool| query.callable.contains(tool) && query.must_stay(tool));
    append(&mut tools, index, |tool| query.callable.contains(tool));
    tools
}

/// Returns the best of the ranking, then the remaining tools that must stay.
fn narrow(index: &BrokerIndex, ranked: &[Ranked], query: &SelectQuery<'_>) -> Vec<usize> {
    let stays = |tool| query.callable.contains(tool) && query.must_stay(tool);
    let mut count = (0..index.tools()).filter(|tool| stays(*tool)).count();
    let best = ranked.first().map_or(0.0, |best| best.score);
    let mut tools = Vec::with_capacity(MOST);
    for candidate in ranked {
        let must_stay = stays(candidate.tool);
        let is_good = candidate.score >= best * SCORE_CUTOFF;
        let has_place = count < LEAST || count < MOST && is_good;
        if must_stay && is_good {
            tools.push(candidate.tool);
        } else if !must_stay && has_place {
            tools.push(candidate.tool);
            count += 1;
        }
    }
    append(&mut tools, index, stays);
    tools
}

/// Appends the tools for which `is_in` holds and that are not in the list yet, by index.
fn append(tools: &mut Vec<usize>, index: &BrokerIndex, is_in: impl Fn(usize) -> bool) {
    let mut listed = vec![false; index.tools()];
    tools.iter().for_each(|tool| listed[*tool] = true);
    tools.extend((0..index.tools()).filter(|tool| !listed[*tool] && is_in(*tool)));
}

/// Finds the reasons why a tool was selected.
struct Explainer<'a> {
    index: &'a BrokerIndex,
    terms: &'a [QueryTerm],
    intents: &'a [(&'a Arc<str>, &'a ToolSet)],
    query: &'a SelectQuery<'a>,
}

impl Explainer<'_> {
    fn explain(&self, tool: usize, whole: bool) -> Selected {
        let mut reasons: Vec<SelectReason> = Vec::new();
        let intents = self.intents.iter().filter(|(_, tools)| tools.contains(tool));
        reasons.extend(intents.map(|(name, _)| SelectReason::Intent(Arc::clone(name))));
        let words = self.words(tool);
        if !words.is_empty() {
            reasons.push(SelectReason::Words(words));
        }
        let always = [
            (self.query.recent.contains(&tool), SelectReason::Recent),
            (self.query.universal.contains(tool), SelectReason::Universal),
            (self.query.always_show.contains(tool), SelectReason::AlwaysShow),
            (whole, SelectReason::Whole),
        ];
        reasons.extend(always.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason));
        if reasons.is_empty() {
            reasons.push(SelectReason::Sibling);
        }
        Selected { tool, reasons }
    }

    fn words(&self, tool: usize) -> Vec<WordMatch> {
        let Ok(tool) = u32::try_from(tool) else { return Vec::new() };
        let matches = self.terms.iter().filter_map(|term| {
            let sense = term.senses.iter().find(|sense| self.index.has(sense.term, tool))?;
            let in_tool = self.index.lexicon.display_form(sense.term).into();
            Some(WordMatch { in_message: term.text.clone(), in_tool })
        });
        matches.collect()
    }
}

#[cfg(test)]
mod tests;
