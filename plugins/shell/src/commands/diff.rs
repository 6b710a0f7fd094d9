//! `diff` and `cmp`

use formats::diff;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices};

use crate::call::{Call, Options, is_binary, lines, text_of};
use crate::files::explain;
use crate::shell::{Outcome, Stop};

/// Folders in folders that are compared.
const MAX_DEPTH: u32 = 64;

pub fn diff(call: &mut Call<'_>) -> Outcome {
    let long = "unified=u brief=q recursive=r ignore-case=i ignore-all-space=w ignore-space-change=b \
        ignore-blank-lines=B new-file=N report-identical-files=s text=a";
    let options = call.options("uU:qriwbBNsa", long, false)?;
    let [left, right] = options.rest.as_slice() else {
        return Err(Stop::Fail(2, "needs two files".to_owned()));
    };
    let is_folder = |call: &Call<'_>, path: &str| call.place(path).is_ok_and(|place| place.is_folder());
    let inside = |folder: &str, file: &str| format!("{folder}/{}", file.rsplit('/').next().unwrap_or(file));
    match (is_folder(call, left), is_folder(call, right)) {
        (true, true) => folders(call, left, right, &options, 0),
        (true, false) => files(call, &inside(left, right), right, &options, false),
        (false, true) => files(call, left, &inside(right, left), &options, false),
        _ => files(call, left, right, &options, false),
    }
}

fn folders(call: &mut Call<'_>, left: &str, right: &str, options: &Options, depth: u32) -> Outcome {
    if depth > MAX_DEPTH {
        return Err(Stop::Fail(2, "folders are nested too deep".to_owned()));
    }
    let current = call.shell.state.current.clone();
    // The status 1 would say that there are differences.
    let list =
        |path: &str| call.shell.files.list(&current, path).map_err(|error| Stop::from(error).with_status(2));
    let (old, new) = (list(left)?, list(right)?);
    let mut names: Vec<&String> = old.iter().chain(&new).collect();
    names.sort_unstable();
    names.dedup();
    let mut status = 0;
    for name in names {
        let (of_left, of_right) = (format!("{left}/{name}"), format!("{right}/{name}"));
        if !options.has('N') && (!old.contains(name) || !new.contains(name)) {
            call.line(format!("Only in {}: {name}", if old.contains(name) { left } else { right }))?;
            status = 1;
            continue;
        }
        let is_folder = |path: &str| call.place(path).is_ok_and(|place| place.is_folder());
        let found = match (is_folder(&of_left), is_folder(&of_right)) {
            (true, true) if options.has('r') => folders(call, &of_left, &of_right, options, depth + 1)?,
            (true, true) => {
                call.line(format!("Common subdirectories: {of_left} and {of_right}"))?;
                0
            }
            _ => files(call, &of_left, &of_right, options, true)?,
        };
        status = status.max(found);
    }
    Ok(status)
}

fn files(call: &mut Call<'_>, left: &str, right: &str, options: &Options, in_folder: bool) -> Outcome {
    let mut read = |path: &str| match call.read(path) {
        Ok(bytes) => Ok(bytes),
        Err(error) if options.has('N') && error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Stop::Fail(2, format!("{path}: {}", explain(&error)))),
    };
    let (old, new) = (read(left)?, read(right)?);
    if !options.has('a') && (is_binary(&old) || is_binary(&new)) {
        if old == new {
            return Ok(0);
        }
        return call.line(format!("Binary files {left} and {right} differ")).map(|()| 1);
    }
    let [old, new] = [old, new].map(|bytes| lines(&bytes).map(text_of).collect::<Vec<_>>());
    texts(call, (left, &old), (right, &new), options, in_folder)
}

/// The path and the lines of a file.
type TextFile<'f> = (&'f str, &'f [String]);

