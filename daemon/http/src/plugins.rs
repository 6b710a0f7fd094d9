//! Plugins over HTTP: load, list, replace, roll back, disable, enable and remove.

pub(super) mod registry_loads;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use toolgate_admission::Warning;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Namespace;
use toolgate_api::page::List;
use toolgate_api::plugin::{PluginApproval, PluginApproved, PluginLoaded, PluginView, RegistryLoad};
use toolgate_core::plugins::{CanaryShare, LoadRequest, LoadSource, PluginLoad};
use toolgate_state::documents::{PluginKey, warning_view};
use utoipa::{IntoParams, ToSchema};

use super::body::{self, Json};
use super::error_responses::{
    AssertionBroken, AuditUnavailable, CannotRemove, InvalidPlugin, NamespaceTaken, NoPlugin,
    NoPreviousVersion, NoRegistryPlugin, NoWaitingVersion, RegistryLogin, RegistryUnavailable,
};
use super::extract::{Client, Path, Query};
use super::paging::Page;
use super::path_params::{OwnedPluginPath, OwnerPath, PluginPath};
use super::problem::Problem;
use super::schema::ComponentFile;
use super::state::App;

/// Organizations that a warning names.
const NAMED_OWNERS: usize = 10;

/// The query parameters of an upload.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UploadQuery {
    /// The version that the file must have.
    version: Option<String>,
    /// The share of the calls that a new version gets at first, in percent. It must look the same to models as the version
    /// that serves the others, and is returned if it fails more often. `approve` gives it all calls, and `rollback` none.
    #[param(minimum = 1, maximum = 50)]
    canary: Option<u8>,
    /// `hints` confirms the hints of exactly this file: the gate believes what its tools say of their effects. Without it the
    /// tools count as changing, destructive and open-world until an approval or the grant confirms them.
    #[param(inline)]
    confirm: Option<Confirm>,
}

/// The query parameters of a rollback.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RollbackQuery {
    /// The kept version to serve, by its version or digest. Default: the one before the current one.
    #[param(max_length = 200)]
    pub(super) version: Option<String>,
}

/// The part of a load that the caller confirms.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confirm {
    /// The hints of its tools.
    Hints,
}

pub(super) fn with_warnings(app: &App, key: &PluginKey, plugin: PluginView) -> PluginLoaded {
    let mut warnings = app.services().plugins.warnings(key, &plugin);
    let snapshot = app.services().registry.snapshot();
    let owners = match &key.owner {
        None => snapshot.owners_of(&key.namespace),
        Some(_) => Vec::new(),
    };
    if !owners.is_empty() {
        let owners: Vec<_> = owners.into_iter().take(NAMED_OWNERS).map(|name| format!("`{name}`")).collect();
        let message = format!(
            "organizations with a tool of their own under this namespace have that one, and not this plugin: {}",
            owners.join(", ")
        );
        warnings.push(Warning::new("HIDDEN", "", message));
    }
    PluginLoaded { plugin, warnings: warnings.into_iter().map(warning_view).collect() }
}

/// List the plugins [of the platform|that an organization loaded for itself].
///
/// The list is sorted by namespace[ and includes the built-in plugins|]. A plugin that is still loading, or that failed to load,
/// is shown only at its own URL.
#[utoipa::path(
    get, path = "/v1/[|orgs/{org}/]plugins", tag = "plugins", operation_id = "list_[|owned_]plugins", params(OwnerPath, Page),
    responses((status = 200, description = "A page of the plugins.", body = List<PluginView>)),
)]
pub async fn list(
    client: Client,
    Path(OwnerPath { organization }): Path<OwnerPath>,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<PluginView>>, Problem> {
    client.expect_own(organization.as_ref())?;
    let after = page.cursor.as_deref().unwrap_or("");
    let mut found = client.app.services().plugins.list(organization.as_ref());
    found.retain(|plugin| plugin.namespace.as_str() > after);
    Ok(axum::Json(List::new(found, page.limit(), |plugin| plugin.namespace.clone())))
}

/// Get one plugin [of the platform|of an organization] with its kept versions.
///
/// The response also shows a plugin that is loading, and the error if the load failed.
#[utoipa::path(
    get, path = "/v1/[|orgs/{org}/]plugins/{namespace}", tag = "plugins", operation_id = "get_[|owned_]plugin", params(OwnedPluginPath),
    responses((status = 200, description = "The plugin.", body = PluginLoaded), NoPlugin),
)]
pub async fn get(
    client: Client,
    Path(path): Path<OwnedPluginPath>,
) -> Result<axum::Json<PluginLoaded>, Problem> {
    let key = own_plugin(&client, path)?;
    let plugin = client.app.services().plugins.find(&key)?;
    Ok(axum::Json(with_warnings(&client.app, &key, plugin)))
}

