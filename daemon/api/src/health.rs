//! Liveness and readiness.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The liveness of the daemon.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    #[schema(pattern = "^ok$")]
    pub status: Cow<'static, str>,
    /// The daemon's version (semver.org).
    pub version: Cow<'static, str>,
}

/// The readiness of the daemon.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ok`, or `sealed` without a root key: requests that need no secret are served, requests that need one are
    /// refused with `UNAVAILABLE`.
    #[schema(pattern = "^(ok|sealed)$")]
    pub status: Cow<'static, str>,
    /// The daemon's version (semver.org).
    pub version: Cow<'static, str>,
    /// Namespaces of the built-in plugins that are still being compiled, which happens at the first start.
    #[serde(default)]
    pub compiling: Vec<String>,
    /// The same for people: `compiling 5 of 12 built-in plugins: code, shell`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The start found that records of the audit log are gone, or an operator gave the log up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub audit_lost: bool,
}
