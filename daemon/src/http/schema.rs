//! Schemas of what is no plain struct here: documents that are kept as they came, and raw bytes.
//!
//! Documents are read by `toolgate-admission`, which knows nothing of OpenAPI. What is said of them here is
//! held against that reader by the tests below; limits come from its table.

use std::collections::BTreeMap;

use toolgate_admission::LIMITS;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// The largest integer that every JSON reader keeps exactly: 2^53 - 1 (RFC 8259, section 6).
pub(super) const SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The policy of the platform. Every field may be left out, and `null` is the same.
#[derive(ToSchema)]
#[schema(as = PlatformPolicy)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct PlatformForm {
    /// The tools that there are for anybody. Left out: every loaded one.
    allowed: Option<ToolPatterns>,
    /// The tools that cannot be called, regardless of every other rule.
    blocked: Option<ToolPatterns>,
    /// Read-only tools that stay available regardless of profiles, `enabled` lists and the broker.
    universal: Option<ToolPatterns>,
    /// Sets of tools by name, for agents.
    profiles: Option<BTreeMap<String, ToolPatterns>>,
    /// Subtypes of agents, and the profile that each has unless it names another.
    subtypes: Option<BTreeMap<String, String>>,
    /// The channels on which sessions can be opened, and the tools that each blocks. A session without a channel may
    /// not call what any of them blocks.
    channels: Option<BTreeMap<String, ChannelForm>>,
    /// Tools (`namespace/tool`, `namespace/*`) and the integration that each needs besides what its plugin says.
    integrations: Option<BTreeMap<String, String>>,
    /// What a message can be about, and the tools for it: the broker prefers them.
    intents: Option<BTreeMap<String, IntentForm>>,
    /// What every call may use at most. Layers only take away: the smallest of all values holds.
    limits: Option<LimitsForm>,
    /// Whether every agent must be bound to one plugin by `server`. Left out: `optional`.
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

/// What a message can be about.
#[derive(ToSchema)]
#[schema(as = Intent)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct IntentForm {
    /// Regular expressions of the Rust crate `regex`, without regard to case: a message that one of them matches has
    /// this intent.
    patterns: Option<Vec<String>>,
    /// The tools for it.
    tools: Option<ToolPatterns>,
}

/// A channel.
#[derive(ToSchema)]
#[schema(as = Channel)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct ChannelForm {
    /// The tools that cannot be called there.
    blocked: Option<ToolPatterns>,
}

/// The policy of an organization. Every field may be left out, and `null` is the same.
#[derive(ToSchema)]
#[schema(as = OrganizationPolicy)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct PolicyForm {
    /// The tools that the organization has. Left out: none.
    enabled: Option<ToolPatterns>,
    /// The tools that none of its agents may call.
    disabled: Option<ToolPatterns>,
    /// Sets of tools by name, for agents; one hides the platform's of that name.
    profiles: Option<BTreeMap<String, ToolPatterns>>,
    /// Channels of its own, and what it blocks on the platform's besides.
    channels: Option<BTreeMap<String, ChannelForm>>,
    /// Tools (`namespace/tool`, `namespace/*`) and the integration that each needs besides what is needed anyway.
    integrations: Option<BTreeMap<String, String>>,
    /// How tools are narrowed to those that matter for a message.
    broker: Option<BrokerForm>,
    /// What calls for the organization may use at most. Layers only take away: the smallest of all values holds.
    limits: Option<LimitsForm>,
    /// The requests that are left of what its tools were granted, for all its agents. Left out: all of them; an empty
    /// list: none.
    #[schema(max_items = 256)]
    network: Option<Vec<NetworkRuleForm>>,
}

/// How tools are narrowed to those that matter for a message.
#[derive(ToSchema)]
#[schema(as = Broker)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct BrokerForm {
    /// Whether they are. Left out: not.
    enabled: Option<bool>,
    /// The tools that are shown in any case.
    always_show: Option<ToolPatterns>,
}

/// What a plugin is granted. Every field may be left out, and `null` is the same: nothing of it is granted.
#[derive(ToSchema)]
#[schema(as = Grant)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct GrantForm {
    /// Which files its calls see: `none`, or those of the session's `workspace`.
    #[schema(pattern = "^(none|workspace)$")]
    filesystem: Option<String>,
    /// Which requests its calls may send.
    #[schema(max_items = 256)]
    network: Option<Vec<NetworkRuleForm>>,
    /// Networks whose addresses they may reach beside the public ones, like `10.1.0.0/16`. Each lies in one private network.
    #[schema(max_items = 256)]
    private_networks: Option<Vec<String>>,
    /// Hosts and ports that they may reach without TLS, like `printer.local:631`.
    #[schema(max_items = 256)]
    plain_http: Option<Vec<String>>,
    /// Certificates that they trust beside the public ones, each as PEM.
    #[schema(max_items = 16)]
    extra_ca: Option<Vec<String>>,
    /// The providers whose credentials they may use.
    #[schema(max_items = 256)]
    credentials: Option<Vec<String>>,
    /// Whether they may use credentials of the session's user. Left out: not.
    user_credentials: Option<bool>,
    /// What they may use at most. Layers only take away: the smallest of all values holds.
    limits: Option<LimitsForm>,
}

