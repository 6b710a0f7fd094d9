//! `toolgate audit verify --file`: verifies exported files, without a daemon.
//!
//! Hashes show that the files fit together: each covers its record and the hash before it, also from file to file. They have no
//! key, so that anyone can compute them. Only a hash that the daemon told elsewhere proves that it recorded what the files have:
//! all records up to that hash in an export of everything, that record alone in an export that was filtered. Decrypted arguments
//! stand beside the payload, and are not covered.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use ring::digest::{self, SHA256};
use serde::{Deserialize, Serialize};
use toolgate_api::audit::Sha256;
use toolgate_api::audit_export::{
    ExportBegin, ExportEnd, ExportGap, ExportKind, ExportLine, ExportRecord, ExportSegment,
};

use super::super::failure::{Failure, Result};
use super::super::print::Printer;
use super::export::exported_files;

/// First bytes and version of a segment's header.
const MAGIC: &[u8; 8] = b"TGAUDIT\n";
const VERSION: u32 = 1;

/// Hash that the first segment of a log continues.
const NO_HASH: Sha256 = Sha256([0; 32]);

/// Result of a verification.
#[derive(Debug, Default, Serialize)]
struct FileReport {
    ok: bool,
    files: u64,
    records: u64,
    /// The export has every record from the first of the log, or the first after a cut that a record tells of, up to `last`.
    is_whole: bool,
    /// The organization that alone was exported.
    #[serde(skip_serializing_if = "Option::is_none")]
    organization: Option<String>,
    /// Records of one organization without hash, since a rule of the platform is hidden: nothing proves their content.
    not_provable: u64,
    gaps: Vec<ExportGap>,
    /// Sequence and hash of the last record with a hash. A hash that the daemon told for it proves the export.
    last: Option<(u64, Sha256)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_bad: Option<String>,
}

/// Verifies one exported file, or all in a folder.
pub(super) fn verify_files(path: &Path, printer: &mut Printer<'_>) -> Result {
    let files: Vec<PathBuf> = if path.is_dir() {
        exported_files(path)?.into_iter().map(|file| file.path).collect()
    } else {
        vec![path.to_owned()]
    };
    if files.is_empty() {
        let message = format!("`{}` has no exported files", path.display());
        return Err(Failure::wrong_usage(
            message,
            "name a folder or a file that `toolgate audit export` wrote",
        ));
    }
    let report = verify(&files)?;
    for ExportGap { from, to, what } in &report.gaps {
        printer.warning(&format!("records {from} to {to} are not in the export: {what}"))?;
    }
    if report.not_provable > 0 {
        printer.warning(&format!(
            "{} records have no hash, since a rule of the platform is hidden: nothing proves their content",
            report.not_provable
        ))?;
    }
    if report.first_bad.is_none() {
        if let Some((sequence, hash)) = report.last {
            printer.note(&format!(
                "record {sequence} has the hash {hash}: compare it with the daemon's, since hashes that fit together can be made by anyone"
            ))?;
        }
        return Ok(printer.result(&report, &summary(&report))?);
    }
    let bad = report.first_bad.as_deref().unwrap_or_default();
    if printer.is_json() {
        printer.json(&report)?;
    }
    Err(Failure::new(
        format!("the export is not what was recorded: {bad}"),
        "keep a copy, export again into another folder, and compare the two",
    ))
}

fn summary(report: &FileReport) -> String {
    let what = match (&report.organization, report.is_whole) {
        (_, true) => "no record is missing up to the last".to_owned(),
        (Some(organization), false) => {
            format!("a selection of the log, of `{organization}` alone, which does not show what is missing")
        }
        (None, false) => "a selection of the log, which does not show what is missing".to_owned(),
    };
    format!("{} records in {} files fit together: {what}", report.records, report.files)
}

fn verify(files: &[PathBuf]) -> Result<FileReport> {
    let mut chain = FileChain::default();
    'files: for path in files {
        let cannot_read = |error: std::io::Error| {
            Failure::new(
                format!("cannot read `{}`: {error}", path.display()),
                "name a file that this user may read",
            )
        };
        chain.report.files += 1;
        (chain.is_inside, chain.has_ended) = (false, false);
        for (number, line) in (1..).zip(BufReader::new(File::open(path).map_err(cannot_read)?).lines()) {
            let checked = match line {
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    Err("it is not text".to_owned())
                }
                line => chain.check(&line.map_err(cannot_read)?),
            };
            if let Err(what) = checked {
                chain.report.first_bad = Some(format!("{what} (`{}`, line {number})", path.display()));
                break 'files;
            }
        }
    }
    Ok(chain.into_report())
}

