//! The variable parts of addresses and the headers of writes, as the OpenAPI document describes them.
//!
//! Handlers read them as text and parse them into names (`Name`, `Namespace`), whose rules the patterns here
//! repeat; a test holds the two together.

#![allow(dead_code, reason = "these are read by the derive alone")]

use utoipa::IntoParams;

/// An organization.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OrganizationAddress {
    /// The organization's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    org: String,
}

/// An agent of an organization.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct AgentAddress {
    /// The organization's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    org: String,
    /// The agent's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "support")]
    agent: String,
}

/// A credential of an organization.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct CredentialAddress {
    /// The organization's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    org: String,
    /// The credential's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "stripe")]
    name: String,
}

/// A plugin.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct PluginAddress {
    /// The plugin's namespace: lower-case words joined by hyphens.
    #[param(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40, example = "arithmetic")]
    namespace: String,
}

/// A tool of an organization.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct CustomToolAddress {
    /// The organization's name.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    org: String,
    /// The namespace of its actions: lower-case words joined by hyphens.
    #[param(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40, example = "weather")]
    namespace: String,
}

/// A token.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct TokenAddress {
    /// The token's id, which is not the token.
    #[param(min_length = 1, example = "2eee2cedbf97cb68")]
    id: String,
}

/// A session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct SessionAddress {
    /// The session's id.
    #[param(min_length = 1)]
    id: String,
}

/// A tool in a session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ToolAddress {
    /// The session's id.
    #[param(min_length = 1)]
    id: String,
    /// `call_NAMESPACE_TOOL`, or `NAMESPACE/TOOL` with the slash as `%2F`.
    #[param(min_length = 1, example = "call_arithmetic_evaluate")]
    tool: String,
}

/// An approval.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ApprovalAddress {
    /// The approval's id.
    #[param(min_length = 1)]
    id: String,
}

/// A call in a session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct CallAddress {
    /// The session's id.
    #[param(min_length = 1)]
    id: String,
    /// The call's id.
    #[param(min_length = 1, example = "c1")]
    call: String,
}

/// A file in the workspace of a session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct FileAddress {
    /// The session's id.
    #[param(min_length = 1)]
    id: String,
    /// The path from the top of the workspace, its parts separated by `/`, which may be sent as it is or as
    /// `%2F`. A part can be neither `.` nor `..`.
    #[param(min_length = 1, example = "notes.txt")]
    path: String,
}

/// What a write of a file may say about what is there.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct FileHeaders {
    /// `*` for a file that must not be there yet. Files have no `ETag`, so there is nothing else to compare.
    #[param(rename = "If-None-Match", pattern = r"^\*$", value_type = String, required = false)]
    if_none_match: Option<String>,
}

/// What a write of a document says about the one that it replaces.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct WriteHeaders {
    /// The `ETag` of the document that is replaced, or several with commas between, or `*` for whichever is
    /// there. Either this or `If-None-Match` must be sent.
    #[param(rename = "If-Match", pattern = r#"^(\*|[ ,]*((W/)?"[!#-+\x2d-~]*"( *,[ ,]*(W/)?"[!#-+\x2d-~]*")*[ ,]*)?)$"#, example = json!("*"),
        value_type = String, required = false)]
    if_match: Option<String>,
    /// `*` for a document that must not be there yet.
    #[param(rename = "If-None-Match", pattern = r"^\*$", value_type = String, required = false)]
    if_none_match: Option<String>,
}

/// What a write may say about what it replaces, and need not.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct OptionalTags {
    /// The `ETag` of what is replaced or deleted, or several with commas between, or `*` for whichever is there.
    #[param(rename = "If-Match", pattern = r#"^(\*|[ ,]*((W/)?"[!#-+\x2d-~]*"( *,[ ,]*(W/)?"[!#-+\x2d-~]*")*[ ,]*)?)$"#, example = json!("*"),
        value_type = String, required = false)]
    if_match: Option<String>,
    /// `*` for what must not be there yet.
    #[param(rename = "If-None-Match", pattern = r"^\*$", value_type = String, required = false)]
    if_none_match: Option<String>,
}

/// What a delete of a document says about it.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct DeleteHeaders {
    /// The `ETag` of the document that is deleted, or several with commas between, or `*` for whichever is
    /// there.
    #[param(rename = "If-Match", pattern = r#"^(\*|[ ,]*((W/)?"[!#-+\x2d-~]*"( *,[ ,]*(W/)?"[!#-+\x2d-~]*")*[ ,]*)?)$"#, example = json!("*"))]
    if_match: String,
}
