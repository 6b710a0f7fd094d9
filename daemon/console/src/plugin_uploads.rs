//! Plugins from a form: a file for the platform or for one organization, under the limits of the HTTP interface.

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use maud::{Markup, html};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::{Name, Namespace};
use toolgate_core::identity::Access;
use toolgate_core::plugins::{LoadRequest, LoadSource, OwnedBounds, PluginLoad};
use toolgate_http::body::{self, BodyBytes};
use toolgate_http::extract::Path;
use toolgate_http::plugins::{canary_share, parse_namespace};
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::ToolKey;

use super::Console;
use super::elements::{bytes, editable, notice, parameter, percent_encode, short};
use super::fields::Field;
use super::form::{FormFields, SeeOther};
use super::page::Page;
use super::permits::complete_change;
use super::upload::FILE_FIELD;
use super::viewer::Viewer;

/// The holder of a plugin.
pub(super) enum Holder {
    Platform,
    Organization(Name),
}

impl Holder {
    /// The address of the form.
    fn address(&self) -> String {
        match self {
            Self::Platform => "/console/upload/plugin".to_owned(),
            Self::Organization(organization) => format!("/console/upload/plugin/{organization}"),
        }
    }

    /// The address of the form for a version of one plugin.
    pub(super) fn address_for(&self, namespace: &str) -> String {
        format!("{}?namespace={}", self.address(), percent_encode(namespace))
    }

    /// The page with all plugins.
    pub(super) fn list(&self) -> String {
        match self {
            Self::Platform => "/console/plugins".to_owned(),
            Self::Organization(organization) => format!("/console/organizations/{organization}"),
        }
    }

    /// The page of a plugin.
    pub(super) fn page_of(&self, namespace: &str) -> String {
        let namespace = percent_encode(namespace);
        match self {
            Self::Platform => format!("/console/plugins/{namespace}"),
            Self::Organization(organization) => {
                format!("/console/organizations/{organization}/plugins/{namespace}")
            }
        }
    }
}

/// The form of the platform's plugins.
pub(super) async fn platform(State(app): State<App>, viewer: Viewer, uri: Uri) -> Result<Page, Problem> {
    viewer.caller.may(Access::Operate)?;
    Ok(page(&app, &viewer, &Holder::Platform, &suggested_fields(&uri), None))
}

/// The form of an organization's own plugins.
pub(super) async fn organization(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
    uri: Uri,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    Ok(page(&app, &viewer, &Holder::Organization(organization), &suggested_fields(&uri), None))
}

/// The fields that the address fills in.
fn suggested_fields(uri: &Uri) -> FormFields {
    let namespace = parameter(uri, "namespace").map(|namespace| ("namespace".to_owned(), namespace));
    FormFields::of_upload(namespace.into_iter().collect())
}

/// Loads a file for the platform.
pub(super) async fn load(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
    fields: FormFields,
    file: Body,
) -> Result<Response, Problem> {
    viewer.caller.may(Access::Operate)?;
    let loaded = Box::pin(load_for_platform(&app, &viewer, &console, &fields, file)).await;
    answer(&app, &viewer, &Holder::Platform, &fields, loaded)
}

/// Loads a file for an organization.
pub(super) async fn load_owned(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
    Path(organization): Path<Name>,
    fields: FormFields,
    file: Body,
) -> Result<Response, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    let loading = load_for_organization(&app, &viewer, &console, &organization, &fields, file);
    let loaded = Box::pin(loading).await;
    answer(&app, &viewer, &Holder::Organization(organization), &fields, loaded)
}

async fn load_for_platform(
    app: &App,
    viewer: &Viewer,
    console: &Console,
    fields: &FormFields,
    file: Body,
) -> Result<Namespace, Problem> {
    let request = load_request(fields)?;
    let namespace = request.namespace.clone();
    let file = read_file(app, None, file).await?;
    let (app, viewer) = (app.clone(), viewer.clone());
    let loading = async move {
        let load = PluginLoad::new(Some(file.bytes().clone()), request);
        // Others see what compiles, and afterwards why it failed.
        app.services().plugins.show_load(&load);
        Box::pin(app.admin().load_plugin(viewer.actor(), load, None)).await
    };
    complete_change(console, None, loading).await??;
    Ok(namespace)
}

async fn load_for_organization(
    app: &App,
    viewer: &Viewer,
    console: &Console,
    organization: &Name,
    fields: &FormFields,
    file: Body,
) -> Result<Namespace, Problem> {
    let request = LoadRequest { owner: Some(organization.clone()), ..load_request(fields)? };
    let namespace = request.namespace.clone();
    let key = ToolKey { organization: organization.clone(), namespace: namespace.clone() };
    let file = read_file(app, Some(organization), file).await?;
    let settings = &app.settings().plugins;
    let bounds = OwnedBounds {
        plugins: settings.owned_per_organization,
        bytes: settings.owned_bytes_per_organization,
    };
    let (app, viewer) = (app.clone(), viewer.clone());
    let loading = async move {
        let bytes = file.bytes().clone();
        Box::pin(app.admin().load_owned_plugin(viewer.actor(), &key, bytes, &request, bounds)).await
    };
    complete_change(console, Some(organization), loading).await??;
    Ok(namespace)
}

