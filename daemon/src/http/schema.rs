//! Schemas of documents and of raw bytes, which have no plain struct in this crate.
//!
//! `toolgate-admission` parses documents and does not depend on OpenAPI. The tests below compare these schemas with
//! its parser; limits come from its table.

use std::collections::BTreeMap;

use toolgate_admission::LIMITS;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// The largest integer that every JSON reader keeps exactly: 2^53 - 1 (RFC 8259, section 6).
pub(super) const SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The policy of the platform. Every field is optional; `null` equals an absent field.
#[derive(ToSchema)]
#[schema(as = PlatformPolicy)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct PlatformForm {
    /// The tools that the platform allows. Default: every loaded tool.
    allowed: Option<ToolPatterns>,
    /// The tools that cannot be called, regardless of every other rule.
    blocked: Option<ToolPatterns>,
    /// Read-only tools that stay available regardless of profiles, `enabled` lists and the broker.
    universal: Option<ToolPatterns>,
    /// Named sets of tools for agents.
    profiles: Option<BTreeMap<String, ToolPatterns>>,
    /// Subtypes of agents, each with the profile of an agent that names no profile.
    subtypes: Option<BTreeMap<String, String>>,
    /// The channels on which sessions can be opened, each with the tools that it blocks. A session without a channel
    /// cannot call a tool that any channel blocks.
    channels: Option<BTreeMap<String, ChannelForm>>,
    /// Tools (`namespace/tool`, `namespace/*`), each with an integration that it requires in addition to its plugin's
    /// manifest.
    integrations: Option<BTreeMap<String, String>>,
    /// Intents of a message, each with the tools that the broker prefers for it.
    intents: Option<BTreeMap<String, IntentForm>>,
    /// Limits of every call. The smallest value of all layers applies; a layer cannot raise a limit.
    limits: Option<LimitsForm>,
    /// Whether `server` must bind every agent to one plugin. Default: `optional`.
    server_binding: Option<ServerBinding>,
}

/// Whether agents must be bound to a server.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) enum ServerBinding {
    Optional,
    Required,
}

/// An intent of a message.
#[derive(ToSchema)]
#[schema(as = Intent)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct IntentForm {
    /// Regular expressions in the syntax of the Rust crate `regex`, matched without regard to case. A message that
    /// matches one of them has this intent.
    patterns: Option<Vec<String>>,
    /// The tools for the intent.
    tools: Option<ToolPatterns>,
}

/// A channel of sessions.
#[derive(ToSchema)]
#[schema(as = Channel)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct ChannelForm {
    /// The tools that cannot be called on the channel.
    blocked: Option<ToolPatterns>,
}

/// The policy of an organization. Every field is optional; `null` equals an absent field.
#[derive(ToSchema)]
#[schema(as = OrganizationPolicy)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct PolicyForm {
    /// The tools of the organization. Default: none.
    enabled: Option<ToolPatterns>,
    /// The tools that the organization's agents cannot call.
    disabled: Option<ToolPatterns>,
    /// Named sets of tools for agents. A profile hides the platform's profile of the same name.
    profiles: Option<BTreeMap<String, ToolPatterns>>,
    /// Channels of the organization, and the tools that it also blocks on the platform's channels.
    channels: Option<BTreeMap<String, ChannelForm>>,
    /// Tools (`namespace/tool`, `namespace/*`), each with an integration that it requires in addition to those of the
    /// platform's policy and of its plugin.
    integrations: Option<BTreeMap<String, String>>,
    /// The tool broker, which reduces the list of tools to those that match a message.
    broker: Option<BrokerForm>,
    /// Limits of the organization's calls. The smallest value of all layers applies; a layer cannot raise a limit.
    limits: Option<LimitsForm>,
    /// Network rules that restrict the grants of the tools, for all agents of the organization. Default: no
    /// restriction. An empty list allows no request.
    #[schema(max_items = 256)]
    network: Option<Vec<NetworkRuleForm>>,
}

/// The tool broker, which reduces the list of tools to those that match a message.
#[derive(ToSchema)]
#[schema(as = Broker)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct BrokerForm {
    /// Whether the broker is enabled. Default: `false`.
    enabled: Option<bool>,
    /// The tools that are listed for every message.
    always_show: Option<ToolPatterns>,
}

/// A grant to a plugin. Every field is optional; `null` equals an absent field, which grants nothing.
#[derive(ToSchema)]
#[schema(as = Grant)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct GrantForm {
    /// The files that calls of the plugin can access: `none`, or those of the session's `workspace`.
    #[schema(pattern = "^(none|workspace)$")]
    filesystem: Option<String>,
    /// Rules for the requests that calls can send.
    #[schema(max_items = 256)]
    network: Option<Vec<NetworkRuleForm>>,
    /// Private networks whose addresses calls can reach in addition to public addresses, in CIDR notation such as
    /// `10.1.0.0/16`. Each entry lies within one private network.
    #[schema(max_items = 256)]
    private_networks: Option<Vec<String>>,
    /// Hosts and ports that calls can reach without TLS, such as `printer.local:631`.
    #[schema(max_items = 256)]
    plain_http: Option<Vec<String>>,
    /// CA certificates that calls trust in addition to the public ones, each in PEM.
    #[schema(max_items = 16)]
    extra_ca: Option<Vec<String>>,
    /// The providers whose credentials calls can use.
    #[schema(max_items = 256)]
    credentials: Option<Vec<String>>,
    /// Whether calls can use credentials of the session's user. Default: `false`.
    user_credentials: Option<bool>,
    /// Limits of the plugin's calls. The smallest value of all layers applies; a layer cannot raise a limit.
    limits: Option<LimitsForm>,
}

