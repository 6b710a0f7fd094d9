//! `tar`, `gzip`, `gunzip` and `zcat`

use std::io::{Read, Write};
use std::time::UNIX_EPOCH;

use formats::gzip::{Gzip, GzipReader};
use formats::tar::{add_file, add_folder};
use tar::{Archive, Builder, Entry, EntryType};

use crate::call::{Call, Options};
use crate::files::{MAX_FILE_BYTES, Metadata, Place, explain};
use crate::shell::{Outcome, Stop, fail};

pub fn compress(bytes: &[u8], level: u32) -> Outcome<Vec<u8>> {
    let mut packed = Gzip::new(Vec::new(), level)?;
    packed.write_all(bytes)?;
    Ok(packed.finish()?)
}

fn decompress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    GzipReader::new(bytes).take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!("it unpacks to more than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    Ok(text)
}

/// `gzip`, `gunzip` and `zcat`
pub fn gzip(call: &mut Call<'_>) -> Outcome {
    let long = "decompress=d stdout=c keep=k force=f best=9 fast=1";
    let options = call.options("dckfnqv123456789", long, false)?;
    let unpacks = options.has('d') || call.name != "gzip";
    let level =
        ('1'..='9').rev().find(|level| options.has(*level)).and_then(|level| level.to_digit(10)).unwrap_or(6);
    let change = |bytes: &[u8]| {
        if unpacks {
            decompress(bytes).map_err(|error| Stop::Fail(1, error.to_string()))
        } else {
            compress(bytes, level)
        }
    };
    if options.rest.is_empty() || options.rest == ["-"] {
        let changed = change(&call.io.input.read_all())?;
        return call.out(changed).map(|()| 0);
    }
    let mut status = 0;
    for path in &options.rest {
        let changed = call.read_or_fail(path, 1).and_then(|bytes| change(&bytes));
        status = match changed {
            Ok(changed) if options.has('c') || call.name == "zcat" => call.out(changed).map(|()| status)?,
            Ok(changed) => replace(call, &options, path, unpacks, changed)?.max(status),
            Err(Stop::Fail(_, message)) => {
                let message =
                    if message.starts_with(path.as_str()) { message } else { format!("{path}: {message}") };
                call.complain(&message).map(|()| 1)?
            }
            Err(stop) => return Err(stop),
        };
    }
    Ok(status)
}

/// Writes the changed content of a file beside it, and removes the file.
fn replace(call: &mut Call<'_>, options: &Options, path: &str, unpacks: bool, changed: Vec<u8>) -> Outcome {
    let target = match (unpacks, path.strip_suffix(".gz"), path.strip_suffix(".tgz")) {
        (false, ..) => format!("{path}.gz"),
        (true, Some(name), _) => name.to_owned(),
        (true, None, Some(name)) => format!("{name}.tar"),
        _ => return call.complain(&format!("{path}: unknown suffix -- ignored")).map(|()| 2),
    };
    let place = call.place(&target)?;
    if place.exists() && !options.has('f') {
        return call.complain(&format!("{target} already exists; use -f to overwrite it")).map(|()| 2);
    }
    place.write(changed)?;
    if !options.has('k') {
        call.place(path)?.remove_file()?;
    }
    Ok(0)
}

struct Tar {
    /// `c`, `x` or `t`
    mode: char,
    is_packed: bool,
    is_verbose: bool,
    archive: String,
    folder: String,
    strip: usize,
    excluded: Vec<String>,
    names: Vec<String>,
}

impl Tar {
    /// Whether an entry is among the names, or in a folder of these.
    fn wants(&self, name: &str, inside: &str) -> bool {
        let is_met = |wanted: &String| {
            let wanted = wanted.trim_end_matches('/');
            inside == wanted || name == wanted || inside.starts_with(&format!("{wanted}/"))
        };
        self.names.is_empty() || self.names.iter().any(is_met)
    }
}

pub fn tar(call: &mut Call<'_>) -> Outcome {
    let tar = read_options(call)?;
    let outcome = match tar.mode {
        'c' => create(call, &tar),
        _ => extract(call, &tar),
    };
    outcome.map_err(|stop| stop.with_status(2))
}

/// The arguments as other commands have them.
fn words(arguments: &[String]) -> Vec<String> {
    // The first word may be letters without a hyphen.
    let mut arguments = arguments.to_vec();
    if let Some(first) = arguments.first_mut().filter(|first| !first.starts_with('-')) {
        first.insert(0, '-');
    }
    // In `-cfv a.tar`, the value of `f` is the next word.
    let mut words = Vec::new();
    let mut rest = arguments.into_iter();
    while let Some(word) = rest.next() {
        match word.strip_prefix('-').filter(|letters| {
            !letters.starts_with('-') && letters.len() > 1 && letters.contains('f') && !letters.ends_with('f')
        }) {
            Some(letters) => {
                let value = rest.next().unwrap_or_default();
                words.extend([format!("-{}", letters.replace('f', "")), "-f".to_owned(), value]);
            }
            None => words.push(word),
        }
    }
    words
}

