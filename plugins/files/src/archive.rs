//! What packing and unpacking share: the two formats, and what an archive may hold.
//!
//! A call has fuel for about a thousand million instructions, of which compressing a byte takes up to 230 and
//! unpacking it 90. The limits end before the fuel does, so that the one who asked is told.

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::Error;

use crate::workspace::{MAX_DEPTH, Place};

/// Files and folders in one archive.
pub const MAX_ENTRIES: usize = 2_000;

/// What all files of one archive may have together, to be packed.
pub const MAX_PACKED_FROM_BYTES: usize = 16 * 1024 * 1024;

/// More than this is packed without being compressed.
pub const MAX_COMPRESSED_FROM_BYTES: u64 = 3 * 1024 * 1024;

/// What all files of one archive may have together, to be unpacked. Stops bombs.
pub const MAX_UNPACKED_BYTES: u64 = 10 * 1024 * 1024;

/// The longest name in an archive: what Linux itself takes.
const MAX_NAME_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub enum Format {
    #[serde(rename = "zip")]
    Zip,
    #[serde(rename = "tar.gz")]
    TarGz,
}

impl Format {
    /// The format that the name of an archive to be made says.
    pub fn of_name(place: &Place) -> Result<Self, Error> {
        let name = place.name.to_ascii_lowercase();
        if name.ends_with(".zip") {
            Ok(Self::Zip)
        } else if name.ends_with(".tar.gz") || name.ends_with(".tgz") {
            Ok(Self::TarGz)
        } else {
            Err(Error::invalid(format!(
                "`{}` does not say which format it is: end it in `.zip`, `.tar.gz` or `.tgz`",
                place.name
            )))
        }
    }

    /// The format that the first bytes of an archive show.
    pub fn of_head(head: &[u8]) -> Option<Self> {
        match head {
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Self::Zip),
            [0x1f, 0x8b, ..] => Some(Self::TarGz),
            _ => None,
        }
    }
}

/// A name as it may be used below a folder: without `.`, and leading nowhere else. Or what is wrong with it.
///
/// `pack` asks too, so that it makes nothing that `unpack` refuses.
pub fn checked_name(raw: &[u8]) -> Result<String, &'static str> {
    let name = std::str::from_utf8(raw).map_err(|_| "is not UTF-8")?;
    if name.len() > MAX_NAME_BYTES {
        return Err("is too long");
    }
    if name.chars().any(char::is_control) {
        return Err("has control characters");
    }
    // Elsewhere a backslash leads into folders, and `C:` to another disk.
    if name.contains('\\') || name.as_bytes().get(1) == Some(&b':') {
        return Err("is one of Windows, which could lead elsewhere");
    }
    if name.starts_with('/') {
        return Err("is absolute");
    }
    let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err("leads out of its folder");
    }
    if parts.is_empty() || parts.len() > MAX_DEPTH as usize {
        return Err("is no name, or nested too deep");
    }
    Ok(parts.join("/"))
}