/// One kind of outgoing request. All that is said must fit.
#[derive(ToSchema)]
#[schema(as = NetworkRule)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct NetworkRuleForm {
    /// `https`, or `http` for hosts that `plain_http` of the grant names. Left out: `https`.
    #[schema(pattern = "^https?$")]
    scheme: Option<String>,
    /// A host name, an address (IPv6 in brackets), or `*.` and a name for exactly one label in place of the `*`.
    #[schema(max_length = 255)]
    host: String,
    /// The port. Left out: that of the scheme.
    #[schema(minimum = 1, maximum = 65535)]
    port: Option<u16>,
    /// The methods, in capitals. Left out: every one; an empty list: none.
    #[schema(max_items = 256)]
    methods: Option<Vec<String>>,
    /// What the path is or lies below, ending between segments. Left out: every path.
    #[schema(max_length = 1000)]
    path: Option<String>,
}

/// The rules of an agent. Every field may be left out, and `null` is the same.
#[derive(ToSchema)]
#[schema(as = AgentDocument)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct AgentForm {
    /// What people call it: at most 200 visible characters.
    name: Option<String>,
    /// The tools that it may call. Left out: what its profile gives, and without a profile none.
    enabled: Option<ToolPatterns>,
    /// The tools that the agent cannot call, regardless of every other rule.
    disabled: Option<ToolPatterns>,
    /// The namespace of the one plugin that it is bound to; `enabled` then names no other.
    #[schema(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40)]
    server: Option<String>,
    /// The set of tools that it has, defined by the organization or the platform.
    profile: Option<String>,
    /// What kind of agent it is, which gives it a profile where it names none. Subtypes are the platform's.
    subtype: Option<String>,
    /// How far it may go without a person. Left out: `supervised`.
    autonomy: Option<AutonomyForm>,
    /// The tools whose calls a person must approve. Left out, a `supervised` agent needs approval for every tool
    /// that is not read-only.
    require_approval_for: Option<ToolPatterns>,
    /// What its calls may use at most. Layers only take away: the smallest of all values holds.
    limits: Option<LimitsForm>,
    /// The requests that are left of what its tools were granted. Left out: all of them; an empty list: none.
    #[schema(max_items = 256)]
    network: Option<Vec<NetworkRuleForm>>,
}

/// How far an agent may go without a person.
#[derive(ToSchema)]
#[schema(as = Autonomy, rename_all = "snake_case")]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) enum AutonomyForm {
    /// It has read-only tools alone.
    DraftOnly,
    /// A person approves the tools in `require_approval_for`; without that list, every tool that is not read-only.
    Supervised,
    /// A person approves what `require_approval_for` names, and nothing else.
    Autonomous,
}

/// `"*"`, or a list of `namespace/tool`, `namespace/*` and `*`.
pub(super) struct ToolPatterns;

/// Limits by name.
pub(super) struct LimitsForm;

/// A WebAssembly component, as bytes.
pub(super) struct ComponentFile;

/// A file, as bytes.
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

/// Raw bytes. 3.1 needs no schema for them, but generators know this form as a stream of bytes.
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

    /// What a reader refuses with lists every field that it knows.
    fn known(error: toolgate_admission::DocumentError) -> Vec<String> {
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
            assert_eq!(sorted(properties(&form)), sorted(known(read)));
        }
        let broker = OrgDocument::parse(r#"{"broker":{"zzzzzzzz":1}}"#).expect_err("unknown");
        assert_eq!(sorted(properties(&BrokerForm::schema())), sorted(known(broker)));
        let intent = PlatformDocument::parse(r#"{"intents":{"a":{"zzzzzzzz":1}}}"#).expect_err("unknown");
        assert_eq!(sorted(properties(&IntentForm::schema())), sorted(known(intent)));
        let channel = OrgDocument::parse(r#"{"channels":{"sms":{"zzzzzzzz":1}}}"#).expect_err("unknown");
        assert_eq!(properties(&ChannelForm::schema()), known(channel));
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
        use super::super::address::{AgentAddress, PluginAddress};
        use utoipa::IntoParams;
        let longest = |parameters: Vec<utoipa::openapi::path::Parameter>, at: usize| {
            let parameter: Value = serde_json::to_value(&parameters[at]).expect("a parameter");
            usize::try_from(parameter["schema"]["maxLength"].as_u64().expect("a length")).expect("a length")
        };
        let name = longest(AgentAddress::into_params(|| None), 1);
        let namespace = longest(PluginAddress::into_params(|| None), 0);
        let text = |length| "x".repeat(length);
        assert!(Name::parse(&text(name)).is_ok() && Name::parse(&text(name + 1)).is_err());
        assert!(
            Namespace::parse(&text(namespace)).is_ok() && Namespace::parse(&text(namespace + 1)).is_err()
        );
    }
}
