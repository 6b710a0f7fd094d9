//! `unpack`: an archive into a folder of its own.
//!
//! Archives come from anywhere. Every name is checked as text before anything is written under it, links and devices
//! are refused, and what is unpacked is counted while it comes: the sizes in the archive are not believed. It all goes into
//! a neighbour of the folder, which gets the folder's name when all is well: nothing is replaced, and nothing is half
//! there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use formats::gzip::GzipReader;
use schemars::JsonSchema;
use serde::Serialize;
use tar::EntryType;
use toolgate_sdk::{Error, tool};
use zip::CompressionMethod;
use zip::result::ZipError;

use crate::archive::{Format, MAX_ENTRIES, MAX_UNPACKED_BYTES, checked_name};
use crate::atomic_write::{neighbour, remove_folders};
use crate::delete::remove_all;
use crate::output_budget::shorten;
use crate::workspace::{Kind, Place, Workspace};

/// Names and notes that come before a file in a tar archive. No honest one is larger.
const MAX_NOTE_BYTES: u64 = 64 * 1024;

/// A tar archive is made of blocks of this size.
const TAR_BLOCK_BYTES: usize = 512;

/// Advice about an archive of another kind.
const PACK_ANEW: &str = "have it packed anew as a usual zip or tar.gz";

/// The end of a zip archive: a record of 22 bytes and a comment.
const ZIP_END_BYTES: u64 = 22 + 65_535;

/// Enough of a name to know it by.
const MAX_NAME_CHARACTERS: usize = 200;

/// Unpacks a zip or tar.gz archive into a new folder.
///
/// `to` may not exist yet, or must be empty; move from there what belongs elsewhere. At most 10 MiB and 2,000 files and
/// folders. An archive with links, devices, a password, or names that lead elsewhere is refused, and then nothing is
/// unpacked. Other kinds are not known here: a single file in gzip, 7z, rar, bzip2, xz, and zips compressed as these are.
#[tool(
    destructive = false,
    open_world = false,
    tags("archive", "zip", "tar", "extract"),
    examples({"archive": "project.zip", "to": "project"}
        => {"to": "project", "format": "zip", "files": 2, "folders": 1, "bytes": 56})
)]
pub fn unpack(
    /// The archive, from the workspace's root
    archive: String,
    /// The folder to unpack into, from the workspace's root
    to: String,
) -> Result<Unpacked, Error> {
    Workspace::of_session().unpack(&archive, &to)
}

/// The unpacked files.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Unpacked {
    /// The folder, from the workspace's root
    pub to: String,
    pub format: Format,
    /// How many files were unpacked
    pub files: u64,
    /// How many folders there are for them
    pub folders: u64,
    /// How many bytes the files have
    pub bytes: u64,
}

impl Workspace {
    pub fn unpack(&self, archive: &str, to: &str) -> Result<Unpacked, Error> {
        let archive = self.place(archive)?;
        let mut file = self.open(&archive)?;
        let format = format_of(&mut file, &archive)?;
        let target = self.place(to)?;
        let is_there = self.check_is_free(&target)?;
        let made = self.make_folders(&target)?;
        let folder = Place { name: target.name.clone(), path: neighbour(&target, "unpacking", 1) };
        fs::create_dir(&folder.path).map_err(|error| {
            remove_folders(&made);
            match error.kind() {
                io::ErrorKind::AlreadyExists => Error::new(format!(
                    "what an earlier call left is in the way: delete `{}.unpacking1~`",
                    folder.name
                )),
                _ => self.explain(&error, &folder, "made"),
            }
        })?;
        let filled = self.fill(&folder, file, format, &archive).and_then(|output| {
            self.give_name(&folder, &target, is_there)?;
            Ok(output)
        });
        let output = filled.inspect_err(|_| {
            // The error that led here is the one to tell.
            let _ = remove_all(self, &folder);
            remove_folders(&made);
        })?;
        let Output { files, folders, left_bytes, .. } = output;
        Ok(Unpacked { to: target.name, format, files, folders, bytes: MAX_UNPACKED_BYTES - left_bytes })
    }

    /// Whether the folder is there. If so it is empty.
    fn check_is_free(&self, target: &Place) -> Result<bool, Error> {
        if target.name == "." {
            return Err(Error::invalid("`to` is the workspace itself: name a new folder in it"));
        }
        let Ok(found) = fs::symlink_metadata(&target.path) else { return Ok(false) };
        let is_empty =
            found.is_dir() && fs::read_dir(&target.path).is_ok_and(|mut entries| entries.next().is_none());
        if is_empty {
            return Ok(true);
        }
        Err(Error::new(format!(
            "`{}` is there already: name a new folder, and move from there what belongs elsewhere",
            target.name
        )))
    }

