//! A text file as a whole, for the tools that change a part of one.

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
        self.open(place)?
            .take(MAX_TEXT_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| self.explain(&error, place, "read"))?;
        if bytes.len() as u64 > MAX_TEXT_FILE_BYTES {
            return Err(Error::new(format!(
                "`{}` is larger than {} MiB: too large to be changed in place",
                place.name,
                MAX_TEXT_FILE_BYTES / 1024 / 1024
            )));
        }
        String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).ok_or_else(|| is_binary(place))
    }
}
