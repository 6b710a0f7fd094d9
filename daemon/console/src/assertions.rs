//! Policy assertions of the platform and of organizations (G17): listed with what breaks them, tried, put in force, deleted.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::Value;
use toolgate_api::assertion::BrokenAssertion;
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_core::identity::Access;
use toolgate_http::documents::own_organization;
use toolgate_http::extract::Path;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::{DocumentKey, Precondition};

use super::elements::{LIST_BYTES, ROWS, badge, editable, notice, number, short, table};
use super::form::{FormFields, SeeOther};
use super::page::Page;
use super::policies::{self, Draft};
use super::text::cut;
use super::viewer::Viewer;

/// Entries of a list of agents or tools in a row.
const NAMED: usize = 10;

/// A start for those who have no assertions yet.
const EXAMPLE: &str = r#"{
  "assertions": [
    {"name": "no-deletes", "never": {"tools": ["files/delete"]}}
  ]
}"#;

/// The holder of a document of assertions, and what is in force.
struct Held {
    organization: Option<Name>,
    stored: Draft,
}

/// The answer of the daemon to a form.
enum Answer {
    None,
    /// The draft was tried: these assertions of it do not hold.
    Tried(Vec<BrokenAssertion>),
    Refused(CallError),
}

/// The assertions of the platform.
pub(super) async fn platform(State(app): State<App>, viewer: Viewer) -> Result<Page, Problem> {
    let held = find(&app, &viewer, None).await?;
    show(&app, &viewer, &held, &held.stored, &Answer::None).await
}

/// The assertions of an organization.
pub(super) async fn organization(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<String>,
) -> Result<Page, Problem> {
    let held = find(&app, &viewer, Some(&organization)).await?;
    show(&app, &viewer, &held, &held.stored, &Answer::None).await
}

/// Tries, puts or deletes the assertions of the platform.
pub(super) async fn change_platform(
    State(app): State<App>,
    viewer: Viewer,
    form: FormFields,
) -> Result<Response, Problem> {
    let held = find(&app, &viewer, None).await?;
    change(&app, &viewer, &held, &form).await
}

/// Tries, puts or deletes the assertions of an organization.
pub(super) async fn change_organization(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<String>,
    form: FormFields,
) -> Result<Response, Problem> {
    let held = find(&app, &viewer, Some(&organization)).await?;
    change(&app, &viewer, &held, &form).await
}

async fn find(app: &App, viewer: &Viewer, organization: Option<&str>) -> Result<Held, Problem> {
    viewer.caller.may(if organization.is_some() { Access::Own } else { Access::Operate })?;
    let organization = organization.map(|name| own_organization(app, &viewer.caller, name)).transpose()?;
    let stored = Draft::load(app, &DocumentKey::Assertions(organization.clone()), EXAMPLE).await?;
    Ok(Held { organization, stored })
}

async fn change(app: &App, viewer: &Viewer, held: &Held, form: &FormFields) -> Result<Response, Problem> {
    let draft = Draft::of(form);
    let organization = held.organization.as_ref();
    let done = match form.text("act") {
        "put" => {
            let key = DocumentKey::Assertions(held.organization.clone());
            policies::put(app, viewer, key, &draft).await
        }
        "delete" => {
            let precondition = Precondition::from_headers(Some(&draft.revision), None)?;
            let key = DocumentKey::Assertions(held.organization.clone());
            app.admin().delete_document(viewer.actor(), &key, &precondition).await
        }
        _ => {
            let tried = app.admin().try_assertions(&viewer.caller, organization, &draft.text).await;
            let answer = tried.map_or_else(Answer::Refused, Answer::Tried);
            return respond(app, viewer, held, &draft, answer).await;
        }
    };
    match done {
        Ok(()) => Ok(SeeOther::to(&policies::assertions_address(organization)).into_response()),
        Err(error) => respond(app, viewer, held, &draft, Answer::Refused(error)).await,
    }
}

async fn respond(
    app: &App,
    viewer: &Viewer,
    held: &Held,
    draft: &Draft,
    answer: Answer,
) -> Result<Response, Problem> {
    match &answer {
        Answer::Refused(error) if !policies::can_be_corrected(error.error_type) => Err(error.clone().into()),
        Answer::Refused(error) => {
            let page = show(app, viewer, held, draft, &answer).await?;
            Ok(page.with_status_of(error).into_response())
        }
        _ => Ok(show(app, viewer, held, draft, &answer).await?.into_response()),
    }
}

async fn show(
    app: &App,
    viewer: &Viewer,
    held: &Held,
    draft: &Draft,
    answer: &Answer,
) -> Result<Page, Problem> {
    let organization = held.organization.as_ref();
    let title =
        organization.map_or("Assertions of the platform".to_owned(), |name| format!("Assertions of {name}"));
    let in_force = match held.stored.revision.is_empty() {
        true => html! {
            div.empty { p { "There are no assertions yet. One says what no agent may ever do, whatever policies say: change the example below, and try it." } }
        },
        false => {
            let broken = app.admin().broken_assertions(organization).await?;
            in_force(&held.stored.text, &broken)
        }
    };
    let main = html! {
        p { "A change of a policy, an agent, a plugin, a grant or a tool that would break an assertion is refused." }
        @match answer {
            Answer::None => {},
            Answer::Refused(error) => (notice(error)),
            Answer::Tried(broken) => (try_result(viewer, held, draft, broken)),
        }
        section aria-labelledby="in-force" {
            h2 id="in-force" { "In force" }
            (in_force)
            @if !held.stored.revision.is_empty() {
                p { a.button href=(policies::assertions_address(organization)) { "Check them again" } }
                (deletion(viewer, held))
            }
        }
        section aria-labelledby="edit" { h2 id="edit" { "Edit" } (edit_form(viewer, organization, draft)) }
    };
    Ok(Page::new(title, main))
}

