//! Organizations and agents: made, changed and deleted. What cannot be taken back needs the name written out.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, Render, html};
use serde_json::json;
use toolgate_api::document::OrganizationDocument;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::policy::Autonomy;
use toolgate_core::identity::Access;
use toolgate_http::documents::name;
use toolgate_http::extract::Path;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::{DocumentKey, Precondition};

use super::document_form::{self, Draft};
use super::elements::{editable, notice, short};
use super::fields::Field;
use super::form::{FormFields, SeeOther};
use super::page::Page;
use super::viewer::Viewer;

const AUTONOMIES: [(Autonomy, &str); 3] = [
    (Autonomy::Supervised, "supervised: a person approves each call that may change something"),
    (Autonomy::DraftOnly, "draft only: it calls tools that change nothing"),
    (Autonomy::Autonomous, "autonomous: no call waits for a person, unless a policy says so"),
];

/// The form of a new organization.
pub(super) fn new_organization(viewer: &Viewer, fields: &FormFields) -> Markup {
    html! {
        (viewer.stacked_form("/console/organizations", &[], html! {
            (name_field("Name of the organization", "acme", fields))
            (display_name_field(fields.text("display_name")))
            button { "Create the organization" }
        }))
    }
}

/// The form of a new agent.
pub(super) fn new_agent(viewer: &Viewer, organization: &Name, fields: &FormFields) -> Markup {
    html! {
        (viewer.stacked_form(format!("/console/organizations/{organization}/agents"), &[], html! {
            (name_field("Name of the agent", "helper", fields))
            (Field::new("enabled", "Tools that it may call").lines(3).value(editable(fields.text("enabled"))).hint(html! {
                "One on a line: " code { "files/read" } ", " code { "arithmetic/*" } ", or " code { "*" } " for all that the organization has."
            }))
            label for="autonomy" { "Autonomy" }
            select id="autonomy" name="autonomy" {
                @for (autonomy, words) in AUTONOMIES {
                    option value=(autonomy.as_str()) selected[fields.text("autonomy") == autonomy.as_str()] { (words) }
                }
            }
            button { "Create the agent" }
        }))
    }
}

fn name_field(label: &str, example: &str, fields: &FormFields) -> Markup {
    let hint = html! { "Such as " code { (example) } ": lower-case letters, digits and hyphens. It cannot be changed." };
    Field::new("name", label).value(short(fields.text("name"))).required(true).hint(hint).render()
}

fn display_name_field(value: &str) -> Markup {
    Field::new("display_name", "Display name").value(short(value)).max_chars(200).render()
}

/// The form that deletes something by its name.
pub(super) fn deletion(
    viewer: &Viewer,
    action: &str,
    revision: &str,
    name: &str,
    consequences: &str,
) -> Markup {
    html! {
        (viewer.stacked_form(action, &[("act", &"delete"), ("revision", &revision)], html! {
            p { (consequences) }
            label for="confirmed" { "Write " code { (name) } " to confirm" }
            input id="confirmed" name="confirmed" required autocomplete="off" spellcheck="false";
            button.danger { "Delete" }
        }))
    }
}

/// Refuses a deletion without the name.
fn expect_confirmed(form: &FormFields, name: &Name) -> Result<Precondition, CallError> {
    if form.text("confirmed").trim() != name.as_str() {
        let message = "the name was not written, so nothing was deleted";
        let hint = format!("write `{name}` into the field above the button");
        return Err(CallError::new(ErrorType::InvalidRequest, message, hint));
    }
    Precondition::from_headers(Some(form.text("revision")), None)
}

/// Creates an organization.
pub(super) async fn create_organization(
    State(app): State<App>,
    viewer: Viewer,
    form: FormFields,
) -> Result<Response, Problem> {
    viewer.caller.may(Access::Operate)?;
    let creating = async {
        let name = name(form.text("name").trim())?;
        let document = document_of(&form);
        app.admin().put_organization(viewer.actor(), &name, &document, &Precondition::Absent, false).await?;
        Ok::<_, Problem>(name)
    };
    match creating.await {
        Ok(name) => Ok(SeeOther::to(&format!("/console/organizations/{name}")).into_response()),
        Err(Problem(error)) => {
            let main = html! { (notice(&error)) (new_organization(&viewer, &form)) };
            Ok(Page::new("New organization", main).with_status_of(&error).into_response())
        }
    }
}

