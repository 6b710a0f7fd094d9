//! The rules of the gate in their published order, which decides about the code when several refuse.
//!
//! A rule is one row: whether it refuses, which code that gives, and in words why it refuses or lets through. Deciding
//! asks whether; the words are for refusals and explanations, which have time.

use std::collections::BTreeSet;

use super::{Layer, Reason, SessionFacts};
use crate::descriptor::ToolDescriptor;
use crate::error::ErrorType;
use crate::rules::{AgentRules, Autonomy, OrgRules, PlatformRules, Rule, Rules, Standing, Tool, ToolList};

/// One rule of the gate.
pub(super) struct Gate {
    pub reason: Reason,
    pub error_type: ErrorType,
    /// What the caller can do about it.
    pub hint: &'static str,
    pub refuses: fn(&Look<'_>) -> bool,
    /// Ends the sentence "the tool is not available: …", and for one that passes "it passes: …".
    pub why: fn(&Look<'_>, &ToolDescriptor, bool) -> String,
}

/// What a rule of the gate looks at.
pub(super) struct Look<'a> {
    index: usize,
    session_disabled: bool,
    session_broken: bool,
    facts: &'a SessionFacts,
    /// What the two layers above the agent say of the tool.
    standing: Standing,
    platform: &'a PlatformRules,
    organization: &'a OrgRules,
    agent: &'a AgentRules,
}

impl<'a> Look<'a> {
    pub fn new<P>(rules: &'a Rules<P>, facts: &'a SessionFacts, index: usize, tool: &Tool<P>) -> Self {
        Self {
            index,
            // The id is far away in memory, and most sessions switch nothing off.
            session_disabled: !facts.disabled.is_empty() && facts.disabled.contains(tool.id()),
            session_broken: !facts.broken.is_empty() && facts.broken.contains_key(tool.id()),
            facts,
            standing: rules.organization.standing(index),
            platform: &rules.platform,
            organization: &rules.organization,
            agent: &rules.agent,
        }
    }

    /// What the platform keeps available whatever lists and profiles say (G14).
    fn is_universal(&self) -> bool {
        self.standing.has(Rule::Universal)
    }

