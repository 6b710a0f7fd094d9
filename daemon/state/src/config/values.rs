//! The values that a key accepts: kinds, text formats, and the types of choices.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use http::Uri;
use serde::{Deserialize, Serialize};
use toolgate_api::name::Name;
use toolgate_api::token::Role;
use url::Url;

use super::keys::Section;
use super::vault_paths::{ReferencePrefix, SecretFolders, VaultEngine};

/// The values that a key accepts.
#[derive(Clone, Copy)]
pub(super) enum ValueKind {
    Number {
        least: u64,
        most: u64,
    },
    OneOf(&'static [&'static str]),
    Switch,
    Text,
    Address,
    Hosts,
    Addresses,
    /// An address with a port.
    SocketAddress,
    /// Names of organizations.
    Organizations,
    /// Hosts with an optional port.
    HostsWithPorts,
    /// A table of names with the id of a token for each.
    TokenIds,
    /// A number from 0 to 1.
    Share,
    /// Texts without spaces.
    Words,
    /// A table with the keys of a section.
    Table(&'static Section),
    /// Tables with the keys of a section.
    Tables(&'static Section),
    TextFormat(&'static TextFormat),
}

/// A text format, checked with the parser that later reads the value.
pub(super) struct TextFormat {
    pub accepts: fn(&str) -> bool,
    /// The name of the format in messages.
    pub name: &'static str,
    pub example: &'static str,
}

pub(super) const VAULT_URL: TextFormat =
    TextFormat { accepts: is_base_url, name: "URL", example: "https://vault.example.org:8200" };
pub(super) const PUBLIC_URL: TextFormat =
    TextFormat { accepts: is_base_url, name: "URL", example: "https://tools.example.org" };
pub(super) const TRACES_ENDPOINT: TextFormat = TextFormat {
    accepts: |text| parse_endpoint(text).is_some(),
    name: "URL",
    example: "http://127.0.0.1:4318/v1/traces",
};
pub(super) const VAULT_KV: TextFormat = TextFormat {
    accepts: |text| VaultEngine::kv(text).is_some(),
    name: "`MOUNT/PATH#FIELD`",
    example: "secret/toolgate#root_key",
};
pub(super) const VAULT_TRANSIT: TextFormat = TextFormat {
    accepts: |text| VaultEngine::transit(text, PathBuf::new()).is_some(),
    name: "`MOUNT/KEY`",
    example: "transit/toolgate",
};
pub(super) const VAULT_REFERENCES: TextFormat = TextFormat {
    accepts: |text| ReferencePrefix::parse(text).is_some(),
    name: "`MOUNT/…/{organization}/`",
    example: "kv/tenants/{organization}/",
};

pub(super) const FILE_REFERENCES: TextFormat = TextFormat {
    accepts: |text| SecretFolders::parse(text).is_some(),
    name: "`/…/{organization}/`",
    example: "/run/secrets/{organization}/",
};

pub(super) const REGISTRY_HOST: TextFormat =
    TextFormat { accepts: is_registry_host, name: "`HOST` or `HOST:PORT`", example: "registry.example.org" };
pub(super) const SECURE_URL: TextFormat = TextFormat {
    accepts: is_secure_url,
    name: "URL with `https`, or with `http` for this machine",
    example: "https://tools.example.org/mcp",
};

pub(super) const CONSOLE_ROLE: TextFormat = TextFormat {
    accepts: |text| Role::parse(text).is_some_and(|role| role != Role::Agent),
    name: "role of people",
    example: "approver",
};
pub(super) const ORGANIZATION: TextFormat =
    TextFormat { accepts: |text| Name::parse(text).is_ok(), name: "name", example: "acme" };

/// The path of an endpoint that names none (OTLP specification).
const DEFAULT_PATH: &str = "/v1/traces";

/// Parses the URL of a collector.
pub fn parse_endpoint(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let is_url = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    let has_password = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    if !is_url || has_password {
        return None;
    }
    match uri.path() {
        "" | "/" => format!("{}{DEFAULT_PATH}", text.trim_end_matches('/')).parse().ok(),
        _ => Some(uri),
    }
}

/// Whether the text is a host name or an IP address, with an optional port.
pub fn is_registry_host(text: &str) -> bool {
    let is_name = |name: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        !name.is_empty() && name.bytes().all(is_allowed)
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_host = |host: &str| match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => is_name(host),
    };
    is_host(text) || text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port))
}

/// Whether the URL is protected by TLS, or names a loopback address. It is a base URL, too.
fn is_secure_url(text: &str) -> bool {
    let is_loopback = |url: &Url| match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    is_base_url(text) && Url::parse(text).is_ok_and(|url| url.scheme() == "https" || is_loopback(&url))
}

/// Whether a path can be appended: no query, fragment or credentials.
fn is_base_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let bare = url.query().is_none() && url.fragment().is_none();
        let anonymous = url.username().is_empty() && url.password().is_none();
        matches!(url.scheme(), "http" | "https") && url.has_host() && bare && anonymous
    })
}

/// Whether a plugin file needs a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signatures {
    #[default]
    Optional,
    Required,
}

/// Whether the process bounds itself with Landlock and seccomp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hardening {
    /// A start fails unless files and system calls can be bounded.
    Required,
    /// As far as the kernel can.
    BestEffort,
    /// Not at all.
    Off,
}

/// Whether the page-map scan finds the pages to reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PagemapScan {
    Auto,
    Off,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

/// The lowest level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}