fn texts(
    call: &mut Call<'_>,
    (left, old): TextFile<'_>,
    (right, new): TextFile<'_>,
    options: &Options,
    in_folder: bool,
) -> Outcome {
    let key = |line: &String| comparison_key(line, options);
    let keys = |lines: &[String]| lines.iter().map(key).collect::<Vec<_>>();
    let changes = capture_diff_slices(Algorithm::Myers, &keys(old), &keys(new));
    let is_blank = |change: &DiffOp| {
        old[change.old_range()].iter().chain(&new[change.new_range()]).all(|line| line.trim().is_empty())
    };
    let is_change =
        |change: &DiffOp| change.tag() != DiffTag::Equal && !(options.has('B') && is_blank(change));
    if !changes.iter().any(is_change) {
        if options.has('s') {
            call.line(format!("Files {left} and {right} are identical"))?;
        }
        return Ok(0);
    }
    if options.has('q') {
        return call.line(format!("Files {left} and {right} differ")).map(|()| 1);
    }
    let flags: String = options.flags.iter().map(|(flag, value)| format!(" -{flag}{value}")).collect();
    if in_folder {
        call.line(format!("diff{flags} {left} {right}"))?;
    }
    if options.has('u') || options.has('U') {
        let context = options.value('U').and_then(|context| context.parse().ok()).unwrap_or(3);
        let (of_left, of_right) = (modification(call, left)?, modification(call, right)?);
        call.out(format!("--- {left}\t{of_left}\n+++ {right}\t{of_right}\n"))?;
        for hunk in diff::hunks(old, new, changes, context) {
            call.out(hunk)?;
        }
    } else {
        for change in changes.iter().filter(|change| is_change(change)) {
            normal(call, change, old, new)?;
        }
    }
    Ok(1)
}

/// The text by which a line is compared: without what the options ignore.
fn comparison_key(line: &str, options: &Options) -> String {
    let mut key = line.to_owned();
    if options.has('w') {
        key.retain(|sign| !sign.is_whitespace());
    } else if options.has('b') {
        key = key.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if options.has('i') { key.to_lowercase() } else { key }
}

/// The time at which a file was changed, as a unified diff names it.
fn modification(call: &Call<'_>, path: &str) -> Outcome<String> {
    let modified = call.place(path).and_then(|place| Ok(place.metadata()?.modified)).ok();
    let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    super::date::format_seconds("%Y-%m-%d %H:%M:%S.000000000 +0000", &since.as_secs().to_string())
}

fn normal(call: &mut Call<'_>, change: &DiffOp, old: &[String], new: &[String]) -> Outcome<()> {
    let (from, to) = (change.old_range(), change.new_range());
    let place = |range: &std::ops::Range<usize>| match range.len() {
        0 => range.start.to_string(),
        1 => (range.start + 1).to_string(),
        _ => format!("{},{}", range.start + 1, range.end),
    };
    let letter = match (from.is_empty(), to.is_empty()) {
        (true, _) => 'a',
        (_, true) => 'd',
        _ => 'c',
    };
    call.line(format!("{}{letter}{}", place(&from), place(&to)))?;
    for line in &old[from] {
        call.out(diff::line("< ", line))?;
    }
    if letter == 'c' {
        call.line("---")?;
    }
    for line in &new[to] {
        call.out(diff::line("> ", line))?;
    }
    Ok(())
}

pub fn cmp(call: &mut Call<'_>) -> Outcome {
    let options = call.options("sl", "silent=s quiet=s", false)?;
    let [left, right] = options.rest.as_slice() else {
        return Err(Stop::Fail(2, "needs two files".to_owned()));
    };
    let (old, new) = (call.read_or_fail(left, 2)?, call.read_or_fail(right, 2)?);
    if old == new {
        return Ok(0);
    }
    if !options.has('s') {
        match old.iter().zip(&new).position(|(left, right)| left != right) {
            Some(index) => {
                let line = 1 + old[..index].iter().filter(|byte| **byte == b'\n').count();
                call.line(format!("{left} {right} differ: byte {}, line {line}", index + 1))?;
            }
            None => {
                let shorter = if old.len() < new.len() { left } else { right };
                call.complain(&format!("EOF on {shorter}"))?;
            }
        }
    }
    Ok(1)
}
