//! `zip` and `unzip`

use std::collections::{HashMap, HashSet};
use std::io::{Cursor, Read, Write};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::date::format_seconds;
use crate::call::{Call, Options, text_of};
use crate::files::{MAX_FILE_BYTES, Metadata, explain};
use crate::shell::{Outcome, Stop, fail};

type Reader = ZipArchive<Cursor<Vec<u8>>>;

struct Packer<'o> {
    options: &'o Options,
    writer: ZipWriter<Cursor<Vec<u8>>>,
}

fn archive_error(error: ZipError) -> Stop {
    Stop::Fail(3, format!("the archive cannot be read or written: {error}"))
}

/// The arguments before `-x`, and the patterns after it.
fn split_excluded(arguments: &[String]) -> (Vec<String>, Vec<String>) {
    let Some(start) = arguments.iter().position(|word| word == "-x") else {
        return (arguments.to_vec(), Vec::new());
    };
    let is_pattern = |word: &&String| !word.starts_with('-') && *word != "@";
    let excluded: Vec<String> = arguments[start + 1..].iter().take_while(is_pattern).cloned().collect();
    let rest = arguments[start + 1 + excluded.len()..].iter().filter(|word| *word != "@");
    (arguments[..start].iter().chain(rest).cloned().collect(), excluded)
}

pub fn zip(call: &mut Call<'_>) -> Outcome {
    let (arguments, excluded) = split_excluded(call.arguments);
    let long = "recurse-paths=r quiet=q junk-paths=j no-dir-entries=D";
    let options =
        Call::new(call.shell, "zip", &arguments, call.io).options("rqjDyX0123456789", long, false)?;
    let [archive, names @ ..] = options.rest.as_slice() else { return fail("needs an archive and files") };
    if names.is_empty() {
        return fail("needs the files that the archive takes");
    }
    let has_suffix = archive == "-" || archive.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let archive = if has_suffix { archive.clone() } else { format!("{archive}.zip") };
    let own = call.shell.files.absolute(&call.shell.state.current, &archive);
    let entries = collect(call, &options, &excluded, &own)?;
    if entries.is_empty() {
        return Err(Stop::Fail(12, format!("Nothing to do! ({archive})")));
    }
    let mut packer = Packer { options: &options, writer: ZipWriter::new(Cursor::new(Vec::new())) };
    let mut added = HashSet::new();
    if archive != "-" && call.place(&archive).is_ok_and(|place| place.exists()) {
        added = update(call, &mut packer, &archive, &entries)?;
    }
    for entry in entries.iter().filter(|entry| !added.contains(&entry.name)) {
        add(call, &mut packer, entry, "  adding")?;
    }
    let packed = packer.writer.finish().map_err(archive_error)?.into_inner();
    match archive.as_str() {
        "-" => call.out(packed)?,
        path => call
            .create(path, false)
            .and_then(|output| output.write(&packed))
            .or_else(|error| fail(format!("{path}: {}", explain(&error))))?,
    }
    Ok(0)
}

/// Copies the entries of an archive, of which those with new content are replaced. Returns the names of these.
fn update(
    call: &mut Call<'_>,
    packer: &mut Packer,
    archive: &str,
    entries: &[Entry],
) -> Outcome<HashSet<String>> {
    let new: HashMap<&str, &Entry> = entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let mut old = open(call, archive)?;
    let mut added = HashSet::new();
    for index in 0..old.len() {
        let kept = old.by_index_raw(index).map_err(archive_error)?;
        let name = text_of(kept.name_raw());
        match new.get(name.as_str()) {
            None => packer.writer.raw_copy_file(kept).map_err(archive_error)?,
            Some(entry) => {
                add(call, packer, entry, "updating")?;
                added.insert(name);
            }
        }
    }
    Ok(added)
}

/// A file or a folder that an archive takes.
struct Entry {
    name: String,
    path: String,
    found: Metadata,
}

