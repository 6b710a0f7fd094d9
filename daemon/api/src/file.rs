//! Files of a session's workspace.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The content of a workspace.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FileList {
    /// Files and folders, sorted by path.
    pub items: Vec<FileView>,
    /// Whether the list is incomplete.
    pub truncated: bool,
}

/// A file or a folder.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FileView {
    /// The path relative to the root of the workspace.
    pub path: String,
    /// `file` or `folder`.
    #[schema(pattern = "^(file|folder)$")]
    pub kind: Cow<'static, str>,
    /// Size of a file in bytes; 0 for a folder.
    pub bytes: u64,
}
