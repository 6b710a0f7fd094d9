//! Strict framing of requests (RFC 9112, sections 2.2, 6.1, 6.3 and 7.1).
//!
//! hyper accepts lines that end with a bare LF, and a `Transfer-Encoding` with other codings before `chunked`. A proxy in
//! front that reads them differently sees another end of the request, and the rest becomes a request of its own (request
//! smuggling). hyper has no setting for either, so the bytes are followed on their way to it. The LF of a line that is
//! refused is replaced by NUL, which hyper accepts nowhere in a head, and hyper gets no byte after it: whatever it thinks of the line, the
//! connection ends there.

use std::mem;

/// Bytes of a line that are kept: more than `Transfer-Encoding` or `Content-Length` with its value.
const KEPT_BYTES: usize = 64;

const BARE_LINE_FEED: &str = "a line ends with LF alone, without CR";
const CODING: &str = "`Transfer-Encoding` is not `chunked` alone";
const LENGTH: &str = "`content-length` is no plain number";
const TWO_FRAMINGS: &str = "`content-length` and `transfer-encoding` stand there more than once or together";
const CHUNK_SIZE: &str = "a chunk has no valid size";
const EXTENSION: &str = "the extension of a chunk is longer than 64 bytes, or has control characters";

/// The position within the requests of a connection.
#[derive(Default)]
pub(super) struct RequestFraming {
    next: Next,
    line: Line,
    refused: Option<&'static str>,
}

/// The part of a request that the next byte belongs to.
#[derive(Clone, Copy, Default)]
enum Next {
    #[default]
    RequestLine,
    /// A header field or the end of the head; with the framing of the content so far.
    Field(Content),
    /// Bytes of content before the next request.
    Content(u64),
    ChunkSize,
    /// Bytes of a chunk and its CRLF.
    Chunk(u64),
    Trailer,
}

/// The framing of the content of one request.
#[derive(Clone, Copy)]
enum Content {
    None,
    Length(u64),
    Chunked,
}

/// The beginning of the current line.
struct Line {
    kept: [u8; KEPT_BYTES],
    bytes: usize,
    ends_with_cr: bool,
}

impl Default for Line {
    fn default() -> Self {
        Self { kept: [0; KEPT_BYTES], bytes: 0, ends_with_cr: false }
    }
}

