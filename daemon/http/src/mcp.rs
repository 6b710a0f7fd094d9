//! The Model Context Protocol over Streamable HTTP (M2): the revisions 2026-07-28 and 2025-11-25 on one path.
//!
//! The token decides whose tools a client has. `rmcp` speaks the protocol and keeps the sessions of its older revisions; its
//! types stay in this module. A list or a call takes the same way as one over HTTP: this module translates.

mod answers;
mod ask;
mod clients;
mod handler;
mod lists;
mod tasks;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::Either;
use futures_util::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use toolgate_api::error::ErrorType;
use toolgate_api::json::parse_strict;
use toolgate_api::name::Name;
use toolgate_core::identity::Caller;
use toolgate_state::config::Config;
use utoipa::IntoParams;
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

use super::body;
use super::extract::{Authenticated, Query};
use super::problem::Problem;
use super::sessions::label;
use super::state::App;
use clients::{Client, Clients};
use handler::Handler;

/// Deepest nesting of arguments that is read here. No policy allows deeper ones.
const ARGUMENTS_DEPTH: u64 = 128;

/// Header with the id of a session of the older revisions.
const SESSION_ID: &str = "mcp-session-id";

/// The MCP server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Mcp {
    service: StreamableHttpService<Handler, LocalSessionManager>,
    clients: Arc<Clients>,
}

impl Mcp {
    /// The server; it stops its calls when `shutdown` is cancelled.
    fn new(config: &Config, shutdown: CancellationToken) -> Self {
        let sessions = Arc::new(session_manager(config));
        let body_bytes = usize::try_from(config.http.body_bytes).unwrap_or(usize::MAX);
        // `service.rs` has checked host and origin.
        let settings = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_json_response(true)
            // Only the response to a call is worth resuming.
            .with_sse_retry(None)
            .with_max_request_body_bytes(body_bytes)
            .with_cancellation_token(shutdown);
        let service = StreamableHttpService::new(|| Ok(Handler), Arc::clone(&sessions), settings);
        Self { service, clients: Arc::new(Clients::new(sessions)) }
    }
}

/// The sessions of the older revisions. `rmcp` would keep the responses of a session for a minute after they were sent, and
/// for as long as the session is idle after its last one.
fn session_manager(config: &Config) -> LocalSessionManager {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(Duration::from_secs(config.sessions.idle_seconds));
    sessions.session_config.completed_cache_ttl = Duration::ZERO;
    sessions
}

/// The routes of the endpoint, with the server that they share.
pub(super) fn routes(app: &App) -> UtoipaMethodRouter<App> {
    let mcp = Mcp::new(app.settings(), app.services().detached.shutdown().clone());
    let (schemas, paths, methods) = routes!(post, session);
    (schemas, paths, methods.layer(Extension(mcp)))
}

/// The query of the endpoint.
#[derive(Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct McpQuery {
    /// The agent, `NAME` or `ORGANIZATION/NAME`. A token of role `agent` needs none; other tokens do.
    #[param(required = false, value_type = String)]
    agent: Option<String>,
    /// The channel of the session.
    #[param(required = false, value_type = String)]
    channel: Option<String>,
    /// The user that the call is made for, which only a program with a token of role `orchestrator` can say: the call is recorded for
    /// this user, and uses their credentials. A token of role `agent` has its user in itself.
    #[param(required = false, value_type = String)]
    user: Option<String>,
    /// The conversation. All requests of it share one session and its files, also when the client connects again.
    #[param(required = false, value_type = String)]
    conversation: Option<String>,
    /// `search` lists three tools that find, describe and call the others, and those that the organization always shows.
    /// `code` lists the tool that runs scripts, whose description has the signatures of the others.
    #[param(required = false, inline)]
    tools: Option<ToolsShown>,
    /// How long the response to a call waits for a person, in milliseconds: 50,000 unless given. Choose less than the timeout of
    /// the client. `toolgate/wait-ms` in `_meta` of a call counts before it.
    #[param(required = false, value_type = u64)]
    wait_ms: Option<u64>,
}

/// The tools that a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolsShown {
    /// Every callable tool.
    All,
    /// Three tools that find, describe and call the others.
    Search,
    /// The tool that runs scripts, whose description has the signatures of the others; all where there is none.
    Code,
}

