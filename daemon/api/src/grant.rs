//! Capabilities that a plugin asks for, and the grant by which an operator allows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hints::Hints;
use crate::limits::{LimitsPatch, PLUGIN_TOOLS, TOOL_DESCRIPTION_CHARS};
use crate::name::ToolName;
use crate::network::{
    Host, HostPattern, Network, NetworkRule, NetworkScheme, Target, TargetError, can_be_granted,
    granted_rules, parse_authority,
};
use crate::read::{
    ReadError, check_text, deserialize_parsed, invalid, invalid_at, list_of, parsed_list, pointer,
    read_document, words,
};
use crate::words::words;

/// Most entries of a list in a grant.
const ENTRIES: usize = 256;
/// Most entries of a list in a descriptor (`wit/describe.schema.json`).
const REQUESTED_ENTRIES: usize = 100;
/// Longest certificate as PEM, in bytes. Common ones have two thousand.
const CERTIFICATE_BYTES: usize = 16 * 1024;
/// Most certificates: each connection that opens checks them.
const CERTIFICATES: usize = 16;
/// Longest name of a setting, and its longest text, in bytes.
const SETTING_NAME_BYTES: usize = 128;
const SETTING_BYTES: usize = 4096;
/// Longest name of a provider.
const PROVIDER_CHARS: usize = 100;

/// Access beyond computing that a plugin asks for (B5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// Which files.
    #[serde(default)]
    pub filesystem: FilesystemAccess,
    /// Which requests; an empty list means none.
    #[serde(default, deserialize_with = "requested_rules")]
    pub network: Vec<NetworkRule>,
    /// Credentials by provider; an empty list means none.
    #[serde(default, deserialize_with = "words::<_, REQUESTED_ENTRIES, PROVIDER_CHARS>")]
    pub credentials: Vec<String>,
    /// Calls of the agent's other tools.
    // Left out where it is false, as in the bindings of earlier approvals; the same holds for `messages`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub calls: bool,
    /// Messages to agents of the organization.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub messages: bool,
    /// Capabilities that the component's language runtime imports and the plugin does not use. Nothing is granted by it.
    #[serde(
        default,
        deserialize_with = "list_of::<_, _, REQUESTED_ENTRIES>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub unused: Vec<RuntimeImport>,
}

words! {
    /// A capability that runtimes of scripting languages import for every program, used or not.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum RuntimeImport {
        /// Files.
        Filesystem = "filesystem",
        /// Requests.
        Network = "network",
    }
}

impl Capabilities {
    /// Whether nothing is asked for beyond `accepted`. A network rule must be one of the accepted rules as it is written: a
    /// narrower one counts as another, since people accept what they read.
    pub fn is_within(&self, accepted: &Self) -> bool {
        self.filesystem <= accepted.filesystem
            && self.network.iter().all(|rule| accepted.network.contains(rule))
            && self.credentials.iter().all(|provider| accepted.credentials.contains(provider))
            && (accepted.calls || !self.calls)
            && (accepted.messages || !self.messages)
    }

    /// The names of what is asked for and not granted at all, as fields of a grant.
    pub fn not_granted(&self, grant: &Grant) -> Vec<&'static str> {
        let lacks = [
            ("filesystem", self.filesystem > grant.filesystem),
            ("network", !self.network.is_empty() && grant.network.is_empty()),
            ("credentials", !self.credentials.iter().all(|provider| grant.credentials.contains(provider))),
            ("calls", self.calls && !grant.calls),
            ("messages", self.messages && !grant.messages),
        ];
        lacks.into_iter().filter(|(_, is_lacking)| *is_lacking).map(|(name, _)| name).collect()
    }

    /// Whether nothing beyond computing is asked for.
    pub fn is_empty(&self) -> bool {
        self.is_within(&Self::default())
    }

    /// Whether a plugin that calls tools, or sends messages, asks for anything else.
    ///
    /// A mix is refused: a call that is repeated after an approval repeats no effect but those that the daemon knows by their id,
    /// and what a script read from one tool leaves the sandbox by the gate of another.
    pub fn mixes_powers(&self) -> bool {
        let nothing = Self { unused: self.unused.clone(), ..Self::default() };
        let calls = Self { calls: true, ..nothing.clone() };
        let messages = Self { messages: true, ..nothing };
        (self.calls || self.messages) && *self != calls && *self != messages
    }
}