impl RequestFraming {
    /// The reason of a refusal, once a line was refused.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        self.refused
    }

    /// Follows bytes of the client, and replaces the end of a line that is refused. Returns how many of them hyper may get.
    pub(super) fn follow(&mut self, bytes: &mut [u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() && self.refused.is_none() {
            let rest = &mut bytes[at..];
            at += match self.next {
                Next::Content(left) => self.skip(left, rest.len(), Next::Content, Next::RequestLine),
                Next::Chunk(left) => self.skip(left, rest.len(), Next::Chunk, Next::ChunkSize),
                _ => self.read_line(rest),
            };
        }
        at
    }

    /// Skips content. Returns the number of bytes skipped.
    fn skip(&mut self, left: u64, available: usize, more: fn(u64) -> Next, after: Next) -> usize {
        let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(available);
        let left = left - skipped as u64;
        self.next = if left == 0 { after } else { more(left) };
        skipped
    }

    /// Reads up to the end of a line. Returns the number of bytes read.
    fn read_line(&mut self, bytes: &mut [u8]) -> usize {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.line.push(bytes);
            return bytes.len();
        };
        self.line.push(&bytes[..end]);
        let line = mem::take(&mut self.line);
        match self.after(&line) {
            Ok(next) => self.next = next,
            Err(reason) => {
                self.refused = Some(reason);
                bytes[end] = 0;
            }
        }
        end + 1
    }

    fn after(&self, line: &Line) -> Result<Next, &'static str> {
        if !line.ends_with_cr {
            return Err(BARE_LINE_FEED);
        }
        let is_empty = line.bytes == "\r".len();
        match self.next {
            // Empty lines before a request line are ignored (RFC 9112, section 2.2).
            Next::RequestLine if is_empty => Ok(Next::RequestLine),
            Next::RequestLine => Ok(Next::Field(Content::None)),
            Next::Field(content) if is_empty => Ok(match content {
                Content::None | Content::Length(0) => Next::RequestLine,
                Content::Length(bytes) => Next::Content(bytes),
                Content::Chunked => Next::ChunkSize,
            }),
            Next::Field(content) => line.framing(content).map(Next::Field),
            Next::ChunkSize if line.bytes > KEPT_BYTES || line.has_control() => Err(EXTENSION),
            Next::ChunkSize => match line.chunk_size().ok_or(CHUNK_SIZE)? {
                0 => Ok(Next::Trailer),
                bytes => Ok(Next::Chunk(bytes.saturating_add("\r\n".len() as u64))),
            },
            Next::Trailer if is_empty => Ok(Next::RequestLine),
            Next::Trailer | Next::Content(_) | Next::Chunk(_) => Ok(self.next),
        }
    }
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        let from = self.bytes.min(KEPT_BYTES);
        let room = &mut self.kept[from..];
        let kept = bytes.len().min(room.len());
        room[..kept].copy_from_slice(&bytes[..kept]);
        self.bytes += bytes.len();
        self.ends_with_cr = bytes.last().map_or(self.ends_with_cr, |last| *last == b'\r');
    }

    /// The kept bytes.
    fn start(&self) -> &[u8] {
        &self.kept[..self.bytes.min(KEPT_BYTES)]
    }

    /// Whether a whole line has a control character but tabs and the CR at its end.
    fn has_control(&self) -> bool {
        let line = self.start();
        line.strip_suffix(b"\r").unwrap_or(line).iter().any(|byte| byte.is_ascii_control() && *byte != b'\t')
    }

    /// Returns the framing after this header field.
    fn framing(&self, before: Content) -> Result<Content, &'static str> {
        let mut parts = self.start().splitn(2, |byte| *byte == b':');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default().trim_ascii());
        let is_length = name.eq_ignore_ascii_case(b"content-length");
        if !is_length && !name.eq_ignore_ascii_case(b"transfer-encoding") {
            return Ok(before);
        }
        // A longer value is cut off.
        let is_whole = self.bytes <= KEPT_BYTES;
        let framing = match is_length {
            true => number(value, 10).filter(|_| is_whole).map(Content::Length).ok_or(LENGTH)?,
            false if is_whole && value.eq_ignore_ascii_case(b"chunked") => Content::Chunked,
            false => return Err(CODING),
        };
        if let Content::None = before { Ok(framing) } else { Err(TWO_FRAMINGS) }
    }

    /// The size of a chunk, before its extensions.
    fn chunk_size(&self) -> Option<u64> {
        let size = self.start().split(|byte| matches!(byte, b';' | b' ' | b'\t' | b'\r')).next()?;
        number(size, 16)
    }
}

