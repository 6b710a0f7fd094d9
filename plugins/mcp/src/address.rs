//! The server's URL: one spelling, so that the rule that asks for it and the request that goes there are the same.

use std::net::{Ipv4Addr, Ipv6Addr};

use toolgate_sdk::Error;

use crate::place::Place;
use crate::text::shown;

/// Longest URL: it is repeated at each tool.
const URL_BYTES: usize = 1_000;
/// Longest host name (RFC 1035).
const HOST_BYTES: usize = 253;
/// Longest part of one.
const LABEL_BYTES: usize = 63;

const HINT: &str = "write it whole, as `https://mcp.example.com/mcp`";

/// Where the server is.
#[derive(Debug)]
pub struct Address {
    /// As it is requested.
    pub url: String,
    /// `https` or `http`.
    pub scheme: &'static str,
    pub host: String,
    /// Where it is not the scheme's own.
    pub port: Option<u16>,
    /// Begins with a slash.
    pub path: String,
}

pub fn read(place: &Place<'_>) -> Result<Address, Error> {
    let text = place.str()?;
    if text.len() > URL_BYTES {
        return Err(place.refuse(format!("the URL has more than {URL_BYTES} bytes"), "shorten it"));
    }
    parse(text).map_err(|why| place.refuse(format!("`{}` {why}", shown(text, 100)), HINT))
}

fn parse(text: &str) -> Result<Address, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or("is no URL")?;
    let (scheme, own_port) = match scheme {
        "https" => ("https", 443),
        "http" => ("http", 80),
        _ => return Err("does not begin with `https://`"),
    };
    if rest.contains(['?', '#']) {
        return Err("has a query or a fragment, which a server's address has not");
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err("has a name or password in it: credentials are bound by `authentication`");
    }
    let (host, port) = split_port(authority)?;
    let host = host.to_ascii_lowercase();
    check_host(&host)?;
    let port = port.filter(|port| *port != own_port);
    let path = if path.is_empty() { "/" } else { path };
    check_path(path)?;
    let written = port.map(|port| format!(":{port}")).unwrap_or_default();
    Ok(Address {
        url: format!("{scheme}://{host}{written}{path}"),
        scheme,
        host,
        port,
        path: path.to_owned(),
    })
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    let Some((host, port)) = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) else {
        return Ok((authority, None));
    };
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let number = port.parse().ok().filter(|number| is_number && *number > 0);
    number.map(|number| (host, Some(number))).ok_or("has a port that is no number from 1 to 65535")
}

fn check_host(host: &str) -> Result<(), &'static str> {
    if let Some(inside) = host.strip_prefix('[') {
        let address = inside.strip_suffix(']').and_then(|inside| inside.parse::<Ipv6Addr>().ok());
        let is_canonical = address.is_some_and(|address| format!("[{address}]") == host);
        return if is_canonical {
            Ok(())
        } else {
            Err("has an IPv6 address that is not written as RFC 5952 says")
        };
    }
    if host.parse::<Ipv4Addr>().is_ok() {
        return Ok(());
    }
    if host.is_empty() || host.len() > HOST_BYTES || !host.split('.').all(is_label) {
        return Err(
            "has no host name of ASCII letters, digits and hyphens: other scripts are written as `xn--`",
        );
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    let digits = last.strip_prefix("0x").map(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    match digits.unwrap_or_else(|| last.bytes().all(|byte| byte.is_ascii_digit())) {
        true => Err("has a host that can be read as an address: write four decimal numbers"),
        false => Ok(()),
    }
}

fn is_label(label: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=LABEL_BYTES).contains(&label.len())
        && label.bytes().all(is_inside)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Nothing that a server and a rule could read in two ways.
fn check_path(path: &str) -> Result<(), &'static str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte);
    if !path.bytes().all(is_allowed) {
        return Err("has a path with other characters than letters, digits and `-._~!$&'()*+,;=:@`");
    }
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let plain = segment.split(';').next().unwrap_or(segment);
        let ends_path = segment.is_empty() && segments.peek().is_none();
        if matches!(plain, "." | "..") || (plain.is_empty() && !ends_path) {
            return Err("has an empty, `.` or `..` part in its path");
        }
    }
    Ok(())
}
