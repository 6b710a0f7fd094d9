//! The changes that bring a daemon to the documents of a folder.

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use toolgate_api::document::DocumentWarning;
use toolgate_api::error::ErrorType;
use toolgate_api::policy_diff::Preview;
use toolgate_api::tools::ToolPattern;
use toolgate_api::webhook::WebhookList;

use super::super::client::{Client, ClientError, RequestBuilder, escape};
use super::super::differences::differences;
use super::super::document;
use super::super::failure::{Failure, Result};
use super::super::history::{self, DocumentName};
use super::super::print::Printer;
use crate::folder::{Folder, FolderDocument, Kind, Stored};

/// Changes and deletions, in the order in which they are made.
pub(super) struct Plan {
    pub changes: Vec<Change>,
    pub deletions: Vec<Deletion>,
    /// Number of documents that are as in the folder.
    pub unchanged: usize,
}

/// A document to be written.
pub(super) struct Change {
    pub document: FolderDocument,
    pub before: Option<Stored>,
    /// The decisions that it changes, unless other changes of the plan decide them, too.
    pub preview: Option<Preview>,
}

/// A document to be deleted.
pub(super) struct Deletion {
    pub document: DocumentName,
    pub etag: Option<String>,
}

/// The kind of the one deleted document that has no history.
const WEBHOOK: &str = "webhook";

impl Plan {
    /// Reads the current documents, and compares them with those of the folder.
    pub(super) async fn read(
        client: &Client,
        folder: Folder,
        prune: bool,
        owner: Option<&str>,
    ) -> Result<Self> {
        let deletions = if prune { deletions(client, &folder, owner).await? } else { Vec::new() };
        let (mut changes, mut unchanged) = (Vec::new(), 0);
        for document in folder.documents {
            let before = Stored::read(client, &document).await;
            let before = before.map_err(|failure| nothing_applied(&document.label, failure))?;
            if before.as_ref().is_some_and(|before| is_same(&document, before)) {
                unchanged += 1;
            } else {
                changes.push(Change { document, before, preview: None });
            }
        }
        Ok(Self { changes, deletions, unchanged })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.deletions.is_empty()
    }

    /// Asks the daemon to check each change without an effect, and how decisions would change. A refusal that another change
    /// of the plan may lift is passed over: such a change is checked when it is written.
    pub(super) async fn check(&mut self, client: &Client, printer: &mut Printer<'_>) -> Result {
        let mut previews = Vec::new();
        for change in &self.changes {
            let mut preview = None;
            let document = &change.document;
            let depends = self.depends_on_another(document);
            match change.put(client, "?dry_run=true").send::<IgnoredAny>().await {
                Ok(_) => {}
                Err(error) if depends && may_be_lifted(document.kind, &error) => {}
                Err(error) => return Err(refusal(&document.label, error)),
            }
            if !depends {
                preview = read_preview(client, document, printer).await?;
            }
            previews.push(preview);
        }
        for (change, preview) in self.changes.iter_mut().zip(previews) {
            change.preview = preview;
        }
        Ok(())
    }

    fn depends_on_another(&self, document: &FolderDocument) -> bool {
        self.changes.iter().any(|other| {
            let other = &other.document;
            let is_above = other.organization.is_none() || other.organization == document.organization;
            // Policies come before the tools that they name.
            let is_named = other.kind == Kind::Tool && matches!(document.kind, Kind::Policy | Kind::Agent);
            (other.kind < document.kind || is_named) && is_above
        })
    }

    /// The warnings about a written document, without those about tools that are written after it.
    pub(super) fn lasting_warnings(
        &self,
        document: &FolderDocument,
        mut warnings: Vec<DocumentWarning>,
    ) -> Vec<DocumentWarning> {
        let documents = self.changes.iter().map(|change| &change.document);
        let later: Vec<&str> = documents
            .filter(|other| other.kind == Kind::Tool && other.organization == document.organization)
            .filter(|other| document.kind < other.kind)
            .filter_map(|other| other.path.rsplit('/').next())
            .collect();
        warnings.retain(|warning| {
            let namespace = warning.tool.as_ref().and_then(ToolPattern::namespace);
            match &*warning.code {
                "UNRESOLVED_TOOL" => !namespace.is_some_and(|namespace| later.contains(&namespace.as_str())),
                "NO_TOOLS" => later.is_empty(),
                _ => true,
            }
        });
        warnings
    }
}

