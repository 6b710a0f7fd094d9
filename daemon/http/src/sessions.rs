//! Sessions over HTTP: open, read, end. The tools of a session are in `tools`.

use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use toolgate_admission::{OrgRules, Rules, SessionFacts};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::session::{SessionRequest, SessionView};
use toolgate_core::admin::Actor;
use toolgate_core::sessions::{Session, SessionSetup};
use toolgate_sandbox::Component;
use toolgate_state::clock::now_ms;
use toolgate_state::identifier;

use super::body::Json;
use super::dialects::tools::{Deferral, Format, ListForm, list};
use super::error_responses::{
    AuditUnavailable, NoAgent, NoSession, NoTools, SessionEnded, TooManySessions, UnknownChannel,
};
use super::extract::{Client, Path};
use super::path_params::SessionPath;
use super::problem::Problem;
use super::state::App;
use super::tools::{VisibleTool, tools_of};
use crate::prompt::system_prompt;

/// Channels that a refusal names.
const NAMED_CHANNELS: usize = 20;

/// Longest `user`, `conversation` and `channel`, in bytes. They are ids that the orchestrator assigns.
const LABEL_BYTES: usize = 200;

/// Maximum number of tools in the log message of an opened session; an agent may have thousands.
const LOGGED_TOOLS: usize = 50;

/// Open a session for an agent.
///
/// Calls are made in a session. A session has its own workspace and ends after a period without use. The request is
/// refused for an agent without a callable tool.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", operation_id = "open_session",
    request_body(content = SessionRequest, example = json!({"agent": "acme/support", "user": "u-17", "channel": "webchat"})),
    responses(
        (status = 201, description = "The session is open.", body = SessionView,
            headers(("Location" = String, description = "The session's address.")),
            links(
                ("session" = (operation_id = "get_session", parameters(("id" = "$response.body#/session")), description = "Look at it.")),
                ("end" = (operation_id = "end_session", parameters(("id" = "$response.body#/session")), description = "End it.")),
                ("tools" = (operation_id = "list_session_tools", parameters(("id" = "$response.body#/session")), description = "The tools that the session can call.")),
                ("calls" = (operation_id = "call_tools", parameters(("id" = "$response.body#/session")), description = "Call tools in it.")),
                ("files" = (operation_id = "list_files", parameters(("id" = "$response.body#/session")), description = "Its workspace.")),
            )),
        NoAgent, NoTools, UnknownChannel, TooManySessions, AuditUnavailable,
    ),
)]
pub async fn post(
    Client { app, caller }: Client,
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
    let (session, tools) = open(&app, app.actor(&caller), setup).await?;
    let location = HeaderValue::from_str(&format!("/v1/sessions/{}", session.setup.id));
    let mut response = (StatusCode::CREATED, axum::Json(view(&app, &session, &tools))).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Opens a session, and returns it with its callable tools.
pub(super) async fn open(
    app: &App,
    actor: Actor<'_>,
    setup: SessionSetup,
) -> Result<(Arc<Session>, Vec<VisibleTool>), Problem> {
    let facts = SessionFacts { channel: setup.channel.clone(), ..SessionFacts::default() };
    app.services().registry.wait_for_tools_of(&setup.organization, &setup.agent).await;
    let rules = match rules_of(app, &setup) {
        Ok(rules) => rules,
        Err(Problem(refusal)) => return Err(app.admin().refuse_session(actor, &setup, refusal).await.into()),
    };
    let tools = VisibleTool::all(&rules, &facts);
    let session = app.admin().open_session(actor, setup, facts, &rules).await?;
    let log = &app.services().log;
    log.agent_loaded(&session.setup, tools.len(), &Names(&tools));
    Ok((session, tools))
}

/// The rules of the session's agent, if it exists and can be reached on the session's channel.
fn rules_of(app: &App, setup: &SessionSetup) -> Result<Rules<Component>, Problem> {
    let rules = app.services().registry.snapshot().rules(&setup.organization, &setup.agent);
    let rules = rules.ok_or_else(|| Problem::no_agent(&setup.organization, &setup.agent))?;
    check_channel(&rules.organization, setup.channel.as_deref())?;
    match setup.channel.is_none() && rules.platform.document().channel_required {
        true => Err(no_channel(&rules.organization)),
        false => Ok(rules),
    }
}

/// Get a session.
///
/// The response lists the tools that can be called now; the list follows every change of plugins and policies.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "get_session", params(SessionPath),
    responses((status = 200, description = "The session.", body = SessionView), NoSession, SessionEnded),
)]
pub async fn get(
    Client { app, caller }: Client,
    Path(SessionPath { id }): Path<SessionPath>,
) -> Result<axum::Json<SessionView>, Problem> {
    let session = app.session_of(&caller, &id).await?;
    let tools = tools_of(&app, &session).await;
    Ok(axum::Json(view(&app, &session, &tools)))
}

