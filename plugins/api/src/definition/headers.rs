//! Header fields that a definition sets: none with authority, and none about framing.
//!
//! Secrets belong into the credential store, where they are sealed, bound to an address and never shown. A field whose
//! name suggests a secret is refused, with any value.

use std::collections::BTreeMap;

use toolgate_api::header::{ForbiddenHeader, forbidden_header};
use toolgate_api::read::{ReadError, pointer};
use toolgate_api::text::escape_for_display;

/// Most fields. A server takes some dozen.
const FIELDS: usize = 50;
/// Longest value.
const VALUE_BYTES: usize = 1_000;

/// Checks the fields of every request.
pub fn read(written: &BTreeMap<String, String>) -> Result<Vec<(String, String)>, ReadError> {
    if written.len() > FIELDS {
        return Err(ReadError::new(
            "/headers",
            format!("there are more than {FIELDS} fields"),
            "leave some out",
        ));
    }
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in written {
        let place = pointer("/headers", name);
        check_name(&place, name)?;
        if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            let message = format!("the field `{name}` is there twice");
            return Err(ReadError::new(place, message, "write it once, in any case"));
        }
        let is_printable = value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if !is_printable || value.trim().is_empty() || value.len() > VALUE_BYTES {
            let message =
                format!("a value of a header field has 1 to {VALUE_BYTES} printable ASCII characters");
            return Err(ReadError::new(
                place,
                message,
                "write it on one line, without signs of other scripts",
            ));
        }
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(headers)
}

/// Checks that a definition may set the field. `place` is where its name was written.
pub fn check_name(place: &str, name: &str) -> Result<(), ReadError> {
    if name.eq_ignore_ascii_case("content-type") {
        let hint = "use `content_type` of the action";
        return Err(ReadError::new(place, "the media type is not set here", hint));
    }
    let Some(why) = forbidden_header(name) else { return Ok(()) };
    let hint = match why {
        ForbiddenHeader::NotAName => "write letters, digits and hyphens, like `X-Trace`",
        ForbiddenHeader::Credential => {
            "remove it, name a `provider` in `authentication`, and store the credential: the host adds it"
        }
        ForbiddenHeader::TraceContext => "set `trace_context` of the definition",
        ForbiddenHeader::Framing | ForbiddenHeader::Forwarding => "leave it out",
    };
    Err(ReadError::new(place, format!("the field `{}` {why}", escape_for_display(name, 80)), hint))
}
