//! The audit log read again from files that anything may have happened to.

mod baseline;
mod edit;
mod walk;

use std::fs;
use std::path::{Path, PathBuf};

use toolgate::audit::{
    Anchor, AnchorSource, Recovery, StartError, VerifyReport, recover_folder, verify_folder,
};

use super::place;
use baseline::{BASELINE, KEY, SEGMENT_BYTES};
use walk::{Good, Walked};

/// One segment file as it stands on disk. The first byte says what is done to the rest: `r` leaves it as it is, `f`
/// makes checksums and hashes fit the changed content, so that the reader gets to see more of it.
///
/// `verify` finds exactly the records that a second reader finds, and nothing is sound with anything behind them.
/// Recovery keeps exactly those, byte for byte, and leaves zeros; done again it does nothing.
pub fn audit_segment(data: &[u8]) {
    let Some((mode, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if *mode == b'f' {
        walk::refit(&mut bytes);
    }
    let folder = place::folder();
    let file = segment(folder.path(), 1);
    fs::write(&file, &bytes).expect("a segment");
    let walked = walk::walk(&bytes);
    verified(folder.path(), &bytes, walked.as_ref());
    match recover_folder(folder.path(), None, SEGMENT_BYTES) {
        Ok((recovery, head)) => {
            recovered(&file, &bytes, walked.as_ref(), &recovery, head);
            same_again(folder.path(), None, head);
            verified(folder.path(), &fs::read(&file).expect("a segment"), walked.as_ref());
        }
        Err(error) => {
            told(&error);
            assert!(
                !walked.is_some_and(|walked| walked.is_first() && walked.is_whole(&bytes)),
                "sound, and refused: {error}"
            );
            assert_eq!(fs::read(&file).expect("a segment"), bytes, "refused, and changed");
        }
    }
}

/// A log that the daemon wrote, with lines that each do something to its files: see `edit.rs`.
///
/// With its anchor, what is changed anywhere is never called sound, and what is not is. Whatever was done, the records
/// that are called good are the first ones of those that were written. Recovery goes on from one of them, and where
/// that is not the last one acknowledged, it says so.
pub fn audit_log(data: &[u8]) {
    let Ok(script) = str::from_utf8(data) else { return };
    let folder = place::folder();
    BASELINE.lay_out(folder.path());
    edit::apply(script, folder.path());
    let is_changed = BASELINE.is_changed(folder.path());
    let has_anchor = folder.path().join("head").exists();
    let had_segments = (1..=3).any(|number| segment(folder.path(), number).exists());

    let report = verify_folder(folder.path(), Some(&KEY)).expect("it is read");
    assert_eq!(report.anchor, if has_anchor { AnchorSource::HeadFile } else { AnchorSource::None });
    assert_eq!(report.ok, report.first_bad.is_none() && keeps_all(&report));
    is_a_prefix(report.head);
    assert_eq!(report.records, report.head.sequence, "records are counted otherwise than they are numbered");
    match (is_changed, has_anchor) {
        (false, _) => assert!(report.ok, "nothing is changed: {:?}", report.first_bad),
        (true, true) => assert!(!report.ok, "changed, and called sound"),
        // Without an anchor an end that is missing cannot be seen; anything else can.
        (true, false) => {}
    }
    match recover_folder(folder.path(), Some(&KEY), SEGMENT_BYTES) {
        Ok((recovery, head)) => {
            is_a_prefix(head);
            // Of a folder in which nothing is left, nobody can say that there was anything.
            assert!(recovery.anchor_missing != has_anchor || !had_segments);
            let last = BASELINE.last_sequence();
            match &recovery.lost {
                Some(lost) => {
                    assert_eq!((lost.after_sequence, lost.acknowledged_sequence), (head.sequence, last))
                }
                None => {
                    assert!(!has_anchor || head.sequence == last, "an acknowledged end is lost in silence")
                }
            }
            same_again(folder.path(), Some(&KEY), head);
        }
        Err(error) => {
            told(&error);
            assert!(is_changed, "nothing is changed, and refused: {error}");
        }
    }
}

fn segment(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.segment"))
}

/// `verify` and the second reader agree about one segment.
fn verified(folder: &Path, bytes: &[u8], walked: Option<&Walked>) {
    let report = verify_folder(folder, None).expect("it is read");
    let walked = walked.filter(|walked| walked.is_first());
    assert_eq!(report.records, walked.map_or(0, |walked| walked.good.len() as u64), "{:?}", report.first_bad);
    let is_sound = walked.is_some_and(|walked| walked.is_whole(bytes));
    let is_new = walked.is_none() && is_a_new_log(bytes);
    assert_eq!(report.ok, (is_sound || is_new) && keeps_all(&report), "{:?}", report.first_bad);
    agrees(&report, walked);
}

/// Whether no recovery that stands in the log says that acknowledged records are gone.
fn keeps_all(report: &VerifyReport) -> bool {
    report.suspicious.iter().all(|noted| noted.recovery.lost.is_none())
}

/// What recovery makes where there was no header: a header and nothing else.
fn is_a_new_log(bytes: &[u8]) -> bool {
    walk::walk(bytes).is_some_and(|walked| walked.is_first() && walked.good.is_empty())
}

fn agrees(report: &VerifyReport, walked: Option<&Walked>) {
    if let Some(last) = walked.and_then(|walked| walked.good.last()) {
        assert_eq!((report.head.sequence, report.head.hash.0), (last.sequence, last.hash));
        assert_eq!(report.head.offset, last.end as u64);
    }
}

fn recovered(file: &Path, before: &[u8], walked: Option<&Walked>, recovery: &Recovery, head: Anchor) {
    let after = fs::read(file).expect("a segment");
    let end = usize::try_from(head.offset).expect("small");
    let (kept, rest) = after.split_at_checked(end).expect("the end is in the file");
    assert!(rest.iter().all(|byte| *byte == 0), "something is left behind the end");
    let Some(walked) = walked else {
        assert_eq!(head.sequence, 0, "records without a header");
        assert!(recovery.cut.is_some(), "a header is cut in silence");
        return;
    };
    assert_eq!(end, walked.end(), "the end is elsewhere");
    assert_eq!((head.sequence, head.hash.0), (walked.last_sequence(), walked.last_hash()));
    // The padding of the last record may lie beyond the end of a file that was shortened.
    let (kept_data, kept_padding) = kept.split_at_checked(before.len()).unwrap_or((kept, &[]));
    assert_eq!(Some(kept_data), before.get(..kept_data.len()), "good records are changed");
    assert!(kept_padding.iter().all(|byte| *byte == 0));
    assert_eq!(recovery.cut.is_some(), !walked.is_whole(before), "{:?}", recovery.cut);
}

/// What recovery wrote, recovery leaves alone.
fn same_again(folder: &Path, key: Option<&[u8; 32]>, head: Anchor) {
    let (recovery, again) = recover_folder(folder, key, SEGMENT_BYTES).expect("recovered, and then refused");
    assert_eq!((again, recovery.cut), (head, None), "recovered twice, in two ways");
}

fn is_a_prefix(head: Anchor) {
    let is_known = head.sequence == 0
        || BASELINE.good.iter().any(|good: &Good| (good.sequence, good.hash) == (head.sequence, head.hash.0));
    assert!(is_known, "record {} was never written so", head.sequence);
}

fn told(error: &StartError) {
    assert!(!error.to_string().is_empty() && !error.hint().is_empty());
    assert!(
        matches!(error, StartError::Corrupt { .. } | StartError::Missing { .. } | StartError::Version { .. }),
        "{error}"
    );
}
