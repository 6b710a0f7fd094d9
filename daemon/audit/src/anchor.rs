//! The anchor: the file `head`, which stores the last acknowledged record of the hash chain.
//!
//! A hash chain alone does not reveal that its end is missing. After each synced group the writer stores the last sequence,
//! position and hash here, with an HMAC if the daemon has a key, else with a SHA-256 checksum. The file is not synced
//! by itself (that would double the cost of a group), so after a power failure it may lag behind the log.
//!
//! Detected: records or segments missing at the end; with a key, also a chain forged without the key. Not detected: folder
//! and anchor removed or replaced by an older copy together (the index beside the folder reveals that), and, without
//! a key, a forged chain with a forged anchor. For more, store the `head` of a `verify` report elsewhere from time to
//! time: without an index, an empty folder is a new log.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ring::hmac;
use serde::{Deserialize, Serialize};

use super::error::StartError;
use super::folder::{Folder, create_private, remove_if_there};
use super::record::Anchor;
use super::record::Sha256;
use super::record::sha256;

/// One disk sector, so that a write of the file is atomic.
const ANCHOR_BYTES: usize = 512;

#[derive(Serialize, Deserialize)]
struct SignedAnchor {
    head: Anchor,
    /// HMAC-SHA256 with a key, SHA-256 without.
    seal: Sha256,
    keyed: bool,
}

/// The file that an anchor stands in. A seal of one is none of the other.
#[derive(Clone, Copy)]
enum Purpose {
    Head,
    Cut,
}

/// Computes and checks the seal of an anchor.
pub(crate) struct Sealer {
    key: Option<hmac::Key>,
}

impl Sealer {
    pub(crate) fn new(key: Option<&[u8; 32]>) -> Self {
        Self { key: key.map(|key| hmac::Key::new(hmac::HMAC_SHA256, key)) }
    }

    fn seal(&self, anchor: &Anchor, purpose: Purpose) -> Sha256 {
        let mut text = [0; 57];
        text[..8].copy_from_slice(&anchor.sequence.to_le_bytes());
        text[8..16].copy_from_slice(&anchor.segment.to_le_bytes());
        text[16..24].copy_from_slice(&anchor.offset.to_le_bytes());
        text[24..56].copy_from_slice(&anchor.hash.0);
        let text = match purpose {
            Purpose::Head => &text[..56],
            Purpose::Cut => &text[..],
        };
        let Some(key) = &self.key else { return sha256(text) };
        let mut seal = [0; 32];
        seal.copy_from_slice(hmac::sign(key, text).as_ref());
        Sha256(seal)
    }

    /// Reads the anchor of the folder; `None` if there is no file. A file that cannot be parsed or has another seal is an error.
    pub(crate) fn read(&self, folder: &Folder) -> Result<Option<Anchor>, StartError> {
        self.read_file(&folder.anchor(), Purpose::Head)
    }

    /// Reads the last record that was cut; `None` if nothing was.
    pub(crate) fn read_cut(&self, folder: &Folder) -> Result<Option<Anchor>, StartError> {
        self.read_file(&folder.cut(), Purpose::Cut)
    }

    /// Names the last record that is cut. On return, the file is on disk; a crash leaves the one before or this one.
    pub(crate) fn write_cut(&self, folder: &Folder, cut: &Anchor) -> io::Result<()> {
        let path = folder.cut().with_extension("new");
        remove_if_there(&path)?;
        let mut text = Vec::new();
        serde_json::to_writer(&mut text, &self.sign(cut, Purpose::Cut))?;
        let file = create_private(&path, true)?;
        file.write_all_at(&text, 0)?;
        file.sync_all()?;
        std::fs::rename(path, folder.cut())?;
        folder.sync()
    }

    /// Computes the seal of other text than an anchor. `purpose` tells it from seals for other purposes.
    pub(crate) fn seal_text(&self, purpose: &str, text: &[u8]) -> Sha256 {
        // No anchor begins with a purpose: its first bytes are a number.
        let text = [purpose.as_bytes(), b"\0", text].concat();
        let Some(key) = &self.key else { return sha256(&text) };
        let mut seal = [0; 32];
        seal.copy_from_slice(hmac::sign(key, &text).as_ref());
        Sha256(seal)
    }

    /// The content of a `head` file for this anchor.
    pub(crate) fn head_text(&self, anchor: &Anchor) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&self.sign(anchor, Purpose::Head))
    }

    fn sign(&self, anchor: &Anchor, purpose: Purpose) -> SignedAnchor {
        SignedAnchor { head: *anchor, seal: self.seal(anchor, purpose), keyed: self.key.is_some() }
    }

    fn read_file(&self, path: &Path, purpose: Purpose) -> Result<Option<Anchor>, StartError> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(StartError::io("read", path))?,
        };
        let signed: SignedAnchor = serde_json::from_slice(bytes.trim_ascii_end())
            .map_err(|error| StartError::corrupt(path, 0, format!("it is not an anchor: {error}")))?;
        // A constant-time comparison is not needed: no client can submit an anchor.
        if signed.keyed != self.key.is_some() || signed.seal != self.seal(&signed.head, purpose) {
            return Err(StartError::corrupt(
                path,
                0,
                "its seal was not made with the key of this daemon; was `keys/audit.key` replaced?",
            ));
        }
        Ok(Some(signed.head))
    }
}

/// The open anchor file, rewritten after every synced group.
pub(crate) struct AnchorFile {
    file: File,
    sealer: Sealer,
    text: Vec<u8>,
}

impl AnchorFile {
    /// Opens the file, or creates it with `first`: written under another name, synced, then renamed, so that a crash
    /// leaves a complete file or none.
    pub(crate) fn open(folder: &Folder, sealer: Sealer, first: &Anchor) -> Result<Self, StartError> {
        let path = folder.anchor();
        if path.exists() {
            let file = create_private(&path, false).map_err(StartError::io("open", &path))?;
            return Ok(Self { file, sealer, text: Vec::new() });
        }
        Self::create(folder, sealer, first).map_err(StartError::io("make", &path))
    }

    fn create(folder: &Folder, sealer: Sealer, first: &Anchor) -> io::Result<Self> {
        let path = folder.anchor().with_extension("new");
        let mut created = Self { file: create_private(&path, false)?, sealer, text: Vec::new() };
        created.write(first)?;
        created.file.sync_all()?;
        std::fs::rename(path, folder.anchor())?;
        folder.sync()?;
        Ok(created)
    }

    pub(crate) fn write(&mut self, anchor: &Anchor) -> io::Result<()> {
        let signed = self.sealer.sign(anchor, Purpose::Head);
        self.text.clear();
        serde_json::to_writer(&mut self.text, &signed)?;
        self.text.resize(ANCHOR_BYTES - 1, b' ');
        self.text.push(b'\n');
        self.file.write_all_at(&self.text, 0)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
