//! Incremental decoder of a response's content coding.
//!
//! The host decodes gzip, deflate and zstd itself, because the secret scan cannot see through compression. A step takes few
//! bytes, so its output is bounded before the byte limit is checked.
//!
//! Servers also send compressed content without a label. The first bytes of a scanned response decide.

mod zstd;

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use zstd::ZstdDecoder;

/// Most input bytes of one step. Deflate expands a byte to at most about a thousand.
const STEP_BYTES: usize = 1024;

/// The signature of RFC 1952 (with its only method).
const GZIP: &[u8] = &[0x1f, 0x8b, 8];

/// Bytes that tell zlib from a text such as `x^2`, which begins with the same two bytes.
const ZLIB_OR_TEXT_BYTES: usize = 16;

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
    /// Without a label, before the first bytes show whether it is compressed.
    Unlabelled(Vec<u8>),
    /// With a zlib header, as RFC 9110 requires.
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    /// Without a header, as some servers send it.
    Deflate(Box<DeflateDecoder<Vec<u8>>>),
    /// Frames of RFC 8878.
    Zstd(Box<ZstdDecoder>),
}

impl Decoder {
    /// Returns the decoder of a coding. `None` for an unknown coding or a list.
    pub(super) fn for_coding(coding: &str) -> Option<Self> {
        match coding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Self::Identity),
            "gzip" | "x-gzip" => Some(Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))),
            "deflate" => Some(Self::Unknown),
            // Not asked for, but some servers send it anyway.
            "zstd" => Some(Self::Zstd(Box::new(ZstdDecoder::new()))),
            _ => None,
        }
    }

    /// Returns a decoder that also decodes content without a label.
    pub(super) fn for_scan(self) -> Self {
        if self.is_identity() { Self::Unlabelled(Vec::new()) } else { self }
    }

    pub(super) fn is_identity(&self) -> bool {
        matches!(self, Self::Identity)
    }

    /// The most bytes of the next step.
    pub(super) fn step_bytes(&self) -> usize {
        match self {
            Self::Zstd(decoder) => decoder.wanted_bytes().min(STEP_BYTES),
            // Decoded all at once when they have decided.
            Self::Unlabelled(_) => ZLIB_OR_TEXT_BYTES,
            _ => STEP_BYTES,
        }
    }

    /// Decodes at most [`Self::step_bytes`] bytes. The error of content that the host cannot decode has the kind `Unsupported`.
    pub(super) fn step(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if let Self::Unlabelled(start) = self {
            start.extend_from_slice(bytes);
            let Some(decoder) = by_signature(start, false) else { return Ok(Vec::new()) };
            return self.begin(decoder);
        }
        if let (Self::Unknown, Some(first)) = (&self, bytes.first()) {
            *self = match first & 0x0f == 8 && first >> 4 <= 7 {
                true => Self::Zlib(Box::new(ZlibDecoder::new(Vec::new()))),
                false => Self::Deflate(Box::new(DeflateDecoder::new(Vec::new()))),
            };
        }
        match self {
            Self::Identity | Self::Unknown | Self::Unlabelled(_) => Ok(bytes.to_vec()),
            Self::Gzip(decoder) => decode(decoder.as_mut(), bytes, MultiGzDecoder::get_mut),
            Self::Zlib(decoder) => decode(decoder.as_mut(), bytes, ZlibDecoder::get_mut),
            Self::Deflate(decoder) => decode(decoder.as_mut(), bytes, DeflateDecoder::get_mut),
            Self::Zstd(decoder) => decoder.decode(bytes),
        }
    }

    /// Returns the remaining output; an error if the stream is truncated.
    pub(super) fn finish(&mut self) -> io::Result<Vec<u8>> {
        if let Self::Unlabelled(start) = self {
            let decoder = by_signature(start, true).unwrap_or(Self::Identity);
            let begun = self.begin(decoder)?;
            return Ok([begun, self.finish()?].concat());
        }
        match self {
            Self::Identity | Self::Unknown | Self::Unlabelled(_) => Ok(Vec::new()),
            Self::Gzip(decoder) => decoder.try_finish().map(|()| std::mem::take(decoder.get_mut())),
            Self::Zlib(decoder) => decoder.try_finish().map(|()| std::mem::take(decoder.get_mut())),
            Self::Deflate(decoder) => decoder.try_finish().map(|()| std::mem::take(decoder.get_mut())),
            Self::Zstd(decoder) => decoder.finish().map(|()| Vec::new()),
        }
    }
}

impl Decoder {
    /// Begins with the decoder that the first bytes call for.
    fn begin(&mut self, decoder: Self) -> io::Result<Vec<u8>> {
        let Self::Unlabelled(start) = std::mem::replace(self, decoder) else { return Ok(Vec::new()) };
        let (mut rest, mut decoded) = (&start[..], Vec::new());
        while !rest.is_empty() {
            let (step, after) = rest.split_at(self.step_bytes().min(rest.len()));
            decoded.extend(self.step(step)?);
            rest = after;
        }
        Ok(decoded)
    }
}

