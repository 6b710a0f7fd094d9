//! The anchor of the chain: a small file that says how far the log was acknowledged, and with which hash.
//!
//! A chain alone cannot show that its end is missing. After every synced group the last sequence, place and
//! hash go here, with an HMAC where the daemon has a key for it, else with a plain checksum. The file is not
//! synced on its own (that would double the cost of a group), so after a power cut it may be older than the
//! log, never newer. What it shows: records or whole segments missing at the end; with a key also a chain
//! that was made anew by somebody without the key. What it cannot show: folder and anchor together removed
//! or put back to an older state (the index beside the folder shows that, if it was left), and, without a key, a chain
//! and an anchor that were both made anew. Whoever needs more writes the head of `verify` down elsewhere from time to
//! time: where the index is gone as well, an empty folder is a new log, whatever else the data folder holds.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use ring::hmac;
use serde::{Deserialize, Serialize};

use super::error::StartError;
use super::folder::{Folder, create_private};
use super::record::Sha256;

/// One disk sector: written whole or not at all.
const HEAD_BYTES: usize = 512;

/// The last record of a chain: acknowledged, or reached by whoever reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = AuditHead)]
pub struct Head {
    /// Its place in the order of the log.
    pub sequence: u64,
    /// The number of the file that it is in.
    pub segment: u64,
    /// Where in the segment the record after it begins.
    pub offset: u64,
    /// SHA-256 over the record and the hash before it.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub hash: Sha256,
}

#[derive(Serialize, Deserialize)]
struct Signed {
    head: Head,
    /// HMAC-SHA256 with a key, SHA-256 without.
    seal: Sha256,
    keyed: bool,
}

/// Makes and checks the seal of a head.
pub struct Sealer {
    key: Option<hmac::Key>,
}

impl Sealer {
    pub fn new(key: Option<&[u8; 32]>) -> Self {
        Self { key: key.map(|key| hmac::Key::new(hmac::HMAC_SHA256, key)) }
    }

    fn seal(&self, head: &Head) -> Sha256 {
        let mut text = [0; 56];
        text[..8].copy_from_slice(&head.sequence.to_le_bytes());
        text[8..16].copy_from_slice(&head.segment.to_le_bytes());
        text[16..24].copy_from_slice(&head.offset.to_le_bytes());
        text[24..].copy_from_slice(&head.hash.0);
        let Some(key) = &self.key else { return Sha256::of(&text) };
        let mut seal = [0; 32];
        seal.copy_from_slice(hmac::sign(key, &text).as_ref());
        Sha256(seal)
    }

    /// What the file of this folder says; none where there is no file. The file must be whole, and made with
    /// this key.
    pub fn read(&self, folder: &Folder) -> Result<Option<Head>, StartError> {
        let path = folder.head();
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(StartError::io("read", &path))?,
        };
        let signed: Signed = serde_json::from_slice(bytes.trim_ascii_end())
            .map_err(|error| StartError::corrupt(&path, 0, format!("it is not an anchor: {error}")))?;
        // Only a check against a file that its owner wrote; nobody can time it from outside.
        if signed.keyed != self.key.is_some() || signed.seal != self.seal(&signed.head) {
            return Err(StartError::corrupt(&path, 0, "its seal was not made with the key of this daemon"));
        }
        Ok(Some(signed.head))
    }
}

/// The open file, written after every synced group.
pub struct HeadFile {
    file: File,
    sealer: Sealer,
    text: Vec<u8>,
}

impl HeadFile {
    /// Opens the file. A new one gets its name only when `first` is safely in it: a crash leaves none or a
    /// whole one.
    pub fn open(folder: &Folder, sealer: Sealer, first: &Head) -> Result<Self, StartError> {
        let path = folder.head();
        if path.exists() {
            let file = create_private(&path, false).map_err(StartError::io("open", &path))?;
            return Ok(Self { file, sealer, text: Vec::new() });
        }
        Self::make(folder, sealer, first).map_err(StartError::io("make", &path))
    }

    fn make(folder: &Folder, sealer: Sealer, first: &Head) -> io::Result<Self> {
        let path = folder.head().with_extension("new");
        let mut made = Self { file: create_private(&path, false)?, sealer, text: Vec::new() };
        made.write(first)?;
        made.file.sync_all()?;
        std::fs::rename(path, folder.head())?;
        folder.sync()?;
        Ok(made)
    }

    pub fn write(&mut self, head: &Head) -> io::Result<()> {
        let signed = Signed { head: *head, seal: self.sealer.seal(head), keyed: self.sealer.key.is_some() };
        self.text.clear();
        serde_json::to_writer(&mut self.text, &signed)?;
        self.text.resize(HEAD_BYTES - 1, b' ');
        self.text.push(b'\n');
        self.file.write_all_at(&self.text, 0)
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
