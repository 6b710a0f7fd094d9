//! Export: the records of the log in their order, as lines of JSON with the hashes that prove them.
//!
//! The exporter reads the segments, not the index, and validates each record as `verify` does. Damaged and missing records
//! become a gap with its reason, and reading continues after it. An export of one organization has its calls with their effects
//! and outcomes, and its acts; a record without organization of its own belongs to the intent that it names.
//!
//! A tenant does not see the rules of the platform. The hash of such a record, and those of the records after it whose content
//! the tenant knows, would confirm a guess of the rule. They are left out until a call of another organization, which has a
//! random session id, stands in between.

use std::collections::HashSet;
use std::io;

use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::{QueryBuilder, Row as _, Sqlite, SqlitePool};
use tokio::sync::watch;
use toolgate_admission::Layer;
use toolgate_api::audit_export::{
    ExportBegin, ExportEnd, ExportGap, ExportKind, ExportLine, ExportRecord, ExportSegment,
};
use toolgate_macros::boxed;

use super::data_keys::{OpenedPart, act_aad, call_aad, effect_aad, open_part};
use super::error::AuditError;
use super::folder::Folder;
use super::format::{Hash, RecordHeader, RecordKind, SegmentHeader};
use super::reader::{ChainLink, Reader, Step, resync};
use super::record::{Anchor, CallIntent, Reason, Sha256};
use super::search::LogContent;
use super::sql_number::{integer, natural};
use super::{Audit, blocking};

/// Bytes of lines that are read at once. The last line may go beyond.
const CHUNK_BYTES: usize = 256 * 1024;

/// Segments without a wanted record that are read at once.
const SEGMENTS_AT_ONCE: usize = 2;

/// Open intents that are looked up in one query.
const LOOKED_UP: usize = 500;

/// Scope and beginning of an export.
#[derive(Clone, Debug, Default)]
pub struct ExportQuery {
    /// Only records of this organization.
    pub organization: Option<String>,
    /// Only records from this time on.
    pub since_ms: Option<u64>,
    /// Only records before this time.
    pub until_ms: Option<u64>,
    /// Only records after this one; without it, all.
    pub after: Option<u64>,
    /// The reader is a tenant, and does not see rules of the platform.
    pub hides_platform: bool,
}

/// Reads the log in chunks of lines.
pub struct Exporter {
    content: LogContent,
    query: ExportQuery,
    after: u64,
    /// Position after the last record that was read. With the offset 0, the segment's header is read next.
    at: Anchor,
    /// Intents of the organization without outcome; empty in an export of all.
    open_intents: HashSet<u64>,
    /// The hash of the last record would confirm a guess of a hidden rule.
    hash_is_secret: bool,
    has_begun: bool,
    /// The last record that was read; none of those that were skipped.
    last_read: Anchor,
}

/// The organization of a record.
#[derive(Deserialize)]
struct RecordOwner {
    #[serde(default)]
    organization: Option<String>,
}

/// The layer that decided a call.
#[derive(Deserialize)]
struct CallDecision {
    reason: Reason<'static>,
}

#[boxed]
impl Audit {
    /// Begins an export. Sees every record that was acknowledged before.
    pub async fn export(&self, query: ExportQuery) -> Result<Exporter, AuditError> {
        // A log that failed can still be read up to its last durable record.
        let _ = self.sync().await;
        let durable = self.anchor();
        let after = query.after.unwrap_or(0);
        if after > durable.sequence {
            return Err(AuditError::BadCursor { cursor: after.to_string() });
        }
        let (folder, cut) = (self.log.folder.clone(), self.cut()?);
        let found = blocking(move || find_start(&folder, after, cut, durable)).await?;
        let (at, intents) = found.unwrap_or((durable, Vec::new()));
        let open_intents = match &query.organization {
            None => HashSet::new(),
            Some(organization) => {
                self.log.index.catch_up(at.sequence.min(durable.sequence)).await?;
                owned_intents(&self.log.index.reading, organization, &intents).await?
            }
        };
        // The records before the first segment that is read may have a hidden rule.
        let hash_is_secret = query.hides_platform && at.sequence > 0;
        let content = self.log.content();
        let (has_begun, last_read) = (false, at);
        Ok(Exporter { content, query, after, at, open_intents, hash_is_secret, has_begun, last_read })
    }