/// Returns the decoder for content that starts so; none if more bytes must decide.
fn by_signature(start: &[u8], is_whole: bool) -> Option<Decoder> {
    let is_short = |signature_bytes: usize| !is_whole && start.len() < signature_bytes;
    if ZstdDecoder::is_start(start) {
        return match start.len() < zstd::MAGIC.len() {
            true if is_whole => Some(Decoder::Identity),
            true => None,
            false => Decoder::for_coding("zstd"),
        };
    }
    if start.starts_with(GZIP) {
        return Decoder::for_coding("gzip");
    }
    match start {
        _ if is_short(GZIP.len()) && GZIP.starts_with(start) => None,
        [0x78] if !is_whole => None,
        [0x78, flags, ..] if u16::from_be_bytes([0x78, *flags]).is_multiple_of(31) => {
            match is_short(ZLIB_OR_TEXT_BYTES) {
                true => None,
                false if is_text(start) => Some(Decoder::Identity),
                false => Decoder::for_coding("deflate"),
            }
        }
        _ => Some(Decoder::Identity),
    }
}

/// Whether bytes are the start of a text: UTF-8 without control characters.
fn is_text(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_some() => return false,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    text.chars().all(|character| !character.is_control() || matches!(character, '\t' | '\n' | '\r'))
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

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn decode_all(content: &[u8], piece: usize) -> io::Result<Vec<u8>> {
        let mut decoder = Decoder::Identity.for_scan();
        let mut all = Vec::new();
        for mut piece in content.chunks(piece) {
            while !piece.is_empty() {
                let (step, after) = piece.split_at(decoder.step_bytes().min(piece.len()));
                all.extend(decoder.step(step)?);
                piece = after;
            }
        }
        all.extend(decoder.finish()?);
        Ok(all)
    }

    fn compress(text: &[u8], level: u32) -> [Vec<u8>; 2] {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::new(level));
        gzip.write_all(text).unwrap();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::new(level));
        zlib.write_all(text).unwrap();
        [gzip.finish().unwrap(), zlib.finish().unwrap()]
    }

    #[test]
    fn k4_compressed_content_without_a_label_is_decoded_by_its_signature() {
        for text in [&b""[..], b"a", b"sk-live-0123456789", &b"many lines\n".repeat(500)] {
            for level in [0, 1, 3, 6, 9] {
                for content in compress(text, level) {
                    for piece in [1, 2, 5, STEP_BYTES] {
                        assert_eq!(
                            decode_all(&content, piece).unwrap(),
                            text,
                            "level {level}, pieces of {piece}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn k4_what_only_begins_like_a_signature_passes_unchanged() {
        for text in [
            "",
            "x",
            "x^",
            "x^2 + 1",
            "x^2 + y^2 = z^2, and more",
            "x\u{69a} \u{69a}\u{69a}\u{69a}\u{69a}\u{69a}\u{69a}",
            "(",
            "(b)",
            "{\"a\": 1}",
            "\u{1f}",
        ] {
            for piece in [1, 2, STEP_BYTES] {
                assert_eq!(decode_all(text.as_bytes(), piece).unwrap(), text.as_bytes(), "{text:?}");
            }
        }
        let mut decoder = Decoder::Identity.for_scan();
        assert_eq!(decoder.step(b"data: 1\n\n").unwrap(), b"data: 1\n\n", "passed on at once");
        assert!(decoder.is_identity());
    }

    #[test]
    fn k4_zstd_without_a_label_is_decoded_by_its_signature() {
        let frame = b"\x28\xb5\x2f\xfd\x04\x68\x41\0\0secret 1\xa4\xe7\x3b\x7b";
        let skippable = b"\x50\x2a\x4d\x18\x01\0\0\0a";
        for piece in [1, 2, 5, STEP_BYTES] {
            assert_eq!(decode_all(frame, piece).unwrap(), b"secret 1");
            assert_eq!(decode_all(&[&skippable[..], frame].concat(), piece).unwrap(), b"secret 1");
            for text in ["P", "P*", "P*M", "P*M\u{19}", "(\u{b5}"] {
                assert_eq!(decode_all(text.as_bytes(), piece).unwrap(), text.as_bytes());
            }
        }
    }

    #[test]
    fn k4_what_the_host_cannot_decode_is_refused() {
        // A window of 16 MiB.
        for piece in [1, 3, STEP_BYTES] {
            let refused = decode_all(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 14 << 3, 0, 0, 0], piece).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
        }
        let [mut gzip, _] = compress(b"some text", 6);
        gzip.truncate(12);
        assert!(decode_all(&gzip, STEP_BYTES).is_err(), "cut off");
    }
}
