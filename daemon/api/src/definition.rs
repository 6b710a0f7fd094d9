//! Definition of a custom tool: an HTTP API with its actions, or a server of the Model Context Protocol (MCP).
//!
//! The built-in components `api` and `mcp` compile it. They check what depends on several fields: URLs, header fields,
//! paths and the placement of arguments.

mod placement;

use std::collections::{BTreeMap, BTreeSet};

use serde::de::{self, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

pub use placement::{Location, Placement, Style};

use crate::descriptor::{Example, RateLimit};
use crate::limits::{PLUGIN_TOOLS, TAG_CHARS, TOOL_DESCRIPTION_CHARS, TOOL_LIST_ENTRIES, TOOL_USAGE_CHARS};
use crate::read::{ReadError, invalid, invalid_at, list_of, parse_string, read, text, texts, word};
use crate::words::words;

/// Longest name of an action or of a server's tool, in characters. MCP advises 128.
pub const TOOL_NAME_CHARS: usize = 256;
/// Longest display name, in characters.
const DISPLAY_NAME_CHARS: usize = 100;

/// Common names of secrets and accounts, which do not belong in a definition.
const SECRETS: [&str; 10] = [
    "secret",
    "client_secret",
    "token",
    "access_token",
    "refresh_token",
    "api_key",
    "key",
    "password",
    "username",
    "client_id",
];

/// Definition of a custom tool: an HTTP API with its actions, an MCP server, or shell commands. Unknown fields are refused.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CustomToolDefinition {
    /// `http`, `mcp` for a server of the Model Context Protocol, or `shell` for commands. Default: `http`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^(http|mcp|shell)$"))]
    pub kind: Option<DefinitionKind>,
    /// The name for people.
    #[serde(default, deserialize_with = "display_name")]
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub display_name: Option<String>,
    /// The purpose of the tool.
    #[serde(deserialize_with = "text::<_, _, 2_000>")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 2_000))]
    pub description: String,
    /// The publisher of the tool.
    #[serde(default, deserialize_with = "text::<_, _, 200>")]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub publisher: Option<String>,
    /// The category of the tool in a catalogue.
    #[serde(default, deserialize_with = "text::<_, _, 100>")]
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub category: Option<String>,
    /// The version of the tool. Default: `1`.
    #[serde(default, deserialize_with = "word::<_, _, 64>")]
    #[cfg_attr(feature = "openapi", schema(max_length = 64))]
    pub version: Option<String>,
    /// Kind `http`: the base URL of every action.
    #[cfg_attr(feature = "openapi", schema(example = "https://api.example.com/v1"))]
    pub base_url: Option<String>,
    /// Kind `mcp`: the URL of the server.
    #[cfg_attr(feature = "openapi", schema(example = "https://mcp.example.com/mcp"))]
    pub url: Option<String>,
    /// Kind `mcp`: the protocol revision to offer. Default: negotiated with the server, the newest first.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^(2024-11-05|2025-03-26|2025-06-18|2025-11-25|2026-07-28)$"))]
    pub protocol: Option<Protocol>,
    /// Kind `mcp`: the server's tools to mount, by the server's names. Default: all tools.
    #[serde(default, deserialize_with = "tool_names")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub tools: Option<BTreeSet<String>>,
    /// Kind `mcp`: the server's read-only tools, by the server's names; the server's own hints are ignored. Default:
    /// none.
    #[serde(default, deserialize_with = "tool_names")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub read_only: Option<BTreeSet<String>>,
    /// How requests are authenticated; the secret is a credential of the provider.
    pub authentication: Option<Authentication>,
    /// Header fields of every request. Fields for authentication or message framing are refused.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub headers: BTreeMap<String, String>,
    /// Whether requests tell the service the trace of their call (`traceparent`), where the daemon exports traces. Default:
    /// false. A grant of an operator takes its place.
    pub trace_context: Option<bool>,
    /// The service's rate limit, shared by all agents of the organization.
    pub rate_limit: Option<RateLimit>,
    /// Kind `http`: whether the API follows HTTP's method semantics: GET, HEAD and OPTIONS are read-only, PUT and
    /// DELETE are idempotent. Default: false, and every action without hints of its own counts as a change.
    pub safe_methods: Option<bool>,
    /// Kind `http`: the actions.
    #[serde(default, deserialize_with = "actions")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<ActionDefinition>>, max_items = 1_000))]
    pub actions: Option<Vec<ActionDefinition>>,
    /// Kind `shell`: the commands.
    #[serde(default, deserialize_with = "commands")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<CommandDefinition>>, max_items = 1_000))]
    pub commands: Option<Vec<CommandDefinition>>,
}

