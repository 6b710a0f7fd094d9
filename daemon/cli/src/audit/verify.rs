//! `toolgate audit verify --file`: verifies exported files, without a daemon.
//!
//! Each record proves itself: its hash covers its payload and the hash before it. Where an export was not filtered, the chain
//! proves that no record is missing, also from file to file. Decrypted arguments stand beside the payload, and are not covered.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use ring::digest::{self, SHA256};
use serde::Serialize;
use toolgate_api::audit::Sha256;
use toolgate_api::audit_export::{ExportBegin, ExportGap, ExportLine, ExportRecord, ExportSegment};

use super::super::failure::Failure;
use super::super::print::Printer;
use super::export::exported_files;

/// First bytes and version of a segment's header.
const MAGIC: &[u8; 8] = b"TGAUDIT\n";
const VERSION: u32 = 1;

/// Result of a verification.
#[derive(Debug, Default, Serialize)]
struct FileReport {
    ok: bool,
    files: u64,
    records: u64,
    /// Whether the chain proves that no record is missing; not where an export was filtered.
    is_whole: bool,
    /// Records whose payload hides a rule of the platform: their hash is proven, not their text.
    hidden: u64,
    gaps: Vec<ExportGap>,
    /// Sequence and hash of the last record, to be compared with those of a later `audit verify`.
    last: Option<(u64, Sha256)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_bad: Option<String>,
}

/// Verifies one exported file, or all in a folder.
pub fn verify_files(path: &Path, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let files: Vec<PathBuf> = match path.is_dir() {
        true => exported_files(path)?.into_iter().map(|file| file.path).collect(),
        false => vec![path.to_owned()],
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
    let Some(bad) = &report.first_bad else {
        let how = if report.is_whole { "no record is missing" } else { "a selection of the log" };
        let line =
            format!("{} records in {} files are what was recorded: {how}", report.records, report.files);
        return Ok(printer.result(&report, &line)?);
    };
    if printer.is_json() {
        printer.json(&report)?;
    }
    Err(Failure::new(
        format!("the export is not what was recorded: {bad}"),
        "keep a copy, export again into another folder, and compare the two",
    ))
}

fn verify(files: &[PathBuf]) -> Result<FileReport, Failure> {
    let mut chain = FileChain::default();
    chain.report.is_whole = true;
    'files: for path in files {
        let cannot_read = |error: std::io::Error| {
            Failure::new(
                format!("cannot read `{}`: {error}", path.display()),
                "name a file that this user may read",
            )
        };
        chain.report.files += 1;
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
    let mut report = chain.report;
    report.ok = report.first_bad.is_none();
    Ok(report)
}

#[derive(Default)]
struct FileChain {
    report: FileReport,
    /// Sequence and previous hash of the next record, where nothing is left out.
    next: Option<(u64, Sha256)>,
    is_filtered: bool,
}

impl FileChain {
    fn check(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() {
            return Ok(());
        }
        match serde_json::from_str(line).map_err(|error| format!("it is no line of an export: {error}"))? {
            ExportLine::Begin(begin) => self.check_begin(&begin),
            ExportLine::Segment(segment) => self.check_segment(&segment),
            ExportLine::Record(record) => self.check_record(&record),
            ExportLine::Gap(gap) => {
                self.next = None;
                self.report.gaps.push(gap);
                Ok(())
            }
            ExportLine::End(end) => match (self.next, end.cursor.parse::<u64>()) {
                (Some((next, _)), Ok(last)) if !self.is_filtered && last + 1 != next => {
                    Err(format!("records {next} to {last} are missing at the end"))
                }
                _ => Ok(()),
            },
        }
    }

    fn check_begin(&mut self, begin: &ExportBegin) -> Result<(), String> {
        self.is_filtered = !begin.is_whole();
        self.report.is_whole &= begin.is_whole();
        match (self.next, begin.after.parse::<u64>()) {
            (_, Err(_)) => Err(format!("`{}` is no cursor", begin.after)),
            (Some((next, _)), Ok(after)) if !self.is_filtered && after + 1 != next => {
                Err(format!("record {next} should follow, and the file begins after {after}"))
            }
            _ => Ok(()),
        }
    }

    fn check_segment(&mut self, segment: &ExportSegment) -> Result<(), String> {
        if segment_hash(segment) != segment.hash {
            return Err(format!("the header of segment {} does not match its hash", segment.segment));
        }
        if self.next.is_some_and(|next| next != (segment.first_sequence, segment.previous_hash)) {
            return Err(format!("segment {} does not follow from the record before it", segment.segment));
        }
        self.next = Some((segment.first_sequence, segment.hash));
        Ok(())
    }

    fn check_record(&mut self, record: &ExportRecord) -> Result<(), String> {
        let sequence = record.sequence;
        if record_hash(record) != record.hash {
            return Err(format!("record {sequence} does not match its hash"));
        }
        match self.next {
            Some((next, _)) if self.is_filtered && sequence < next => {
                return Err(format!("record {sequence} stands after record {}", next - 1));
            }
            Some(next) if !self.is_filtered && next != (sequence, record.previous_hash) => {
                return Err(format!("record {sequence} does not follow from the record before it"));
            }
            _ => {}
        }
        self.next = Some((sequence + 1, record.hash));
        self.report.records += 1;
        self.report.hidden += u64::from(record.payload_sha256.is_some());
        self.report.last = Some((sequence, record.hash));
        Ok(())
    }
}

fn record_hash(record: &ExportRecord) -> Sha256 {
    let payload = record.payload.get().as_bytes();
    let digest = record.payload_sha256.unwrap_or_else(|| sha256(&[payload]));
    let length = record.payload_bytes.unwrap_or_else(|| u32::try_from(payload.len()).unwrap_or(u32::MAX));
    sha256(&[
        &record.previous_hash.0,
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
    use serde_json::json;

    use super::*;

    /// A sound export: one segment with three records, in two files.
    pub fn files() -> [Vec<String>; 2] {
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
            record.hash = record_hash(&record);
            previous = record.hash;
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

    fn verified(files: &[Vec<String>]) -> FileReport {
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
        let report = verified(&files());
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
            verified(&files)
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
            assert!(!verified(&files).ok, "line {line} is missing");
        }
    }

    #[test]
    fn a_gap_is_told_and_the_records_after_it_are_checked() {
        let mut files = files();
        files[0][2] = json!({"gap": {"from": 1, "to": 1, "what": "damaged"}}).to_string();
        let report = verified(&files);
        assert_eq!((report.ok, report.records, report.gaps.len()), (true, 2, 1), "{report:?}");
    }

    #[test]
    fn a_line_that_is_none_of_an_export_is_refused() {
        for line in ["{", "{\"record\":{}}", "[]"] {
            let mut files = files();
            files[1].push(line.to_owned());
            assert!(!verified(&files).ok, "{line}");
        }
    }
}
