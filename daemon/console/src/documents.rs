//! Documents that are stored as they are written, without a preview: grants, and publishers' keys.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use maud::html;
use serde::Deserialize;
use toolgate_api::error::CallError;
use toolgate_api::grant::Grant;
use toolgate_api::name::{Name, Namespace};
use toolgate_core::identity::Access;
use toolgate_http::documents::name;
use toolgate_http::extract::{Path, Query};
use toolgate_http::path_params::OwnerPath;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_http::{paging, publisher_keys};
use toolgate_state::documents::{DocumentKey, ToolKey};

use super::document_form::{self, Draft, Sent, editor, suggestions};
use super::elements::{Filters, ROWS, badge, empty, next_page, notice, short, table};
use super::fields::Field;
use super::form::{FormFields, SeeOther};
use super::history::{self, HistoryQuery, Kept};
use super::page::Page;
use super::policies::{can_be_corrected, expect_seen};
use super::text::{brief, indent_json};
use super::viewer::Viewer;

/// A document with the page that it belongs to.
struct Whole {
    key: DocumentKey,
    title: String,
    about: &'static str,
    address: String,
    back: String,
    /// What holds where nothing is stored.
    start: String,
}

const ABOUT_GRANTS: &str =
    "What the plugin may reach. It takes the place of what it has now; what is not here is not granted.";
const ABOUT_TOOLS: &str = "What the tool may reach, in place of the host in its definition: a private network, plain HTTP, or less.";
const ABOUT_KEYS: &str =
    "The key verifies who published a plugin, from the next load on, under the namespaces that it names.";

/// The key that an editor is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edited {
    name: String,
}

impl Whole {
    fn grant(app: &App, viewer: &Viewer, namespace: Namespace) -> Result<Self, Problem> {
        viewer.caller.may(Access::Operate)?;
        let snapshot = app.services().registry.snapshot();
        let start = text_of(snapshot.catalogue().plugin(&namespace).map(|plugin| &plugin.granted));
        let back = format!("/console/plugins/{namespace}");
        let (title, address) = (format!("Grant of {namespace}"), format!("{back}/grant"));
        Ok(Self { key: DocumentKey::Grant(namespace), title, about: ABOUT_GRANTS, address, back, start })
    }

    fn tool_grant(
        app: &App,
        viewer: &Viewer,
        (organization, namespace): (Name, Namespace),
    ) -> Result<Self, Problem> {
        viewer.caller.may(Access::Operate)?;
        let back = format!("/console/tools/{organization}/{namespace}");
        let (title, address) = (format!("Grant of {organization}/{namespace}"), format!("{back}/grant"));
        let key = ToolKey { organization, namespace };
        let snapshot = app.services().registry.snapshot();
        let start = text_of(snapshot.own_plugin(&key).map(|plugin| &plugin.granted));
        Ok(Self { key: DocumentKey::ToolGrant(key), title, about: ABOUT_TOOLS, address, back, start })
    }

    fn publisher_key(owner: Option<Name>, edited: &Edited) -> Result<Self, Problem> {
        let name = name(edited.name.trim())?;
        let back = keys_address(owner.as_ref());
        let (title, address) = (format!("Publisher's key {name}"), format!("{back}/edit?name={name}"));
        let key = DocumentKey::PublisherKey(owner, name);
        Ok(Self { key, title, about: ABOUT_KEYS, address, back, start: "{}".to_owned() })
    }

    async fn show(self, app: &App, viewer: &Viewer) -> Result<Page, Problem> {
        expect_seen(app, viewer, &self.key)?;
        let draft = Draft::load(app, &self.key, &self.start).await?;
        Ok(self.page(app, viewer, &draft, None))
    }

    fn page(&self, app: &App, viewer: &Viewer, draft: &Draft, error: Option<&CallError>) -> Page {
        let known = suggestions(app, self.key.organization());
        let sent = Sent { action: &self.address, buttons: &[("put", "Save")] };
        let deletion: [(&str, &dyn maud::Render); 2] = [("act", &"delete"), ("revision", &draft.revision)];
        let main = html! {
            @match error { Some(error) => (notice(error)), None => p { (self.about) } }
            (editor(viewer, self.key.kind(), draft, &known, &sent))
            @if !draft.revision.is_empty() && matches!(self.key, DocumentKey::PublisherKey(..)) {
                (viewer.form(&self.address, &deletion, html! {
                    button.danger data-confirm="Delete the key? It verifies no further load." { "Delete" }
                }))
            }
            @if matches!(self.key, DocumentKey::Grant(_)) { p { a href={ (self.address) "/history" } { "History" } } }
            p { a href=(self.back) { "Back" } }
        };
        Page::new(self.title.clone(), main)
    }

    async fn change(self, app: &App, viewer: &Viewer, form: &FormFields) -> Result<Response, Problem> {
        expect_seen(app, viewer, &self.key)?;
        let draft = Draft::of(form, self.key.kind())?;
        let changed = match form.text("act") {
            "show" => return Ok(self.page(app, viewer, &draft, None).into_response()),
            "delete" => app.admin().delete_document(viewer.actor(), &self.key, &draft.precondition()?).await,
            _ => document_form::put(app, viewer, self.key.clone(), &draft).await,
        };
        match changed {
            Ok(()) => Ok(SeeOther::to(&self.back).into_response()),
            Err(error) if !can_be_corrected(error.error_type) => Err(error.into()),
            Err(error) => {
                Ok(self.page(app, viewer, &draft, Some(&error)).with_status_of(&error).into_response())
            }
        }
    }
}

