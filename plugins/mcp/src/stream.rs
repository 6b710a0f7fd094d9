//! Reads the body of an answer: one JSON text, or a stream of events (`text/event-stream`), piece by piece.
//!
//! Lines of a stream end with a line feed, a carriage return, or both; an empty one ends an event.

use std::io::Read;
use std::time::Duration;

use toolgate_sdk::http;

use crate::exchange::ANSWER_BYTES;
use crate::failure::Failure;

/// Events before the answer. Each may be a notification of progress, and a call takes some seconds.
const EVENTS: usize = 10_000;

/// Bytes that are asked for in one go.
const PIECE_BYTES: usize = 16 * 1024;

/// May stand at the very start. No name of a field begins with it.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Longest id of an event that a request can repeat in a header field.
const ID_BYTES: usize = 1_024;

/// How a stream of events may begin.
const FIELDS: [&str; 5] = [":", "data:", "event:", "id:", "retry:"];
/// Bytes that tell them apart.
const FIELD_BYTES: usize = 6;

/// Form of a body, by its first bytes: servers mix the media types up.
#[derive(Debug, PartialEq)]
pub enum Form {
    Json,
    Events,
    /// Neither.
    Other,
    Empty,
}

/// One event that carries data.
#[derive(Debug, PartialEq)]
pub struct Event {
    pub data: String,
    pub kind: EventKind,
}

/// The name of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// `message`, also without a name.
    Message,
    /// `endpoint`, by which a server of 2024-11-05 says where requests are posted.
    Endpoint,
    Other,
}

impl EventKind {
    fn of(name: &str) -> Self {
        match name {
            "message" => Self::Message,
            "endpoint" => Self::Endpoint,
            _ => Self::Other,
        }
    }
}

/// The place from which a stream can be resumed.
#[derive(Debug, Default)]
pub struct Position {
    /// Id of the last event.
    pub id: Option<String>,
    /// How long the server asks to wait.
    pub retry: Option<Duration>,
}

/// A body as it comes.
pub struct Events<R> {
    from: R,
    buffer: Vec<u8>,
    /// So much of the buffer is read as lines.
    at: usize,
    is_at_end: bool,
    read_bytes: usize,
    events: usize,
    pub position: Position,
}

impl<R: Read> Events<R> {
    pub fn new(from: R) -> Self {
        Self {
            from,
            buffer: Vec::new(),
            at: 0,
            is_at_end: false,
            read_bytes: 0,
            events: 0,
            position: Position::default(),
        }
    }

    /// Waits for the first visible bytes, and tells the form from them. Nothing is taken.
    pub fn form(&mut self) -> Result<Form, Failure> {
        loop {
            let text = self.buffer.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(&self.buffer);
            let text = text.trim_ascii_start();
            match text.first() {
                Some(b'{' | b'[') => return Ok(Form::Json),
                Some(_) if FIELDS.iter().any(|field| text.starts_with(field.as_bytes())) => {
                    return Ok(Form::Events);
                }
                None if self.is_at_end => return Ok(Form::Empty),
                Some(_) if self.is_at_end || text.len() >= FIELD_BYTES => return Ok(Form::Other),
                _ => self.fill()?,
            }
        }
    }

    /// The body to its end, as far as it was not taken.
    pub fn rest(&mut self) -> Result<&[u8], Failure> {
        while !self.is_at_end {
            self.fill()?;
        }
        Ok(self.buffer.get(self.at..).unwrap_or_default())
    }

    /// Begins to count bytes and events anew: the limits are those of one answer.
    pub fn begin_answer(&mut self) {
        (self.read_bytes, self.events) = (0, 0);
    }

    /// The next event that carries data, or none where the stream ends.
    pub fn next(&mut self) -> Result<Option<Event>, Failure> {
        let mut data: Option<String> = None;
        let mut kind = EventKind::Message;
        while let Some(line) = self.line()? {
            if line.is_empty() {
                match data.take().filter(|data| !data.is_empty()) {
                    Some(data) => return self.count(Event { data, kind }).map(Some),
                    None => kind = EventKind::Message,
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
                ("event", name) => kind = EventKind::of(name),
                ("id", id) if is_header_value(id) => self.position.id = Some(id.to_owned()),
                ("retry", time) => self.position.retry = time.parse().ok().map(Duration::from_millis),
                _ => {}
            }
        }
        // An event that no empty line ends is not whole.
        Ok(None)
    }

    fn count(&mut self, event: Event) -> Result<Event, Failure> {
        self.events += 1;
        match self.events > EVENTS {
            true => Err(Failure::Unreadable(format!("it sent more than {EVENTS} events"))),
            false => Ok(event),
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

    /// Reads on. Bytes that were read as lines go, so positions begin anew.
    fn fill(&mut self) -> Result<(), Failure> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let before = self.buffer.len();
        self.buffer.resize(before + PIECE_BYTES, 0);
        let read = self.from.read(&mut self.buffer[before..]).map_err(failure_of)?;
        self.buffer.truncate(before + read);
        self.read_bytes += read;
        self.is_at_end = read == 0;
        match self.read_bytes > ANSWER_BYTES {
            true => Err(Failure::Unreadable(format!("it is longer than {ANSWER_BYTES} bytes"))),
            false => Ok(()),
        }
    }
}

fn is_header_value(id: &str) -> bool {
    (1..=ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

fn field(line: &str) -> (&str, &str) {
    match line.split_once(':') {
        Some((name, value)) => (name, value.strip_prefix(' ').unwrap_or(value)),
        None => (line, ""),
    }
}

fn failure_of(error: std::io::Error) -> Failure {
    let why = error.to_string();
    let cause = error.into_inner().and_then(|cause| cause.downcast::<http::Error>().ok());
    cause.map_or(Failure::Unreadable(why), |error| Failure::Http(*error))
}
