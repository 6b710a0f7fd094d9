//! Sessions over HTTP: open, look at, end, and the tools that can be called there.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolgate_admission::{self as admission, CallError, ErrorType, Name, SessionFacts};
use utoipa::ToSchema;

use super::address::SessionAddress;
use super::body::Json;
use super::extract::Path;
use super::problem::Problem;
use super::refusal::{NoAgent, NoSession, NoTools, SessionEnded, Unrecordable};
use super::{App, Authenticated};
use crate::dispatch::now_ms;
use crate::identifier;
use crate::sessions::{Session, SessionSetup};
use crate::store::SessionRow;

/// Longest `user`, `conversation` and `channel`, in bytes. They are ids of the orchestrator's.
const LABEL_BYTES: usize = 200;

/// Whom a session is for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    /// `ORGANIZATION/AGENT`.
    #[schema(
        pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?/[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$",
        max_length = 129,
        example = "acme/support"
    )]
    agent: String,
    /// Whom the orchestrator acts for: an id of its own, at most 200 bytes.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$", example = "u-17")]
    user: Option<String>,
    /// The orchestrator's conversation: an id of its own, at most 200 bytes.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    conversation: Option<String>,
    /// Where it takes place: `sms`, `email`, `webchat`, …
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$", example = "webchat")]
    channel: Option<String>,
}

/// An open session.
#[derive(Serialize, ToSchema)]
pub struct SessionView {
    /// Its id.
    session: String,
    /// `ORGANIZATION/AGENT`.
    agent: String,
    /// Whom the orchestrator acts for.
    #[schema(required)]
    user: Option<String>,
    /// The orchestrator's conversation.
    #[schema(required)]
    conversation: Option<String>,
    /// Where it takes place.
    #[schema(required)]
    channel: Option<String>,
    /// The tools that can be called.
    tools: Vec<ToolDefinition>,
    /// When it ends unless it is used, in milliseconds since 1970.
    expires_at: u64,
}

/// A tool as a model is told of it.
#[derive(Serialize, ToSchema)]
pub struct ToolDefinition {
    /// The name that a model calls.
    name: String,
    /// What it does, and how to call it well.
    description: String,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    input_schema: serde_json::Value,
    /// JSON Schema of the result, where the tool declares one.
    #[schema(value_type = Option<Object>, required)]
    output_schema: Option<serde_json::Value>,
    /// Whether it changes nothing.
    read_only: bool,
}

/// The tools of a session.
#[derive(Serialize, ToSchema)]
pub struct ToolList {
    /// The tools that can be called.
    tools: Vec<ToolDefinition>,
}

