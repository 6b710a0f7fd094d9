//! `pack`: files and folders into one archive.
//!
//! The same files give the same bytes: they come in the order of their names, and without their times.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use formats::gzip::Gzip;
use formats::tar::{add_file, add_folder};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::archive::{
    Format, MAX_COMPRESSED_FROM_BYTES, MAX_ENTRIES, MAX_PACKED_FROM_BYTES, MAX_UNPACKED_BYTES, checked_name,
};
use crate::dir_walk;
use crate::workspace::{Kind, Place, Workspace, is_zero};

/// Compressing more tightly takes three times the fuel, and saves little.
const COMPRESSION_LEVEL: u32 = 1;

/// How many files, folders and links in one folder are looked at. A call may ask the host 100,000 times.
const MAX_LOOKED_AT: usize = 20_000;

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
    /// Advice to read before the archive is used
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
        let bytes = self.write_archive(&choice.members, &target, &staged.file, format, level)?;
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

    /// Writes an archive, and gives how many bytes its files had.
    fn write_archive(
        &self,
        members: &[Member],
        target: &Place,
        file: &File,
        format: Format,
        level: u32,
    ) -> Result<u64, Error> {
        let failed = |error: io::Error| self.explain(&error, target, "packed");
        let mut archive =
            Archive::new(BufWriter::with_capacity(64 * 1024, file), format, level).map_err(failed)?;
        let (mut left, mut content) = (MAX_PACKED_FROM_BYTES, Vec::new());
        for Member { name, place, kind } in members {
            if *kind == Kind::Folder {
                archive.add_folder(name).map_err(failed)?;
                continue;
            }
            dir_walk::read(&place.path, left, &mut content).map_err(|error| match error.kind() {
                io::ErrorKind::FileTooLarge => too_much(),
                _ => self.explain(&error, place, "packed"),
            })?;
            left -= content.len();
            archive.add_file(name, &content).map_err(failed)?;
        }
        archive.finish().map_err(failed)?;
        Ok((MAX_PACKED_FROM_BYTES - left) as u64)
    }

    /// The entries of the archive, each once, in the order of the names.
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
                let (all, unreadable) = self.all_in(&place, MAX_LOOKED_AT)?;
                if all.len() > MAX_LOOKED_AT {
                    return Err(too_much());
                }
                choice.left_out += u64::from(unreadable);
                all.into_iter().try_for_each(|(place, kind)| choice.add(place, kind, base, target))?;
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
        files.map(|file| file.place.bytes()).sum()
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

/// An archive in the making.
enum Archive<W: Write + Seek> {
    Zip(Box<ZipWriter<W>>, SimpleFileOptions),
    Tar(tar::Builder<Gzip<W>>),
}

impl<W: Write + Seek> Archive<W> {
    /// Level 0 is not compressed.
    fn new(output: W, format: Format, level: u32) -> io::Result<Self> {
        let (method, of_zip) = match level {
            0 => (CompressionMethod::Stored, None),
            level => (CompressionMethod::Deflated, Some(level.into())),
        };
        let options = SimpleFileOptions::default().compression_method(method).compression_level(of_zip);
        Ok(match format {
            Format::Zip => Self::Zip(
                Box::new(ZipWriter::new(output)),
                options.last_modified_time(zip::DateTime::default()),
            ),
            Format::TarGz => Self::Tar(tar::Builder::new(Gzip::new(output, level)?)),
        })
    }

    fn add_folder(&mut self, name: &str) -> io::Result<()> {
        match self {
            Self::Zip(writer, options) => Ok(writer.add_directory(name, *options)?),
            Self::Tar(builder) => add_folder(builder, name, 0),
        }
    }

    fn add_file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        match self {
            Self::Zip(writer, options) => {
                writer.start_file(name, *options)?;
                writer.write_all(content)
            }
            Self::Tar(builder) => add_file(builder, name, content, 0),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Zip(writer, _) => writer.finish()?.flush(),
            Self::Tar(builder) => builder.into_inner()?.finish()?.flush(),
        }
    }
}