    fn give_name(&self, folder: &Place, target: &Place, is_there: bool) -> Result<(), Error> {
        let failed = |error| self.explain(&error, target, "made");
        if is_there {
            fs::remove_dir(&target.path).map_err(failed)?;
        }
        fs::rename(&folder.path, &target.path).map_err(failed)
    }

    /// Unpacks an archive into a new folder.
    fn fill<'f>(
        &self,
        folder: &'f Place,
        file: File,
        format: Format,
        archive: &Place,
    ) -> Result<Output<'f>, Error> {
        let mut output = Output {
            folder: &folder.path,
            seen: BTreeMap::new(),
            left_bytes: MAX_UNPACKED_BYTES,
            files: 0,
            folders: 0,
        };
        let done = match format {
            Format::Zip => output.take_zip(file),
            Format::TarGz => output.take_tar(file),
        };
        done.map_err(|refused| match refused {
            Refused::Said(reason) => Error::new(format!("`{}` is not unpacked: {reason}", archive.name)),
            Refused::Read(error) => Error::new(format!(
                "`{}` cannot be read to its end: {error}; it may be damaged or cut short",
                archive.name
            )),
            Refused::Write(error) => self.explain(&error, folder, "unpacked"),
        })?;
        Ok(output)
    }
}

fn format_of(file: &mut File, place: &Place) -> Result<Format, Error> {
    let mut head = Vec::new();
    file.take(TAR_BLOCK_BYTES as u64).read_to_end(&mut head)?;
    file.seek(SeekFrom::Start(0))?;
    Format::of_head(&head).ok_or_else(|| {
        let name = &place.name;
        Error::new(match other_format(&head) {
            Some(other) => format!("`{name}` is {other}, which is not unpacked here: {PACK_ANEW}"),
            None => format!("`{name}` is no archive that is known here: it is neither zip nor gzip"),
        })
    })
}

/// What else an archive may be, by its first bytes.
fn other_format(head: &[u8]) -> Option<&'static str> {
    match head {
        [b'B', b'Z', b'h', ..] => Some("a bzip2 file"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Some("an xz file"),
        [b'7', b'z', 0xbc, 0xaf, ..] => Some("a 7z archive"),
        [b'R', b'a', b'r', b'!', ..] => Some("a rar archive"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("a zstd file"),
        _ if has_tar_mark(head) => Some("a tar archive without gzip"),
        _ => None,
    }
}

fn has_tar_mark(block: &[u8]) -> bool {
    block.get(257..262) == Some(b"ustar")
}

/// Whether an archive begins like this. The oldest have no mark, but a sum of the block, in which the sum counts as spaces.
fn begins_tar(block: &[u8]) -> bool {
    let Ok(block) = <&[u8; TAR_BLOCK_BYTES]>::try_from(block) else { return false };
    let mut header = tar::Header::from_byte_slice(block).clone();
    let told = header.cksum().ok();
    header.set_cksum();
    has_tar_mark(block) || block.iter().all(|byte| *byte == 0) || told == header.cksum().ok()
}

/// Why an archive is not unpacked.
enum Refused {
    /// Because of what is in it, in words.
    Said(String),
    /// Because it is damaged.
    Read(io::Error),
    /// Because there is no room for it.
    Write(io::Error),
}

type Taken<T = ()> = Result<T, Refused>;

/// The folder that is being filled.
struct Output<'f> {
    folder: &'f Path,
    /// The entries in it by now.
    seen: BTreeMap<String, Kind>,
    left_bytes: u64,
    files: u64,
    folders: u64,
}

