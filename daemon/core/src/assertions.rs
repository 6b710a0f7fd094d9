//! Violations of policy assertions (G17), as refused changes and `toolgate policy test` report them.

use serde_json::{Value, json};
use toolgate_admission::{AssertionBreach, Layer, Step};
use toolgate_api::assertion::{Assertion, AssertionKind, BrokenAssertion};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::{Name, ToolId};

/// The holder of an assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The platform.
    Platform,
    /// The organization of the agent.
    Organization,
}

/// A call that an agent could make against an assertion.
#[derive(Clone, Debug)]
pub struct AssertionViolation {
    holder: Holder,
    name: Name,
    kind: AssertionKind,
    organization: Name,
    agent: String,
    tool: ToolId,
    channel: Option<String>,
    steps: Vec<Step>,
}

impl AssertionViolation {
    /// A violation by the agent of this organization and name.
    pub fn new(
        holder: Holder,
        assertion: &Assertion,
        (organization, agent): (&Name, &Name),
        breach: AssertionBreach,
    ) -> Self {
        Self {
            holder,
            name: assertion.name.clone(),
            kind: assertion.statement().map_or(AssertionKind::Never, |(kind, _)| kind),
            organization: organization.clone(),
            agent: format!("{organization}/{agent}"),
            tool: breach.tool,
            channel: breach.channel,
            steps: breach.steps,
        }
    }

    /// The refusal of a change. Owners see of a platform's assertion its name alone, and of the platform's rules that they let
    /// the call through.
    pub fn into_call_error(self, sees_platform: bool) -> CallError {
        let details = json!({
            "assertion": {
                "name": self.name.as_str(),
                "holder": if self.holder == Holder::Platform { "platform" } else { "organization" },
                "kind": self.is_open_to(sees_platform).then(|| self.kind.as_str()),
            },
            "agent": self.agent,
            "tool": self.tool.to_string(),
            "channel": self.channel,
            "path": self.path(sees_platform),
        });
        let hint = match self.is_open_to(sees_platform) {
            true => "change the rule that lets the call through, or change the assertion first",
            false => {
                "leave the tool out for this agent; the platform holds the assertion, and an operator can explain it"
            }
        };
        CallError::new(ErrorType::Conflict, self.message(sees_platform), hint).with_details(details)
    }

    /// The name of the assertion.
    pub fn assertion_name(&self) -> &Name {
        &self.name
    }

    /// The organization that holds the assertion; none for the platform.
    pub fn holder_organization(&self) -> Option<&Name> {
        (self.holder == Holder::Organization).then_some(&self.organization)
    }

    /// The view of it, for the holder of the assertion.
    pub fn view(&self) -> BrokenAssertion {
        BrokenAssertion {
            assertion: self.name.to_string(),
            agent: self.agent.clone(),
            tool: self.tool.to_string(),
            message: self.message(true),
        }
    }

    /// The violation in one line.
    pub fn message(&self, sees_platform: bool) -> String {
        let Self { name, agent, tool, .. } = self;
        let holder = match self.holder {
            Holder::Platform => "the platform",
            Holder::Organization => "the organization",
        };
        let what = match (self.is_open_to(sees_platform), self.kind) {
            (false, _) => format!("could call `{tool}` against the assertion `{name}`"),
            (true, AssertionKind::Never) => {
                format!("could call `{tool}`, which the assertion `{name}` forbids")
            }
            (true, AssertionKind::AlwaysApproval) => {
                format!("could call `{tool}` without a person's approval, against the assertion `{name}`")
            }
            (true, AssertionKind::Only) => {
                format!("could call `{tool}`, which the assertion `{name}` leaves to other agents")
            }
        };
        let why = match self.steps.iter().rev().find(|step| is_grant(step)) {
            Some(step) => format!(": {}", step.why),
            None => String::new(),
        };
        format!("agent `{agent}` {what} of {holder}{why}")
    }

    /// Whether the reader may know what the assertion demands.
    fn is_open_to(&self, sees_platform: bool) -> bool {
        sees_platform || self.holder == Holder::Organization
    }

    /// The rules of documents that let the call through, in the order of the gate.
    fn path(&self, sees_platform: bool) -> Vec<Value> {
        let documents = self.steps.iter().filter(|step| step.reason.layer != Layer::Session);
        documents
            .map(|step| {
                let layer = step.reason.layer;
                match sees_platform || layer != Layer::Platform {
                    true => json!({"layer": layer.as_str(), "rule": step.reason.rule, "why": step.why}),
                    false => json!({"layer": layer.as_str()}),
                }
            })
            .collect()
    }
}

/// Whether the rule is the one that gives an agent its tools, or the approval that is missing.
fn is_grant(step: &Step) -> bool {
    step.reason.layer == Layer::Agent && step.reason.rule == "enabled"
}

#[cfg(test)]
mod tests {
    use toolgate_admission::{Reason, StepVerdict};
    use toolgate_api::assertion::{AssertionHolder, AssertionsDocument};

    use super::*;

    fn violation(holder: Holder) -> AssertionViolation {
        let text = r#"{"assertions":[{"name":"no-deletes","never":{"tools":["files/delete"]}}]}"#;
        let document = AssertionsDocument::parse(text, AssertionHolder::Platform).expect("a document");
        let step = |layer, rule, why: &str| Step {
            reason: Reason { layer, rule },
            verdict: StepVerdict::Passes,
            error_type: None,
            why: why.to_owned(),
        };
        let steps = vec![
            step(Layer::Platform, "allowed", "`*` in `allowed`"),
            step(Layer::Agent, "enabled", "`files/*` in `enabled`"),
            step(Layer::Session, "channel", "the session has no channel"),
        ];
        let tool = ToolId::parse("files/delete").expect("a tool");
        let name = |text: &str| Name::parse(text).expect("a name");
        let breach = AssertionBreach { tool, channel: None, steps };
        AssertionViolation::new(holder, &document.assertions[0], (&name("acme"), &name("bot")), breach)
    }

    #[test]
    fn g17_a_violation_names_assertion_agent_tool_and_path() {
        for holder in [Holder::Platform, Holder::Organization] {
            let error = violation(holder).into_call_error(true);
            assert_eq!(error.error_type, ErrorType::Conflict);
            for part in ["`acme/bot`", "`files/delete`", "`no-deletes` forbids", "`files/*` in `enabled`"] {
                assert!(error.message.contains(part), "{part}: {}", error.message);
            }
            let details = error.details_json().expect("details");
            assert_eq!(details["path"][0]["rule"], "allowed");
            assert_eq!(details["path"].as_array().map(Vec::len), Some(2));
        }
    }

    #[test]
    fn g17_an_owner_learns_of_a_platforms_assertion_its_name_alone() {
        let details = violation(Holder::Platform).into_call_error(false).details_json().expect("details");
        assert_eq!(details["assertion"], json!({"name": "no-deletes", "holder": "platform", "kind": null}));
        assert_eq!(details["path"][0], json!({"layer": "platform"}));
        assert!(!violation(Holder::Platform).message(false).contains("forbids"));
        let own = violation(Holder::Organization).into_call_error(false).details_json().expect("details");
        assert_eq!(own["assertion"]["kind"], "never");
    }
}
