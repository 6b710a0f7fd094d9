//! Plugins that an organization has loaded for itself (rule 9.16).

use std::sync::Arc;

use axum::extract::State;
use toolgate_http::custom::own_tool;
use toolgate_http::extract::{Authenticated, Path};
use toolgate_http::owned_plugins as api;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::PluginKey;

use super::form::{FormFields, SeeOther};
use super::page::Page;
use super::plugin_uploads::Holder;
use super::plugins;
use super::viewer::Viewer;

/// One plugin of an organization.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, namespace)): Path<(String, String)>,
) -> Result<Page, Problem> {
    let key = own_tool(&viewer.caller, &organization, &namespace)?;
    let caller = Authenticated(Arc::clone(&viewer.caller));
    let loaded = api::get(State(app), caller, Path((organization, namespace))).await?.0;
    let holder = Holder::Organization(key.organization.clone());
    Ok(Page::new(
        format!("{} of {}", key.namespace, key.organization),
        plugins::show(&viewer, &holder, &loaded),
    ))
}

/// Changes a plugin of an organization.
pub(super) async fn act(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, namespace, act)): Path<(String, String, String)>,
    form: FormFields,
) -> Result<SeeOther, Problem> {
    let key = own_tool(&viewer.caller, &organization, &namespace)?;
    let holder = Holder::Organization(key.organization.clone());
    plugins::change(&app, &viewer, &holder, PluginKey::from(&key), &act, &form).await
}
