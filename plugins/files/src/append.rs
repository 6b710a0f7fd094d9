//! `append`: text at the end of a file.
//!
//! The one tool that writes in place, since a log can be larger than what a copy has room for. What fails in the middle
//! is cut off again.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use memchr::memchr;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::failure::is_folder;
use crate::replace::remove_folders;
use crate::workspace::Workspace;

/// How much of the beginning and of the end is looked at. Binary files show themselves there.
const LOOKED_AT_BYTES: u64 = 8 * 1024;

/// Adds text to the end of a file. Makes the file and its folders if there are none.
///
/// The text begins on a line of its own: where the file does not end with a line feed, one comes first. Set `new_line`
/// to false to go on in the file's last line. A file in UTF-16 or a binary one is refused.
#[tool(
    open_world = false,
    destructive = false,
    tags("file", "text", "log", "add"),
    examples({"path": "notes.md", "content": "- call Ada\n"} => {"path": "notes.md", "bytes": 30, "created": false})
)]
pub fn append(
    /// The file, from the workspace's root
    path: String,
    /// The text to add
    content: String,
    /// Whether the text begins on a line of its own
    #[default(true)]
    new_line: bool,
) -> Result<Appended, Error> {
    Workspace::of_session().append(&path, &content, new_line)
}

/// What became of the file.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Appended {
    /// The file, from the workspace's root
    pub path: String,
    /// How many bytes it has now
    pub bytes: u64,
    /// Whether there was no such file before
    pub created: bool,
}

impl Workspace {
    pub fn append(&self, path: &str, content: &str, new_line: bool) -> Result<Appended, Error> {
        let place = self.place_of_file(path)?;
        let found = std::fs::symlink_metadata(&place.path);
        if found.as_ref().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(is_folder(&place));
        }
        let created = found.is_err();
        let made = self.make_folders(&place)?;
        let failed = |error: io::Error| {
            remove_folders(&made);
            self.explain(&error, &place, "written")
        };
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&place.path)
            .map_err(failed)?;
        let before = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if is_other_than_text(&mut file, before).map_err(failed)? {
            return Err(Error::new(format!(
                "`{}` is binary, or text in UTF-16, and text in UTF-8 would spoil it: take all of it by `read_bytes`, and `write` it anew with `encoding` `base64`",
                place.name
            )));
        }
        match add(&mut file, before, content, new_line) {
            Ok(bytes) => Ok(Appended { path: place.name, bytes, created }),
            Err(error) => {
                let undone = if created { std::fs::remove_file(&place.path) } else { file.set_len(before) };
                let told = failed(error);
                Err(match undone {
                    Ok(()) => told,
                    Err(_) => Error::new(format!("{}; a part of the text may be in it", told.message())),
                })
            }
        }
    }
}

/// Whether both ends of a file show that it holds no text in UTF-8: by the mark of UTF-16, or by zeros.
fn is_other_than_text(file: &mut File, length: u64) -> io::Result<bool> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(LOOKED_AT_BYTES).read_to_end(&mut bytes)?;
    let has_mark = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    file.seek(SeekFrom::Start(length.saturating_sub(LOOKED_AT_BYTES)))?;
    file.take(LOOKED_AT_BYTES).read_to_end(&mut bytes)?;
    Ok(has_mark || memchr(0, &bytes).is_some())
}

/// Adds text after the bytes that are there, and gives how many there are then.
fn add(file: &mut File, before: u64, content: &str, new_line: bool) -> io::Result<u64> {
    let mut last = [b'\n'];
    if new_line && before > 0 {
        file.seek(SeekFrom::Start(before - 1))?;
        file.read_exact(&mut last)?;
    }
    file.seek(SeekFrom::Start(before))?;
    let mut length = before + content.len() as u64;
    if last != [b'\n'] {
        file.write_all(b"\n")?;
        length += 1;
    }
    file.write_all(content.as_bytes())?;
    Ok(length)
}