words! {
    /// Source of a custom tool.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
    pub enum DefinitionKind {
        /// An HTTP API.
        #[default]
        Http = "http",
        /// A server of the Model Context Protocol.
        Mcp = "mcp",
        /// Commands of the shell.
        Shell = "shell",
    }
}

/// Revisions of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// Every request is independent.
    #[serde(rename = "2026-07-28")]
    Stateless,
    /// `initialize` opens a session, and offers the newest revision with sessions.
    #[serde(rename = "2025-11-25")]
    Session,
    /// A session as of June 2025.
    #[serde(rename = "2025-06-18")]
    Session202506,
    /// A session as of March 2025.
    #[serde(rename = "2025-03-26")]
    Session202503,
    /// A session as of November 2024, over Streamable HTTP or over HTTP with SSE.
    #[serde(rename = "2024-11-05")]
    Session202411,
}

impl Protocol {
    /// Revisions with sessions, the newest first.
    pub const SESSIONS: [Self; 4] =
        [Self::Session, Self::Session202506, Self::Session202503, Self::Session202411];

    /// The date of the revision.
    pub fn revision(self) -> &'static str {
        match self {
            Self::Stateless => "2026-07-28",
            Self::Session => "2025-11-25",
            Self::Session202506 => "2025-06-18",
            Self::Session202503 => "2025-03-26",
            Self::Session202411 => "2024-11-05",
        }
    }
}

/// How a tool authenticates its requests.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ToolAuthentication))]
pub struct Authentication {
    /// The kind of the credential.
    #[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^(none|api_key|bearer|basic|oauth2_client_credentials|oauth2_authorization_code)$"))]
    pub kind: AuthenticationKind,
    /// The provider of the credential. Required for all kinds except `none`.
    #[serde(default, deserialize_with = "word::<_, _, 100>")]
    #[cfg_attr(feature = "openapi", schema(example = "weather"))]
    pub provider: Option<String>,
    /// OAuth2: the token endpoint, as information for creating the credential.
    pub token_url: Option<String>,
    /// OAuth2: the scopes, as information for creating the credential.
    #[serde(default, deserialize_with = "scopes")]
    pub scopes: Option<Vec<String>>,
}

/// Kinds of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum AuthenticationKind {
    None,
    ApiKey,
    Bearer,
    Basic,
    Oauth2ClientCredentials,
    Oauth2AuthorizationCode,
}

