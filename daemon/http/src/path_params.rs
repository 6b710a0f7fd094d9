//! Path parameters and the headers of writes, as the OpenAPI document describes them.
//!
//! Handlers read path parameters as text and parse them into names (`Name`, `Namespace`). The patterns here repeat
//! the rules of those types; a test compares the two.

#![allow(dead_code, reason = "these are read by the derive alone")]

use utoipa::IntoParams;

/// Path of an organization.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OrgPath {
    /// The organization's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    org: String,
}

/// Path of an agent.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct AgentPath {
    /// The organization's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    org: String,
    /// The agent's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "support")]
    agent: String,
}

/// Path of a credential.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct CredentialPath {
    /// The organization's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    org: String,
    /// The credential's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "stripe")]
    name: String,
}

/// Path of a publisher's key.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct PublisherKeyPath {
    /// The key's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme-2026")]
    name: String,
}

/// Path of a publisher's key of an organization.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OrgPublisherKeyPath {
    /// The organization's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    org: String,
    /// The key's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme-2026")]
    name: String,
}

/// Path of a webhook.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct WebhookPath {
    /// The organization's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    org: String,
    /// The webhook's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "chat")]
    name: String,
}

/// Headers of a signed callback.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct CallbackHeaders {
    /// The present time in seconds since 1970, within five minutes of the daemon's clock.
    #[param(rename = "Toolgate-Timestamp", value_type = String, required = false, example = "1700000000")]
    timestamp: Option<String>,
    /// `v1=` and the HMAC-SHA256, in hexadecimal digits, of timestamp, dot and body under the secret of the webhook.
    #[param(rename = "Toolgate-Signature", value_type = String, required = false)]
    signature: Option<String>,
}

/// Path of a plugin.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct PluginPath {
    /// The plugin's namespace: lower-case words joined by hyphens.
    #[param(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40, example = "arithmetic")]
    namespace: String,
}

/// Path of a plugin as an organization has it.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct EnabledPath {
    /// The organization's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    org: String,
    /// The plugin's namespace: lower-case words joined by hyphens.
    #[param(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40, example = "arithmetic")]
    namespace: String,
}

/// Path of a custom tool.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct CustomToolPath {
    /// The organization's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    org: String,
    /// The namespace of the tool's actions: lower-case words joined by hyphens.
    #[param(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40, example = "weather")]
    namespace: String,
}

/// Path of a token.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct TokenPath {
    /// The token's id; it is not the token's secret text.
    #[param(min_length = 1, example = "2eee2cedbf97cb68")]
    id: String,
}

/// Path of a session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct SessionPath {
    /// The session's id.
    #[param(min_length = 1)]
    id: String,
}

/// Path of a tool in a session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ToolPath {
    /// The session's id.
    #[param(min_length = 1)]
    id: String,
    /// `call_NAMESPACE_TOOL`, or `NAMESPACE/TOOL` with the slash encoded as `%2F`.
    #[param(min_length = 1, example = "call_arithmetic_evaluate")]
    tool: String,
}

/// Path of an approval.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ApprovalPath {
    /// The approval's id.
    #[param(min_length = 1)]
    id: String,
}

/// Path of a call in a session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct CallPath {
    /// The session's id.
    #[param(min_length = 1)]
    id: String,
    /// The call's id.
    #[param(min_length = 1, example = "c1")]
    call: String,
}

/// Path of a file in a session's workspace.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct FilePath {
    /// The session's id.
    #[param(min_length = 1)]
    id: String,
    /// The path relative to the workspace's root. Segments are separated by `/`, sent literally or encoded as `%2F`.
    /// A segment can be neither `.` nor `..`.
    #[param(min_length = 1, example = "notes.txt")]
    path: String,
}

/// Header of an event stream.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct LastEventId {
    /// The `id` of the last event that was received. The stream begins with the events after it, as far as the daemon
    /// still has them: 1,024 of an organization, for five minutes after its last stream ended. Otherwise an event
    /// `dropped` comes first.
    #[param(rename = "Last-Event-ID", value_type = String, required = false)]
    last_event_id: Option<String>,
}

/// Precondition header of a file write.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct FileHeaders {
    /// `*`: the file must not exist yet. Files have no `ETag`, so no other value is accepted.
    #[param(rename = "If-None-Match", pattern = r"^\*$", value_type = String, required = false)]
    if_none_match: Option<String>,
}

/// Precondition headers of a document write.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct WriteHeaders {
    /// The `ETag` of the document to replace, a comma-separated list of tags, or `*` for any existing document.
    /// Either this header or `If-None-Match` is required.
    #[param(rename = "If-Match", pattern = r#"^(\*|[ ,]*((W/)?"[!#-+\x2d-~]*"( *,[ ,]*(W/)?"[!#-+\x2d-~]*")*[ ,]*)?)$"#, example = json!("*"),
        value_type = String, required = false)]
    if_match: Option<String>,
    /// `*`: the document must not exist yet.
    #[param(rename = "If-None-Match", pattern = r"^\*$", value_type = String, required = false)]
    if_none_match: Option<String>,
}

/// Optional precondition headers of a write or a delete.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct OptionalTags {
    /// The `ETag` of the resource to replace or delete, a comma-separated list of tags, or `*` for any existing
    /// resource.
    #[param(rename = "If-Match", pattern = r#"^(\*|[ ,]*((W/)?"[!#-+\x2d-~]*"( *,[ ,]*(W/)?"[!#-+\x2d-~]*")*[ ,]*)?)$"#, example = json!("*"),
        value_type = String, required = false)]
    if_match: Option<String>,
    /// `*`: the resource must not exist yet.
    #[param(rename = "If-None-Match", pattern = r"^\*$", value_type = String, required = false)]
    if_none_match: Option<String>,
}

/// Precondition header of a document's deletion.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct DeleteHeaders {
    /// The `ETag` of the document to delete, a comma-separated list of tags, or `*` for any existing document.
    #[param(rename = "If-Match", pattern = r#"^(\*|[ ,]*((W/)?"[!#-+\x2d-~]*"( *,[ ,]*(W/)?"[!#-+\x2d-~]*")*[ ,]*)?)$"#, example = json!("*"))]
    if_match: String,
}