fn document_of(form: &FormFields) -> OrganizationDocument {
    let lines = form.text("connected").lines().map(str::trim).filter(|line| !line.is_empty());
    OrganizationDocument {
        display_name: form.filled_field("display_name").map(str::to_owned),
        connected: lines.map(str::to_owned).collect(),
    }
}

/// The forms that change and delete an organization.
pub(super) async fn organization(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
) -> Result<Page, Problem> {
    let stored = find(&app, &viewer, &organization).await?;
    let document: OrganizationDocument = serde_json::from_str(&stored.text).unwrap_or_default();
    Ok(organization_page(&viewer, &organization, &stored.revision, &document, None))
}

async fn find(app: &App, viewer: &Viewer, organization: &Name) -> Result<Draft, Problem> {
    viewer.caller.may(Access::Operate)?;
    app.admin().expect_own(&viewer.caller, organization)?;
    Draft::load(app, &DocumentKey::Organization(organization.clone()), "{}").await
}

fn organization_page(
    viewer: &Viewer,
    organization: &Name,
    revision: &str,
    document: &OrganizationDocument,
    error: Option<&CallError>,
) -> Page {
    let address = format!("/console/organizations/{organization}/edit");
    let connected = document.connected.join("\n");
    let main = html! {
        @if let Some(error) = error { (notice(error)) }
        (viewer.stacked_form(&address, &[("act", &"save"), ("revision", &revision)], html! {
            (display_name_field(document.display_name.as_deref().unwrap_or_default()))
            (Field::new("connected", "Integrations that are connected elsewhere").value(editable(&connected)).lines(3)
                .hint("One on a line. Their credentials are not stored here."))
            button { "Save" }
        }))
        h2 { "Delete" }
        (deletion(viewer, &address, revision, organization.as_str(),
            "Its agents, sessions, tokens, credentials, plugins and the data in its audit records are deleted with it."))
        p { a href=(format!("/console/organizations/{organization}")) { "The organization" } }
    };
    Page::new(format!("Edit {organization}"), main)
}

/// Changes or deletes an organization.
pub(super) async fn change_organization(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
    form: FormFields,
) -> Result<Response, Problem> {
    let stored = find(&app, &viewer, &organization).await?;
    let document = document_of(&form);
    let is_deletion = form.text("act") == "delete";
    let changed = match is_deletion {
        true => delete_organization(&app, &viewer, &organization, &form).await,
        false => save_organization(&app, &viewer, &organization, &document, &form).await,
    };
    let Err(error) = changed else {
        let page = if is_deletion { String::new() } else { format!("/{organization}") };
        return Ok(SeeOther::to(&format!("/console/organizations{page}")).into_response());
    };
    let in_force = serde_json::from_str(&stored.text).unwrap_or_default();
    let shown = if is_deletion { &in_force } else { &document };
    let page = organization_page(&viewer, &organization, form.text("revision"), shown, Some(&error));
    Ok(page.with_status_of(&error).into_response())
}

async fn save_organization(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    document: &OrganizationDocument,
    form: &FormFields,
) -> Result<(), CallError> {
    let precondition = Precondition::from_headers(Some(form.text("revision")), None)?;
    app.admin().put_organization(viewer.actor(), organization, document, &precondition, false).await?;
    Ok(())
}

async fn delete_organization(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    form: &FormFields,
) -> Result<(), CallError> {
    let precondition = expect_confirmed(form, organization)?;
    app.admin().delete_organization(viewer.actor(), organization, &precondition).await
}

