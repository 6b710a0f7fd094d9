//! `decode`: back from base64, hex, or a part of a URL.

use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::{Error, tool};

use crate::data::{Form, check_size, read_base64, read_hex};

/// Decodes base64, hex, or a part of a URL.
///
/// - `base64`: either alphabet, with padding or without, over several lines too. A JWT is three parts between points: decode each of the first two.
/// - `hex`: with or without `0x`, spaces, colons or dashes between bytes.
/// - `percent`: a component of a URL; `form`: likewise, where `+` is a space, as in queries and the bodies of HTML forms.
///
/// What is no text is refused: call again with `to` as `hex` or `base64`.
#[tool(
    read_only,
    tags("base64", "hex", "url", "percent", "jwt", "unescape"),
    examples(
        {"encoded": "R3LDvMOfZT8", "from": "base64"} => {"data": "Grüße?", "bytes": 8},
        "no text": {"encoded": "/wAQ", "from": "base64", "to": "hex"} => {"data": "ff0010", "bytes": 3},
        "a value of a query": {"encoded": "a+b%26c", "from": "form"} => {"data": "a b&c", "bytes": 5},
    )
)]
pub fn decode(
    /// Text to decode, at most 128 KiB
    encoded: String,
    /// How it is encoded
    from: Encoded,
    /// How to write the bytes that it stands for
    #[default]
    to: Form,
) -> Result<Decoded, Error> {
    check_size(encoded.len(), "encoded")?;
    let bytes = match from {
        Encoded::Base64 => read_base64(&encoded, "encoded")?,
        Encoded::Hex => read_hex(&encoded, "encoded")?,
        Encoded::Percent => read_percent(&encoded)?,
        Encoded::Form => read_percent(&encoded.replace('+', " "))?,
    };
    Ok(Decoded { bytes: bytes.len(), data: to.write(bytes)? })
}

/// An encoding to decode.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoded {
    Base64,
    Hex,
    Percent,
    Form,
}

/// The decoded bytes.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Decoded {
    /// The bytes, in the form asked for
    pub data: String,
    /// How many bytes it is
    pub bytes: usize,
}

/// A percent sign that begins nothing shows that the text was not encoded, or only in part.
fn read_percent(text: &str) -> Result<Vec<u8>, Error> {
    let bytes = text.as_bytes();
    let is_digit = |place: usize| bytes.get(place).is_some_and(u8::is_ascii_hexdigit);
    let is_stray = |place: &usize| !(is_digit(place + 1) && is_digit(place + 2));
    let mut signs = text.match_indices('%').map(|(place, _)| place);
    if let Some(place) = signs.find(is_stray) {
        return Err(Error::invalid(format!(
            "`%` at character {} is not followed by two hexadecimal digits: write a percent sign itself as `%25`",
            text[..place].chars().count() + 1
        )));
    }
    Ok(percent_decode_str(text).collect())
}