fn requested_rules<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NetworkRule>, D::Error> {
    let rules: Vec<NetworkRule> = list_of::<_, _, REQUESTED_ENTRIES>(from)?;
    let methods = |rule: &NetworkRule| rule.methods.as_ref().map_or(0, Vec::len);
    match rules.iter().position(|rule| methods(rule) > REQUESTED_ENTRIES) {
        None => Ok(rules),
        Some(index) => {
            let message = format_args!("more than the {REQUESTED_ENTRIES} methods allowed");
            Err(invalid_at(format_args!("/{index}/methods"), message, "list fewer"))
        }
    }
}

/// Which files the calls of a plugin see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesystemAccess {
    /// None.
    #[default]
    None,
    /// The files of the session's workspace.
    Workspace,
}

/// A grant to a plugin. Every field is optional; `null` equals an absent field, which grants nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Grant {
    /// The files that calls of the plugin can access: `none`, or those of the session's `workspace`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^(none|workspace)$"))]
    pub filesystem: FilesystemAccess,
    /// Rules for the requests that calls can send. The host `*` stands for every public host, at one port: only for a grant without
    /// credentials and private networks.
    #[serde(default, deserialize_with = "granted_rules")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<NetworkRule>>, max_items = 256))]
    pub network: Vec<NetworkRule>,
    /// Private networks whose addresses calls can reach in addition to public addresses, in CIDR notation such as
    /// `10.1.0.0/16`. Each entry lies within one private network.
    #[serde(default, deserialize_with = "private_networks")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>, max_items = 256))]
    pub private_networks: Vec<Network>,
    /// Hosts and ports that calls can reach without TLS, such as `printer.local:631`.
    #[serde(default, deserialize_with = "list_of::<_, _, ENTRIES>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>, max_items = 256))]
    pub plain_http: Vec<PlainHttp>,
    /// CA certificates that calls trust in addition to the public ones, each in PEM.
    #[serde(default, deserialize_with = "certificates")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>, max_items = 16))]
    pub extra_ca: Vec<String>,
    /// The providers whose credentials calls can use.
    #[serde(default, deserialize_with = "words::<_, ENTRIES, PROVIDER_CHARS>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>, max_items = 256))]
    pub credentials: Vec<String>,
    /// Whether calls can use credentials of the session's user. Default: `false`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub user_credentials: bool,
    /// Whether requests tell upstreams the trace of their call (`traceparent`), where the daemon exports traces. Default:
    /// `false`.
    // Left out where it is false, so that approvals given before are for the same grant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub trace_context: bool,
    /// Whether calls can call the agent's other tools. Default: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub calls: bool,
    /// Whether calls can send messages to agents of the organization, and read those of their agent. Default: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub messages: bool,
    /// Whether the operator has vetted the plugin: the catalogue lists it as `standard`, and organizations need not accept it
    /// before their agents have its tools. The mark stays with the plugin, also for later versions, of which one that asks for
    /// more waits for the operator's approval. Default: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub standard: bool,
    /// Digest of the version whose hints the operator confirms, as the plugin's view shows it (9.11). The hints of another
    /// version of an uploaded plugin do not count.
    #[serde(default, deserialize_with = "digest", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^sha256:[0-9a-f]{64}$"))]
    pub confirmed_hints: Option<String>,
    /// Descriptions of tools by their names in the plugin, which models read instead of the plugin's own. They are for components
    /// that describe nothing.
    #[serde(default, deserialize_with = "descriptions", skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, String>>))]
    pub descriptions: BTreeMap<String, String>,
    /// Effects of tools by their names in the plugin, in place of what the plugin says; a member that is left out has the careful
    /// default. They are for components that say nothing, and count once the hints of the version are confirmed
    /// (`confirmed_hints`).
    #[serde(default, deserialize_with = "hints", skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, Hints>>))]
    pub hints: BTreeMap<String, Hints>,
    /// Settings by name, with the text that counts where an organization sets none: for components without the plugin contract, which
    /// read them from `wasi:config/store` or as environment variables. An empty object gives none.
    #[serde(default, deserialize_with = "settings", skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, String>>))]
    pub settings: BTreeMap<String, String>,
    /// Limits of the plugin's calls. The smallest value of all layers applies; a layer cannot raise a limit.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<LimitsPatch>))]
    pub limits: LimitsPatch,
}

