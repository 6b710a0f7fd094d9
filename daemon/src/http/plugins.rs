//! Plugins over HTTP: hot load, list, replace, roll back, switch off, remove.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use serde::Deserialize;
use toolgate_admission::{CallError, ErrorType, Namespace};
use utoipa::IntoParams;

use super::extract::{Path, Query};
use super::problem::{Problem, ProblemBody};
use super::{App, Authenticated, List, Page, body};
use crate::plugins::{Expected, PluginView};

/// What the address of an upload may add.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UploadQuery {
    /// The version that the file must have.
    version: Option<String>,
}

/// The loaded plugins.
#[utoipa::path(
    get, path = "/v1/plugins", tag = "plugins", params(Page),
    responses((status = 200, description = "The loaded plugins, by namespace", body = List<PluginView>)),
    security(("token" = [])),
)]
pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<PluginView>>, Problem> {
    caller.may_operate()?;
    let after = page.cursor.as_deref().unwrap_or("");
    let mut items: Vec<PluginView> =
        app.0.plugins.list().await.into_iter().filter(|plugin| plugin.namespace.as_str() > after).collect();
    let limit = page.limit() as usize;
    let more = items.len() > limit;
    items.truncate(limit);
    let next_cursor = items.last().filter(|_| more).map(|plugin| plugin.namespace.clone());
    Ok(axum::Json(List { items, next_cursor }))
}

