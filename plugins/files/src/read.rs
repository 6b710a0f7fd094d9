//! `read`: a part of a text file, by lines.
//!
//! The file goes by in pieces, so its size costs time and no memory.

use std::io::{BufRead, BufReader};

use memchr::{memchr, memchr_iter};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::failure::is_binary;
use crate::workspace::{Place, Workspace};

/// What one call gives at most. Six times this, the worst that JSON makes of it, is still within the limit of a result.
const MAX_TEXT_BYTES: usize = 128 * 1024;

/// Binary files show themselves early.
const SNIFFED_BYTES: u64 = 8 * 1024;

/// What the host gives in one go.
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
    /// Where to read on, if this is not the end
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
    /// Whether the last line is cut, because it is too long
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub cut: bool,
    /// Where the rest of a line that is cut begins, for `read_bytes`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_byte: Option<u64>,
}

impl Workspace {
    pub fn read(&self, path: &str, start_line: u32, line_count: u32) -> Result<Excerpt, Error> {
        let place = self.place(path)?;
        let file = self.open(&place)?;
        let start = u64::from(start_line.max(1));
        let mut selection =
            Selection { start, end: start + u64::from(line_count.max(1)), line: 1, ..Selection::default() };
        let mut file = BufReader::with_capacity(PIECE_BYTES, file);
        loop {
            let piece = file.fill_buf().map_err(|error| self.explain(&error, &place, "read"))?;
            if piece.is_empty() {
                return selection.into_excerpt(&place);
            }
            selection.take_piece(piece, &place)?;
            let length = piece.len();
            file.consume(length);
        }
    }
}

/// The lines from `start` up to `end`, while the file goes by.
#[derive(Default)]
struct Selection {
    start: u64,
    end: u64,
    /// The line that the next byte belongs to.
    line: u64,
    /// Whether the current line has begun.
    in_line: bool,
    kept: Vec<u8>,
    /// Where in the file the kept text begins.
    kept_from: u64,
    /// The line where the text became too long.
    full_at: Option<u64>,
    seen_bytes: u64,
}

impl Selection {
    fn take_piece(&mut self, piece: &[u8], place: &Place) -> Result<(), Error> {
        let sniffed = usize::try_from(SNIFFED_BYTES.saturating_sub(self.seen_bytes)).unwrap_or(0);
        if memchr(0, &piece[..sniffed.min(piece.len())]).is_some() {
            return Err(is_binary(place));
        }
        let mut rest = piece;
        while !rest.is_empty() {
            let line;
            (line, rest) = if self.is_wanted() {
                let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
                rest.split_at(end)
            } else {
                self.pass_over(rest)
            };
            self.take(line);
        }
        Ok(())
    }

    fn is_wanted(&self) -> bool {
        (self.start..self.end).contains(&self.line) && self.full_at.is_none()
    }

    /// Cuts off what is passed over in one go: up to the first line that is wanted, or all of it.
    fn pass_over<'p>(&self, rest: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        let lines = usize::try_from(self.start.saturating_sub(self.line)).unwrap_or(usize::MAX);
        let end = match lines {
            0 => None,
            _ => memchr_iter(b'\n', rest).nth(lines - 1),
        };
        rest.split_at(end.map_or(rest.len(), |at| at + 1))
    }

    /// Takes a line or a part of one, or lines that are passed over.
    fn take(&mut self, bytes: &[u8]) {
        if self.is_wanted() {
            if self.kept.is_empty() {
                self.kept_from = self.seen_bytes;
            }
            let room = MAX_TEXT_BYTES - self.kept.len();
            self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if bytes.len() > room {
                self.full_at = Some(self.line);
            }
        }
        self.seen_bytes += bytes.len() as u64;
        self.in_line = !bytes.ends_with(b"\n");
        self.line += memchr_iter(b'\n', bytes).count() as u64;
    }

    fn into_excerpt(mut self, place: &Place) -> Result<Excerpt, Error> {
        let total_lines = self.line - u64::from(!self.in_line);
        if self.start > total_lines.max(1) {
            return Err(Error::invalid(format!(
                "`{}` has {total_lines} lines: begin at one of them",
                place.name
            )));
        }
        let cut = self.cut_to_whole_lines();
        let (kept_from, total_bytes) = (self.kept_from, self.seen_bytes);
        let text = self.text(place)?;
        let read_to = self.full_at.unwrap_or(self.end).max(self.start + u64::from(cut));
        let next_line = (read_to <= total_lines).then_some(read_to);
        let next_byte = cut.then(|| kept_from + text.len() as u64);
        Ok(Excerpt { text, total_lines, total_bytes, next_line, cut, next_byte })
    }

    /// Drops the line that did not fit. Only where it is the first one, its beginning is all there is to give.
    fn cut_to_whole_lines(&mut self) -> bool {
        if self.full_at.is_none() {
            return false;
        }
        match self.kept.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => {
                self.kept.truncate(last + 1);
                false
            }
            None => true,
        }
    }

    fn text(&mut self, place: &Place) -> Result<String, Error> {
        match String::from_utf8(std::mem::take(&mut self.kept)) {
            Ok(text) => Ok(text),
            // The cap may have cut a character in two.
            Err(error) if self.full_at.is_some() && error.utf8_error().error_len().is_none() => {
                let end = error.utf8_error().valid_up_to();
                let mut bytes = error.into_bytes();
                bytes.truncate(end);
                String::from_utf8(bytes).map_err(|_| is_binary(place))
            }
            Err(_) => Err(is_binary(place)),
        }
    }
}
