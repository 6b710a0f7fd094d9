//! Reads the whole log again and says where it first is not what was written.
//!
//! Found: any changed bit of a record or header, a record or segment taken out, put in, moved or put back
//! twice, anything behind the last record of a finished segment, and an end that is missing or was made anew,
//! as far as there is an anchor: the daemon's memory while it runs, else the `head` file (`head.rs` says what
//! that cannot show). Not found: what was never recorded, and a whole folder put back to an older state, with the
//! index, while the daemon was down. Recoveries that a crash does not explain stay in the chain and are listed. One that
//! found acknowledged records gone makes the report not ok, for as long as this log is kept: the chain goes on from what
//! was left, and is whole without them.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use serde::Serialize;
use utoipa::ToSchema;

use super::error::StartError;
use super::folder::Folder;
use super::format::RecordKind;
use super::head::{Head, Sealer};
use super::reader::{Link, Reader, Step};
use super::record::{Recovery, Sha256};
use super::recover::last_data;

/// What a reading of the whole log found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = AuditVerification)]
pub struct VerifyReport {
    /// Whether everything is as it was written: no bad place, and no recovery that found acknowledged records gone.
    pub ok: bool,
    /// Good records before the first bad place.
    pub records: u64,
    /// Files read.
    pub segments: u64,
    /// The last good record; write its hash down elsewhere to hold the log to it.
    pub head: Head,
    /// What the end of the chain was held against.
    pub anchor: Anchor,
    /// Where the log first is not what was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BadPlace, required = false)]
    pub first_bad: Option<BadPlace>,
    /// Recoveries that noted more than a crash explains. Where one has `lost`, the log is not `ok`; where the `head` file
    /// was missing, nobody can say.
    pub suspicious: Vec<NotedRecovery>,
}

/// What the end of the chain was held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditAnchor)]
pub enum Anchor {
    /// The running daemon, which knows what it synced.
    Daemon,
    /// What the daemon wrote down last.
    HeadFile,
    /// Nothing: a missing end cannot be seen.
    None,
}

/// Where the log is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = AuditBadPlace)]
pub struct BadPlace {
    /// The file on the host of the daemon.
    #[schema(value_type = String)]
    pub file: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

/// A recovery that noted more than a crash explains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = AuditNotedRecovery)]
pub struct NotedRecovery {
    /// Its place in the order of the log.
    pub sequence: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What it found.
    pub recovery: Recovery,
}

/// Verifies the log of a daemon that is not running, with the key that it had.
pub fn verify_folder(dir: &std::path::Path, key: Option<&[u8; 32]>) -> Result<VerifyReport, StartError> {
    let folder = Folder::at(dir);
    let _lock = folder.lock()?;
    let (goal, unreadable) = match Sealer::new(key).read(&folder) {
        Ok(head) => (head, None),
        Err(StartError::Corrupt { file, offset, what }) => (None, Some(BadPlace { file, offset, what })),
        Err(error) => return Err(error),
    };
    let anchor = if goal.is_some() { Anchor::HeadFile } else { Anchor::None };
    let mut report = verify(&folder, goal, anchor, u64::MAX).map_err(StartError::io("verify", dir))?;
    report.first_bad = unreadable.or(report.first_bad);
    Ok(report.judged())
}

/// Verifies up to what a running daemon has synced.
pub fn verify_live(folder: &Folder, durable: Head) -> io::Result<VerifyReport> {
    verify(folder, Some(durable), Anchor::Daemon, durable.offset)
}

fn verify(folder: &Folder, goal: Option<Head>, anchor: Anchor, limit: u64) -> io::Result<VerifyReport> {
    let start = Head { sequence: 0, segment: 0, offset: 0, hash: Sha256([0; 32]) };
    let report = VerifyReport {
        ok: true,
        records: 0,
        segments: 0,
        head: start,
        anchor,
        first_bad: None,
        suspicious: Vec::new(),
    };
    let newest = folder.segments()?.last().copied().unwrap_or(0);
    let mut walk = Walk { folder, goal, limit, link: Link { hash: [0; 32], sequence: 1 }, report };
    let live = anchor == Anchor::Daemon;
    let last = goal.map_or(newest, |head| if live { head.segment } else { newest.max(head.segment) });
    for segment in 1..=last {
        if !walk.segment(segment)? {
            break;
        }
    }
    walk.check_goal_reached();
    Ok(walk.report.judged())
}

impl VerifyReport {
    fn judged(self) -> Self {
        let lost = self.suspicious.iter().any(|noted| noted.recovery.lost.is_some());
        Self { ok: self.first_bad.is_none() && !lost, ..self }
    }
}

struct Walk<'a> {
    folder: &'a Folder,
    goal: Option<Head>,
    limit: u64,
    link: Link,
    report: VerifyReport,
}

