//! The file of one session's answers: a head, then records in the order of their ends.
//!
//! The head is the file's data key, encrypted under the daemon's key for answers. A record is its length, whether the call
//! waits for its client, the call's id, and the answer, encrypted under the data key. The associated data binds both to
//! organization and session, and a record to its call. The newest record of a call counts.
//!
//! A kill can tear the last record, and a power loss leave zeros: nothing is read from there on, and the next append cuts
//! it off.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};
use toolgate_sandbox::Secret;
use toolgate_state::keys::KEY_BYTES;
use toolgate_state::keys::envelope::{EnvelopeError, SEALED_OVERHEAD, decrypt, encrypt, length_prefixed};
use zeroize::Zeroizing;

/// Bytes of the head: the encrypted data key.
const HEAD_BYTES: u64 = (KEY_BYTES + SEALED_OVERHEAD) as u64;

/// Bytes of a record before its id: the length of the rest, whether the call waits for its client, the length of the id.
const RECORD_HEAD_BYTES: usize = 4 + 1 + 2;

/// Bytes that storing an answer adds to it and its id.
pub(super) const RECORD_OVERHEAD: usize = RECORD_HEAD_BYTES + SEALED_OVERHEAD;

/// The session that a file belongs to.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub organization: &'a str,
    pub session: &'a str,
}

/// A file that is open for appending.
pub(super) struct Opened {
    pub file: File,
    pub key: Secret,
    /// Its size, up to the last complete record.
    pub bytes: u64,
}

impl Owner<'_> {
    fn key_aad(self) -> Vec<u8> {
        length_prefixed(&[b"toolgate answers key", self.organization.as_bytes(), self.session.as_bytes()])
    }

    fn record_aad(self, at_client: bool, id: &[u8]) -> Vec<u8> {
        let (organization, session) = (self.organization.as_bytes(), self.session.as_bytes());
        length_prefixed(&[b"toolgate answer", organization, session, &[u8::from(at_client)], id])
    }
}

/// The plain part of a record.
struct RecordHead {
    at_client: bool,
    id: Vec<u8>,
    sealed: Range<u64>,
}

/// Opens a file for appending, and makes one where there is none, or none that can be read.
pub(super) fn open(path: &Path, root: &[u8], owner: Owner<'_>) -> io::Result<Opened> {
    match open_existing(path, root, owner) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path, root, owner),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            tracing::warn!(session = owner.session, %error, "the stored answers of a session are given up");
            std::fs::remove_file(path)?;
            create(path, root, owner)
        }
        opened => opened,
    }
}

