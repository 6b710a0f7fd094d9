//! `read_bytes`: a part of any file, by bytes.

use std::io::{Read, Seek, SeekFrom};

use formats::base64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::{Error, tool};

use crate::workspace::Workspace;

/// What one call gives at most. As hexadecimal digits it is twice as much.
const MAX_BYTES: u32 = 128 * 1024;

/// How bytes are written in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    Base64,
    Hex,
    /// As text in UTF-8, where what is none becomes `\u{FFFD}`
    Text,
}

/// Reads bytes of any file, binary or text.
///
/// For text use `read`. One call gives at most 128 KiB; `next_byte` is where to read on.
#[tool(
    read_only,
    open_world = false,
    tags("file", "binary", "base64", "hex", "range"),
    examples(
        "the head of an image": {"path": "logo.png", "byte_count": 4, "encoding": "hex"}
            => {"data": "89504e47", "start_byte": 0, "total_bytes": 8, "next_byte": 4},
        "the last bytes": {"path": "log.txt", "start_byte": -5, "encoding": "text"}
            => {"data": "four\n", "start_byte": 14, "total_bytes": 19},
    )
)]
pub fn read_bytes(
    /// The file, from the workspace's root
    path: String,
    /// First byte, counted from 0; a negative number counts from the end
    #[default(0)]
    start_byte: i64,
    /// How many bytes to read at most
    #[default(4096)]
    #[schemars(range(min = 1, max = 131072))]
    byte_count: u32,
    /// How the bytes are written in the answer
    #[default(Encoding::Base64)]
    encoding: Encoding,
) -> Result<Bytes, Error> {
    Workspace::of_session().read_bytes(&path, start_byte, byte_count, encoding)
}

/// A part of a file.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bytes {
    /// The bytes, in the encoding that was asked for
    pub data: String,
    /// Place of the bytes in the file, counted from 0
    pub start_byte: u64,
    /// How many bytes the file has
    pub total_bytes: u64,
    /// Byte to read on from, if this is not the end
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_byte: Option<u64>,
}

impl Workspace {
    pub fn read_bytes(&self, path: &str, start: i64, count: u32, encoding: Encoding) -> Result<Bytes, Error> {
        let place = self.place(path)?;
        let mut file = self.open(&place)?;
        let failed = |error| self.explain(&error, &place, "read");
        let total_bytes = file.metadata().map_err(failed)?.len();
        let start_byte =
            if start < 0 { total_bytes.saturating_sub(start.unsigned_abs()) } else { start.unsigned_abs() };
        if start_byte > total_bytes {
            return Err(Error::invalid(format!(
                "`{}` has {total_bytes} bytes: begin at one of them",
                place.name
            )));
        }
        file.seek(SeekFrom::Start(start_byte)).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(u64::from(count.clamp(1, MAX_BYTES))).read_to_end(&mut bytes).map_err(failed)?;
        if encoding == Encoding::Text {
            keep_whole_characters(&mut bytes);
        }
        let end = start_byte + bytes.len() as u64;
        let next_byte = (end < total_bytes).then_some(end);
        Ok(Bytes { data: encoding.write(bytes), start_byte, total_bytes, next_byte })
    }
}

impl Encoding {
    fn write(self, bytes: Vec<u8>) -> String {
        match self {
            Self::Base64 => base64::encode(&bytes),
            Self::Hex => hex::encode(bytes),
            Self::Text => String::from_utf8_lossy(&bytes).into_owned(),
        }
    }
}

/// Leaves a character that is cut in two to the next part.
fn keep_whole_characters(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
        && error.valid_up_to() > 0
    {
        bytes.truncate(error.valid_up_to());
    }
}
