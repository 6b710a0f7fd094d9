//! `patch`, for unified diffs.

use crate::call::{Call, Options, lines, text_of};
use crate::shell::{Outcome, Stop, fail};

struct FilePatch {
    old: String,
    new: String,
    hunks: Vec<Hunk>,
}

struct Hunk {
    /// The first line of the old text, from 1.
    start: usize,
    old: Vec<String>,
    new: Vec<String>,
}

const LONG: &str = "strip=p reverse=R input=i dry-run=D forward=N silent=s output=o directory=d";

pub fn patch(call: &mut Call<'_>) -> Outcome {
    let options = call.options("p:Ri:Nsfd:Do:", LONG, false)?;
    let source = options.value('i').or(options.rest.get(1).map(String::as_str)).unwrap_or("-").to_owned();
    let text = text_of(&call.read_or_fail(&source, 2)?);
    let patches = parse(&text, options.has('R'))?;
    if patches.is_empty() {
        return Err(Stop::Fail(
            2,
            "only unified diffs are supported by this shell, and there is none in the input".to_owned(),
        ));
    }
    let strip = options.value('p').and_then(|count| count.parse::<usize>().ok());
    let mut status = 0;
    for patch in patches {
        let name = match options.rest.first() {
            Some(name) => name.clone(),
            None => target(call, &patch, strip, options.value('d'))?,
        };
        status = status.max(patch_file(call, &options, &patch, &name)?);
    }
    Ok(status)
}

/// Applies the hunks of one file. Returns the status 1 if some of them do not fit.
fn patch_file(call: &mut Call<'_>, options: &Options, patch: &FilePatch, name: &str) -> Outcome {
    if !options.has('s') {
        let action = if options.has('D') { "checking" } else { "patching" };
        call.line(format!("{action} file {name}"))?;
    }
    let place = call.place(name)?;
    let old = if patch.old == "/dev/null" { String::new() } else { text_of(&call.read_or_fail(name, 1)?) };
    let mut text: Vec<String> = lines(old.as_bytes()).map(text_of).collect();
    let failed = apply(call, &mut text, patch, options.has('s'))?;
    let count = patch.hunks.len();
    if failed > 0 {
        let plural = if count == 1 { "" } else { "s" };
        call.line(format!("{failed} out of {count} hunk{plural} FAILED"))?;
    }
    let text = text.concat();
    match options.value('o') {
        _ if options.has('D') || failed == count => {}
        _ if patch.new == "/dev/null" && text.is_empty() => place.remove_file()?,
        Some(path) => call.place(path)?.write_below(&text)?,
        None => place.write_below(&text)?,
    }
    Ok(i32::from(failed > 0))
}

/// The file that a patch is about: the first of its names that exists.
fn target(call: &Call<'_>, patch: &FilePatch, strip: Option<usize>, folder: Option<&str>) -> Outcome<String> {
    let stripped = |name: &str| match strip {
        None => name.rsplit('/').next().unwrap_or(name).to_owned(),
        Some(count) => name.splitn(count + 1, '/').last().unwrap_or(name).to_owned(),
    };
    let inside = |name: String| folder.map_or(name.clone(), |folder| format!("{folder}/{name}"));
    let names = [&patch.old, &patch.new].map(|name| (name != "/dev/null").then(|| inside(stripped(name))));
    let exists = |name: &&String| call.place(name).is_ok_and(|place| place.exists());
    let found = names.iter().flatten().find(exists).or(names.iter().flatten().next_back());
    found.cloned().map_or_else(|| fail("a patch names no file"), Ok)
}

fn parse(text: &str, is_reversed: bool) -> Outcome<Vec<FilePatch>> {
    let mut patches: Vec<FilePatch> = Vec::new();
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let mut index = 0;
    while index < all.len() {
        let line = all[index];
        index += 1;
        let name = |line: &str| line[4..].split('\t').next().unwrap_or_default().trim_end().to_owned();
        if line.starts_with("--- ") && all.get(index).is_some_and(|next| next.starts_with("+++ ")) {
            let (old, new) = (name(line), name(all[index]));
            let (old, new) = if is_reversed { (new, old) } else { (old, new) };
            patches.push(FilePatch { old, new, hunks: Vec::new() });
            index += 1;
        } else if line.starts_with("@@ ")
            && let Some(patch) = patches.last_mut()
        {
            let (hunk, next) = hunk(&all, index - 1, is_reversed)?;
            patch.hunks.push(hunk);
            index = next;
        }
    }
    Ok(patches)
}