impl Change {
    /// Whether the document is new.
    pub(super) fn creates(&self) -> bool {
        self.before.as_ref().is_none_or(|before| before.etag.is_none())
            && !(self.document.kind == Kind::Webhook && self.before.is_some())
    }

    /// The request that writes the document, if it is still as it was read. `query` is appended to the path.
    pub(super) fn put<'client>(&self, client: &'client Client, query: &str) -> RequestBuilder<'client> {
        let document = &self.document;
        let put = client.put(&format!("{}{query}", document.path)).json_text(document.text.clone());
        let etag = self.before.as_ref().and_then(|before| before.etag.as_deref());
        match document.kind {
            // Webhooks have no entity tags.
            Kind::Webhook => put,
            _ => put.replacing(etag),
        }
    }

    pub(super) fn verb(&self) -> &'static str {
        if self.creates() { "create" } else { "change" }
    }

    pub(super) fn differences(&self) -> Vec<String> {
        let before = self.before.as_ref().map_or(&Value::Null, |before| &before.value);
        differences(before, &self.document.value)
    }
}

/// Whether the refusal of a dry run may be due to a document that the plan changes first: an organization that is not there
/// yet, an assertion, the grant by which the tools of a server are listed. A wrong document stays wrong, unless other documents
/// decide what is right in it.
fn may_be_lifted(kind: Kind, error: &ClientError) -> bool {
    let is_checked_by_others = matches!(kind, Kind::Settings | Kind::Policy | Kind::Agent);
    match error.status() {
        Some(404 | 409) => true,
        Some(403) => kind == Kind::Tool && error.error_type() == Some(ErrorType::NetworkDenied),
        Some(422) => is_checked_by_others,
        _ => false,
    }
}

/// How the decisions for agents would change, for a document that decides calls.
async fn read_preview(
    client: &Client,
    document: &FolderDocument,
    printer: &mut Printer<'_>,
) -> Result<Option<Preview>> {
    let path = match document.kind {
        Kind::Platform | Kind::Policy => format!("{}/diff", document.path),
        Kind::Agent => format!("{}/policy/diff", document.path),
        _ => return Ok(None),
    };
    let preview: Preview = match client.post(&path).json_text(document.text.clone()).send().await {
        Ok(response) => response.body,
        Err(error) => return Err(nothing_applied(&document.label, error.into())),
    };
    document::warn(printer, &preview.warnings)?;
    Ok(Some(preview))
}

/// The failure of an apply whose document the daemon refuses. A failed precondition means that another write came after the
/// document was read.
pub(super) fn refusal(label: &str, error: ClientError) -> Failure {
    if error.status() != Some(412) {
        return nothing_applied(label, error.into());
    }
    let raced = Failure::new(
        format!("{label} was changed by another write meanwhile"),
        "apply the folder again; its changes are shown anew",
    );
    nothing_applied(label, raced)
}

/// The failure of an apply without an effect.
pub(super) fn nothing_applied(label: &str, failure: Failure) -> Failure {
    Failure::new(format!("nothing was applied: {label}: {failure}"), failure.hint())
}

fn is_same(document: &FolderDocument, stored: &Stored) -> bool {
    let has_events = document.value.get("events").is_some();
    match document.kind {
        Kind::Webhook if !has_events => document.value.get("url") == stored.value.get("url"),
        // A grant that holds by default follows the plugin; a written one does not.
        Kind::Grant | Kind::ToolGrant if stored.etag.is_none() => false,
        _ => document.value == stored.value,
    }
}

