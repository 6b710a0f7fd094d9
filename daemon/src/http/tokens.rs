//! Tokens over HTTP. The text of a token is shown once, in the answer that made it.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use toolgate_admission::{CallError, ErrorType, Name, Warning, nearest};
use utoipa::ToSchema;

use super::address::TokenAddress;
use super::body::Json;
use super::documents::DocumentWarning;
use super::extract::{Path, Query};
use super::problem::Problem;
use super::refusal::{LastOperator, NoOrganization, NoToken, Unrecordable};
use super::{App, Authenticated, List, Page};
use crate::clock::now_ms;
use crate::identity::{NewToken, Role, TokenSummary};
use crate::registry::Snapshot;

/// What a token is to be good for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// What it is good for. An `operator` has no organization, an `owner` and an `orchestrator` need one, an
    /// `auditor` without one reads the whole log.
    #[schema(value_type = Role)]
    role: String,
    /// The organization; needed for all but operators and auditors of the whole platform.
    #[schema(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    organization: Option<String>,
    /// The agents that an orchestrator may speak for; absent means all of the organization. One that is not there is warned
    /// of: it may be made later.
    #[schema(min_items = 1)]
    agents: Option<Vec<String>>,
    /// For people: at most 200 bytes.
    #[serde(default)]
    #[schema(max_length = 200)]
    label: String,
}

/// A token as lists show it.
#[derive(Serialize, ToSchema)]
pub struct TokenView {
    /// Its id.
    id: String,
    /// What it is good for.
    #[schema(value_type = Role)]
    role: &'static str,
    /// The organization; null for the whole platform.
    #[schema(required)]
    organization: Option<String>,
    /// The agents that it may speak for; null where it is not for single agents.
    #[schema(required)]
    agents: Option<Vec<String>>,
    /// For people.
    label: String,
    /// When it was made, in milliseconds since 1970.
    #[schema(minimum = 0)]
    created_ms: u64,
    /// The token itself, in the answer that made it and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    token: Option<String>,
    /// Agents that are not there, in the answer that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<DocumentWarning>, required = false)]
    warnings: Option<Vec<DocumentWarning>>,
}

/// List the tokens that the caller may see.
///
/// Oldest first. Operators see all, owners those of their organization. Those that were revoked are not in
/// it, and never the token itself.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "tokens", operation_id = "list_tokens", params(Page),
    responses((status = 200, description = "A page of the tokens.", body = List<TokenView>)),
)]
pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<TokenView>>, Problem> {
    let limit = page.limit() as usize;
    let mut found = app.parts().identity.list(&caller, page.cursor.as_deref(), limit + 1)?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|token| token.id.clone());
    let items = found.into_iter().map(view).collect();
    Ok(axum::Json(List { items, next_cursor }))
}

/// Create a token.
///
/// The response has the token's text, which is never returned again; the daemon stores a hash. Callers cannot grant
/// more access than they have: owners create tokens for their own organization only.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", operation_id = "create_token",
    request_body(content = TokenRequest, example = json!({"role": "orchestrator", "organization": "acme", "agents": ["support"], "label": "chat backend"})),
    responses(
        (status = 201, description = "The token, shown this once.", body = TokenView,
            links(("revoke" = (operation_id = "revoke_token", parameters(("id" = "$response.body#/id")), description = "The `id` is what revokes it.")))),
        NoOrganization, Unrecordable,
    ),
)]
pub async fn post(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Json(request): Json<TokenRequest>,
) -> Result<(StatusCode, axum::Json<TokenView>), Problem> {
    let organization = request.organization.as_deref().map(name).transpose()?;
    let agents = request.agents.map(|names| names.iter().map(|text| name(text)).collect()).transpose()?;
    let role = Role::parse(&request.role).ok_or_else(|| unknown_role(&request.role))?;
    let wanted = NewToken { role, organization: organization.clone(), agents, label: request.label };
    let may_issue = caller.may_issue(role, organization.as_ref());
    // What strangers ask of an organization stands in their own log and not in that one.
    let whose = if may_issue.is_ok() { &organization } else { &caller.organization };
    let making = async {
        may_issue?;
        if let Some(organization) = &organization
            && !app.parts().registry.snapshot().knows(organization)
        {
            return Err(Problem::not_found("organization").0);
        }
        app.parts().identity.create(&caller, wanted, now_ms()).await
    };
    let made = app.act(&caller, whose.as_ref(), "token.create", &request.role, making).await?;
    let token = Some(made.secret.text());
    let warnings = Some(unknown_agents(&app.parts().registry.snapshot(), &made.summary));
    Ok((StatusCode::CREATED, axum::Json(TokenView { token, warnings, ..view(made.summary) })))
}

/// A token for an agent that is not there opens no session, and nothing else would say that its name is misspelt.
fn unknown_agents(snapshot: &Snapshot, token: &TokenSummary) -> Vec<DocumentWarning> {
    let (Some(organization), Some(agents)) = (&token.organization, &token.agents) else { return Vec::new() };
    let known = snapshot.agents(organization);
    let unknown = agents.iter().enumerate().filter(|(_, agent)| !known.contains(agent));
    let warnings = unknown.map(|(at, agent)| Warning {
        nearest: nearest(agent.as_str(), known.iter().map(Name::as_str)).map(str::to_owned),
        ..Warning::new(
            "UNRESOLVED_AGENT",
            format!("/agents/{at}"),
            format!("the organization `{organization}` has no agent `{agent}`"),
        )
    });
    warnings.map(DocumentWarning::from).collect()
}

/// Revoke a token.
///
/// The token becomes invalid with this request; calls that run for it are cancelled. A caller can revoke its own
/// token, but not the last operator token, because no token could then create another.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", tag = "tokens", operation_id = "revoke_token",
    params(TokenAddress),
    responses((status = 204, description = "It is no longer good."), NoToken, LastOperator, Unrecordable),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let revoking = app.parts().identity.revoke(&caller, &id, now_ms());
    app.act(&caller, caller.organization.as_ref(), "token.revoke", &id, revoking).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn view(token: TokenSummary) -> TokenView {
    TokenView {
        id: token.id,
        role: token.role.as_str(),
        organization: token.organization.map(|name| name.to_string()),
        agents: token.agents.map(|names| names.iter().map(ToString::to_string).collect()),
        label: token.label,
        created_ms: token.created_ms,
        token: None,
        warnings: None,
    }
}

fn name(text: &str) -> Result<Name, Problem> {
    Name::parse(text)
        .map_err(|error| CallError::new(ErrorType::InvalidRequest, error.message, error.hint).into())
}

fn unknown_role(role: &str) -> Problem {
    let shown: String = role.chars().filter(|character| !character.is_control()).take(40).collect();
    Problem::new(
        ErrorType::InvalidRequest,
        format!("`{shown}` is not a role"),
        "use `operator`, `owner`, `orchestrator` or `auditor`",
    )
}
