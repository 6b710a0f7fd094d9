//! `pack`: files and folders into one archive.
//!
//! The same files give the same bytes: they come in the order of their names, and without their times.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::archive::{
    Format, MAX_COMPRESSED_FROM_BYTES, MAX_ENTRIES, MAX_PACKED_FROM_BYTES, MAX_UNPACKED_BYTES, checked_name,
    copy_at_most,
};
use crate::gzip::Gzip;
use crate::workspace::{Kind, MAX_DEPTH, Place, Step, Workspace};

/// Compressing more tightly takes three times the fuel, and saves little.
const COMPRESSION_LEVEL: u32 = 1;

/// Packs files and folders into an archive: zip or tar.gz, as its name says.
///
/// The names in the archive are the paths from `base`: with `base` `docs`, the file `docs/a.md` is `a.md`. At most 16 MiB
/// and 2,000 files and folders; more than 3 MiB are packed without being compressed. Links are left out. `unpack` takes no
/// more than 10 MiB: where an archive has more, `note` says so. Names that `unpack` refuses are not packed.
#[tool(
    destructive,
    idempotent,
    open_world = false,
    tags("archive", "zip", "tar", "compress"),
    examples({"paths": ["src", "notes.md"], "archive": "out/project.zip"}
        => {"archive": "out/project.zip", "format": "zip", "files": 3, "folders": 1, "bytes": 75, "archive_bytes": 476, "compressed": true})
)]
pub fn pack(
    /// The files and folders to pack, from the workspace's root
    #[schemars(length(min = 1, max = 1000))]
    paths: Vec<String>,
    /// The archive to make, from the workspace's root; ends in `.zip`, `.tar.gz` or `.tgz`
    archive: String,
    /// The folder from which names in the archive count
    #[default(".")]
    base: String,
    /// Whether an archive that is there is replaced
    #[default]
    overwrite: bool,
) -> Result<Packed, Error> {
    Workspace::of_session().pack(&paths, &archive, &base, overwrite)
}

/// The archive that was made.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Packed {
    /// The archive, from the workspace's root
    pub archive: String,
    pub format: Format,
    /// How many files are in it
    pub files: u64,
    /// How many folders are in it
    pub folders: u64,
    /// How many bytes the files have
    pub bytes: u64,
    /// How many bytes the archive has
    pub archive_bytes: u64,
    /// Whether it is compressed; too much is only put together
    pub compressed: bool,
    /// How many links and other things were left out
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub left_out: u64,
    /// What to know before the archive is used
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Workspace {
    pub fn pack(
        &self,
        paths: &[String],
        archive: &str,
        base: &str,
        overwrite: bool,
    ) -> Result<Packed, Error> {
        let target = self.place_of_file(archive)?;
        let format = Format::of_name(&target)?;
        if !overwrite && std::fs::symlink_metadata(&target.path).is_ok() {
            return Err(Error::new(format!(
                "`{}` is there already: choose another name, or set `overwrite` to replace it",
                target.name
            )));
        }
        let base = self.place(base)?;
        let choice = self.choose(paths, &base, &target)?;
        let level = if choice.bytes() > MAX_COMPRESSED_FROM_BYTES { 0 } else { COMPRESSION_LEVEL };
        let staged = self.stage(&target)?;
        let output = BufWriter::with_capacity(64 * 1024, &staged.file);
        let written = match format {
            Format::Zip => ZipArchive { writer: ZipWriter::new(output), level }.write_all(&choice.members),
            Format::TarGz => TarArchive::new(output, level)
                .map_err(|error| (None, error))
                .and_then(|archive| archive.write_all(&choice.members)),
        };
        let bytes = written.map_err(|(place, error)| match error.kind() {
            io::ErrorKind::FileTooLarge => too_much(),
            _ => self.explain(&error, place.unwrap_or(&target), "packed"),
        })?;
        let archive_bytes = staged.file.metadata().map_or(0, |metadata| metadata.len());
        self.put(staged)?;
        let folders = choice.members.iter().filter(|member| member.kind == Kind::Folder).count() as u64;
        Ok(Packed {
            archive: target.name,
            format,
            files: choice.members.len() as u64 - folders,
            folders,
            bytes,
            archive_bytes,
            compressed: level > 0,
            left_out: choice.left_out,
            note: (bytes > MAX_UNPACKED_BYTES).then(|| {
                format!(
                    "this is more than the {} MiB that `unpack` takes: pack it in parts if it is to be unpacked here",
                    MAX_UNPACKED_BYTES / 1024 / 1024
                )
            }),
        })
    }

    /// What goes into the archive, each once, in the order of the names.
    fn choose(&self, paths: &[String], base: &Place, target: &Place) -> Result<Choice, Error> {
        let mut choice = Choice { members: Vec::new(), left_out: 0 };
        for path in paths {
            let place = self.place(path)?;
            if !place.is_within(base) {
                return Err(Error::invalid(format!(
                    "`{}` does not lie in `base`, `{}`",
                    place.name, base.name
                )));
            }
            let kind = Kind::of(&self.look(&place)?);
            choice.add(place.clone(), kind, base, target)?;
            if kind == Kind::Folder {
                let mut full = Ok(());
                let unreadable = self.walk(&place, MAX_DEPTH, &mut |entry| {
                    let found = Place { name: entry.name.to_owned(), path: entry.path.to_owned() };
                    full = choice.add(found, entry.kind, base, target);
                    if full.is_ok() { Step::On } else { Step::End }
                })?;
                full?;
                choice.left_out += u64::from(unreadable);
            }
        }
        choice.members.sort_by(|left, right| crate::workspace::order(&left.name, &right.name));
        choice.members.dedup_by(|right, left| right.name == left.name);
        choice.check()?;
        if choice.members.is_empty() {
            return Err(Error::invalid("there is nothing to pack: name files or folders"));
        }
        Ok(choice)
    }
}