/// One plugin with its versions.
#[utoipa::path(
    get, path = "/v1/plugins/{namespace}", tag = "plugins",
    params(("namespace" = String, Path, description = "The plugin's namespace")),
    responses(
        (status = 200, description = "The plugin", body = PluginView),
        (status = 404, description = "It is not loaded", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(namespace): Path<String>,
) -> Result<axum::Json<PluginView>, Problem> {
    caller.may_operate()?;
    Ok(axum::Json(app.0.plugins.find(&named(&namespace)?).await?))
}

/// Load a plugin, or a new version of one.
///
/// Waits until it is decided, or answers 202 at once where `Prefer: respond-async` is sent; `GET` then shows
/// what became of it. Calls in flight end on the version they began with.
#[utoipa::path(
    put, path = "/v1/plugins/{namespace}", tag = "plugins",
    params(("namespace" = String, Path, description = "The namespace that the plugin describes itself with"), UploadQuery,
        ("Prefer" = Option<String>, Header, description = "`respond-async` not to wait")),
    request_body(content = Vec<u8>, content_type = "application/wasm", description = "The component"),
    responses(
        (status = 200, description = "It serves", body = PluginView),
        (status = 202, description = "It is being loaded", body = PluginView),
        (status = 409, description = "The namespace is taken", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "The file is too large", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The file is not a plugin", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(namespace): Path<String>,
    Query(query): Query<UploadQuery>,
    request: Request,
) -> Result<(StatusCode, axum::Json<PluginView>), Problem> {
    caller.may_operate()?;
    let namespace = named(&namespace)?;
    expect_wasm(&request)?;
    let wait = !prefers_async(&request)?;
    let settings = &app.settings().http;
    let timeout = Duration::from_millis(settings.body_timeout_ms);
    let file = body::read(request.into_body(), settings.plugin_bytes, timeout).await?;
    let expected = Expected { namespace: namespace.clone(), version: query.version };
    if wait {
        let loading = app.0.plugins.load(file, expected);
        let view = app.act(&caller, None, "plugin.load", namespace.as_str(), loading).await?;
        return Ok((StatusCode::OK, axum::Json(view)));
    }
    let view = app.0.plugins.note_pending(&namespace, &file, None);
    let loading = app.clone();
    app.0.background.spawn(async move {
        let plugins = &loading.0.plugins;
        let load = plugins.load(file.clone(), expected);
        let loaded = loading.act(&caller, None, "plugin.load", namespace.as_str(), load).await;
        if let Err(Problem(error)) = loaded {
            plugins.note_pending(&namespace, &file, Some(&error));
        }
    });
    Ok((StatusCode::ACCEPTED, axum::Json(view)))
}

/// Remove a plugin and its versions.
#[utoipa::path(
    delete, path = "/v1/plugins/{namespace}", tag = "plugins",
    params(("namespace" = String, Path, description = "The plugin's namespace")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "It is not loaded", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is built in", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(namespace): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.may_operate()?;
    let namespace = named(&namespace)?;
    let removing = app.0.plugins.remove(&namespace);
    app.act(&caller, None, "plugin.remove", namespace.as_str(), removing).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Serve the version before this one again.
#[utoipa::path(
    post, path = "/v1/plugins/{namespace}/rollback", tag = "plugins",
    params(("namespace" = String, Path, description = "The plugin's namespace")),
    responses(
        (status = 200, description = "The version before serves", body = PluginView),
        (status = 404, description = "It is not loaded", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "There is none before", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn rollback(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(namespace): Path<String>,
) -> Result<axum::Json<PluginView>, Problem> {
    caller.may_operate()?;
    let namespace = named(&namespace)?;
    let rolling = app.0.plugins.roll_back(&namespace);
    Ok(axum::Json(app.act(&caller, None, "plugin.rollback", namespace.as_str(), rolling).await?))
}

/// Keep a plugin and take its tools out of every agent's reach.
#[utoipa::path(
    post, path = "/v1/plugins/{namespace}/disable", tag = "plugins",
    params(("namespace" = String, Path, description = "The plugin's namespace")),
    responses(
        (status = 200, description = "It takes no calls", body = PluginView),
        (status = 404, description = "It is not loaded", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn disable(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(namespace): Path<String>,
) -> Result<axum::Json<PluginView>, Problem> {
    caller.may_operate()?;
    let namespace = named(&namespace)?;
    let switching = app.0.plugins.set_disabled(&namespace, true);
    Ok(axum::Json(app.act(&caller, None, "plugin.disable", namespace.as_str(), switching).await?))
}

/// Let the tools of a disabled plugin back in.
#[utoipa::path(
    post, path = "/v1/plugins/{namespace}/enable", tag = "plugins",
    params(("namespace" = String, Path, description = "The plugin's namespace")),
    responses(
        (status = 200, description = "It takes calls", body = PluginView),
        (status = 404, description = "It is not loaded", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn enable(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(namespace): Path<String>,
) -> Result<axum::Json<PluginView>, Problem> {
    caller.may_operate()?;
    let namespace = named(&namespace)?;
    let switching = app.0.plugins.set_disabled(&namespace, false);
    Ok(axum::Json(app.act(&caller, None, "plugin.enable", namespace.as_str(), switching).await?))
}

fn named(namespace: &str) -> Result<Namespace, Problem> {
    Namespace::parse(namespace).map_err(|error| {
        Problem::from(CallError::new(
            ErrorType::InvalidRequest,
            error.to_string(),
            "a namespace has lower-case letters and digits in words joined by `-`, like `crm-tools`",
        ))
    })
}

/// Whether the caller would rather not wait (RFC 7240).
fn prefers_async(request: &Request) -> Result<bool, Problem> {
    let preferences = super::header(request.headers(), &HeaderName::from_static("prefer"))?.unwrap_or("");
    Ok(preferences.split(',').any(|preference| preference.trim().eq_ignore_ascii_case("respond-async")))
}

fn expect_wasm(request: &Request) -> Result<(), Problem> {
    let content_type = super::header(request.headers(), &header::CONTENT_TYPE)?.unwrap_or("");
    if content_type.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/wasm") {
        return Ok(());
    }
    Err(Problem::new(
        ErrorType::InvalidRequest,
        "the body is not declared as a component",
        "send the file itself with the header `Content-Type: application/wasm`",
    ))
}
