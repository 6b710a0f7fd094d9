//! Incremental decoder of Zstandard (RFC 8878). It decodes at most one block at a time, so that a few bytes never become more
//! than a window of output.

use std::io;

use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The start of a frame.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The end of the start of a skippable frame; the first byte is 0x50 to 0x5f.
const SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];
/// Largest window of content on the web (RFC 9659). The decoder holds as much.
const WINDOW_BYTES: u64 = 8 * 1024 * 1024;
/// Largest block, compressed and decompressed (RFC 8878, section 3.1.1.2.4).
const BLOCK_BYTES: usize = 128 * 1024;

/// A decoder of consecutive frames.
pub(crate) struct ZstdDecoder {
    frames: FrameDecoder,
    /// The received part of the next item: a frame header or a block.
    item: Vec<u8>,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    BetweenFrames,
    /// Within a skippable frame, with so many bytes left.
    Skipping(usize),
    InFrame {
        has_checksum: bool,
    },
}

/// The size of the next item, as far as its received part tells it.
enum Size {
    AtLeast(usize),
    Exactly(usize),
}

impl ZstdDecoder {
    pub(crate) fn new() -> Self {
        let mut frames = FrameDecoder::new();
        frames.set_max_window_size(WINDOW_BYTES);
        Self { frames, item: Vec::new(), place: Place::BetweenFrames }
    }

    /// Whether content starts like a frame, or, if it is cut short, may become one.
    pub(crate) fn is_start(start: &[u8]) -> bool {
        let start = &start[..start.len().min(MAGIC.len())];
        match start {
            [] => false,
            [0x50..=0x5f, rest @ ..] => SKIPPABLE.starts_with(rest),
            _ => MAGIC.starts_with(start),
        }
    }

    /// Bytes that complete the next item or tell its size, at least one. Never more are to be decoded at once.
    pub(crate) fn wanted_bytes(&self) -> usize {
        let size = match (self.place, self.size()) {
            (Place::Skipping(left), _) => return left.max(1),
            (_, Ok(Size::AtLeast(size) | Size::Exactly(size))) => size,
            (_, Err(_)) => 0,
        };
        size.saturating_sub(self.item.len()).max(1)
    }

    /// Decodes bytes, at most [`Self::wanted_bytes`].
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if let Place::Skipping(left) = self.place {
            self.skip(left.saturating_sub(bytes.len()));
            return Ok(Vec::new());
        }
        self.item.extend_from_slice(bytes);
        match self.size()? {
            Size::Exactly(size) if self.item.len() >= size => {}
            _ => return Ok(Vec::new()),
        }
        let item = std::mem::take(&mut self.item);
        match self.place {
            Place::InFrame { .. } => self.block(&item),
            _ => self.frame_header(&item).map(|()| Vec::new()),
        }
    }

    /// Checks that the content ends with a frame.
    pub(crate) fn finish(&self) -> io::Result<()> {
        match self.place == Place::BetweenFrames && self.item.is_empty() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn skip(&mut self, left: usize) {
        self.place = if left == 0 { Place::BetweenFrames } else { Place::Skipping(left) };
    }

    fn frame_header(&mut self, item: &[u8]) -> io::Result<()> {
        if let [0x50..=0x5f, _, _, _, size @ ..] = item {
            let size = size.try_into().map(u32::from_le_bytes).map_err(|_| io::ErrorKind::InvalidData)?;
            self.skip(usize::try_from(size).map_err(|_| io::ErrorKind::InvalidData)?);
            return Ok(());
        }
        self.frames.reset(item).map_err(failure)?;
        let has_checksum = item.get(MAGIC.len()).is_some_and(|descriptor| descriptor & 4 != 0);
        self.place = Place::InFrame { has_checksum };
        Ok(())
    }

    fn block(&mut self, item: &[u8]) -> io::Result<Vec<u8>> {
        self.frames.decode_blocks(item, BlockDecodingStrategy::UptoBlocks(1)).map_err(failure)?;
        let decoded = self.frames.collect().unwrap_or_default();
        if self.frames.is_finished() {
            self.place = Place::BetweenFrames;
        }
        Ok(decoded)
    }

    fn size(&self) -> io::Result<Size> {
        match self.place {
            Place::InFrame { has_checksum } => block_size(&self.item, has_checksum),
            _ => header_size(&self.item),
        }
    }
}

/// The size of a frame header (RFC 8878, section 3.1.1.1), or of the header of a skippable frame.
fn header_size(item: &[u8]) -> io::Result<Size> {
    if !item.is_empty() && !ZstdDecoder::is_start(item) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if item.len() >= MAGIC.len() && item.first() != MAGIC.first() {
        return Ok(Size::Exactly(8));
    }
    let Some(descriptor) = item.get(MAGIC.len()) else { return Ok(Size::AtLeast(MAGIC.len() + 1)) };
    let is_single_segment = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size = match descriptor >> 6 {
        0 => usize::from(is_single_segment),
        flag => 1 << flag,
    };
    Ok(Size::Exactly(MAGIC.len() + 1 + usize::from(!is_single_segment) + dictionary + content_size))
}

