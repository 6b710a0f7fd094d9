//! Where an API is: scheme, host, port and the path that all of its actions have in common.
//!
//! The grammar is that of the rules which the daemon makes of it, so that what passes here can be granted.

use std::net::{Ipv4Addr, Ipv6Addr};

use toolgate_sdk::Error;

use super::part::Part;
use crate::path::refused;

/// Longest path of a rule about requests.
const PATH_BYTES: usize = 1_000;
/// Longest host name, and longest part of it (RFC 1035).
const NAME_BYTES: usize = 253;
const LABEL_BYTES: usize = 63;

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
pub fn read(part: &Part<'_>) -> Result<Base, Error> {
    let url = part.string()?;
    let (is_tls, rest) = match url.split_once("://") {
        Some(("https", rest)) => (true, rest),
        Some(("http", rest)) => (false, rest),
        _ => return Err(part.error("the address does not begin with `https://` or `http://`", HINT)),
    };
    if rest.contains(['?', '#']) {
        return Err(
            part.error("the address has a query or a fragment", "leave out what begins with `?` or `#`")
        );
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = read_authority(part, authority, if is_tls { 443 } else { 80 })?;
    let path = path.trim_end_matches('/');
    if path.len() > PATH_BYTES {
        return Err(part.error(format!("its path has more than {PATH_BYTES} bytes"), "shorten it"));
    }
    match refused(path) {
        None => Ok(Base { is_tls, host, port, path: path.to_owned() }),
        Some(why) => Err(part.error(format!("the path of the address cannot be sent: {why}"), HINT)),
    }
}

fn read_authority(part: &Part<'_>, authority: &str, usual_port: u16) -> Result<(String, Option<u16>), Error> {
    if authority.contains('@') {
        return Err(part.error(
            "there is a name or a password in front of the host",
            "leave it out: store it as a credential, and name its provider in `authentication`",
        ));
    }
    let end_of_host = match authority.starts_with('[') {
        true => authority.find(']').map_or(authority.len(), |end| end + 1),
        false => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end_of_host);
    if let Some(why) = refused_host(host) {
        return Err(part.error(format!("there is no host in the address: {why}"), HINT));
    }
    if port.is_empty() {
        return Ok((host.to_ascii_lowercase(), None));
    }
    let digits = port.strip_prefix(':').unwrap_or_default();
    let number = digits.parse::<u16>().ok().filter(|port| *port > 0 && port.to_string() == digits);
    let number =
        number.ok_or_else(|| part.error("this is no port", "write a number from 1 to 65535, or none"))?;
    Ok((host.to_ascii_lowercase(), Some(number).filter(|port| *port != usual_port)))
}

/// Addresses have many spellings, of which some readers take one as a name: one of them is accepted.
fn refused_host(host: &str) -> Option<&'static str> {
    if let Some(inside) = host.strip_prefix('[') {
        let address = inside.strip_suffix(']').and_then(|inside| inside.parse::<Ipv6Addr>().ok());
        return match address.is_some_and(|address| format!("[{address}]") == host) {
            true => None,
            false => Some("an IPv6 address is written in its canonical form, in lower case"),
        };
    }
    if host.parse::<Ipv4Addr>().is_ok() {
        return None;
    }
    if host.is_empty() || host.len() > NAME_BYTES || !host.split('.').all(is_label) {
        return Some("a name is made of letters, digits, hyphens and dots; other scripts are written `xn--`");
    }
    match host.rsplit('.').next().is_some_and(is_like_a_number) {
        true => Some("it could be read as an address"),
        false => None,
    }
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_BYTES).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_like_a_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