    /// Receives the sequence of the last durable record after each change.
    pub fn durable_changes(&self) -> watch::Receiver<u64> {
        self.log.progress.changes()
    }
}

/// Finds the segment with the first record after `after`: the position before its header, and the intents that were open there.
fn find_start(
    folder: &Folder,
    after: u64,
    cut: Option<Anchor>,
    durable: Anchor,
) -> io::Result<Option<(Anchor, Vec<u64>)>> {
    let first = cut.map_or(1, |cut| cut.segment + 1);
    let segments = folder.segments()?;
    let mut start = None;
    for segment in segments.into_iter().rev().filter(|segment| (first..=durable.segment).contains(segment)) {
        let Ok((header, _)) = Reader::open(folder, segment)?.header()? else { continue };
        let begins_before = header.first_sequence <= after + 1;
        start = Some((position_before(&header), header.open_intents));
        if begins_before {
            break;
        }
    }
    Ok(start)
}

fn position_before(header: &SegmentHeader) -> Anchor {
    Anchor {
        sequence: header.first_sequence.saturating_sub(1),
        segment: header.segment,
        offset: 0,
        hash: Sha256(header.previous_hash),
    }
}

/// Returns the intents that are the organization's.
async fn owned_intents(
    reading: &SqlitePool,
    organization: &str,
    intents: &[u64],
) -> Result<HashSet<u64>, AuditError> {
    let mut owned = HashSet::new();
    for intents in intents.chunks(LOOKED_UP) {
        let mut sql = QueryBuilder::<Sqlite>::new("SELECT sequence FROM rows WHERE organization = ");
        sql.push_bind(organization.to_owned()).push(" AND sequence IN (");
        let mut list = sql.separated(", ");
        for sequence in intents {
            list.push_bind(integer(*sequence));
        }
        sql.push(")");
        let found = sql.build().persistent(false).fetch_all(reading).await?;
        owned.extend(found.iter().map(|row| natural(row.get("sequence"))));
    }
    Ok(owned)
}

impl Exporter {
    /// Begins an export that reads from the first record of the log on; `cut` is the last one that retention removed.
    pub(crate) fn from_first(content: LogContent, query: ExportQuery, cut: Option<Anchor>) -> Self {
        let begin = cut.unwrap_or(Anchor::empty(0));
        let at = Anchor { segment: begin.segment + 1, offset: 0, ..begin };
        let (after, hash_is_secret) = (query.after.unwrap_or(0), query.hides_platform && at.sequence > 0);
        let open_intents = HashSet::new();
        Self { content, query, after, at, open_intents, hash_is_secret, has_begun: false, last_read: at }
    }

    /// The last intact record that was read.
    pub(crate) fn last_read(&self) -> Anchor {
        self.last_read
    }

    /// Whether everything up to the record `durable` was read.
    pub fn has_reached(&self, durable: Anchor) -> bool {
        self.at.sequence >= durable.sequence
    }