fn edit_form(viewer: &Viewer, organization: Option<&Name>, draft: &Draft) -> Markup {
    html! {
        form method="post" action=(policies::assertions_address(organization)) {
            (viewer.csrf_field())
            input type="hidden" name="act" value="try";
            input type="hidden" name="revision" value=(draft.revision);
            label for="text" { "Assertions, as JSON" }
            textarea.tall id="text" name="text" spellcheck="false" rows="14" aria-describedby="text-hint" { "\n" (editable(&draft.text)) }
            p.hint id="text-hint" {
                "Each has a name and one of " code { "never" } ", " code { "always_approval" } " and " code { "only" }
                ", with " code { "agents" } " (left out: all) and " code { "tools" } "."
            }
            button { "Try them" }
        }
    }
}

fn deletion(viewer: &Viewer, held: &Held) -> Markup {
    html! {
        form method="post" action=(policies::assertions_address(held.organization.as_ref())) {
            (viewer.csrf_field())
            input type="hidden" name="act" value="delete";
            input type="hidden" name="revision" value=(held.stored.revision);
            button.danger data-confirm="Delete these assertions? Nothing is checked against them any more." { "Delete them" }
        }
    }
}

/// The result of a try, with the form that puts in force what was tried.
fn try_result(viewer: &Viewer, held: &Held, draft: &Draft, broken: &[BrokenAssertion]) -> Markup {
    html! {
        section role="status" aria-label="Result" {
            @if broken.is_empty() {
                div.notice { p { strong { "All of them hold." } } }
                form method="post" action=(policies::assertions_address(held.organization.as_ref())) {
                    (viewer.csrf_field())
                    input type="hidden" name="act" value="put";
                    input type="hidden" name="revision" value=(draft.revision);
                    textarea name="text" hidden { "\n" (editable(&draft.text)) }
                    button { "Put them in force" }
                }
            } @else {
                div.notice.error {
                    p { strong { "Not all of them hold, so that they cannot be put in force." } }
                    p { "Change the policies that let these calls through, or the assertions." }
                }
                (broken_table(broken))
            }
        }
    }
}

/// The assertions in force, each with its state, and the calls that break them.
fn in_force(text: &str, broken: &[BrokenAssertion]) -> Markup {
    let document: Value = serde_json::from_str(text).unwrap_or_default();
    let assertions = document["assertions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows = html! {
        @for assertion in assertions.iter().take(ROWS as usize) {
            @let name = assertion["name"].as_str().unwrap_or_default();
            @let is_broken = broken.iter().any(|broken| broken.assertion == name);
            tr {
                th scope="row" { (short(name)) }
                td { (statement(assertion)) }
                td { @if is_broken { (badge("bad", "broken")) } @else { (badge("good", "holds")) } }
            }
        }
    };
    html! {
        (table("Assertions", &["Assertion", "Statement", "State"], &rows))
        @if assertions.len() > ROWS as usize { p.quiet { (number(assertions.len() as u64)) " assertions in all." } }
        @if !broken.is_empty() { h3 { "Violations" } (broken_table(broken)) }
    }
}

fn broken_table(broken: &[BrokenAssertion]) -> Markup {
    let rows = html! {
        @for broken in broken.iter().take(ROWS as usize) {
            tr {
                th scope="row" { (short(&broken.assertion)) }
                td { (short(&broken.agent)) }
                td { code { (short(&broken.tool)) } }
                td { (cut(&broken.message, LIST_BYTES)) }
            }
        }
    };
    table("Calls that break assertions", &["Assertion", "Agent", "Tool", "Why it is possible"], &rows)
}

/// An assertion in words.
fn statement(assertion: &Value) -> Markup {
    let kinds = ["never", "always_approval", "only"];
    let stated = kinds
        .into_iter()
        .find_map(|kind| Some((kind, assertion.get(kind).filter(|scope| scope.is_object())?)));
    let Some((kind, scope)) = stated else { return html! {} };
    let (agents, tools) = (names(&scope["agents"], "every agent"), names(&scope["tools"], "every tool"));
    match kind {
        "never" => html! { (agents) " cannot call " (tools) },
        "always_approval" => html! { "Each call of " (tools) " by " (agents) " asks a person" },
        _ => html! { "Only " (agents) " can call " (tools) },
    }
}

/// The entries of a list, or one text; `every` for all that there are.
fn names(value: &Value, every: &str) -> String {
    match value {
        Value::String(text) if text != "*" => short(text),
        Value::Array(entries) => toolgate_api::text::list(entries.iter().filter_map(Value::as_str), NAMED),
        _ => every.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn g17_an_assertion_is_told_in_words() {
        let told = |assertion: Value| statement(&assertion).into_string();
        let never = json!({"name": "a", "never": {"agents": ["bot", "clerk"], "tools": ["files/delete"]}});
        assert_eq!(told(never), "`bot`, `clerk` cannot call `files/delete`");
        let asks = json!({"name": "a", "always_approval": {"tools": "*"}, "never": null});
        assert_eq!(told(asks), "Each call of every tool by every agent asks a person");
        assert_eq!(told(json!({"name": "a"})), "");
    }

    #[test]
    fn g17_the_example_is_a_document() {
        use toolgate_api::assertion::{AssertionHolder, AssertionsDocument};
        for holder in [AssertionHolder::Platform, AssertionHolder::Organization] {
            assert_eq!(AssertionsDocument::parse(EXAMPLE, holder).expect("sound").assertions.len(), 1);
        }
    }
}
