//! Undoes the coding of an answer, a little at a time.
//!
//! The codings that we ask for are undone here, because a secret that comes back compressed would be found by nobody. A
//! step takes so few bytes that what comes out is bounded before the limit on bytes is asked.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Bytes that are taken at once. Deflate makes at most a thousand of one.
pub(super) const STEP_BYTES: usize = 1024;

/// What is asked for.
pub(super) const ACCEPTED: &str = "gzip, deflate";

/// How an answer is coded.
pub(super) enum Decoder {
    /// As it is.
    Identity,
    /// With a header of gzip.
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// `deflate`, of which nothing came yet that says which of two forms it has.
    Unknown,
    /// With a header of zlib, as the standard says.
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    /// Without, as some servers say it.
    Deflate(Box<DeflateDecoder<Vec<u8>>>),
}

impl Decoder {
    /// For a coding by its name; none where it is another or several.
    pub(super) fn named(coding: &str) -> Option<Self> {
        match coding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Self::Identity),
            "gzip" | "x-gzip" => Some(Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))),
            "deflate" => Some(Self::Unknown),
            _ => None,
        }
    }

    pub(super) fn is_identity(&self) -> bool {
        matches!(self, Self::Identity)
    }

    /// What some bytes decode to, at most [`STEP_BYTES`] of them.
    pub(super) fn step(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if let (Self::Unknown, Some(first)) = (&self, bytes.first()) {
            *self = match first & 0x0f == 8 && first >> 4 <= 7 {
                true => Self::Zlib(Box::new(ZlibDecoder::new(Vec::new()))),
                false => Self::Deflate(Box::new(DeflateDecoder::new(Vec::new()))),
            };
        }
        match self {
            Self::Identity | Self::Unknown => Ok(bytes.to_vec()),
            Self::Gzip(decoder) => {
                decoder.write_all(bytes)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            Self::Zlib(decoder) => {
                decoder.write_all(bytes)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            Self::Deflate(decoder) => {
                decoder.write_all(bytes)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
        }
    }

    /// What is left at the end; an error where the end is missing.
    pub(super) fn finish(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity | Self::Unknown => Ok(Vec::new()),
            Self::Gzip(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            Self::Zlib(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            Self::Deflate(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
        }
    }
}