impl Walk<'_> {
    /// Whether the segment was good to its end.
    fn segment(&mut self, number: u64) -> io::Result<bool> {
        let mut reader = match Reader::open(self.folder, number) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(self.bad(number, 0, "the file is missing"));
            }
            opened => opened?,
        };
        if self.goal.is_some_and(|head| head.segment == number) {
            reader = reader.limited(self.limit);
        }
        let Ok((header, hash)) = reader.header()? else {
            return Ok(self.bad(number, 0, "its header is damaged"));
        };
        if (header.segment, header.first_sequence, header.previous_hash)
            != (number, self.link.sequence, self.link.hash)
        {
            return Ok(self.bad(number, 0, "it does not follow from the segment before it"));
        }
        self.link.hash = hash;
        self.report.segments += 1;
        self.report.head = Head { segment: number, offset: reader.offset(), ..self.report.head };
        self.records(number, &mut reader)
    }

    fn records(&mut self, number: u64, reader: &mut Reader) -> io::Result<bool> {
        loop {
            let mut link = self.link;
            let (sequence, offset) = match reader.next(&mut link)? {
                Step::End => return self.end(number, reader.offset()),
                Step::Bad(what) => return Ok(self.bad(number, reader.offset(), what)),
                Step::Record { offset, header, payload } => {
                    if header.kind == RecordKind::Recovery {
                        note(&mut self.report.suspicious, header.sequence, header.at_ms, payload);
                    }
                    (header.sequence, offset)
                }
            };
            if self.goal.is_some_and(|head| head.sequence == sequence && head.hash.0 != link.hash) {
                return Ok(self.bad(
                    number,
                    offset,
                    format!("record {sequence} is not the one that was acknowledged"),
                ));
            }
            self.link = link;
            self.report.records += 1;
            self.report.head =
                Head { sequence, segment: number, offset: reader.offset(), hash: Sha256(link.hash) };
        }
    }

    fn end(&mut self, number: u64, offset: u64) -> io::Result<bool> {
        // Behind the goal the daemon goes on writing.
        let is_written_to =
            self.report.anchor == Anchor::Daemon && self.goal.is_some_and(|head| head.segment == number);
        let file = File::open(self.folder.segment(number))?;
        if !is_written_to && last_data(&file, offset)? > offset {
            return Ok(self.bad(number, offset, "something stands behind the last record"));
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
            self.bad(reached.segment.max(1), reached.offset, what);
        }
    }

    fn bad(&mut self, segment: u64, offset: u64, what: impl Into<String>) -> bool {
        self.report.first_bad =
            Some(BadPlace { file: self.folder.segment(segment), offset, what: what.into() });
        false
    }
}

fn note(suspicious: &mut Vec<NotedRecovery>, sequence: u64, at_ms: u64, payload: &[u8]) {
    let Ok(recovery) = serde_json::from_slice::<Recovery>(payload) else { return };
    if recovery.is_suspicious() {
        suspicious.push(NotedRecovery { sequence, at_ms, recovery });
    }
}
