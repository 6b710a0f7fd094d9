//! The server's URL: one spelling, so that the rule that asks for it and the request that goes there are the same.

use toolgate_api::network::{parse_authority, validate_path};
use toolgate_api::read::ReadError;

use crate::text::display;

/// Longest URL: it is repeated at each tool.
const URL_BYTES: usize = 1_000;

const HINT: &str = "write it whole, as `https://mcp.example.com/mcp`";

/// The address of the server.
#[derive(Debug)]
pub struct Address {
    /// As it is requested.
    pub url: String,
    /// `https` or `http`.
    pub scheme: &'static str,
    pub host: String,
    /// The port, if it is not the scheme's own.
    pub port: Option<u16>,
    /// Begins with a slash.
    pub path: String,
}

/// Reads the URL at `place` of the document.
pub fn read(place: &str, text: &str) -> Result<Address, ReadError> {
    if text.len() > URL_BYTES {
        let message = format!("the URL has more than {URL_BYTES} bytes");
        return Err(ReadError::new(place, message, "shorten it"));
    }
    parse(text)
        .map_err(|why| ReadError::new(place, format!("`{}` cannot be used: {why}", display(text, 100)), HINT))
}

fn parse(text: &str) -> Result<Address, String> {
    let (scheme, rest) = text.split_once("://").ok_or("it is no URL")?;
    let (scheme, own_port) = match scheme {
        "https" => ("https", 443),
        "http" => ("http", 80),
        _ => return Err("it does not begin with `https://`".to_owned()),
    };
    if rest.contains(['?', '#']) {
        return Err("it has a query or a fragment".to_owned());
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err("it has a name or password in it: credentials are bound by `authentication`".to_owned());
    }
    let (host, port) = parse_authority(authority).map_err(|error| error.message)?;
    let host = host.to_string();
    let port = port.filter(|port| *port != own_port);
    let path = if path.is_empty() { "/" } else { path };
    validate_path(path)?;
    if path.contains('%') {
        return Err("its path has percent-encoded characters".to_owned());
    }
    let written = port.map(|port| format!(":{port}")).unwrap_or_default();
    Ok(Address {
        url: format!("{scheme}://{host}{written}{path}"),
        scheme,
        host,
        port,
        path: path.to_owned(),
    })
}