/// Send a message of the Model Context Protocol.
///
/// JSON-RPC over Streamable HTTP. A client of revision 2026-07-28 sends each request by itself; one of revision 2025-11-25
/// begins with `initialize` and repeats the header `Mcp-Session-Id` of its response.
#[utoipa::path(
    post, path = "/mcp", tag = "mcp", operation_id = "mcp_send", params(McpQuery),
    request_body(content = serde_json::Value, example = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})),
    responses(
        (status = 200, description = "The response.", content((serde_json::Value = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The notification or response is taken."),
    ),
)]
pub(crate) async fn post(
    State(app): State<App>,
    Extension(mcp): Extension<Mcp>,
    Authenticated(caller): Authenticated,
    Query(query): Query<McpQuery>,
    request: Request,
) -> Result<Response, Problem> {
    body::expect_json(request.headers())?;
    let (mut parts, body) = request.into_parts();
    let limit_bytes = app.settings().http.body_bytes;
    let body = body::read(&app, caller.organization.as_ref(), body, limit_bytes).await?;
    let accepted = wire::accepted_types(&parts.headers);
    let turn = match &caller.organization {
        Some(organization) => app.dispatcher().turn(organization, body.bytes().len()).await,
        None => None,
    };
    let message = match wire::name_both(&mut parts.headers, accepted).and_then(|()| wire::read(body.bytes()))
    {
        Ok(message) => message,
        Err(refusal) => return Ok(*refusal),
    };
    if message.begins.is_some() {
        // A client may attach the id of the session that it had.
        parts.headers.remove(SESSION_ID);
    }
    parts.extensions.insert(AmbiguousArguments(ambiguous_arguments(&message.bytes)));
    drop(turn);
    let request = Request::from_parts(parts, Body::from(message.bytes));
    let response = answer(&app, &mcp, caller, query, request, message.begins.as_deref()).await;
    // The body counts until the response begins.
    drop(body);
    Ok(wire::fit(response?, &message.id, accepted).await)
}

/// The arguments of a call as they were sent, if two parsers can read them in two ways; an extension of the request. Where a
/// key around the arguments is repeated, the whole message.
///
/// `rmcp` keeps the last of two equal keys and rounds large integers, so the gate gets this text and refuses it.
#[derive(Clone)]
struct AmbiguousArguments(Option<Arc<str>>);

fn ambiguous_arguments(message: &[u8]) -> Option<Arc<str>> {
    // Each field is here so that its repetition is an error.
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(rename = "method")]
        _method: Option<IgnoredAny>,
        #[serde(borrow)]
        params: Option<Params<'a>>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(rename = "name")]
        _name: Option<IgnoredAny>,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let text = std::str::from_utf8(message).ok()?;
    let sent = match serde_json::from_str::<Message<'_>>(text) {
        Ok(message) => message.params?.arguments?.get(),
        Err(_) => text,
    };
    parse_strict(sent, ARGUMENTS_DEPTH).is_err().then(|| sent.into())
}

/// Receive the notifications of a session of the Model Context Protocol, or end it.
///
/// For clients of revisions before 2026-07-28.
#[utoipa::path(
    method(get, delete), path = "/mcp", tag = "mcp", operation_id = "mcp_session", params(McpQuery),
    responses(
        (status = 200, description = "The notifications.", content((String = "text/event-stream"))),
        (status = 204, description = "The session has ended."),
    ),
)]
pub(crate) async fn session(
    State(app): State<App>,
    Extension(mcp): Extension<Mcp>,
    Authenticated(caller): Authenticated,
    Query(query): Query<McpQuery>,
    request: Request,
) -> Result<Response, Problem> {
    answer(&app, &mcp, caller, query, request, None).await
}

async fn answer(
    app: &App,
    mcp: &Mcp,
    caller: Arc<Caller>,
    query: McpQuery,
    mut request: Request,
    begins: Option<&str>,
) -> Result<Response, Problem> {
    // A stream of notifications ends with its token, and when the daemon stops. A call that began before may end, unless its
    // token is revoked.
    let end = match request.method() {
        &Method::GET => {
            let (stop, caller_end) = (app.0.stop.clone(), caller.wait_for_end());
            Either::Left(async move { stop.run_until_cancelled(caller_end).await.unwrap_or_default() })
        }
        _ => Either::Right(caller.revoked.clone().cancelled_owned()),
    };
    let mut client = client_of(app, mcp, caller, query)?;
    if let Some(id) = request.headers().get(SESSION_ID) {
        let id = id.to_str().unwrap_or_default();
        if !mcp.clients.is_session_of(id, &client) {
            return Err(Problem::not_found("session"));
        }
        client.mcp_session = id.into();
    }
    let ends = request.method() == Method::DELETE;
    let resumes = match begins {
        Some(version) => wire::resumes(version),
        None => client.mcp_session.is_empty() || mcp.clients.resumes(&client.mcp_session),
    };
    request.extensions_mut().insert(client.clone());
    let mut response = mcp.service.handle(request).await;
    if ends && response.status().is_success() {
        mcp.clients.end(&client).await?;
        // Clients take 202, which `rmcp` answers, for a failure.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    if let Some(id) = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()) {
        mcp.clients.bind(id, &client, resumes).await;
    }
    Ok(response
        .map(|body| {
            let chunks = body.into_data_stream().map_err(|never| match never {});
            let chunks = chunks.take_until(end).filter(move |chunk: &Result<Bytes, std::io::Error>| {
                let is_primer = !resumes && chunk.as_ref().is_ok_and(|chunk| wire::is_primer(chunk));
                std::future::ready(!is_primer)
            });
            Body::from_stream(chunks)
        })
        .into_response())
}