/// An action of an HTTP API, which becomes a tool.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ToolAction))]
pub struct ActionDefinition {
    /// Name, from which the tool's name is derived.
    #[serde(deserialize_with = "text::<_, _, TOOL_NAME_CHARS>")]
    pub name: String,
    /// Short description, for a model that chooses.
    #[serde(deserialize_with = "text::<_, _, TOOL_DESCRIPTION_CHARS>")]
    pub description: String,
    /// Usage, for a model that has chosen. Default: the description.
    #[serde(default, deserialize_with = "text::<_, _, TOOL_USAGE_CHARS>")]
    pub usage: Option<String>,
    /// Method of the request.
    #[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$"))]
    pub method: Method,
    /// Path below the base URL, with arguments in braces and a constant query.
    #[cfg_attr(feature = "openapi", schema(example = "/points/{city}"))]
    pub path: String,
    /// Schema of the arguments. Default: no arguments.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input_schema: Option<Map<String, Value>>,
    /// Placement of arguments by name. Default: from the path, the method and `body`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub arguments: BTreeMap<String, Option<Placement>>,
    /// Format of the body. Default: JSON.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^(json|form|text|multipart|binary)$"))]
    pub body: Option<BodyFormat>,
    /// Media type of the body. Default: that of the format.
    pub content_type: Option<String>,
    /// Schema of the result. Default: any JSON.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub output_schema: Option<Value>,
    /// Part of the response that is the result. Default: the whole.
    pub result: Option<ResultSelector>,
    /// Effects. Default: from the method if the definition sets `safe_methods`, otherwise the careful ones.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ActionHints>))]
    pub hints: ActionHints,
    /// Search words.
    #[serde(default, deserialize_with = "texts::<_, TOOL_LIST_ENTRIES, TAG_CHARS>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub tags: Vec<String>,
    /// Sample calls.
    #[serde(default, deserialize_with = "list_of::<_, _, TOOL_LIST_ENTRIES>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Example>>))]
    pub examples: Vec<Example>,
    /// JSON pointers of arguments that logs must not show.
    #[serde(default, deserialize_with = "list_of::<_, _, TOOL_LIST_ENTRIES>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub redact: Vec<String>,
}

/// A shell command, which becomes a tool.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ToolCommand))]
pub struct CommandDefinition {
    /// Name, from which the tool's name is derived.
    #[serde(deserialize_with = "text::<_, _, TOOL_NAME_CHARS>")]
    pub name: String,
    /// Short description, for a model that chooses.
    #[serde(deserialize_with = "text::<_, _, TOOL_DESCRIPTION_CHARS>")]
    pub description: String,
    /// Usage, for a model that has chosen. Default: the description.
    #[serde(default, deserialize_with = "text::<_, _, TOOL_USAGE_CHARS>")]
    pub usage: Option<String>,
    /// The script. Each argument is the shell variable of its name.
    #[serde(deserialize_with = "text::<_, _, 65_536>")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 65_536))]
    pub command: String,
    /// Schema of the arguments. Default: no arguments.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input_schema: Option<Map<String, Value>>,
    /// Effects. Default: the careful ones.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ActionHints>))]
    pub hints: ActionHints,
    /// Search words.
    #[serde(default, deserialize_with = "texts::<_, TOOL_LIST_ENTRIES, TAG_CHARS>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub tags: Vec<String>,
    /// Sample calls.
    #[serde(default, deserialize_with = "list_of::<_, _, TOOL_LIST_ENTRIES>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Example>>))]
    pub examples: Vec<Example>,
    /// JSON pointers of arguments that logs must not show.
    #[serde(default, deserialize_with = "list_of::<_, _, TOOL_LIST_ENTRIES>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub redact: Vec<String>,
}

/// Effects of an action; an absent one has a default.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ToolActionHints))]
pub struct ActionHints {
    /// Whether a call changes nothing.
    pub read_only: Option<bool>,
    /// Whether a call may destroy something.
    pub destructive: Option<bool>,
    /// Whether a repeated call has no further effect.
    pub idempotent: Option<bool>,
    /// Whether a call reaches things outside of the organization.
    pub open_world: Option<bool>,
}

/// Part of a response: one of the three.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ToolResult))]
pub struct ResultSelector {
    /// A JSON pointer.
    pub pointer: Option<String>,
    /// A JMESPath expression.
    pub jmespath: Option<String>,
    /// The response is saved to the workspace: name of the argument with the path.
    pub file: Option<String>,
}

words! {
    /// Methods of actions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[allow(missing_docs, reason = "RFC 9110 and RFC 5789 describe them")]
    pub enum Method {
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
        Put = "PUT",
        Patch = "PATCH",
        Delete = "DELETE",
        Options = "OPTIONS",
    }
}

