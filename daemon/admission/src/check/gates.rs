//! The rules of the gate in their published order, which determines the error type if several rules refuse.
//!
//! A rule is one row of [`GATES`]: a predicate, an error type, and a function that gives the reason in words. Deciding
//! calls the predicate only; refusals and explanations call the second function, outside the hot path.

use toolgate_api::error::ErrorType;
use toolgate_api::policy::Autonomy;
use toolgate_api::tools::ToolList;

use super::verdict::{Layer, Reason, SessionFacts};
use crate::descriptor::ToolDescriptor;
use crate::rules::{AgentRules, OrgRules, PlatformRules, Rules, Tool, ToolFlag, ToolFlags};

/// One rule of the gate.
pub(super) struct Gate {
    pub reason: Reason,
    pub error_type: ErrorType,
    /// The hint for the caller.
    pub hint: &'static str,
    pub refuses: fn(&GateInput<'_>) -> bool,
    /// Completes the sentence "the tool is not available: …", or "it passes: …". The last argument is the result of
    /// `refuses`.
    pub why: fn(&GateInput<'_>, &ToolDescriptor, bool) -> String,
}

/// The input of every rule: one tool, the session, and the compiled layers.
pub(super) struct GateInput<'a> {
    index: usize,
    session_disabled: bool,
    session_broken: bool,
    facts: &'a SessionFacts,
    /// The flags that the two layers above the agent give the tool.
    flags: ToolFlags,
    platform: &'a PlatformRules,
    organization: &'a OrgRules,
    agent: &'a AgentRules,
}

impl<'a> GateInput<'a> {
    pub(super) fn new<P>(rules: &'a Rules<P>, facts: &'a SessionFacts, index: usize, tool: &Tool<P>) -> Self {
        Self {
            index,
            // Reading the id is a cache miss, and most sessions disable nothing.
            session_disabled: !facts.disabled.is_empty() && facts.disabled.contains(tool.id()),
            session_broken: !facts.broken.is_empty() && facts.broken.contains_key(tool.id()),
            facts,
            flags: rules.organization.flags(index),
            platform: &rules.platform,
            organization: &rules.organization,
            agent: &rules.agent,
        }
    }

    /// Whether the tool stays available without being in a list or profile (G14).
    fn is_universal(&self) -> bool {
        self.flags.has(ToolFlag::Universal)
    }

