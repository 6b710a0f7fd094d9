//! The document of a plugin's grant: what the operator lets its calls reach.
//!
//! Strict like every document: an unknown field is refused with the nearest known one, a rule that could never allow
//! anything is refused with what is missing. A network that is not private cannot be named, so no grant says "every
//! address" by naming a large one.

use serde::Serialize;
use toolgate_api::network::{
    Host, HostPattern, Network, NetworkRule, NetworkScheme, Target, parse_authority, validate_method,
    validate_rule_path,
};
use toolgate_api::text::escape_for_display;

use super::address::can_be_granted;
use crate::descriptor::{Capabilities, FilesystemAccess};
use crate::limits::{Limits, LimitsPatch};
use crate::rules::{DocumentError, Fields, Part, Warning, limits_without_effect, read};

/// Limit of entries in a list. A need for more hosts calls for another mechanism than a list.
const ENTRIES: usize = 256;
/// Longest certificate as PEM, in bytes. Common ones have two thousand.
const CERTIFICATE_BYTES: usize = 16 * 1024;
/// Most certificates: each is looked at when a connection is opened.
const CERTIFICATES: usize = 16;
/// Longest name of a provider.
const PROVIDER_CHARS: usize = 100;

const FIELDS: Fields = Fields {
    whose: "a grant",
    known: &[
        "filesystem",
        "network",
        "private_networks",
        "plain_http",
        "extra_ca",
        "credentials",
        "user_credentials",
        "limits",
    ],
    to_come: &[],
};

const RULE_FIELDS: Fields = Fields {
    whose: "a rule about requests",
    known: &["scheme", "host", "port", "methods", "path"],
    to_come: &[],
};

/// The operator's grant of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// Which files.
    pub filesystem: FilesystemAccess,
    /// Which requests; an empty list means none.
    pub network: Vec<NetworkRule>,
    /// Networks whose addresses may be reached beside the public ones.
    pub private_networks: Vec<Network>,
    /// Hosts and ports that may be reached without TLS.
    pub plain_http: Vec<PlainHttp>,
    /// Certificates that are trusted beside the public ones, as PEM.
    pub extra_ca: Vec<String>,
    /// Credentials by provider; an empty list means none.
    pub credentials: Vec<String>,
    /// Whether credentials of the session's user may be used.
    pub user_credentials: bool,
    /// Narrower limits.
    pub limits: LimitsPatch,
}

/// A host that may be reached without TLS, at one port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlainHttp {
    host: Host,
    port: u16,
}

impl Serialize for PlainHttp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}:{}", self.host, self.port))
    }
}

/// For a plugin that gets all that it asks for.
impl From<Capabilities> for Grant {
    fn from(asked: Capabilities) -> Self {
        let Capabilities { filesystem, network, credentials } = asked;
        Self { filesystem, network, credentials, ..Self::default() }
    }
}

impl Grant {
    /// Reads a grant, or says what is wrong with it and where.
    pub fn parse(json: &str) -> Result<Self, DocumentError> {
        let value = read(json)?;
        let whole = Part::whole(&value, &FIELDS)?;
        let plain_http = whole.list("plain_http", ENTRIES, read_plain_http)?;
        let grant = Self {
            filesystem: whole
                .member("filesystem")
                .map_or(Ok(FilesystemAccess::None), |part| part.one_of(&FilesystemAccess::WORDS))?,
            network: match whole.member("network") {
                Some(part) => read_network(&part)?,
                None => Vec::new(),
            },
            private_networks: whole.list("private_networks", ENTRIES, read_private_network)?,
            extra_ca: whole.list("extra_ca", CERTIFICATES, read_certificate)?,
            credentials: whole.list("credentials", ENTRIES, read_provider)?,
            user_credentials: whole.member("user_credentials").map_or(Ok(false), |part| part.flag())?,
            limits: whole.member("limits").map_or(Ok(LimitsPatch::new()), |part| part.limits())?,
            plain_http,
        };
        grant.check_plainness()?;
        Ok(grant)
    }

    /// Returns warnings about valid entries that are probably mistakes, for a plugin with these requested
    /// capabilities.
    pub fn warnings(&self, asked: &Capabilities) -> Vec<Warning> {
        let unasked = |path: &str, what: &str| {
            Warning::new("NO_EFFECT", path, format!("the plugin asks for no {what}, so its calls get none"))
        };
        let mut warnings: Vec<Warning> = limits_without_effect(&self.limits, &Limits::CEILING).collect();
        if self.filesystem > asked.filesystem {
            warnings.push(unasked("/filesystem", "files"));
        }
        if !self.network.is_empty() && asked.network.is_empty() {
            warnings.push(unasked("/network", "network"));
        }
        let credentials = self.credentials.iter().enumerate();
        warnings.extend(
            credentials
                .filter(|(_, provider)| !asked.credentials.contains(provider))
                .map(|(index, _)| unasked(&format!("/credentials/{index}"), "credential of this provider")),
        );
        warnings.extend(asked.credentials.iter().filter(|provider| !self.credentials.contains(*provider)).map(|provider| {
            let message = format!("the plugin asks for the credential of `{provider}`, which is not granted: its requests go without");
            Warning::new("WITHHELD", "/credentials", message)
        }));
        warnings
    }

