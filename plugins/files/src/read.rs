//! `read`: a part of a text file, by lines.
//!
//! The file goes by in pieces, so its size costs time and no memory.

use std::fs::File;
use std::io::{BufRead, BufReader};

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::workspace::{Place, Workspace, explain};

/// What one call gives at most. Six times this, the worst that JSON makes of it, is still within the limit of a result.
const MAX_TEXT_BYTES: usize = 128 * 1024;

/// Binary files show themselves early.
const SNIFFED_BYTES: usize = 8 * 1024;

/// Reads a text file.
///
/// Paths are relative to the workspace: `notes/today.md`. Of a long file one call gives a part; `next_line` is where to
/// read on. Binary files are refused.
#[tool(read_only, tags("file", "text", "open"), examples({"path": "notes.md"}, {"path": "log.txt", "start_line": 201, "line_count": 100}))]
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
    /// Where to read on, if this is not the end
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
    /// Whether the last line is cut, because it is too long
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub cut: bool,
}

impl Workspace {
    pub fn read(&self, path: &str, start_line: u32, line_count: u32) -> Result<Excerpt, Error> {
        let place = self.place(path)?;
        let file = File::open(&place.path).map_err(|error| explain(&error, &place, "read"))?;
        if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(Error::new(format!("`{}` is a folder: `list` shows what is in it", place.name)));
        }
        let start = u64::from(start_line.max(1));
        let mut selection =
            Selection { start, end: start + u64::from(line_count.max(1)), line: 1, ..Selection::default() };
        selection.read(&mut BufReader::new(file), &place)?;
        selection.into_excerpt(&place)
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
    /// The line where the text became too long.
    full_at: Option<u64>,
    seen_bytes: usize,
}

impl Selection {
    fn read(&mut self, file: &mut dyn BufRead, place: &Place) -> Result<(), Error> {
        loop {
            let piece = file.fill_buf().map_err(|error| explain(&error, place, "read"))?;
            if piece.is_empty() {
                return Ok(());
            }
            let sniffed = SNIFFED_BYTES.saturating_sub(self.seen_bytes).min(piece.len());
            if piece[..sniffed].contains(&0) {
                return Err(is_binary(place));
            }
            for line in piece.split_inclusive(|byte| *byte == b'\n') {
                self.take(line);
            }
            let length = piece.len();
            self.seen_bytes += length;
            file.consume(length);
        }
    }

    /// Takes a line, or a part of one that is cut by the end of a piece.
    fn take(&mut self, bytes: &[u8]) {
        if (self.start..self.end).contains(&self.line) && self.full_at.is_none() {
            let room = MAX_TEXT_BYTES - self.kept.len();
            self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if bytes.len() > room {
                self.full_at = Some(self.line);
            }
        }
        self.in_line = !bytes.ends_with(b"\n");
        self.line += u64::from(!self.in_line);
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
        let text = self.text(place)?;
        let read_to = self.full_at.unwrap_or(self.end).max(self.start + u64::from(cut));
        Ok(Excerpt { text, total_lines, next_line: (read_to <= total_lines).then_some(read_to), cut })
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

fn is_binary(place: &Place) -> Error {
    Error::new(format!("`{}` is not a text file in UTF-8: it cannot be read here", place.name))
}