/// Creates an agent.
pub(super) async fn create_agent(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
    form: FormFields,
) -> Result<Response, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    let creating = async {
        let agent = name(form.text("name").trim()).map_err(|Problem(error)| error)?;
        let draft = Draft { text: agent_text(&form), revision: String::new() };
        document_form::put(&app, &viewer, DocumentKey::agent(&organization, &agent), &draft).await?;
        Ok::<_, CallError>(agent)
    };
    match creating.await {
        Ok(agent) => {
            Ok(SeeOther::to(&format!("/console/organizations/{organization}/agents/{agent}")).into_response())
        }
        Err(error) => {
            let main = html! { (notice(&error)) (new_agent(&viewer, &organization, &form)) };
            let page = Page::new(format!("New agent of {organization}"), main);
            Ok(page.with_status_of(&error).into_response())
        }
    }
}

/// The document of a new agent.
fn agent_text(form: &FormFields) -> String {
    let lines = form.text("enabled").lines().map(str::trim).filter(|line| !line.is_empty());
    let tools: Vec<&str> = lines.collect();
    let enabled = if tools == ["*"] { json!("*") } else { json!(tools) };
    let autonomy = form.filled_field("autonomy").unwrap_or(Autonomy::default().as_str());
    format!("{:#}", json!({"enabled": enabled, "autonomy": autonomy}))
}

/// The form that deletes an agent.
pub(super) async fn agent(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, agent)): Path<(Name, Name)>,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    agent_page(&app, &viewer, (&organization, &agent), None).await
}

async fn agent_page(
    app: &App,
    viewer: &Viewer,
    (organization, agent): (&Name, &Name),
    error: Option<&CallError>,
) -> Result<Page, Problem> {
    let stored = Draft::load(app, &DocumentKey::agent(organization, agent), "").await?;
    if stored.revision.is_empty() {
        return Err(Problem::no_agent(organization, agent));
    }
    let address = format!("/console/organizations/{organization}/agents/{agent}");
    let main = html! {
        @if let Some(error) = error { (notice(error)) }
        (deletion(viewer, &format!("{address}/delete"), &stored.revision, agent.as_str(),
            "Its sessions end, its running calls are cancelled, and its files are removed."))
        p { a href=(address) { "The agent" } }
    };
    Ok(Page::new(format!("Delete {organization}/{agent}"), main))
}

/// Deletes an agent.
pub(super) async fn delete_agent(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, agent)): Path<(Name, Name)>,
    form: FormFields,
) -> Result<Response, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    let deleting = async {
        let precondition = expect_confirmed(&form, &agent)?;
        let key = DocumentKey::agent(&organization, &agent);
        app.admin().delete_document(viewer.actor(), &key, &precondition).await
    };
    match deleting.await {
        Ok(()) => Ok(SeeOther::to(&format!("/console/organizations/{organization}")).into_response()),
        Err(error) => {
            let page = agent_page(&app, &viewer, (&organization, &agent), Some(&error)).await?;
            Ok(page.with_status_of(&error).into_response())
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_api::policy::AgentDocument;

    use super::*;

    #[test]
    fn o6_the_form_of_an_agent_makes_a_document() {
        let text = |enabled| agent_text(&FormFields::of(&[("enabled", enabled), ("autonomy", "autonomous")]));
        for enabled in ["*", "files/read\n\n  arithmetic/*  ", ""] {
            let document = AgentDocument::parse(&text(enabled)).expect("sound");
            assert_eq!(document.autonomy, Autonomy::Autonomous);
        }
        let two: serde_json::Value = serde_json::from_str(&text("files/read\n arithmetic/* ")).expect("JSON");
        assert_eq!(two["enabled"], json!(["files/read", "arithmetic/*"]));
    }

    #[test]
    fn o6_a_deletion_needs_the_name() {
        let name = Name::parse("acme").expect("a name");
        let outcome = |written| {
            let fields = [("confirmed", written), ("revision", "\"1\"")];
            expect_confirmed(&FormFields::of(&fields), &name).is_ok()
        };
        assert!(outcome("acme") && outcome(" acme "));
        assert!(!outcome("") && !outcome("acm") && !outcome("rival"));
    }
}
