//! `append`: text at the end of a file.
//!
//! The one tool that writes in place, since a log can be larger than what a copy has room for. A write that fails midway
//! is cut off again.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use memchr::memchr;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::atomic_write::remove_folders;
use crate::failure::is_folder;
use crate::text::end_in_crlf;
use crate::workspace::Workspace;

/// How much of the beginning and of the end is looked at. Binary files show themselves there.
const LOOKED_AT_BYTES: u64 = 8 * 1024;

/// Adds text to the end of a file. Makes the file and its folders if there are none.
///
/// The text begins on a line of its own: where the file does not end with a line feed, one comes first. Set `new_line`
/// to false to go on in the file's last line. A file that does not end in text in UTF-8 is refused.
///
/// Where all lines of the file end in CRLF, as those at its beginning and at its end show, `\n` in `content` means `\r\n`,
/// unless there is an `\r` in it.
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
        let ends = Ends::read(&mut file, before).map_err(failed)?;
        if let Some(kind) = ends.other_than_text() {
            return Err(Error::new(format!(
                "`{}` is {kind}, and text in UTF-8 would spoil it: take all of it by `read_bytes`, and `write` it anew with `encoding` `base64`",
                place.name
            )));
        }
        let added = ends.continue_with(content, new_line);
        let written = file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(added.as_bytes()));
        if let Err(error) = written {
            let undone = if created { std::fs::remove_file(&place.path) } else { file.set_len(before) };
            let told = failed(error);
            return Err(match undone {
                Ok(()) => told,
                Err(_) => Error::new(format!("{}; a part of the text may be in it", told.message())),
            });
        }
        Ok(Appended { path: place.name, bytes: before + added.len() as u64, created })
    }
}

/// The beginning and the end of a file. In a short file, both are all of it.
struct Ends {
    first: Vec<u8>,
    last: Vec<u8>,
    /// Whether `last` may begin within a line.
    is_cut: bool,
}

impl Ends {
    fn read(file: &mut File, length: u64) -> io::Result<Self> {
        let mut ends = Self { first: Vec::new(), last: Vec::new(), is_cut: length > LOOKED_AT_BYTES };
        file.seek(SeekFrom::Start(0))?;
        file.take(LOOKED_AT_BYTES).read_to_end(&mut ends.first)?;
        file.seek(SeekFrom::Start(length.saturating_sub(LOOKED_AT_BYTES)))?;
        file.take(LOOKED_AT_BYTES).read_to_end(&mut ends.last)?;
        Ok(ends)
    }

    /// The kind of a file that is no text in UTF-8, by the mark of UTF-16, by zeros, or by how it ends.
    fn other_than_text(&self) -> Option<&'static str> {
        let has_mark = self.first.starts_with(&[0xff, 0xfe]) || self.first.starts_with(&[0xfe, 0xff]);
        if has_mark || memchr(0, &self.first).or_else(|| memchr(0, &self.last)).is_some() {
            return Some("binary, or text in UTF-16");
        }
        // The cut may go through a character, of which three bytes can be left.
        let begun =
            self.last.iter().take(3).take_while(|byte| self.is_cut && (**byte & 0xc0) == 0x80).count();
        std::str::from_utf8(&self.last[begun..]).is_err().then_some("text that does not end in UTF-8")
    }

    /// The text to add, with the line ends of the file, and with one before it where a new line is wanted.
    fn continue_with(&self, content: &str, new_line: bool) -> String {
        let first = self.first.split_inclusive(|byte| *byte == b'\n');
        let last = self.last.split_inclusive(|byte| *byte == b'\n').skip(usize::from(self.is_cut));
        let is_crlf = end_in_crlf(first.chain(last));
        let mut added = match is_crlf && !content.contains('\r') {
            true => content.replace('\n', "\r\n"),
            false => content.to_owned(),
        };
        // Where nothing is added, the last line stays as it is.
        if new_line && !added.is_empty() && self.last.last().is_some_and(|last| *last != b'\n') {
            added.insert_str(0, if is_crlf { "\r\n" } else { "\n" });
        }
        added
    }
}
