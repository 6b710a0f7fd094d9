//! A text file as a whole, for the tools that change a part of one.
//!
//! The tools share one rule about line ends. A model writes line feeds into any file. So where every line
//! of a file ends in CRLF, and what is written for it has no carriage return, its line feeds mean CRLF. Everywhere else
//! an end is bytes like any other, or a model could not change one.

use std::fs::File;
use std::io::Read;

use toolgate_sdk::Error;

use crate::failure::{is_binary, is_folder};
use crate::workspace::{Place, Workspace};

/// A call has 64 MiB of memory, and needs the text before the change and after it.
pub const MAX_TEXT_FILE_BYTES: u64 = 8 * 1024 * 1024;

impl Workspace {
    /// Opens a file to be read.
    pub fn open(&self, place: &Place) -> Result<File, Error> {
        let metadata = self.look(place)?;
        if metadata.is_dir() {
            return Err(is_folder(place));
        }
        File::open(&place.path).map_err(|error| self.explain(&error, place, "read"))
    }

    /// The whole text of a file.
    pub fn load_text(&self, place: &Place) -> Result<String, Error> {
        let mut bytes = Vec::new();
        let read = self.open(place)?.take(MAX_TEXT_FILE_BYTES + 1).read_to_end(&mut bytes);
        if read.map_err(|error| self.explain(&error, place, "read"))? as u64 > MAX_TEXT_FILE_BYTES {
            return Err(Error::new(format!(
                "`{}` is larger than {} MiB, and too large to be changed in place: `read` it in parts, `append` them with the change to a new file, and `move` that over it",
                place.name,
                MAX_TEXT_FILE_BYTES / 1024 / 1024
            )));
        }
        String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).ok_or_else(|| is_binary(place))
    }
}

/// The mark that some editors put at the beginning of a text. It is no part of the first line.
pub const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A text without its mark.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Whether all of these lines end in CRLF. A last one without an end says nothing, and a text without an end says no.
pub fn end_in_crlf<L: AsRef<[u8]>>(lines: impl Iterator<Item = L>) -> bool {
    let mut ends = lines.filter(|line| line.as_ref().ends_with(b"\n")).peekable();
    ends.peek().is_some() && ends.all(|line| line.as_ref().ends_with(b"\r\n"))
}
