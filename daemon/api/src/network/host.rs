//! Hosts of requests and rules: a name of letters, digits and hyphens, or an IP address in canonical form.
//!
//! `127.0.0.1` has a dozen spellings that one library parses as an address and another as a name (`0177.0.0.1`, `0x7f.1`,
//! `2130706433`, `127.1`, a trailing dot, a zone), which SSRF attacks use. A name whose last label could be a number is
//! therefore refused, and an address is accepted in canonical form only. Only ASCII letters are case-folded; other scripts
//! are written as `xn--`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Serialize, Serializer};

use crate::read::deserialize_parsed;
use crate::text::escape_for_display;

/// Longest host name in bytes (RFC 1035, without the trailing dot).
const NAME_BYTES: usize = 253;
/// Longest label in bytes (RFC 1035).
const LABEL_BYTES: usize = 63;

/// Host of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name in lower case.
    Name(Box<str>),
    /// An address.
    Address(IpAddr),
}

/// A text is not a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    /// The error, in one line.
    pub message: String,
    /// The fix.
    pub hint: &'static str,
}

impl HostError {
    fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), hint }
    }
}

impl Host {
    /// Parses a host as in a URL: IPv6 addresses are in brackets.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if let Some(inside) = text.strip_prefix('[') {
            let address = inside.strip_suffix(']').and_then(|inside| inside.parse::<Ipv6Addr>().ok());
            return match address {
                Some(address) if format!("[{address}]") == text => Ok(Self::Address(address.into())),
                Some(_) => Err(HostError::new(
                    format!("`{}` is not how this address is written", escape_for_display(text, 64)),
                    "write the address in its canonical form (RFC 5952), in lower case",
                )),
                None => Err(HostError::new(
                    format!("`{}` is no IPv6 address", escape_for_display(text, 64)),
                    "write an IPv6 address in brackets, without a zone",
                )),
            };
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        name(text).map(|name| Self::Name(name.into()))
    }

    /// Whether the text is the canonical form of this host.
    pub fn is_canonical_form(&self, text: &str) -> bool {
        match self {
            Self::Name(name) => **name == *text,
            Self::Address(_) => self.to_string() == text,
        }
    }

    /// The name, unless the host is an address.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(formatter),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

/// Hosts that a rule applies to: one host, or every name with exactly one label in place of the `*`. A plugin may also
/// ask for every host if only its users know which; that cannot be granted, so an operator names hosts.
///
/// `*.example.com` matches `a.example.com` and neither `example.com` nor `b.a.example.com`, as in certificates.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// This host.
    Exact(Host),
    /// Every name with one label more than this one.
    OneLabelBelow(Box<str>),
    /// Every host: a plugin can ask for it, an operator cannot grant it.
    Any,
}

impl HostPattern {
    /// Parses a host pattern of a descriptor: `*`, or a pattern that a grant may contain.
    pub fn parse_asked(text: &str) -> Result<Self, HostError> {
        if text == "*" { Ok(Self::Any) } else { Self::parse(text) }
    }

    /// Parses a host, or `*.` and a name of at least two labels.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let Some(parent) = text.strip_prefix("*.") else {
            if text.contains('*') {
                return Err(HostError::new(
                    format!("`{}` has a wildcard in a wrong place", escape_for_display(text, 64)),
                    "write one `*` as the whole first label, like `*.example.com`",
                ));
            }
            return Host::parse(text).map(Self::Exact);
        };
        match Host::parse(parent)? {
            Host::Name(name) if name.contains('.') => Ok(Self::OneLabelBelow(name)),
            Host::Name(_) | Host::Address(_) => Err(HostError::new(
                format!("`{}` would match every host below a top-level domain", escape_for_display(text, 64)),
                "write at least two labels behind the `*.`, like `*.example.com`",
            )),
        }
    }

    /// Whether the pattern matches this host.
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Exact(exact), host) => exact == host,
            (Self::OneLabelBelow(parent), Host::Name(name)) => {
                name.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && *rest == **parent)
            }
            (Self::OneLabelBelow(_), Host::Address(_)) => false,
        }
    }

    /// Whether some host matches both patterns.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Exact(host), pattern) | (pattern, Self::Exact(host)) => pattern.matches(host),
            (Self::OneLabelBelow(parent), Self::OneLabelBelow(other)) => parent == other,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => host.fmt(formatter),
            Self::OneLabelBelow(parent) => write!(formatter, "*.{parent}"),
            Self::Any => formatter.write_str("*"),
        }
    }
}

deserialize_parsed!(HostPattern, HostPattern::parse_asked);

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn name(text: &str) -> Result<String, HostError> {
    if text.is_empty() || text.len() > NAME_BYTES {
        return Err(HostError::new(
            format!("a host name has 1 to {NAME_BYTES} characters"),
            "write a host name like `api.example.com`",
        ));
    }
    if let Some(label) = text.split('.').find(|label| !is_label(label)) {
        return Err(HostError::new(
            format!(
                "`{}` is no host name: its part `{}` is not one",
                escape_for_display(text, 64),
                escape_for_display(label, 64)
            ),
            "write letters, digits and hyphens, without a trailing dot; other scripts as `xn--`",
        ));
    }
    if text.rsplit('.').next().is_some_and(is_like_a_number) {
        return Err(HostError::new(
            format!("`{}` can be read as an address", escape_for_display(text, 64)),
            "write an IPv4 address as four decimal numbers without leading zeros",
        ));
    }
    Ok(text.to_ascii_lowercase())
}

fn is_label(label: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=LABEL_BYTES).contains(&label.len())
        && label.bytes().all(is_inside)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// What lenient parsers accept as the last number of an IPv4 address: digits, or `0x` and hexadecimal digits.
fn is_like_a_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