/// End a session.
///
/// Running calls are cancelled, and the files of the session are removed.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "end_session", params(SessionPath),
    responses((status = 204, description = "The session has ended."), NoSession, SessionEnded, AuditUnavailable),
)]
pub async fn delete(
    Client { app, caller }: Client,
    Path(SessionPath { id }): Path<SessionPath>,
) -> Result<StatusCode, Problem> {
    let session = app.session_of(&caller, &id).await?;
    app.admin().end_session(app.actor(&caller), &session).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) fn agent_named(text: &str) -> Result<(Name, Name), Problem> {
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

pub fn label(field: &str, text: Option<String>) -> Result<Option<String>, Problem> {
    let is_valid =
        |text: &String| !text.is_empty() && text.len() <= LABEL_BYTES && !text.chars().any(char::is_control);
    match text {
        Some(text) if !is_valid(&text) => Err(Problem::new(
            ErrorType::InvalidRequest,
            format!("`{field}` is empty, longer than {LABEL_BYTES} bytes, or has control characters"),
            "send a short id, or leave the field out",
        )),
        text => Ok(text),
    }
}

fn no_channel(rules: &OrgRules) -> Problem {
    let known: Vec<_> = rules.channels().take(NAMED_CHANNELS).map(|name| format!("`{name}`")).collect();
    let hint = match known.as_slice() {
        [] => "have channels added to a policy".to_owned(),
        known => format!("send `channel`: one of {}", known.join(", ")),
    };
    let error =
        CallError::new(ErrorType::InvalidRequest, "a session needs a channel by the platform's policy", hint);
    Problem(error.with_pointer("/channel"))
}

/// Checks that the channel is declared by the platform or the organization.
pub fn check_channel(rules: &OrgRules, channel: Option<&str>) -> Result<(), Problem> {
    let Some(channel) = channel else { return Ok(()) };
    if rules.channels().any(|known| known == channel) {
        return Ok(());
    }
    let hint = match toolgate_api::nearest(channel, rules.channels()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "leave it out, or have it added to `channels` of a policy".to_owned(),
    };
    let message = format!("there is no channel `{}`", toolgate_api::text::escape_for_display(channel, 64));
    Err(Problem::new(ErrorType::InvalidRequest, message, hint))
}

/// The first tools of a session, by the names that a model calls, for the log.
struct Names<'a>(&'a [VisibleTool]);

impl std::fmt::Display for Names<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, tool) in self.0.iter().take(LOGGED_TOOLS).enumerate() {
            write!(out, "{}{}", if position == 0 { "" } else { ", " }, tool.name())?;
        }
        if self.0.len() > LOGGED_TOOLS { out.write_str(", …") } else { Ok(()) }
    }
}

/// G1 specifies the message word for word.
fn view(app: &App, session: &Session, tools: &[VisibleTool]) -> SessionView {
    let setup = &session.setup;
    let form = ListForm { format: Format::Toolgate, strict: false, deferral: Deferral::None };
    let idle_ms = app.settings().sessions.idle_seconds.saturating_mul(1000);
    SessionView {
        session: setup.id.clone(),
        agent: format!("{}/{}", setup.organization, setup.agent),
        user: setup.user.clone(),
        conversation: setup.conversation.clone(),
        channel: setup.channel.clone(),
        system_prompt: system_prompt(tools.iter().map(VisibleTool::name), tools.len()),
        tools: list(form, tools.iter().map(VisibleTool::to_listed)).tools,
        expires_at: session.last_used_ms().saturating_add(idle_ms),
    }
}
