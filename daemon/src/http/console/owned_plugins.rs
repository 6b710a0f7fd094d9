//! Plugins that an organization has loaded for itself (rule 9.16).

use std::sync::Arc;

use axum::extract::State;
use toolgate_api::plugin::PluginApproval;

use super::form::{FormFields, SeeOther};
use super::guard::Viewer;
use super::page::Page;
use super::plugin_uploads::Holder;
use super::plugins;
use crate::documents::ToolKey;
use crate::http::custom::own_tool;
use crate::http::extract::{Authenticated, Path};
use crate::http::owned_plugins as api;
use crate::http::problem::Problem;
use crate::http::state::App;

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

/// Serves the version that waits, if it is the one that was shown.
pub(super) async fn approve(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, namespace)): Path<(String, String)>,
    form: FormFields,
) -> Result<SeeOther, Problem> {
    let key = own_tool(&viewer.caller, &organization, &namespace)?;
    let approval = PluginApproval { digest: form.text("digest").to_owned(), keep_grant: false };
    app.admin().approve_plugin(viewer.actor(), &key, &approval).await?;
    Ok(back(key))
}

/// Removes the plugin and its versions.
pub(super) async fn remove(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, namespace)): Path<(String, String)>,
) -> Result<SeeOther, Problem> {
    let key = own_tool(&viewer.caller, &organization, &namespace)?;
    app.admin().remove_plugin(viewer.actor(), &key).await?;
    Ok(SeeOther::to(&format!("/console/organizations/{}", key.organization)))
}

fn back(key: ToolKey) -> SeeOther {
    SeeOther::to(&Holder::Organization(key.organization).page_of(key.namespace.as_str()))
}