impl Output<'_> {
    fn take_zip(&mut self, mut file: File) -> Taken {
        check_zip_count(&mut file)?;
        let mut archive =
            zip::ZipArchive::new(BufReader::with_capacity(64 * 1024, file)).map_err(damaged_zip)?;
        if archive.has_duplicate_names() {
            return Err(refusal("a name is in it twice".to_owned()));
        }
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index).map_err(damaged_zip)?;
            let raw = entry.name_raw().to_vec();
            let name = taken_name(&raw)?;
            if entry.is_symlink() {
                return Err(refusal(format!("`{name}` in it is a link")));
            }
            let method = entry.compression();
            if !matches!(method, CompressionMethod::Deflated | CompressionMethod::Stored) {
                let reason =
                    format!("a file in it is compressed by `{method}`, which is not known here; {PACK_ANEW}");
                return Err(refusal(reason));
            }
            if entry.is_dir() {
                self.add_folder(&name)?;
            } else {
                self.add_file(&name, &mut entry)?;
            }
        }
        Ok(())
    }

    fn take_tar(&mut self, file: File) -> Taken {
        // The blocks around the files count too, so that an archive of nothing but notes ends as well.
        let content = GzipReader::new(BufReader::with_capacity(64 * 1024, file));
        let mut content = content.take(2 * MAX_UNPACKED_BYTES);
        let mut head = Vec::new();
        content.by_ref().take(TAR_BLOCK_BYTES as u64).read_to_end(&mut head).map_err(Refused::Read)?;
        if !begins_tar(&head) {
            return Err(refusal(format!(
                "it is a single file compressed with gzip, and no tar archive is in it; {PACK_ANEW}"
            )));
        }
        let mut archive = tar::Archive::new(head.chain(content));
        let mut long_name = None;
        let mut told_bytes = None;
        // Raw, because names and notes of any size would otherwise be read into memory.
        for entry in archive.entries().map_err(Refused::Read)?.raw(true) {
            let mut entry = entry.map_err(Refused::Read)?;
            let kind = entry.header().entry_type();
            match kind {
                EntryType::GNULongName => {
                    let note = read_note(&mut entry)?;
                    long_name = note.split(|byte| *byte == 0).next().map(<[u8]>::to_vec);
                }
                EntryType::XHeader => {
                    let note = PaxNote::read(&read_note(&mut entry)?)?;
                    long_name = note.name.or(long_name);
                    told_bytes = note.bytes;
                }
                EntryType::XGlobalHeader | EntryType::GNULongLink => {}
                _ => {
                    let raw = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
                    check_sizes(told_bytes.take(), entry.header().entry_size().map_err(Refused::Read)?)?;
                    self.add_tar_entry(&raw, kind, &mut entry)?;
                }
            }
        }
        let (_, mut rest) = archive.into_inner().into_inner();
        // The sums stand behind all that they are about, and only who reads to the end has compared them.
        io::copy(&mut rest, &mut io::sink()).map_err(Refused::Read)?;
        if rest.limit() == 0 { Err(too_large()) } else { Ok(()) }
    }

    fn add_tar_entry(&mut self, raw: &[u8], kind: EntryType, content: &mut dyn Read) -> Taken {
        if !matches!(kind, EntryType::Regular | EntryType::Continuous | EntryType::Directory) {
            let name = display_name(raw);
            return Err(refusal(format!(
                "`{name}` in it is a link, a device or another thing that is no file"
            )));
        }
        // Old archives mark a folder by a slash alone. The folder that all is packed from is often `./`.
        let is_folder = kind == EntryType::Directory || raw.ends_with(b"/");
        if is_folder && matches!(raw, b"." | b"./") {
            return Ok(());
        }
        let name = taken_name(raw)?;
        if is_folder { self.add_folder(&name) } else { self.add_file(&name, content) }
    }

    fn add_file(&mut self, name: &str, content: &mut dyn Read) -> Taken {
        if let Some((folder, _)) = name.rsplit_once('/') {
            self.add_folder(folder)?;
        }
        if self.seen.insert(name.to_owned(), Kind::File).is_some() {
            return Err(refusal(format!("`{name}` is in it twice")));
        }
        self.count()?;
        self.files += 1;
        let mut file = File::create_new(self.folder.join(name)).map_err(Refused::Write)?;
        let mut piece = [0; 16 * 1024];
        loop {
            let read = content.read(&mut piece).map_err(Refused::Read)?;
            if read == 0 {
                return Ok(());
            }
            self.left_bytes = self.left_bytes.checked_sub(read as u64).ok_or_else(too_large)?;
            file.write_all(&piece[..read]).map_err(Refused::Write)?;
        }
    }

    fn add_folder(&mut self, name: &str) -> Taken {
        for (end, _) in name.match_indices('/').chain([(name.len(), "")]) {
            let folder = &name[..end];
            match self.seen.insert(folder.to_owned(), Kind::Folder) {
                Some(Kind::Folder) => {}
                Some(_) => return Err(refusal(format!("`{folder}` in it is a file and a folder"))),
                None => {
                    self.count()?;
                    self.folders += 1;
                    fs::create_dir(self.folder.join(folder)).map_err(Refused::Write)?;
                }
            }
        }
        Ok(())
    }

    fn count(&self) -> Taken {
        if self.seen.len() > MAX_ENTRIES { Err(too_many()) } else { Ok(()) }
    }
}

