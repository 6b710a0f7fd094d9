//! Header fields that an owner adds to each request: none that carries authority, says how content travels, or belongs to
//! the protocol.

use toolgate_api::header::{ForbiddenHeader, forbidden_header};
use toolgate_sdk::Error;

use crate::place::Place;
use crate::text::shown;

/// Fields of one document: they are repeated at each tool.
const FIELDS: usize = 16;
/// All of them together, for the same reason.
const BYTES: usize = 2_000;

/// Fields that the protocol (MCP, Streamable HTTP) sets, beside those that no definition sets.
const PROTOCOL_FIELDS: [&str; 3] = ["accept", "accept-charset", "last-event-id"];
const PROTOCOL_PREFIXES: [&str; 2] = ["sec-", "mcp-"];

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
    let is_protocols = PROTOCOL_FIELDS.contains(&lower.as_str())
        || PROTOCOL_PREFIXES.iter().any(|prefix| lower.starts_with(prefix));
    let why = match forbidden_header(&lower) {
        Some(why) => why.to_string(),
        None if is_protocols => "is set by the protocol".to_owned(),
        None if lower.contains("token") => ForbiddenHeader::Credential.to_string(),
        None => return Ok(lower),
    };
    let message = format!("the header field `{}` {why}", shown(&lower, 40));
    Err(place.refuse(
        message,
        "leave it out, or write a name like `x-tenant`; secrets are bound by `authentication`",
    ))
}

fn check_value(place: &Place<'_>) -> Result<String, Error> {
    let value = place.text(BYTES)?;
    let is_plain = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) && value.trim() == value;
    match is_plain {
        true => Ok(value.to_owned()),
        false => Err(place.refuse("the value is not visible ASCII", "write ASCII characters on one line")),
    }
}
