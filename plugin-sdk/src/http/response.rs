//! A response: its head is available, and its body is read once, completely within a limit, or piece by piece.

use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;

use super::excerpt::{EXCERPT_BYTES, excerpt};
use super::headers::media_type;
use super::{Error, Headers, transport};
use crate::task;

/// An HTTP response.
#[must_use]
pub struct Response {
    url: String,
    host: String,
    status: u16,
    headers: Headers,
    body: Body,
    max_body_bytes: usize,
}

/// A response of a transport.
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) body: transport::Body,
}

/// The body, as far as it was read.
struct Body {
    rest: transport::Body,
    read: Vec<u8>,
    is_at_end: bool,
}

impl Response {
    pub(super) fn new(url: String, host: String, response: RawResponse, max_body_bytes: usize) -> Self {
        let RawResponse { status, headers, body } = response;
        let body = Body { rest: body, read: Vec::new(), is_at_end: false };
        Self { url, host, status, headers, body, max_body_bytes }
    }

    /// Returns the status, like 200.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns whether the status is 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the URL as it was sent.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the header fields.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Returns the value of the first header field of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// Returns the response if its status is 200 to 299, else [`Error::Status`] with an excerpt of the body.
    pub fn error_for_status(mut self) -> Result<Self, Error> {
        if self.is_success() {
            return Ok(self);
        }
        // A failure to read the excerpt must not replace the status error.
        let _ = task::block_on(self.body.read_to(EXCERPT_BYTES));
        Err(Error::Status {
            status: self.status,
            retry_after: self.retry_after(),
            excerpt: excerpt(self.headers.get("content-type").unwrap_or_default(), &self.body.read),
            host: self.host,
        })
    }

    /// Reads the body as text: as Windows-1252 if the charset is that or ISO-8859-1, else as UTF-8 with `�` for invalid
    /// bytes.
    pub fn text(self) -> Result<String, Error> {
        let (_, charset) = media_type(self.header("content-type").unwrap_or_default());
        let host = self.host.clone();
        let bytes = self.bytes()?;
        match charset.as_deref() {
            None | Some("utf-8" | "utf8" | "us-ascii") => Ok(from_utf8(bytes)),
            Some("iso-8859-1" | "latin1" | "windows-1252") => {
                Ok(bytes.into_iter().map(windows_1252).collect())
            }
            Some(other) => {
                Err(Error::Unreadable { host, why: format!("its charset `{other}` is not supported") })
            }
        }
    }

    /// Reads the body and parses it as JSON.
    pub fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        let host = self.host.clone();
        let bytes = self.bytes()?;
        let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
        serde_json::from_slice(text)
            .map_err(|error| Error::Unreadable { host, why: format!("it is not the expected JSON: {error}") })
    }

    /// Reads the body. A body beyond the limit is [`Error::TooLarge`].
    pub fn bytes(self) -> Result<Vec<u8>, Error> {
        let max_bytes = self.max_body_bytes;
        let host = self.host.clone();
        let (bytes, is_whole) = self.bytes_up_to(max_bytes)?;
        if is_whole { Ok(bytes) } else { Err(Error::TooLarge { host, max_bytes }) }
    }

    /// Reads at most `max_bytes` of the body, and returns whether that is all of it.
    pub fn bytes_up_to(mut self, max_bytes: usize) -> Result<(Vec<u8>, bool), Error> {
        task::block_on(self.body.read_to(max_bytes.saturating_add(1)))?;
        let mut bytes = self.body.read;
        let is_whole = bytes.len() <= max_bytes;
        bytes.truncate(max_bytes);
        Ok((bytes, is_whole))
    }

    /// Returns a reader of the body without a length limit, for a file in the workspace.
    ///
    /// ```no_run
    /// # fn save() -> Result<(), toolgate_sdk::Error> {
    /// let mut body = toolgate_sdk::http::get("https://example.com/big.csv").send()?.error_for_status()?.into_reader();
    /// std::io::copy(&mut body, &mut std::fs::File::create("/workspace/big.csv")?)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_reader(self) -> impl Read {
        Reader { body: self.body, at: 0 }
    }

    /// Reads the bytes that `bytes` would, so that later calls do not wait.
    #[cfg(feature = "async")]
    pub(super) async fn read_ahead(&mut self) -> Result<(), Error> {
        self.body.read_to(self.max_body_bytes.saturating_add(1)).await
    }

    /// Returns the delay of `Retry-After`: in seconds, as almost all servers send it, or until a date (RFC 9110, 10.2.3). A
    /// past date is no delay.
    pub fn retry_after(&self) -> Option<Duration> {
        let text = self.header("retry-after")?.trim();
        let until = |date: SystemTime| date.duration_since(SystemTime::now()).unwrap_or_default();
        let seconds = text.parse().ok().map(Duration::from_secs);
        seconds.or_else(|| httpdate::parse_http_date(text).ok().map(until))
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Response")
            .field("url", &self.url)
            .field("status", &self.status)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl Body {
    /// Reads until there are this many bytes, or the body ends.
    async fn read_to(&mut self, bytes: usize) -> Result<(), Error> {
        while !self.is_at_end && self.read.len() < bytes {
            self.read_piece().await?;
        }
        Ok(())
    }

    async fn read_piece(&mut self) -> Result<(), Error> {
        match self.rest.read().await? {
            Some(piece) if self.read.is_empty() => self.read = piece,
            Some(piece) => self.read.extend(piece),
            None => self.is_at_end = true,
        }
        Ok(())
    }
}

/// Streams the body.
struct Reader {
    body: Body,
    /// Number of read bytes that were returned.
    at: usize,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.body.read.len() && !self.body.is_at_end {
            self.body.read.clear();
            self.at = 0;
            task::block_on(self.body.read_piece()).map_err(io::Error::other)?;
        }
        let read = (&self.body.read[self.at..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn from_utf8(bytes: Vec<u8>) -> String {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)
}

/// Browsers decode ISO-8859-1 like this too (WHATWG Encoding Standard).
fn windows_1252(byte: u8) -> char {
    const FROM_128_TO_159: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => FROM_128_TO_159[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}