impl Method {
    /// Whether its requests change nothing (RFC 9110, 9.2.1).
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options)
    }

    /// Whether a repeated request has no further effect (RFC 9110, 9.2.2).
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Patch)
    }

    /// Whether a request may have a body.
    pub fn takes_body(self) -> bool {
        !matches!(self, Self::Get | Self::Head)
    }

    /// Whether arguments without a placement go into the body.
    pub fn prefers_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// Format of a request's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum BodyFormat {
    #[default]
    Json,
    Form,
    Text,
    /// `multipart/form-data`, one part for each argument.
    Multipart,
    /// The bytes of one workspace file.
    Binary,
}

impl BodyFormat {
    /// Whether the body is one argument, and has no members.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Text | Self::Binary)
    }
}

impl CustomToolDefinition {
    /// Reads a definition of this kind.
    pub fn read(document: &Value, kind: DefinitionKind) -> Result<Self, ReadError> {
        let definition: Self = read(document).map_err(explain_secret)?;
        match definition.kind {
            None if kind != DefinitionKind::default() => return Err(ReadError::missing_field("kind")),
            Some(other) if other != kind => {
                let message = format!("`{}` is another kind of definition", other.as_str());
                return Err(ReadError::new("/kind", message, format!("write `{}`", kind.as_str())));
            }
            _ => {}
        }
        if let Some(name) = definition.field_of_other_kind(kind) {
            let hint = format!("a definition of kind `{}` has no such field", kind.as_str());
            return Err(ReadError::new(format!("/{name}"), format!("unknown field `{name}`"), hint));
        }
        if let Some(authentication) = &definition.authentication {
            authentication.check(kind)?;
        }
        Ok(definition)
    }

    fn field_of_other_kind(&self, kind: DefinitionKind) -> Option<&'static str> {
        let fields: &[_] = match kind {
            DefinitionKind::Http => &[
                ("url", self.url.is_some()),
                ("protocol", self.protocol.is_some()),
                ("tools", self.tools.is_some()),
                ("read_only", self.read_only.is_some()),
                ("commands", self.commands.is_some()),
            ],
            DefinitionKind::Mcp => &[
                ("base_url", self.base_url.is_some()),
                ("safe_methods", self.safe_methods.is_some()),
                ("actions", self.actions.is_some()),
                ("commands", self.commands.is_some()),
            ],
            DefinitionKind::Shell => &[
                ("base_url", self.base_url.is_some()),
                ("safe_methods", self.safe_methods.is_some()),
                ("actions", self.actions.is_some()),
                ("url", self.url.is_some()),
                ("protocol", self.protocol.is_some()),
                ("tools", self.tools.is_some()),
                ("read_only", self.read_only.is_some()),
                ("authentication", self.authentication.is_some()),
                ("headers", !self.headers.is_empty()),
                ("trace_context", self.trace_context.is_some()),
            ],
        };
        fields.iter().find(|(_, is_set)| *is_set).map(|(name, _)| *name)
    }

    /// The description (`wit/describe.schema.json`) of the plugin that the definition makes.
    pub fn describe(&self, namespace: &str, capabilities: Value, tools: Vec<Value>) -> Value {
        sparse_object([
            ("name", namespace.into()),
            ("version", self.version.as_deref().unwrap_or("1").into()),
            ("publisher", json!(self.publisher)),
            ("category", json!(self.category)),
            ("purpose", self.description.as_str().into()),
            ("capabilities", capabilities),
            ("rate_limit", json!(self.rate_limit)),
            ("tools", tools.into()),
        ])
    }

    /// The provider of the credential that requests carry.
    pub fn provider(&self) -> Option<&str> {
        self.authentication.as_ref()?.provider.as_deref()
    }
}

