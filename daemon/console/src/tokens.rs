//! Tokens: listed, created and revoked. The text of a token is on the page that creates it, and on no other.

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_api::token::{Role, TokenView};
use toolgate_core::identity::{Access, NewToken};
use toolgate_http::documents::name;
use toolgate_http::extract::{Path, Query};
use toolgate_http::paging;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_http::tokens::{self as api, network, role};
use toolgate_state::clock::now_ms;
use toolgate_state::documents::warning_view;

use super::elements::warnings_list;
use super::elements::{Filters, ROWS, next_page, notice, percent_encode, short, table, time, time_or};
use super::fields::Field;
use super::form::{FormFields, SeeOther};
use super::page::Page;
use super::policies;
use super::viewer::Viewer;

const DAY_MS: u64 = 86_400_000;

/// The tokens that the viewer may see, with the form of a new one.
pub(super) async fn list(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Filters(page): Filters<paging::Page>,
) -> Result<Page, Problem> {
    show(&app, &viewer, &uri, page, &FormFields::default(), None).await
}

async fn show(
    app: &App,
    viewer: &Viewer,
    uri: &Uri,
    page: paging::Page,
    fields: &FormFields,
    error: Option<&CallError>,
) -> Result<Page, Problem> {
    let page = paging::Page { limit: Some(ROWS), ..page };
    let found = api::list(viewer.client(app), Query(page)).await?.0;
    let is_alone = found.items.iter().all(|token| *token.id == *viewer.caller.token_id);
    let rows = html! { @for token in &found.items { (row(viewer, token)) } };
    let headings = ["Token", "Role", "Organization", "Label", "Created", "Last used", "Ends", "Revoke"];
    let main = html! {
        @if let Some(error) = error { (notice(error)) }
        @if is_alone {
            div.empty { p { "Yours is the only token. " a href="#new" { "Create one" } " for each person and each program, with the role that it needs." } }
        }
        (table("Tokens", &headings, &rows))
        (next_page(uri, found.next_cursor.as_deref()))
        section aria-labelledby="new" { h2 id="new" { "New token" } (creation(app, viewer, fields)) }
    };
    Ok(Page::new("Tokens", main))
}

fn row(viewer: &Viewer, token: &TokenView) -> Markup {
    let is_own = *token.id == *viewer.caller.token_id;
    let question = if is_own {
        "Revoke your own token? The console signs you out."
    } else {
        "Revoke the token for ever?"
    };
    html! {
        tr {
            th scope="row" { code { (short(&token.id)) } @if is_own { " (yours)" } }
            td { (token.role.as_str()) @for agent in token.agents.iter().flatten().take(10) { " " code { (short(agent)) } } }
            td { @match &token.organization { Some(name) => (short(name)), None => "platform" } }
            td { (short(&token.label)) }
            td { (time(token.created_ms)) }
            td { (time_or(token.last_used_ms, "never")) }
            td { (time_or(token.expires_at, "never")) }
            td {
                (viewer.form(format!("/console/tokens/{}/revoke", percent_encode(&token.id)), &[], html! {
                    button.plain aria-label=(format!("Revoke token {}", short(&token.id))) data-confirm=(question) { "Revoke" }
                }))
            }
        }
    }
}

fn creation(app: &App, viewer: &Viewer, fields: &FormFields) -> Markup {
    let asked = fields.filled_field("role").unwrap_or(Role::Orchestrator.as_str());
    let field = |name, label| Field::new(name, label).value(short(fields.text(name)));
    let lifetime = match app.settings().tokens.default_days {
        0 => "Empty or 0 for a token that does not end.".to_owned(),
        days => format!("Empty for {days} days. 0 for a token that does not end."),
    };
    let roles = Role::ALL.into_iter().filter(|role| *role != Role::Operator || viewer.may(Access::Operate));
    html! {
        (viewer.stacked_form("/console/tokens", &[], html! {
            label for="role" { "Role" }
            select id="role" name="role" required {
                @for role in roles { option value=(role.as_str()) selected[role.as_str() == asked] { (role.as_str()) } }
            }
            @match &viewer.caller.organization {
                Some(own) => { input type="hidden" name="organization" value=(own); }
                None => {
                    (field("organization", "Organization").hint("Empty for an operator, and for an auditor of the whole platform."))
                }
            }
            (field("agents", "Agents").hint("Names with spaces between them. Empty for all agents; role agent needs one."))
            (field("label", "Label").max_chars(200))
            (field("days", "Days until it ends").number(0, Some(36_500)).hint(lifetime))
            (field("addresses", "Networks").hint("Such as 10.1.0.0/16, with spaces between them. Empty for every one."))
            (field("user", "User").max_chars(255).hint("Whom the calls of a token of role agent are made for. Empty for nobody."))
            button { "Create the token" }
        }))
    }
}

/// Creates a token, and shows its text this once.
pub(super) async fn create(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    form: FormFields,
) -> Result<Page, Problem> {
    let made = match token_from(&form, app.settings().tokens.default_end_ms(now_ms())) {
        Ok(wanted) => app.admin().create_token(viewer.actor(), wanted).await,
        Err(Problem(error)) => Err(error),
    };
    let (made, warnings) = match made {
        Ok(made) => made,
        Err(error) if !policies::can_be_corrected(error.error_type) => return Err(error.into()),
        Err(error) => {
            let first = paging::Page { cursor: None, limit: None };
            let page = show(&app, &viewer, &uri, first, &form, Some(&error)).await?;
            return Ok(page.with_status_of(&error));
        }
    };
    let warnings: Vec<_> = warnings.into_iter().map(warning_view).collect();
    let main = html! {
        div.notice role="status" {
            p { strong { "Copy the token now. It is not shown again." } }
            pre tabindex="0" { code { (made.secret.text()) } }
        }
        @if !warnings.is_empty() { (warnings_list(&warnings)) }
        p { "Its id, by which it is revoked, is " code { (short(&made.summary.id)) } "." }
        p { a.button href="/console/tokens" { "All tokens" } }
    };
    Ok(Page::new("New token", main))
}

fn token_from(form: &FormFields, default_end_ms: Option<u64>) -> Result<NewToken, Problem> {
    let words = |field: &str| {
        form.filled_field(field).map(|text| text.split([' ', ',', '\n']).filter(|word| !word.is_empty()))
    };
    let agents =
        words("agents").map(|names| names.map(name).collect::<Result<Vec<Name>, _>>()).transpose()?;
    let addresses = words("addresses").map(|texts| texts.map(network).collect()).transpose()?;
    let days = form.number("days")?;
    Ok(NewToken {
        role: role(form.text("role"))?,
        organization: form.filled_field("organization").map(name).transpose()?,
        agents,
        label: form.text("label").trim().to_owned(),
        expires_ms: match days {
            None => default_end_ms,
            Some(0) => None,
            Some(days) => Some(now_ms().saturating_add(days.saturating_mul(DAY_MS))),
        },
        addresses,
        user: form.filled_field("user").map(|user| user.trim().to_owned()),
    })
}

/// Revokes a token.
pub(super) async fn revoke(
    State(app): State<App>,
    viewer: Viewer,
    Path(id): Path<String>,
) -> Result<SeeOther, Problem> {
    app.admin().revoke_token(viewer.actor(), &id).await?;
    Ok(SeeOther::to("/console/tokens"))
}
