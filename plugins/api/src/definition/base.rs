//! Base URL of an API: scheme, host, port and the path that all of its actions share.
//!
//! The grammar is that of network rules, so a base URL that passes here can be granted.

use toolgate_api::network::{parse_authority, validate_rule_path};
use toolgate_api::read::ReadError;

const HINT: &str = "write it like `https://api.example.com/v1`";

/// The place that all requests of an API lie below.
pub struct Base {
    pub is_tls: bool,
    /// In lower case; an IPv6 address in brackets.
    pub host: String,
    /// None where it is that of the scheme.
    pub port: Option<u16>,
    /// Without a slash at its end; empty where there is none.
    pub path: String,
}

impl Base {
    pub fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// As `https://api.example.com:8443`.
    pub fn origin(&self) -> String {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{}{port}", self.scheme(), self.host)
    }
}

/// Reads a base URL.
pub fn read(url: Option<&str>) -> Result<Base, ReadError> {
    let url = url.ok_or_else(|| ReadError::new("", "the field `base_url` is missing", HINT))?;
    let refusal = |message: String, hint: &str| ReadError::new("/base_url", message, hint);
    let (is_tls, rest) = match url.split_once("://") {
        Some(("https", rest)) => (true, rest),
        Some(("http", rest)) => (false, rest),
        _ => return Err(refusal("the address does not begin with `https://` or `http://`".into(), HINT)),
    };
    if rest.contains(['?', '#']) {
        let hint = "leave out what begins with `?` or `#`";
        return Err(refusal("the address has a query or a fragment".into(), hint));
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.contains('@') {
        let hint = "leave it out: store it as a credential, and name its provider in `authentication`";
        return Err(refusal("there is a name or a password in front of the host".into(), hint));
    }
    let (host, port) = parse_authority(authority).map_err(|error| refusal(error.message, error.hint))?;
    let usual_port = if is_tls { 443 } else { 80 };
    let path = path.trim_end_matches('/');
    match path.is_empty().then_some(()).map_or_else(|| validate_rule_path(path), Ok) {
        Ok(()) => Ok(Base {
            is_tls,
            host: host.to_string(),
            port: port.filter(|port| *port != usual_port),
            path: path.to_owned(),
        }),
        Err(why) => Err(refusal(format!("the path of the address cannot be sent: {why}"), HINT)),
    }
}
