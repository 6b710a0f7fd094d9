//! Header fields that a definition sets: none with authority, and none about framing.
//!
//! Secrets belong into the credential store, where they are sealed, bound to an address and never shown. A field whose
//! name suggests a secret is refused, whatever its value.

use toolgate_api::header::{ForbiddenHeader, forbidden_header};
use toolgate_sdk::Error;

use super::part::{Part, shown};

/// Most fields. A server takes some dozen.
const FIELDS: usize = 50;
/// Longest value.
const VALUE_BYTES: usize = 1_000;

/// Reads the fields that every request has.
pub fn read(part: Option<Part<'_>>) -> Result<Vec<(String, String)>, Error> {
    let Some(part) = part else { return Ok(Vec::new()) };
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in part.members(FIELDS)? {
        check_name(&value, name)?;
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

/// Checks that a definition may set the field. `place` is where its name was written.
pub fn check_name(place: &Part<'_>, name: &str) -> Result<(), Error> {
    if name.eq_ignore_ascii_case("content-type") {
        return Err(place.error("the media type is not set here", "use `content_type` of the action"));
    }
    let Some(why) = forbidden_header(name) else { return Ok(()) };
    let hint = match why {
        ForbiddenHeader::NotAName => "write letters, digits and hyphens, like `X-Trace`",
        ForbiddenHeader::Credential => {
            "remove it, name a `provider` in `authentication`, and store the credential: the host adds it"
        }
        ForbiddenHeader::Framing | ForbiddenHeader::Forwarding => "leave it out",
    };
    Err(place.error(format!("the field `{}` {why}", shown(name)), hint))
}
