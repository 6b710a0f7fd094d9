//! Header fields that an owner adds to each request: none that carries authority, says how content travels, or belongs to
//! the protocol.

use std::collections::BTreeMap;

use toolgate_api::header::{ForbiddenHeader, forbidden_header};
use toolgate_api::read::{ReadError, pointer};

use crate::text::display;

/// Fields of one document: they are repeated at each tool.
const FIELDS: usize = 16;
/// All of them together, for the same reason.
const BYTES: usize = 2_000;

/// Fields that the protocol (MCP, Streamable HTTP) sets, beside those that no definition sets.
const PROTOCOL_FIELDS: [&str; 3] = ["accept", "accept-charset", "last-event-id"];
const PROTOCOL_PREFIXES: [&str; 2] = ["sec-", "mcp-"];

/// The fields of a document in their order, names in lower case.
pub fn read(written: &BTreeMap<String, String>) -> Result<Vec<(String, String)>, ReadError> {
    if written.len() > FIELDS {
        let message = format!("there are {} fields", written.len());
        return Err(ReadError::new("/headers", message, format!("write at most {FIELDS}")));
    }
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in written {
        let place = pointer("/headers", name);
        let lower = check_name(name, &place)?;
        if headers.iter().any(|(known, _)| *known == lower) {
            let message = format!("the header field `{lower}` stands twice");
            return Err(ReadError::new(place, message, "write it once"));
        }
        let is_plain = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if !is_plain || value.is_empty() || value.len() > BYTES || value.trim() != value {
            let hint = format!("write 1 to {BYTES} ASCII characters on one line, without space around them");
            return Err(ReadError::new(place, "the value is not visible ASCII", hint));
        }
        headers.push((lower, value.clone()));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    match bytes <= BYTES {
        true => Ok(headers),
        false => {
            let message = format!("the header fields have more than {BYTES} bytes");
            Err(ReadError::new("/headers", message, "send less in them"))
        }
    }
}

fn check_name(name: &str, place: &str) -> Result<String, ReadError> {
    let lower = name.to_ascii_lowercase();
    let is_protocols = PROTOCOL_FIELDS.contains(&lower.as_str())
        || PROTOCOL_PREFIXES.iter().any(|prefix| lower.starts_with(prefix));
    let why = match forbidden_header(&lower) {
        Some(why) => why.to_string(),
        None if is_protocols => "is set by the protocol".to_owned(),
        None if lower.contains("token") => ForbiddenHeader::Credential.to_string(),
        None => return Ok(lower),
    };
    Err(ReadError::new(
        place,
        format!("the header field `{}` {why}", display(&lower, 40)),
        "leave it out, or write a name like `x-tenant`; secrets are bound by `authentication`",
    ))
}