#[derive(Default)]
struct FileChain {
    report: FileReport,
    /// The line `begin` came, and no `end` after it.
    is_inside: bool,
    /// The last line was `end`.
    has_ended: bool,
    /// Some records were not asked for.
    is_filtered: bool,
    /// Records are missing between the first and the last.
    has_hole: bool,
    /// The last record before the export, and its hash where that is known.
    start: Option<(u64, Option<Sha256>)>,
    /// A record says that the log was cut at `start`.
    cut_is_recorded: bool,
    /// Sequence of the next record, and the hash that it continues where that is known.
    next: (u64, Option<Sha256>),
}

impl FileChain {
    fn into_report(self) -> FileReport {
        let starts_whole = self.start.is_some_and(|(sequence, _)| sequence == 0) || self.cut_is_recorded;
        let ok = self.report.first_bad.is_none();
        let is_whole = ok && starts_whole && self.has_ended && !self.has_hole && !self.is_filtered;
        FileReport { ok, is_whole, ..self.report }
    }

    fn check(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() {
            return Ok(());
        }
        let line =
            serde_json::from_str(line).map_err(|error| format!("it is no line of an export: {error}"))?;
        if matches!(line, ExportLine::Begin(_)) == self.is_inside {
            return Err("a line `begin` is expected at the beginning, and nowhere else".to_owned());
        }
        match line {
            ExportLine::Begin(begin) => self.check_begin(&begin),
            ExportLine::Segment(segment) => self.check_segment(&segment),
            ExportLine::Record(record) => self.check_record(&record),
            ExportLine::Gap(gap) => self.check_gap(gap),
            ExportLine::End(end) => self.check_end(&end),
        }
    }

    fn check_begin(&mut self, begin: &ExportBegin) -> Result<(), String> {
        let Ok(after) = begin.after.parse::<u64>() else {
            return Err(format!("`{}` is no cursor", begin.after));
        };
        (self.is_inside, self.has_ended) = (true, false);
        self.is_filtered |= !begin.is_whole();
        let next = after.saturating_add(1);
        if self.start.is_none() {
            let hash = (after == 0).then_some(NO_HASH);
            (self.start, self.next) = (Some((after, hash)), (next, hash));
            self.report.organization.clone_from(&begin.organization);
            return Ok(());
        }
        if begin.organization != self.report.organization {
            return Err("the file is of another organization than the one before".to_owned());
        }
        self.expect(next, self.next.1, &format!("the file, which begins after {after},"))
    }

    /// Checks that what comes next begins with the record `sequence` and continues the hash `previous`.
    fn expect(&self, sequence: u64, previous: Option<Sha256>, what: &str) -> Result<(), String> {
        let (next, hash) = self.next;
        let follows = if self.is_filtered {
            sequence >= next
        } else {
            sequence == next && (hash.is_none() || hash == previous)
        };
        if follows {
            Ok(())
        } else {
            Err(format!("{what} does not follow from what is before it: record {next} should"))
        }
    }

    fn check_segment(&mut self, segment: &ExportSegment) -> Result<(), String> {
        let (number, first, previous) = (segment.segment, segment.first_sequence, segment.previous_hash);
        if segment_hash(segment) != segment.hash {
            return Err(format!("the header of segment {number} does not match its hash"));
        }
        // A connection that was lost behind the header: the next export has it again.
        if self.next == (first, Some(segment.hash)) {
            return Ok(());
        }
        self.expect(first, Some(previous), &format!("segment {number}"))?;
        if let Some((start, hash @ None)) = &mut self.start
            && first == start.saturating_add(1)
        {
            *hash = Some(previous);
        }
        self.next = (first, Some(segment.hash));
        Ok(())
    }

    fn check_record(&mut self, record: &ExportRecord) -> Result<(), String> {
        let sequence = record.sequence;
        if let (Some(previous), Some(hash)) = (record.previous_hash, record.hash) {
            if record_hash(record, previous, recorded_payload(record)?) != hash {
                return Err(format!("record {sequence} does not match its hash"));
            }
            self.report.last = Some((sequence, hash));
        } else if self.report.organization.is_none() {
            return Err(format!("record {sequence} has no hash, as it may in an export of one organization"));
        } else {
            self.report.not_provable += 1;
        }
        self.expect(sequence, record.previous_hash, &format!("record {sequence}"))?;
        self.cut_is_recorded |= self.start.is_some_and(|start| tells_of_cut(record, start));
        self.next = (sequence.saturating_add(1), record.hash);
        self.report.records += 1;
        Ok(())
    }