/// Load a plugin, or a new version of one.
///
/// The request body is the component, or, as JSON, a reference to it in an OCI registry of the settings. The tag of a reference
/// is resolved once: the version stays, wherever the tag moves. The daemon compiles it, checks its imports, calls `describe`, and validates the
/// description against the contract. A version that differs from the serving one in what models see or calls may do is
/// `quarantined`: it waits for `approve`, and its `diff` says how it differs. If any step fails, the previous version continues to serve. The request waits
/// for the result; with `Prefer: respond-async` it returns 202 at once, and `GET` shows the result later. Running
/// calls end on the version that they started with.
#[utoipa::path(
    put, path = "/v1/plugins/{namespace}", tag = "plugins", operation_id = "put_plugin",
    params(PluginPath, UploadQuery,
        ("Prefer" = Option<String>, Header, description = "`respond-async` not to wait (RFC 7240).", example = "respond-async"),
        ("Toolgate-Signature" = Option<String>, Header, description = "The signature of the file by its publisher: a DSSE envelope, JSON in base64.")),
    request_body(content((ComponentFile = "application/wasm"), (RegistryLoad = "application/json")), description = "The component, or a reference to it. How large it may be is a setting, 64 MiB by default."),
    responses(
        (status = 200, description = "It serves, or waits for consent.", body = PluginLoaded),
        (status = 202, description = "It is being loaded.", body = PluginView),
        NoRegistryPlugin, RegistryLogin, RegistryUnavailable, NamespaceTaken, InvalidPlugin, AssertionBroken, AuditUnavailable,
    ),
)]
pub async fn put(
    Client { app, caller }: Client,
    Path(PluginPath { namespace }): Path<PluginPath>,
    Query(query): Query<UploadQuery>,
    request: Request,
) -> Result<Response, Problem> {
    body::expect_unencoded(request.headers())?;
    let wait = !prefers_async(&request)?;
    if is_json(&request)? {
        let wanted = load_request(namespace, query, request.headers())?;
        return registry_loads::load(app, caller, wanted, wait, request).await;
    }
    expect_wasm(&request)?;
    let wanted = load_request(namespace.clone(), query, request.headers())?;
    let limit_bytes = app.settings().http.plugin_bytes;
    let body = body::read(&app, caller.organization.as_ref(), request.into_body(), limit_bytes).await?;
    let load = PluginLoad::new(Some(body.bytes().clone()), wanted);
    if wait {
        let plugin = app.admin().load_plugin(app.actor(&caller), load, None).await?;
        return Ok(axum::Json(with_warnings(&app, &PluginKey::from(&namespace), plugin)).into_response());
    }
    let view = app.services().plugins.show_load(&load);
    let loading = app.clone();
    app.0.background.spawn(async move {
        // Its error is shown with the plugin.
        let _ = loading.admin().load_plugin(loading.actor(&caller), load, None).await;
        drop(body);
    });
    Ok((StatusCode::ACCEPTED, axum::Json(view)).into_response())
}

