//! How a call stands, as it is remembered and as every form of an answer says it.
//!
//! What the audit log calls these is its own: there a cancelled call has a status, here it ended with an error.

use serde::Serialize;
use utoipa::ToSchema;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CallStatus)]
pub enum Status {
    /// The tool did it.
    Ok,
    /// It was refused, or it failed.
    Error,
    /// The tool prepared what a client performs.
    ClientRequired,
    /// A person must approve it first.
    ApprovalRequired,
    /// It has not ended.
    Running,
    /// The daemon died while it ran.
    Unknown,
}

impl Status {
    /// As it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::ClientRequired => "client_required",
            Self::ApprovalRequired => "approval_required",
            Self::Running => "running",
            Self::Unknown => "unknown",
        }
    }
}
