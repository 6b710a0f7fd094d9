//! Explanations over HTTP (G16).

use toolgate_core::admin::explain;

use super::error_responses::{NoAgent, SessionEnded};
use super::extract::{Client, Path, Query};
use super::path_params::AgentPath;
use super::problem::Problem;
use serde::Deserialize;
use toolgate_admission::SessionFacts;
use toolgate_api::explain::Explanation;
use toolgate_api::name::Namespace;
use utoipa::IntoParams;

/// The query of an explanation.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExplainQuery {
    /// The tool, by the name used in calls or in documents. Default: every loaded tool, in short form.
    pub tool: Option<String>,
    /// The channel for which access is evaluated.
    pub channel: Option<String>,
    /// The session for which access is evaluated, with its channel and its unavailable tools.
    pub session: Option<String>,
}

/// Explain what an agent may call.
///
/// Returns, for each tool, the layer that allows or denies it and the rule. The same function decides about calls.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents/{agent}/explain", tag = "agents", operation_id = "explain_agent", params(AgentPath, ExplainQuery),
    responses((status = 200, description = "The explanation.", body = Explanation), NoAgent, SessionEnded),
)]
pub async fn get(
    Client { app, caller }: Client,
    Path(AgentPath { organization, agent }): Path<AgentPath>,
    Query(query): Query<ExplainQuery>,
) -> Result<axum::Json<Explanation>, Problem> {
    caller.may_own(&organization)?;
    let registry = &app.services().registry;
    match &query.tool {
        Some(tool) => registry.wait_for_tool(tool).await,
        None => registry.wait_for_all_tools().await,
    }
    let snapshot = registry.snapshot();
    let rules =
        snapshot.rules(&organization, &agent).ok_or_else(|| Problem::no_agent(&organization, &agent))?;
    super::sessions::check_channel(&rules.organization, query.channel.as_deref())?;
    let facts = match &query.session {
        None => SessionFacts { channel: query.channel.clone(), ..SessionFacts::default() },
        Some(id) => {
            let session = app.session_of(&caller, id).await?;
            if (&session.setup.organization, &session.setup.agent) != (&organization, &agent) {
                return Err(Problem::not_found("session"));
            }
            let facts = SessionFacts::clone(&session.state.facts());
            SessionFacts { channel: query.channel.clone().or(facts.channel.clone()), ..facts }
        }
    };
    let mut explanation = explain(&rules, &facts, query.tool.as_deref(), caller.organization.is_none());
    for tool in &mut explanation.tools {
        if let Some(found) = rules.catalogue.find(&tool.tool) {
            let not_shared = app.services().credentials.not_shared(&organization, found.access());
            tool.not_over_mcp = (!not_shared.is_empty()).then_some(not_shared);
        }
        let Some(namespace) = tool.tool.split_once('/').and_then(|(name, _)| Namespace::parse(name).ok())
        else {
            continue;
        };
        let is_own = snapshot.owners_of(&namespace).contains(&&organization);
        if let (true, Some(why)) =
            (is_own && snapshot.catalogue().plugin(&namespace).is_some(), &mut tool.why)
        {
            *why += "; it is the organization's own tool, in place of the platform's plugin of this name";
        }
    }
    explanation.revision = snapshot.revision;
    explanation.agent = format!("{organization}/{agent}");
    explanation.session = query.session;
    Ok(axum::Json(explanation))
}