    fn check_gap(&mut self, gap: ExportGap) -> Result<(), String> {
        self.expect(gap.from, self.next.1, &format!("the gap from {} to {}", gap.from, gap.to))?;
        if gap.to < gap.from {
            return Err(format!("the gap from {} to {} has no records", gap.from, gap.to));
        }
        // At the beginning, the log may have been cut.
        match &mut self.start {
            Some(start) if start.0.saturating_add(1) == gap.from && self.report.records == 0 => {
                *start = (gap.to, None);
            }
            _ => self.has_hole = true,
        }
        self.next = (gap.to.saturating_add(1), None);
        self.report.gaps.push(gap);
        Ok(())
    }

    fn check_end(&mut self, end: &ExportEnd) -> Result<(), String> {
        let Ok(last) = end.cursor.parse::<u64>() else {
            return Err(format!("`{}` is no cursor", end.cursor));
        };
        self.expect(last.saturating_add(1), end.hash, &format!("the end at record {last}"))?;
        self.next.0 = last.saturating_add(1);
        (self.is_inside, self.has_ended) = (false, true);
        Ok(())
    }
}

/// The payload that the record's hash covers.
fn recorded_payload(record: &ExportRecord) -> Result<&str, String> {
    match &record.payload_text {
        None => Ok(record.payload.get()),
        Some(text) if text.replace(['\n', '\r'], " ") == record.payload.get() => Ok(text),
        Some(_) => Err(format!("`payload` of record {} is not its `payload_text`", record.sequence)),
    }
}

/// Whether the record tells of a cut of the log after this record with this hash.
fn tells_of_cut(record: &ExportRecord, (sequence, hash): (u64, Option<Sha256>)) -> bool {
    #[derive(Deserialize)]
    struct Act {
        action: String,
        details: Option<Cut>,
    }
    #[derive(Deserialize)]
    struct Cut {
        last_sequence: u64,
        last_hash: Sha256,
    }
    if record.kind != ExportKind::Act {
        return false;
    }
    let act: Option<Act> = serde_json::from_str(record.payload.get()).ok();
    act.is_some_and(|Act { action, details }| {
        action == "audit.cut"
            && details.is_some_and(|cut| cut.last_sequence == sequence && Some(cut.last_hash) == hash)
    })
}

fn record_hash(record: &ExportRecord, previous: Sha256, payload: &str) -> Sha256 {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let digest = sha256(&[payload.as_bytes()]);
    sha256(&[
        &previous.0,
        &length.to_le_bytes(),
        &(record.kind as u32).to_le_bytes(),
        &digest.0[..8],
        &record.sequence.to_le_bytes(),
        &record.of.to_le_bytes(),
        &record.at_ms.to_le_bytes(),
        &record.durable.to_le_bytes(),
        &digest.0,
    ])
}

fn segment_hash(segment: &ExportSegment) -> Sha256 {
    let count = u32::try_from(segment.open_intents.len()).unwrap_or(u32::MAX);
    let intents: Vec<u8> = segment.open_intents.iter().flat_map(|sequence| sequence.to_le_bytes()).collect();
    sha256(&[
        MAGIC,
        &VERSION.to_le_bytes(),
        &count.to_le_bytes(),
        &segment.segment.to_le_bytes(),
        &segment.first_sequence.to_le_bytes(),
        &segment.made_at_ms.to_le_bytes(),
        &[0; 8],
        &segment.previous_hash.0,
        &intents,
    ])
}

