//! Reads a stream of events (`text/event-stream`): the data of one event after the other.
//!
//! Lines end with a line feed, a carriage return, or both; an empty one ends an event. Names, ids and times of reconnection
//! are of no use here: what a broken stream would have said is not asked for again.

use std::io::Read;

use toolgate_sdk::http;

use crate::exchange::ANSWER_BYTES;
use crate::failure::Failure;

/// Events before the answer. Each may be a notification of progress, and a call takes some seconds.
const EVENTS: usize = 10_000;

/// What is asked for in one go.
const PIECE_BYTES: usize = 16 * 1024;

/// May stand at the very start. No name of a field begins with it.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Events as they come.
pub struct Events<R> {
    from: R,
    buffer: Vec<u8>,
    /// So much of the buffer is read as lines.
    at: usize,
    is_at_end: bool,
    read_bytes: usize,
    events: usize,
}

impl<R: Read> Events<R> {
    pub fn new(from: R) -> Self {
        Self { from, buffer: Vec::new(), at: 0, is_at_end: false, read_bytes: 0, events: 0 }
    }

    /// The data of the next event that carries a message, or none where the stream ends.
    pub fn next(&mut self) -> Result<Option<String>, Failure> {
        let mut data: Option<String> = None;
        let mut is_message = true;
        while let Some(line) = self.line()? {
            if line.is_empty() {
                match data.take().filter(|data| is_message && !data.is_empty()) {
                    Some(data) => return self.count(data).map(Some),
                    None => is_message = true,
                }
                continue;
            }
            match field(line.trim_start_matches(BYTE_ORDER_MARK)) {
                ("data", value) => match &mut data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => data = Some(value.to_owned()),
                },
                ("event", name) => is_message = name == "message",
                _ => {}
            }
        }
        // An event that no empty line ends is not whole.
        Ok(None)
    }

    fn count(&mut self, data: String) -> Result<String, Failure> {
        self.events += 1;
        match self.events > EVENTS {
            true => Err(Failure::Unreadable(format!("it sent more than {EVENTS} events"))),
            false => Ok(data),
        }
    }

    /// The next line without its end, or none where there is no whole one.
    fn line(&mut self) -> Result<Option<String>, Failure> {
        let mut looked = self.at;
        loop {
            let rest = self.buffer.get(looked..).unwrap_or_default();
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).map(|end| looked + end);
            // Behind a carriage return a line feed may come: it belongs to the same end.
            let is_known =
                |end: usize| self.is_at_end || self.buffer[end] == b'\n' || end + 1 < self.buffer.len();
            match end.filter(|end| is_known(*end)) {
                Some(end) => return Ok(Some(self.take_line(end))),
                None if self.is_at_end => return Ok(None),
                None => {
                    looked = end.unwrap_or(self.buffer.len()) - self.at;
                    self.fill()?;
                }
            }
        }
    }

    fn take_line(&mut self, end: usize) -> String {
        let line = String::from_utf8_lossy(&self.buffer[self.at..end]).into_owned();
        let is_pair = self.buffer[end] == b'\r' && self.buffer.get(end + 1) == Some(&b'\n');
        self.at = end + 1 + usize::from(is_pair);
        line
    }

    /// Reads on. What was read as lines goes, so positions begin anew.
    fn fill(&mut self) -> Result<(), Failure> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let before = self.buffer.len();
        self.buffer.resize(before + PIECE_BYTES, 0);
        let read = self.from.read(&mut self.buffer[before..]).map_err(failed)?;
        self.buffer.truncate(before + read);
        self.read_bytes += read;
        self.is_at_end = read == 0;
        match self.read_bytes > ANSWER_BYTES {
            true => Err(Failure::Unreadable(format!("it is longer than {ANSWER_BYTES} bytes"))),
            false => Ok(()),
        }
    }
}

fn field(line: &str) -> (&str, &str) {
    match line.split_once(':') {
        Some((name, value)) => (name, value.strip_prefix(' ').unwrap_or(value)),
        None => (line, ""),
    }
}

fn failed(error: std::io::Error) -> Failure {
    let why = error.to_string();
    let cause = error.into_inner().and_then(|cause| cause.downcast::<http::Error>().ok());
    cause.map_or(Failure::Unreadable(why), |error| Failure::Http(*error))
}
