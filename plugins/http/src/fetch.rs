//! `fetch`: what a page or file on the web says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::http::Response;
use toolgate_sdk::{Error, tool};
use url::Url;

use crate::content::{self, Content};
use crate::follow::{Redirect, follow};

/// Bytes that are read of an answer. A page of text has a tenth of it, and laying it out costs fuel by the byte.
const MAX_SOURCE_BYTES: usize = 2 * 1024 * 1024;

/// What one call gives at most. Six times this, the worst that JSON makes of it, is still within the limit of a result.
const MAX_CHARS: u32 = 100_000;

/// Fetches a page or file from the web and gives its text.
///
/// HTML comes as Markdown, JSON and other text as it is; what is no text is refused. A long text comes in parts: `next_offset`
/// is where to read on. Every status is an answer: look at `status` before you rely on the text. At most 5 redirects are
/// followed, and shown. Only hosts that were granted are reached.
#[tool(
    read_only,
    tags("web", "url", "page", "download", "browse", "http", "get", "api"),
    examples(
        {"url": "https://example.com/docs"} => {
            "status": 200, "url": "https://example.com/docs/", "redirects": [{"status": 301, "url": "https://example.com/docs"}],
            "content_type": "text/html; charset=utf-8", "text": "# Docs\n\nStart [here](https://example.com/start).", "total_chars": 48, "truncated": false
        },
        "part of a long file": {"url": "https://example.com/log.txt", "offset": 4, "limit": 3} => {
            "status": 200, "url": "https://example.com/log.txt", "content_type": "text/plain", "text": "two", "total_chars": 13,
            "truncated": true, "next_offset": 7
        },
        "only whether it is there": {"url": "https://example.com/big.zip", "method": "HEAD"} => {
            "status": 200, "url": "https://example.com/big.zip", "content_type": "application/zip", "content_bytes": 73400320,
            "text": "", "total_chars": 0, "truncated": false
        },
    )
)]
pub fn fetch(
    /// The address, as `https://example.com/docs`
    url: String,
    /// `HEAD` gives status, type and size alone
    #[default]
    method: Method,
    /// What HTML becomes
    #[default]
    html_as: HtmlAs,
    /// First character of the text
    #[default]
    offset: u32,
    /// How many characters to give at most
    #[default(20_000)]
    #[schemars(range(min = 1, max = 100_000))]
    limit: u32,
) -> Result<Fetched, Error> {
    let followed = follow(method, read_url(&url)?)?;
    let head = Fetched {
        status: followed.response.status(),
        url: followed.url.to_string(),
        redirects: followed.redirects,
        content_type: followed.response.header("content-type").map(str::to_owned),
        content_bytes: followed.response.header("content-length").and_then(|length| length.parse().ok()),
        ..Fetched::default()
    };
    match method {
        Method::Head => Ok(head),
        Method::Get => {
            let content = read(&followed.url, followed.response, html_as)?;
            Ok(head.with_part(&content, offset, limit.min(MAX_CHARS)))
        }
    }
}

/// A method that changes nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    #[default]
    Get,
    Head,
}

/// A form of a page.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HtmlAs {
    /// With headings, lists, links and tables
    #[default]
    Markdown,
    /// As a reader sees it, without addresses
    Text,
    /// The HTML as it came
    Source,
}

/// What came back.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Fetched {
    /// The status of the last answer, as 200 or 404
    pub status: u16,
    /// The address that gave it
    pub url: String,
    /// The answers that led to another address, in their order
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub redirects: Vec<Redirect>,
    /// Type of the content, as the server says
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// How many bytes the content has, where the server says
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_bytes: Option<u64>,
    /// The part of the text that was asked for
    pub text: String,
    /// How many characters the text has, as far as it was read
    pub total_chars: usize,
    /// Whether there is more behind this part
    pub truncated: bool,
    /// Character to read on from. A text that is truncated without this is too long to be read to its end
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

impl Fetched {
    fn with_part(self, content: &Content, offset: u32, limit: u32) -> Self {
        let (offset, limit) = (offset as usize, limit as usize);
        let total_chars = content.text.chars().count();
        let end = offset.saturating_add(limit);
        Self {
            text: content.text.chars().skip(offset).take(limit).collect(),
            total_chars,
            truncated: end < total_chars || !content.is_whole,
            next_offset: (end < total_chars).then_some(end),
            ..self
        }
    }
}

fn read_url(text: &str) -> Result<Url, Error> {
    let hint = "write it whole, as `https://example.com/docs`";
    let url =
        Url::parse(text).map_err(|error| Error::invalid(format!("`url` is no URL: {error}; {hint}")))?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err(Error::invalid(format!("`{}` is no address on the web: {hint}", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::invalid(
            "a name and password in `url` are not sent: leave out what stands before the `@`",
        ));
    }
    Ok(url)
}

fn read(url: &Url, response: Response, html_as: HtmlAs) -> Result<Content, Error> {
    let status = response.status();
    let content_type = response.header("content-type").unwrap_or_default().to_owned();
    let (bytes, is_whole) = response.bytes_up_to(MAX_SOURCE_BYTES)?;
    content::read(url, &content_type, &bytes, is_whole, html_as).ok_or_else(|| {
        Error::new(format!(
            "the answer (status {status}) is `{content_type}`, and no text: use `method` HEAD for its size, or a tool for \
             files of this kind"
        ))
    })
}
