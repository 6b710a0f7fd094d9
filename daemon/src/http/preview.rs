//! What a document would change for whom, before it is put in force (G16).
//!
//! The document is put into a copy of what is in force, and every agent that it concerns is asked about every tool
//! before and after: by the function that decides, so the answer is what would happen.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Serialize;
use serde_json::{Map, Value};
use toolgate_admission::{
    self as admission, CallError, Decision, ErrorType, Name, Reason, Rules, SessionFacts,
};
use toolgate_sandbox::Component;
use utoipa::ToSchema;

use super::address::{AgentAddress, OrganizationAddress};
use super::body::expect_json;
use super::documents::{DocumentWarning, body_text, name};
use super::explain::ToolVerdict;
use super::extract::Path;
use super::problem::Problem;
use super::refusal::{NoOrganization, UnsoundDocument};
use super::schema::{AgentForm, PlatformForm, PolicyForm};
use super::{App, Authenticated};
use crate::documents::{self, RuleKey};
use crate::registry::Snapshot;
use crate::store::StoreError;

/// Decisions that one preview makes: a second or two of one processor. Past that it says that it is not complete.
const DECISIONS: u64 = 20_000_000;
/// Changes of tools that one preview lists.
const CHANGES: usize = 10_000;

/// What a document would change.
#[derive(Serialize, ToSchema)]
pub struct Preview {
    /// What is odd about the document.
    warnings: Vec<DocumentWarning>,
    /// Members of the document that differ from what is in force, also those that say nothing of who may call what, like
    /// `limits`.
    members: Vec<String>,
    /// The agents for whom something changes, by name.
    agents: Vec<AgentChange>,
    /// Agents for whom nothing changes.
    unchanged: usize,
    /// Whether every agent and tool was looked at, and every change is listed.
    complete: bool,
}

/// What changes for one agent.
#[derive(Serialize, ToSchema)]
pub struct AgentChange {
    /// `ORGANIZATION/AGENT`.
    agent: String,
    /// The tools that change, by name.
    tools: Vec<ToolChange>,
}

/// What changes about one tool.
#[derive(Serialize, ToSchema)]
pub struct ToolChange {
    /// `namespace/tool`.
    tool: String,
    /// What becomes of a call now.
    before: ToolVerdict,
    /// What would become of it.
    after: ToolVerdict,
    /// The layer that would decide.
    layer: &'static str,
    /// The rule that would decide; not told of the platform's to its tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    rule: Option<&'static str>,
    /// The channels on which this is so; left out where it is so on every one and without.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false)]
    channels: Option<Vec<String>>,
}

/// What a policy of the platform would change.
///
/// For every agent there is. Nothing is put in force.
#[utoipa::path(
    post, path = "/v1/platform/policy/diff", tag = "policies", operation_id = "preview_platform_policy",
    request_body(content = PlatformForm, example = json!({"blocked": ["files/delete"]})),
    responses((status = 200, description = "What would change.", body = Preview), UnsoundDocument),
)]
pub async fn platform(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    preview(&app, RuleKey::Platform, caller.organization.is_none(), &headers, body).await
}

/// What a policy of an organization would change.
///
/// For its agents. Nothing is put in force.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/policy/diff", tag = "policies", operation_id = "preview_organization_policy",
    params(OrganizationAddress),
    request_body(content = PolicyForm, example = json!({"enabled": ["arithmetic/*"]})),
    responses((status = 200, description = "What would change.", body = Preview), NoOrganization, UnsoundDocument),
)]
pub async fn organization(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    let organization = owned(&app, &caller, &organization)?;
    preview(&app, RuleKey::Policy(organization), caller.organization.is_none(), &headers, body).await
}

/// What a document of an agent would change.
///
/// Of one that does not exist yet: what it would have. Nothing is put in force.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/agents/{agent}/policy/diff", tag = "agents", operation_id = "preview_agent",
    params(AgentAddress),
    request_body(content = AgentForm, example = json!({"enabled": ["arithmetic/*"]})),
    responses((status = 200, description = "What would change.", body = Preview), NoOrganization, UnsoundDocument),
)]
pub async fn agent(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    let key = RuleKey::Agent(owned(&app, &caller, &organization)?, name(&agent)?);
    preview(&app, key, caller.organization.is_none(), &headers, body).await
}

fn owned(app: &App, caller: &crate::identity::Caller, organization: &str) -> Result<Name, Problem> {
    let organization = name(organization)?;
    caller.may_own(&organization)?;
    match app.0.registry.snapshot().knows(&organization) {
        true => Ok(organization),
        false => Err(Problem::not_found("organization")),
    }
}

async fn preview(
    app: &App,
    key: RuleKey,
    sees_platform: bool,
    headers: &HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    expect_json(headers)?;
    let text = body_text(app, body).await?;
    let before = app.0.registry.snapshot();
    let sound = key.read(&text, &before).map_err(CallError::from)?;
    let after = before.with_document(sound.replacement);
    let in_force = app.0.store.document(&key.clone().into()).await;
    let in_force = match in_force {
        Ok(document) => document.body,
        Err(StoreError::NotFound { .. }) => "{}".into(),
        Err(error) => return Err(CallError::from(error).into()),
    };
    let members = differing(&in_force, &text);
    // It may look at millions of decisions, and calls go on meanwhile.
    let comparing = move || {
        let left = documents::left_with_nothing(&key, Some(&before), &after);
        (compare(&before, &after, &key, sees_platform), left)
    };
    let compared = tokio::task::spawn_blocking(comparing).await;
    let ((agents, unchanged, complete), left) = compared.map_err(|_| {
        Problem::new(
            ErrorType::Internal,
            "the comparison failed",
            "tell the operator; the daemon's log says more",
        )
    })?;
    let warnings = sound.warnings.into_iter().chain(left).map(Into::into).collect();
    Ok(axum::Json(Preview { warnings, members, agents, unchanged, complete }))
}

/// The members in which two documents differ; absent and `null` are the same.
fn differing(one: &str, other: &str) -> Vec<String> {
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
            if decisions > DECISIONS || listed >= CHANGES {
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

/// No channel, and each that there is before or after.
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
        // Most changes are the same on every channel, and are then told once.
        let mut seen: BTreeMap<(u8, u8, Reason), Vec<Option<String>>> = BTreeMap::new();
        for facts in &contexts {
            let (before, _) = verdict(admission::decide(old, facts, &called));
            let (after, reason) = verdict(admission::decide(new, facts, &called));
            if before != after {
                seen.entry((before, after, reason)).or_default().push(facts.channel.clone());
            }
        }
        for ((before, after, reason), on) in seen {
            let is_told = sees_platform || reason.layer != admission::Layer::Platform;
            changes.push(ToolChange {
                tool: called.clone(),
                before: VERDICTS[usize::from(before)],
                after: VERDICTS[usize::from(after)],
                layer: reason.layer.as_str(),
                rule: is_told.then_some(reason.rule),
                channels: (on.len() < contexts.len())
                    .then(|| on.into_iter().map(|name| name.unwrap_or_else(|| "none".to_owned())).collect()),
            });
        }
    }
    changes
}

const VERDICTS: [ToolVerdict; 3] = [ToolVerdict::Allowed, ToolVerdict::NeedsApproval, ToolVerdict::Refused];

/// An index into the verdicts, and why.
fn verdict<P>(decision: Decision<'_, P>) -> (u8, Reason) {
    match decision {
        Decision::Allowed(_) => (0, Reason { layer: admission::Layer::Agent, rule: "enabled" }),
        Decision::NeedsApproval(_, reason) => (1, reason),
        Decision::Refused(reason) => (2, reason),
    }
}
