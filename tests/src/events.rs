//! Events of a daemon, read as they come.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;

use serde_json::Value;

use crate::client::Client;
use crate::wait::PATIENCE;

/// A stream of server-sent events that is being read.
pub struct Stream(BufReader<TcpStream>);

impl Stream {
    /// Listens at an address, and returns once the daemon says that it does.
    pub fn open(client: &Client, path: &str) -> Self {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n\r\n",
            client.address,
            client.token.as_deref().unwrap_or_default()
        );
        let mut stream = Self::send(client, &request);
        while stream.line().expect("the stream begins") != ": listening" {}
        stream
    }

    /// Listens by a request that the caller wrote.
    pub fn send(client: &Client, request: &str) -> Self {
        let mut socket = TcpStream::connect(client.address).expect("the daemon takes connections");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        std::io::Write::write_all(&mut socket, request.as_bytes()).expect("the request is sent");
        Self(BufReader::new(socket))
    }

    /// The next line, without what HTTP puts between chunks; none at the end.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.0.read_line(&mut line).expect("the stream is read");
        (count > 0).then(|| line.trim_end().to_owned())
    }

    pub fn names(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next().expect("an event").0).collect()
    }
}

/// The events that come: the name and the data of each.
impl Iterator for Stream {
    type Item = (String, Value);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut name, begun) = (None, std::time::Instant::now());
        loop {
            // A quiet stream says that it lives, so reading it never runs out of time.
            assert!(begun.elapsed() < PATIENCE, "no event comes");
            let line = self.line()?;
            if let Some(event) = line.strip_prefix("event: ") {
                name = Some(event.to_owned());
            } else if let (Some(data), Some(name)) = (line.strip_prefix("data: "), &name) {
                return Some((name.clone(), serde_json::from_str(data).expect("JSON")));
            }
        }
    }
}
