//! One rule about outgoing requests, as plugins ask for them, operators grant them and policy narrows them.
//!
//! All write the same form, so that a grant can be the asking, copied. A request must match a rule of each.

use serde::{Deserialize, Serialize};

use super::host::HostPattern;
use super::is_within;
use super::target::Target;

/// One kind of outgoing request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct NetworkRule {
    /// The scheme.
    pub scheme: NetworkScheme,
    /// The host.
    pub host: HostPattern,
    /// The port; absent means that of the scheme, and every one where a plugin asks for every host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The methods; absent means every one, an empty list none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// What the path is or lies below; absent means every path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// The scheme of an outgoing request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkScheme {
    /// With TLS.
    #[default]
    Https,
    /// Without.
    Http,
}

impl NetworkScheme {
    pub(crate) const WORDS: [(&str, Self); 2] = [("https", Self::Https), ("http", Self::Http)];

    /// The port where a rule names none.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }

    /// As a URL begins.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

impl NetworkRule {
    /// Whether it allows this request.
    pub fn allows(&self, target: &Target) -> bool {
        self.agreement(target) == Agreement::Whole
    }

    /// The port that it is about.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(self.scheme.default_port())
    }

    /// How far it goes with a request, part by part in this order.
    pub(super) fn agreement(&self, target: &Target) -> Agreement {
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

    /// The rule that allows this request and as little else as a rule can.
    pub(super) fn of(target: &Target) -> Self {
        Self {
            scheme: target.scheme(),
            host: HostPattern::Exact(target.host().clone()),
            port: (target.port() != target.scheme().default_port()).then_some(target.port()),
            methods: Some(vec![target.method().to_owned()]),
            path: Some(target.path().to_owned()),
        }
    }
}

/// The last part in which a rule and a request agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Agreement {
    Nothing,
    Host,
    Scheme,
    Port,
    Method,
    Whole,
}
