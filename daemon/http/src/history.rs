//! The history of documents over HTTP: one route for every kind.

use serde::Deserialize;
use serde_json::value::RawValue;
use toolgate_api::document::{DocumentHistory, DocumentKindName, DocumentRevision};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_state::documents::{DocumentKey, Revision};
use toolgate_state::store::{HistoryEntry, StoreError, TokenLabels};
use utoipa::IntoParams;

use super::documents::name;
use super::error_responses::{NoHistory, StoreUnreadable};
use super::extract::{Client, Query};
use super::problem::Problem;

/// The document whose history is listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryQuery {
    /// The kind of the document.
    #[param(inline)]
    kind: DocumentKindName,
    /// The organization that the document belongs to; left out for the platform.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64)]
    organization: Option<String>,
    /// The name of an agent, a key, or the namespace of a plugin or tool. The other kinds have one document for each
    /// organization.
    #[param(max_length = 64)]
    name: Option<String>,
    /// Returns this revision alone, with its document.
    revision: Option<u64>,
}

/// List the earlier revisions of a document.
///
/// Each write and each deletion is kept with its author and time, up to 50 revisions and 4 MiB of each document. The newest
/// revision of an existing document is in force. A `PUT` of an earlier document returns to it, under the rules of every
/// change.
#[utoipa::path(
    get, path = "/v1/history", tag = "policies", operation_id = "get_document_history", params(HistoryQuery),
    responses((status = 200, description = "The revisions, newest first.", body = DocumentHistory), NoHistory, StoreUnreadable),
)]
pub(crate) async fn get(
    Client { app, caller }: Client,
    Query(query): Query<HistoryQuery>,
) -> Result<axum::Json<DocumentHistory>, Problem> {
    let key = key(&query)?;
    caller.may_change(&key)?;
    let entries = app.services().store.history(&key, query.revision.map(Revision)).await;
    let entries = entries?;
    if entries.is_empty() {
        return Err(CallError::from(StoreError::no_document(&key)).into());
    }
    let with_document = query.revision.is_some();
    let authors = entries.iter().map(|entry| &*entry.author).collect();
    let labels = app.services().store.token_labels(&authors).await?;
    let items = entries.into_iter().map(|entry| revision(entry, &labels, with_document)).collect();
    Ok(axum::Json(DocumentHistory { items }))
}

fn revision(entry: HistoryEntry, labels: &TokenLabels, with_document: bool) -> DocumentRevision {
    DocumentRevision {
        revision: entry.revision.0,
        author_label: labels.get(&entry.author),
        author: Some(entry.author).filter(|author| !author.is_empty()),
        written_at: entry.written_ms,
        deleted: entry.body.is_none(),
        document: entry
            .body
            .filter(|_| with_document)
            .and_then(|body| RawValue::from_string(body.trim().to_owned()).ok()),
    }
}

fn key(query: &HistoryQuery) -> Result<DocumentKey, Problem> {
    let organization = query.organization.as_deref().map(name).transpose()?;
    let text = query.name.as_deref().unwrap_or_default();
    let within = organization.as_ref().map_or("", |organization| organization.as_str());
    let named = |kind: &str| DocumentKey::from_row(kind, within, text);
    let key = match (query.kind, &organization, &query.name) {
        (DocumentKindName::Platform, None, None) => Some(DocumentKey::Platform),
        (DocumentKindName::Organization, Some(organization), None) => {
            Some(DocumentKey::Organization(organization.clone()))
        }
        (DocumentKindName::Policy, Some(organization), None) => {
            Some(DocumentKey::Policy(organization.clone()))
        }
        (DocumentKindName::Assertions, owner, None) => Some(DocumentKey::Assertions(owner.clone())),
        (DocumentKindName::Agent, Some(_), Some(_)) => named("agent"),
        (DocumentKindName::Grant, None, Some(_)) => named("grant"),
        (DocumentKindName::Tool, Some(_), Some(_)) => named("tool"),
        (DocumentKindName::ToolGrant, Some(_), Some(_)) => named("tool_grant"),
        (DocumentKindName::Enabled, Some(_), Some(_)) => named("enabled"),
        (DocumentKindName::PublisherKey, _, Some(_)) => named("publisher_key"),
        _ => None,
    };
    key.ok_or_else(|| {
        Problem::new(
            ErrorType::InvalidRequest,
            "`kind`, `organization` and `name` do not name a document",
            "give `organization` for a document of an organization, and `name` for an agent, plugin, tool or key",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(kind: DocumentKindName, organization: Option<&str>, name: Option<&str>) -> HistoryQuery {
        let [organization, name] = [organization, name].map(|text| text.map(str::to_owned));
        HistoryQuery { kind, organization, name, revision: None }
    }

    #[test]
    fn kind_organization_and_name_are_a_key() {
        for (kind, organization, name, shown) in [
            (DocumentKindName::Platform, None, None, "policy of the platform"),
            (DocumentKindName::Organization, Some("acme"), None, "organization `acme`"),
            (DocumentKindName::Policy, Some("acme"), None, "policy of organization `acme`"),
            (DocumentKindName::Assertions, None, None, "assertions of the platform"),
            (DocumentKindName::Agent, Some("acme"), Some("bot"), "agent `acme/bot`"),
            (DocumentKindName::Grant, None, Some("http"), "grant of plugin `http`"),
            (DocumentKindName::ToolGrant, Some("acme"), Some("shop"), "grant of tool `acme/shop`"),
        ] {
            let Ok(key) = key(&query(kind, organization, name)) else { panic!("no key: {shown}") };
            assert_eq!(key.to_string(), shown);
        }
    }

    #[test]
    fn a_document_that_is_not_named_is_refused() {
        for (kind, organization, name) in [
            (DocumentKindName::Platform, Some("acme"), None),
            (DocumentKindName::Policy, None, None),
            (DocumentKindName::Agent, Some("acme"), None),
            (DocumentKindName::Grant, None, Some("Not a name")),
        ] {
            assert!(key(&query(kind, organization, name)).is_err());
        }
    }
}
