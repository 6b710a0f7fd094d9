//! The part of a log that a backup takes: every record up to the last acknowledged one.
//!
//! Reads the files alone, so that it works beside a running daemon and without one. Segments are only appended to, and the
//! file `head` names the end of what is acknowledged. They are linked into the folder of the backup first, since
//! retention may remove them meanwhile.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::anchor::Sealer;
use super::error::StartError;
use super::folder::Folder;
use super::origin::restored_text;
use super::reader::read_up_to;
use super::record::{Anchor, RestoredFrom, Sha256};

/// Attempts to read `head` and to link the segments, while a daemon writes to the first and removes the others.
const ATTEMPTS: usize = 10;

/// Records are aligned to this many bytes, with zeros that a copy keeps.
const ALIGNMENT: u64 = 8;

/// Bytes that are searched at once for the end of a segment.
const CHUNK_BYTES: usize = 64 * 1024;

/// A log as it is copied.
pub struct LogCopy {
    /// The last record in it.
    pub head: Anchor,
    /// The segments, ascending.
    pub segments: Vec<SegmentCopy>,
    /// The small files, with their content.
    pub files: Vec<(String, Vec<u8>)>,
}

/// A segment as it is copied.
pub struct SegmentCopy {
    /// The name of its file.
    pub name: String,
    /// The file to read.
    pub path: PathBuf,
    /// The number of bytes to read; the rest is allocated space.
    pub bytes: u64,
}

/// Collects the log in `dir` in the empty folder `staging`. `restored` describes the backup, given its last record; the
/// description goes into the log that is restored.
pub fn stage_log(
    dir: &Path,
    key: &[u8; 32],
    staging: &Path,
    restored: impl FnOnce(Anchor) -> RestoredFrom,
) -> Result<LogCopy, StartError> {
    let (folder, sealer) = (Folder::at(dir), Sealer::new(Some(key)));
    for _ in 0..ATTEMPTS {
        let cut = sealer.read_cut(&folder)?;
        let head = read_head(&folder, &sealer)?;
        let first = cut.map_or(1, |cut| cut.segment + 1);
        let Some(segments) = link_segments(&folder, staging, first, &head)? else { continue };
        if sealer.read_cut(&folder)? != cut {
            continue;
        }
        let mut files = vec![
            ("head".to_owned(), sealer.head_text(&head).map_err(io_error(&folder.anchor()))?),
            ("restored".to_owned(), seal_restored(&folder, &sealer, &restored(head))?),
        ];
        if cut.is_some() {
            let text = std::fs::read(folder.cut()).map_err(StartError::io("read", &folder.cut()))?;
            files.push(("cut".to_owned(), text));
        }
        return Ok(LogCopy { head, segments, files });
    }
    Err(StartError::corrupt(dir, 0, "its segments were removed while they were copied"))
}

/// Computes the seal of `text` with the key of the log. `purpose` tells it from seals for other purposes.
pub fn seal_text(key: &[u8; 32], purpose: &str, text: &[u8]) -> Sha256 {
    Sealer::new(Some(key)).seal_text(purpose, text)
}

/// Whether the `head` file in `dir` was sealed with `key`.
pub fn is_sealed_by(dir: &Path, key: &[u8; 32]) -> Result<bool, StartError> {
    match Sealer::new(Some(key)).read(&Folder::at(dir)) {
        Ok(head) => Ok(head.is_some()),
        Err(StartError::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn seal_restored(folder: &Folder, sealer: &Sealer, from: &RestoredFrom) -> Result<Vec<u8>, StartError> {
    restored_text(sealer, from).map_err(StartError::io("seal", &folder.restored_file()))
}

/// Reads `head`. A daemon rewrites it in place, so a read may see a half of two.
fn read_head(folder: &Folder, sealer: &Sealer) -> Result<Anchor, StartError> {
    let missing = || StartError::corrupt(&folder.anchor(), 0, "the file is missing, so there is no log");
    let mut read = sealer.read(folder);
    for _ in 1..ATTEMPTS {
        if !matches!(read, Err(StartError::Corrupt { .. })) {
            break;
        }
        read = sealer.read(folder);
    }
    read?.ok_or_else(missing)
}

/// Links the segments from `first` to that of `head`; `None` if one is no longer there.
fn link_segments(
    folder: &Folder,
    staging: &Path,
    first: u64,
    head: &Anchor,
) -> Result<Option<Vec<SegmentCopy>>, StartError> {
    let mut segments = Vec::new();
    for number in first..=head.segment {
        let source = folder.segment(number);
        let name = source.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let link = staging.join(&name);
        let path = match std::fs::hard_link(&source, &link) {
            Ok(()) => link,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => link,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Another file system, or one without links: read in place.
            Err(_) => source,
        };
        let bytes = if number == head.segment { head.offset } else { used_bytes(&path)? };
        segments.push(SegmentCopy { name, path, bytes });
    }
    Ok(Some(segments))
}

/// The bytes of a finished segment up to its last record. Read from the end: the daemon cuts a segment behind its last record, and
/// all of a long log would take minutes.
fn used_bytes(path: &Path) -> Result<u64, StartError> {
    let used = File::open(path).and_then(|file| {
        let length = file.metadata()?.len();
        let (mut chunk, mut end) = (vec![0; CHUNK_BYTES], length);
        while end > 0 {
            let start = end.saturating_sub(CHUNK_BYTES as u64);
            let wanted = usize::try_from(end - start).unwrap_or(CHUNK_BYTES);
            let count = read_up_to(&file, &mut chunk[..wanted], start)?;
            if let Some(last) = chunk[..count].iter().rposition(|byte| *byte != 0) {
                return Ok((start + last as u64 + 1).next_multiple_of(ALIGNMENT).min(length));
            }
            end = start;
        }
        Ok(0)
    });
    used.map_err(StartError::io("read", path))
}

fn io_error(path: &Path) -> impl FnOnce(serde_json::Error) -> StartError {
    move |error| StartError::Io { what: "seal", path: path.to_path_buf(), source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_segment_is_found_behind_its_last_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("segment");
        let used = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            used_bytes(&path).unwrap()
        };
        assert_eq!((used(b""), used(&[0; 99])), (0, 0));
        for (data, zeros) in
            [(1, 0), (3, 100), (16, 0), (8, 3 * CHUNK_BYTES), (CHUNK_BYTES + 1, CHUNK_BYTES - 1)]
        {
            let mut bytes = vec![7; data];
            bytes.resize(data + zeros, 0);
            let expected = data.next_multiple_of(8).min(bytes.len());
            assert_eq!(used(&bytes), expected as u64, "{data} and {zeros}");
        }
    }
}
