//! One rule about outgoing requests: in descriptors (asked), grants, policies and agents' documents.
//!
//! All have the same form, so a grant can be a copy of the descriptor's list. A request must match a rule of each.

use serde::{Deserialize, Deserializer, Serialize};

use super::host::HostPattern;
use super::path::{is_within, validate_rule_path};
use super::target::{Target, validate_method};
use crate::read::{invalid_at, list_of, null_is_default, parse_string, parsed_list, whole_number};
use crate::words::words;

/// A rule for outgoing requests. A request must match every field of the rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworkRule {
    /// `https`, or `http` for hosts in the grant's `plain_http`. Default: `https`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^https?$"))]
    pub scheme: NetworkScheme,
    /// A host name, an IP address (IPv6 in brackets), or `*.` and a name, where `*` stands for exactly one label.
    #[cfg_attr(feature = "openapi", schema(value_type = String, max_length = 255))]
    pub host: HostPattern,
    /// The port. Default: the port of the scheme, or every port in a descriptor that asks for every host.
    #[serde(default, deserialize_with = "port", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 65535))]
    pub port: Option<u16>,
    /// The methods, in upper case. Default: every method. An empty list allows no method.
    #[serde(default, deserialize_with = "methods", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 256))]
    pub methods: Option<Vec<String>>,
    /// A path prefix, matched at segment boundaries. Default: every path.
    #[serde(default, deserialize_with = "path", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub path: Option<String>,
}

/// Most methods of a rule, and most rules of a list.
const ENTRIES: usize = 256;

fn port<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    whole_number::<_, _, 1, 65_535>(from).map(Some)
}

fn methods<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    let parse = |text: &str| match validate_method(text) {
        Ok(method) => Ok(method.to_owned()),
        Err(error) => Err((error.message, error.hint)),
    };
    parsed_list(from, ENTRIES, parse).map(Some)
}

fn path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let hint = "write what the path begins with, like `/points/`";
    parse_string(from, |path| match validate_rule_path(path) {
        Ok(()) => Ok(Some(path.to_owned())),
        Err(why) => Err((why.to_owned(), hint)),
    })
}

/// For `deserialize_with`: the `network` of a grant. Also a rule for every host is for one port.
pub fn granted_rules<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NetworkRule>, D::Error> {
    let mut rules = list_of::<_, NetworkRule, ENTRIES>(from)?;
    for rule in rules.iter_mut().filter(|rule| rule.host == HostPattern::Any) {
        rule.port = Some(rule.port());
    }
    Ok(rules)
}

/// For `deserialize_with`: the `network` of a policy or an agent's document, where no host is `*`: without the list, they allow every
/// request that the grant allows.
pub fn policy_rules<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<Vec<NetworkRule>>,
{
    let rules = list_of::<_, NetworkRule, ENTRIES>(from)?;
    match rules.iter().position(|rule| rule.host == HostPattern::Any) {
        None => Ok(rules.into()),
        Some(index) => {
            let hint =
                "name hosts, also as `*.example.com`, or leave `network` out for every host of the grant";
            Err(invalid_at(format_args!("/{index}/host"), "`*` is no host of a policy", hint))
        }
    }
}

/// Requests that a credential is added to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CredentialBinding {
    /// `https`, which is the default. `http` needs the host in the setting `credentials.plain_http`, and is used only at
    /// loopback and private addresses.
    #[serde(default, deserialize_with = "null_is_default")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub scheme: NetworkScheme,
    /// The full host name; patterns are not supported.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 253, example = "api.stripe.com"))]
    pub host: String,
    /// The port. Default: the scheme's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 65_535))]
    pub port: Option<u16>,
    /// The methods, in upper case. Default: all methods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub methods: Option<Vec<String>>,
    /// The path prefix, compared by whole segments. Default: all paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1_000, example = "/v1/"))]
    pub path: Option<String>,
}

words! {
    /// The scheme of an outgoing request.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub enum NetworkScheme {
        /// With TLS.
        #[default]
        Https = "https",
        /// Without TLS.
        Http = "http",
    }
}

impl NetworkScheme {
    /// The default port of the scheme.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

impl NetworkRule {
    /// Whether the rule allows this request.
    pub fn allows(&self, target: &Target) -> bool {
        self.agreement(target) == Agreement::Whole
    }

    /// The port, or the scheme's default port.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(self.scheme.default_port())
    }

    /// Compares the rule with a request part by part, in the order of [`Agreement`].
    pub fn agreement(&self, target: &Target) -> Agreement {
        if !self.host.matches(target.host()) {
            return Agreement::Nothing;
        }
        if self.scheme != target.scheme() {
            return Agreement::Host;
        }
        let leaves_port_open = self.host == HostPattern::Any && self.port.is_none();
        if !leaves_port_open && self.port() != target.port() {
            return Agreement::Scheme;
        }
        if self.methods.as_ref().is_some_and(|list| !list.iter().any(|method| method == target.method())) {
            return Agreement::Port;
        }
        match self.path.as_ref().is_none_or(|prefix| is_within(target.path(), prefix)) {
            true => Agreement::Whole,
            false => Agreement::Method,
        }
    }

    /// The narrowest rule that allows this request.
    pub fn for_target(target: &Target) -> Self {
        Self {
            scheme: target.scheme(),
            host: HostPattern::Exact(target.host().clone()),
            port: (target.port() != target.scheme().default_port()).then_some(target.port()),
            methods: Some(vec![target.method().to_owned()]),
            path: Some(target.path().to_owned()),
        }
    }
}

/// The last part in which a rule and a request agree, compared in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agreement {
    /// Not even the host.
    Nothing,
    /// The host.
    Host,
    /// The scheme too.
    Scheme,
    /// The port too.
    Port,
    /// The method too.
    Method,
    /// Every part: the rule allows the request.
    Whole,
}
