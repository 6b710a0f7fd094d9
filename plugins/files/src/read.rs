//! `read`: a part of a text file, by lines.
//!
//! The file goes by in pieces, so its size costs time and no memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use memchr::{memchr, memchr_iter, memrchr};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::failure::is_binary;
use crate::workspace::Workspace;

/// What one call gives at most. Six times this, the worst that JSON makes of it, is still within the limit of a result.
const MAX_TEXT_BYTES: usize = 128 * 1024;

/// Binary files show themselves early.
const SNIFFED_BYTES: usize = 8 * 1024;

/// Bytes that the host gives in one go.
const PIECE_BYTES: usize = 64 * 1024;

/// Reads a text file, or some of its lines.
///
/// Paths are relative to the workspace: `notes/today.md`. One call gives at most 128 KiB; `next_line` is where to read
/// on. Lines come as they are in the file, without numbers. Binary files are refused: `read_bytes` reads those, and
/// parts of a very long line.
#[tool(
    read_only,
    open_world = false,
    tags("file", "text", "open", "cat"),
    examples(
        {"path": "notes.md"} => {"text": "# Notes\n- buy milk\n", "total_lines": 2, "total_bytes": 19},
        "the last lines of a log": {"path": "log.txt", "start_line": 3, "line_count": 100}
            => {"text": "three\nfour\n", "total_lines": 4, "total_bytes": 19},
    )
)]
pub fn read(
    /// The file, from the workspace's root
    path: String,
    /// The first line to read, counted from 1
    #[default(1)]
    #[schemars(range(min = 1))]
    start_line: u32,
    /// How many lines to read at most
    #[default(2000)]
    #[schemars(range(min = 1))]
    line_count: u32,
) -> Result<Excerpt, Error> {
    Workspace::of_session().read(&path, start_line, line_count)
}

/// A part of a text file.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Excerpt {
    /// The lines, as they are in the file
    pub text: String,
    /// How many lines the file has
    pub total_lines: u64,
    /// How many bytes the file has
    pub total_bytes: u64,
    /// Line to read on from, if this is not the end
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
    /// Whether the last line is cut, because it is too long
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub cut: bool,
    /// Byte at which the rest of a line that is cut begins, for `read_bytes`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_byte: Option<u64>,
}

impl Workspace {
    pub fn read(&self, path: &str, start_line: u32, line_count: u32) -> Result<Excerpt, Error> {
        let place = self.place(path)?;
        let mut lines =
            Lines { file: BufReader::with_capacity(PIECE_BYTES, self.open(&place)?), count: 0, bytes: 0 };
        let failed = |error| self.explain(&error, &place, "read");
        let head = lines.file.fill_buf().map_err(failed)?;
        if memchr(0, &head[..head.len().min(SNIFFED_BYTES)]).is_some() {
            return Err(is_binary(&place));
        }
        let start = u64::from(start_line.max(1));
        lines.pass(start - 1).map_err(failed)?;
        let start_byte = lines.bytes;
        let (text, is_full) = lines.take(line_count.max(1)).map_err(failed)?;
        let (text, cut) = whole_lines(text, is_full);
        let text = String::from_utf8(text).map_err(|_| is_binary(&place))?;
        let read_to = start + memchr_iter(b'\n', text.as_bytes()).count() as u64 + u64::from(cut);
        lines.pass(u64::MAX).map_err(failed)?;
        let (total_lines, total_bytes) = (lines.count, lines.bytes);
        if start > total_lines.max(1) {
            return Err(Error::invalid(format!(
                "`{}` has {total_lines} lines: begin at one of them",
                place.name
            )));
        }
        Ok(Excerpt {
            // Behind a last line without an end nothing is left.
            next_line: (read_to <= total_lines && (cut || text.ends_with('\n'))).then_some(read_to),
            next_byte: cut.then_some(start_byte + text.len() as u64),
            text,
            total_lines,
            total_bytes,
            cut,
        })
    }
}

/// The lines of a file, while it goes by.
struct Lines {
    file: BufReader<File>,
    /// How many lines have begun.
    count: u64,
    bytes: u64,
}

impl Lines {
    /// Passes over lines, or over all that are left.
    fn pass(&mut self, lines: u64) -> io::Result<()> {
        for _ in 0..lines {
            let length = self.file.skip_until(b'\n')?;
            if length == 0 {
                break;
            }
            self.bytes += length as u64;
            self.count += 1;
        }
        Ok(())
    }

    /// Takes lines, as far as an answer has room for them. Whether it has not, so that the last is not taken to its end.
    fn take(&mut self, lines: u32) -> io::Result<(Vec<u8>, bool)> {
        let mut text = Vec::new();
        for _ in 0..lines {
            let room = MAX_TEXT_BYTES + 1 - text.len();
            let length = self.file.by_ref().take(room as u64).read_until(b'\n', &mut text)?;
            if length == 0 {
                break;
            }
            self.bytes += length as u64;
            if length == room {
                let is_end = text.ends_with(b"\n");
                self.bytes += if is_end { 0 } else { self.file.skip_until(b'\n')? as u64 };
                self.count += 1;
                return Ok((text, true));
            }
            self.count += 1;
        }
        Ok((text, false))
    }
}

/// Drops the line that an answer has no room for. If it is the first one, its beginning is all there is to give, and it
/// is cut.
fn whole_lines(mut text: Vec<u8>, is_full: bool) -> (Vec<u8>, bool) {
    if !is_full {
        return (text, false);
    }
    text.pop();
    if let Some(last) = memrchr(b'\n', &text) {
        text.truncate(last + 1);
        return (text, false);
    }
    let end = match std::str::from_utf8(&text) {
        // The cap may have cut a character in two.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => text.len(),
    };
    text.truncate(end);
    (text, true)
}
