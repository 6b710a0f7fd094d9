//! Entries, warnings and responses of stored documents.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::tools::ToolPattern;

/// An entry in a list of documents. The daemon returns the document as it was sent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DocumentEntry<T> {
    /// The name of the organization or agent.
    pub name: String,
    /// The entity tag, quotes included, for `If-Match` when the document is replaced or deleted.
    #[schema(example = "\"17\"")]
    pub etag: String,
    /// The document.
    pub document: T,
}

/// The result of putting a document in force.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DocumentAccepted {
    /// Warnings about the document, such as a name that resolves to nothing. The document is in force all the same.
    pub warnings: Vec<DocumentWarning>,
}

/// Warnings about a document that is in force.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DocumentWarnings {
    /// The warnings, such as a name that resolves to nothing.
    pub warnings: Vec<DocumentWarning>,
}

/// A warning: the author of the document may not have intended this.
#[optional_fields]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DocumentWarning {
    /// A stable code: `UNRESOLVED_TOOL`, `UNRESOLVED_SERVER`, `UNDEFINED`, `NO_TOOLS`, `LIMIT_WITHOUT_EFFECT`,
    /// `NOTHING_RUNS`, `NO_EFFECT`, `NO_CONSENT`; for a token, `UNRESOLVED_AGENT`; for rules, grants and differences,
    /// `ASSERTION_BROKEN` and `ASSERTION_UNCHECKED`.
    pub code: Cow<'static, str>,
    /// The position in the document, as a JSON pointer.
    pub path: String,
    /// The message.
    pub message: String,
    /// The nearest known name, which was probably intended.
    pub nearest: Option<String>,
    /// The entry of a list of tools that no loaded tool answers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "crm/*")]
    pub tool: Option<ToolPattern>,
}

/// The body of `/v1/orgs/{org}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OrganizationDocument {
    /// Display name, 1 to 200 visible characters.
    #[schema(min_length = 1, max_length = 200, example = "Acme Inc.")]
    pub display_name: Option<String>,
    /// Integrations whose credentials are stored elsewhere, as the operator states. At most 10,000 names of 1 to 100
    /// characters.
    #[schema(max_items = 10_000, example = json!(["stripe"]))]
    pub connected: Vec<String>,
}

/// A kind of stored documents with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentKindName {
    /// The policy of the platform.
    Platform,
    /// An organization.
    Organization,
    /// The policy of an organization.
    Policy,
    /// An agent.
    Agent,
    /// The operator's grant of a plugin.
    Grant,
    /// The definition of a custom tool.
    Tool,
    /// The operator's grant of a tool of an organization.
    ToolGrant,
    /// The settings and the consent of an organization for a plugin.
    Enabled,
    /// The policy assertions of the platform or of an organization.
    Assertions,
    /// A publisher's key.
    PublisherKey,
}

/// The kept revisions of a document, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DocumentHistory {
    /// The revisions.
    pub items: Vec<DocumentRevision>,
}

/// A write or deletion of a document.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DocumentRevision {
    /// The number of the change, which no other change has.
    pub revision: u64,
    /// The id of the token that made the change; left out if the daemon made it.
    pub author: Option<String>,
    /// The label of that token.
    pub author_label: Option<String>,
    /// When the change was made, in milliseconds since 1970.
    pub written_at: u64,
    /// Whether the change deleted the document.
    pub deleted: bool,
    /// The document as it was sent; only of one requested revision, and none where it was deleted.
    #[schema(value_type = Object)]
    pub document: Option<Box<serde_json::value::RawValue>>,
}
