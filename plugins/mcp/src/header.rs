//! Header fields that an owner adds to each request: none that carries authority, says how content travels, or belongs to
//! the protocol.

use toolgate_sdk::Error;

use crate::place::Place;
use crate::text::shown;

/// Fields of one document: they are repeated at each tool.
const FIELDS: usize = 16;
/// All of them together, for the same reason.
const BYTES: usize = 2_000;

/// Authority: it is bound to a credential, where nobody reads it. Framing: it is the host's. The rest is the protocol's.
const OTHERS_TO_SET: [&str; 33] = [
    "authorization",
    "cookie",
    "cookie2",
    "set-cookie",
    "www-authenticate",
    "authentication-info",
    "apikey",
    "x-csrf",
    "x-xsrf",
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "http2-settings",
    "via",
    "forwarded",
    "x-real-ip",
    "true-client-ip",
    "x-client-ip",
    "cf-connecting-ip",
    "x-cluster-client-ip",
    "accept",
    "accept-encoding",
    "accept-charset",
    "last-event-id",
    "max-forwards",
];
const OTHERS_TO_BEGIN: [&str; 9] = [
    "proxy-",
    "x-auth",
    "x-forwarded-",
    "x-original-",
    "x-rewrite-",
    "x-http-method",
    "x-method-override",
    "sec-",
    "mcp-",
];
const OTHERS_TO_HOLD: [&str; 6] = ["token", "api-key", "apikey", "api_key", "secret", "password"];

/// The fields of a document in their order, names in lower case.
pub fn read(place: &Place<'_>) -> Result<Vec<(String, String)>, Error> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in place.entries(FIELDS)? {
        let lower = check_name(name, &value)?;
        if headers.iter().any(|(known, _)| *known == lower) {
            return Err(value.refuse(format!("the header field `{lower}` stands twice"), "write it once"));
        }
        headers.push((lower, check_value(&value)?));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    match bytes <= BYTES {
        true => Ok(headers),
        false => {
            Err(place.refuse(format!("the header fields have more than {BYTES} bytes"), "send less in them"))
        }
    }
}

fn check_name(name: &str, place: &Place<'_>) -> Result<String, Error> {
    let lower = name.to_ascii_lowercase();
    if !is_token(&lower) {
        let message = format!("`{}` is no header field", shown(name, 40));
        return Err(place.refuse(message, "write a name like `x-tenant`"));
    }
    let is_authority = OTHERS_TO_HOLD.iter().any(|part| lower.contains(part));
    let is_others = OTHERS_TO_SET.contains(&lower.as_str())
        || OTHERS_TO_BEGIN.iter().any(|start| lower.starts_with(start));
    if is_authority || is_others {
        let message = format!("the header field `{lower}` is not a definition's to set");
        return Err(place.refuse(message, "leave it out; secrets are bound by `authentication`"));
    }
    Ok(lower)
}

fn check_value(place: &Place<'_>) -> Result<String, Error> {
    let value = place.text(BYTES)?;
    let is_plain = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) && value.trim() == value;
    match is_plain {
        true => Ok(value.to_owned()),
        false => Err(place.refuse("the value is not visible ASCII", "write ASCII characters on one line")),
    }
}

/// What names of header fields are made of (RFC 9110, 5.6.2).
pub fn is_token(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_sign)
}