/// The files and folders that the names stand for, without the archive itself.
fn collect(call: &mut Call<'_>, options: &Options, excluded: &[String], own: &str) -> Outcome<Vec<Entry>> {
    let (mut entries, mut total) = (Vec::new(), 0_u64);
    let mut waiting: Vec<String> = options.rest[1..].iter().rev().cloned().collect();
    while let Some(path) = waiting.pop() {
        let Ok(found) = call.place(&path).and_then(|place| place.metadata()) else {
            call.complain(&format!("warning: name not matched: {path}"))?;
            continue;
        };
        if found.is_folder() && options.has('r') {
            let below = call.shell.files.list_for_walk(&call.shell.state.current, &path)?;
            let folder = path.trim_end_matches('/');
            waiting.extend(below.iter().rev().map(|name| format!("{folder}/{name}")));
        }
        if entries.len() + waiting.len() > call.shell.files.max_paths {
            return fail(call.shell.files.too_many("the archive would have"));
        }
        let Some(name) = entry_name(options, &path, &found)? else { continue };
        let is_own = call.shell.files.absolute(&call.shell.state.current, &path) == own;
        if is_own || call.shell.matches_any(excluded, &name)? {
            continue;
        }
        total += if found.is_file() { found.bytes } else { 0 };
        if total > MAX_FILE_BYTES {
            let most = MAX_FILE_BYTES >> 20;
            return fail(format!("the files have more than {most} MiB: pack them in parts"));
        }
        entries.push(Entry { name, path, found });
    }
    Ok(entries)
}

/// The name that an archive has of a path, or none of a folder that it leaves out.
fn entry_name(options: &Options, path: &str, found: &Metadata) -> Outcome<Option<String>> {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return fail(format!("{path}: a name in an archive cannot have '..': use `cd`"));
    }
    let is_left_out = parts.is_empty() || options.has('j') || options.has('D');
    Ok(match (found.is_folder(), options.has('j')) {
        (true, _) if is_left_out => None,
        (true, _) => Some(parts.join("/") + "/"),
        (false, true) => parts.last().map(|name| (*name).to_owned()),
        (false, false) => Some(parts.join("/")),
    })
}

/// Adds a file or a folder, and says how it is stored.
fn add(call: &mut Call<'_>, packer: &mut Packer, entry: &Entry, verb: &str) -> Outcome<()> {
    let Packer { options, writer } = packer;
    let Entry { name, path, found } = entry;
    let settings = SimpleFileOptions::default().last_modified_time(time(found)?);
    let mut percent = 0;
    if found.is_folder() {
        writer.add_directory(name.as_str(), settings).map_err(archive_error)?;
    } else {
        let bytes = call.read_or_fail(path, 1)?;
        let level =
            ('0'..='9').zip(0..).filter(|(flag, _)| options.has(*flag)).last().map_or(6, |(_, level)| level);
        // The gzip around the same data takes 18 bytes.
        let packed =
            if level == 0 { bytes.len() } else { super::archive::compress(&bytes, level)?.len() - 18 };
        let is_stored = packed >= bytes.len();
        let method = if is_stored { CompressionMethod::Stored } else { CompressionMethod::Deflated };
        let level = (!is_stored).then_some(i64::from(level));
        let settings = settings.compression_method(method).compression_level(level);
        writer.start_file(name.as_str(), settings).map_err(archive_error)?;
        writer.write_all(&bytes)?;
        if !is_stored {
            percent = ((bytes.len() - packed) * 200 + bytes.len()) / (2 * bytes.len());
        }
    }
    if options.has('q') || options.rest.first().is_some_and(|archive| archive == "-") {
        return Ok(());
    }
    let how = if percent > 0 { "deflated" } else { "stored" };
    call.line(format!("{verb}: {name} ({how} {percent}%)"))
}

