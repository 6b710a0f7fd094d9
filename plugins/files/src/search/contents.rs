//! What is in a file, in a buffer that all files of a search share.

use std::io;
use std::path::Path;

use memchr::memchr;

use crate::host;

/// A file is searched as a whole in memory, of which a call has 64 MiB.
const MAX_FILE_BYTES: usize = 8 * 1024 * 1024;

/// Binary files show themselves early.
const SNIFFED_BYTES: usize = 8 * 1024;

#[derive(Default)]
pub struct Contents {
    buffer: Vec<u8>,
}

impl Contents {
    /// The bytes of a file, or why it is passed over.
    pub fn load(&mut self, path: &Path) -> Result<&[u8], &'static str> {
        host::read(path, MAX_FILE_BYTES, &mut self.buffer).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => "larger than 8 MiB",
            _ => "cannot be read",
        })?;
        match memchr(0, &self.buffer[..self.buffer.len().min(SNIFFED_BYTES)]) {
            Some(_) => Err("a binary file"),
            None => Ok(&self.buffer),
        }
    }
}
