//! Export of the log of a stopped daemon, also of a damaged log: every intact record, and a gap in the place of the others.

use std::io;
use std::path::Path;

use super::anchor::Sealer;
use super::data_keys::DataKeys;
use super::error::StartError;
use super::export::{ExportQuery, Exporter};
use super::folder::{Folder, FolderLock};
use super::record::{Anchor, Sha256, VerifyReport};
use super::search::LogContent;
use super::verify::verify_locked;

/// Reads the log of a stopped daemon in chunks of lines. The folder is locked until it is dropped.
pub struct FolderExport {
    exporter: Exporter,
    report: VerifyReport,
    end: Anchor,
    has_ended: bool,
    _lock: FolderLock,
}

impl FolderExport {
    /// Locks and verifies the log in `dir`. `key` sealed its `head`; without `data_keys`, encrypted arguments are left out.
    ///
    /// # Errors
    ///
    /// A daemon holds the folder, or a file cannot be read. Damage is no error: [`report`](Self::report) tells of it.
    pub fn open(
        dir: &Path,
        key: &[u8; 32],
        data_keys: Option<DataKeys>,
        query: ExportQuery,
    ) -> Result<Self, StartError> {
        let (folder, sealer) = (Folder::at(dir), Sealer::new(Some(key)));
        let lock = folder.lock()?;
        let report = verify_locked(&folder, &sealer)?;
        let content = LogContent { folder: folder.clone(), keys: data_keys };
        let exporter = |query| Exporter::from_first(content.clone(), query, report.cut);
        let end = match report.first_bad {
            None => report.head,
            Some(_) => {
                let last = last_intact(&folder, exporter(ExportQuery::default()));
                let last = last.map_err(StartError::io("read", dir))?;
                let head = sealer.read(&folder).ok().flatten();
                head.filter(|head| head.sequence > last.sequence).unwrap_or(last)
            }
        };
        let exporter = exporter(query);
        Ok(Self { exporter, report, end, has_ended: false, _lock: lock })
    }

    /// What is wrong with the log, if anything is.
    pub fn report(&self) -> &VerifyReport {
        &self.report
    }

    /// Sequence of the last record that is exported, or of the last acknowledged one, which is then part of a gap.
    pub fn last_sequence(&self) -> u64 {
        self.end.sequence
    }

    /// Reads the next lines; `None` after the last one.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.has_ended {
            return Ok(None);
        }
        let mut lines = self.exporter.read(self.end)?;
        if self.exporter.has_reached(self.end) {
            self.has_ended = true;
            lines.extend(self.exporter.end());
        }
        Ok(Some(lines))
    }
}

/// Finds the last intact record, also behind damaged ones.
fn last_intact(folder: &Folder, mut exporter: Exporter) -> io::Result<Anchor> {
    let segment = folder.segments()?.last().copied().unwrap_or(0);
    let limit = Anchor { sequence: u64::MAX, segment, offset: u64::MAX, hash: Sha256([0; 32]) };
    while !exporter.has_reached(limit) {
        exporter.read(limit)?;
    }
    Ok(exporter.last_read())
}
