//! Handlers of the plugins that an organization loads for itself (rule 9.16).

use axum::extract::{Request, State};
use axum::http::StatusCode;
use toolgate_api::page::List;
use toolgate_api::plugin::{PluginApproval, PluginApproved, PluginLoaded, PluginView, RegistryLoad};
use toolgate_core::plugins::{LoadRequest, OwnedBounds};
use toolgate_state::documents::PluginKey;

use super::body::{self, Json};
use super::custom::own_tool;
use super::documents::own_organization;
use super::error_responses::{
    AssertionBroken, AuditUnavailable, InvalidPlugin, NoConsentPending, NoOrganization, NoOwnedPlugin,
    NoPreviousVersion, OwnedNamespaceTaken, OwnersLoadNothing, RegistryLogin, RegistryUnavailable,
    TooManyOwnedPlugins,
};
use super::extract::{Authenticated, Path, Query};
use super::paging::Page;
use super::path_params::{CustomToolPath, OrgPath};
use super::plugins::registry_loads;
use super::plugins::{RollbackQuery, UploadQuery, expect_wasm, is_json, load_request, with_warnings};
use super::problem::Problem;
use super::schema::ComponentFile;
use super::state::App;

/// List the plugins that an organization loaded for itself.
///
/// The list is sorted by namespace.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/plugins", tag = "plugins", operation_id = "list_owned_plugins",
    params(OrgPath, Page),
    responses((status = 200, description = "A page of the plugins.", body = List<PluginView>), NoOrganization),
)]
pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<PluginView>>, Problem> {
    let organization = own_organization(&app, &caller, &organization)?;
    let after = page.cursor.as_deref().unwrap_or("");
    let mut found = app.services().plugins.list(Some(&organization));
    found.retain(|plugin| plugin.namespace.as_str() > after);
    Ok(axum::Json(List::new(found, page.limit(), |plugin| plugin.namespace.clone())))
}

/// Get one plugin of an organization.
///
/// Returns a plugin that the organization loaded for itself, with its kept versions.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/plugins/{namespace}", tag = "plugins", operation_id = "get_owned_plugin",
    params(CustomToolPath),
    responses((status = 200, description = "The plugin.", body = PluginLoaded), NoOwnedPlugin),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
) -> Result<axum::Json<PluginLoaded>, Problem> {
    let key = PluginKey::from(&own_tool(&caller, &organization, &namespace)?);
    let plugin = app.services().plugins.find(&key)?;
    Ok(axum::Json(with_warnings(&app, &key, plugin)))
}

/// Load a plugin, or a new version of one, for an organization.
///
/// The platform's policy must allow it (`owners_load_plugins`). The file takes the steps of any load, and agents of this
/// organization alone can call its tools. It may reach the hosts that it names, at public addresses, with credentials of the
/// organization, unless an operator grants something else under `/v1/orgs/{org}/tools/{namespace}/grant`. A version that differs
/// from the serving one in what models see or calls may do waits for `approve`.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/plugins/{namespace}", tag = "plugins", operation_id = "put_owned_plugin",
    params(CustomToolPath, UploadQuery,
        ("Toolgate-Signature" = Option<String>, Header, description = "The signature of the file by its publisher: a DSSE envelope, JSON in base64.")),
    request_body(content((ComponentFile = "application/wasm"), (RegistryLoad = "application/json")), description = "The component, or a reference to it in a registry that the organization has a credential of the provider `oci` for. How large it may be is a setting, 64 MiB by default."),
    responses(
        (status = 200, description = "It serves, or waits for consent.", body = PluginLoaded),
        NoOrganization, OwnersLoadNothing, RegistryLogin, RegistryUnavailable, OwnedNamespaceTaken, TooManyOwnedPlugins, InvalidPlugin, AssertionBroken, AuditUnavailable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
    Query(query): Query<UploadQuery>,
    request: Request,
) -> Result<axum::Json<PluginLoaded>, Problem> {
    let key = own_tool(&caller, &organization, &namespace)?;
    body::expect_unencoded(request.headers())?;
    let is_reference = is_json(&request)?;
    if !is_reference {
        expect_wasm(&request)?;
    }
    let wanted = load_request(key.namespace.clone(), query, request.headers())?;
    let wanted = LoadRequest { owner: Some(key.organization.clone()), ..wanted };
    let settings = app.settings();
    let bounds = OwnedBounds {
        plugins: settings.plugins.owned_per_organization,
        bytes: settings.plugins.owned_bytes_per_organization,
    };
    if is_reference {
        let plugin = registry_loads::load_owned(&app, &caller, &key, wanted, bounds, request).await?;
        return Ok(axum::Json(with_warnings(&app, &PluginKey::from(&key), plugin)));
    }
    let organization = Some(&key.organization);
    let body = body::read(&app, organization, request.into_body(), settings.http.plugin_bytes).await?;
    let file = body.bytes().clone();
    let plugin = app.admin().load_owned_plugin(app.actor(&caller), &key, file, &wanted, bounds).await?;
    Ok(axum::Json(with_warnings(&app, &PluginKey::from(&key), plugin)))
}

