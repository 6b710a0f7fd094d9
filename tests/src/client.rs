//! A blocking HTTP client: one connection a request, so that hanging up is dropping a socket.
//!
//! Requests are bytes, and may be wrong ones. It keeps no connection, so that the daemon's open files say something.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::wait::PATIENCE;

/// Somebody who talks to a daemon, with a token or without.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: SocketAddr,
    pub token: Option<String>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A request that was sent and whose answer nobody has read yet. Dropping it is hanging up.
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

    /// Posts text that is called JSON, whatever it is.
    pub fn post_text(&self, path: &str, text: &str) -> Reply {
        self.send("POST", path, &[("Content-Type", "application/json")], text.as_bytes())
    }

    /// Makes a document that must not be there yet.
    pub fn make(&self, path: &str, document: &Value) -> Reply {
        let headers = [("Content-Type", "application/json"), ("If-None-Match", "*")];
        self.send("PUT", path, &headers, document.to_string().as_bytes())
    }

    /// Replaces a document whatever it is.
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

    /// The answer of a daemon that may be gone.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Reply> {
        self.try_raw(&self.request(method, path, headers, body))?.try_reply()
    }

    /// Sends a request and does not wait for its answer.
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

    /// Sends bytes as they are.
    pub fn raw(&self, bytes: &[u8]) -> Pending {
        self.try_raw(bytes).expect("the daemon takes connections")
    }

    fn try_raw(&self, bytes: &[u8]) -> io::Result<Pending> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        // A daemon that has seen enough answers and closes; the rest is then not written.
        let _ = stream.write_all(bytes);
        Ok(Pending(stream))
    }
}

impl Pending {
    /// Waits for the answer.
    pub fn reply(self) -> Reply {
        self.try_reply().expect("an answer")
    }

    /// Waits for the answer, or for the end of the connection without one.
    pub fn try_reply(mut self) -> io::Result<Reply> {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Ok(_) => {}
            // Closed with unread bytes of ours: what came before counts.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && !bytes.is_empty() => {}
            Err(error) => return Err(error),
        }
        Reply::parse(&bytes).ok_or_else(|| io::Error::other("the connection ended without an answer"))
    }

    /// Waits for the head of an answer that may go on for ever, and hangs up; of a refusal all of it.
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

    /// Waits for the end of the connection: all that came, be it one answer, several or none.
    pub fn all(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
            _ => Ok(bytes),
        }
    }

    /// Writes one byte after the other, and waits this long after each for an answer. What came once there was one, or
    /// nothing where the connection ended without.
    pub fn drip(mut self, bytes: &[u8], pause: Duration) -> io::Result<Vec<u8>> {
        self.0.set_read_timeout(Some(pause))?;
        for byte in bytes {
            let mut first = [0; 1024];
            let come = self.0.write_all(&[*byte]).and_then(|()| self.0.read(&mut first));
            match come {
                Ok(count) => {
                    self.0.set_read_timeout(Some(PATIENCE))?;
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
        Err(io::Error::other("every byte was taken and there is no answer"))
    }

    /// Writes more of the request.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Writes for as long as somebody takes it within this time.
    pub fn write_for(&mut self, bytes: &[u8], patience: Duration) -> io::Result<()> {
        self.0.set_write_timeout(Some(patience))?;
        self.0.write_all(bytes)
    }

    /// Hangs up.
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
            reply.body = unchunked(&reply.body)?;
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

    /// The code of a refused request.
    pub fn error_type(&self) -> String {
        self.json()["error_type"].as_str().unwrap_or_default().to_owned()
    }

    /// This reply, if it has that status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// This reply, if it is a refusal as every refusal must be: with that status and code, a message and a hint.
    #[track_caller]
    pub fn refused(self, status: u16, error_type: &str) -> Self {
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

fn unchunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
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
