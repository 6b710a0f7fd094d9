//! Tokens: roles, requests and views.

use serde::{Deserialize, Serialize};
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::document::DocumentWarning;
use crate::words::words;

words! {
    /// Role of a token.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
    pub enum Role {
        /// All permissions.
        Operator = "operator",
        /// One organization.
        Owner = "owner",
        /// Sessions and calls for agents of one organization.
        Orchestrator = "orchestrator",
        /// The tools of one agent over MCP.
        Agent = "agent",
        /// Decisions about the approvals of one organization.
        Approver = "approver",
        /// Read access to the audit log, of one organization or of all.
        Auditor = "auditor",
    }
}

impl Role {
    /// Parses a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// The role and scope of a new token.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// The role. An `operator` has no organization; an `owner`, an `orchestrator`, an `approver` and an `agent` require one; an `auditor`
    /// without one reads the whole audit log.
    #[schema(value_type = Role)]
    pub role: String,
    /// The organization; required for all roles but `operator` and an `auditor` of the whole platform.
    #[schema(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64, example = "acme")]
    pub organization: Option<String>,
    /// The agents that an orchestrator can act for; if absent, all agents of the organization. A token of role `agent` has
    /// exactly one. An unknown agent causes a warning, since it can be created later.
    #[schema(min_items = 1, max_items = 1000)]
    pub agents: Option<Vec<String>>,
    /// A label for people, at most 200 bytes.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub label: String,
    /// When the token ends, in milliseconds since 1970. Default: after the daemon's `tokens.default_days`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub expires_at: Option<u64>,
    /// Whether the token does not end. `expires_at` is then left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_expires: bool,
    /// The networks that the token can be used from, in CIDR notation such as `10.1.0.0/16`. Default: every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 64)]
    pub addresses: Option<Vec<String>>,
    /// The user that the calls of a token of role `agent` are made for: they are recorded for this user, and use their credentials.
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub user: Option<String>,
}

/// A sign-in that waits for a person, who opens the page anywhere and types the code (RFC 8628).
#[optional_fields]
#[derive(Serialize, Deserialize, ToSchema)]
pub struct SignInView {
    /// The name of the provider.
    pub provider: String,
    /// The page of the provider.
    pub verification_uri: String,
    /// The same page with the code in it; absent if the provider has none.
    pub verification_uri_complete: Option<String>,
    /// The code to type.
    pub user_code: String,
    /// The secret that asks for the token.
    pub device_code: String,
    /// Seconds for which both codes are good.
    #[schema(minimum = 0)]
    pub expires_in: u64,
    /// Least seconds between two requests for the token.
    #[schema(minimum = 0)]
    pub interval: u64,
}

/// A request for the token of a sign-in.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignInTokenRequest {
    /// The secret of the sign-in.
    #[schema(min_length = 1, max_length = 4096)]
    pub device_code: String,
}

/// A sign-in whose person has not decided.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SignInPending {
    /// Whether requests come too often: from now on, wait 5 seconds more between them.
    pub slow_down: bool,
}

/// A token, as lists return it. Without `Debug`, since it can hold the secret.
#[optional_fields]
#[derive(Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// The token's id.
    pub id: String,
    /// The role.
    pub role: Role,
    /// The organization; `null` for the whole platform.
    #[schema(required)]
    pub organization: Option<String>,
    /// The agents that the token can act for; `null` if it is not restricted to certain agents.
    #[schema(required)]
    pub agents: Option<Vec<String>>,
    /// The label for people.
    pub label: String,
    /// When the token was created, in milliseconds since 1970.
    #[schema(minimum = 0)]
    pub created_ms: u64,
    /// When it ends, in milliseconds since 1970; absent if it does not expire.
    pub expires_at: Option<u64>,
    /// The networks that it can be used from; absent for every one.
    pub addresses: Option<Vec<String>>,
    /// The user that its calls are made for; absent without one.
    pub user: Option<String>,
    /// When it was last used, in milliseconds since 1970; absent if it was not.
    pub last_used_ms: Option<u64>,
    /// The text of the token, only in the response that created it.
    pub token: Option<String>,
    /// Warnings about unknown agents, only in the response that created the token.
    pub warnings: Option<Vec<DocumentWarning>>,
}
