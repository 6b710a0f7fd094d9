//! Tools that an organization defines, and imports.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::definition::CustomToolDefinition;
pub use crate::descriptor::LeftOut;
use crate::document::DocumentWarning;
use crate::plugin::{CapabilitiesView, ToolView};

/// A custom tool of an organization.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = CustomTool)]
pub struct CustomToolView {
    /// Namespace of its actions.
    pub namespace: String,
    /// Source of the tool: an `http` API, a server of the Model Context Protocol (`mcp`), or `shell` commands.
    #[schema(pattern = "^(http|mcp|shell)$")]
    pub kind: Cow<'static, str>,
    /// Version from the definition.
    pub version: String,
    /// Digest of the built-in component, the definition and the server's tools: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Publisher from the definition.
    #[schema(required)]
    pub publisher: Option<String>,
    /// Category for catalogues.
    #[schema(required)]
    pub category: Option<String>,
    /// Purpose, in a sentence.
    #[schema(required)]
    pub purpose: Option<String>,
    /// Its actions.
    pub tools: Vec<ToolView>,
    /// Requested capabilities.
    pub capabilities: CapabilitiesView,
    /// Current state.
    pub state: CustomState,
    /// Reason for the state, if any.
    #[schema(required)]
    pub reason: Option<String>,
    /// Newer tools of a mounted server that wait for consent.
    #[schema(required)]
    pub waiting: Option<WaitingView>,
    /// Tools of the server that are not mounted, with the reason.
    #[schema(value_type = Vec<Object>)]
    pub left_out: Vec<LeftOut>,
    /// Differences between the mounted tools and the server's list.
    #[serde(default)]
    #[schema(required)]
    pub notes: Vec<NoteView>,
}

/// State of a custom tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CustomState {
    /// The tool accepts calls.
    Active,
    /// The tool can no longer be built; the daemon's log has the reason.
    Failed,
}

/// A tool list that waits for consent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = WaitingTools)]
pub struct WaitingView {
    /// Digest to send with the consent.
    pub digest: String,
    /// New tools, by the server's names.
    pub added: Vec<String>,
    /// Removed tools.
    pub removed: Vec<String>,
    /// Tools whose description or schema changed.
    pub changed: Vec<String>,
    /// New and changed tools as the server describes them, the subject of the consent. Empty in lists.
    #[schema(value_type = Vec<Object>)]
    pub tools: Vec<Value>,
    /// The changed tools as previously consented to. Empty in lists.
    #[schema(value_type = Vec<Object>)]
    pub before: Vec<Value>,
    /// Tools that would not be mounted, with the reason.
    #[schema(value_type = Vec<Object>)]
    pub left_out: Vec<LeftOut>,
    /// Protocol revision of future requests, if it differs.
    #[schema(required)]
    pub protocol: Option<String>,
}

/// A tool that was created or replaced.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CustomToolAccepted {
    /// The tool.
    #[serde(flatten)]
    pub tool: CustomToolView,
    /// Reasons why agents may not be able to call the tool: `NO_CREDENTIAL`, `NOT_ENABLED`, `REFUSED_NAME`.
    pub warnings: Vec<DocumentWarning>,
}

/// Consent to a server's changed tools.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Consent)]
#[serde(deny_unknown_fields)]
pub struct ConsentRequest {
    /// The digest of the waiting tool list; a list with another digest is not accepted.
    #[schema(pattern = "^sha256:[0-9a-f]{64}$")]
    pub digest: String,
}

/// Request to import an OpenAPI document.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// The namespace of the tool's actions.
    #[schema(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40, example = "shop")]
    pub namespace: String,
    /// The document: a JSON value, or a string with JSON or YAML.
    #[schema(value_type = Value)]
    pub document: Box<RawValue>,
    /// The base URL of the API, in place of the document's server.
    pub base_url: Option<String>,
    /// Selectors of operations: `tag:pets`, `path:/users`, `operation:users.*`, `method:GET`. Selectors of the same
    /// kind are combined with OR, different kinds with AND. Default: all operations.
    #[schema(max_items = 100)]
    pub select: Option<Vec<String>>,
    /// Whether to import deprecated operations. Default: false.
    pub deprecated: Option<bool>,
    /// The security scheme to use if the document has several.
    pub scheme: Option<String>,
    /// Whether the API follows HTTP's method semantics, so that actions of GET, HEAD and OPTIONS are read-only.
    /// Default: false.
    pub safe_methods: Option<bool>,
    /// Whether to validate responses against the document's schemas. Default: false, because these schemas are often
    /// wrong.
    pub output_schemas: Option<bool>,
    /// Whether to return the definition without creating the tool. Default: false.
    pub dry_run: Option<bool>,
}

/// Result of an import.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Import)]
pub struct ImportView {
    /// The definition.
    #[schema(value_type = CustomToolDefinition)]
    pub definition: Value,
    /// The tool that was created; null in a dry run.
    #[schema(required)]
    pub tool: Option<CustomToolView>,
    /// Operations that were not imported, with the reason.
    pub left_out: Vec<LeftOutView>,
    /// Differences between the definition and the document.
    pub notes: Vec<NoteView>,
}

/// An operation that was not imported.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ImportLeftOut)]
pub struct LeftOutView {
    /// The operation, like `GET /users`.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// A difference between what is served and its source.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ImportNote)]
pub struct NoteView {
    /// The operation, the tool, or the part of the document.
    pub about: String,
    /// The difference.
    pub text: String,
}
