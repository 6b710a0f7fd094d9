//! One rule about outgoing requests: in descriptors (asked), grants, policies and agents' documents.
//!
//! All have the same form, so a grant can be a copy of the descriptor's list. A request must match a rule of each.

use serde::{Deserialize, Serialize};

use super::host::HostPattern;
use super::path::is_within;
use super::target::Target;
use crate::read::null_is_default;

/// One kind of outgoing request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NetworkRule {
    /// The scheme.
    pub scheme: NetworkScheme,
    /// The host.
    pub host: HostPattern,
    /// The port; absent means the scheme's default port, or every port if the host is `*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The methods; absent means every method, an empty list none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// Path prefix; absent means every path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Requests that a credential is added to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CredentialBinding {
    /// `https`, which is the default. `http` is refused: a credential is never sent without TLS.
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

/// The scheme of an outgoing request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NetworkScheme {
    /// With TLS.
    #[default]
    Https,
    /// Without TLS.
    Http,
}

impl NetworkScheme {
    /// The scheme by its name in documents.
    pub const WORDS: [(&str, Self); 2] = [("https", Self::Https), ("http", Self::Http)];

    /// The default port of the scheme.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }

    /// The scheme of a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
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
