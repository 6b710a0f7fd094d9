//! Policy diffs: the changes that a document would make, computed before it is in force (G16).
//!
//! The document is applied to a copy of the snapshot, and the deciding function is asked about every agent and tool that it
//! concerns, before and after.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use toolgate_admission::{self as admission, Decision, Reason, Rules, SessionFacts};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::explain::ToolVerdict;
use toolgate_api::policy_diff::{AgentChange, Preview, ToolChange};
use toolgate_macros::boxed;
use toolgate_sandbox::Component;
use toolgate_state::documents::DocumentKey;
use toolgate_state::documents::warning_view;

use super::Admin;
use crate::identity::{Access, Caller};
use crate::registry::{RuleKey, Snapshot, VIOLATIONS_MAX, left_with_nothing};

/// Decisions of one preview: a second or two of one processor. Past that it is not complete.
const DECISIONS_MAX: u64 = 20_000_000;
/// Changes of tools that one preview lists.
const CHANGES_MAX: usize = 10_000;

#[boxed]
impl Admin {
    /// Computes the changes that a document would make.
    pub async fn preview(&self, caller: &Caller, key: RuleKey, text: &str) -> Result<Preview, CallError> {
        match DocumentKey::from(key.clone()).organization() {
            Some(organization) => self.expect_own(caller, organization)?,
            None => caller.may(Access::Operate)?,
        }
        let sees_platform = caller.organization.is_none();
        let registry = &self.services().registry;
        registry.wait_for_all_tools().await;
        let before = registry.snapshot();
        let sound =
            key.read(text, &before).map_err(|error| error.into_call_error(ErrorType::InvalidPolicy))?;
        let after = before.with_document(sound.replacement);
        let stored = self.services().store.find_document(&key.clone().into()).await?;
        let in_force = stored.map_or_else(|| "{}".into(), |document| document.body);
        let members = differing_members(&in_force, text);
        // Millions of decisions, so on a blocking thread beside running calls.
        let comparing = move || {
            let organization = DocumentKey::from(key.clone()).organization().cloned();
            let broken = before.violations_by(&after, organization.as_ref(), VIOLATIONS_MAX);
            let broken = [broken.refusing, broken.warning].map(|broken| broken.warnings(sees_platform));
            let left = left_with_nothing(&key, Some(&before), &after);
            (compare(&before, &after, &key, sees_platform), broken.into_iter().flatten().chain(left))
        };
        let compared = tokio::task::spawn_blocking(comparing).await;
        let ((agents, unchanged, complete), left) = compared.map_err(|_| {
            CallError::new(
                ErrorType::Internal,
                "the comparison failed",
                "tell the operator; the daemon's log says more",
            )
        })?;
        let warnings = sound.warnings.into_iter().chain(left).map(warning_view).collect();
        Ok(Preview { warnings, members, agents, unchanged, complete })
    }
}

/// The members in which two documents differ; absent and `null` are the same.
fn differing_members(one: &str, other: &str) -> Vec<String> {
    let [one, other] =
        [one, other].map(|text| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default());
    let of = |document: &Map<String, Value>, name: &str| document.get(name).cloned().unwrap_or_default();
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    names.into_iter().filter(|name| of(&one, name) != of(&other, name)).cloned().collect()
}

fn compare(
    before: &Snapshot,
    after: &Snapshot,
    key: &RuleKey,
    sees_platform: bool,
) -> (Vec<AgentChange>, usize, bool) {
    let (organization, only) = match key {
        RuleKey::Platform => (None, None),
        RuleKey::Policy(organization) => (Some(organization), None),
        RuleKey::Agent(organization, agent) => (Some(organization), Some(agent)),
    };
    let (mut changed, mut unchanged, mut decisions, mut listed) = (Vec::new(), 0, 0_u64, 0);
    for organization in after.organizations(organization) {
        let agents = after.agents(&organization);
        for agent in agents.iter().filter(|agent| only.is_none_or(|only| *agent == only)) {
            let Some(new) = after.rules(&organization, agent) else { continue };
            let old = before.rules(&organization, agent).unwrap_or_else(|| before.denying_rules());
            let channels = channels(&old, &new);
            decisions += 2 * (channels.len() * new.catalogue.tools().len()) as u64;
            if decisions > DECISIONS_MAX || listed >= CHANGES_MAX {
                return (changed, unchanged, false);
            }
            let tools = changes(&old, &new, &channels, sees_platform);
            listed += tools.len();
            match tools.is_empty() {
                true => unchanged += 1,
                false => changed.push(AgentChange { agent: format!("{organization}/{agent}"), tools }),
            }
        }
    }
    (changed, unchanged, true)
}

/// No channel, and each channel of the old or new rules.
fn channels(old: &Rules<Component>, new: &Rules<Component>) -> Vec<Option<String>> {
    let mut names: Vec<&str> = old.organization.channels().chain(new.organization.channels()).collect();
    names.sort_unstable();
    names.dedup();
    std::iter::once(None).chain(names.into_iter().map(|name| Some(name.to_owned()))).collect()
}

fn changes(
    old: &Rules<Component>,
    new: &Rules<Component>,
    channels: &[Option<String>],
    sees_platform: bool,
) -> Vec<ToolChange> {
    let mut changes = Vec::new();
    let contexts: Vec<SessionFacts> = channels
        .iter()
        .map(|channel| SessionFacts { channel: channel.clone(), ..SessionFacts::default() })
        .collect();
    for tool in new.catalogue.tools() {
        let called = tool.id().to_string();
        // Most changes are the same on every channel, and are then listed once.
        let mut seen: BTreeMap<(u8, u8, Reason), Vec<Option<String>>> = BTreeMap::new();
        for facts in &contexts {
            let (before, _) = verdict(admission::decide(old, facts, &called));
            let (after, reason) = verdict(admission::decide(new, facts, &called));
            if before != after {
                seen.entry((before, after, reason)).or_default().push(facts.channel.clone());
            }
        }
        for ((before, after, reason), on) in seen {
            let is_visible = sees_platform || reason.layer != admission::Layer::Platform;
            changes.push(ToolChange {
                tool: called.clone(),
                before: VERDICTS[usize::from(before)],
                after: VERDICTS[usize::from(after)],
                layer: reason.layer.as_str().into(),
                rule: is_visible.then_some(reason.rule.into()),
                channels: (on.len() < contexts.len())
                    .then(|| on.into_iter().map(|name| name.unwrap_or_else(|| "none".to_owned())).collect()),
            });
        }
    }
    changes
}

const VERDICTS: [ToolVerdict; 3] = [ToolVerdict::Allowed, ToolVerdict::NeedsApproval, ToolVerdict::Refused];

/// An index into `VERDICTS`, and the reason.
fn verdict<P>(decision: Decision<'_, P>) -> (u8, Reason) {
    match decision {
        Decision::Allowed(_) => (0, Reason { layer: admission::Layer::Agent, rule: "enabled" }),
        Decision::NeedsApproval(_, reason) => (1, reason),
        Decision::Refused(reason) => (2, reason),
    }
}