fn text_of(grant: Option<&Arc<Grant>>) -> String {
    let text = grant.and_then(|grant| serde_json::to_string(&**grant).ok());
    indent_json(text.as_deref().unwrap_or("{}"))
}

/// The grant of a plugin.
pub(super) async fn grant(
    State(app): State<App>,
    viewer: Viewer,
    Path(namespace): Path<Namespace>,
) -> Result<Page, Problem> {
    Whole::grant(&app, &viewer, namespace)?.show(&app, &viewer).await
}

/// Stores the grant of a plugin.
pub(super) async fn put_grant(
    State(app): State<App>,
    viewer: Viewer,
    Path(namespace): Path<Namespace>,
    form: FormFields,
) -> Result<Response, Problem> {
    Whole::grant(&app, &viewer, namespace)?.change(&app, &viewer, &form).await
}

/// Who changed the grant of a plugin when, and the way back.
pub(super) async fn grant_history(
    State(app): State<App>,
    viewer: Viewer,
    Path(namespace): Path<Namespace>,
    Filters(revision): Filters<HistoryQuery>,
) -> Result<Page, Problem> {
    let Whole { key, title, address, .. } = Whole::grant(&app, &viewer, namespace)?;
    history::show(&app, &viewer, Kept { key, title, address, act: "show" }, revision).await
}

/// The grant of an organization's tool.
pub(super) async fn tool_grant(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<(Name, Namespace)>,
) -> Result<Page, Problem> {
    Whole::tool_grant(&app, &viewer, path)?.show(&app, &viewer).await
}

/// Stores the grant of an organization's tool.
pub(super) async fn put_tool_grant(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<(Name, Namespace)>,
    form: FormFields,
) -> Result<Response, Problem> {
    Whole::tool_grant(&app, &viewer, path)?.change(&app, &viewer, &form).await
}

/// The address of the keys of the platform, or of an organization.
pub(super) fn keys_address(organization: Option<&Name>) -> String {
    match organization {
        None => "/console/publisher-keys".to_owned(),
        Some(organization) => format!("/console/organizations/{organization}/publisher-keys"),
    }
}

/// The keys that prove who published a plugin.
pub(super) async fn keys(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Path(OwnerPath { organization }): Path<OwnerPath>,
    Filters(page): Filters<paging::Page>,
) -> Result<Page, Problem> {
    // The interface that is asked checks the organization alone: its routes check the role.
    match &organization {
        Some(organization) => app.admin().expect_own(&viewer.caller, organization)?,
        None => viewer.caller.may(Access::Operate)?,
    }
    let address = keys_address(organization.as_ref());
    let title = organization
        .as_ref()
        .map_or("Publishers' keys".to_owned(), |name| format!("Publishers' keys of {name}"));
    let page = paging::Page { limit: Some(ROWS), ..page };
    let path = Path(OwnerPath { organization });
    let found = publisher_keys::list(viewer.client(&app), path, Query(page)).await?.0;
    let text = |document: &serde_json::Value, member: &str| match &document[member] {
        serde_json::Value::String(text) => short(text),
        value => brief(&value.to_string()),
    };
    let rows = html! {
        @for entry in &found.items {
            tr {
                th scope="row" { a href={ (address) "/edit?name=" (entry.name) } { (short(&entry.name)) } }
                td { (text(&entry.document, "publisher")) }
                td { (text(&entry.document, "namespaces")) }
                td { @if entry.document["revoked"] == true { (badge("bad", "revoked")) } @else { (badge("good", "verifies")) } }
            }
        }
    };
    let main = html! {
        @if found.items.is_empty() { (empty("There is no key yet.", "Without one, nothing proves who published a plugin.", None)) }
        @else { (table("Keys", &["Key", "Publisher", "Namespaces", "State"], &rows)) }
        (next_page(&uri, found.next_cursor.as_deref()))
        form.stack method="get" action={ (address) "/edit" } {
            (Field::new("name", "Name of a new key").required(true).hint("Such as acme-2026."))
            button { "Enter the key" }
        }
    };
    Ok(Page::new(title, main))
}

/// The form of a key.
pub(super) async fn key(
    State(app): State<App>,
    viewer: Viewer,
    Path(OwnerPath { organization }): Path<OwnerPath>,
    Filters(edited): Filters<Edited>,
) -> Result<Page, Problem> {
    Whole::publisher_key(organization, &edited)?.show(&app, &viewer).await
}

/// Stores or deletes a key.
pub(super) async fn put_key(
    State(app): State<App>,
    viewer: Viewer,
    Path(OwnerPath { organization }): Path<OwnerPath>,
    Filters(edited): Filters<Edited>,
    form: FormFields,
) -> Result<Response, Problem> {
    Whole::publisher_key(organization, &edited)?.change(&app, &viewer, &form).await
}