/// The agent whose tools the client has.
fn client_of(app: &App, mcp: &Mcp, caller: Arc<Caller>, query: McpQuery) -> Result<Client, Problem> {
    let wrong = |message: &str, hint: &str| Problem::new(ErrorType::InvalidRequest, message, hint);
    let parse = |text: &str| {
        Name::parse(text).map_err(|_| wrong("`agent` is no name of an agent", "write `?agent=NAME`"))
    };
    let own = (caller.role == toolgate_api::token::Role::Agent)
        .then(|| caller.agents.as_deref().and_then(|agents| agents.first()).cloned())
        .flatten();
    let (named_organization, named) = match query.agent.as_deref() {
        None => (None, None),
        Some(text) => match text.split_once('/') {
            Some((organization, agent)) => (Some(parse(organization)?), Some(parse(agent)?)),
            None => (None, Some(parse(text)?)),
        },
    };
    let agent = named.or(own).ok_or_else(|| {
        wrong("the address names no agent", "add `?agent=NAME`, or use a token of role `agent`")
    })?;
    let organization = named_organization
        .or_else(|| caller.organization.clone())
        .ok_or_else(|| wrong("the address names no organization", "add `?agent=ORGANIZATION/NAME`"))?;
    caller.may_use_tools(&organization, &agent)?;
    let user = match label("user", query.user)? {
        Some(user) => {
            caller.may_orchestrate(&organization, &agent)?;
            Some(user)
        }
        None => caller.user.as_deref().map(str::to_owned),
    };
    Ok(Client {
        app: app.clone(),
        clients: Arc::clone(&mcp.clients),
        caller,
        organization,
        agent,
        channel: label("channel", query.channel)?,
        user,
        conversation: label("conversation", query.conversation)?,
        shown: query.tools.unwrap_or(ToolsShown::All),
        wait_ms: query.wait_ms,
        mcp_session: "".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m2_only_arguments_that_two_parsers_read_differently_are_kept_as_sent() {
        let of = |arguments: &str| {
            let message = format!(
                r#"{{"jsonrpc":"2.0","id":1,"params":{{"name":"a","arguments":{arguments},"_meta":{{}}}}}}"#
            );
            ambiguous_arguments(message.as_bytes()).as_deref().map(str::to_owned)
        };
        for kept in [r#"{"a":1,"a":2}"#, r#"{"a":{"id":123456789012345678901}}"#, r#"{"a":"\ud800"}"#] {
            assert_eq!(of(kept).as_deref(), Some(kept));
        }
        for plain in ["{}", r#"{"a":18446744073709551615,"b":[1.5,"é"]}"#] {
            assert_eq!(of(plain), None, "{plain}");
        }
        assert_eq!(ambiguous_arguments(br#"{"method":"tools/list","params":{}}"#), None);
        assert_eq!(ambiguous_arguments(br#"{"method":"tools/list","params":null}"#), None);
        assert_eq!(ambiguous_arguments(b"[]"), None);
        let plain = r#"{"method":"tools/call","params":{"name":"a","arguments":{}}}"#;
        assert_eq!(ambiguous_arguments(plain.as_bytes()), None);
        for repeated in [
            r#"{"method":"tools/call","params":{"name":"a","arguments":{"a":1}},"params":{"name":"b"}}"#,
            r#"{"method":"ping","method":"tools/call","params":{"name":"a","arguments":{}}}"#,
            r#"{"method":"tools/call","params":{"name":"a","name":"b","arguments":{}}}"#,
            r#"{"method":"tools/call","params":{"name":"a","arguments":{"a":1},"arguments":{}}}"#,
        ] {
            assert_eq!(ambiguous_arguments(repeated.as_bytes()).as_deref(), Some(repeated));
        }
    }

    #[test]
    fn m2_sessions_keep_no_responses_that_were_sent() {
        let text = "[sessions]\nidle_seconds = 60\n";
        let config = Config::parse(text, std::path::Path::new("test.toml")).expect("settings");
        let settings = session_manager(&config).session_config;
        assert_eq!(settings.completed_cache_ttl, Duration::ZERO);
        assert_eq!(settings.keep_alive, Some(Duration::from_secs(60)));
    }
}
