//! Destination of a request, parsed once from the guest's input.
//!
//! `wasi:http` passes the parts separately, so there is no URL parser here; user-info, a second port or a fragment inside
//! a part is refused. Equal targets are sent to the same destination.

use std::fmt;

use crate::text::escape_for_display;

use super::host::Host;
use super::path::validate_path;
use super::rule::NetworkScheme;

/// Longest path and query, in bytes. Servers commonly stop at 8 KiB for the whole first line.
const PATH_AND_QUERY_BYTES: usize = 8 * 1024 - 64;
/// Longest method, in bytes. The longest that is registered has 17.
const METHOD_BYTES: usize = 20;
/// Methods that turn the connection into a tunnel, or echo the request with its secrets.
const REFUSED_METHODS: [&str; 3] = ["CONNECT", "TRACE", "TRACK"];

/// One destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    scheme: NetworkScheme,
    host: Host,
    port: u16,
    method: Box<str>,
    path: Box<str>,
    query: Option<Box<str>>,
}

/// The parts of a request are not a valid destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TargetError {
    /// The error, in one line.
    pub message: String,
    /// The fix.
    pub hint: &'static str,
}

impl TargetError {
    fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), hint }
    }
}

impl Target {
    /// Parses the parts of a request. An absent path is `/`.
    pub fn parse(
        scheme: &str,
        authority: &str,
        path_and_query: &str,
        method: &str,
    ) -> Result<Self, TargetError> {
        let scheme = read_scheme(scheme)?;
        let (host, port) = parse_authority(authority)?;
        let (path, query) = read_path_and_query(path_and_query)?;
        Ok(Self {
            scheme,
            host,
            port: port.unwrap_or(scheme.default_port()),
            method: validate_method(method)?.into(),
            path: path.into(),
            query: query.map(Into::into),
        })
    }

    /// The scheme.
    pub fn scheme(&self) -> NetworkScheme {
        self.scheme
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The path as sent.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The query as sent, without `?`.
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// Value of the `Host` header: the port is left out if it is the scheme's default.
    pub fn authority(&self) -> String {
        match self.port == self.scheme.default_port() {
            true => self.host.to_string(),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Leaves out the query, which may hold personal data.
impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port, method, path, .. } = self;
        write!(formatter, "{method} {}://{host}:{port}{path}", scheme.as_str())
    }
}

fn read_scheme(text: &str) -> Result<NetworkScheme, TargetError> {
    let known = [NetworkScheme::Https, NetworkScheme::Http];
    known.into_iter().find(|scheme| scheme.as_str().eq_ignore_ascii_case(text)).ok_or_else(|| {
        TargetError::new(
            format!("requests of scheme `{}` are not made", escape_for_display(text, 20)),
            "use `https`",
        )
    })
}

/// Parses a host with an optional port, also for `plain_http` of a grant.
pub fn parse_authority(text: &str) -> Result<(Host, Option<u16>), TargetError> {
    if text.contains('@') {
        return Err(TargetError::new(
            "the address has user-info in front of its host",
            "leave it out; credentials are put in by the host of the plugin",
        ));
    }
    let end_of_host = match text.strip_prefix('[') {
        Some(_) => text.find(']').map_or(text.len(), |end| end + 1),
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(end_of_host);
    let host = Host::parse(host).map_err(|error| TargetError::new(error.message, error.hint))?;
    match port {
        "" => Ok((host, None)),
        port => Ok((host, Some(read_port(port)?))),
    }
}

fn read_port(text: &str) -> Result<u16, TargetError> {
    let digits = text.strip_prefix(':').unwrap_or_default();
    let port = digits.parse::<u16>().ok().filter(|port| *port > 0 && port.to_string() == digits);
    port.ok_or_else(|| {
        TargetError::new(
            format!("`{}` is no port", escape_for_display(text, 20)),
            "write a colon and a number from 1 to 65535, or neither",
        )
    })
}

fn read_path_and_query(text: &str) -> Result<(&str, Option<&str>), TargetError> {
    if text.len() > PATH_AND_QUERY_BYTES {
        let message = format!("path and query are longer than {PATH_AND_QUERY_BYTES} bytes");
        return Err(TargetError::new(message, "send long values in the body"));
    }
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    let path = if path.is_empty() { "/" } else { path };
    if let Err(why) = validate_path(path) {
        return Err(TargetError::new(why, "write the path in its plain form, without dot segments"));
    }
    match query.is_some_and(|query| query.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'#')) {
        true => Err(TargetError::new(
            "the query has a character that must be written with `%`",
            "encode the values of the query",
        )),
        false => Ok((path, query)),
    }
}

/// Validates a method. Lower case is refused: a server that folds case would run a method that no rule allowed.
pub fn validate_method(text: &str) -> Result<&str, TargetError> {
    let is_inside = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    if text.is_empty() || text.len() > METHOD_BYTES || !text.bytes().all(is_inside) {
        return Err(TargetError::new(
            format!("`{}` is no method", escape_for_display(text, 20)),
            "write a method in capitals, like `GET`",
        ));
    }
    match REFUSED_METHODS.contains(&text) {
        true => Err(TargetError::new(format!("`{text}` is not sent"), "use another method")),
        false => Ok(text),
    }
}
