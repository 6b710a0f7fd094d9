//! Writes the archive, with the digest of each entry.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest;
use tar::{Builder, EntryType, Header};
use toolgate_audit::Sha256;

use super::FileDigest;

/// A tar file under construction.
pub(super) struct Archive<W: Write> {
    tar: Builder<GzEncoder<W>>,
    files: BTreeMap<String, FileDigest>,
    modified_s: u64,
}

impl<W: Write> Archive<W> {
    /// An empty archive, whose entries were modified at this time, in seconds since 1970.
    pub(super) fn new(out: W, modified_s: u64) -> Self {
        let tar = Builder::new(GzEncoder::new(out, Compression::fast()));
        Self { tar, files: BTreeMap::new(), modified_s }
    }

    /// Adds a file with this content.
    pub(super) fn add_text(&mut self, name: &str, text: &[u8]) -> io::Result<()> {
        self.add(name, text.len() as u64, text)
    }

    /// Adds the first `bytes` of a file.
    pub(super) fn add_file(&mut self, name: &str, path: &Path, bytes: u64) -> io::Result<()> {
        self.add(name, bytes, File::open(path)?)
    }

    /// Adds a folder, which may be empty.
    pub(super) fn add_folder(&mut self, name: &str) -> io::Result<()> {
        let mut header = self.header(EntryType::Directory, 0o700, 0);
        self.tar.append_data(&mut header, format!("{name}/"), io::empty())
    }

    /// The digests of the files so far.
    pub(super) fn files(&self) -> &BTreeMap<String, FileDigest> {
        &self.files
    }

    /// Ends the archive, and returns its destination.
    pub(super) fn finish(self) -> io::Result<W> {
        self.tar.into_inner()?.finish()
    }

    fn add(&mut self, name: &str, bytes: u64, content: impl Read) -> io::Result<()> {
        let mut header = self.header(EntryType::Regular, 0o600, bytes);
        let mut content = DigestReader::new(content.take(bytes));
        self.tar.append_data(&mut header, name, &mut content)?;
        let digest = content.finish();
        if digest.bytes != bytes {
            // The entry is shorter than its header says.
            let what = format!("`{name}` became shorter while it was read");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        self.files.insert(name.to_owned(), digest);
        Ok(())
    }

    fn header(&self, kind: EntryType, mode: u32, bytes: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(bytes);
        header.set_mtime(self.modified_s);
        header
    }
}

/// Passes bytes on, and computes their digest.
pub(super) struct DigestReader<R> {
    content: R,
    context: digest::Context,
    bytes: u64,
}

impl<R: Read> DigestReader<R> {
    pub(super) fn new(content: R) -> Self {
        Self { content, context: digest::Context::new(&digest::SHA256), bytes: 0 }
    }

    /// The digest of what was read.
    pub(super) fn finish(self) -> FileDigest {
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(self.context.finish().as_ref());
        FileDigest { bytes: self.bytes, sha256: Sha256(sha256) }
    }
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.context.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