/// Opens a file again whose key is known.
pub(super) fn reopen(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

fn create(path: &Path, root: &[u8], owner: Owner<'_>) -> io::Result<Opened> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    SystemRandom::new()
        .fill(&mut *key)
        .map_err(|_| io::Error::other("the system returns no random numbers"))?;
    let head = encrypt(root, &owner.key_aad(), &*key).map_err(io::Error::other)?;
    let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
    if let Err(error) = file.write_all(&head) {
        std::fs::remove_file(path)?;
        return Err(error);
    }
    Ok(Opened { file, key: Secret::new(key.to_vec()), bytes: HEAD_BYTES })
}

fn open_existing(path: &Path, root: &[u8], owner: Owner<'_>) -> io::Result<Opened> {
    let file = OpenOptions::new().read(true).append(true).open(path)?;
    let mut key = read_key(&file, root, owner)?;
    let key = Secret::new(std::mem::take(&mut *key));
    let bytes = scan(&file, |_| {})?;
    file.set_len(bytes)?;
    Ok(Opened { file, key, bytes })
}

/// The bytes of a record.
pub(super) fn seal(
    key: &Secret,
    owner: Owner<'_>,
    at_client: bool,
    id: &str,
    plain: &[u8],
) -> io::Result<Vec<u8>> {
    let id = id.as_bytes();
    let sealed = encrypt(key.expose(), &owner.record_aad(at_client, id), plain).map_err(io::Error::other)?;
    let length = RECORD_HEAD_BYTES - 4 + id.len() + sealed.len();
    let too_large = |_| io::Error::other("the answer is too large");
    let mut record = Vec::with_capacity(4 + length);
    record.extend_from_slice(&u32::try_from(length).map_err(too_large)?.to_le_bytes());
    record.push(u8::from(at_client));
    record.extend_from_slice(&u16::try_from(id.len()).map_err(too_large)?.to_le_bytes());
    record.extend_from_slice(id);
    record.extend_from_slice(&sealed);
    Ok(record)
}

/// Reads the newest record of a call.
pub(super) fn read_last(path: &Path, root: &[u8], owner: Owner<'_>, id: &str) -> io::Result<Option<Vec<u8>>> {
    let file = File::open(path)?;
    let key = read_key(&file, root, owner)?;
    let mut last = None;
    scan(&file, |head| {
        if head.id == id.as_bytes() {
            last = Some(head);
        }
    })?;
    last.map(|head| open_record(&file, &key, owner, &head)).transpose()
}

/// Reads the ids of all records.
pub(super) fn read_ids(path: &Path) -> io::Result<Vec<String>> {
    let mut ids = Vec::new();
    scan(&File::open(path)?, |head| ids.extend(String::from_utf8(head.id)))?;
    Ok(ids)
}

/// Reads the records of calls whose newest record says that they wait for their client.
pub(super) fn read_at_client(path: &Path, root: &[u8], owner: Owner<'_>) -> io::Result<Vec<Vec<u8>>> {
    let file = File::open(path)?;
    let key = read_key(&file, root, owner)?;
    let mut waiting: Vec<RecordHead> = Vec::new();
    scan(&file, |head| {
        waiting.retain(|earlier| earlier.id != head.id);
        if head.at_client {
            waiting.push(head);
        }
    })?;
    Ok(waiting.iter().filter_map(|head| open_record(&file, &key, owner, head).ok()).collect())
}

fn read_key(file: &File, root: &[u8], owner: Owner<'_>) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut head = vec![0; usize::try_from(HEAD_BYTES).unwrap_or_default()];
    match file.read_exact_at(&mut head, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is torn"));
        }
        read => read?,
    }
    decrypt(root, &owner.key_aad(), &head).map_err(damage_error)
}

fn open_record(file: &File, key: &[u8], owner: Owner<'_>, head: &RecordHead) -> io::Result<Vec<u8>> {
    let length = head.sealed.end - head.sealed.start;
    let mut sealed = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut sealed, head.sealed.start)?;
    let plain = decrypt(key, &owner.record_aad(head.at_client, &head.id), &sealed);
    Ok(plain.map_err(damage_error)?.to_vec())
}

fn damage_error(error: EnvelopeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Visits the complete records, and returns where the last one ends.
fn scan(file: &File, mut visit: impl FnMut(RecordHead)) -> io::Result<u64> {
    let bytes = file.metadata()?.len();
    let (mut at, mut reader) = (HEAD_BYTES, BufReader::new(file));
    reader.seek(SeekFrom::Start(at))?;
    while let Some(head) = read_head(&mut reader, at, bytes)? {
        at = head.sealed.end;
        reader.seek_relative(i64::try_from(at - head.sealed.start).map_err(io::Error::other)?)?;
        visit(head);
    }
    Ok(at)
}

/// The head of the record at `at`; none where no complete record is there.
fn read_head(reader: &mut impl Read, at: u64, file_bytes: u64) -> io::Result<Option<RecordHead>> {
    let mut fixed = [0; RECORD_HEAD_BYTES];
    if file_bytes.saturating_sub(at) < RECORD_HEAD_BYTES as u64 {
        return Ok(None);
    }
    reader.read_exact(&mut fixed)?;
    let [l0, l1, l2, l3, kind, i0, i1] = fixed;
    let id_bytes = u16::from_le_bytes([i0, i1]);
    let end = at + 4 + u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
    let start = at + RECORD_HEAD_BYTES as u64 + u64::from(id_bytes);
    if kind > 1 || end > file_bytes || end < start + SEALED_OVERHEAD as u64 {
        return Ok(None);
    }
    let mut id = vec![0; usize::from(id_bytes)];
    reader.read_exact(&mut id)?;
    Ok(Some(RecordHead { at_client: kind == 1, id, sealed: start..end }))
}
