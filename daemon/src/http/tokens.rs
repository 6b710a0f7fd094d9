//! Tokens over HTTP. Only the response that created a token has its text.

use super::body::Json;
use super::error_responses::{AuditUnavailable, LastOperator, NoOrganization, NoToken};
use super::extract::{Authenticated, Path, Query};
use super::paging::Page;
use super::path_params::TokenPath;
use super::problem::Problem;
use super::state::App;
use crate::clock::now_ms;
use crate::documents::warning_view;
use crate::identity::{NewToken, TokenSummary};
use crate::registry::Snapshot;
use axum::extract::State;
use axum::http::StatusCode;
use toolgate_admission::{CallError, ErrorType, Name, Warning, nearest};
use toolgate_api::document::DocumentWarning;
use toolgate_api::page::List;
use toolgate_api::token::{Role, TokenRequest, TokenView};

/// List the tokens that the caller can see.
///
/// Oldest first. Operators see all tokens, owners those of their organization. The list has no revoked tokens, and
/// never the text of a token.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "tokens", operation_id = "list_tokens", params(Page),
    responses((status = 200, description = "A page of the tokens.", body = List<TokenView>)),
)]
pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<TokenView>>, Problem> {
    let tokens = app.parts().identity.list(&caller, page.cursor.as_deref(), page.limit() as usize + 1)?;
    let items = tokens.into_iter().map(view).collect();
    Ok(axum::Json(List::new(items, page.limit(), |token| token.id.clone())))
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
        NoOrganization, AuditUnavailable,
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
    // A refused request from another organization is recorded in the caller's own audit log, not in the target's.
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

/// Warns of unknown agents. A token for an unknown agent opens no session, and no other check reports the misspelt
/// name.
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
    warnings.map(warning_view).collect()
}

/// Revoke a token.
///
/// The token becomes invalid with this request; calls that run for it are cancelled. A caller can revoke its own
/// token, but not the last operator token, because no token could then create another.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", tag = "tokens", operation_id = "revoke_token",
    params(TokenPath),
    responses((status = 204, description = "It is no longer good."), NoToken, LastOperator, AuditUnavailable),
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
        role: token.role,
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
