//! The load of a plugin that an organization has for itself (rule 9.16).

use axum::extract::Request;
use toolgate_api::plugin::{PluginLoaded, RegistryLoad};
use toolgate_core::plugins::{LoadRequest, OwnedBounds};
use toolgate_state::documents::PluginKey;

use super::body;
use super::custom::own_tool;
use super::error_responses::{
    AssertionBroken, AuditUnavailable, InvalidPlugin, NoOrganization, OwnedNamespaceTaken, OwnersLoadNothing,
    RegistryLogin, RegistryUnavailable, TooManyOwnedPlugins,
};
use super::extract::{Client, Path, Query};
use super::path_params::CustomToolPath;
use super::plugins::registry_loads;
use super::plugins::{UploadQuery, expect_wasm, is_json, load_request, with_warnings};
use super::problem::Problem;
use super::schema::ComponentFile;

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
    Client { app, caller }: Client,
    Path(path): Path<CustomToolPath>,
    Query(query): Query<UploadQuery>,
    request: Request,
) -> Result<axum::Json<PluginLoaded>, Problem> {
    let key = own_tool(&caller, path)?;
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
