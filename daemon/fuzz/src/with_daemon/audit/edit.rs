//! Edits to the files of a log, one on each line. Lines without meaning are skipped.
//!
//! ```text
//! flip SEGMENT OFFSET BIT          set SEGMENT OFFSET BYTE        zero SEGMENT OFFSET BYTES
//! cut SEGMENT LENGTH               append SEGMENT BYTE COUNT      copy SEGMENT FROM BYTES TO
//! take SEGMENT FROM BYTES          swap SEGMENT SEGMENT           remove SEGMENT
//! record SEGMENT NUMBER (removes a whole record)                  nohead
//! ```

use std::fs;
use std::path::Path;

use super::baseline::BASELINE;
use super::segment_file;

/// Most edits, and most bytes that one may append: more would only be slower.
const EDITS: usize = 16;
const BYTES: usize = 128 * 1024;

pub fn apply(script: &str, folder: &Path) {
    for line in script.lines().take(EDITS) {
        let mut words = line.split_whitespace();
        let Some(edit) = words.next() else { continue };
        let numbers: Vec<usize> = words.map_while(|word| word.parse().ok()).collect();
        // An edit beyond the end of a file changes nothing.
        let _ = apply_one(edit, &numbers, folder);
    }
}

fn apply_one(edit: &str, numbers: &[usize], folder: &Path) -> Option<()> {
    let file = |number: usize| Some(segment_file(folder, number as u64)).filter(|path| path.exists());
    match (edit, numbers) {
        ("nohead", []) => return fs::remove_file(folder.join("head")).ok(),
        ("remove", [number]) => return fs::remove_file(file(*number)?).ok(),
        ("swap", [one, other]) => {
            let (one, other) = (file(*one)?, file(*other)?);
            let (first, second) = (fs::read(&one).ok()?, fs::read(&other).ok()?);
            fs::write(one, second).ok()?;
            return fs::write(other, first).ok();
        }
        _ => {}
    }
    let (number, rest) = numbers.split_first()?;
    let path = file(*number)?;
    let mut bytes = fs::read(&path).ok()?;
    apply_to_bytes(edit, *number, rest, &mut bytes)?;
    fs::write(path, bytes).ok()
}

fn apply_to_bytes(edit: &str, number: usize, numbers: &[usize], bytes: &mut Vec<u8>) -> Option<()> {
    match (edit, numbers) {
        ("flip", [at, bit]) => *bytes.get_mut(*at)? ^= 1 << (bit % 8),
        ("set", [at, byte]) => *bytes.get_mut(*at)? = u8::try_from(*byte).ok()?,
        ("zero", [at, count]) => bytes.get_mut(*at..at.checked_add(*count)?)?.fill(0),
        ("cut", [length]) => bytes.truncate(*length),
        ("append", [byte, count]) => {
            bytes.extend(std::iter::repeat_n(u8::try_from(*byte).ok()?, (*count).min(BYTES)));
        }
        ("copy", [from, count, to]) => {
            let piece = bytes.get(*from..from.checked_add(*count)?)?.to_vec();
            bytes.get_mut(*to..to.checked_add(*count)?)?.copy_from_slice(&piece);
        }
        ("take", [from, count]) => drop(bytes.drain(range(*from, *count, bytes.len())?)),
        ("record", [record]) => {
            let (from, to) = BASELINE.record(number, *record)?;
            drop(bytes.drain(range(from, to - from, bytes.len())?));
        }
        _ => return None,
    }
    Some(())
}

fn range(from: usize, count: usize, length: usize) -> Option<std::ops::Range<usize>> {
    let to = from.checked_add(count)?;
    (to <= length).then_some(from..to)
}