    /// Returns the rule that requires a person's approval, if one does.
    pub(super) fn approval(&self) -> Option<Reason> {
        self.agent.approval.contains(self.index).then(|| approval_rule(self.agent))
    }
}

/// Returns the rule that decides whether an agent's calls need approval.
pub(super) fn approval_rule(agent: &AgentRules) -> Reason {
    let rule =
        if agent.document().require_approval_for.is_some() { "require_approval_for" } else { "autonomy" };
    Reason { layer: Layer::Agent, rule }
}

/// Returns the reason in words why a call needs approval or does not.
pub(super) fn approval_why(input: &GateInput<'_>, tool: &ToolDescriptor, needs_approval: bool) -> String {
    let autonomy = input.agent.document().autonomy.as_str();
    match (&input.agent.document().require_approval_for, needs_approval) {
        (Some(list), _) => list_entry("require_approval_for", list, tool),
        (None, true) => format!("the agent is `{autonomy}`, and the tool is not read-only"),
        (None, false) if input.agent.document().autonomy == Autonomy::Autonomous => {
            format!("the agent is `{autonomy}`")
        }
        (None, false) => "the tool is read-only".to_owned(),
    }
}

const fn reason(layer: Layer, rule: &'static str) -> Reason {
    Reason { layer, rule }
}

/// The same for each rule, since a hint of its own would tell the rule, which is the operator's.
const BY_PLATFORM: &str = "go on without it; an operator can make it available again, or an owner if it is a plugin of the organization";

const IN_THE_LIST: &str = "call one of the tools in the session's list";

/// INVARIANT: in the order that `interfaces.md` publishes.
pub(super) const GATES: &[Gate] = &[
    Gate {
        reason: reason(Layer::Platform, "plugin_disabled"),
        error_type: ErrorType::ToolDisabled,
        hint: BY_PLATFORM,
        refuses: |input| input.flags.has(ToolFlag::PluginDisabled),
        why: |_, _, refuses| either(refuses, "its plugin is disabled", "its plugin is enabled"),
    },
    Gate {
        reason: reason(Layer::Platform, "blocked"),
        error_type: ErrorType::ToolDisabled,
        hint: BY_PLATFORM,
        refuses: |input| input.flags.has(ToolFlag::Blocked),
        why: |input, tool, _| list_entry("blocked", &input.platform.document().blocked, tool),
    },
    Gate {
        reason: reason(Layer::Platform, "allowed"),
        error_type: ErrorType::AccessDenied,
        hint: IN_THE_LIST,
        refuses: |input| !input.flags.has(ToolFlag::Allowed),
        why: |input, tool, _| match &input.platform.document().allowed {
            Some(allowed) => list_entry("allowed", allowed, tool),
            None => "every loaded tool is allowed".to_owned(),
        },
    },
    Gate {
        reason: reason(Layer::Organization, "disabled"),
        error_type: ErrorType::ToolDisabled,
        hint: "go on without it; the organization's owner can take it out of `disabled`",
        refuses: |input| input.flags.has(ToolFlag::Disabled),
        why: |input, tool, _| list_entry("disabled", &input.organization.document().disabled, tool),
    },
    Gate {
        reason: reason(Layer::Organization, "enabled"),
        error_type: ErrorType::AccessDenied,
        hint: "call one of the tools in the session's list; the organization's owner can add this one to `enabled`",
        refuses: |input| !input.flags.has(ToolFlag::Enabled) && !input.is_universal(),
        why: |input, tool, _| match &input.organization.document().enabled {
            Some(enabled) if enabled.entry_for(&tool.id).is_some() || !input.is_universal() => {
                list_entry("enabled", enabled, tool)
            }
            _ if input.is_universal() => UNIVERSAL.to_owned(),
            _ => "the organization has enabled nothing".to_owned(),
        },
    },
    Gate {
        reason: reason(Layer::Organization, "consent"),
        error_type: ErrorType::ToolDisabled,
        hint: "go on without it; the organization's owner can accept its plugin with `toolgate org enable ORGANIZATION PLUGIN --accept`",
        refuses: |input| input.organization.unaccepted.contains(input.index),
        why: |_, tool, refuses| {
            let plugin = &tool.id.namespace;
            match refuses {
                true => format!("the organization has not accepted what the plugin `{plugin}` may reach"),
                false => format!("the plugin `{plugin}` is accepted, needs no consent, or is not enabled"),
            }
        },
    },
    Gate {
        reason: reason(Layer::Organization, "integration"),
        error_type: ErrorType::IntegrationMissing,
        hint: "go on without it; the organization's owner can connect the integration (`toolgate credential list` shows its state)",
        refuses: |input| input.flags.has(ToolFlag::Missing),
        why: |input, tool, refuses| match refuses {
            true => format!("the integration {} is not connected", input.missing_integrations(tool)),
            false => "every integration that it needs is connected".to_owned(),
        },
    },
    Gate {
        reason: reason(Layer::Agent, "server"),
        error_type: ErrorType::AccessDenied,
        hint: IN_THE_LIST,
        refuses: |input| !input.agent.bound.contains(input.index),
        why: |input, _, refuses| match (&input.agent.document().server, refuses) {
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
        refuses: |input| input.agent.disabled.contains(input.index),
        why: |input, tool, _| list_entry("disabled", &input.agent.document().disabled, tool),
    },
    Gate {
        reason: reason(Layer::Agent, "profile"),
        error_type: ErrorType::AccessDenied,
        hint: "call one of the tools in the session's list; the agent's owner can give it another profile",
        refuses: |input| !input.agent.profile.contains(input.index) && !input.is_universal(),
        why: |input, _, refuses| input.profile_why(refuses),
    },
    Gate {
        reason: reason(Layer::Agent, "enabled"),
        error_type: ErrorType::AccessDenied,
        hint: "call one of the tools in the session's list; the agent's owner can add this one to `enabled`",
        refuses: |input| !input.agent.enabled.contains(input.index) && !input.is_universal(),
        why: |input, tool, refuses| match &input.agent.document().enabled {
            Some(enabled) if refuses || enabled.entry_for(&tool.id).is_some() => {
                list_entry("enabled", enabled, tool)
            }
            None if refuses => "the agent has neither `enabled` nor a profile".to_owned(),
            None if input.agent.profile.contains(input.index) => input.profile_why(false),
            None if !input.is_universal() => {
                "the agent has no `enabled` of its own: its profile decides".to_owned()
            }
            _ => UNIVERSAL.to_owned(),
        },
    },
    Gate {
        reason: reason(Layer::Agent, "autonomy"),
        error_type: ErrorType::AccessDenied,
        hint: "call a read-only tool, or ask a person to do it",
        refuses: |input| !input.agent.autonomy.contains(input.index),
        why: |input, _, refuses| match refuses {
            true => "the agent is `draft_only`, and the tool is not read-only".to_owned(),
            false => format!("the agent is `{}`", input.agent.document().autonomy.as_str()),
        },
    },
    Gate {
        reason: reason(Layer::Session, "breaker"),
        error_type: ErrorType::ToolDisabled,
        hint: "go on without it; the orchestrator can enable it again",
        refuses: |input| input.session_broken,
        why: |input, tool, _| match input.facts.broken.get(&tool.id) {
            Some(why) => format!("the circuit breaker stopped it in this session: {why}"),
            None => "the circuit breaker is closed".to_owned(),
        },
    },
    Gate {
        reason: reason(Layer::Session, "disabled"),
        error_type: ErrorType::ToolDisabled,
        hint: "go on without it; the orchestrator can enable it again",
        refuses: |input| input.session_disabled,
        why: |_, _, refuses| {
            either(refuses, "it is disabled for this session", "it is not disabled for this session")
        },
    },
    Gate {
        reason: reason(Layer::Session, "channel"),
        error_type: ErrorType::ChannelRestricted,
        hint: "go on without it, or do it where the channel allows it",
        refuses: |input| {
            let channels = &input.organization.channels;
            input.flags.has(ToolFlag::Channel) && channels.block(input.facts.channel.as_deref(), input.index)
        },
        why: |input, tool, refuses| input.channel_why(tool, refuses),
    },
];

const UNIVERSAL: &str = "the tool is universal";

impl GateInput<'_> {
    fn missing_integrations(&self, tool: &ToolDescriptor) -> String {
        let missing = self.organization.missing_for(tool, self.platform);
        missing.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
    }

    fn profile_why(&self, refuses: bool) -> String {
        let document = self.agent.document();
        match document.profile_under(self.platform.document()) {
            None => "the agent has no profile".to_owned(),
            Some(None) => "the agent's subtype is no longer defined".to_owned(),
            Some(Some(profile)) if self.agent.profile.contains(self.index) => {
                format!("the profile `{profile}` has it")
            }
            Some(Some(profile)) if !refuses && self.is_universal() => {
                format!("{UNIVERSAL}, so the profile `{profile}` need not have it")
            }
            Some(Some(profile)) if self.organization.profile(profile, self.platform).is_none() => {
                format!("the agent's profile `{profile}` is no longer defined")
            }
            Some(Some(profile)) => format!("not listed in the profile `{profile}`"),
        }
    }

    fn channel_why(&self, tool: &ToolDescriptor, refuses: bool) -> String {
        let Some(channel) = &self.facts.channel else { return "the session has no channel".to_owned() };
        if !refuses {
            return format!("the channel `{channel}` allows it");
        }
        let tables = [&self.platform.document().channels, &self.organization.document().channels];
        let mut blocks = tables.into_iter().filter_map(|table| table.get(channel.as_str()));
        let reason = blocks.find_map(|block| block.blocked.entry_for(&tool.id).and(block.reason.as_deref()));
        match reason {
            Some(reason) => format!("the channel `{channel}` does not allow it: {reason}"),
            None => format!("the channel `{channel}` does not allow it"),
        }
    }
}

/// Names the entry of a list that matches the tool.
fn list_entry(field: &str, list: &ToolList, tool: &ToolDescriptor) -> String {
    match list.entry_for(&tool.id) {
        Some(entry) => format!("`{entry}` in `{field}`"),
        None => format!("not listed in `{field}`"),
    }
}

fn either(refuses: bool, refusal: &str, pass: &str) -> String {
    if refuses { refusal } else { pass }.to_owned()
}