/// The time of a file as archives have it, from 1980 on.
fn time(found: &Metadata) -> Outcome<DateTime> {
    let seconds = found.modified.duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let text = format_seconds("%Y %m %d %H %M %S", &seconds.to_string())?;
    let parts: Vec<u16> = text.split(' ').filter_map(|part| part.parse().ok()).collect();
    let byte = |index: usize| parts.get(index).and_then(|part| u8::try_from(*part).ok()).unwrap_or_default();
    let year = parts.first().copied().unwrap_or_default();
    Ok(DateTime::from_date_and_time(year, byte(1), byte(2), byte(3), byte(4), byte(5)).unwrap_or_default())
}

fn open(call: &mut Call<'_>, path: &str) -> Outcome<Reader> {
    let bytes = call
        .read(path)
        .map_err(|error| Stop::Fail(9, format!("cannot find or open {path}: {}", explain(&error))))?;
    let archive = ZipArchive::new(Cursor::new(bytes))
        .map_err(|error| Stop::Fail(9, format!("{path} is no zip archive, or it is damaged: {error}")))?;
    if archive.len() > call.shell.files.max_paths {
        return fail(call.shell.files.too_many("the archive has"));
    }
    Ok(archive)
}

/// Entries of an archive: their indexes and names.
type Chosen = Vec<(usize, String)>;

pub fn unzip(call: &mut Call<'_>) -> Outcome {
    let (arguments, excluded) = split_excluded(call.arguments);
    let options = Call::new(call.shell, "unzip", &arguments, call.io).options("lonqpjtZ1d:", "", false)?;
    let Some((path, wanted)) = options.rest.split_first() else { return fail("needs an archive") };
    let with_suffix = format!("{path}.zip");
    let exists = |path: &str| call.place(path).is_ok_and(|place| place.exists());
    let path = if !exists(path) && exists(&with_suffix) { &with_suffix } else { path };
    let mut archive = open(call, path)?;
    let (chosen, unmatched) = choose(call, &mut archive, wanted, &excluded)?;
    let is_quiet = options.has('q') || options.has('p') || options.has('Z');
    if !is_quiet {
        call.line(format!("Archive:  {path}"))?;
    }
    let mut status = if options.has('Z') {
        chosen.iter().try_for_each(|(_, name)| call.line(name)).map(|()| 0)?
    } else if options.has('l') {
        list(call, &mut archive, &chosen)?
    } else {
        extract(call, &options, &mut archive, &chosen)?
    };
    if options.has('t') && !is_quiet && status == 0 {
        call.line(format!("No errors detected in compressed data of {path}."))?;
    }
    for pattern in unmatched {
        call.complain(&format!("caution: filename not matched:  {pattern}"))?;
        status = 11;
    }
    Ok(status)
}

/// The entries that the patterns choose, and the patterns that choose none.
fn choose(
    call: &mut Call<'_>,
    archive: &mut Reader,
    wanted: &[String],
    excluded: &[String],
) -> Outcome<(Chosen, Vec<String>)> {
    let (mut chosen, mut unmatched) = (Chosen::new(), wanted.to_vec());
    for index in 0..archive.len() {
        let name = text_of(archive.by_index_raw(index).map_err(archive_error)?.name_raw());
        let mut is_wanted = wanted.is_empty();
        for pattern in wanted {
            if call.shell.matches(pattern, &name)? {
                is_wanted = true;
                unmatched.retain(|other| other != pattern);
            }
        }
        if is_wanted && !call.shell.matches_any(excluded, &name)? {
            chosen.push((index, name));
        }
    }
    Ok((chosen, unmatched))
}