fn read_options(call: &Call<'_>) -> Outcome<Tar> {
    let words = words(call.arguments);
    let long = "create=c extract=x list=t gzip=z file=f directory=C verbose=v exclude=E strip-components=S";
    let mut shell = crate::shell::Shell::new(call.shell.files.clone());
    let options = Call::new(&mut shell, "tar", &words, call.io).options("cxtzf:C:vE:S:p", long, false)?;
    let Some(mode) = ['c', 'x', 't'].into_iter().find(|mode| options.has(*mode)) else {
        return fail("one of -c, -x and -t is needed");
    };
    let archive = options.value('f').unwrap_or("-").to_owned();
    Ok(Tar {
        mode,
        is_packed: options.has('z'),
        is_verbose: options.has('v'),
        archive,
        folder: options.value('C').unwrap_or(".").to_owned(),
        strip: options.value('S').and_then(|count| count.parse().ok()).unwrap_or(0),
        excluded: options.values('E').map(str::to_owned).collect(),
        names: options.rest,
    })
}

fn create(call: &mut Call<'_>, tar: &Tar) -> Outcome {
    if tar.names.is_empty() {
        return fail("cowardly refusing to create an empty archive: name files");
    }
    let mut builder = Builder::new(Vec::new());
    let mut status = 0;
    let mut waiting: Vec<String> = tar.names.iter().rev().cloned().collect();
    let mut count = 0;
    while let Some(name) = waiting.pop() {
        count += 1;
        if count > call.shell.files.max_paths {
            return fail(call.shell.files.too_many("the archive would have"));
        }
        if builder.get_ref().len() as u64 > MAX_FILE_BYTES {
            return fail(format!(
                "the archive would have more than {} MiB: pack it in parts",
                MAX_FILE_BYTES >> 20
            ));
        }
        let path = if tar.folder == "." || name.starts_with('/') {
            name.clone()
        } else {
            format!("{}/{name}", tar.folder)
        };
        if excludes(call, tar, &name)? {
            continue;
        }
        match call.place(&path).and_then(|place| place.metadata()) {
            Ok(metadata) => {
                let below = add(call, tar, &mut builder, &name, &path, &metadata)?;
                waiting.extend(below.into_iter().rev());
            }
            Err(error) => {
                call.complain(&format!("{name}: Cannot stat: {}", explain(&error)))?;
                status = 2;
            }
        }
    }
    store(call, tar, builder.into_inner()?)?;
    Ok(status)
}

/// Adds a file or a folder to an archive. Returns the names in the folder.
fn add(
    call: &mut Call<'_>,
    tar: &Tar,
    builder: &mut Builder<Vec<u8>>,
    name: &str,
    path: &str,
    metadata: &Metadata,
) -> Outcome<Vec<String>> {
    let modified_s = metadata.modified.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut stored = name.trim_start_matches('/').to_owned();
    let mut below = Vec::new();
    if metadata.is_folder() {
        stored = format!("{}/", stored.trim_end_matches('/'));
        add_folder(builder, &stored, modified_s)?;
        let names = call.names(path)?;
        below.extend(names.iter().map(|entry| format!("{}/{entry}", name.trim_end_matches('/'))));
    } else {
        add_file(builder, &stored, &call.read_or_fail(path, 2)?, modified_s)?;
    }
    if tar.is_verbose {
        call.line(stored)?;
    }
    Ok(below)
}

fn store(call: &mut Call<'_>, tar: &Tar, mut bytes: Vec<u8>) -> Outcome<()> {
    if tar.is_packed {
        bytes = compress(&bytes, 6)?;
    }
    if tar.archive == "-" {
        return call.out(bytes);
    }
    let written = call.place(&tar.archive).and_then(|place| place.write(bytes));
    written.or_else(|error| cannot_open(&tar.archive, &error))
}

fn cannot_open<T>(path: &str, error: &std::io::Error) -> Outcome<T> {
    fail(format!("{path}: Cannot open: {}", explain(error)))
}

fn excludes(call: &mut Call<'_>, tar: &Tar, name: &str) -> Outcome<bool> {
    let base = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    for pattern in &tar.excluded {
        if call.shell.matches(pattern, base)? || call.shell.matches(pattern, name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn extract(call: &mut Call<'_>, tar: &Tar) -> Outcome {
    let mut bytes = call.read(&tar.archive).or_else(|error| cannot_open(&tar.archive, &error))?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        bytes = decompress(&bytes)?;
    }
    let mut archive = Archive::new(bytes.as_slice());
    let folder = match tar.mode {
        'x' => tar.folder.as_str(),
        _ => ".",
    };
    let folder = call.place(folder).or_else(|error| cannot_open(folder, &error))?;
    let mut status = 0;
    for entry in archive.entries()? {
        let mut entry =
            entry.or_else(|error| fail(format!("this does not look like a tar archive: {error}")))?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let inside = name.trim_start_matches("./").trim_end_matches('/');
        if !tar.wants(&name, inside) {
            continue;
        }
        if tar.mode == 't' || tar.is_verbose {
            call.line(&name)?;
        }
        if tar.mode == 't' {
            continue;
        }
        let parts = inside.split('/').filter(|part| !matches!(*part, "" | "."));
        let parts: Vec<&str> = parts.skip(tar.strip).collect();
        if parts.is_empty() {
            continue;
        }
        if parts.contains(&"..") {
            call.complain(&format!("{name}: Member name contains '..'"))?;
            status = 2;
            continue;
        }
        if !unpack(&mut entry, &folder.join(&parts.join("/")))? {
            call.complain(&format!("{name}: a link or a device is not unpacked by this shell"))?;
            status = 2;
        }
    }
    Ok(status)
}

/// Writes a folder or a file. Returns false for anything else.
fn unpack(entry: &mut Entry<'_, &[u8]>, place: &Place) -> std::io::Result<bool> {
    match entry.header().entry_type() {
        EntryType::Directory => place.create_folders()?,
        EntryType::Regular | EntryType::Continuous => {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            place.write_below(bytes)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