    /// That a request is made with TLS, or goes to where it need not.
    pub(super) fn allows_plainness_of(&self, target: &Target) -> bool {
        let is_named = |plain: &PlainHttp| plain.host == *target.host() && plain.port == target.port();
        target.scheme() == NetworkScheme::Https || self.plain_http.iter().any(is_named)
    }

    /// A rule for plain HTTP allows nothing where no host that it is about is named for that.
    fn check_plainness(&self) -> Result<(), DocumentError> {
        let is_idle = |rule: &NetworkRule| {
            let serves = |plain: &PlainHttp| plain.port == rule.port() && rule.host.matches(&plain.host);
            rule.scheme == NetworkScheme::Http && !self.plain_http.iter().any(serves)
        };
        match self.network.iter().enumerate().find(|(_, rule)| is_idle(rule)) {
            None => Ok(()),
            Some((index, rule)) => Err(DocumentError::new(
                format!("/network/{index}"),
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

/// Reads a list of rules: the `network` of a grant, a policy or an agent's document.
pub fn read_network(part: &Part<'_>) -> Result<Vec<NetworkRule>, DocumentError> {
    part.items(ENTRIES)?.iter().map(read_rule).collect()
}

fn read_rule(part: &Part<'_>) -> Result<NetworkRule, DocumentError> {
    part.check_fields(&RULE_FIELDS)?;
    let Some(host) = part.member("host") else {
        return Err(part.error("the rule names no host", "add `host`, like `\"host\":\"api.example.com\"`"));
    };
    Ok(NetworkRule {
        scheme: part
            .member("scheme")
            .map_or(Ok(NetworkScheme::Https), |part| part.one_of(&NetworkScheme::WORDS))?,
        host: HostPattern::parse(host.text()?).map_err(|error| host.error(error.message, error.hint))?,
        port: part.member("port").map(|part| read_port(&part)).transpose()?,
        methods: part.member("methods").map(|part| read_methods(&part)).transpose()?,
        path: part.member("path").map(|part| read_path(&part)).transpose()?,
    })
}

fn read_port(part: &Part<'_>) -> Result<u16, DocumentError> {
    part.number()
        .and_then(|number| u16::try_from(number).ok())
        .filter(|port| *port > 0)
        .ok_or_else(|| part.error("this is no port", "write a number from 1 to 65535"))
}

fn read_methods(part: &Part<'_>) -> Result<Vec<String>, DocumentError> {
    let method = |item: &Part<'_>| {
        let method = validate_method(item.text()?).map_err(|error| item.error(error.message, error.hint))?;
        Ok(method.to_owned())
    };
    part.items(ENTRIES)?.iter().map(method).collect()
}

fn read_path(part: &Part<'_>) -> Result<String, DocumentError> {
    let path = part.text()?;
    match validate_rule_path(path) {
        Ok(()) => Ok(path.to_owned()),
        Err(why) => Err(part.error(why, "write what the path begins with, like `/points/`")),
    }
}

fn read_private_network(part: &Part<'_>) -> Result<Network, DocumentError> {
    let network = Network::parse(part.text()?)
        .map_err(|error| part.error(error.to_string(), "write the first address and the bits that count"))?;
    match can_be_granted(&network) {
        true => Ok(network),
        false => Err(part.error(
            format!("`{network}` is not a part of one private network"),
            "public addresses need no grant; name a private network, or one address of a cloud with `/32`",
        )),
    }
}

fn read_plain_http(part: &Part<'_>) -> Result<PlainHttp, DocumentError> {
    let hint = "write a host and its port, like `printer.local:631`";
    match parse_authority(part.text()?) {
        Ok((host, Some(port))) => Ok(PlainHttp { host, port }),
        Ok((_, None)) => Err(part.error("the port is missing", hint)),
        Err(error) => Err(part.error(error.message, error.hint)),
    }
}

/// Checks only the PEM format; code with a TLS library validates the certificate itself.
fn read_certificate(part: &Part<'_>) -> Result<String, DocumentError> {
    let text = part.text()?;
    let is_certificate = text.len() <= CERTIFICATE_BYTES
        && text.is_ascii()
        && text.trim().starts_with("-----BEGIN CERTIFICATE-----")
        && text.trim().ends_with("-----END CERTIFICATE-----");
    match is_certificate {
        true => Ok(text.to_owned()),
        false => Err(part.error("this is no certificate", "write one certificate as PEM")),
    }
}

fn read_provider(part: &Part<'_>) -> Result<String, DocumentError> {
    let name = part.text()?;
    let is_name = !name.is_empty()
        && name.chars().count() <= PROVIDER_CHARS
        && name.bytes().all(|byte| byte.is_ascii_graphic());
    match is_name {
        true => Ok(name.to_owned()),
        false => Err(part.error(
            format!("`{}` is no name of a provider", escape_for_display(name, 40)),
            "write one word, like `stripe`",
        )),
    }
}