    /// Whether a person must approve, and by which rule.
    pub fn approval(&self) -> Option<Reason> {
        self.agent.approval.contains(self.index).then(|| approval_rule(self.agent))
    }
}

/// The rule by which an agent's calls need approval.
pub(super) fn approval_rule(agent: &AgentRules) -> Reason {
    let rule =
        if agent.document().require_approval_for.is_some() { "require_approval_for" } else { "autonomy" };
    Reason { layer: Layer::Agent, rule }
}

/// In words, why a call needs approval or does not.
pub(super) fn approval_why(look: &Look<'_>, tool: &ToolDescriptor, asks: bool) -> String {
    let autonomy = look.agent.document().autonomy.as_str();
    match (&look.agent.document().require_approval_for, asks) {
        (Some(list), _) => listed("require_approval_for", list, tool),
        (None, true) => format!("the agent is `{autonomy}`, and the tool is not known to change nothing"),
        (None, false) if look.agent.document().autonomy == Autonomy::Autonomous => {
            format!("the agent is `{autonomy}`")
        }
        (None, false) => "the tool changes nothing".to_owned(),
    }
}

const fn reason(layer: Layer, rule: &'static str) -> Reason {
    Reason { layer, rule }
}

const IN_THE_LIST: &str = "call one of the tools in the session's list";

/// INVARIANT: in the order that `interfaces.md` publishes.
pub(super) const GATES: &[Gate] = &[
    Gate {
        reason: reason(Layer::Platform, "plugin_disabled"),
        error_type: ErrorType::ToolDisabled,
        hint: "go on without it; an operator can switch it on again",
        refuses: |look| look.standing.has(Rule::PluginDisabled),
        why: |_, _, refuses| {
            if refuses { "its plugin is switched off" } else { "its plugin is on" }.to_owned()
        },
    },
    Gate {
        reason: reason(Layer::Platform, "blocked"),
        error_type: ErrorType::ToolDisabled,
        hint: "go on without it; an operator can unblock it",
        refuses: |look| look.standing.has(Rule::Blocked),
        why: |look, tool, _| listed("blocked", &look.platform.document().blocked, tool),
    },
    Gate {
        reason: reason(Layer::Platform, "allowed"),
        error_type: ErrorType::AccessDenied,
        hint: IN_THE_LIST,
        refuses: |look| !look.standing.has(Rule::Allowed),
        why: |look, tool, _| match &look.platform.document().allowed {
            Some(allowed) => listed("allowed", allowed, tool),
            None => "every loaded tool is allowed".to_owned(),
        },
    },
    Gate {
        reason: reason(Layer::Organization, "disabled"),
        error_type: ErrorType::ToolDisabled,
        hint: "go on without it; the organization's owner can take it out of `disabled`",
        refuses: |look| look.standing.has(Rule::Disabled),
        why: |look, tool, _| listed("disabled", &look.organization.document().disabled, tool),
    },
    Gate {
        reason: reason(Layer::Organization, "enabled"),
        error_type: ErrorType::AccessDenied,
        hint: "call one of the tools in the session's list; the organization's owner can add this one to `enabled`",
        refuses: |look| !look.standing.has(Rule::Enabled) && !look.is_universal(),
        why: |look, tool, _| match &look.organization.document().enabled {
            Some(enabled) if enabled.entry_for(&tool.id).is_some() || !look.is_universal() => {
                listed("enabled", enabled, tool)
            }
            _ if look.is_universal() => UNIVERSAL.to_owned(),
            _ => "the organization has enabled nothing".to_owned(),
        },
    },
    Gate {
        reason: reason(Layer::Organization, "integration"),
        error_type: ErrorType::IntegrationMissing,
        hint: "go on without it; the organization's owner can connect the integration, and while the daemon is sealed an operator unseals it",
        refuses: |look| look.standing.has(Rule::Missing),
        why: |look, tool, refuses| match refuses {
            true => {
                format!("the integration {} is not connected", quoted(&look.missing_for(tool)))
            }
            false => "every integration that it needs is connected".to_owned(),
        },
    },
    Gate {
        reason: reason(Layer::Agent, "server"),
        error_type: ErrorType::AccessDenied,
        hint: IN_THE_LIST,
        refuses: |look| !look.agent.bound.contains(look.index),
        why: |look, _, refuses| match (&look.agent.document().server, refuses) {
            (Some(server), _) => format!("the agent is bound to `{server}`"),
            (None, true) => {
                "the platform demands that agents are bound to a server, and this one is not".to_owned()
            }
            (None, false) => "the agent is bound to no server".to_owned(),
        },
    },
    Gate {
        reason: reason(Layer::Agent, "disabled"),
        error_type: ErrorType::ToolDisabled,
        hint: "go on without it; the agent's owner can take it out of `disabled`",
        refuses: |look| look.agent.disabled.contains(look.index),
        why: |look, tool, _| listed("disabled", &look.agent.document().disabled, tool),
    },
    Gate {
        reason: reason(Layer::Agent, "profile"),
        error_type: ErrorType::AccessDenied,
        hint: "call one of the tools in the session's list; the agent's owner can give it another profile",
        refuses: |look| !look.agent.profile.contains(look.index) && !look.is_universal(),
        why: |look, _, refuses| look.profile_why(refuses),
    },
    Gate {
        reason: reason(Layer::Agent, "enabled"),
        error_type: ErrorType::AccessDenied,
        hint: "call one of the tools in the session's list; the agent's owner can add this one to `enabled`",
        refuses: |look| !look.agent.enabled.contains(look.index) && !look.is_universal(),
        why: |look, tool, refuses| match &look.agent.document().enabled {
            Some(enabled) if refuses || enabled.entry_for(&tool.id).is_some() => {
                listed("enabled", enabled, tool)
            }
            None if refuses => "the agent has neither `enabled` nor a profile".to_owned(),
            None if look.agent.profile.contains(look.index) => look.profile_why(false),
            None if !look.is_universal() => {
                "the agent has no `enabled` of its own: its profile decides".to_owned()
            }
            _ => UNIVERSAL.to_owned(),
        },
    },
    Gate {
        reason: reason(Layer::Agent, "autonomy"),
        error_type: ErrorType::AccessDenied,
        hint: "call a tool that changes nothing, or let a person do it",
        refuses: |look| !look.agent.autonomy.contains(look.index),
        why: |look, _, refuses| match refuses {
            true => "the agent is `draft_only`, and the tool is not known to change nothing".to_owned(),
            false => format!("the agent is `{}`", look.agent.document().autonomy.as_str()),
        },
    },
    Gate {
        reason: reason(Layer::Session, "breaker"),
        error_type: ErrorType::ToolDisabled,
        hint: "go on without it; the orchestrator can enable it again",
        refuses: |look| look.session_broken,
        why: |look, tool, _| match look.facts.broken.get(&tool.id) {
            Some(why) => format!("it was stopped in this session: {why}"),
            None => "it has not kept failing".to_owned(),
        },
    },
    Gate {
        reason: reason(Layer::Session, "disabled"),
        error_type: ErrorType::ToolDisabled,
        hint: "go on without it; the orchestrator can enable it again",
        refuses: |look| look.session_disabled,
        why: |_, _, refuses| {
            if refuses { "it is disabled for this session" } else { "it is not disabled for this session" }
                .to_owned()
        },
    },
    Gate {
        reason: reason(Layer::Session, "channel"),
        error_type: ErrorType::ChannelRestricted,
        hint: "go on without it, or do it where the channel allows it",
        refuses: |look| {
            let channels = &look.organization.channels;
            look.standing.has(Rule::Channel) && channels.block(look.facts.channel.as_deref(), look.index)
        },
        why: |look, _, refuses| look.channel_why(refuses),
    },
];

const UNIVERSAL: &str = "the tool is universal";

impl Look<'_> {
    fn missing_for(&self, tool: &ToolDescriptor) -> BTreeSet<String> {
        self.organization.missing_for(tool, self.platform)
    }