/// A host that may be reached without TLS, at one port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlainHttp {
    host: Host,
    port: u16,
}

impl PlainHttp {
    /// Parses `HOST:PORT`.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let hint = "write a host and its port, like `printer.local:631`";
        match parse_authority(text)? {
            (host, Some(port)) => Ok(Self { host, port }),
            (_, None) => Err(TargetError { message: "the port is missing".to_owned(), hint }),
        }
    }
}

deserialize_parsed!(PlainHttp, PlainHttp::parse);

impl Serialize for PlainHttp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}:{}", self.host, self.port))
    }
}

/// Grants everything that a plugin asks for.
impl From<Capabilities> for Grant {
    fn from(asked: Capabilities) -> Self {
        let Capabilities { filesystem, network, credentials, calls, messages, unused: _ } = asked;
        Self { filesystem, network, credentials, calls, messages, ..Self::default() }
    }
}

impl Grant {
    /// Parses a grant.
    pub fn parse(json: &str) -> Result<Self, ReadError> {
        let grant: Self = read_document(json)?;
        grant.check_plain_http()?;
        grant.check_every_host()?;
        Ok(grant)
    }

    /// Whether the request uses TLS, or goes to a host that the grant allows without.
    pub fn allows_plain_http(&self, target: &Target) -> bool {
        let is_named = |plain: &PlainHttp| plain.host == *target.host() && plain.port == target.port();
        target.scheme() == NetworkScheme::Https || self.plain_http.iter().any(is_named)
    }

    /// Whether calls may reach every public host.
    pub fn allows_every_host(&self) -> bool {
        self.network.iter().any(|rule| rule.host == HostPattern::Any)
    }

    /// A plugin that reaches every host has no secret to lose there, and no way into a private network by a name that points to it.
    fn check_every_host(&self) -> Result<(), ReadError> {
        if !self.allows_every_host() {
            return Ok(());
        }
        let other =
            match (self.credentials.is_empty(), self.user_credentials, self.private_networks.is_empty()) {
                (true, false, true) => return Ok(()),
                (false, _, _) => "credentials",
                (_, true, _) => "user_credentials",
                _ => "private_networks",
            };
        Err(ReadError::new(
            pointer("", other),
            format!("a grant for every host (`*`) has no `{other}`"),
            "name the hosts, or leave this out",
        ))
    }

    /// A rule for plain HTTP has no effect unless `plain_http` names a host that it matches.
    fn check_plain_http(&self) -> Result<(), ReadError> {
        let has_no_effect = |rule: &NetworkRule| {
            let serves = |plain: &PlainHttp| plain.port == rule.port() && rule.host.matches(&plain.host);
            rule.scheme == NetworkScheme::Http && !self.plain_http.iter().any(serves)
        };
        match self.network.iter().enumerate().find(|(_, rule)| has_no_effect(rule)) {
            None => Ok(()),
            Some((index, rule)) => Err(ReadError::new(
                pointer("/network", &index.to_string()),
                format!(
                    "the rule is for plain HTTP, and `plain_http` does not name `{}:{}`",
                    rule.host,
                    rule.port()
                ),
                "use https, or name the host and its port in `plain_http`",
            )),
        }
    }
}

fn descriptions<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let written: BTreeMap<String, String> = by_tool(from)?;
    for (name, text) in &written {
        check_text(text, TOOL_DESCRIPTION_CHARS)
            .map_err(|(message, hint)| invalid_at(pointer("", name), message, hint))?;
    }
    Ok(written)
}

