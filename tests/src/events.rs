//! Reader of server-sent events.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;

use serde_json::Value;

use crate::client::Client;
use crate::wait::TIMEOUT;

/// Open event stream.
pub struct Stream {
    reader: BufReader<TcpStream>,
    /// The last `id` so far.
    pub last_id: Option<String>,
}

impl Stream {
    /// Opens an event stream, and returns once the daemon has sent `: listening`.
    pub fn open(client: &Client, path: &str) -> Self {
        Self::resume(client, path, None)
    }

    /// Opens an event stream after the event with this id.
    pub fn resume(client: &Client, path: &str, last_id: Option<&str>) -> Self {
        let last_id = last_id.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n{last_id}\r\n",
            client.address,
            client.token.as_deref().unwrap_or_default()
        );
        let mut stream = Self::send(client, &request);
        while stream.line().expect("the stream begins") != ": listening" {}
        stream
    }

    /// Opens an event stream with a raw request.
    pub fn send(client: &Client, request: &str) -> Self {
        let mut socket = TcpStream::connect(client.address).expect("the daemon takes connections");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        std::io::Write::write_all(&mut socket, request.as_bytes()).expect("the request is sent");
        Self { reader: BufReader::new(socket), last_id: None }
    }

    /// Next line; `None` at the end. HTTP chunk headers are lines too.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.reader.read_line(&mut line).expect("the stream is read");
        let line = line.trim_end();
        if let Some(id) = line.strip_prefix("id: ") {
            self.last_id = Some(id.to_owned());
        }
        (count > 0).then(|| line.to_owned())
    }

    pub fn names(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next().expect("an event").0).collect()
    }
}

/// Yields the name and the data of each event.
impl Iterator for Stream {
    type Item = (String, Value);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut name, begun) = (None, std::time::Instant::now());
        loop {
            // Keep-alive comments reset the read timeout, so the total time is limited here.
            assert!(begun.elapsed() < TIMEOUT, "no event comes");
            let line = self.line()?;
            if let Some(event) = line.strip_prefix("event: ") {
                name = Some(event.to_owned());
            } else if let (Some(data), Some(name)) = (line.strip_prefix("data: "), &name) {
                return Some((name.clone(), serde_json::from_str(data).expect("JSON")));
            }
        }
    }
}