    /// Reads the next lines, up to the record `durable`, of a bounded part of the log.
    pub fn read(&mut self, durable: Anchor) -> io::Result<Vec<u8>> {
        let mut lines = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            self.begin(&mut lines);
        }
        for _ in 0..SEGMENTS_AT_ONCE {
            if self.has_reached(durable) || lines.len() >= CHUNK_BYTES {
                break;
            }
            self.read_segment(durable, &mut lines)?;
        }
        Ok(lines)
    }

    /// The last line, once everything was read.
    pub fn end(&self) -> Vec<u8> {
        let mut line = Vec::new();
        let cursor = self.at.sequence.max(self.after).to_string();
        let hash = (!self.hash_is_secret).then_some(self.at.hash);
        write_line(&mut line, &ExportLine::End(ExportEnd { cursor, hash }));
        line
    }

    fn begin(&self, lines: &mut Vec<u8>) {
        let ExportQuery { organization, since_ms, until_ms, .. } = self.query.clone();
        let begin = ExportBegin { after: self.after.to_string(), organization, since_ms, until_ms };
        write_line(lines, &ExportLine::Begin(begin));
        self.report_gap(self.after, self.at.sequence, "they were cut from the log", lines);
    }

    fn report_gap(&self, after: u64, to: u64, what: &str, lines: &mut Vec<u8>) {
        let from = after.max(self.after) + 1;
        if from <= to {
            write_line(lines, &ExportLine::Gap(ExportGap { from, to, what: what.to_owned() }));
        }
    }

    /// Reads one segment to its end, to the last durable record, or until there are enough lines.
    fn read_segment(&mut self, durable: Anchor, lines: &mut Vec<u8>) -> io::Result<()> {
        let mut reader = match Reader::open(&self.content.folder, self.at.segment) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.skip("the file of the segment is missing", durable, lines);
            }
            opened => opened?,
        };
        if self.at.offset == 0 {
            match reader.header()? {
                Ok((header, hash)) if position_before(&header) == self.at => {
                    self.write_segment(header, hash, lines);
                    (self.at.offset, self.at.hash) = (reader.offset(), Sha256(hash));
                }
                Ok(_) => {
                    return self.skip("the segment does not follow from the one before it", durable, lines);
                }
                Err(_) => return self.skip("the header of the segment is damaged", durable, lines),
            }
        } else {
            reader = reader.at(self.at.offset);
        }
        if self.at.segment == durable.segment {
            reader = reader.with_limit(durable.offset);
        }
        self.read_records(&mut reader, durable, lines)
    }

    fn read_records(&mut self, reader: &mut Reader, durable: Anchor, lines: &mut Vec<u8>) -> io::Result<()> {
        while lines.len() < CHUNK_BYTES && self.at.sequence < durable.sequence {
            let mut link = ChainLink { hash: self.at.hash.0, sequence: self.at.sequence + 1 };
            match reader.next(&mut link)? {
                Step::Record { header, payload, .. } => {
                    let previous = self.at.hash.0;
                    let belongs = self.belongs(&header, payload);
                    self.note_decision(&header, payload, belongs);
                    if belongs && self.is_wanted(&header) {
                        self.write_record(&header, previous, payload, lines);
                    }
                }
                Step::End if self.at.segment < durable.segment => {
                    (self.at.segment, self.at.offset) = (self.at.segment + 1, 0);
                    return Ok(());
                }
                Step::End => return self.skip("the segment ends too early", durable, lines),
                Step::Bad(what) => return self.skip(&what, durable, lines),
            }
            (self.at.sequence, self.at.offset) = (link.sequence - 1, reader.offset());
            self.at.hash = Sha256(link.hash);
            self.last_read = self.at;
        }
        Ok(())
    }

    /// Skips damaged records.
    fn skip(&mut self, what: &str, durable: Anchor, lines: &mut Vec<u8>) -> io::Result<()> {
        let point = resync(&self.content.folder, self.at, durable)?;
        self.report_gap(self.at.sequence, point.from.sequence, what, lines);
        self.at = point.from;
        self.hash_is_secret = self.query.hides_platform;
        Ok(())
    }

    /// Notes whether the record's hash would confirm a guess of a hidden rule, in it or before it.
    fn note_decision(&mut self, header: &RecordHeader, payload: &[u8], belongs: bool) {
        if !self.query.hides_platform || header.kind != RecordKind::CallOpen {
            return;
        }
        let is_shown = serde_json::from_slice::<CallDecision>(payload)
            .is_ok_and(|call| call.reason.layer != Layer::Platform.as_str());
        self.hash_is_secret = !is_shown || (belongs && self.hash_is_secret);
    }

    /// Whether the record is the organization's.
    fn belongs(&mut self, header: &RecordHeader, payload: &[u8]) -> bool {
        let Some(organization) = &self.query.organization else { return true };
        match header.kind {
            RecordKind::Effect => self.open_intents.contains(&header.of),
            RecordKind::Close => self.open_intents.remove(&header.of),
            RecordKind::Recovery => false,
            RecordKind::CallOpen | RecordKind::Admin | RecordKind::AdminOpen => {
                let owner = serde_json::from_slice::<RecordOwner>(payload).ok();
                let belongs =
                    owner.and_then(|owner| owner.organization).is_some_and(|own| own == *organization);
                if belongs && header.kind.is_intent() {
                    self.open_intents.insert(header.sequence);
                }
                belongs
            }
        }
    }

    fn is_wanted(&self, header: &RecordHeader) -> bool {
        header.sequence > self.after
            && self.query.since_ms.is_none_or(|since_ms| header.at_ms >= since_ms)
            && self.query.until_ms.is_none_or(|until_ms| header.at_ms < until_ms)
    }

    fn write_segment(&self, header: SegmentHeader, hash: Hash, lines: &mut Vec<u8>) {
        if self.query.organization.is_some() || header.first_sequence <= self.after {
            return;
        }
        let SegmentHeader { segment, first_sequence, made_at_ms, previous_hash, open_intents } = header;
        let (previous_hash, hash) = (Sha256(previous_hash), Sha256(hash));
        let segment =
            ExportSegment { segment, first_sequence, made_at_ms, previous_hash, open_intents, hash };
        write_line(lines, &ExportLine::Segment(segment));
    }

    fn write_record(&self, header: &RecordHeader, previous: Hash, payload: &[u8], lines: &mut Vec<u8>) {
        match self.record(header, previous, payload) {
            Ok(record) => write_line(lines, &ExportLine::Record(record)),
            Err(error) => {
                let what = format!("the record has another kind of content: {error}");
                self.report_gap(header.sequence - 1, header.sequence, &what, lines);
            }
        }
    }

    fn record(
        &self,
        header: &RecordHeader,
        previous: Hash,
        payload: &[u8],
    ) -> Result<ExportRecord, serde_json::Error> {
        let recorded: &RawValue = serde_json::from_slice(payload)?;
        let is_provable = !self.hash_is_secret;
        let has_breaks = payload.contains(&b'\n') || payload.contains(&b'\r');
        let mut record = ExportRecord {
            sequence: header.sequence,
            kind: export_kind(header.kind),
            at_ms: header.at_ms,
            of: header.of,
            durable: header.durable,
            previous_hash: is_provable.then_some(Sha256(previous)),
            hash: is_provable.then_some(Sha256(header.hash)),
            not_provable: !is_provable,
            payload_text: (is_provable && has_breaks).then(|| recorded.get().to_owned()),
            arguments: None,
            detail: None,
            arguments_deleted: false,
            payload: self.shown_payload(header.kind, recorded)?,
        };
        match self.open_part(header, payload)? {
            OpenedPart::Plain => {}
            // Without any key, nothing is known about deletion.
            OpenedPart::Deleted => record.arguments_deleted = self.content.keys.is_some(),
            OpenedPart::Text(detail) if header.kind == RecordKind::Effect => record.detail = Some(detail),
            OpenedPart::Text(arguments) => record.arguments = Some(on_one_line(&arguments)?),
        }
        Ok(record)
    }

    fn open_part(&self, header: &RecordHeader, payload: &[u8]) -> Result<OpenedPart, serde_json::Error> {
        let aad = match header.kind {
            RecordKind::CallOpen => call_aad(&serde_json::from_slice(payload)?),
            RecordKind::AdminOpen => act_aad(&serde_json::from_slice(payload)?),
            RecordKind::Effect => effect_aad(header.of),
            _ => return Ok(OpenedPart::Plain),
        };
        open_part(self.content.keys.as_ref(), payload, &aad)
    }

    /// The payload on one line, for tenants without the rules of the platform.
    fn shown_payload(&self, kind: RecordKind, text: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
        if self.query.hides_platform && kind == RecordKind::CallOpen {
            let mut intent: CallIntent<'static> = serde_json::from_str(text.get())?;
            if intent.reason.layer == Layer::Platform.as_str() {
                intent.reason.hide();
                return on_one_line(&serde_json::to_string(&intent)?);
            }
        }
        on_one_line(text.get())
    }
}

/// A line break in JSON stands between tokens, where a space means the same.
fn on_one_line(text: &str) -> Result<Box<RawValue>, serde_json::Error> {
    RawValue::from_string(text.replace(['\n', '\r'], " "))
}

fn export_kind(kind: RecordKind) -> ExportKind {
    match kind {
        RecordKind::CallOpen => ExportKind::Call,
        RecordKind::Close => ExportKind::Outcome,
        RecordKind::Effect => ExportKind::Effect,
        RecordKind::Admin => ExportKind::Act,
        RecordKind::Recovery => ExportKind::Recovery,
        RecordKind::AdminOpen => ExportKind::ActIntent,
    }
}

fn write_line(lines: &mut Vec<u8>, line: &ExportLine) {
    // INVARIANT: lines are structs with string keys: they always serialize.
    let _ = serde_json::to_writer(&mut *lines, line);
    lines.push(b'\n');
}
