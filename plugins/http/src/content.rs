//! Finds the kind of an answer's bytes, and their text.
//!
//! Servers often do not know what they send. The declared type is believed; where there is none, or it says nothing
//! (`application/octet-stream`), the bytes themselves are looked at.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use readable::{Format, Page, read_html};
use url::Url;

use crate::fetch::HtmlAs;

/// Binary files show themselves early.
const SNIFFED_BYTES: usize = 8 * 1024;

/// Bytes within which a page says how it is encoded (HTML, 4.2.5.4).
const DECLARED_WITHIN_BYTES: usize = 1024;

/// Media types that are text, beside `text/*` and what ends in `+json` or `+xml`.
const TEXTS: [&str; 16] = [
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/jsonl",
    "application/ndjson",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-www-form-urlencoded",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
];

/// The text of an answer.
pub struct Content {
    pub text: String,
    /// Whether that is all of it.
    pub is_whole: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Html,
    Text,
    Binary,
}

/// Gives the text of an answer, or none where it is no text. Links of a page lead where they do from its address.
pub fn read(url: &Url, content_type: &str, bytes: &[u8], is_whole: bool, html_as: HtmlAs) -> Option<Content> {
    let (media_type, charset) = take_apart(content_type);
    let kind = kind(&media_type, bytes);
    if kind == Kind::Binary {
        return None;
    }
    let mut text = decode(bytes, is_whole, charset.as_deref(), kind);
    if !is_whole {
        // The last character is likely to be cut in two.
        text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
    }
    let format = match (kind, html_as) {
        (Kind::Html, HtmlAs::Markdown) => Format::Markdown,
        (Kind::Html, HtmlAs::Text) => Format::Text { with_urls: false },
        _ => return Some(Content { text, is_whole }),
    };
    let resolve = |base: &str, link: &str| Some(url.join(base).ok()?.join(link).ok()?.into());
    let Page { text, is_whole: is_laid_out } = read_html(&text, format, Some(&resolve));
    Some(Content { text, is_whole: is_whole && is_laid_out })
}

/// The media type in lower case, and the charset.
fn take_apart(content_type: &str) -> (String, Option<String>) {
    let mut parts = content_type.split(';');
    let media_type = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_owned())
    });
    (media_type, charset)
}

fn kind(media_type: &str, bytes: &[u8]) -> Kind {
    let start = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    let is_binary = start.contains(&0) && Encoding::for_bom(start).is_none();
    match media_type {
        "text/html" | "application/xhtml+xml" => Kind::Html,
        "" | "application/octet-stream" | "binary/octet-stream"
            if is_binary || !is_utf8(start, start.len() == bytes.len()) =>
        {
            Kind::Binary
        }
        "" if begins_as_html(start) => Kind::Html,
        "" | "application/octet-stream" | "binary/octet-stream" => Kind::Text,
        _ if is_binary => Kind::Binary,
        _ if is_text(media_type) => Kind::Text,
        _ => Kind::Binary,
    }
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || TEXTS.contains(&media_type)
}

/// Whether it is UTF-8, but for a last character that is cut where the bytes are.
fn is_utf8(bytes: &[u8], is_whole: bool) -> bool {
    std::str::from_utf8(bytes).map_or_else(|error| !is_whole && error.error_len().is_none(), |_| true)
}

fn begins_as_html(start: &[u8]) -> bool {
    let start = start.trim_ascii_start();
    let begins = |tag: &[u8]| start.len() >= tag.len() && start[..tag.len()].eq_ignore_ascii_case(tag);
    begins(b"<!doctype html") || begins(b"<html")
}

/// As browsers do: a byte order mark says more than the server, and the server more than the page.
fn decode(bytes: &[u8], is_whole: bool, charset: Option<&str>, kind: Kind) -> String {
    let declared = || declared_encoding(bytes).filter(|_| kind == Kind::Html);
    let encoding = charset
        .and_then(|label| Encoding::for_label(label.as_bytes()))
        .or_else(declared)
        .unwrap_or_else(|| if is_utf8(bytes, is_whole) { UTF_8 } else { WINDOWS_1252 });
    let (text, _, _) = encoding.decode(bytes);
    text.into_owned()
}

/// The encoding that a page declares for itself.
fn declared_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    const NAME: &[u8] = b"charset=";
    let start = &bytes[..bytes.len().min(DECLARED_WITHIN_BYTES)];
    let at = start.windows(NAME.len()).position(|window| window.eq_ignore_ascii_case(NAME))?;
    let value = start[at + NAME.len()..].trim_ascii_start();
    let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
    let is_label = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:.".contains(byte);
    let label: Vec<u8> = value.iter().copied().take_while(is_label).collect();
    // Had the page been in one of these, this could not have been read.
    let encoding = Encoding::for_label(&label)?;
    Some(if encoding.is_ascii_compatible() { encoding } else { UTF_8 })
}