/// Approve the waiting version of an organization's plugin.
///
/// Consents to a version that waits, or gives a canary all calls.
///
/// The request has the digest of the version, so that none that was loaded meanwhile takes effect. A grant by an operator is
/// removed if the version asks for other capabilities or limits, even with `keep_grant`; `grant` of the response tells.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/plugins/{namespace}/approve", tag = "plugins", operation_id = "approve_owned_plugin",
    params(CustomToolPath),
    request_body(content = PluginApproval),
    responses((status = 200, description = "It serves.", body = PluginApproved), NoOwnedPlugin, NoConsentPending, InvalidPlugin, AssertionBroken, AuditUnavailable),
)]
pub async fn approve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
    Json(approval): Json<PluginApproval>,
) -> Result<axum::Json<PluginApproved>, Problem> {
    let key = own_tool(&caller, &organization, &namespace)?;
    Ok(axum::Json(app.admin().approve_plugin(app.actor(&caller), &key, &approval).await?))
}

/// Serve the previous version of an organization's plugin again.
///
/// Four versions are kept. A canary on trial is returned instead: the version beside it gets all calls.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/plugins/{namespace}/rollback", tag = "plugins", operation_id = "rollback_owned_plugin",
    params(CustomToolPath, RollbackQuery),
    responses((status = 200, description = "The version before serves.", body = PluginView), NoOwnedPlugin, NoPreviousVersion, AssertionBroken, AuditUnavailable),
)]
pub async fn rollback(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
    Query(query): Query<RollbackQuery>,
) -> Result<axum::Json<PluginView>, Problem> {
    let key = own_tool(&caller, &organization, &namespace)?;
    let to = query.version.as_deref();
    Ok(axum::Json(app.admin().roll_back_plugin(app.actor(&caller), &key, to).await?))
}

/// Disable the tools of an organization's plugin for its agents.
///
/// The plugin stays loaded. Calls of its tools get `TOOL_DISABLED`, in open sessions too. The operation is idempotent.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/plugins/{namespace}/disable", tag = "plugins", operation_id = "disable_owned_plugin",
    params(CustomToolPath),
    responses((status = 200, description = "It takes no calls.", body = PluginView), NoOwnedPlugin, AuditUnavailable),
)]
pub async fn disable(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
) -> Result<axum::Json<PluginView>, Problem> {
    let key = own_tool(&caller, &organization, &namespace)?;
    Ok(axum::Json(app.admin().switch_plugin(app.actor(&caller), &key, true).await?))
}

/// Enable the tools of an organization's disabled plugin.
///
/// The operation is idempotent.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/plugins/{namespace}/enable", tag = "plugins", operation_id = "enable_owned_plugin",
    params(CustomToolPath),
    responses((status = 200, description = "It takes calls.", body = PluginView), NoOwnedPlugin, AssertionBroken, AuditUnavailable),
)]
pub async fn enable(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
) -> Result<axum::Json<PluginView>, Problem> {
    let key = own_tool(&caller, &organization, &namespace)?;
    Ok(axum::Json(app.admin().switch_plugin(app.actor(&caller), &key, false).await?))
}

/// Remove a plugin of an organization and its versions.
///
/// Its tools are removed at once; running calls end on the version that they started with.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/plugins/{namespace}", tag = "plugins", operation_id = "delete_owned_plugin",
    params(CustomToolPath),
    responses((status = 204, description = "It is gone."), NoOwnedPlugin, AssertionBroken, AuditUnavailable),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let key = own_tool(&caller, &organization, &namespace)?;
    app.admin().remove_plugin(app.actor(&caller), &key).await?;
    Ok(StatusCode::NO_CONTENT)
}
