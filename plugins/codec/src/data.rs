//! Bytes as text, and text as bytes.

use formats::base64::{self, DecodeError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::Error;

/// A result stays well under what a call may give, also where every byte of it is escaped.
pub const MAX_BYTES: usize = 128 * 1024;

/// How bytes are written in a text.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// The text itself, in UTF-8
    #[default]
    Text,
    /// Two hexadecimal digits for each byte
    Hex,
    /// Base64, in either alphabet
    Base64,
}

impl Form {
    /// Reads bytes. `name` is what the text is called to the model.
    pub fn read(self, text: &str, name: &str) -> Result<Vec<u8>, Error> {
        match self {
            Self::Text => Ok(text.as_bytes().to_vec()),
            Self::Hex => read_hex(text, name),
            Self::Base64 => read_base64(text, name),
        }
    }

    /// Writes bytes, if this form can.
    pub fn write(self, bytes: Vec<u8>) -> Result<String, Error> {
        match self {
            Self::Text => String::from_utf8(bytes).map_err(|error| {
                let place = error.utf8_error().valid_up_to();
                let bytes = error.as_bytes();
                let byte = bytes.get(place).copied().unwrap_or_default();
                Error::new(format!(
                    "the {} bytes are not text in UTF-8 (byte {}, 0x{byte:02x}, is wrong there): call again with `to` as \
                     `hex` or `base64`",
                    bytes.len(),
                    place + 1
                ))
            }),
            Self::Hex => Ok(hex::encode(bytes)),
            Self::Base64 => Ok(write_base64(&bytes, false, true)),
        }
    }
}

pub fn check_size(bytes: usize, name: &str) -> Result<(), Error> {
    if bytes > MAX_BYTES {
        return Err(Error::invalid(format!(
            "`{name}` has {bytes} bytes, more than the {} KiB that are taken at once: split it",
            MAX_BYTES / 1024
        )));
    }
    Ok(())
}

pub fn write_base64(bytes: &[u8], for_urls: bool, padding: bool) -> String {
    let encoded = base64::encode(bytes);
    let encoded = if for_urls { encoded.replace('+', "-").replace('/', "_") } else { encoded };
    if padding { encoded } else { encoded.trim_end_matches('=').to_owned() }
}

/// Reads both alphabets, with padding or without, and over several lines.
pub fn read_base64(text: &str, name: &str) -> Result<Vec<u8>, Error> {
    let wrong = |reason: String| Error::invalid(format!("`{name}` is no base64: {reason}"));
    let is_known =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_' | '=') || c.is_whitespace();
    if let Some((place, unknown)) = text.chars().enumerate().find(|(_, c)| !is_known(*c)) {
        return Err(wrong(format!(
            "`{}` at character {} does not belong to it; give nothing but the base64 itself",
            unknown.escape_debug(),
            place + 1
        )));
    }
    let (for_urls, standard) = (text.contains(['-', '_']), text.contains(['+', '/']));
    if for_urls && standard {
        return Err(wrong(
            "it has `+` or `/` of the standard alphabet and `-` or `_` of the one for URLs".to_owned(),
        ));
    }
    let packed: String = text.split_whitespace().collect();
    let packed = packed.replace('-', "+").replace('_', "/");
    base64::decode(&packed).map_err(|error| wrong(explain(&error, &packed)))
}

fn explain(error: &DecodeError, packed: &str) -> String {
    match error {
        DecodeError::InvalidByte(place, _) => {
            format!(
                "`=` stands at character {} of {}, where only the end may have it",
                place + 1,
                packed.len()
            )
        }
        DecodeError::InvalidLength(_) => format!(
            "{} characters are no whole number of bytes: one is missing, or one too many",
            packed.trim_end_matches('=').len()
        ),
        DecodeError::InvalidLastSymbol { .. } => {
            "its last character has bits that no byte takes: it is cut or changed".to_owned()
        }
        DecodeError::InvalidPadding => {
            "the `=` at its end are too many or too few: leave them out".to_owned()
        }
    }
}

/// Reads digits with what people put before and between bytes: `0x`, spaces, colons and dashes.
pub fn read_hex(text: &str, name: &str) -> Result<Vec<u8>, Error> {
    let trimmed = text.trim();
    let digits = trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X")).unwrap_or(trimmed);
    let is_between = |c: char| c.is_whitespace() || matches!(c, ':' | '-');
    let before = text.find(digits).map_or(0, |start| text[..start].chars().count());
    if let Some((place, unknown)) =
        digits.chars().enumerate().find(|(_, c)| !c.is_ascii_hexdigit() && !is_between(*c))
    {
        return Err(Error::invalid(format!(
            "`{name}` is no hex: `{}` at character {} is none of 0-9 and a-f",
            unknown.escape_debug(),
            before + place + 1
        )));
    }
    let packed: String = digits.chars().filter(|c| !is_between(*c)).collect();
    hex::decode(&packed).map_err(|_| {
        Error::invalid(format!(
            "`{name}` has {} hexadecimal digits, an odd number: each byte has two, as `0a`",
            packed.len()
        ))
    })
}