/// A rule for outgoing requests. A request must match every field of the rule.
#[derive(ToSchema)]
#[schema(as = NetworkRule)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct NetworkRuleForm {
    /// `https`, or `http` for hosts in the grant's `plain_http`. Default: `https`.
    #[schema(pattern = "^https?$")]
    scheme: Option<String>,
    /// A host name, an IP address (IPv6 in brackets), or `*.` and a name, where `*` stands for exactly one label.
    #[schema(max_length = 255)]
    host: String,
    /// The port. Default: the port of the scheme.
    #[schema(minimum = 1, maximum = 65535)]
    port: Option<u16>,
    /// The methods, in upper case. Default: every method. An empty list allows no method.
    #[schema(max_items = 256)]
    methods: Option<Vec<String>>,
    /// A path prefix, matched at segment boundaries. Default: every path.
    #[schema(max_length = 1000)]
    path: Option<String>,
}

/// The policy of an agent. Every field is optional; `null` equals an absent field.
#[derive(ToSchema)]
#[schema(as = AgentDocument)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct AgentForm {
    /// The display name, at most 200 visible characters.
    name: Option<String>,
    /// The tools that the agent can call. Default: the tools of its profile, and none without a profile.
    enabled: Option<ToolPatterns>,
    /// The tools that the agent cannot call, regardless of every other rule.
    disabled: Option<ToolPatterns>,
    /// The namespace of the one plugin that the agent is bound to; `enabled` then names no other namespace.
    #[schema(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40)]
    server: Option<String>,
    /// The profile of the agent, which the organization or the platform defines.
    profile: Option<String>,
    /// The subtype of the agent. It selects a profile if `profile` is absent. The platform's policy defines the
    /// subtypes.
    subtype: Option<String>,
    /// Which calls run without a person's approval. Default: `supervised`.
    autonomy: Option<AutonomyForm>,
    /// The tools whose calls require a person's approval. If absent, a `supervised` agent requires approval for every
    /// tool that is not read-only.
    require_approval_for: Option<ToolPatterns>,
    /// Limits of the agent's calls. The smallest value of all layers applies; a layer cannot raise a limit.
    limits: Option<LimitsForm>,
    /// Network rules that restrict the grants of the tools. Default: no restriction. An empty list allows no request.
    #[schema(max_items = 256)]
    network: Option<Vec<NetworkRuleForm>>,
}

/// Which calls of an agent run without a person's approval.
#[derive(ToSchema)]
#[schema(as = Autonomy, rename_all = "snake_case")]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) enum AutonomyForm {
    /// The agent can call read-only tools only.
    DraftOnly,
    /// Calls of the tools in `require_approval_for` require approval; without that list, calls of every tool that is
    /// not read-only.
    Supervised,
    /// Calls of the tools in `require_approval_for` require approval; no other call does.
    Autonomous,
}

/// `"*"`, or a list of the patterns `namespace/tool`, `namespace/*` and `*`.
pub(super) struct ToolPatterns;

/// Limits of calls, by name.
pub(super) struct LimitsForm;

/// A WebAssembly component, as raw bytes.
pub(super) struct ComponentFile;

/// The content of a file, as raw bytes.
pub(super) struct FileBytes;

impl PartialSchema for ToolPatterns {
    fn schema() -> RefOr<Schema> {
        let pattern = r"^(\*|[a-z][a-z0-9]*(-[a-z0-9]+)*/(\*|[a-z][a-z0-9]*(_[a-z0-9]+)*))$";
        let entry = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(pattern))
            .max_length(Some(58))
            .description(Some(
                "`namespace/tool`, `namespace/*`, or `*` for every tool that the layer above gives.",
            ))
            .examples(["arithmetic/*"]);
        let all = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["*"]))
            .description(Some("Every tool that the layer above gives."));
        let list = ArrayBuilder::new()
            .items(entry)
            .max_items(Some(10_000))
            .description(Some("These. An empty list means none."));
        OneOfBuilder::new()
            .item(all)
            .item(list)
            .description(Some("Tools: `\"*\"` for every tool that the layer above gives, or a list; an empty list means none."))
            .into()
    }
}

impl ToSchema for ToolPatterns {}

