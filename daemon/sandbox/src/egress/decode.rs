//! Incremental decoder of a response's content coding.
//!
//! The host decodes gzip and deflate itself, because the secret scan cannot see through compression. A step takes few
//! bytes, so its output is bounded before the byte limit is checked.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Input bytes of one step. Deflate expands a byte to at most about a thousand.
pub(super) const STEP_BYTES: usize = 1024;

/// The `Accept-Encoding` of each request.
pub(super) const ACCEPT_ENCODING: &str = "gzip, deflate";

/// The content coding of a response.
pub(super) enum Decoder {
    /// Not encoded.
    Identity,
    /// With a gzip header.
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// `deflate`, before the first byte shows which of the two forms it has.
    Unknown,
    /// With a zlib header, as RFC 9110 requires.
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    /// Without a header, as some servers send it.
    Deflate(Box<DeflateDecoder<Vec<u8>>>),
}

impl Decoder {
    /// Returns the decoder of a coding. `None` for an unknown coding or a list.
    pub(super) fn for_coding(coding: &str) -> Option<Self> {
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

    /// Decodes at most [`STEP_BYTES`] bytes.
    pub(super) fn step(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if let (Self::Unknown, Some(first)) = (&self, bytes.first()) {
            *self = match first & 0x0f == 8 && first >> 4 <= 7 {
                true => Self::Zlib(Box::new(ZlibDecoder::new(Vec::new()))),
                false => Self::Deflate(Box::new(DeflateDecoder::new(Vec::new()))),
            };
        }
        match self {
            Self::Identity | Self::Unknown => Ok(bytes.to_vec()),
            Self::Gzip(decoder) => decode(decoder.as_mut(), bytes, MultiGzDecoder::get_mut),
            Self::Zlib(decoder) => decode(decoder.as_mut(), bytes, ZlibDecoder::get_mut),
            Self::Deflate(decoder) => decode(decoder.as_mut(), bytes, DeflateDecoder::get_mut),
        }
    }

    /// Returns the remaining output; an error if the stream is truncated.
    pub(super) fn finish(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity | Self::Unknown => Ok(Vec::new()),
            Self::Gzip(decoder) => decoder.try_finish().map(|()| std::mem::take(decoder.get_mut())),
            Self::Zlib(decoder) => decoder.try_finish().map(|()| std::mem::take(decoder.get_mut())),
            Self::Deflate(decoder) => decoder.try_finish().map(|()| std::mem::take(decoder.get_mut())),
        }
    }
}

fn decode<D: Write>(
    decoder: &mut D,
    bytes: &[u8],
    output: fn(&mut D) -> &mut Vec<u8>,
) -> io::Result<Vec<u8>> {
    decoder.write_all(bytes)?;
    decoder.flush()?;
    Ok(std::mem::take(output(decoder)))
}
