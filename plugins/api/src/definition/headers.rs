//! Which header fields a definition may set: none that lends authority, and none that says how a message travels.
//!
//! A secret belongs into the store of credentials, where it is sealed, bound to an address and never shown. What a name
//! gives away is refused: the value of a field of that name would be a secret, whatever it is.

use toolgate_sdk::Error;

use super::part::{Part, shown};

/// Most fields. A server takes some dozen.
const FIELDS: usize = 50;
/// Longest name and value.
const NAME_BYTES: usize = 100;
const VALUE_BYTES: usize = 1_000;

/// Fields that the host sets, or that are about one connection.
const FRAMING: [&str; 18] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "via",
];

/// Fields by which a proxy says for whom it asks, or which path, host or method it means.
const FORWARDING: [&str; 16] = [
    "cf-connecting-ip",
    "client-ip",
    "fastly-client-ip",
    "forwarded",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-forwarded",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// Names of fields that lend authority.
const AUTHORITY: [&str; 8] =
    ["cookie", "cookie2", "set-cookie", "token", "apikey", "authentication", "auth", "x-csrf"];

/// Parts of the names of others that do.
const AUTHORITY_PARTS: [&str; 12] = [
    "authorization",
    "api-key",
    "apikey",
    "access-key",
    "auth-key",
    "subscription-key",
    "secret",
    "password",
    "passwd",
    "credential",
    "session-id",
    "signature",
];

/// Reads the fields that every request has.
pub fn read(part: Option<Part<'_>>) -> Result<Vec<(String, String)>, Error> {
    let Some(part) = part else { return Ok(Vec::new()) };
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in part.members(FIELDS)? {
        check_name(&value, name)?;
        if name.eq_ignore_ascii_case("content-type") {
            return Err(
                value.error("the type of the content is not set here", "use `content_type` of an action")
            );
        }
        if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return Err(
                value.error(format!("the field `{name}` is there twice"), "write it once, in any case")
            );
        }
        headers.push((name.to_owned(), read_value(&value)?));
    }
    Ok(headers)
}

fn read_value(part: &Part<'_>) -> Result<String, Error> {
    let value = part.string()?;
    let is_printable = value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    match is_printable && !value.trim().is_empty() && value.len() <= VALUE_BYTES {
        true => Ok(value.trim().to_owned()),
        false => Err(part.error(
            format!(
                "this is no value of a header field: it has 1 to {VALUE_BYTES} printable ASCII characters"
            ),
            "write it on one line, without signs of other scripts",
        )),
    }
}

/// That a definition may set the field. `place` is where its name was written.
pub fn check_name(place: &Part<'_>, name: &str) -> Result<(), Error> {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES || !name.bytes().all(is_sign) {
        let message = format!("`{}` is no name of a header field", shown(name));
        return Err(place.error(message, "write letters, digits and hyphens, like `X-Trace`"));
    }
    if lends_authority(name) {
        return Err(place.error(
            format!("the field `{name}` lends authority, and does not stand in a definition"),
            "take it out, name a `provider` in `authentication`, and store the credential: the host puts it in",
        ));
    }
    let plain = plain(name);
    if FRAMING.contains(&plain.as_str()) || plain.starts_with("proxy-") {
        let message = format!("the field `{name}` says how a message travels, which the host does");
        return Err(place.error(message, "leave it out"));
    }
    if FORWARDING.contains(&plain.as_str()) || plain.starts_with("x-forwarded-") {
        let message = format!("the field `{name}` would make the server take the request for another one");
        return Err(place.error(message, "leave it out"));
    }
    Ok(())
}

/// Whether what is called so is a secret.
pub fn lends_authority(name: &str) -> bool {
    let plain = plain(name);
    AUTHORITY.contains(&plain.as_str())
        || AUTHORITY_PARTS.iter().any(|part| plain.contains(part))
        || plain.ends_with("-token")
        || plain.starts_with("x-auth")
        || plain.ends_with("-auth")
}

/// Some servers read an underscore as a hyphen.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}
