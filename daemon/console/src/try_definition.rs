//! A try of a definition that is not saved yet (C3).

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_core::custom::Tryout;
use toolgate_core::dispatch::TestCallResult;
use toolgate_http::extract::Path;
use toolgate_http::plugins::parse_namespace;
use toolgate_http::problem::Problem;
use toolgate_http::sessions::label;
use toolgate_http::state::App;
use toolgate_state::documents::ToolKey;

use super::elements::{editable, notice, short};
use super::fields::Field;
use super::form::FormFields;
use super::page::Page;
use super::try_out::outcome;
use super::viewer::Viewer;

/// The namespace of a definition whose form names none.
const NAMESPACE: &str = "tryout";

/// The form of a definition.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    Ok(show(&viewer, &organization, &FormFields::default(), &html! {}))
}

/// Runs one action of the definition once. Nothing is saved.
pub(super) async fn run(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
    fields: FormFields,
) -> Result<Response, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    Ok(match call(&app, &viewer, &organization, &fields).await {
        Ok(result) => show(&viewer, &organization, &fields, &outcome(&result)).into_response(),
        Err(error) => {
            let page = show(&viewer, &organization, &fields, &notice(&error));
            page.with_status_of(&error).into_response()
        }
    })
}

async fn call(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    fields: &FormFields,
) -> Result<TestCallResult, CallError> {
    let namespace = fields.filled_field("namespace").unwrap_or(NAMESPACE);
    let namespace = parse_namespace(namespace).map_err(|Problem(error)| error)?;
    let key = ToolKey { organization: organization.clone(), namespace };
    let (definition, action) = (fields.text("definition"), fields.text("action").trim());
    let tryout = Tryout::Unsaved { key: &key, definition, action };
    let arguments = fields.filled_field("arguments").unwrap_or("{}");
    let user =
        label("user", fields.filled_field("user").map(str::to_owned)).map_err(|Problem(error)| error)?;
    let origin = viewer.actor().origin();
    app.admin().custom().try_out(organization, user, tryout, arguments.into(), &origin).await
}

fn show(viewer: &Viewer, organization: &Name, fields: &FormFields, result: &Markup) -> Page {
    let field = |name, label, hint| Field::new(name, label).value(short(fields.text(name))).hint(hint);
    let main = html! {
        (result)
        p { "Nothing is saved. The action runs once for " (organization) ", with its credentials, and what it does is done." }
        (viewer.form(format!("/console/try/{organization}"), &[], html! {
            (Field::new("definition", "Definition, as JSON").value(editable(fields.text("definition"))).lines(14).required(true))
            (field("action", "Action", "The name of one of its actions."))
            (Field::new("arguments", "Arguments, as JSON").value(editable(fields.text("arguments"))).lines(3))
            (field("namespace", "Namespace", "The one that it will have. Empty: a name of its own, so that it is none of the saved tools."))
            (field("user", "User", "Credentials of this user are preferred. Empty for none."))
            button data-busy="Calling…" { "Try it" }
        }))
    };
    Page::new(format!("Try a definition for {organization}"), main)
}
