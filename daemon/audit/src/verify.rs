//! Verification: reads the whole log and reports the first record that is not what was written.
//!
//! Detected: any changed bit of a record or header; a record or segment that was removed, inserted, moved or duplicated; bytes after
//! the last record of a finished segment; and, as far as there is an anchor (the memory of the running daemon, else the
//! file `head`, see `anchor.rs`), an end that is missing or was rewritten. Not detected: calls that were never recorded, and a
//! folder replaced together with the index by an older copy while the daemon was down. Recoveries that a crash does not explain
//! stay in the chain and are listed, and so are restores from a backup (`origin.rs`). A recovery that lost acknowledged records makes every later report not ok: the chain
//! continues after the remaining records and is intact without the lost ones. A loss that an operator accepted (`loss.rs`) is listed too. A log that was cut (`retention.rs`) is read from the
//! cut on, which a record of the chain must name.

use std::fs::File;
use std::io;

use super::anchor::Sealer;
use super::error::StartError;
use super::folder::Folder;
use super::format::RecordKind;
use super::origin::noted_restore;
use super::reader::{ChainLink, Reader, Step};
use super::record::{Anchor, AnchorSource, Corruption, NotedRecovery, VerifyReport};
use super::record::{Recovery, Sha256};
use super::recover::last_data;
use super::retention::CutDetails;

/// Verifies the log of a stopped daemon, with its key.
pub fn verify_folder(dir: &std::path::Path, key: Option<&[u8; 32]>) -> Result<VerifyReport, StartError> {
    let folder = Folder::at(dir);
    let _lock = folder.lock()?;
    verify_locked(&folder, &Sealer::new(key))
}

/// Verifies the log of a stopped daemon, whose folder the caller locked.
pub(crate) fn verify_locked(folder: &Folder, sealer: &Sealer) -> Result<VerifyReport, StartError> {
    let (goal, unreadable) = match sealer.read(folder) {
        Ok(head) => (head, None),
        Err(StartError::Corrupt { file, offset, what }) => (None, Some(Corruption { file, offset, what })),
        Err(error) => return Err(error),
    };
    let cut = sealer.read_cut(folder)?;
    let anchor = if goal.is_some() { AnchorSource::HeadFile } else { AnchorSource::None };
    let verified = verify(folder, (goal, anchor), cut, u64::MAX);
    let mut report = verified.map_err(StartError::io("verify", folder.dir()))?;
    report.first_bad = unreadable.or(report.first_bad);
    Ok(with_verdict(report))
}

/// Verifies the log of this daemon, up to its last durable record.
pub(crate) fn verify_live(folder: &Folder, durable: Anchor, cut: Option<Anchor>) -> io::Result<VerifyReport> {
    verify(folder, (Some(durable), AnchorSource::Daemon), cut, durable.offset)
}

fn verify(
    folder: &Folder,
    (goal, source): (Option<Anchor>, AnchorSource),
    cut: Option<Anchor>,
    limit: u64,
) -> io::Result<VerifyReport> {
    let report = VerifyReport {
        ok: true,
        records: 0,
        segments: 0,
        head: cut.unwrap_or(Anchor::empty(0)),
        cut,
        anchor: source,
        first_bad: None,
        suspicious: Vec::new(),
        restores: Vec::new(),
    };
    let newest = folder.segments()?.last().copied().unwrap_or(0);
    let begin = cut.unwrap_or(Anchor::empty(0));
    let link = ChainLink { hash: begin.hash.0, sequence: begin.sequence + 1 };
    let mut walk = ChainWalk { folder, goal, limit, link, cut_is_recorded: false, report };
    let live = source == AnchorSource::Daemon;
    let last = goal.map_or(newest, |head| if live { head.segment } else { newest.max(head.segment) });
    for segment in begin.segment + 1..=last {
        if !walk.read_segment(segment)? {
            break;
        }
    }
    walk.check_goal_reached();
    walk.check_cut_recorded();
    Ok(with_verdict(walk.report))
}

fn with_verdict(report: VerifyReport) -> VerifyReport {
    let lost = report.suspicious.iter().any(|noted| noted.recovery.has_loss());
    VerifyReport { ok: report.first_bad.is_none() && !lost, ..report }
}

