//! What a request is about, parsed once from what the guest wrote.
//!
//! The parts come apart as `wasi:http` hands them over, so no URL is taken to pieces here; what a part could hide from
//! such a parser (user-info, a second port, a fragment) is refused in it. Equal targets are sent to the same place.

use std::fmt;

use toolgate_api::text::escape_for_display;

use super::host::Host;
use super::path;
use super::rule::NetworkScheme;

/// Longest path and query, in bytes. Servers commonly stop at 8 KiB for the whole first line.
const PATH_AND_QUERY_BYTES: usize = 8 * 1024 - 64;
/// Longest method, in bytes. The longest that is registered has 17.
const METHOD_BYTES: usize = 20;
/// Methods that make something else of the connection, or answer with what was sent, secrets included.
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

/// Why no request can be made of what the guest wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TargetError {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: &'static str,
}

impl TargetError {
    fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), hint }
    }
}

impl Target {
    /// Reads the parts of a request. An absent path is `/`.
    pub fn parse(
        scheme: &str,
        authority: &str,
        path_and_query: &str,
        method: &str,
    ) -> Result<Self, TargetError> {
        let scheme = read_scheme(scheme)?;
        let (host, port) = read_authority(authority)?;
        let (path, query) = read_path_and_query(path_and_query)?;
        Ok(Self {
            scheme,
            host,
            port: port.unwrap_or(scheme.default_port()),
            method: check_method(method)?.into(),
            path: path.into(),
            query: query.map(Into::into),
        })
    }

    /// With TLS or without.
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

    /// The path, as it is sent.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The query, as it is sent, without its `?`.
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// What stands in the `Host` header: the port only where it is not that of the scheme.
    pub fn authority(&self) -> String {
        match self.port == self.scheme.default_port() {
            true => self.host.to_string(),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Without the query, which is nobody's business but the upstream's.
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

/// A host and perhaps a port. Also what `plain_http` of a grant is made of.
pub(super) fn read_authority(text: &str) -> Result<(Host, Option<u16>), TargetError> {
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
    if let Some(why) = path::refused(path) {
        return Err(TargetError::new(why, "write the path as the server is to read it, without detours"));
    }
    match query.is_some_and(|query| query.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'#')) {
        true => Err(TargetError::new(
            "the query has a character that must be written with `%`",
            "encode the values of the query",
        )),
        false => Ok((path, query)),
    }
}

/// A method as it is sent. Lower case is refused: a server that folds it would do what no rule allowed.
pub(crate) fn check_method(text: &str) -> Result<&str, TargetError> {
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
