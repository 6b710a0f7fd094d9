//! Policy assertions of the platform and of organizations (G17): listed with what breaks them, tried, put in force, deleted.

use std::fmt::Display;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use toolgate_api::assertion::{
    Assertion, AssertionHolder, AssertionKind, AssertionScope, AssertionsDocument, BrokenAssertion,
};
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_api::pattern_list::PatternList;
use toolgate_core::identity::Access;
use toolgate_http::extract::Path;
use toolgate_http::path_params::OwnerPath;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::{DocumentKey, DocumentKind};

use super::document_form::{self, Draft, Sent, editor, suggestions};
use super::elements::{Filters, LIST_BYTES, ROWS, badge, editable, notice, number, short, table};
use super::form::{FormFields, SeeOther};
use super::history::{self, HistoryQuery, Kept};
use super::page::Page;
use super::policies;
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

/// The editor of the assertions of the platform, or of an organization.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path(OwnerPath { organization }): Path<OwnerPath>,
) -> Result<Page, Problem> {
    let held = find(&app, &viewer, organization).await?;
    show(&app, &viewer, &held, &held.stored, &Answer::None).await
}

async fn find(app: &App, viewer: &Viewer, organization: Option<Name>) -> Result<Held, Problem> {
    match &organization {
        Some(organization) => app.admin().expect_own(&viewer.caller, organization)?,
        None => viewer.caller.may(Access::Operate)?,
    }
    let stored = Draft::load(app, &DocumentKey::Assertions(organization.clone()), EXAMPLE).await?;
    Ok(Held { organization, stored })
}

/// Who changed them when, and the way back.
pub(super) async fn history(
    State(app): State<App>,
    viewer: Viewer,
    Path(OwnerPath { organization }): Path<OwnerPath>,
    Filters(revision): Filters<HistoryQuery>,
) -> Result<Page, Problem> {
    let address = policies::assertions_address(organization.as_ref());
    let title = "assertions".to_owned();
    let kept = Kept { key: DocumentKey::Assertions(organization), title, address, act: "try" };
    history::show(&app, &viewer, kept, revision).await
}

/// Tries, puts or deletes assertions.
pub(super) async fn change(
    State(app): State<App>,
    viewer: Viewer,
    Path(OwnerPath { organization }): Path<OwnerPath>,
    form: FormFields,
) -> Result<Response, Problem> {
    let held = find(&app, &viewer, organization).await?;
    let key = DocumentKey::Assertions(held.organization.clone());
    let draft = Draft::of(&form, key.kind())?;
    let answer = match form.text("act") {
        "put" => document_form::put(&app, &viewer, key, &draft).await.err().map(Answer::Refused),
        "delete" => {
            let deleted = app.admin().delete_document(viewer.actor(), &key, &draft.precondition()?).await;
            deleted.err().map(Answer::Refused)
        }
        _ => {
            let tried = app.admin().try_assertions(&viewer.caller, held.organization.as_ref(), &draft.text);
            Some(tried.await.map_or_else(Answer::Refused, Answer::Tried))
        }
    };
    let Some(answer) = answer else {
        return Ok(SeeOther::to(&policies::assertions_address(held.organization.as_ref())).into_response());
    };
    if let Answer::Refused(error) = &answer
        && !policies::can_be_corrected(error.error_type)
    {
        return Err(error.clone().into());
    }
    let page = show(&app, &viewer, &held, &draft, &answer).await?;
    Ok(match &answer {
        Answer::Refused(error) => page.with_status_of(error).into_response(),
        _ => page.into_response(),
    })
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
            let holder = match organization {
                Some(_) => AssertionHolder::Organization,
                None => AssertionHolder::Platform,
            };
            // A stored document was parsed when it was written.
            let document = AssertionsDocument::parse(&held.stored.text, holder).unwrap_or_default();
            in_force(&document.assertions, &broken)
        }
    };
    let address = policies::assertions_address(organization);
    let sent = Sent { action: &address, buttons: &[("try", "Try them")] };
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
                p {
                    a.button href=(policies::assertions_address(organization)) { "Check them again" }
                    a.button href={ (policies::assertions_address(organization)) "/history" } { "History" }
                }
                (deletion(viewer, held))
            }
        }
        section aria-labelledby="edit" { h2 id="edit" { "Edit" } (editor(viewer, DocumentKind::Assertions, draft, &suggestions(app, organization), &sent)) }
    };
    Ok(Page::new(title, main))
}

fn deletion(viewer: &Viewer, held: &Held) -> Markup {
    html! {
        (viewer.form(policies::assertions_address(held.organization.as_ref()), &[("act", &"delete"), ("revision", &held.stored.revision)], html! {
            button.danger data-confirm="Delete these assertions? Nothing is checked against them any more." { "Delete them" }
        }))
    }
}

/// The result of a try, with the form that puts in force what was tried.
fn try_result(viewer: &Viewer, held: &Held, draft: &Draft, broken: &[BrokenAssertion]) -> Markup {
    html! {
        section role="status" aria-label="Result" {
            @if broken.is_empty() {
                div.notice { p { strong { "All of them hold." } } }
                (viewer.form(policies::assertions_address(held.organization.as_ref()), &[("act", &"put"), ("revision", &draft.revision)], html! {
                    textarea name="text" hidden { "\n" (editable(&draft.text)) }
                    button { "Put them in force" }
                }))
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
fn in_force(assertions: &[Assertion], broken: &[BrokenAssertion]) -> Markup {
    let rows = html! {
        @for assertion in assertions.iter().take(ROWS as usize) {
            @let is_broken = broken.iter().any(|broken| broken.assertion == assertion.name.as_str());
            tr {
                th scope="row" { (short(assertion.name.as_str())) }
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
fn statement(assertion: &Assertion) -> Markup {
    let Some((kind, AssertionScope { agents, tools })) = assertion.statement() else { return html! {} };
    let (agents, tools) = (names(agents, "every agent"), names(tools, "every tool"));
    match kind {
        AssertionKind::Never => html! { (agents) " cannot call " (tools) },
        AssertionKind::AlwaysApproval => html! { "Each call of " (tools) " by " (agents) " asks a person" },
        AssertionKind::Only => html! { "Only " (agents) " can call " (tools) },
    }
}

/// The entries of a list; `every` for all that there are.
fn names<P: Display>(list: &PatternList<P>, every: &str) -> String {
    match list {
        PatternList::All => every.to_owned(),
        PatternList::List(patterns) => {
            let texts: Vec<String> = patterns.iter().map(P::to_string).collect();
            toolgate_api::text::list(texts.iter().map(String::as_str), NAMED)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g17_an_assertion_is_told_in_words() {
        let told = |assertion: &str| {
            let text = format!(r#"{{"assertions": [{{"name": "a", {assertion}}}]}}"#);
            let document = AssertionsDocument::parse(&text, AssertionHolder::Organization).expect("sound");
            statement(&document.assertions[0]).into_string()
        };
        let never = r#""never": {"agents": ["bot", "clerk"], "tools": ["files/delete"]}"#;
        assert_eq!(told(never), "`bot`, `clerk` cannot call `files/delete`");
        let asks = r#""always_approval": {"tools": "*"}, "never": null"#;
        assert_eq!(told(asks), "Each call of every tool by every agent asks a person");
    }

    #[test]
    fn g17_the_example_is_a_document() {
        for holder in [AssertionHolder::Platform, AssertionHolder::Organization] {
            assert_eq!(AssertionsDocument::parse(EXAMPLE, holder).expect("sound").assertions.len(), 1);
        }
    }
}
