//! `stat`: what is known of one file or folder.

use std::io::Read;

use memchr::{memchr, memchr_iter};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::text::MAX_TEXT_FILE_BYTES;
use crate::workspace::{Kind, MAX_DEPTH, Place, Step, Workspace, bytes_of, is_zero};

/// Tells about one file or folder: its kind, size, age, and whether it is text.
///
/// Of a folder it tells how many files are in it, at any depth, and their size together. A path that does not exist is
/// an error, which names the nearest path that does.
#[tool(
    read_only,
    open_world = false,
    tags("file", "folder", "size", "exists", "modified"),
    examples(
        {"path": "notes.md"}
            => {"path": "notes.md", "kind": "file", "bytes": 19, "modified": "2026-01-02T03:04:05Z", "content": "text", "lines": 2},
        {"path": "src"}
            => {"path": "src", "kind": "folder", "bytes": 56, "modified": "2026-01-02T03:04:05Z", "files": 2, "folders": 0},
    )
)]
pub fn stat(
    /// The file or folder, from the workspace's root
    path: String,
) -> Result<Facts, Error> {
    Workspace::of_session().stat(&path)
}

/// The facts about a file or folder.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Facts {
    /// The path, from the workspace's root
    pub path: String,
    pub kind: Kind,
    /// The size, of a folder with all that is in it
    pub bytes: u64,
    /// When it was last changed, in UTC
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    /// Kind of the content
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// How many lines a text file has, unless it is larger than 8 MiB
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// How many files are in a folder, at any depth
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// How many folders are in a folder, at any depth
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folders: Option<u64>,
    /// How many folders in it could not be looked into, and names that cannot be shown
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub unreadable: u32,
}

/// The kind of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    Empty,
    /// Text in UTF-8, as far as its first 8 MiB tell
    Text,
    Binary,
}

impl Workspace {
    pub fn stat(&self, path: &str) -> Result<Facts, Error> {
        let place = self.place(path)?;
        let metadata = self.look(&place)?;
        let modified = metadata.modified().ok();
        let facts = Facts {
            path: place.name.clone(),
            kind: Kind::of(&metadata),
            bytes: metadata.len(),
            modified: modified.map(|time| humantime::format_rfc3339_seconds(time).to_string()),
            content: None,
            lines: None,
            files: None,
            folders: None,
            unreadable: 0,
        };
        match facts.kind {
            Kind::File => self.look_into_file(&place, facts),
            Kind::Folder => self.look_into_folder(&place, facts),
            Kind::Link | Kind::Other => Ok(facts),
        }
    }

    fn look_into_file(&self, place: &Place, facts: Facts) -> Result<Facts, Error> {
        let mut bytes = Vec::new();
        let read = self.open(place)?.take(MAX_TEXT_FILE_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| self.explain(&error, place, "read"))?;
        let content = content_of(&bytes, facts.bytes > MAX_TEXT_FILE_BYTES);
        let is_counted = content == Content::Text && facts.bytes <= MAX_TEXT_FILE_BYTES;
        let lines = memchr_iter(b'\n', &bytes).count() + usize::from(!bytes.ends_with(b"\n"));
        Ok(Facts { content: Some(content), lines: is_counted.then_some(lines as u64), ..facts })
    }

    fn look_into_folder(&self, place: &Place, facts: Facts) -> Result<Facts, Error> {
        let (mut bytes, mut files, mut folders) = (0, 0, 0);
        let unreadable = self.walk(place, MAX_DEPTH, None, &mut |entry| {
            match entry.kind {
                Kind::Folder => folders += 1,
                _ => {
                    files += 1;
                    bytes += bytes_of(entry.path);
                }
            }
            Step::On
        })?;
        Ok(Facts { bytes, files: Some(files), folders: Some(folders), unreadable, ..facts })
    }
}

/// The kind of content by the beginning of a file, or all of it.
fn content_of(bytes: &[u8], is_cut: bool) -> Content {
    if bytes.is_empty() {
        return Content::Empty;
    }
    let is_text = memchr(0, bytes).is_none()
        // A character may be cut in two where reading stopped. At the end of the file, `read` refuses it.
        && std::str::from_utf8(bytes).map_or_else(|error| is_cut && error.error_len().is_none(), |_| true);
    if is_text { Content::Text } else { Content::Binary }
}