/// Replaces the error of an unknown field that holds a secret.
/// An object without the members that are null or an empty list.
pub fn sparse_object<const COUNT: usize>(members: [(&str, Value); COUNT]) -> Value {
    let members = members.into_iter().filter(|(_, value)| !value.is_null() && *value != json!([]));
    Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn explain_secret(error: ReadError) -> ReadError {
    match error.place.strip_prefix("/authentication/") {
        Some(name) if SECRETS.contains(&name) => ReadError::new(
            error.place,
            "a secret or an account does not belong in a definition",
            "take it out, name a `provider`, and store the credential: `toolgate credential put ORG/NAME --provider …`",
        ),
        _ => error,
    }
}

impl Authentication {
    fn check(&self, kind: DefinitionKind) -> Result<(), ReadError> {
        let has_provider = self.kind != AuthenticationKind::None;
        let is_oauth = match self.kind {
            AuthenticationKind::Oauth2ClientCredentials => true,
            AuthenticationKind::Oauth2AuthorizationCode => kind == DefinitionKind::Http,
            _ => false,
        };
        let fields = [
            ("provider", self.provider.is_some() && !has_provider),
            ("token_url", self.token_url.is_some() && !is_oauth),
            ("scopes", self.scopes.is_some() && !is_oauth),
        ];
        if let Some((name, _)) = fields.iter().find(|(_, is_unknown)| *is_unknown) {
            let place = format!("/authentication/{name}");
            let hint = "leave it out: authentication of this `kind` has no such field";
            return Err(ReadError::new(place, format!("unknown field `{name}`"), hint));
        }
        if has_provider && self.provider.is_none() {
            let hint = "add `provider`, the provider of a stored credential: `\"provider\":\"weather\"`";
            return Err(ReadError::new("/authentication", "the field `provider` is missing", hint));
        }
        self.scopes.as_deref().map_or(Ok(()), |scopes| check_scopes(scopes, kind))
    }
}

/// Scopes of an API are words; those of an MCP server are any texts, but each once.
fn check_scopes(scopes: &[String], kind: DefinitionKind) -> Result<(), ReadError> {
    const PLACE: &str = "/authentication/scopes";
    let is_word = |scope: &String| scope.len() <= 100 && scope.bytes().all(|byte| byte.is_ascii_graphic());
    match kind {
        DefinitionKind::Http | DefinitionKind::Shell => match scopes.iter().position(|scope| !is_word(scope))
        {
            None => Ok(()),
            Some(index) => Err(ReadError::new(
                format!("{PLACE}/{index}"),
                "a scope is one word",
                "write at most 100 ASCII characters without spaces",
            )),
        },
        DefinitionKind::Mcp => distinct(scopes.to_vec()).map(drop).map_err(|mut error: ReadError| {
            error.place.insert_str(0, PLACE);
            error
        }),
    }
}

/// Not part of the description that models read, so only control characters are refused.
fn display_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    parse_string(from, |text| {
        let is_control = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
        match !text.trim().is_empty()
            && text.chars().count() <= DISPLAY_NAME_CHARS
            && !text.contains(is_control)
        {
            true => Ok(Some(text.to_owned())),
            false => Err((
                "the display name is empty, longer than 100 characters, or has a control character"
                    .to_owned(),
                "write 1 to 100 characters",
            )),
        }
    })
}

fn tool_names<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BTreeSet<String>>, D::Error> {
    distinct(texts::<_, PLUGIN_TOOLS, TOOL_NAME_CHARS>(from)?).map(Some)
}

fn distinct<E: de::Error>(texts: Vec<String>) -> Result<BTreeSet<String>, E> {
    if texts.is_empty() {
        return Err(invalid("the list is empty", format_args!("list 1 to {PLUGIN_TOOLS}, or leave it out")));
    }
    let mut seen = BTreeSet::new();
    for (index, text) in texts.into_iter().enumerate() {
        if !seen.insert(text) {
            return Err(invalid_at(format_args!("/{index}"), "this is in the list twice", "name it once"));
        }
    }
    Ok(seen)
}

fn scopes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    texts::<_, TOOL_LIST_ENTRIES, 200>(from).map(Some)
}

fn commands<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<CommandDefinition>>, D::Error> {
    list_of::<_, _, PLUGIN_TOOLS>(from).map(Some)
}

fn actions<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<ActionDefinition>>, D::Error> {
    list_of::<_, _, PLUGIN_TOOLS>(from).map(Some)
}
