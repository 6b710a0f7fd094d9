//! `ls`

use std::time::{SystemTime, UNIX_EPOCH};

use crate::call::{Call, Options};
use crate::files::{Kind, Metadata, TEMPORARY};
use crate::shell::{Outcome, fail};

struct Entry {
    name: String,
    /// None where the options need nothing but names, since each question to the host costs.
    metadata: Option<Metadata>,
}

impl Entry {
    fn is_folder(&self) -> bool {
        self.metadata.as_ref().is_some_and(Metadata::is_folder)
    }

    fn bytes(&self) -> u64 {
        self.metadata.as_ref().map_or(0, |found| found.bytes)
    }

    fn modified(&self) -> Option<SystemTime> {
        Some(self.metadata.as_ref()?.modified)
    }
}

pub fn list(call: &mut Call<'_>) -> Outcome {
    let long = "all=a almost-all=A recursive=R reverse=r directory=d human-readable=h classify=F";
    let options = call.options("aA1lRrtSdhFpC", long, false)?;
    let here = [".".to_owned()];
    let paths = if options.rest.is_empty() { &here[..] } else { &options.rest };
    let (mut files, mut folders, mut status) = (Vec::new(), Vec::new(), 0);
    for path in paths {
        match call.place(path).and_then(|place| place.link_metadata()) {
            Ok(metadata) if metadata.is_folder() && !options.has('d') => folders.push(path.clone()),
            Ok(metadata) => files.push(Entry { name: path.clone(), metadata: Some(metadata) }),
            Err(error) => {
                let message = crate::files::explain(&error);
                call.complain(&format!("cannot access '{path}': {message}"))?;
                status = 2;
            }
        }
    }
    let shows_names = paths.len() > 1 || options.has('R');
    let mut is_first = files.is_empty();
    write(call, files, &options, false)?;
    folders.sort();
    folders.reverse();
    while let Some(folder) = folders.pop() {
        if !is_first {
            call.out("\n")?;
        }
        is_first = false;
        if shows_names {
            call.line(format!("{folder}:"))?;
        }
        let entries = entries(call, &folder, &options)?;
        if options.has('R') {
            let below = entries
                .iter()
                .rev()
                .filter(|entry| entry.is_folder() && !matches!(entry.name.as_str(), "." | ".."));
            folders.extend(below.map(|entry| format!("{}/{}", folder.trim_end_matches('/'), entry.name)));
        }
        write(call, entries, &options, true)?;
    }
    Ok(status)
}

fn entries(call: &mut Call<'_>, folder: &str, options: &Options) -> Outcome<Vec<Entry>> {
    let mut names = call.names(folder)?;
    names.retain(|name| options.has('a') || options.has('A') || !name.starts_with('.'));
    if options.has('a') {
        names.extend([".".to_owned(), "..".to_owned()]);
    }
    let place = call.place(folder)?;
    let needs_metadata = "ltSFpR".chars().any(|flag| options.has(flag));
    let mut entries = Vec::new();
    for name in names {
        if !needs_metadata {
            entries.push(Entry { name, metadata: None });
            continue;
        }
        let path = if name == ".." { place.clone() } else { place.join(&name) };
        if let Ok(metadata) = path.link_metadata() {
            entries.push(Entry { name, metadata: Some(metadata) });
        }
    }
    sort(&mut entries, options);
    Ok(entries)
}

fn sort(entries: &mut [Entry], options: &Options) {
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    if options.has('t') {
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.modified()));
    } else if options.has('S') {
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.bytes()));
    }
    if options.has('r') {
        entries.reverse();
    }
}

fn write(call: &mut Call<'_>, mut entries: Vec<Entry>, options: &Options, has_total: bool) -> Outcome<()> {
    sort(&mut entries, options);
    let is_long = options.has('l');
    if is_long && has_total {
        let blocks: u64 = entries.iter().map(|entry| entry.bytes().div_ceil(4096) * 4).sum();
        call.line(format!("total {blocks}"))?;
    }
    let sizes: Vec<String> = entries.iter().map(|entry| size(entry.bytes(), options.has('h'))).collect();
    let width = sizes.iter().map(String::len).max().unwrap_or(0);
    for (entry, size) in entries.iter().zip(&sizes) {
        let mark = if (options.has('F') || options.has('p')) && entry.is_folder() { "/" } else { "" };
        if is_long {
            let kind = if entry.is_folder() {
                "drwxr-xr-x"
            } else if entry.metadata.is_some_and(|found| found.kind == Kind::Link) {
                "lrwxrwxrwx"
            } else {
                "-rw-r--r--"
            };
            let seconds = entry
                .modified()
                .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
                .map_or(0, |time| time.as_secs());
            let time = super::date::format_seconds("%b %e %H:%M", &seconds.to_string())?;
            call.out(format!("{kind} 1 agent agent {size:>width$} {time} "))?;
        }
        call.line(format!("{}{mark}", entry.name))?;
    }
    Ok(())
}

/// A size, with a unit where it is for people.
pub fn size(bytes: u64, is_human: bool) -> String {
    if !is_human || bytes < 1024 {
        return bytes.to_string();
    }
    let (mut tenths, mut unit) = (bytes.saturating_mul(10), 0);
    while tenths >= 10_240 {
        tenths = tenths.div_ceil(1024);
        unit += 1;
    }
    let unit = ["", "K", "M", "G", "T", "P"].get(unit).copied().unwrap_or("E");
    if tenths < 100 {
        format!("{}.{}{unit}", tenths / 10, tenths % 10)
    } else {
        format!("{}{unit}", tenths.div_ceil(10))
    }
}

/// Fails where a path is the root of the workspace or `/tmp`, which stay.
pub fn keep_root(call: &Call<'_>, path: &str) -> Outcome<()> {
    let absolute = call.shell.files.absolute(&call.shell.state.current, path);
    if absolute == TEMPORARY {
        return fail(format!("'{path}' stays: name what is in it"));
    }
    if absolute == call.shell.files.root {
        return fail(format!("'{path}' is the workspace itself, which stays: name what is in it"));
    }
    Ok(())
}