fn sha256(parts: &[&[u8]]) -> Sha256 {
    let mut context = digest::Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut sum = [0; 32];
    sum.copy_from_slice(context.finish().as_ref());
    Sha256(sum)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    /// A sound export: one segment with three records, in two files.
    pub(crate) fn files() -> [Vec<String>; 2] {
        let zeros = "0".repeat(64);
        let mut segment: ExportSegment = serde_json::from_value(json!({
            "segment": 1, "first_sequence": 1, "made_at_ms": 5, "previous_hash": zeros, "open_intents": [], "hash": zeros,
        }))
        .expect("a header");
        segment.hash = segment_hash(&segment);
        let mut previous = segment.hash;
        let mut record = |sequence: u64| {
            let mut record: ExportRecord = serde_json::from_value(json!({
                "sequence": sequence, "kind": "act", "at_ms": 7, "durable": 112, "previous_hash": previous, "hash": zeros,
                "payload": {"principal": "ab", "action": "agent.put", "target": "acme/bot", "outcome": "ok", "source": "http"},
            }))
            .expect("a record");
            previous = record_hash(&record, previous, record.payload.get());
            record.hash = Some(previous);
            ExportLine::Record(record)
        };
        let text = |line: ExportLine| serde_json::to_string(&line).expect("text");
        let records: Vec<String> = (1..4).map(|sequence| text(record(sequence))).collect();
        let begin = |after: u64| json!({"begin": {"after": after.to_string()}}).to_string();
        let end = json!({"end": {"cursor": "3", "hash": previous}}).to_string();
        let first =
            vec![begin(0), text(ExportLine::Segment(segment)), records[0].clone(), records[1].clone()];
        [first, vec![begin(2), records[2].clone(), end]]
    }

    fn verify_lines(files: &[Vec<String>]) -> FileReport {
        let folder = tempfile::tempdir().expect("a folder");
        let paths: Vec<PathBuf> =
            (0..files.len()).map(|number| folder.path().join(number.to_string())).collect();
        for (path, lines) in paths.iter().zip(files) {
            std::fs::write(path, lines.join("\n")).expect("written");
        }
        verify(&paths).expect("readable")
    }

    #[test]
    fn o3_a_sound_export_is_whole_over_its_files() {
        let report = verify_lines(&files());
        assert_eq!((report.ok, report.is_whole, report.records), (true, true, 3), "{report:?}");
        assert_eq!(report.last.expect("a record").0, 3);
    }

    #[test]
    fn o3_every_change_of_an_export_is_found() {
        let changed = |file: usize, line: usize, from: &str, to: &str| {
            let mut files = files();
            let text = files[file][line].replace(from, to);
            assert_ne!(text, files[file][line], "{from}");
            files[file][line] = text;
            verify_lines(&files)
        };
        for (file, line, from, to) in [
            (0, 2, "acme/bot", "acme/bob"),
            (0, 2, "\"at_ms\":7", "\"at_ms\":8"),
            (0, 2, "\"durable\":112", "\"durable\":120"),
            (0, 1, "\"made_at_ms\":5", "\"made_at_ms\":6"),
            (1, 0, "\"after\":\"2\"", "\"after\":\"1\""),
            (1, 1, "\"kind\":\"act\"", "\"kind\":\"effect\""),
            (1, 2, "\"cursor\":\"3\"", "\"cursor\":\"4\""),
        ] {
            let report = changed(file, line, from, to);
            assert!(!report.ok, "{from}: {report:?}");
        }
        for line in [2, 3] {
            let mut files = files();
            files[0].remove(line);
            assert!(!verify_lines(&files).ok, "line {line} is missing");
        }
    }

    #[test]
    fn a_gap_is_told_and_the_records_after_it_are_checked() {
        let mut files = files();
        files[0][2] = json!({"gap": {"from": 1, "to": 1, "what": "damaged"}}).to_string();
        let report = verify_lines(&files);
        assert_eq!((report.ok, report.records, report.gaps.len()), (true, 2, 1), "{report:?}");
        assert!(!report.is_whole, "{report:?}");
        files[0].remove(3);
        assert!(!verify_lines(&files).ok, "record 2 is missing behind the gap");
    }

    #[test]
    fn o3_an_export_without_its_beginning_or_end_is_not_whole() {
        let [first, mut second] = files();
        for part in [vec![first.clone()], vec![second.clone()], vec![first.clone(), second[..2].to_vec()]] {
            let report = verify_lines(&part);
            assert_eq!((report.ok, report.is_whole), (true, false), "{report:?}");
        }
        assert!(!verify_lines(&[first[1..].to_vec(), second.clone()]).ok, "a file without `begin`");
        second.push(second[1].clone());
        assert!(!verify_lines(&[first, second]).ok, "a record behind the end");
    }

    #[test]
    fn o3_a_header_that_comes_again_after_a_lost_connection_is_no_hole() {
        let [first, second] = files();
        let report = verify_lines(&[first[..2].to_vec(), first, second]);
        assert_eq!((report.ok, report.is_whole, report.records), (true, true, 3), "{report:?}");
    }

    #[test]
    fn o3_a_record_without_hash_is_refused_unless_it_is_of_one_organization() {
        let mut files = files();
        let mut forged: Value = serde_json::from_str(&files[0][3]).expect("a line");
        let record = forged["record"].as_object_mut().expect("a record");
        record.retain(|member, _| member != "hash" && member != "previous_hash");
        record.insert("not_provable".to_owned(), json!(true));
        files[0][3] = forged.to_string();
        assert!(!verify_lines(&files).ok);
        files[0].remove(1);
        for file in &mut files {
            file[0] = file[0].replace("{\"after\"", "{\"organization\":\"acme\",\"after\"");
        }
        let report = verify_lines(&files);
        assert_eq!((report.ok, report.is_whole), (true, false), "{report:?}");
        assert_eq!((report.records, report.not_provable), (3, 1), "{report:?}");
        assert!(summary(&report).contains("`acme` alone"), "{}", summary(&report));
        files[1][0] = files[1][0].replace("acme", "rival");
        assert!(!verify_lines(&files).ok, "files of two organizations");
    }

    #[test]
    fn o3_the_hash_of_another_payload_proves_nothing() {
        let mut files = files();
        let payload = json!({"principal": "ab", "action": "agent.put", "target": "acme/bot", "outcome": "ok", "source": "http"});
        let digest = sha256(&[payload.to_string().as_bytes()]);
        let forged = files[0][2].replace("acme/bot", "acme/bob");
        files[0][2] = forged.replace("\"payload\"", &format!("\"payload_sha256\":\"{digest}\",\"payload\""));
        assert!(!verify_lines(&files).ok);
        let text = serde_json::to_string(&payload.to_string()).expect("text");
        files[0][2] = forged.replace("\"payload\"", &format!("\"payload_text\":{text},\"payload\""));
        assert!(!verify_lines(&files).ok);
    }

    #[test]
    fn o3_a_payload_with_line_breaks_is_covered_by_its_hash() {
        let text = "{\"action\":\n\"agent.put\"}";
        let record: ExportRecord = serde_json::from_value(json!({
            "sequence": 8, "kind": "act", "at_ms": 7, "durable": 112, "payload_text": text,
            "payload": {"action": "agent.put"},
        }))
        .expect("a record");
        recorded_payload(&record).expect_err("another payload");
        let payload = RawValue::from_string(text.replace('\n', " ")).expect("JSON");
        assert_eq!(recorded_payload(&ExportRecord { payload, ..record }), Ok(text));
    }

    /// An export of a log that was cut after record 9, with a record that tells of a cut after `told`.
    fn cut_file(told: u64) -> Vec<String> {
        let before = Sha256([7; 32]);
        let mut segment: ExportSegment = serde_json::from_value(json!({
            "segment": 2, "first_sequence": 10, "made_at_ms": 5, "previous_hash": before, "open_intents": [], "hash": before,
        }))
        .expect("a header");
        segment.hash = segment_hash(&segment);
        let mut record: ExportRecord = serde_json::from_value(json!({
            "sequence": 10, "kind": "act", "at_ms": 7, "durable": 112, "previous_hash": segment.hash,
            "payload": {"action": "audit.cut", "details": {"last_sequence": told, "last_hash": before}},
        }))
        .expect("a record");
        let hash = record_hash(&record, segment.hash, record.payload.get());
        record.hash = Some(hash);
        let gap = ExportGap { from: 1, to: 9, what: "they were cut from the log".to_owned() };
        let lines = [
            ExportLine::Begin(ExportBegin { after: "0".to_owned(), ..ExportBegin::default() }),
            ExportLine::Gap(gap),
            ExportLine::Segment(segment),
            ExportLine::Record(record),
            ExportLine::End(ExportEnd { cursor: "10".to_owned(), hash: Some(hash) }),
        ];
        lines.iter().map(|line| serde_json::to_string(line).expect("text")).collect()
    }

    #[test]
    fn o3_a_cut_log_is_whole_where_a_record_tells_of_the_cut() {
        for (told, is_whole) in [(9, true), (8, false)] {
            let report = verify_lines(&[cut_file(told)]);
            assert_eq!((report.ok, report.is_whole), (true, is_whole), "{report:?}");
        }
    }

    #[test]
    fn a_line_that_is_none_of_an_export_is_refused() {
        for line in ["{", "{\"record\":{}}", "[]"] {
            let mut files = files();
            files[1].push(line.to_owned());
            assert!(!verify_lines(&files).ok, "{line}");
        }
    }
}
