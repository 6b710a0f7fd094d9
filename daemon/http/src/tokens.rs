//! Tokens over HTTP. Only the response that created a token has its text.

use axum::http::StatusCode;
use toolgate_api::error::ErrorType;
use toolgate_api::network::Network;
use toolgate_api::page::List;
use toolgate_api::token::{Role, TokenRequest, TokenView};
use toolgate_core::identity::{NewToken, TokenSummary};
use toolgate_state::clock::now_ms;
use toolgate_state::documents::warning_view;

use super::body::Json;
use super::documents::name;
use super::error_responses::{AuditUnavailable, LastOperator, NoOrganization, NoToken, TooManyTokens};
use super::extract::{Client, Path, Query};
use super::paging::Page;
use super::path_params::TokenPath;
use super::problem::Problem;

/// List the tokens that the caller can see.
///
/// Oldest first. Operators see all tokens, owners those of their organization. The list has no revoked tokens, and
/// never the text of a token.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "tokens", operation_id = "list_tokens", params(Page),
    responses((status = 200, description = "A page of the tokens.", body = List<TokenView>)),
)]
pub async fn list(
    Client { app, caller }: Client,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<TokenView>>, Problem> {
    let tokens = app.services().identity.list(&caller, page.cursor.as_deref(), page.limit() as usize + 1)?;
    let items = tokens.into_iter().map(view).collect();
    Ok(axum::Json(List::new(items, page.limit(), |token| token.id.clone())))
}

/// Create a token.
///
/// The response has the token's text, which is never returned again; the daemon stores a hash. Callers cannot grant
/// more access than they have: owners create tokens for their own organization only. Without `expires_at`, the token ends
/// after the daemon's `tokens.default_days`.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", operation_id = "create_token",
    request_body(content = TokenRequest, example = json!({"role": "orchestrator", "organization": "acme", "agents": ["support"], "label": "chat backend"})),
    responses(
        (status = 201, description = "The token, shown this once.", body = TokenView,
            links(("revoke" = (operation_id = "revoke_token", parameters(("id" = "$response.body#/id")), description = "The `id` is what revokes it.")))),
        NoOrganization, TooManyTokens, AuditUnavailable,
    ),
)]
pub async fn post(
    Client { app, caller }: Client,
    Json(request): Json<TokenRequest>,
) -> Result<(StatusCode, axum::Json<TokenView>), Problem> {
    let organization = request.organization.as_deref().map(name).transpose()?;
    let agents = request.agents.map(|names| names.iter().map(|text| name(text)).collect()).transpose()?;
    let role = role(&request.role)?;
    let addresses =
        request.addresses.map(|texts| texts.iter().map(|text| network(text)).collect()).transpose()?;
    let default_end_ms = app.settings().tokens.default_end_ms(now_ms());
    let expires_ms = end(request.expires_at, request.never_expires, default_end_ms)?;
    let TokenRequest { label, user, .. } = request;
    let wanted = NewToken { role, organization, agents, label, expires_ms, addresses, user };
    let (made, warnings) = app.admin().create_token(app.actor(&caller), wanted).await?;
    let token = Some(made.secret.text());
    let warnings = Some(warnings.into_iter().map(warning_view).collect());
    Ok((StatusCode::CREATED, axum::Json(TokenView { token, warnings, ..view(made.summary) })))
}

/// Revoke a token.
///
/// The token becomes invalid with this request; calls that run for it are cancelled. A caller can revoke its own
/// token, but not the last operator token, because no token could then create another.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", tag = "tokens", operation_id = "revoke_token", params(TokenPath),
    responses((status = 204, description = "It is no longer good."), NoToken, LastOperator, AuditUnavailable),
)]
pub async fn delete(
    Client { app, caller }: Client,
    Path(TokenPath { id }): Path<TokenPath>,
) -> Result<StatusCode, Problem> {
    app.admin().revoke_token(app.actor(&caller), &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The end of a new token, in milliseconds since 1970.
fn end(
    expires_at: Option<u64>,
    never_expires: bool,
    default_end_ms: Option<u64>,
) -> Result<Option<u64>, Problem> {
    match (expires_at, never_expires) {
        (Some(_), true) => Err(Problem::new(
            ErrorType::InvalidRequest,
            "the token has an end in `expires_at` and none by `never_expires`",
            "send one of them",
        )),
        (None, true) => Ok(None),
        (None, false) => Ok(default_end_ms),
        (asked, false) => Ok(asked),
    }
}

pub fn view(token: TokenSummary) -> TokenView {
    TokenView {
        id: token.id,
        role: token.role,
        organization: token.organization.map(|name| name.to_string()),
        agents: token.agents.map(|names| names.iter().map(ToString::to_string).collect()),
        label: token.label,
        created_ms: token.created_ms,
        expires_at: token.expires_ms,
        addresses: token.addresses.map(|networks| networks.iter().map(ToString::to_string).collect()),
        user: token.user,
        last_used_ms: token.last_used_ms,
        token: None,
        warnings: None,
    }
}

pub fn network(text: &str) -> Result<Network, Problem> {
    Network::parse(text).map_err(|error| {
        Problem::new(
            ErrorType::InvalidRequest,
            error.to_string(),
            "write the first address and the prefix length",
        )
    })
}

pub fn role(text: &str) -> Result<Role, Problem> {
    Role::parse(text).ok_or_else(|| unknown_role(text))
}

fn unknown_role(role: &str) -> Problem {
    let shown: String = role.chars().filter(|character| !character.is_control()).take(40).collect();
    Problem::new(
        ErrorType::InvalidRequest,
        format!("`{shown}` is not a role"),
        "use `operator`, `owner`, `orchestrator`, `agent`, `approver` or `auditor`",
    )
}
