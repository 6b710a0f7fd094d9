//! Ranks the callable tools for a query.
//!
//! Tools that are not callable are ignored: they are not in the result and do not raise the score of another tool.

use std::cmp::Ordering;

use super::index::BrokerIndex;
use super::query::QueryTerm;
use super::select::SelectQuery;
use crate::rules::ToolSet;

/// Share of the best score of its plugin that each tool of the plugin gets: a task that needs one tool of a plugin often needs
/// another one.
const SIBLING: f32 = 0.1;
/// The same for a read-only tool: a record is usually read before it is changed.
const READ_ONLY_SIBLING: f32 = 0.3;
/// Factor for the score of a tool in the agent's profile.
const PROFILE: f32 = 1.1;
/// Share of the best score of all tools that is added for a tool of a matching intent.
const INTENT: f32 = 0.6;
/// The same for a recently used tool.
const RECENT: f32 = 0.3;
/// The same for the other tools of its plugin: a conversation usually continues its topic.
const SIBLING_OF_RECENT: f32 = 0.3;

/// A tool and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranked {
    pub tool: usize,
    pub score: f32,
    /// Whether a word or an intent matched, not only the plugin.
    pub matched: bool,
}

/// Returns the callable tools that match the query, the best first.
pub(super) fn rank(
    index: &BrokerIndex,
    terms: &[QueryTerm],
    intents: &[&ToolSet],
    query: &SelectQuery<'_>,
) -> Vec<Ranked> {
    let mut scores = term_scores(index, terms);
    for (tool, score) in scores.iter_mut().enumerate() {
        if !query.callable.contains(tool) {
            *score = 0.0;
        } else if query.profile.is_some_and(|profile| profile.contains(tool)) {
            *score *= PROFILE;
        }
    }
    let best = scores.iter().copied().fold(0.0, f32::max);
    // Intents and recent tools count also if no word matched.
    let scale = if best > 0.0 { best } else { 1.0 };
    let has_intent = |tool| intents.iter().any(|tools| tools.contains(tool));
    let of_plugins = best_of_plugins(index, &scores);
    let recent: Vec<usize> = query.recent.iter().filter_map(|tool| index.plugin(*tool)).collect();
    let callable = (0..index.tools()).filter(|tool| query.callable.contains(*tool));
    let mut ranked: Vec<Ranked> = callable
        .filter_map(|tool| {
            let plugin = index.plugin(tool)?;
            let own = scores.get(tool)? + if has_intent(tool) { scale * INTENT } else { 0.0 };
            let sibling = if index.is_read_only(tool) { READ_ONLY_SIBLING } else { SIBLING };
            let mut score = own + sibling * of_plugins.get(plugin)?;
            if query.recent.contains(&tool) {
                score += scale * RECENT;
            } else if recent.contains(&plugin) {
                score += scale * SIBLING_OF_RECENT;
            }
            (score > 0.0).then_some(Ranked { tool, score, matched: own > 0.0 })
        })
        .collect();
    ranked.sort_by(better_first);
    ranked
}

/// Returns the tools that have a word of the query, the best first, callable or not: for a catalogue.
pub(super) fn rank_all(index: &BrokerIndex, terms: &[QueryTerm]) -> Vec<(usize, f32)> {
    let scores = term_scores(index, terms);
    let mut found: Vec<(usize, f32)> =
        scores.into_iter().enumerate().filter(|(_, score)| *score > 0.0).collect();
    found.sort_by(|(left, left_score), (right, right_score)| {
        right_score.total_cmp(left_score).then(left.cmp(right))
    });
    found
}

/// Sorts by descending score and then by index, so that the order is deterministic.
fn better_first(left: &Ranked, right: &Ranked) -> Ordering {
    right.score.total_cmp(&left.score).then(left.tool.cmp(&right.tool))
}

/// Returns the sum over all terms for each tool. Of several senses of one term the best score counts.
fn term_scores(index: &BrokerIndex, terms: &[QueryTerm]) -> Vec<f32> {
    let mut scores = vec![0.0_f32; index.tools()];
    let mut best = vec![0.0_f32; index.tools()];
    let mut touched: Vec<usize> = Vec::with_capacity(index.tools());
    for term in terms {
        for sense in &term.senses {
            for posting in index.postings(sense.term) {
                let tool = posting.tool as usize;
                let score = posting.score * sense.weight;
                let Some(best) = best.get_mut(tool) else { continue };
                if *best == 0.0 {
                    touched.push(tool);
                }
                *best = best.max(score);
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

fn best_of_plugins(index: &BrokerIndex, scores: &[f32]) -> Vec<f32> {
    let mut best = vec![0.0_f32; index.tools()];
    for (tool, score) in scores.iter().enumerate() {
        if let Some(best) = index.plugin(tool).and_then(|plugin| best.get_mut(plugin)) {
            *best = best.max(*score);
        }
    }
    best
}