fn list(call: &mut Call<'_>, archive: &mut Reader, chosen: &Chosen) -> Outcome {
    call.line("  Length      Date    Time    Name\n---------  ---------- -----   ----")?;
    let mut total = 0_u64;
    for (index, name) in chosen {
        let entry = archive.by_index_raw(*index).map_err(archive_error)?;
        total = total.saturating_add(entry.size());
        let time = entry.last_modified().unwrap_or_default();
        let (year, month, day) = (time.year(), time.month(), time.day());
        let clock = format!("{:02}:{:02}", time.hour(), time.minute());
        call.line(format!("{:>9}  {year}-{month:02}-{day:02} {clock}   {name}", entry.size()))?;
    }
    let count = chosen.len();
    let plural = if count == 1 { "" } else { "s" };
    call.line("---------                     -------")?;
    call.line(format!("{total:>9}                     {count} file{plural}")).map(|()| 0)
}

/// Why an entry is not unpacked.
fn refusal(name: &str, is_link: bool) -> Option<&'static str> {
    if is_link {
        return Some("a link is not unpacked by this shell");
    }
    if name.starts_with(['/', '\\']) || name.contains(":\\") {
        return Some("an absolute path is not unpacked by this shell");
    }
    name.split(['/', '\\']).any(|part| part == "..").then_some("Member name contains '..'")
}

/// Unpacks entries into a folder, to the output with `-p`, or nowhere with `-t`.
fn extract(call: &mut Call<'_>, options: &Options, archive: &mut Reader, chosen: &Chosen) -> Outcome {
    let (mut status, mut left) = (0, MAX_FILE_BYTES);
    for (index, name) in chosen {
        let mut entry = archive.by_index(*index).map_err(archive_error)?;
        if let Some(reason) = refusal(name, entry.is_symlink()) {
            call.complain(&format!("{name}: {reason}"))?;
            status = 2;
            continue;
        }
        let is_stored = entry.compression() == CompressionMethod::Stored;
        let mut bytes = Vec::new();
        let read = (&mut entry).take(left + 1).read_to_end(&mut bytes);
        read.map_err(|error| Stop::Fail(3, format!("{name}: {error}")))?;
        let Some(rest) = left.checked_sub(bytes.len() as u64) else {
            let most = MAX_FILE_BYTES >> 20;
            return fail(format!("the archive unpacks to more than {most} MiB: name some of its files"));
        };
        left = rest;
        if options.has('p') {
            call.out(bytes)?;
        } else if !options.has('t') {
            status = status.max(store(call, options, name, &bytes, is_stored)?);
        } else if !options.has('q') {
            call.line(format!("    testing: {name:<22}   OK"))?;
        }
    }
    Ok(status)
}

/// Writes an entry. Its file is kept where there is one already, unless `-o` is given.
fn store(call: &mut Call<'_>, options: &Options, name: &str, bytes: &[u8], is_stored: bool) -> Outcome {
    let is_folder = name.ends_with('/');
    let inside = match options.has('j') {
        true => name.rsplit('/').next().unwrap_or_default(),
        false => name.trim_end_matches('/'),
    };
    let path = match options.value('d') {
        Some(folder) => format!("{}/{inside}", folder.trim_end_matches('/')),
        None => inside.to_owned(),
    };
    let cannot = |error: std::io::Error| Stop::Fail(50, format!("{path}: {}", explain(&error)));
    let place = call.place(&path).map_err(cannot)?;
    if inside.is_empty() || is_folder && (options.has('j') || place.is_folder()) {
        return Ok(0);
    }
    if !is_folder && place.exists() && !options.has('o') {
        if options.has('n') {
            return Ok(0);
        }
        return call.complain(&format!("{path} already exists: -o overwrites it, -n keeps it")).map(|()| 1);
    }
    let (written, shown) = match (is_folder, is_stored) {
        (true, _) => (place.create_folders(), format!("   creating: {path}/")),
        (false, true) => (place.write_below(bytes), format!(" extracting: {path:<22}  ")),
        (false, false) => (place.write_below(bytes), format!("  inflating: {path:<22}  ")),
    };
    written.map_err(cannot)?;
    if !options.has('q') {
        call.line(shown)?;
    }
    Ok(0)
}
