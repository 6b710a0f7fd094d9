//! The load of a plugin from an OCI registry: `PUT /v1/plugins/{namespace}` with a JSON body.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use toolgate_api::plugin::{PluginView, RegistryLoad};
use toolgate_core::admin::{OwnedRegistryPlugin, RegistryPlugin};
use toolgate_core::identity::Caller;
use toolgate_core::oci::Reference;
use toolgate_core::plugins::{LoadRequest, OwnedBounds, PluginLoad};
use toolgate_state::documents::{PluginKey, ToolKey};

use super::with_warnings;
use crate::body::{self, JsonText};
use crate::problem::Problem;
use crate::state::App;

/// Loads what the body of the request names for an organization, from a registry that it has a credential for.
pub(crate) async fn load_owned(
    app: &App,
    caller: &Caller,
    key: &ToolKey,
    wanted: LoadRequest,
    bounds: OwnedBounds,
    request: Request,
) -> Result<PluginView, Problem> {
    let reference = reference(app, request).await?;
    let limit_bytes = app.settings().http.plugin_bytes;
    let mut memory = app.0.bodies.share(Some(key.organization.as_str()));
    memory.grow_to(limit_bytes)?;
    let registries = app.0.organization_registries.as_ref().ok_or_else(|| Problem::not_found("registry"))?;
    let plugin = OwnedRegistryPlugin { registries, reference: &reference, limit_bytes, bounds };
    let loaded = app.admin().load_owned_plugin_from_registry(app.actor(caller), key, plugin, wanted).await;
    Ok(loaded?)
}

async fn reference(app: &App, request: Request) -> Result<Reference, Problem> {
    let JsonText(text) = JsonText::from_request(request, app).await?;
    let RegistryLoad { source } = body::parse(&text)?;
    Ok(source.parse()?)
}

/// Loads what the body of the request names. Answers 202 at once unless `wait`.
pub(crate) async fn load(
    app: App,
    caller: Arc<Caller>,
    wanted: LoadRequest,
    wait: bool,
    request: Request,
) -> Result<Response, Problem> {
    let reference = reference(&app, request).await?;
    let namespace = wanted.namespace.clone();
    let limit_bytes = app.settings().http.plugin_bytes;
    // The file takes as much memory as if it were uploaded.
    let mut memory = app.0.bodies.share(caller.organization.as_ref().map(|name| name.as_str()));
    memory.grow_to(limit_bytes)?;
    let registries = app.0.registries.clone();
    let load = PluginLoad::new(None, wanted);
    if wait {
        let plugin = RegistryPlugin { registries: &registries, reference: &reference, limit_bytes };
        let loaded = app.admin().load_plugin(app.actor(&caller), load, Some(plugin)).await?;
        return Ok(Json(with_warnings(&app, &PluginKey::from(&namespace), loaded)).into_response());
    }
    let view = app.services().plugins.show_load(&load);
    let loading = app.clone();
    app.0.background.spawn(async move {
        let plugin = RegistryPlugin { registries: &registries, reference: &reference, limit_bytes };
        // Its error is shown with the plugin.
        let _ = loading.admin().load_plugin(loading.actor(&caller), load, Some(plugin)).await;
        drop(memory);
    });
    Ok((StatusCode::ACCEPTED, Json(view)).into_response())
}
