//! The history of a document: who changed it when, the difference to the document in force, and the way back.

use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_http::extract::Path;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::{DocumentKey, Revision};
use toolgate_state::store::{HistoryEntry, TokenLabels};

use super::changes::difference;
use super::document_form::Draft;
use super::elements::{Filters, badge, editable, table, time, token};
use super::page::Page;
use super::policies::{PolicyPath, address, expect_seen, title};
use super::text::indent_json;
use super::viewer::Viewer;

#[derive(Deserialize)]
pub(super) struct HistoryQuery {
    revision: Option<u64>,
}

/// A document whose history is shown.
pub(super) struct Kept {
    pub key: DocumentKey,
    pub title: String,
    /// The page of the document; its history is below it.
    pub address: String,
    /// What a return to a revision asks that page for.
    pub act: &'static str,
}

pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<PolicyPath>,
    Filters(revision): Filters<HistoryQuery>,
) -> Result<Page, Problem> {
    let key = path.key();
    let (title, address) = (title(&key), address(&key));
    show(&app, &viewer, Kept { key: key.into(), title, address, act: "preview" }, revision).await
}

/// The history of a document that the viewer may see.
pub(super) async fn show(
    app: &App,
    viewer: &Viewer,
    kept: Kept,
    HistoryQuery { revision }: HistoryQuery,
) -> Result<Page, Problem> {
    let Kept { key: document, title, address, act } = kept;
    expect_seen(app, viewer, &document)?;
    let store = &app.services().store;
    let entries = store.history(&document, None).await?;
    let labels = store.token_labels(&entries.iter().map(|entry| &*entry.author).collect()).await?;
    let now = Draft::load(app, &document, "").await?;
    let chosen = match revision {
        Some(revision) => store.history(&document, Some(Revision(revision))).await?.pop(),
        None => None,
    };
    let main = html! {
        @if let Some(entry) = &chosen { (comparison(viewer, &address, act, entry, &now)) }
        @if entries.is_empty() { p { "The document was never written." } }
        @else { (table("Revisions", &["Revision", "Written", "By", "Change"], &rows(&entries, &labels, &address))) }
        p { a href=(address) { "The document in force" } }
    };
    Ok(Page::new(format!("History: {title}"), main))
}

fn rows(entries: &[HistoryEntry], labels: &TokenLabels, address: &str) -> Markup {
    html! {
        @for (at, entry) in entries.iter().enumerate() {
            tr {
                th scope="row" {
                    @match &entry.body {
                        Some(_) => { a href=(format!("{address}/history?revision={}", entry.revision.0)) { (entry.revision.0) } },
                        None => (entry.revision.0),
                    }
                }
                td { (time(entry.written_ms)) }
                td { @if entry.author.is_empty() { "the daemon" } @else { (token(&entry.author, labels.get(&entry.author).as_deref())) } }
                td {
                    @match (&entry.body, at) {
                        (None, _) => (badge("bad", "deleted")),
                        (Some(_), 0) => (badge("good", "in force")),
                        (Some(_), _) => "written",
                    }
                }
            }
        }
    }
}

/// What a return to a revision would change, and the form that shows its effects on agents.
fn comparison(viewer: &Viewer, address: &str, act: &str, entry: &HistoryEntry, now: &Draft) -> Markup {
    let text = indent_json(entry.body.as_deref().unwrap_or_default());
    html! {
        section aria-labelledby="difference" {
            h2 id="difference" { "From the document in force to revision " (entry.revision.0) }
            @if text == now.text { p { "They say the same." } }
            @else {
                (difference(&now.text, &text))
                (viewer.form(address, &[("act", &act), ("revision", &now.revision)], html! {
                    textarea name="text" hidden { "\n" (editable(&text)) }
                    button { "Show what a return would change" }
                }))
            }
        }
    }
}