/// Remove a plugin [of the platform|of an organization] and its versions.
///
/// Its tools are removed at once; running calls end on the version that they started with. [A load started with
/// `Prefer: respond-async` is cancelled, and its version never serves. A built-in plugin can only be disabled.|]
#[utoipa::path(
    delete, path = "/v1/[|orgs/{org}/]plugins/{namespace}", tag = "plugins", operation_id = "delete_[|owned_]plugin", params(OwnedPluginPath),
    responses((status = 204, description = "The plugin is removed."), NoPlugin, CannotRemove, AuditUnavailable),
)]
pub async fn delete(client: Client, Path(path): Path<OwnedPluginPath>) -> Result<StatusCode, Problem> {
    client.app.admin().remove_plugin(client.actor(), own_plugin(&client, path)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Approve the waiting version of [a plugin|an organization's plugin].
///
/// Consents to a version that waits, or gives a canary all calls. The version with this digest serves, with its hints confirmed; the digest ensures that no version that was loaded meanwhile
/// takes effect. If it asks for other capabilities or limits than the version before, the plugin's grant is removed[, unless
/// `keep_grant` is set|, even with `keep_grant`]; `grant` of the response tells. Approvals of calls were for the version before,
/// and are void.
#[utoipa::path(
    post, path = "/v1/[|orgs/{org}/]plugins/{namespace}/approve", tag = "plugins", operation_id = "approve_[|owned_]plugin", params(OwnedPluginPath),
    request_body = PluginApproval,
    responses((status = 200, description = "The version serves.", body = PluginApproved), NoPlugin, NoWaitingVersion, InvalidPlugin, AssertionBroken, AuditUnavailable),
)]
pub async fn approve(
    client: Client,
    Path(path): Path<OwnedPluginPath>,
    Json(approval): Json<PluginApproval>,
) -> Result<axum::Json<PluginApproved>, Problem> {
    let key = own_plugin(&client, path)?;
    Ok(axum::Json(client.app.admin().approve_plugin(client.actor(), key, &approval).await?))
}

/// Serve the previous version of a plugin [of the platform|of an organization] again.
///
/// Four versions are kept, and `version` names any of them. The version that is rolled back from is kept until a newer one
/// is loaded. A canary on trial is returned instead: the version beside it gets all calls.
#[utoipa::path(
    post, path = "/v1/[|orgs/{org}/]plugins/{namespace}/rollback", tag = "plugins", operation_id = "rollback_[|owned_]plugin",
    params(OwnedPluginPath, RollbackQuery),
    responses((status = 200, description = "The version before serves.", body = PluginView), NoPlugin, NoPreviousVersion, AssertionBroken, AuditUnavailable),
)]
pub async fn rollback(
    client: Client,
    Path(path): Path<OwnedPluginPath>,
    Query(query): Query<RollbackQuery>,
) -> Result<axum::Json<PluginView>, Problem> {
    let (key, to) = (own_plugin(&client, path)?, query.version.as_deref());
    Ok(axum::Json(client.app.admin().roll_back_plugin(client.actor(), key, to).await?))
}

/// Disable the tools of a plugin [for every agent|of an organization for its agents].
///
/// The plugin stays loaded. Calls of its tools get `TOOL_DISABLED`, in open sessions too. The operation is
/// idempotent.
#[utoipa::path(
    post, path = "/v1/[|orgs/{org}/]plugins/{namespace}/disable", tag = "plugins", operation_id = "disable_[|owned_]plugin", params(OwnedPluginPath),
    responses((status = 200, description = "The plugin takes no calls.", body = PluginView), NoPlugin, AuditUnavailable),
)]
pub async fn disable(
    client: Client,
    Path(path): Path<OwnedPluginPath>,
) -> Result<axum::Json<PluginView>, Problem> {
    switch(&client, path, true).await
}

/// Enable the tools of a disabled plugin [of the platform|of an organization].
///
/// The operation is idempotent.
#[utoipa::path(
    post, path = "/v1/[|orgs/{org}/]plugins/{namespace}/enable", tag = "plugins", operation_id = "enable_[|owned_]plugin", params(OwnedPluginPath),
    responses((status = 200, description = "The plugin takes calls.", body = PluginView), NoPlugin, AssertionBroken, AuditUnavailable),
)]
pub async fn enable(
    client: Client,
    Path(path): Path<OwnedPluginPath>,
) -> Result<axum::Json<PluginView>, Problem> {
    switch(&client, path, false).await
}