fn refusal(reason: String) -> Refused {
    Refused::Said(reason)
}

fn too_many() -> Refused {
    refusal(format!("more than {MAX_ENTRIES} files and folders are in it"))
}

fn too_large() -> Refused {
    refusal(format!("what is in it has more than {} MiB", MAX_UNPACKED_BYTES / 1024 / 1024))
}

fn damaged_zip(error: ZipError) -> Refused {
    match error {
        ZipError::Io(error) => Refused::Read(error),
        ZipError::UnsupportedArchive(message) if message == ZipError::PASSWORD_REQUIRED => {
            refusal("it has a password".to_owned())
        }
        ZipError::UnsupportedArchive(message) => {
            refusal(format!("it is packed in a way that is not known here: {message}"))
        }
        other => Refused::Read(io::Error::other(other.to_string())),
    }
}

/// Looks at the number of entries that a zip archive says it has, before all of them are read into memory.
fn check_zip_count(file: &mut File) -> Taken {
    let length = file.seek(SeekFrom::End(0)).map_err(Refused::Read)?;
    file.seek(SeekFrom::Start(length.saturating_sub(ZIP_END_BYTES))).map_err(Refused::Read)?;
    let mut end = Vec::new();
    file.read_to_end(&mut end).map_err(Refused::Read)?;
    file.seek(SeekFrom::Start(0)).map_err(Refused::Read)?;
    let records = memchr::memmem::find_iter(&end, b"PK\x05\x06");
    // Each of them, since which one counts is for the reader to find out. 65,535 says that the number is elsewhere.
    for record in records {
        if let Some([low, high]) = end.get(record + 10..record + 12)
            && usize::from(u16::from_le_bytes([*low, *high])) > MAX_ENTRIES
        {
            return Err(too_many());
        }
    }
    Ok(())
}

fn read_note(entry: &mut dyn Read) -> Taken<Vec<u8>> {
    let mut note = Vec::new();
    entry.take(MAX_NOTE_BYTES + 1).read_to_end(&mut note).map_err(Refused::Read)?;
    if note.len() as u64 > MAX_NOTE_BYTES {
        return Err(refusal("a name in it is longer than any name".to_owned()));
    }
    Ok(note)
}

/// The fields of a PAX header about the entry after it (POSIX, `pax`).
#[derive(Default)]
struct PaxNote {
    name: Option<Vec<u8>>,
    bytes: Option<u64>,
}

impl PaxNote {
    fn read(text: &[u8]) -> Taken<Self> {
        let mut note = Self::default();
        for extension in tar::PaxExtensions::new(text) {
            let extension = extension.map_err(Refused::Read)?;
            match (extension.key_bytes(), extension.value()) {
                (b"path", _) => note.name = Some(extension.value_bytes().to_vec()),
                (b"size", size) => {
                    let bytes = size.ok().and_then(|size| size.parse().ok());
                    note.bytes = Some(
                        bytes.ok_or_else(|| refusal("the size of a file in it is no number".to_owned()))?,
                    );
                }
                (b"linkpath", _) => return Err(refusal("there is a link in it".to_owned())),
                _ => {}
            }
        }
        Ok(note)
    }
}

/// The size of a PAX header replaces that of the entry. npm and node-tar write both. They differ only where the entry has no
/// room for the number, which is far more than is unpacked here.
fn check_sizes(told: Option<u64>, in_entry: u64) -> Taken {
    match told.filter(|told| *told != in_entry) {
        None => Ok(()),
        Some(told) if told > MAX_UNPACKED_BYTES => Err(too_large()),
        Some(told) => Err(refusal(format!("a file in it has two sizes, {told} and {in_entry} bytes"))),
    }
}

fn taken_name(raw: &[u8]) -> Taken<String> {
    checked_name(raw).map_err(|reason| refusal(format!("the name `{}` in it {reason}", display_name(raw))))
}

/// A name that may be anything, for a message.
fn display_name(raw: &[u8]) -> String {
    shorten(&String::from_utf8_lossy(raw), MAX_NAME_CHARACTERS)
}