fn hunk(all: &[&str], head: usize, is_reversed: bool) -> Outcome<(Hunk, usize)> {
    let malformed = || fail(format!("malformed patch at line {}: {}", head + 1, all[head].trim_end()));
    let Some((old, new)) = ranges(all[head]) else { return malformed() };
    let (mut old_left, mut new_left) = (old.1, new.1);
    let mut hunk = Hunk { start: if is_reversed { new.0 } else { old.0 }, old: Vec::new(), new: Vec::new() };
    let mut index = head + 1;
    let mut last = ' ';
    while old_left > 0 || new_left > 0 || all.get(index).is_some_and(|line| line.starts_with('\\')) {
        let Some(line) = all.get(index) else { return malformed() };
        index += 1;
        let sign = line.chars().next().unwrap_or(' ');
        let text = if matches!(sign, ' ' | '-' | '+') { &line[1..] } else { line };
        let (in_old, in_new) = match sign {
            '-' => (true, false),
            '+' => (false, true),
            ' ' | '\n' => (true, true),
            '\\' => {
                hunk.cut_newline(last);
                continue;
            }
            _ => return malformed(),
        };
        last = sign;
        if in_old {
            old_left = old_left.saturating_sub(1);
            hunk.old.push(text.to_owned());
        }
        if in_new {
            new_left = new_left.saturating_sub(1);
            hunk.new.push(text.to_owned());
        }
    }
    if is_reversed {
        // Without its `last` marks, a reversed hunk is the same lines the other way round.
        std::mem::swap(&mut hunk.old, &mut hunk.new);
    }
    Ok((hunk, index))
}

/// The starts and the counts of the old and the new lines, from a line such as `@@ -1,2 +1,3 @@`.
fn ranges(head: &str) -> Option<((usize, usize), (usize, usize))> {
    let range = |text: &str| -> Option<(usize, usize)> {
        let text = text.get(1..)?;
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let mut words = head.split_whitespace().skip(1);
    Some((range(words.next()?)?, range(words.next()?)?))
}

impl Hunk {
    /// Removes the newline of the last line, which has this sign: `\ No newline at end of file` follows it.
    fn cut_newline(&mut self, sign: char) {
        let old = self.old.last_mut().filter(|_| sign != '+');
        let new = self.new.last_mut().filter(|_| sign != '-');
        for line in old.into_iter().chain(new) {
            line.truncate(line.trim_end_matches('\n').len());
        }
    }
}

/// Applies the hunks at their lines, or near them. Returns how many do not fit.
fn apply(call: &mut Call<'_>, text: &mut Vec<String>, patch: &FilePatch, is_silent: bool) -> Outcome<usize> {
    let (mut failed, mut shift, mut least) = (0, 0_i64, 0_usize);
    for (index, hunk) in patch.hunks.iter().enumerate() {
        let signed = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        let expected = signed(hunk.start.saturating_sub(usize::from(!hunk.old.is_empty()))) + shift;
        let most = text.len().saturating_sub(hunk.old.len());
        let fits =
            |start: usize| text.get(start..start + hunk.old.len()).is_some_and(|lines| lines == hunk.old);
        let mut places: Vec<usize> = (least.min(most)..=most).filter(|start| fits(*start)).collect();
        places.sort_by_key(|start| (signed(*start) - expected).abs());
        let Some(start) = places.first().copied() else {
            call.line(format!("Hunk #{} FAILED at {}.", index + 1, hunk.start))?;
            failed += 1;
            continue;
        };
        let offset = signed(start) - expected;
        if offset != 0 && !is_silent {
            let plural = if offset.abs() == 1 { "" } else { "s" };
            call.line(format!(
                "Hunk #{} succeeded at {} (offset {offset} line{plural}).",
                index + 1,
                start + 1
            ))?;
        }
        text.splice(start..start + hunk.old.len(), hunk.new.iter().cloned());
        least = start + hunk.new.len();
        shift += offset + signed(hunk.new.len()) - signed(hunk.old.len());
    }
    Ok(failed)
}