async fn switch(
    client: &Client,
    path: OwnedPluginPath,
    disable: bool,
) -> Result<axum::Json<PluginView>, Problem> {
    let key = own_plugin(client, path)?;
    Ok(axum::Json(client.app.admin().switch_plugin(client.actor(), key, disable).await?))
}

/// Returns the key of a plugin that the client may administer.
fn own_plugin(client: &Client, path: OwnedPluginPath) -> Result<PluginKey, Problem> {
    let OwnedPluginPath { organization: owner, namespace } = path;
    owner.iter().try_for_each(|organization| client.caller.may_own(organization))?;
    Ok(PluginKey { owner, namespace })
}

pub fn parse_namespace(namespace: &str) -> Result<Namespace, Problem> {
    Namespace::parse(namespace).map_err(|error| {
        Problem::from(CallError::new(
            ErrorType::InvalidRequest,
            error.to_string(),
            "a namespace has lower-case letters and digits in words joined by `-`, like `crm-tools`",
        ))
    })
}

pub fn canary_share(percent: Option<u8>) -> Result<Option<CanaryShare>, Problem> {
    let Some(percent) = percent else { return Ok(None) };
    CanaryShare::from_percent(percent).map(Some).ok_or_else(|| {
        let message = format!("`canary` is {percent}, and the share of a canary is 1 to 50 percent");
        Problem::new(ErrorType::InvalidRequest, message, "leave `canary` out for all calls, or give 1 to 50")
    })
}

/// Whether the client prefers an asynchronous response (`Prefer: respond-async`, RFC 7240).
fn prefers_async(request: &Request) -> Result<bool, Problem> {
    let preferences =
        super::header::header(request.headers(), &HeaderName::from_static("prefer"))?.unwrap_or("");
    Ok(preferences.split(',').any(|preference| preference.trim().eq_ignore_ascii_case("respond-async")))
}

/// The load that a request asks for, of a file that it sends.
pub(super) fn load_request(
    namespace: Namespace,
    query: UploadQuery,
    headers: &HeaderMap,
) -> Result<LoadRequest, Problem> {
    Ok(LoadRequest {
        version: query.version,
        canary: canary_share(query.canary)?,
        signature: signature(headers)?,
        confirm_hints: query.confirm.is_some(),
        ..LoadRequest::new(namespace, LoadSource::Upload)
    })
}

/// The envelope in `Toolgate-Signature`, JSON in base64.
fn signature(headers: &HeaderMap) -> Result<Option<Bytes>, Problem> {
    let name = HeaderName::from_static("toolgate-signature");
    let Some(text) = super::header::header(headers, &name)? else { return Ok(None) };
    let envelope = STANDARD.decode(text).map_err(|_| {
        Problem::new(
            ErrorType::InvalidRequest,
            "the header `Toolgate-Signature` is not base64",
            "send the file that `toolgate plugin sign` writes in base64, or use `toolgate plugin load`",
        )
    })?;
    Ok(Some(envelope.into()))
}

/// Whether the body names a plugin in a registry, instead of being one.
pub(super) fn is_json(request: &Request) -> Result<bool, Problem> {
    let content_type = super::header::header(request.headers(), &header::CONTENT_TYPE)?.unwrap_or("");
    Ok(content_type.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json"))
}

pub(super) fn expect_wasm(request: &Request) -> Result<(), Problem> {
    let content_type = super::header::header(request.headers(), &header::CONTENT_TYPE)?.unwrap_or("");
    if content_type.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/wasm") {
        return Ok(());
    }
    Err(Problem::new(
        ErrorType::InvalidRequest,
        "the body is not declared as a component",
        "send the file itself with the header `Content-Type: application/wasm`, or a reference to a registry as JSON",
    ))
}
