//! `encode`: text or bytes into characters that pass everywhere.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::{Error, tool};

use crate::data::{Form, check_size, write_base64};

/// All but the unreserved characters of RFC 3986, which need no encoding in any part of a URL.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes text or bytes as base64, hex, or for a part of a URL.
///
/// - `base64`: the standard alphabet with `+` and `/`; `base64url`: with `-` and `_`, for URLs, file names and JWTs.
/// - `percent`: for one component of a URL, a segment of its path or a value of its query. Not for a whole URL.
/// - `form`: as `percent`, but a space becomes `+`, as in the bodies of HTML forms.
#[tool(
    read_only,
    tags("base64", "hex", "url", "percent", "escape"),
    examples(
        {"data": "Grüße?", "to": "base64"} => {"encoded": "R3LDvMOfZT8="},
        "for a JWT": {"data": "{\"a\":\"??>\"}", "to": "base64url", "padding": false} => {"encoded": "eyJhIjoiPz8-In0"},
        "a value in a query": {"data": "a b&c=ü", "to": "percent"} => {"encoded": "a%20b%26c%3D%C3%BC"},
        "bytes": {"data": "ff 00 10", "data_form": "hex", "to": "base64"} => {"encoded": "/wAQ"},
    )
)]
pub fn encode(
    /// Bytes to encode, at most 128 KiB
    data: String,
    /// The encoding
    to: Encoding,
    /// How the bytes are written in `data`
    #[default]
    data_form: Form,
    /// Whether base64 ends with `=` up to a multiple of four
    #[default(true)]
    padding: bool,
) -> Result<Encoded, Error> {
    check_size(data.len(), "data")?;
    let bytes = data_form.read(&data, "data")?;
    let encoded = match to {
        Encoding::Base64 => write_base64(&bytes, false, padding),
        Encoding::Base64url => write_base64(&bytes, true, padding),
        Encoding::Hex => hex::encode(&bytes),
        Encoding::Percent => percent_encode(&bytes, COMPONENT).to_string(),
        Encoding::Form => form_urlencoded::byte_serialize(&bytes).collect(),
    };
    Ok(Encoded { encoded })
}

/// An encoding.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    Base64,
    Base64url,
    Hex,
    Percent,
    Form,
}

/// The encoded text.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Encoded {
    pub encoded: String,
}