/// The documents of the folder's organizations that the folder does not have; with an owner those that a token of this label
/// wrote last. An organization itself, a policy and a grant are never deleted.
async fn deletions(client: &Client, folder: &Folder, owner: Option<&str>) -> Result<Vec<Deletion>> {
    let mut found = Vec::new();
    for organization in folder.organizations() {
        let base = format!("/v1/orgs/{}", escape(&organization));
        let new = folder.documents.iter().any(|document| document.path == base);
        let lists = [("agents", "agent"), ("tools", "tool"), ("publisher-keys", "publisher_key")];
        for (list, kind) in lists {
            let path = format!("{base}/{list}");
            let entries: Result<Vec<Value>, _> = client.list_all(&path).await;
            let entries = match entries {
                Ok(entries) => entries,
                // The folder makes the organization.
                Err(error) if error.status() == Some(404) && new => continue,
                Err(error) => return Err(nothing_applied(&path, error.into())),
            };
            for name in entries.iter().filter_map(name_of) {
                let path = format!("{path}/{}", escape(name));
                let document = document_name(kind, &organization, Some(name), path);
                found.push(Deletion { document, etag: Some("*".to_owned()) });
            }
        }
        if let Some(webhooks) = document::current::<WebhookList>(client, &format!("{base}/webhooks")).await? {
            found.extend(webhooks.body.items.iter().map(|webhook| {
                let path = format!("{base}/webhooks/{}", escape(&webhook.name));
                Deletion {
                    document: document_name(WEBHOOK, &organization, Some(&webhook.name), path),
                    etag: None,
                }
            }));
        }
        let path = format!("{base}/policy/assertions");
        if let Some(assertions) = document::current::<IgnoredAny>(client, &path).await? {
            let document = document_name("assertions", &organization, None, path);
            found.push(Deletion { document, etag: assertions.etag });
        }
    }
    found.retain(|deletion| !folder.documents.iter().any(|document| document.path == deletion.document.path));
    if let Some(owner) = owner {
        found = written_by(client, owner, found).await?;
    }
    with_tags(client, found).await
}

/// The documents whose last change is by a token with this label.
async fn written_by(client: &Client, owner: &str, found: Vec<Deletion>) -> Result<Vec<Deletion>> {
    let mut owned = Vec::new();
    // Webhooks have no history that could tell their owner.
    for deletion in found.into_iter().filter(|deletion| deletion.document.kind != WEBHOOK) {
        let history = history::read(client, &deletion.document, None).await;
        let history = history.map_err(|failure| nothing_applied(&deletion.document.label, failure))?;
        let last = history.items.first().and_then(|change| change.author_label.as_deref());
        if last == Some(owner) {
            owned.push(deletion);
        }
    }
    Ok(owned)
}

fn document_name(kind: &'static str, organization: &str, name: Option<&str>, path: String) -> DocumentName {
    let word = kind.replace('_', " ");
    let label = match name {
        Some(name) => format!("{word} `{organization}/{name}`"),
        None => format!("{word} of `{organization}`"),
    };
    DocumentName {
        kind,
        organization: Some(organization.to_owned()),
        name: name.map(str::to_owned),
        path,
        label,
    }
}

/// Reads the tags of the documents, so that one that was changed in between is not deleted.
async fn with_tags(client: &Client, mut found: Vec<Deletion>) -> Result<Vec<Deletion>> {
    for deletion in found.iter_mut().filter(|deletion| deletion.etag.as_deref() == Some("*")) {
        let current = client.get(&deletion.document.path).send::<IgnoredAny>().await;
        deletion.etag =
            current.map_err(|error| nothing_applied(&deletion.document.label, error.into()))?.etag;
    }
    Ok(found)
}

fn name_of(entry: &Value) -> Option<&str> {
    entry.get("name").or_else(|| entry.get("namespace"))?.as_str()
}

/// Text that stands for a document that was not there, for kinds that cannot be deleted.
pub(super) fn empty_text(kind: Kind, before: Option<&Stored>) -> Option<String> {
    match kind {
        Kind::Platform | Kind::Policy => Some(json!({}).to_string()),
        Kind::Grant | Kind::ToolGrant => {
            Some(before.map_or_else(|| json!({}).to_string(), |before| before.text.clone()))
        }
        _ => None,
    }
}