fn hints<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Hints>, D::Error> {
    by_tool(from)
}

fn settings<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let written = Option::<BTreeMap<String, String>>::deserialize(from)?.unwrap_or_default();
    if written.len() > ENTRIES {
        return Err(invalid(format_args!("more than the {ENTRIES} settings allowed"), "name fewer"));
    }
    for (name, text) in &written {
        let is_name = !name.is_empty()
            && name.len() <= SETTING_NAME_BYTES
            && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'=');
        let fault = match (is_name, text) {
            (false, _) => "this is no name of a setting",
            (_, text) if text.len() > SETTING_BYTES => "the text is too long",
            (_, text) if text.contains('\0') => "the text has a NUL character",
            _ => continue,
        };
        let hint = "write a name of visible ASCII characters without `=`, and a text of at most 4096 bytes";
        return Err(invalid_at(pointer("", name), fault, hint));
    }
    Ok(written)
}

/// Values by the names of tools.
fn by_tool<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<BTreeMap<String, T>, D::Error> {
    let written = Option::<BTreeMap<String, T>>::deserialize(from)?.unwrap_or_default();
    if written.len() > PLUGIN_TOOLS {
        return Err(invalid(
            format_args!("more than the {PLUGIN_TOOLS} tools allowed"),
            "name the tools that are used",
        ));
    }
    for name in written.keys() {
        ToolName::parse(name).map_err(|error| invalid_at(pointer("", name), error.message, error.hint))?;
    }
    Ok(written)
}

fn digest<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let is_digest = |text: &str| {
        let digits = text.strip_prefix("sha256:").unwrap_or_default();
        digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    match Option::<String>::deserialize(from)? {
        Some(text) if !is_digest(&text) => Err(invalid(
            "this is no digest",
            "write the `digest` of the version, as `toolgate plugin show` prints it",
        )),
        read => Ok(read),
    }
}

fn private_networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Network>, D::Error> {
    parsed_list(from, ENTRIES, |text| {
        let network = Network::parse(text)
            .map_err(|error| (error.to_string(), "write the first address and the prefix length"))?;
        if can_be_granted(&network) {
            return Ok(network);
        }
        let hint =
            "public addresses need no grant; name a private network, or one address of a cloud with `/32`";
        Err((format!("`{network}` is not a part of one private network"), hint))
    })
}

/// Checks the form alone; the content is checked when the certificate is loaded.
fn certificates<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    parsed_list(from, CERTIFICATES, |text| {
        let is_certificate = text.len() <= CERTIFICATE_BYTES
            && text.is_ascii()
            && text.trim().starts_with("-----BEGIN CERTIFICATE-----")
            && text.trim().ends_with("-----END CERTIFICATE-----");
        match is_certificate {
            true => Ok(text.to_owned()),
            false => Err(("this is no certificate".to_owned(), "write one certificate as PEM")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g16_what_is_not_granted_is_named() {
        let asked: Capabilities = serde_json::from_str(
            r#"{"filesystem":"workspace","network":[{"host":"api.example"}],"credentials":["crm","erp"],"calls":true,"messages":true}"#,
        )
        .expect("capabilities");
        let none = asked.not_granted(&Grant::default());
        assert_eq!(none, ["filesystem", "network", "credentials", "calls", "messages"]);
        let parts =
            Grant::parse(r#"{"network":[{"host":"other.example"}],"credentials":["crm"],"calls":true}"#);
        // A grant of another host is the operator's choice; a part of the credentials is not enough.
        assert_eq!(asked.not_granted(&parts.expect("a grant")), ["filesystem", "credentials", "messages"]);
        let all = Grant::parse(
            r#"{"filesystem":"workspace","network":[{"host":"api.example"}],"credentials":["crm","erp"],"calls":true,"messages":true}"#,
        );
        assert!(asked.not_granted(&all.expect("a grant")).is_empty());
        assert!(Capabilities::default().not_granted(&Grant::default()).is_empty());
    }
}
