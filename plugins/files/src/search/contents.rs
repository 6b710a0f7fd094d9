//! The content of a file, in a buffer that all files of a search share.

use std::io;
use std::path::Path;

use memchr::memchr;

use crate::dir_walk;

/// A file is searched as a whole in memory, of which a call has 64 MiB.
const MAX_FILE_BYTES: usize = 8 * 1024 * 1024;

/// What turning two bytes of UTF-16 into UTF-8 costs, in bytes that could be searched meanwhile.
const UNIT_COST_BYTES: usize = 4;

/// The marks at the beginning of a text.
const MARK_OF_UTF_8: &[u8] = b"\xef\xbb\xbf";
const MARKS_OF_UTF_16: [(&[u8], FromBytes); 2] =
    [(b"\xff\xfe", u16::from_le_bytes), (b"\xfe\xff", u16::from_be_bytes)];

/// How two bytes are a unit of UTF-16.
type FromBytes = fn([u8; 2]) -> u16;

/// Binary files show themselves early.
const SNIFFED_BYTES: usize = 8 * 1024;

#[derive(Default)]
pub struct Contents {
    buffer: Vec<u8>,
    /// The text of a file in UTF-16.
    decoded: String,
}

impl Contents {
    /// The text of a file without its mark, or why it is passed over. Pays for what is decoded.
    pub fn load(&mut self, path: &Path, left_bytes: &mut usize) -> Result<&[u8], &'static str> {
        dir_walk::read(path, MAX_FILE_BYTES, &mut self.buffer).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => "larger than 8 MiB",
            _ => "cannot be read",
        })?;
        let marked = MARKS_OF_UTF_16.iter().find(|(mark, _)| self.buffer.starts_with(mark));
        let text = match marked {
            Some((mark, unit)) => {
                let (units, _) = self.buffer[mark.len()..].as_chunks();
                *left_bytes = left_bytes.saturating_sub(units.len() * UNIT_COST_BYTES);
                let letters = char::decode_utf16(units.iter().map(|bytes| unit(*bytes)));
                self.decoded.clear();
                self.decoded.extend(letters.map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)));
                self.decoded.as_bytes()
            }
            None => self.buffer.strip_prefix(MARK_OF_UTF_8).unwrap_or(&self.buffer),
        };
        match memchr(0, &text[..text.len().min(SNIFFED_BYTES)]) {
            Some(_) => Err("a binary file"),
            None => Ok(text),
        }
    }
}
