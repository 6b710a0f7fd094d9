//! Plugins that an organization has loaded for itself (rule 9.16).

use axum::extract::State;
use toolgate_api::name::{Name, Namespace};
use toolgate_http::custom::own_tool;
use toolgate_http::extract::Path;
use toolgate_http::path_params::OwnedPluginPath;
use toolgate_http::plugins as api;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::PluginKey;
use toolgate_state::documents::ToolKey;

use super::form::{FormFields, SeeOther};
use super::page::Page;
use super::plugin_uploads::Holder;
use super::plugins;
use super::viewer::Viewer;

/// One plugin of an organization.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, namespace)): Path<(Name, Namespace)>,
) -> Result<Page, Problem> {
    let title = format!("{namespace} of {organization}");
    let holder = Holder::Organization(organization.clone());
    let path = OwnedPluginPath { organization: Some(organization), namespace };
    let loaded = api::get(viewer.client(&app), Path(path)).await?.0;
    Ok(Page::new(title, plugins::show(&viewer, &holder, &loaded)))
}

/// Changes a plugin of an organization.
pub(super) async fn act(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, namespace, act)): Path<(Name, Namespace, String)>,
    form: FormFields,
) -> Result<SeeOther, Problem> {
    let key = own_tool(&viewer.caller, ToolKey { organization, namespace })?;
    let holder = Holder::Organization(key.organization.clone());
    plugins::change(&app, &viewer, &holder, PluginKey::from(&key), &act, &form).await
}
