//! Blocking HTTP client for the tests.
//!
//! Each request has a connection of its own, so dropping the socket disconnects, and the daemon's open descriptors
//! can be counted. Requests are plain bytes and may be malformed.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::wait::TIMEOUT;

/// HTTP client of one daemon, with or without a token.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: SocketAddr,
    pub token: Option<String>,
}

/// HTTP response.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Request that was sent, with its response still unread. Dropping it closes the connection.
pub struct Pending(TcpStream);

impl Client {
    pub fn new(address: SocketAddr, token: Option<&str>) -> Self {
        Self { address, token: token.map(str::to_owned) }
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_text(path, &body.to_string())
    }

    /// Posts text as JSON without checking it.
    pub fn post_text(&self, path: &str, text: &str) -> Reply {
        self.send("POST", path, &[("Content-Type", "application/json")], text.as_bytes())
    }

    /// Creates a document (`If-None-Match: *`).
    pub fn make(&self, path: &str, document: &Value) -> Reply {
        let headers = [("Content-Type", "application/json"), ("If-None-Match", "*")];
        self.send("PUT", path, &headers, document.to_string().as_bytes())
    }

    /// Replaces a document, with the current `ETag` as `If-Match`.
    pub fn replace(&self, path: &str, document: &Value) -> Reply {
        let address = path.split('?').next().unwrap_or(path);
        let tag = self.get(address).expect(200).header("etag").expect("a document has a tag").to_owned();
        let headers = [("Content-Type", "application/json"), ("If-Match", tag.as_str())];
        self.send("PUT", path, &headers, document.to_string().as_bytes())
    }

    /// Uploads a plugin file.
    pub fn upload(&self, namespace: &str, file: &[u8]) -> Reply {
        self.send("PUT", &format!("/v1/plugins/{namespace}"), &[("Content-Type", "application/wasm")], file)
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.start(method, path, headers, body).reply()
    }

    /// Sends a request to a daemon that may have stopped.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Reply> {
        self.try_raw(&self.request(method, path, headers, body))?.try_reply()
    }

    /// Sends a request without waiting for the response.
    pub fn start(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Pending {
        self.raw(&self.request(method, path, headers, body))
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("Host: {}\r\n", self.address);
        }
        if let Some(token) = &self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        request
    }

    /// Sends raw bytes.
    pub fn raw(&self, bytes: &[u8]) -> Pending {
        self.try_raw(bytes).expect("the daemon takes connections")
    }

    fn try_raw(&self, bytes: &[u8]) -> io::Result<Pending> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        // The daemon may respond and close before it has read every byte; the rest is then lost.
        let _ = stream.write_all(bytes);
        Ok(Pending(stream))
    }
}

impl Pending {
    /// Waits for the response.
    pub fn reply(self) -> Reply {
        self.try_reply().expect("an answer")
    }

    /// Waits for the response. Fails where the connection closes without one.
    pub fn try_reply(mut self) -> io::Result<Reply> {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Ok(_) => {}
            // A reset after a response: the daemon closed while bytes of the request were unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && !bytes.is_empty() => {}
            Err(error) => return Err(error),
        }
        Reply::parse(&bytes).ok_or_else(|| io::Error::other("the connection ended without an answer"))
    }

    /// Reads the head of a streamed response and disconnects. A response that is not 2xx is read to its end.
    pub fn head(mut self) -> Reply {
        let mut bytes = Vec::new();
        let mut part = [0; 1024];
        while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
            let count = self.0.read(&mut part).expect("an answer");
            assert!(count > 0, "the connection ended within a head");
            bytes.extend_from_slice(&part[..count]);
        }
        if !bytes.starts_with(b"HTTP/1.1 2") {
            self.0.read_to_end(&mut bytes).expect("the rest of a refusal");
            return Reply::parse(&bytes).expect("an answer");
        }
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("the end of a head");
        let head = String::from_utf8_lossy(&bytes[..end + 4]).replace("transfer-encoding", "x-was");
        Reply::parse(head.as_bytes()).expect("an answer")
    }

    /// Reads until the connection closes: any number of responses.
    pub fn all(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
            _ => Ok(bytes),
        }
    }

    /// Writes one byte at a time, waiting up to `pause` after each for a response. The end of a head is answered in any case, so
    /// that is waited for. Returns the response, or nothing if the connection closes without one.
    pub fn drip(mut self, bytes: &[u8], pause: Duration) -> io::Result<Vec<u8>> {
        self.0.set_read_timeout(Some(pause))?;
        for byte in bytes {
            let mut first = [0; 1024];
            let come = self.0.write_all(&[*byte]).and_then(|()| self.0.read(&mut first));
            match come {
                Ok(count) => {
                    self.0.set_read_timeout(Some(TIMEOUT))?;
                    return Ok([&first[..count], &self.all()?].concat());
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) =>
                {
                    return Ok(Vec::new());
                }
                Err(error) => return Err(error),
            }
        }
        if bytes.ends_with(b"\r\n\r\n") {
            self.0.set_read_timeout(Some(TIMEOUT))?;
            return self.all();
        }
        Err(io::Error::other("every byte was taken and there is no answer"))
    }

    /// Writes more of the request.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Writes with a timeout for each write.
    pub fn write_for(&mut self, bytes: &[u8], patience: Duration) -> io::Result<()> {
        self.0.set_write_timeout(Some(patience))?;
        self.0.write_all(bytes)
    }

    pub fn hang_up(self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Reply {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut reply = Self { status, headers, body: bytes[end + 4..].to_vec() };
        if reply.header("transfer-encoding").is_some() {
            reply.body = decode_chunked(&reply.body)?;
        }
        Some(reply)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The `error_type` of a refused request.
    pub fn error_type(&self) -> String {
        self.json()["error_type"].as_str().unwrap_or_default().to_owned()
    }

    /// Asserts the status, and returns the response.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// Asserts a complete problem document (RFC 9457): status, `error_type`, message and hint. Returns the response.
    #[track_caller]
    pub fn expect_refusal(self, status: u16, error_type: &str) -> Self {
        let reply = self.expect(status);
        let problem = reply.json();
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{problem}");
        assert_eq!(problem["error_type"], error_type, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        for member in ["type", "title", "detail", "hint"] {
            assert!(
                problem[member].as_str().is_some_and(|text| !text.is_empty()),
                "no `{member}`: {problem}"
            );
        }
        reply
    }
}

fn decode_chunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = bytes.windows(2).position(|window| window == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).ok()?.trim(), 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(line + 2..line + 2 + length)?);
        bytes = bytes.get(line + 2 + length + 2..)?;
    }
}
