//! How definitions look, for the OpenAPI document. The component that makes a plugin of one is what reads it, and
//! `docs/custom-tools.md` says all of it; so fields of one kind alone are told by name here.

use serde_json::Value;
use utoipa::ToSchema;

/// What a tool is made of: an HTTP API with its actions, or a server of the Model Context Protocol. Unknown fields are refused.
#[derive(ToSchema)]
#[schema(as = CustomToolDefinition)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct ToolDefinitionForm {
    /// `http`, or `mcp` for a server of the Model Context Protocol. Left out: `http`.
    #[schema(pattern = "^(http|mcp)$")]
    kind: Option<String>,
    /// What people call it.
    #[schema(max_length = 100)]
    display_name: Option<String>,
    /// What it is for.
    #[schema(min_length = 1, max_length = 2_000)]
    description: String,
    /// Who answers for it.
    #[schema(max_length = 200)]
    publisher: Option<String>,
    /// Where a catalogue lists it.
    #[schema(max_length = 100)]
    category: Option<String>,
    /// Its version. Left out: `1`.
    #[schema(max_length = 64)]
    version: Option<String>,
    /// Kind `http`: what every action's address begins with.
    #[schema(example = "https://api.example.com/v1")]
    base_url: Option<String>,
    /// Kind `mcp`: where the server is.
    #[schema(example = "https://mcp.example.com/mcp")]
    url: Option<String>,
    /// Kind `mcp`: the revision of the protocol. Left out: found out.
    #[schema(pattern = "^(2025-11-25|2026-07-28)$")]
    protocol: Option<String>,
    /// Kind `mcp`: the server's tools that are mounted, by its names. Left out: all.
    tools: Option<Vec<String>>,
    /// Kind `mcp`: the server's tools that change nothing, by its names, whatever it says itself. Left out: none.
    read_only: Option<Vec<String>>,
    /// How it says who it is; the secret is a credential of that provider.
    authentication: Option<AuthenticationForm>,
    /// Header fields of every request. None that carries authority or frames the message.
    #[schema(value_type = Option<Object>)]
    headers: Option<Value>,
    /// How many calls the service takes, for all agents of the organization together.
    rate_limit: Option<RateForm>,
    /// Kind `http`: whether the API keeps to HTTP, so that GET, HEAD and OPTIONS change nothing, and PUT and DELETE are
    /// idempotent. Left out: not, and an action changes something unless its own hints say otherwise.
    safe_methods: Option<bool>,
    /// Kind `http`: what can be done with it.
    #[schema(value_type = Option<Vec<Object>>, max_items = 1_000)]
    actions: Option<Vec<Value>>,
}

/// How a tool says who it is.
#[derive(ToSchema)]
#[schema(as = ToolAuthentication)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct AuthenticationForm {
    /// The kind of the credential.
    #[schema(pattern = "^(none|api_key|bearer|basic|oauth2_client_credentials|oauth2_authorization_code)$")]
    kind: String,
    /// The provider whose credential is used. Needed for all kinds but `none`.
    #[schema(example = "weather")]
    provider: Option<String>,
    /// OAuth2: where tokens are to be had, for whoever makes the credential.
    token_url: Option<String>,
    /// OAuth2: what is asked for, for whoever makes the credential.
    scopes: Option<Vec<String>>,
}

/// So many calls in so many seconds.
#[derive(ToSchema)]
#[schema(as = RateLimit)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct RateForm {
    /// The calls.
    #[schema(minimum = 1, maximum = 1_000_000)]
    calls: u32,
    /// The seconds.
    #[schema(minimum = 1, maximum = 86_400)]
    seconds: u32,
}
