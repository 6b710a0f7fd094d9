//! The audit log: verification and recovery of files that anything may have changed.

mod baseline;
mod edit;
mod segment_parser;

use std::fs;
use std::path::{Path, PathBuf};

use toolgate_audit::{
    Anchor, AnchorSource, Recovery, StartError, VerifyReport, recover_folder, verify_folder,
};

use super::scratch;
use baseline::{BASELINE, KEY, SEGMENT_BYTES};
use segment_parser::{Segment, ValidRecord};

/// Input: a segment file behind one byte. `r` keeps the file as it is; `f` recomputes its checksums and hashes, so that the
/// reader gets further.
///
/// `verify` finds exactly the records that a second parser finds, and anything behind them is an error. Recovery keeps
/// exactly those, byte for byte, zeros the rest, and is idempotent.
pub fn audit_segment(data: &[u8]) {
    let Some((mode, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if *mode == b'f' {
        segment_parser::recompute_hashes(&mut bytes);
    }
    let folder = scratch::folder();
    let file = segment_file(folder.path(), 1);
    fs::write(&file, &bytes).expect("a segment");
    let parsed = segment_parser::parse(&bytes);
    check_verify(folder.path(), &bytes, parsed.as_ref());
    match recover_folder(folder.path(), None, SEGMENT_BYTES) {
        Ok((recovery, head)) => {
            check_recovery(&file, &bytes, parsed.as_ref(), &recovery, head);
            check_idempotent(folder.path(), None, head);
            check_verify(folder.path(), &fs::read(&file).expect("a segment"), parsed.as_ref());
        }
        Err(error) => {
            check_error(&error);
            let is_valid = parsed.is_some_and(|parsed| parsed.is_first() && parsed.is_whole(&bytes));
            assert!(!is_valid, "valid, but refused: {error}");
            assert_eq!(fs::read(&file).expect("a segment"), bytes, "refused, but changed");
        }
    }
}

/// Input: edits to the files of a log that the daemon wrote, see `edit.rs`.
///
/// With its anchor, the log verifies if and only if nothing was changed. After any edit, the records that are called valid
/// are a prefix of those written. Recovery continues after one of them, and reports if it is not the last acknowledged one.
pub fn audit_log(data: &[u8]) {
    let Ok(script) = str::from_utf8(data) else { return };
    let folder = scratch::folder();
    BASELINE.write_to(folder.path());
    edit::apply(script, folder.path());
    let is_changed = BASELINE.is_changed(folder.path());
    let has_anchor = folder.path().join("head").exists();
    let had_segments = (1..=3).any(|number| segment_file(folder.path(), number).exists());

    let report = verify_folder(folder.path(), Some(&KEY)).expect("a report");
    assert_eq!(report.anchor, if has_anchor { AnchorSource::HeadFile } else { AnchorSource::None });
    assert_eq!(report.ok, report.first_bad.is_none() && has_no_loss(&report));
    check_prefix(report.head);
    assert_eq!(report.records, report.head.sequence, "the number of records is not the last sequence number");
    match (is_changed, has_anchor) {
        (false, _) => assert!(report.ok, "unchanged, but not valid: {:?}", report.first_bad),
        (true, true) => assert!(!report.ok, "changed, but valid"),
        // Without an anchor a missing end cannot be detected; any other change can.
        (true, false) => {}
    }
    match recover_folder(folder.path(), Some(&KEY), SEGMENT_BYTES) {
        Ok((recovery, head)) => {
            check_prefix(head);
            // A folder without any segment shows no trace of lost records.
            assert!(recovery.anchor_missing != has_anchor || !had_segments);
            let last = BASELINE.last_sequence();
            match &recovery.lost {
                Some(lost) => {
                    assert_eq!((lost.after_sequence, lost.acknowledged_sequence), (head.sequence, last))
                }
                None => {
                    assert!(
                        !has_anchor || head.sequence == last,
                        "the loss of acknowledged records is not reported"
                    )
                }
            }
            check_idempotent(folder.path(), Some(&KEY), head);
        }
        Err(error) => {
            check_error(&error);
            assert!(is_changed, "unchanged, but refused: {error}");
        }
    }
}

fn segment_file(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.segment"))
}

/// `verify` and the second parser agree about one segment.
fn check_verify(folder: &Path, bytes: &[u8], parsed: Option<&Segment>) {
    let report = verify_folder(folder, None).expect("a report");
    let parsed = parsed.filter(|parsed| parsed.is_first());
    let is_new = parsed.is_none() && is_new_log(bytes);
    let records = parsed.map_or(0, |parsed| parsed.records.len() as u64);
    assert_eq!(report.records, records, "{:?}", report.first_bad);
    let is_valid = parsed.is_some_and(|parsed| parsed.is_whole(bytes)) || is_new;
    assert_eq!(report.ok, is_valid && has_no_loss(&report), "{:?}", report.first_bad);
    if let Some(last) = parsed.and_then(|parsed| parsed.records.last()) {
        assert_eq!((report.head.sequence, report.head.hash.0), (last.sequence, last.hash));
        assert_eq!(report.head.offset, last.end as u64);
    }
}

/// Whether no recovery in the log reports the loss of acknowledged records.
fn has_no_loss(report: &VerifyReport) -> bool {
    report.suspicious.iter().all(|noted| noted.recovery.lost.is_none())
}

/// Whether the file is a header without records, which recovery writes in place of an invalid header.
fn is_new_log(bytes: &[u8]) -> bool {
    segment_parser::parse(bytes).is_some_and(|parsed| parsed.is_first() && parsed.records.is_empty())
}

fn check_recovery(file: &Path, before: &[u8], parsed: Option<&Segment>, recovery: &Recovery, head: Anchor) {
    let after = fs::read(file).expect("a segment");
    let end = usize::try_from(head.offset).expect("small");
    let (kept, rest) = after.split_at_checked(end).expect("the end is in the file");
    assert!(rest.iter().all(|byte| *byte == 0), "bytes are left behind the end");
    let Some(parsed) = parsed else {
        assert_eq!(head.sequence, 0, "records without a header");
        assert!(recovery.cut.is_some(), "a cut header is not reported");
        return;
    };
    assert_eq!(end, parsed.end(), "another end");
    assert_eq!((head.sequence, head.hash.0), (parsed.last_sequence(), parsed.last_hash()));
    // The padding of the last record may lie beyond the end of a file that was shortened.
    let (kept_data, kept_padding) = kept.split_at_checked(before.len()).unwrap_or((kept, &[]));
    assert_eq!(Some(kept_data), before.get(..kept_data.len()), "valid records are changed");
    assert!(kept_padding.iter().all(|byte| *byte == 0));
    assert_eq!(recovery.cut.is_some(), !parsed.is_whole(before), "{:?}", recovery.cut);
}

/// A second recovery changes nothing.
fn check_idempotent(folder: &Path, key: Option<&[u8; 32]>, head: Anchor) {
    let (recovery, again) = recover_folder(folder, key, SEGMENT_BYTES).expect("recovered, and then refused");
    assert_eq!((again, recovery.cut), (head, None), "the second recovery differs");
}

fn check_prefix(head: Anchor) {
    let is_written = |record: &ValidRecord| (record.sequence, record.hash) == (head.sequence, head.hash.0);
    let is_known = head.sequence == 0 || BASELINE.records.iter().any(is_written);
    assert!(is_known, "record {} was never written", head.sequence);
}

fn check_error(error: &StartError) {
    assert!(!error.to_string().is_empty() && !error.hint().is_empty());
    assert!(
        matches!(error, StartError::Corrupt { .. } | StartError::Missing { .. } | StartError::Version { .. }),
        "{error}"
    );
}

/// Seeds, each with a name for its content.
#[rustfmt::skip]
pub const SEEDS: &[(&str, &str)] = &[
    ("a-bit-behind-the-end", "append 3 7 40"),
    ("a-bit-of-a-hash", "flip 3 260 7"),
    ("a-bit-of-a-header", "flip 2 24 0"),
    ("a-bit-of-a-payload", "flip 1 300 3"),
    ("a-byte-behind-a-finished-segment", "append 1 1 1"),
    ("all-removed", "remove 1
remove 2
remove 3"),
    ("all-removed-without-anchor", "remove 1
remove 2
remove 3
nohead"),
    ("anchor-removed", "nohead"),
    ("bytes-taken-out-of-the-middle", "take 1 5000 8"),
    ("end-cut-off", "cut 3 5000"),
    ("end-cut-off-without-anchor", "cut 3 5000
nohead"),
    ("first-header-gone", "zero 1 0 112
remove 2
remove 3
nohead"),
    ("first-record-taken-out", "record 1 0"),
    ("first-segment-removed", "remove 1"),
    ("header-cut", "cut 3 60"),
    ("header-gone", "cut 3 0"),
    ("header-gone-without-anchor", "cut 3 0
nohead"),
    ("last-records-zeroed", "zero 3 4000 60000"),
    ("last-segment-removed", "remove 3"),
    ("last-segment-removed-without-anchor", "remove 3
nohead"),
    ("middle-of-a-record-torn", "zero 3 2000 8"),
    ("nothing", ""),
    ("open-call-in-a-header", "flip 3 112 0"),
    ("padding", "set 1 391 1"),
    ("record-copied-over-another", "copy 2 112 400 2000"),
    ("record-taken-out", "record 2 3"),
    ("segment-removed", "remove 2"),
    ("segments-swapped", "swap 1 2"),
    ("there-and-back", "flip 1 300 3
flip 1 300 3"),
    ("version-changed", "set 3 8 2"),
    ("zeros-behind-the-end", "append 3 0 4000"),
];