struct Choice {
    members: Vec<Member>,
    left_out: u64,
}

/// A file or folder to pack.
struct Member {
    /// As the archive calls it.
    name: String,
    place: Place,
    kind: Kind,
}

impl Choice {
    /// How many bytes the files have, as far as their folders tell.
    fn bytes(&self) -> u64 {
        let files = self.members.iter().filter(|member| member.kind == Kind::File);
        let sizes =
            files.map(|member| std::fs::symlink_metadata(&member.place.path).map_or(0, |file| file.len()));
        sizes.sum()
    }

    /// Looks at the names as `unpack` will, which makes the folders on the way to them too.
    fn check(&self) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        for Member { name, place, .. } in &self.members {
            checked_name(name.as_bytes()).map_err(|reason| {
                Error::new(format!(
                    "`{}` is not packed: its name {reason}, and `unpack` would refuse it; give it another one by `move`, or leave it out",
                    place.name
                ))
            })?;
            seen.insert(name.as_str());
            seen.extend(name.match_indices('/').map(|(end, _)| &name[..end]));
        }
        if seen.len() > MAX_ENTRIES { Err(too_much()) } else { Ok(()) }
    }

    fn add(&mut self, place: Place, kind: Kind, base: &Place, target: &Place) -> Result<(), Error> {
        if matches!(kind, Kind::Link | Kind::Other) {
            self.left_out += 1;
            return Ok(());
        }
        // The folder that all is counted from has no name, and an archive cannot hold itself.
        if place.path == base.path || place.path == target.path {
            return Ok(());
        }
        if self.members.len() == MAX_ENTRIES {
            return Err(too_much());
        }
        let from_root = if base.name == "." { 0 } else { base.name.len() + 1 };
        self.members.push(Member { name: place.name[from_root..].to_owned(), place, kind });
        Ok(())
    }
}

fn too_much() -> Error {
    Error::new(format!(
        "that is more than {} MiB or {MAX_ENTRIES} files and folders: pack it in parts",
        MAX_PACKED_FROM_BYTES / 1024 / 1024
    ))
}

/// What went wrong, and with which file if it was one.
type Failed<'m> = (Option<&'m Place>, io::Error);

/// An archive in the making.
trait Archive: Sized {
    fn add_folder(&mut self, name: &str) -> io::Result<()>;
    fn add_file(&mut self, name: &str, place: &Place, left: &mut u64) -> io::Result<()>;
    fn finish(self) -> io::Result<()>;

    /// Writes all members, and gives how many bytes the files had.
    fn write_all(mut self, members: &[Member]) -> Result<u64, Failed<'_>> {
        let mut left = MAX_PACKED_FROM_BYTES;
        for Member { name, place, kind } in members {
            let added = match kind {
                Kind::Folder => self.add_folder(name),
                _ => self.add_file(name, place, &mut left),
            };
            added.map_err(|error| (Some(place), error))?;
        }
        self.finish().map_err(|error| (None, error))?;
        Ok(MAX_PACKED_FROM_BYTES - left)
    }
}

struct ZipArchive<W: Write + io::Seek> {
    writer: ZipWriter<W>,
    level: u32,
}

impl<W: Write + io::Seek> ZipArchive<W> {
    fn options(&self) -> SimpleFileOptions {
        let (method, level) = match self.level {
            0 => (zip::CompressionMethod::Stored, None),
            level => (zip::CompressionMethod::Deflated, Some(i64::from(level))),
        };
        SimpleFileOptions::default()
            .compression_method(method)
            .compression_level(level)
            .last_modified_time(zip::DateTime::default())
    }
}

impl<W: Write + io::Seek> Archive for ZipArchive<W> {
    fn add_folder(&mut self, name: &str) -> io::Result<()> {
        Ok(self.writer.add_directory(name, self.options())?)
    }

    fn add_file(&mut self, name: &str, place: &Place, left: &mut u64) -> io::Result<()> {
        self.writer.start_file(name, self.options())?;
        copy_at_most(&mut std::fs::File::open(&place.path)?, &mut self.writer, left)?;
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        self.writer.finish()?.flush()
    }
}

struct TarArchive<W: Write>(tar::Builder<Gzip<W>>);

impl<W: Write> TarArchive<W> {
    fn new(output: W, level: u32) -> io::Result<Self> {
        Ok(Self(tar::Builder::new(Gzip::new(output, level)?)))
    }
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header
}

impl<W: Write> Archive for TarArchive<W> {
    fn add_folder(&mut self, name: &str) -> io::Result<()> {
        let mut header = header(tar::EntryType::Directory, 0o755, 0);
        self.0.append_data(&mut header, format!("{name}/"), io::empty())
    }

    fn add_file(&mut self, name: &str, place: &Place, left: &mut u64) -> io::Result<()> {
        // The size comes before the content, so the content is read whole first.
        let mut content = Vec::new();
        copy_at_most(&mut std::fs::File::open(&place.path)?, &mut content, left)?;
        let mut header = header(tar::EntryType::Regular, 0o644, content.len() as u64);
        self.0.append_data(&mut header, name, content.as_slice())
    }

    fn finish(self) -> io::Result<()> {
        self.0.into_inner()?.finish()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