    fn profile_why(&self, refuses: bool) -> String {
        let document = self.agent.document();
        let named = document.profile_under(self.platform.document());
        match named {
            None => "the agent has no profile".to_owned(),
            Some(None) => "the agent's subtype is not defined any more".to_owned(),
            Some(Some(profile)) if self.agent.profile.contains(self.index) => {
                format!("the profile `{profile}` has it")
            }
            Some(Some(profile)) if !refuses && self.is_universal() => {
                format!("{UNIVERSAL}, so the profile `{profile}` need not have it")
            }
            Some(Some(profile)) if self.organization.profile(profile, self.platform).is_none() => {
                format!("the agent's profile `{profile}` is not defined any more")
            }
            Some(Some(profile)) => format!("the profile `{profile}` does not have it"),
        }
    }

    fn channel_why(&self, refuses: bool) -> String {
        match (&self.facts.channel, refuses) {
            (Some(channel), true) => format!("the channel `{channel}` does not allow it"),
            (None, true) => "the session has no channel, and some channel does not allow it".to_owned(),
            (Some(channel), false) => format!("the channel `{channel}` allows it"),
            (None, false) => "no channel disallows it".to_owned(),
        }
    }
}

/// Which entry of a list has the tool.
fn listed(field: &str, list: &ToolList, tool: &ToolDescriptor) -> String {
    match list.entry_for(&tool.id) {
        Some(entry) => format!("`{entry}` in `{field}`"),
        None => format!("`{field}` does not have it"),
    }
}

fn quoted(names: &BTreeSet<String>) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(" and ")
}