impl PartialSchema for LimitsForm {
    fn schema() -> RefOr<Schema> {
        let limits = LIMITS.iter().fold(ObjectBuilder::new(), |object, limit| {
            let text = format!("{} By default {}, at most {}.", limit.why, limit.default, limit.ceiling);
            let value = ObjectBuilder::new()
                .schema_type(Type::Integer)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
                .minimum(Some(0))
                .description(Some(text));
            object.property(limit.name, value)
        });
        limits
            .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
            .description(Some("Limits of one call by name; the unit is the last word of each. One that is not there is as the layer above has it."))
            .examples([serde_json::json!({"deadline_ms": 5000, "memory_bytes": 16_777_216})])
            .into()
    }
}

impl ToSchema for LimitsForm {
    fn name() -> std::borrow::Cow<'static, str> {
        "Limits".into()
    }
}

impl PartialSchema for ComponentFile {
    fn schema() -> RefOr<Schema> {
        bytes("A WebAssembly component.")
    }
}

impl ToSchema for ComponentFile {}

impl PartialSchema for FileBytes {
    fn schema() -> RefOr<Schema> {
        bytes("The bytes of a file.")
    }
}

impl ToSchema for FileBytes {}

/// Returns a schema of raw bytes. OpenAPI 3.1 requires none, but code generators read this form as a byte stream.
fn bytes(description: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
        .description(Some(description))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use toolgate_admission::{AgentDocument, LimitsPatch, Name, Namespace, OrgDocument, PlatformDocument};

    fn properties(schema: &RefOr<Schema>) -> Vec<String> {
        let schema = serde_json::to_value(schema).expect("a schema");
        schema["properties"].as_object().expect("properties").keys().cloned().collect()
    }

    /// Returns the fields that the parser's error lists: all fields that it accepts.
    fn known_fields(error: toolgate_admission::DocumentError) -> Vec<String> {
        error.hint.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn every_field_that_is_read_is_described_and_the_other_way_round() {
        let unknown = r#"{"zzzzzzzz":1}"#;
        let sorted = |mut fields: Vec<String>| {
            fields.sort();
            fields
        };
        for (form, read) in [
            (PlatformForm::schema(), PlatformDocument::parse(unknown).expect_err("unknown")),
            (PolicyForm::schema(), OrgDocument::parse(unknown).expect_err("unknown")),
            (AgentForm::schema(), AgentDocument::parse(unknown).expect_err("unknown")),
        ] {
            assert_eq!(sorted(properties(&form)), sorted(known_fields(read)));
        }
        let broker = OrgDocument::parse(r#"{"broker":{"zzzzzzzz":1}}"#).expect_err("unknown");
        assert_eq!(sorted(properties(&BrokerForm::schema())), sorted(known_fields(broker)));
        let intent = PlatformDocument::parse(r#"{"intents":{"a":{"zzzzzzzz":1}}}"#).expect_err("unknown");
        assert_eq!(sorted(properties(&IntentForm::schema())), sorted(known_fields(intent)));
        let channel = OrgDocument::parse(r#"{"channels":{"sms":{"zzzzzzzz":1}}}"#).expect_err("unknown");
        assert_eq!(properties(&ChannelForm::schema()), known_fields(channel));
    }

    #[test]
    fn every_word_that_is_described_is_read() {
        let words = |schema: RefOr<Schema>| {
            let schema = serde_json::to_value(schema).expect("a schema");
            let alternatives = schema["oneOf"].as_array().cloned().unwrap_or_else(|| vec![schema]);
            let words =
                alternatives.iter().flat_map(|schema| schema["enum"].as_array().cloned().expect("words"));
            words.collect::<Vec<_>>()
        };
        for word in words(AutonomyForm::schema()) {
            AgentDocument::parse(&json!({ "autonomy": word }).to_string()).expect("a word");
        }
        for word in words(ServerBinding::schema()) {
            PlatformDocument::parse(&json!({ "server_binding": word }).to_string()).expect("a word");
        }
    }

    #[test]
    fn every_limit_is_described_and_read() {
        for limit in properties(&LimitsForm::schema()) {
            serde_json::from_value::<LimitsPatch>(json!({ limit: 1 })).expect("a limit");
        }
        assert_eq!(properties(&LimitsForm::schema()).len(), LIMITS.len());
    }

    #[test]
    fn the_lengths_of_addresses_are_those_of_names() {
        use super::super::path_params::{AgentPath, PluginPath};
        use utoipa::IntoParams;
        let longest = |parameters: Vec<utoipa::openapi::path::Parameter>, at: usize| {
            let parameter: Value = serde_json::to_value(&parameters[at]).expect("a parameter");
            usize::try_from(parameter["schema"]["maxLength"].as_u64().expect("a length")).expect("a length")
        };
        let name = longest(AgentPath::into_params(|| None), 1);
        let namespace = longest(PluginPath::into_params(|| None), 0);
        let text = |length| "x".repeat(length);
        assert!(Name::parse(&text(name)).is_ok() && Name::parse(&text(name + 1)).is_err());
        assert!(
            Namespace::parse(&text(namespace)).is_ok() && Namespace::parse(&text(namespace + 1)).is_err()
        );
    }
}