fn load_request(fields: &FormFields) -> Result<LoadRequest, Problem> {
    let namespace = parse_namespace(fields.text("namespace").trim())?;
    let canary = fields.number("canary")?.map(|percent| u8::try_from(percent).unwrap_or(u8::MAX));
    Ok(LoadRequest {
        canary: canary_share(canary)?,
        version: fields.filled_field("version").map(str::to_owned),
        signature: fields.filled_field("signature").map(|text| Bytes::from(text.to_owned())),
        confirm_hints: fields.is_checked("confirm_hints"),
        ..LoadRequest::new(namespace, LoadSource::Upload)
    })
}

async fn read_file(app: &App, organization: Option<&Name>, file: Body) -> Result<BodyBytes, Problem> {
    let file = body::read(app, organization, file, app.settings().http.plugin_bytes).await?;
    if file.is_empty() {
        let hint = "choose a component, such as `target/wasm32-wasip2/release/weather.wasm`";
        return Err(Problem::new(ErrorType::InvalidRequest, "the form has no file, or an empty one", hint));
    }
    Ok(file)
}

/// Leads to the plugin, or shows the form with the error and what was written. The file has to be chosen again.
fn answer(
    app: &App,
    viewer: &Viewer,
    holder: &Holder,
    fields: &FormFields,
    loaded: Result<Namespace, Problem>,
) -> Result<Response, Problem> {
    match loaded {
        Ok(namespace) => Ok(SeeOther::to(&holder.page_of(namespace.as_str())).into_response()),
        Err(Problem(error)) => {
            Ok(page(app, viewer, holder, fields, Some(&error)).with_status_of(&error).into_response())
        }
    }
}

fn page(app: &App, viewer: &Viewer, holder: &Holder, fields: &FormFields, error: Option<&CallError>) -> Page {
    let title = match holder {
        Holder::Platform => "Load a plugin".to_owned(),
        Holder::Organization(organization) => format!("Load a plugin for {organization}"),
    };
    let main = html! {
        @if let Some(error) = error {
            (notice(error))
            p { "The file was not kept. Choose it again." }
        }
        (form(app, viewer, holder, fields))
    };
    Page::new(title, main)
}

/// The form of a file. The fields stand before it, since they are read first.
pub(super) fn form(app: &App, viewer: &Viewer, holder: &Holder, fields: &FormFields) -> Markup {
    html! {
        form.stack method="post" enctype="multipart/form-data" action=(holder.address()) {
            (viewer.csrf_field())
            (Field::new("namespace", "Namespace").value(short(fields.text("namespace"))).required(true)
                .hint("The first part of its tools' names. The file declares it, too."))
            (more_fields(fields))
            label.choice {
                input type="checkbox" name="confirm_hints" aria-describedby="confirm_hints-hint";
                "The hints of this file count"
            }
            p.hint id="confirm_hints-hint" {
                "Check it if you have read what its tools say of their effects. Else they count as tools that change and destroy things; the plugin's page shows the hints."
            }
            div.drop data-drop {
                label for=(FILE_FIELD) { "Plugin file" }
                input id=(FILE_FIELD) type="file" name=(FILE_FIELD) accept=".wasm,application/wasm" required
                    aria-describedby="file-hint";
                p.hint id="file-hint" {
                    "A WebAssembly component of at most " (bytes(app.settings().http.plugin_bytes)) ". Choose it, or drop it here."
                }
            }
            button data-busy="Compiling…" { "Load the plugin" }
        }
    }
}

/// The fields that few uploads need.
fn more_fields(fields: &FormFields) -> Markup {
    let is_filled = ["version", "canary", "signature"].iter().any(|name| fields.filled_field(name).is_some());
    html! {
        details open[is_filled] {
            summary { "Version, signature, share of the calls" }
            (Field::new("version", "Version").value(short(fields.text("version")))
                .hint("The file is refused if it declares another one. Empty: any."))
            (Field::new("canary", "Share of the calls at first, in percent").number(1, Some(50)).value(short(fields.text("canary")))
                .hint("For a new version that looks the same to models. It is taken back if it fails more often. Empty: all calls."))
            (Field::new("signature", "Signature").value(editable(fields.text("signature"))).lines(3)
                .hint(html! { "The text of the file that " code { "toolgate plugin sign" } " wrote. Empty: none." }))
        }
    }
}
