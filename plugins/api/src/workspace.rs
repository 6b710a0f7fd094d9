//! Workspace files: those whose content is sent, and the one that a response is saved to.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde_json::{Value, json};
use toolgate_sdk::Error;
use toolgate_sdk::http::Response;

use crate::request::refuse;

/// Most bytes of files in one request. They are in memory, of which a call has 64 MiB.
pub const SENT_BYTES: u64 = 16 * 1024 * 1024;

/// Most bytes of a saved response; the workspace has its own limits.
const SAVED_BYTES: u64 = 256 * 1024 * 1024;

/// Longest name that a service gives a file; Linux takes 255 bytes.
const NAME_BYTES: usize = 150;

const FILE_NAME: &str = "filename=";

/// Media types by the end of a name. Others are `application/octet-stream`.
const MEDIA_TYPES: [(&str, &str); 22] = [
    ("csv", "text/csv"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("zip", "application/zip"),
];

/// A file whose content is sent.
pub struct SentFile {
    pub name: String,
    pub media_type: &'static str,
    pub content: Vec<u8>,
}

impl SentFile {
    /// Reads the file that an argument names, of at most `left` bytes: what other files of the request leave of
    /// [`SENT_BYTES`].
    pub fn read(argument: &str, path: &str, left: u64) -> Result<Self, Error> {
        let place = place(path).ok_or_else(|| refuse(argument, NO_PATH))?;
        let mut content = Vec::new();
        let failed =
            |error: io::Error| refuse(argument, &format!("cannot be read: `{path}`: {}", Error::from(error)));
        File::open(&place).and_then(|file| file.take(left + 1).read_to_end(&mut content)).map_err(failed)?;
        if content.len() as u64 > left {
            let why = format!(
                "is too large: with `{path}` the files of the request have more than {SENT_BYTES} bytes"
            );
            return Err(refuse(argument, &why));
        }
        let name = place.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { media_type: media_type(&name), name, content })
    }
}

/// Saves the body of a response. Returns the path, the size and the media type.
pub fn save(response: Response, argument: &str, path: Option<&str>) -> Result<Value, Error> {
    let content_type = response.header("content-type").map(str::to_owned);
    let (name, place) = match path {
        Some(path) => {
            let place = place(path).ok_or_else(|| refuse(argument, NO_PATH))?;
            (path_inside(path).trim_matches('/').to_owned(), place)
        }
        None => free_place(&given_name(&response))?,
    };
    let parent = place.parent().map_or_else(root, PathBuf::from);
    fs::create_dir_all(&parent)?;
    // Beside it first, so that a response that breaks off replaces nothing.
    let staged = parent.join(format!(".{}.part", place.file_name().unwrap_or_default().to_string_lossy()));
    let written = write(response, &staged).and_then(|bytes| {
        fs::rename(&staged, &place)?;
        Ok(bytes)
    });
    if written.is_err() {
        // The cause is told; a file that cannot be removed either is not.
        let _ = fs::remove_file(&staged);
    }
    let mut saved = json!({"path": name, "bytes": written?});
    if let Some(content_type) = content_type {
        saved["content_type"] = json!(content_type);
    }
    Ok(saved)
}

fn write(response: Response, staged: &PathBuf) -> Result<u64, Error> {
    let mut file = File::create(staged)?;
    let mut body = response.into_reader().take(SAVED_BYTES + 1);
    let bytes = io::copy(&mut body, &mut file)?;
    file.flush()?;
    match bytes > SAVED_BYTES {
        true => Err(Error::new(format!("the response has more than {SAVED_BYTES} bytes: ask for less"))),
        false => Ok(bytes),
    }
}

const NO_PATH: &str =
    "is no path of a workspace file: write it from the workspace's root, as `in/report.pdf`";

/// The file at a path from the workspace's root, with or without `/workspace` before it.
fn place(path: &str) -> Option<PathBuf> {
    let inside = path_inside(path);
    let names = inside.split('/').filter(|name| !matches!(*name, "" | "."));
    let is_outside = path.starts_with('/') && inside.len() == path.len();
    if is_outside || path.contains('\0') || path.ends_with('/') || inside.split('/').any(|name| name == "..")
    {
        return None;
    }
    let mut place = root();
    let before = place.clone();
    names.for_each(|name| place.push(name));
    (place != before).then_some(place)
}

fn path_inside(path: &str) -> &str {
    path.strip_prefix("/workspace/").unwrap_or(path)
}

fn root() -> PathBuf {
    #[cfg(test)]
    if let Some(root) = crate::tests::workspace_root() {
        return root;
    }
    PathBuf::from("/workspace")
}

/// The name that the service gives its response: in `Content-Disposition`, or as the end of the path.
fn given_name(response: &Response) -> String {
    let named = response.header("content-disposition").and_then(disposition_name);
    let path = response.url().split(['?', '#']).next().unwrap_or_default();
    let name = named.unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default());
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let keep = |sign: char| if sign.is_alphanumeric() || "._- ".contains(sign) { sign } else { '_' };
    let name: String = last.chars().map(keep).collect();
    let name = name[..name.floor_char_boundary(NAME_BYTES)].trim_matches(['.', ' ']).to_owned();
    let name = if name.is_empty() { "download".to_owned() } else { name };
    let kind =
        response.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match MEDIA_TYPES.iter().find(|(_, media_type)| media_type.eq_ignore_ascii_case(kind)) {
        Some((end, _)) if !name.contains('.') => format!("{name}.{end}"),
        _ => name,
    }
}

/// The `filename` of a `Content-Disposition` (RFC 6266). In quotes it may have semicolons.
fn disposition_name(disposition: &str) -> Option<&str> {
    let lower = disposition.to_ascii_lowercase();
    // Not within another parameter, such as `name="filename=x"`.
    let begins = |at: &usize| *at == 0 || lower[..*at].ends_with([';', ' ', '\t']);
    let at = lower.match_indices(FILE_NAME).map(|(at, _)| at).find(begins)? + FILE_NAME.len();
    let value = disposition.get(at..)?.trim_start();
    match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split(';').next().map(str::trim),
    }
}

/// The first name like this one that no file has.
fn free_place(name: &str) -> Result<(String, PathBuf), Error> {
    let (stem, end) =
        name.split_once('.').map_or((name, String::new()), |(stem, end)| (stem, format!(".{end}")));
    let numbered = (2..1_000).map(|number| format!("{stem}-{number}{end}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    let free = names.find_map(|name| {
        let place = root().join(&name);
        fs::symlink_metadata(&place).is_err().then_some((name, place))
    });
    free.ok_or_else(|| {
        Error::new(format!("the workspace has too many files named like `{name}`: give a path"))
    })
}

fn media_type(name: &str) -> &'static str {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
    let found = MEDIA_TYPES.iter().find(|(known, _)| *known == end);
    found.map_or("application/octet-stream", |(_, media_type)| media_type)
}
