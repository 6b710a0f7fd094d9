//! History and rollback of documents, for the commands of each kind.

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_api::document::{DocumentHistory, DocumentRevision, DocumentWarning};

use super::ask::asks;
use super::client::{Client, escape};
use super::differences::differences;
use super::document::{self, query};
use super::failure::{Failure, Result};
use super::print::{Printer, time_text, token_text};

/// A document with a history.
pub struct DocumentName {
    /// Such as `agent`.
    pub kind: &'static str,
    /// The organization; `None` for the platform.
    pub organization: Option<String>,
    /// The name within the organization or platform, if there is more than one of the kind.
    pub name: Option<String>,
    /// The path of the document.
    pub path: String,
    /// The words of messages, such as ``agent `acme/bot` ``.
    pub label: String,
}

/// Options of the commands that show a history.
#[derive(Args, Clone, Debug, Default)]
pub struct HistoryOptions {
    /// Show this revision of the document
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<u64>,
}

/// Options of the commands that return to an earlier revision.
#[derive(Args, Clone, Debug, Default)]
pub struct RollbackOptions {
    /// The revision to return to [default: the one before the current one]
    #[arg(long, value_name = "REVISION")]
    pub to: Option<u64>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// Arguments that name a document.
pub trait DocumentArguments: Args {
    fn document(&self) -> Result<DocumentName>;
}

/// A command about the history of a document.
#[derive(Args)]
pub struct DocumentCommand<D: DocumentArguments, O: Args> {
    #[command(flatten)]
    pub document: D,
    #[command(flatten)]
    pub options: O,
}

impl<D: DocumentArguments> DocumentCommand<D, HistoryOptions> {
    pub async fn show(&self, client: &Client, printer: &mut Printer<'_>) -> Result {
        show(client, printer, &self.document.document()?, &self.options).await
    }
}

impl<D: DocumentArguments> DocumentCommand<D, RollbackOptions> {
    pub async fn roll_back(&self, client: &Client, printer: &mut Printer<'_>) -> Result {
        rollback(client, printer, &self.document.document()?, &self.options).await
    }
}

/// Lists the revisions of a document, or shows one.
pub(crate) async fn show(
    client: &Client,
    printer: &mut Printer<'_>,
    document: &DocumentName,
    options: &HistoryOptions,
) -> Result {
    let history = read(client, document, options.revision).await?;
    match (options.revision, history.items.first()) {
        (Some(_), Some(DocumentRevision { document: Some(text), .. })) => {
            Ok(printer.json(&serde_json::from_str::<Value>(text.get()).unwrap_or_default())?)
        }
        (Some(revision), _) => Err(deleted_revision(document, revision)),
        (None, _) => Ok(printer.list(["REVISION", "WRITTEN", "BY", "CHANGE"], &history.items, row)?),
    }
}

fn row(revision: &DocumentRevision) -> [String; 4] {
    [
        revision.revision.to_string(),
        time_text(revision.written_at),
        revision
            .author
            .as_ref()
            .map_or_else(|| "-".to_owned(), |id| token_text(id, revision.author_label.as_deref())),
        if revision.deleted { "deleted" } else { "written" }.to_owned(),
    ]
}

/// Writes an earlier revision again, after its differences are shown and confirmed. The write has the tag of the current
/// revision, so that a change in between is not overwritten.
pub(crate) async fn rollback(
    client: &Client,
    printer: &mut Printer<'_>,
    name: &DocumentName,
    options: &RollbackOptions,
) -> Result {
    // Read first: a write after it makes its tag stale, so that the write below is refused.
    let current = document::current::<Value>(client, &name.path).await?;
    let history = read(client, name, None).await?;
    let target = target(&history, name, options.to)?;
    let earlier = read(client, name, Some(target)).await?.items.into_iter().find_map(|item| item.document);
    let Some(earlier) = earlier else { return Err(deleted_revision(name, target)) };
    let after: Value = serde_json::from_str(earlier.get()).unwrap_or_default();
    let before = current.as_ref().map_or(&Value::Null, |current| &current.body);
    for line in differences(before, &after) {
        printer.note(&line)?;
    }
    if !options.yes && !asks(&format!("Return {} to revision {target}? [y/N] ", name.label))? {
        let hint = "nothing is changed; add `--yes` to return without a question";
        return Err(Failure::new(format!("{} was not rolled back", name.label), hint));
    }
    let etag = current.as_ref().and_then(|current| current.etag.as_deref());
    let put = client.put(&name.path).json_text(earlier.get().to_owned()).replacing(etag);
    let written = put.send::<Option<Written>>().await?;
    document::warn(printer, &written.body.unwrap_or_default().warnings)?;
    let shown = json!({"rolled_back_to": target, "etag": written.etag});
    Ok(printer.result(&shown, &format!("{} is as it was at revision {target}", name.label))?)
}

#[derive(Default, Deserialize)]
struct Written {
    #[serde(default)]
    warnings: Vec<DocumentWarning>,
}

/// Reads the history of a document, newest first, or one revision with its text.
pub(crate) async fn read(
    client: &Client,
    document: &DocumentName,
    revision: Option<u64>,
) -> Result<DocumentHistory> {
    let revision = revision.map(|revision| revision.to_string());
    let query = query(&[
        ("kind", Some(document.kind)),
        ("organization", document.organization.as_deref()),
        ("name", document.name.as_deref()),
        ("revision", revision.as_deref()),
    ]);
    Ok(client.get(&format!("/v1/history{query}")).send().await?.body)
}

/// The revision to return to: the requested one, or the newest one with a document before the current one.
fn target(history: &DocumentHistory, name: &DocumentName, to: Option<u64>) -> Result<u64> {
    if let Some(to) = to {
        return Ok(to);
    }
    let earlier = history.items.iter().skip(1).find(|item| !item.deleted);
    earlier.map(|item| item.revision).ok_or_else(|| {
        Failure::new(
            format!("no earlier revision of {} is kept", name.label),
            "see its history; a document that was written once has nothing to return to",
        )
    })
}

fn deleted_revision(name: &DocumentName, revision: u64) -> Failure {
    Failure::new(
        format!("revision {revision} deleted {}, so it has no document", name.label),
        "choose another revision of its history",
    )
}

impl DocumentName {
    /// The grant of a plugin of the platform.
    pub fn grant(namespace: &str) -> Self {
        Self {
            kind: "grant",
            organization: None,
            name: Some(namespace.to_owned()),
            path: format!("/v1/plugins/{}/grant", escape(namespace)),
            label: format!("the grant of plugin `{namespace}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    fn history() -> Canned {
        Canned::json(
            200,
            json!({"items": [
                {"revision": 9, "author": "t_ben", "written_at": 1, "deleted": false},
                {"revision": 7, "written_at": 0, "deleted": true},
                {"revision": 4, "author": "t_anna", "written_at": 0, "deleted": false},
            ]}),
        )
    }

    async fn roll_back(options: RollbackOptions, answers: Vec<Canned>) -> Run {
        let name = DocumentName {
            kind: "organization",
            organization: Some("acme".into()),
            name: None,
            path: "/v1/orgs/acme".into(),
            label: "organization `acme`".into(),
        };
        run_with(answers, false, async |client, printer| rollback(client, printer, &name, &options).await)
            .await
    }

    #[tokio::test]
    async fn revisions_are_listed_with_author_and_time() {
        let name = DocumentName::grant("http");
        let run = run_with(vec![history()], false, async |client, printer| {
            show(client, printer, &name, &HistoryOptions::default()).await
        })
        .await;
        run.result.expect("listed");
        assert_eq!(run.asked[0].line(), "GET /v1/history?kind=grant&name=http");
        assert!(run.out.contains("9         1970-01-01T00:00:00.001Z  token t_ben   written"), "{}", run.out);
        assert!(run.out.contains("-             deleted"), "{}", run.out);
    }

    #[tokio::test]
    async fn the_document_before_is_written_on_the_current_tag() {
        let current = Canned::json(200, json!({"connected": ["b"]})).with_etag("\"9\"");
        let earlier =
            json!({"revision": 4, "written_at": 0, "deleted": false, "document": {"connected": ["a"]}});
        let earlier = Canned::json(200, json!({"items": [earlier]}));
        let written = Canned::json(200, json!(null)).with_etag("\"10\"");
        let options = RollbackOptions { to: None, yes: true };
        let run = roll_back(options, vec![current, history(), earlier, written]).await;
        run.result.expect("rolled back");
        assert_eq!(run.asked[2].line(), "GET /v1/history?kind=organization&organization=acme&revision=4");
        assert_eq!(
            (run.asked[3].line(), run.asked[3].header("if-match")),
            ("PUT /v1/orgs/acme".into(), Some("\"9\""))
        );
        assert_eq!(run.asked[3].body, "{\"connected\":[\"a\"]}");
        assert_eq!(run.notes, "- /connected/*: \"b\"\n+ /connected/*: \"a\"\n");
        assert_eq!(run.out, "organization `acme` is as it was at revision 4\n");
    }

    #[tokio::test]
    async fn without_an_earlier_revision_nothing_is_written() {
        let one = json!({"items": [{"revision": 9, "written_at": 1, "deleted": false}]});
        let current = Canned::json(200, json!({})).with_etag("\"9\"");
        let run = roll_back(RollbackOptions::default(), vec![current, Canned::json(200, one)]).await;
        let failure = run.result.expect_err("nothing before it");
        assert!(failure.to_string().contains("no earlier revision"), "{failure}");
        assert_eq!(run.asked.len(), 2);
    }
}