/// Parses digits, without a sign.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    u64::from_str_radix(text, radix).ok().filter(|_| !text.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::time::Duration;

    use http_body_util::BodyExt;
    use hyper::body::Incoming;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use hyper_util::rt::TokioIo;
    use parking_lot::Mutex;
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::client_stream::ClientStream;
    use super::*;
    use crate::connections::{RequestCounts, RequestInFlight};

    /// Returns the reason of the refusal and the bytes that hyper gets, which must not depend on the pieces.
    fn follow(text: &str) -> (Option<&'static str>, String) {
        let in_pieces = |piece: usize| {
            let (mut framing, mut bytes) = (RequestFraming::default(), text.as_bytes().to_vec());
            let passed = bytes.chunks_mut(piece).flat_map(|piece| {
                let passed = framing.follow(piece);
                piece[..passed].to_vec()
            });
            let passed = String::from_utf8(passed.collect()).unwrap();
            (framing.refusal(), passed)
        };
        let whole = in_pieces(usize::MAX);
        for piece in [1, 2, 3, 7] {
            assert_eq!(in_pieces(piece), whole, "{text:?} in pieces of {piece}");
        }
        whole
    }

    const NEXT: &str = "GET / HTTP/1.1\nHost: a\r\n\r\n";

    #[test]
    fn every_line_ends_with_cr_and_lf() {
        for text in [
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n",
        ] {
            let bare = text.find("\n").filter(|at| *at == 0).or_else(|| {
                (1..text.len()).find(|at| text[*at..].starts_with('\n') && !text[..*at].ends_with('\r'))
            });
            let mut refused = text.as_bytes().to_vec();
            refused[bare.unwrap()] = 0;
            refused.truncate(bare.unwrap() + 1);
            let expected = (Some(BARE_LINE_FEED), String::from_utf8(refused).unwrap());
            assert_eq!(follow(text), expected, "{text:?}");
        }
        let good = "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nPUT / HTTP/1.0\r\ncontent-LENGTH: 0\r\n\r\n";
        assert_eq!(follow(&format!("{good}{good}")), (None, format!("{good}{good}")));
    }

    #[test]
    fn a_transfer_encoding_is_chunked_alone() {
        for value in
            ["gzip, chunked", "chunked, gzip", "gzip", "", "chunked, chunked", "\"chunked\"", "xchunked"]
        {
            let text = format!("POST / HTTP/1.1\r\nTransfer-Encoding: {value}\r\n\r\n");
            assert_eq!(follow(&text).0, Some(CODING), "{value}");
        }
        let padded = format!("POST / HTTP/1.1\r\nTransfer-Encoding: {}chunked\r\n\r\n", " ".repeat(100));
        assert_eq!(follow(&padded).0, Some(CODING));
        for value in ["chunked", "Chunked", "\tCHUNKED  "] {
            let text = format!("POST / HTTP/1.1\r\nTRANSFER-encoding:{value}\r\n\r\n0\r\n\r\n");
            assert_eq!(follow(&text).0, None, "{value}");
        }
    }

    #[test]
    fn a_length_is_a_number_and_there_is_one_framing() {
        for value in ["+5", "-5", "0x5", "5, 5", "", "5 5", "99999999999999999999"] {
            let text = format!("POST / HTTP/1.1\r\nContent-Length: {value}\r\n\r\n");
            assert_eq!(follow(&text).0, Some(LENGTH), "{value}");
        }
        let (length, chunked) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
        for fields in [[length, length], [length, chunked], [chunked, length], [chunked, chunked]] {
            let text = format!("POST / HTTP/1.1\r\n{}\r\n", fields.concat());
            assert_eq!(follow(&text).0, Some(TWO_FRAMINGS), "{fields:?}");
        }
    }

    #[test]
    fn content_is_not_taken_for_lines_and_the_next_head_is_found_behind_it() {
        let chunks = "5;x=\"y\"\r\na\nb\nc\r\n00F \r\nGET / HTTP/1.1\n\r\n0\r\nX: y\r\n\r\n";
        for (fields, content) in [
            ("", ""),
            ("Content-Length: 0\r\n", ""),
            ("Content-Length: 00012\r\nX: y\r\n", "a\nb\n\n\nGET /\n"),
            ("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            ("Transfer-Encoding: chunked\r\n", chunks),
        ] {
            let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{content}");
            assert_eq!(follow(&request.repeat(3)), (None, request.repeat(3)));
            let (reason, bytes) = follow(&format!("{request}{NEXT}"));
            assert_eq!(reason, Some(BARE_LINE_FEED), "{request:?}");
            assert_eq!(bytes, format!("{request}GET / HTTP/1.1\0"));
        }
    }

    #[test]
    fn a_chunk_without_a_size_is_refused() {
        for size in ["", "g", "-1", "+1", "0x1", "FFFFFFFFFFFFFFFFF"] {
            let text = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\n");
            assert_eq!(follow(&text).0, Some(CHUNK_SIZE), "{size}");
        }
        let zeros = format!("{}59", "0".repeat(70));
        for size in ["2;a\0", "2;a\rb", "2;a\u{1}b", &*zeros] {
            let text = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\n");
            assert_eq!(follow(&text).0, Some(EXTENSION), "{size}");
        }
    }

    /// The request lines of a connection, as the guard finds them.
    fn heads(bytes: &[u8]) -> Vec<String> {
        let (mut framing, mut heads, mut line) = (RequestFraming::default(), Vec::new(), String::new());
        for byte in bytes {
            let was_line = matches!(framing.next, Next::RequestLine);
            framing.follow(&mut [*byte]);
            if was_line {
                line.push(char::from(*byte));
            }
            if matches!(framing.next, Next::Field(Content::None)) && was_line {
                heads.push(mem::take(&mut line).trim().to_owned());
            } else if *byte == b'\n' {
                line.clear();
            }
        }
        heads
    }

    /// The request lines that hyper serves behind the guard.
    async fn served(bytes: Vec<u8>) -> Vec<String> {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let (requests, seen) = (Arc::new(RequestCounts::default()), Arc::new(Mutex::new(Vec::new())));
        let stream = ClientStream::new(server, Duration::from_secs(60), Arc::clone(&requests));
        let service = service_fn(|request: Request<Incoming>| {
            let (counted, seen) = (RequestInFlight::begin(&requests), Arc::clone(&seen));
            async move {
                let line = format!("{} {} HTTP/1.1", request.method(), request.uri());
                seen.lock().push(line);
                let _ = request.into_body().collect().await;
                drop(counted);
                Ok::<_, Infallible>(Response::new(String::new()))
            }
        });
        client.write_all(&bytes).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answers = Vec::new();
        let connection =
            http1::Builder::new().half_close(true).serve_connection(TokioIo::new(stream), service);
        // Dropped at its end, which closes the stream.
        let serving = async move { drop(connection.await) };
        let (_, _) = tokio::join!(serving, client.read_to_end(&mut answers));
        mem::take(&mut *seen.lock())
    }

    const PARTS: [&str; 22] = [
        "POST /a HTTP/1.1\r\n",
        "GET /b HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /d HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 0\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Host: a\r\n",
        "Host: a\n",
        "\r\n",
        "\n",
        "2;a\n",
        "2;a\0b\r\n",
        "2;a\r\n",
        "5\r\n",
        "0000000000000000000000000000000000000000000000000000000000000000000059\r\n",
        "0\r\n\r\n",
        "0\r\n",
        "abcde",
        "{}\r\n",
        "GET /e HTTP/1.1\nHost: a\n\n",
    ];

    proptest! {
        /// Both read the same requests: hyper serves those that the guard found, in their order, and no other.
        #[test]
        fn hyper_serves_no_request_that_the_guard_did_not_find(parts in proptest::collection::vec(0..PARTS.len(), 1..16)) {
            let text: String = parts.iter().map(|part| PARTS[*part]).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let served = runtime.block_on(served(text.clone().into_bytes()));
            let found = heads(text.as_bytes());
            prop_assert!(found.starts_with(&served), "{:?}: {:?}, {:?}", text, served, found);
        }
    }

    /// The case of 2025's "TERM.EXT": the second request ran, since the guard had stopped to follow.
    #[tokio::test]
    async fn nothing_is_served_after_a_refused_line() {
        let chunked = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let next = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        let whole = format!("{chunked}2;a\r\n{{}}\r\n0\r\n\r\n{next}");
        assert_eq!(served(whole.into_bytes()).await, ["POST /a HTTP/1.1", "POST /b HTTP/1.1"]);
        let smuggled = format!("{chunked}2;a\n{{}}\r\n0\r\n\r\n{next}");
        assert_eq!(served(smuggled.into_bytes()).await, ["POST /a HTTP/1.1"]);
    }
}
