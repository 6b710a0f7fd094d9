//! OpenAPI schema of tool definitions. The component that turns a definition into a plugin parses it, and
//! `docs/custom-tools.md` documents it completely; fields that are valid for one kind only name the kind here.

use serde_json::Value;
use utoipa::ToSchema;

/// Definition of a custom tool: an HTTP API with its actions, or an MCP server. Unknown fields are refused.
#[derive(ToSchema)]
#[schema(as = CustomToolDefinition)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct ToolDefinitionForm {
    /// `http`, or `mcp` for a server of the Model Context Protocol. Default: `http`.
    #[schema(pattern = "^(http|mcp)$")]
    kind: Option<String>,
    /// The name for people.
    #[schema(max_length = 100)]
    display_name: Option<String>,
    /// The purpose of the tool.
    #[schema(min_length = 1, max_length = 2_000)]
    description: String,
    /// The publisher of the tool.
    #[schema(max_length = 200)]
    publisher: Option<String>,
    /// The category of the tool in a catalogue.
    #[schema(max_length = 100)]
    category: Option<String>,
    /// The version of the tool. Default: `1`.
    #[schema(max_length = 64)]
    version: Option<String>,
    /// Kind `http`: the base URL of every action.
    #[schema(example = "https://api.example.com/v1")]
    base_url: Option<String>,
    /// Kind `mcp`: the URL of the server.
    #[schema(example = "https://mcp.example.com/mcp")]
    url: Option<String>,
    /// Kind `mcp`: the protocol revision. Default: negotiated with the server.
    #[schema(pattern = "^(2025-11-25|2026-07-28)$")]
    protocol: Option<String>,
    /// Kind `mcp`: the server's tools to mount, by the server's names. Default: all tools.
    tools: Option<Vec<String>>,
    /// Kind `mcp`: the server's read-only tools, by the server's names; the server's own hints are ignored. Default:
    /// none.
    read_only: Option<Vec<String>>,
    /// How requests are authenticated; the secret is a credential of the provider.
    authentication: Option<AuthenticationForm>,
    /// Header fields of every request. Fields for authentication or message framing are refused.
    #[schema(value_type = Option<Object>)]
    headers: Option<Value>,
    /// The service's rate limit, shared by all agents of the organization.
    rate_limit: Option<RateForm>,
    /// Kind `http`: whether the API follows HTTP's method semantics: GET, HEAD and OPTIONS are read-only, PUT and
    /// DELETE are idempotent. Default: false, and every action without hints of its own counts as a change.
    safe_methods: Option<bool>,
    /// Kind `http`: the actions.
    #[schema(value_type = Option<Vec<Object>>, max_items = 1_000)]
    actions: Option<Vec<Value>>,
}

/// How a tool authenticates its requests.
#[derive(ToSchema)]
#[schema(as = ToolAuthentication)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct AuthenticationForm {
    /// The kind of the credential.
    #[schema(pattern = "^(none|api_key|bearer|basic|oauth2_client_credentials|oauth2_authorization_code)$")]
    kind: String,
    /// The provider of the credential. Required for all kinds except `none`.
    #[schema(example = "weather")]
    provider: Option<String>,
    /// OAuth2: the token endpoint, as information for creating the credential.
    token_url: Option<String>,
    /// OAuth2: the scopes, as information for creating the credential.
    scopes: Option<Vec<String>>,
}

/// A rate limit: a number of calls in a number of seconds.
#[derive(ToSchema)]
#[schema(as = RateLimit)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct RateForm {
    /// The number of calls.
    #[schema(minimum = 1, maximum = 1_000_000)]
    calls: u32,
    /// The interval, in seconds.
    #[schema(minimum = 1, maximum = 86_400)]
    seconds: u32,
}
