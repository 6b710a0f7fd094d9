//! Runs every seed and every file of every corpus through its target, on stable, and writes the seeds for libFuzzer.
//!
//! Seeds of text are tables in the code of their target. Files are binary, or found by libFuzzer.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// Largest file that is kept.
const FILE_BYTES: u64 = 64 * 1024;

macro_rules! targets {
    ($($target:ident)+) => {
        const TARGETS: &[&str] = &[$(stringify!($target)),+];

        $(
            #[test]
            fn $target() {
                check_corpus(stringify!($target), toolgate_fuzz::$target);
            }
        )+
    };
}

targets! { arguments audit_log audit_segment component config describe documents egress envelope frame http json names openapi }

fn check_corpus(target: &str, run: fn(&[u8])) {
    let seeds = write_seeds(target);
    let files = [files(&seeds), files(&package().join("corpus").join(target))].concat();
    assert!(!files.is_empty(), "`{target}` has neither seeds nor a corpus");
    run(b"");
    let mut failed = Vec::new();
    for file in &files {
        let data = fs::read(file).expect("a file of the corpus");
        assert!(data.len() as u64 <= FILE_BYTES, "`{}` is too large to be kept", file.display());
        // All files are run, so that one failure does not hide another.
        if catch_unwind(|| run(&data)).is_err() {
            failed.push(file.file_name().unwrap_or_default().to_os_string());
        }
    }
    assert!(failed.is_empty(), "`{target}` fails for {failed:?}");
}

#[test]
fn every_target_has_a_fuzzer_and_every_corpus_a_target() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|&target| target.to_owned()).collect();
    let names = |folder: &str| -> BTreeSet<String> {
        let names = entries(&package().join(folder)).into_iter();
        names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
    };
    assert_eq!(names("fuzz_targets"), targets);
    let unknown: Vec<_> = names("corpus").difference(&targets).cloned().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Writes the seeds of a target to `tmp/fuzz-seeds` of the target folder, and returns their folder.
fn write_seeds(target: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-seeds").join(target);
    // A seed that was removed from the table stays otherwise.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in toolgate_fuzz::seeds(target) {
        fs::write(folder.join(name), text).expect("a seed");
    }
    folder
}

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|path| path.is_file()).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    // Most targets have seeds only.
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}
