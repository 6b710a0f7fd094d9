//! Ranks the callable tools for what a message asks.
//!
//! Only tools that may be called are looked at: one that may not is neither in the answer nor lifts another.

use std::cmp::Ordering;

use super::index::Index;
use super::question::Wanted;
use super::select::Question;
use crate::rules::ToolSet;

/// Share of the best score of its plugin that every tool of the plugin gets: who needs one tool of a plugin
/// often needs another one next to it.
const SIBLING: f32 = 0.1;
/// The same for a tool that only looks things up: before something is changed it has to be found.
const SIBLING_THAT_LOOKS_UP: f32 = 0.3;
/// How much more a tool counts that the agent's profile has.
const PROFILE: f32 = 1.1;
/// Share of the best score of all that a tool of a matching intent gets on top.
const INTENT: f32 = 0.6;
/// The same for a tool that was used lately.
const RECENT: f32 = 0.3;
/// The same for the other tools of its plugin: a conversation goes on where it was.
const SIBLING_OF_RECENT: f32 = 0.3;

/// A tool and how well it answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranked {
    pub tool: usize,
    pub score: f32,
    /// By a word or an intent, and not for its plugin alone.
    pub found: bool,
}

/// The callable tools that have to do with what is wanted, the best first.
pub(super) fn rank(
    index: &Index,
    wanted: &[Wanted],
    intents: &[&ToolSet],
    question: &Question<'_>,
) -> Vec<Ranked> {
    let mut scores = add_up(index, wanted);
    for (tool, score) in scores.iter_mut().enumerate() {
        if !question.callable.contains(tool) {
            *score = 0.0;
        } else if question.profile.is_some_and(|profile| profile.contains(tool)) {
            *score *= PROFILE;
        }
    }
    let best = scores.iter().copied().fold(0.0, f32::max);
    // What is known beside the words counts also where no word of a tool was said.
    let scale = if best > 0.0 { best } else { 1.0 };
    let is_meant = |tool| intents.iter().any(|tools| tools.contains(tool));
    let of_plugins = best_of_plugins(index, &scores);
    let recent: Vec<usize> = question.recent.iter().filter_map(|tool| index.plugin(*tool)).collect();
    let callable = (0..index.tools()).filter(|tool| question.callable.contains(*tool));
    let mut ranked: Vec<Ranked> = callable
        .filter_map(|tool| {
            let plugin = index.plugin(tool)?;
            let own = scores.get(tool)? + if is_meant(tool) { scale * INTENT } else { 0.0 };
            let sibling = if index.is_read_only(tool) { SIBLING_THAT_LOOKS_UP } else { SIBLING };
            let mut score = own + sibling * of_plugins.get(plugin)?;
            if question.recent.contains(&tool) {
                score += scale * RECENT;
            } else if recent.contains(&plugin) {
                score += scale * SIBLING_OF_RECENT;
            }
            (score > 0.0).then_some(Ranked { tool, score, found: own > 0.0 })
        })
        .collect();
    ranked.sort_by(better_first);
    ranked
}

/// The best first, and of equals the one with the lower number: the same question has one answer.
fn better_first(left: &Ranked, right: &Ranked) -> Ordering {
    right.score.total_cmp(&left.score).then(left.tool.cmp(&right.tool))
}

/// The sum over what is wanted, for each tool by number. Of several meanings of one word a tool gets its best.
fn add_up(index: &Index, wanted: &[Wanted]) -> Vec<f32> {
    let mut scores = vec![0.0_f32; index.tools()];
    let mut best = vec![0.0_f32; index.tools()];
    let mut touched: Vec<usize> = Vec::with_capacity(index.tools());
    for wanted in wanted {
        for meaning in &wanted.meanings {
            for posting in index.postings(meaning.term) {
                let tool = posting.tool as usize;
                let worth = posting.worth * meaning.weight;
                let Some(best) = best.get_mut(tool) else { continue };
                if *best == 0.0 {
                    touched.push(tool);
                }
                *best = best.max(worth);
            }
        }
        for tool in touched.drain(..) {
            if let (Some(score), Some(best)) = (scores.get_mut(tool), best.get_mut(tool)) {
                *score += std::mem::take(best);
            }
        }
    }
    scores
}

fn best_of_plugins(index: &Index, scores: &[f32]) -> Vec<f32> {
    let mut best = vec![0.0_f32; index.tools()];
    for (tool, score) in scores.iter().enumerate() {
        if let Some(best) = index.plugin(tool).and_then(|plugin| best.get_mut(plugin)) {
            *best = best.max(*score);
        }
    }
    best
}
