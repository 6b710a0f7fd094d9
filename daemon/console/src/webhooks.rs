//! Webhooks of an organization: where approvals are announced, and what became of the deliveries (G18).

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_api::webhook::{DeliveryView, WebhookRequest, WebhookView};
use toolgate_http::documents::name;
use toolgate_http::extract::Path;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;

use super::elements::{ROWS, badge, empty, facts, notice, short, table, time, time_or};
use super::fields::Field;
use super::form::{FormFields, SeeOther};
use super::page::Page;
use super::policies::can_be_corrected;
use super::viewer::Viewer;

fn list_address(organization: &Name) -> String {
    format!("/console/webhooks/{organization}")
}

fn state(webhook: &WebhookView) -> Markup {
    html! {
        (badge(if webhook.state == "active" { "good" } else { "bad" }, &webhook.state))
        @if let Some(reason) = &webhook.reason { " " (short(reason)) }
    }
}

/// The webhooks, and the form of a new one.
pub(super) async fn list(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
) -> Result<Page, Problem> {
    show(&app, &viewer, &organization, &FormFields::default(), &html! {}).await
}

async fn show(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    form: &FormFields,
    answer: &Markup,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, organization)?;
    let webhooks = app.services().webhooks.list(organization).await?;
    let rows = html! {
        @for webhook in webhooks.iter().take(ROWS as usize) {
            tr {
                th scope="row" { a href={ (list_address(organization)) "/" (webhook.name) } { (short(&webhook.name)) } }
                td.wide { code { (short(&webhook.url)) } }
                td { (state(webhook)) }
                td { (time(webhook.changed_at)) }
            }
        }
    };
    let main = html! {
        (answer)
        @if webhooks.is_empty() { (empty("There is no webhook yet.", "One announces each call that waits for a person, where people are.", None)) }
        @else { (table("Webhooks", &["Webhook", "Endpoint", "State", "Changed"], &rows)) }
        section aria-labelledby="new" {
            h2 id="new" { "New webhook" }
            (viewer.stacked_form(list_address(organization), &[], html! {
                (Field::new("name", "Name").value(short(form.text("name"))).required(true).hint("Such as desk."))
                (Field::new("url", "Endpoint").value(short(form.text("url"))).required(true)
                    .hint("An HTTPS address whose host the operator has granted in webhooks.hosts."))
                button { "Create the webhook" }
            }))
        }
    };
    Ok(Page::new(format!("Webhooks of {organization}"), main))
}

/// Creates a webhook, and shows its secret this once.
pub(super) async fn create(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
    form: FormFields,
) -> Result<Response, Problem> {
    let putting = async {
        let name = name(form.text("name").trim()).map_err(|Problem(error)| error)?;
        put(&app, &viewer, &organization, &name, &form).await
    };
    match putting.await {
        Ok(made) => {
            let main = html! {
                @if let Some(secret) = &made.secret {
                    div.notice role="status" {
                        p { strong { "Copy the key of its signatures now. It is not shown again." } }
                        pre tabindex="0" { code { (secret) } }
                    }
                }
                p { a.button href={ (list_address(&organization)) "/" (made.name) } { "The webhook" } }
            };
            Ok(Page::new("New webhook", main).into_response())
        }
        Err(error) if !can_be_corrected(error.error_type) => Err(error.into()),
        Err(error) => {
            let page = show(&app, &viewer, &organization, &form, &notice(&error)).await?;
            Ok(page.with_status_of(&error).into_response())
        }
    }
}

async fn put(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    name: &Name,
    form: &FormFields,
) -> Result<WebhookView, CallError> {
    let url = form.text("url").trim().to_owned();
    let request = WebhookRequest { url, events: None, secret: None };
    Ok(app.admin().put_webhook(viewer.actor(), organization, name, request, false).await?.0)
}

/// One webhook with its last deliveries.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, name)): Path<(Name, Name)>,
) -> Result<Page, Problem> {
    one(&app, &viewer, &organization, &name, &html! {}).await
}

async fn one(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    name: &Name,
    answer: &Markup,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, organization)?;
    let webhook = app.services().webhooks.find(organization, name).await?;
    let address = format!("{}/{name}", list_address(organization));
    let main = html! {
        (answer)
        (facts(&[
            ("State", state(&webhook)),
            ("Created", time(webhook.created_at)),
            ("Changed", time(webhook.changed_at)),
        ]))
        (viewer.stacked_form(&address, &[("act", &"put")], html! {
            (Field::new("url", "Endpoint").value(short(&webhook.url)).required(true).hint("A webhook that is saved is active again, and keeps its key."))
            button { "Save" }
        }))
        (viewer.form(&address, &[("act", &"test")], html! { button data-busy="Sending…" { "Send a test event" } }))
        h2 { "Last deliveries" }
        (deliveries(webhook.deliveries.as_deref().unwrap_or_default()))
        (viewer.form(&address, &[("act", &"delete")], html! {
            button.danger data-confirm="Delete the webhook? Its links and callbacks are no longer valid." { "Delete" }
        }))
        p { a href=(list_address(organization)) { "Webhooks of " (organization) } }
    };
    Ok(Page::new(name.to_string(), main))
}

fn deliveries(deliveries: &[DeliveryView]) -> Markup {
    let tone = |state: &str| match state {
        "delivered" => "good",
        "failed" => "bad",
        "pending" => "warn",
        _ => "",
    };
    let rows = html! {
        @for delivery in deliveries {
            tr {
                th scope="row" { (time(delivery.created_at)) }
                td { (short(&delivery.event)) }
                td { a href=(format!("/console/approvals/{}", delivery.approval)) { code { (short(&delivery.approval)) } } }
                td { (badge(tone(&delivery.state), &delivery.state)) @if let Some(error) = &delivery.error { " " (short(error)) } }
                td.number { (delivery.attempts) }
                td { (time_or(delivery.next_at, "")) }
            }
        }
    };
    html! {
        @if deliveries.is_empty() { p { "Nothing was sent yet." } }
        @else { (table("Deliveries", &["When", "Event", "Approval", "State", "#Requests", "Sent again"], &rows)) }
    }
}

/// Changes, tests or deletes a webhook.
pub(super) async fn act(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, name)): Path<(Name, Name)>,
    form: FormFields,
) -> Result<Response, Problem> {
    let done = match form.text("act") {
        "delete" => {
            app.admin().delete_webhook(viewer.actor(), &organization, &name).await?;
            return Ok(SeeOther::to(&list_address(&organization)).into_response());
        }
        "test" => app.admin().test_webhook(viewer.actor(), &organization, &name).await.map(|tested| {
            html! {
                div.notice role="status" {
                    @match (tested.delivered, &tested.error) {
                        (true, _) => p { "The endpoint took the test event." },
                        (false, error) => p { "The endpoint did not take the test event: " (short(error.as_deref().unwrap_or("it did not answer"))) },
                    }
                }
            }
        }),
        _ => put(&app, &viewer, &organization, &name, &form).await.map(|_| html! {}),
    };
    match done {
        Ok(answer) => Ok(one(&app, &viewer, &organization, &name, &answer).await?.into_response()),
        Err(error) if !can_be_corrected(error.error_type) => Err(error.into()),
        Err(error) => {
            let page = one(&app, &viewer, &organization, &name, &notice(&error)).await?;
            Ok(page.with_status_of(&error).into_response())
        }
    }
}
