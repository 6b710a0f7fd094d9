//! Picks the tools that a model is shown for a message.
//!
//! What must be there comes first, and the ranking gets the places that are left. Nothing is narrowed where too
//! little was found: a list that is too short costs more than one that is too long.

use std::fmt;
use std::sync::Arc;

use super::index::Index;
use super::intents::Intents;
use super::question::{self, Wanted};
use super::rank::{Ranked, rank};
use crate::rules::ToolSet;

/// Below so many found tools nothing is narrowed (S2).
const FOUND: usize = 5;
/// Tools that are shown where there are as many, also when their scores are low.
const LEAST: usize = 10;
/// Most tools that are shown, unless more must be.
const MOST: usize = 15;
/// Share of the best score below which a tool beyond [`LEAST`] is not shown.
const FALL: f32 = 0.2;

/// What is asked, and what it may be answered with. Sets and numbers are about the catalogue that the index was
/// built from.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The last message, of any length.
    pub message: &'a str,
    /// What may be called. Nothing else is ever in the answer.
    pub callable: &'a ToolSet,
    /// The tools that were used last. All of them stay, so hand in a few.
    pub recent: &'a [usize],
    /// The platform's universal tools.
    pub universal: &'a ToolSet,
    /// The tools that the organization always shows.
    pub always_show: &'a ToolSet,
    /// The tools of the profile that the agent's subtype gives, if any: they are preferred a little.
    pub profile: Option<&'a ToolSet>,
}

/// The tools to show.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The tools in order, the best first, without repetition.
    pub tools: Vec<Taken>,
    /// These are all callable tools: too few were found, or there are no more than are shown anyhow.
    pub whole: bool,
}

/// One tool of a selection.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// Its number in the catalogue.
    pub tool: usize,
    /// Why it is there; never empty.
    pub why: Vec<Why>,
}

/// Why a tool was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The message has this intent.
    Intent(Arc<str>),
    /// The message has these words of it.
    Words(Vec<Match>),
    /// A tool of the same plugin was found.
    Sibling,
    /// It was used lately.
    Recent,
    /// The platform shows it always.
    Universal,
    /// The organization shows it always.
    AlwaysShow,
    /// Everything is shown.
    Whole,
}

/// A word of the message and the word of the tool that it was taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// As the message has it, in lower case.
    pub said: Box<str>,
    /// As the tool has it, in some form.
    pub meant: Box<str>,
}

impl fmt::Display for Why {
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

impl fmt::Display for Match {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.said == self.meant {
            true => write!(formatter, "`{}`", self.said),
            false => write!(formatter, "`{}` (`{}`)", self.said, self.meant),
        }
    }
}

/// Selects the tools to show for a message. A pure function: the same question has the same answer.
pub fn select(index: &Index, intents: &Intents, question: &Question<'_>) -> Selection {
    let message = question::beginning(question.message);
    let wanted = question::read(message, &index.lexicon);
    let intents = intents.matching(message);
    let sets: Vec<&ToolSet> = intents.iter().map(|(_, tools)| *tools).collect();
    let ranked = rank(index, &wanted, &sets, question);
    let teller = Teller { index, wanted: &wanted, intents: &intents, question };
    let found = ranked.iter().filter(|ranked| ranked.found).count();
    let whole = found < FOUND || question.callable.len() <= LEAST;
    let tools = if whole { everything(index, &ranked, question) } else { narrow(index, &ranked, question) };
    Selection { tools: tools.into_iter().map(|tool| teller.tell(tool, whole)).collect(), whole }
}

impl Question<'_> {
    fn must_stay(&self, tool: usize) -> bool {
        self.universal.contains(tool) || self.always_show.contains(tool) || self.recent.contains(&tool)
    }
}

/// All callable tools, those that were found first.
fn everything(index: &Index, ranked: &[Ranked], question: &Question<'_>) -> Vec<usize> {
    let mut tools: Vec<usize> = ranked.iter().map(|ranked| ranked.tool).collect();
    append(&mut tools, index, |tool| question.callable.contains(tool) && question.must_stay(tool));
    append(&mut tools, index, |tool| question.callable.contains(tool));
    tools
}

/// The best of the ranking in its order, then what must stay and was not among them.
fn narrow(index: &Index, ranked: &[Ranked], question: &Question<'_>) -> Vec<usize> {
    let stays = |tool| question.callable.contains(tool) && question.must_stay(tool);
    let mut count = (0..index.tools()).filter(|tool| stays(*tool)).count();
    let best = ranked.first().map_or(0.0, |best| best.score);
    let mut tools = Vec::with_capacity(MOST);
    for candidate in ranked {
        let must_stay = stays(candidate.tool);
        let is_good = candidate.score >= best * FALL;
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

/// Adds the tools for which `is_in` holds and that are not there yet, by number.
fn append(tools: &mut Vec<usize>, index: &Index, is_in: impl Fn(usize) -> bool) {
    let mut there = vec![false; index.tools()];
    tools.iter().filter_map(|tool| there.get_mut(*tool).map(|there| *there = true)).for_each(drop);
    tools.extend(
        there.iter().enumerate().filter(|(tool, there)| !**there && is_in(*tool)).map(|(tool, _)| tool),
    );
}

/// Tells why a tool was taken.
struct Teller<'a> {
    index: &'a Index,
    wanted: &'a [Wanted],
    intents: &'a [(&'a Arc<str>, &'a ToolSet)],
    question: &'a Question<'a>,
}

impl Teller<'_> {
    fn tell(&self, tool: usize, whole: bool) -> Taken {
        let mut why: Vec<Why> = Vec::new();
        let intents = self.intents.iter().filter(|(_, tools)| tools.contains(tool));
        why.extend(intents.map(|(name, _)| Why::Intent(Arc::clone(name))));
        let words = self.words(tool);
        if !words.is_empty() {
            why.push(Why::Words(words));
        }
        let always = [
            (self.question.recent.contains(&tool), Why::Recent),
            (self.question.universal.contains(tool), Why::Universal),
            (self.question.always_show.contains(tool), Why::AlwaysShow),
            (whole, Why::Whole),
        ];
        why.extend(always.into_iter().filter(|(holds, _)| *holds).map(|(_, why)| why));
        if why.is_empty() {
            why.push(Why::Sibling);
        }
        Taken { tool, why }
    }

    fn words(&self, tool: usize) -> Vec<Match> {
        let Ok(tool) = u32::try_from(tool) else { return Vec::new() };
        let matches = self.wanted.iter().filter_map(|wanted| {
            let meaning = wanted.meanings.iter().find(|meaning| self.index.has(meaning.term, tool))?;
            let meant = self.index.lexicon.shown(meaning.term).into();
            Some(Match { said: wanted.said.clone(), meant })
        });
        matches.collect()
    }
}

#[cfg(test)]
mod tests;