/// Open a session for an agent.
///
/// Calls are made in a session, which has a workspace of its own and ends when it is not used for long. None
/// is opened for an agent that could call nothing.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", operation_id = "open_session",
    request_body(content = SessionRequest, example = json!({"agent": "acme/support", "user": "u-17", "channel": "webchat"})),
    responses(
        (status = 201, description = "It is open.", body = SessionView,
            headers(("Location" = String, description = "The session's address.")),
            links(
                ("session" = (operation_id = "get_session", parameters(("id" = "$response.body#/session")), description = "Look at it.")),
                ("end" = (operation_id = "end_session", parameters(("id" = "$response.body#/session")), description = "End it.")),
                ("tools" = (operation_id = "list_session_tools", parameters(("id" = "$response.body#/session")), description = "What can be called in it.")),
                ("calls" = (operation_id = "call_tools", parameters(("id" = "$response.body#/session")), description = "Call tools in it.")),
                ("files" = (operation_id = "list_files", parameters(("id" = "$response.body#/session")), description = "Its workspace.")),
            )),
        NoAgent, NoTools, Unrecordable,
    ),
)]
pub async fn post(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Json(request): Json<SessionRequest>,
) -> Result<Response, Problem> {
    let (organization, agent) = agent_named(&request.agent)?;
    caller.may_orchestrate(&organization, &agent)?;
    let setup = SessionSetup {
        id: identifier::fresh("s"),
        organization,
        agent,
        user: label("user", request.user)?,
        conversation: label("conversation", request.conversation)?,
        channel: label("channel", request.channel)?,
        principal: caller.token_id.to_string(),
        created_ms: now_ms(),
    };
    let facts = SessionFacts { channel: setup.channel.clone(), ..SessionFacts::default() };
    let tools = callable(&app, &setup.organization, &setup.agent, &facts)?;
    if tools.is_empty() {
        return Err(no_tools());
    }
    app.0.store.add_session(&row(&setup)).await.map_err(CallError::from)?;
    let created_ms = setup.created_ms;
    let session = app.0.sessions.open(setup, facts, created_ms);
    let location = HeaderValue::from_str(&format!("/v1/sessions/{}", session.setup.id));
    let mut response = (StatusCode::CREATED, axum::Json(view(&app, &session, tools))).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Look at a session.
///
/// With the tools that can be called in it now, which follow every change of plugins and policies.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "get_session",
    params(SessionAddress),
    responses((status = 200, description = "The session.", body = SessionView), NoSession, SessionEnded),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<axum::Json<SessionView>, Problem> {
    let session = app.session_of(&caller, &id)?;
    let tools = tools_of(&app, &session);
    Ok(axum::Json(view(&app, &session, tools)))
}

/// End a session.
///
/// Running calls are cancelled and its files removed.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "end_session",
    params(SessionAddress),
    responses((status = 204, description = "It has ended."), NoSession, SessionEnded, Unrecordable),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let session = app.session_of(&caller, &id)?;
    let ending = async {
        app.0.store.end_session(&id, now_ms()).await?;
        app.0.sessions.end(&id).await;
        Ok(())
    };
    app.act(&caller, Some(&session.setup.organization), "session.end", &id, ending).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the tools that can be called in a session now.
///
/// With names, descriptions and JSON Schemas as a model is told of them.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/tools", tag = "sessions", operation_id = "list_session_tools",
    params(SessionAddress),
    responses((status = 200, description = "The callable tools.", body = ToolList), NoSession, SessionEnded),
)]
pub async fn tools(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<axum::Json<ToolList>, Problem> {
    let session = app.session_of(&caller, &id)?;
    Ok(axum::Json(ToolList { tools: tools_of(&app, &session) }))
}

fn agent_named(text: &str) -> Result<(Name, Name), Problem> {
    let named = text
        .split_once('/')
        .and_then(|(organization, agent)| Some((Name::parse(organization).ok()?, Name::parse(agent).ok()?)));
    named.ok_or_else(|| {
        Problem::new(
            ErrorType::InvalidRequest,
            "`agent` is not of the form `ORGANIZATION/AGENT`",
            "name both, in lower-case letters, digits, `-` and `_`, like `acme/support`",
        )
    })
}

fn label(field: &str, text: Option<String>) -> Result<Option<String>, Problem> {
    let sound =
        |text: &String| !text.is_empty() && text.len() <= LABEL_BYTES && !text.chars().any(char::is_control);
    match text {
        Some(text) if !sound(&text) => Err(Problem::new(
            ErrorType::InvalidRequest,
            format!("`{field}` is empty, longer than {LABEL_BYTES} bytes, or has control characters"),
            "send a short id, or leave the field out",
        )),
        text => Ok(text),
    }
}

fn callable(
    app: &App,
    organization: &Name,
    agent: &Name,
    facts: &SessionFacts,
) -> Result<Vec<ToolDefinition>, Problem> {
    let snapshot = app.0.registry.snapshot();
    let rules = snapshot.rules(organization, agent).ok_or_else(|| Problem::not_found("agent"))?;
    Ok(admission::callable(&rules, facts).map(|tool| definition(tool.descriptor())).collect())
}

/// The tools of an open session. Of an agent that is gone, none.
fn tools_of(app: &App, session: &Session) -> Vec<ToolDefinition> {
    let setup = &session.setup;
    callable(app, &setup.organization, &setup.agent, &session.facts).unwrap_or_default()
}

fn definition(tool: &admission::ToolDescriptor) -> ToolDefinition {
    let description = if tool.usage == tool.description {
        tool.description.clone()
    } else {
        format!("{}\n\n{}", tool.description, tool.usage)
    };
    ToolDefinition {
        name: tool.wire.to_string(),
        description,
        input_schema: tool.input.source().clone(),
        output_schema: tool.output.as_ref().map(|schema| schema.source().clone()),
        read_only: tool.hints.read_only,
    }
}

/// G1, word for word.
fn no_tools() -> Problem {
    Problem::new(
        ErrorType::NoTools,
        "This agent has no tools configured. Please contact the agent creator to add API access.",
        "name tools in the agent's `enabled` list",
    )
}

fn view(app: &App, session: &Session, tools: Vec<ToolDefinition>) -> SessionView {
    let setup = &session.setup;
    let idle_ms = app.settings().sessions.idle_seconds.saturating_mul(1000);
    SessionView {
        session: setup.id.clone(),
        agent: format!("{}/{}", setup.organization, setup.agent),
        user: setup.user.clone(),
        conversation: setup.conversation.clone(),
        channel: setup.channel.clone(),
        tools,
        expires_at: session.last_used_ms().saturating_add(idle_ms),
    }
}

fn row(setup: &SessionSetup) -> SessionRow {
    SessionRow {
        id: setup.id.clone(),
        organization: setup.organization.clone(),
        agent: setup.agent.clone(),
        user: setup.user.clone(),
        conversation: setup.conversation.clone(),
        channel: setup.channel.clone(),
        opened_by: setup.principal.clone(),
        disabled_tools: Vec::new(),
        rounds: 0,
        created_ms: setup.created_ms,
        last_used_ms: setup.created_ms,
        ended_ms: None,
    }
}