struct ChainWalk<'a> {
    folder: &'a Folder,
    goal: Option<Anchor>,
    limit: u64,
    link: ChainLink,
    /// The chain has the record of the cut that the log begins after.
    cut_is_recorded: bool,
    report: VerifyReport,
}

impl ChainWalk<'_> {
    /// Returns whether the segment is valid to its end.
    fn read_segment(&mut self, number: u64) -> io::Result<bool> {
        let mut reader = match Reader::open(self.folder, number) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(self.report_damage(number, 0, "the file is missing"));
            }
            opened => opened?,
        };
        if self.goal.is_some_and(|head| head.segment == number) {
            reader = reader.with_limit(self.limit);
        }
        let Ok((header, hash)) = reader.header()? else {
            return Ok(self.report_damage(number, 0, "its header is damaged"));
        };
        if (header.segment, header.first_sequence, header.previous_hash)
            != (number, self.link.sequence, self.link.hash)
        {
            return Ok(self.report_damage(number, 0, "it does not follow from the segment before it"));
        }
        self.link.hash = hash;
        self.report.segments += 1;
        self.report.head = Anchor { segment: number, offset: reader.offset(), ..self.report.head };
        self.read_records(number, &mut reader)
    }

    fn read_records(&mut self, number: u64, reader: &mut Reader) -> io::Result<bool> {
        loop {
            let mut link = self.link;
            let (sequence, offset) = match reader.next(&mut link)? {
                Step::End => return self.check_end(number, reader.offset()),
                Step::Bad(what) => return Ok(self.report_damage(number, reader.offset(), what)),
                Step::Record { offset, header, payload } => {
                    if header.kind == RecordKind::Recovery {
                        note_recovery(&mut self.report.suspicious, header.sequence, header.at_ms, payload);
                    }
                    if header.kind == RecordKind::Admin {
                        let noted = noted_restore(header.sequence, header.at_ms, payload);
                        self.report.restores.extend(noted);
                    }
                    if let (RecordKind::Admin, Some(cut)) = (header.kind, &self.report.cut) {
                        self.cut_is_recorded |= CutDetails::is_recorded_in(payload, cut);
                    }
                    (header.sequence, offset)
                }
            };
            if self.goal.is_some_and(|head| head.sequence == sequence && head.hash.0 != link.hash) {
                return Ok(self.report_damage(
                    number,
                    offset,
                    format!("record {sequence} is not the one that was acknowledged"),
                ));
            }
            self.link = link;
            self.report.records += 1;
            self.report.head =
                Anchor { sequence, segment: number, offset: reader.offset(), hash: Sha256(link.hash) };
        }
    }

    fn check_end(&mut self, number: u64, offset: u64) -> io::Result<bool> {
        // The daemon writes on after its last durable record.
        let is_written_to = self.report.anchor == AnchorSource::Daemon
            && self.goal.is_some_and(|head| head.segment == number);
        let file = File::open(self.folder.segment(number))?;
        if !is_written_to && last_data(&file, offset)? > offset {
            return Ok(self.report_damage(number, offset, "there is data after the last record"));
        }
        Ok(true)
    }

    fn check_goal_reached(&mut self) {
        let reached = self.report.head;
        if let Some(goal) = self.goal
            && goal.sequence > reached.sequence
            && self.report.first_bad.is_none()
        {
            let what = format!(
                "the log ends with record {}, but record {} was acknowledged",
                reached.sequence, goal.sequence
            );
            self.report_damage(reached.segment.max(1), reached.offset, what);
        }
    }

    fn check_cut_recorded(&mut self) {
        if let Some(cut) = self.report.cut
            && !self.cut_is_recorded
            && self.report.first_bad.is_none()
        {
            let what =
                format!("records up to {} are missing, and no record says that they were cut", cut.sequence);
            self.report_damage(cut.segment + 1, 0, what);
        }
    }

    fn report_damage(&mut self, segment: u64, offset: u64, what: impl Into<String>) -> bool {
        self.report.first_bad =
            Some(Corruption { file: self.folder.segment(segment), offset, what: what.into() });
        false
    }
}

fn note_recovery(suspicious: &mut Vec<NotedRecovery>, sequence: u64, at_ms: u64, payload: &[u8]) {
    let Ok(recovery) = serde_json::from_slice::<Recovery>(payload) else { return };
    if recovery.is_suspicious() {
        suspicious.push(NotedRecovery { sequence, at_ms, recovery });
    }
}