/// The size of a block with its header, and with the checksum after the last one (RFC 8878, section 3.1.1.2).
fn block_size(item: &[u8], has_checksum: bool) -> io::Result<Size> {
    let &[a, b, c, ..] = item else { return Ok(Size::AtLeast(3)) };
    let header = u32::from_le_bytes([a, b, c, 0]);
    let size = usize::try_from(header >> 3).unwrap_or(usize::MAX);
    // A block of type 1 is one byte that is repeated.
    let content = if header >> 1 & 3 == 1 { 1 } else { size };
    if size > BLOCK_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let checksum = if has_checksum && header & 1 == 1 { 4 } else { 0 };
    Ok(Size::Exactly(3 + content + checksum))
}

fn failure(error: FrameDecoderError) -> io::Error {
    let kind = match error {
        FrameDecoderError::WindowSizeTooBig { .. } | FrameDecoderError::DictNotProvided { .. } => {
            io::ErrorKind::Unsupported
        }
        _ => io::ErrorKind::InvalidData,
    };
    kind.into()
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn decode_all(content: &[u8], most: usize) -> io::Result<Vec<u8>> {
        let (mut decoder, mut rest, mut all) = (ZstdDecoder::new(), content, Vec::new());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(decoder.wanted_bytes().min(most).min(rest.len()));
            let decoded = decoder.decode(piece)?;
            assert!(u64::try_from(decoded.len()).unwrap() <= WINDOW_BYTES + (128 << 10));
            all.extend(decoded);
            rest = after;
        }
        decoder.finish().map(|()| all)
    }

    /// A frame of one block without content size: window descriptor, block header, content.
    fn frame(window: u8, kind: u32, size: u32, content: &[u8]) -> Vec<u8> {
        let header = (size << 3 | kind << 1 | 1).to_le_bytes();
        [&MAGIC[..], &[0, window], &header[..3], content].concat()
    }

    #[test]
    fn k4_zstd_is_decoded_in_pieces_of_any_size() {
        let text: Vec<u8> =
            (0..40_000_u32).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
        for text in [&b""[..], b"a", b"sk-live-0123456789", &text] {
            let frames = [CompressionLevel::Uncompressed, CompressionLevel::Fastest];
            let frames = frames.map(|level| compress_to_vec(text, level));
            let skippable = b"\x5a\x2a\x4d\x18\x03\0\0\0abc";
            let twice = [&skippable[..], &frames[1], &b"\x50\x2a\x4d\x18\0\0\0\0"[..], &frames[0]].concat();
            for piece in [1, 7, 1024] {
                for content in &frames {
                    assert_eq!(decode_all(content, piece).unwrap(), text);
                }
                assert_eq!(decode_all(&twice, piece).unwrap(), [text, text].concat());
            }
        }
        // As `zstd -19` writes it, with a checksum.
        let content = b"\x28\xb5\x2f\xfd\x04\x68\x41\0\0secret 1\xa4\xe7\x3b\x7b";
        assert_eq!(decode_all(content, 1).unwrap(), b"secret 1");
    }

    #[test]
    fn k4_zstd_has_a_bounded_window_and_bounded_blocks() {
        let megabytes_8 = 13 << 3;
        assert_eq!(decode_all(&frame(megabytes_8, 1, 1_000, b"a"), 9).unwrap(), vec![b'a'; 1_000]);
        let refused = |content: &[u8]| decode_all(content, 1024).unwrap_err().kind();
        assert_eq!(refused(&frame(megabytes_8 + 1, 1, 1_000, b"a")), io::ErrorKind::Unsupported);
        assert_eq!(refused(&frame(megabytes_8, 1, 128 * 1024 + 1, b"a")), io::ErrorKind::InvalidData);
        assert_eq!(
            refused(&[&MAGIC[..], &[1, megabytes_8, 7]].concat()),
            io::ErrorKind::Unsupported,
            "dictionary"
        );
        // Each of these blocks becomes 128 KiB.
        let bomb = [&MAGIC[..], &[0, megabytes_8], &[2, 0, 16, b'a'].repeat(200), &[1, 0, 0]].concat();
        assert_eq!(decode_all(&bomb, 1024).unwrap().len(), 200 * 128 * 1024);
    }

    #[test]
    fn k4_damaged_zstd_is_an_error() {
        let text = b"some text, some text, some text ".repeat(50);
        let content = compress_to_vec(&text[..], CompressionLevel::Fastest);
        for end in 1..content.len() {
            assert!(decode_all(&content[..end], 1024).is_err(), "cut off after {end} bytes");
        }
        for at in 0..content.len() {
            for bit in 0..8 {
                let mut damaged = content.clone();
                damaged[at] ^= 1 << bit;
                // Some damage is not noticed without a checksum.
                let _ = decode_all(&damaged, 1024);
            }
        }
        assert!(decode_all(&[&content[..], b"more"].concat(), 1024).is_err());
    }
}
