//! Streams that commands read from and write to: buffers and files. A pipe is a buffer that one command fills before the next one
//! reads it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

/// Bytes that a pipe takes. A command that writes more ends as one whose reader is gone.
pub const PIPE_BYTES: usize = 8 * 1024 * 1024;

/// Data that is read from the front. Clones share the position, as the commands of a loop do.
#[derive(Clone, Default)]
pub struct Input(Rc<RefCell<Source>>);

#[derive(Default)]
struct Source {
    data: Rc<Vec<u8>>,
    position: usize,
}

impl Input {
    pub fn of(data: Vec<u8>) -> Self {
        Self(Rc::new(RefCell::new(Source { data: Rc::new(data), position: 0 })))
    }

    /// Everything that is left.
    pub fn read_all(&self) -> Vec<u8> {
        let mut source = self.0.borrow_mut();
        let rest = source.data[source.position..].to_vec();
        source.position = source.data.len();
        rest
    }

    /// Up to and with the next `end`, or what is left. Empty at the end.
    pub fn read_until(&self, end: u8) -> Vec<u8> {
        let mut source = self.0.borrow_mut();
        let rest = &source.data[source.position..];
        let length = rest.iter().position(|byte| *byte == end).map_or(rest.len(), |index| index + 1);
        let line = rest[..length].to_vec();
        source.position += length;
        line
    }

    pub fn read(&self, most: usize) -> Vec<u8> {
        let mut source = self.0.borrow_mut();
        let length = most.min(source.data.len() - source.position);
        let piece = source.data[source.position..source.position + length].to_vec();
        source.position += length;
        piece
    }

    /// Reads what `read` takes of everything that is left: its value, and the number of bytes.
    pub fn read_with<T>(&self, read: impl FnOnce(&[u8]) -> (T, usize)) -> T {
        let mut source = self.0.borrow_mut();
        let (value, length) = read(&source.data[source.position..]);
        source.position += length;
        value
    }

    pub fn is_at_end(&self) -> bool {
        let source = self.0.borrow();
        source.position == source.data.len()
    }
}

/// The target of a command's output. Clones write to the same place.
#[derive(Clone)]
pub enum Output {
    Buffer(Rc<RefCell<Buffer>>),
    File(Rc<RefCell<dyn Write>>),
    Null,
}

/// Written bytes, of which the first ones are kept.
#[derive(Default)]
pub struct Buffer {
    pub bytes: Vec<u8>,
    /// All that was written.
    pub total: usize,
    kept: usize,
    limit: usize,
}

impl Output {
    /// A buffer that keeps `kept` bytes and refuses more than `limit`.
    pub fn buffer(kept: usize, limit: usize) -> Self {
        Self::Buffer(Rc::new(RefCell::new(Buffer { kept, limit, ..Buffer::default() })))
    }

    pub fn pipe() -> Self {
        Self::buffer(PIPE_BYTES, PIPE_BYTES)
    }

    /// Takes the bytes that were written to a buffer.
    pub fn take(&self) -> Buffer {
        match self {
            Self::Buffer(buffer) => buffer.take(),
            _ => Buffer::default(),
        }
    }

    /// Whether a buffer refuses more.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Buffer(buffer) if buffer.borrow().is_full())
    }

    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Buffer(buffer) => {
                let mut buffer = buffer.borrow_mut();
                let room = buffer.kept - buffer.bytes.len();
                buffer.bytes.extend_from_slice(&bytes[..room.min(bytes.len())]);
                buffer.total += bytes.len();
                if buffer.total > buffer.limit { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
            }
            Self::File(file) => file.borrow_mut().write_all(bytes),
            Self::Null => Ok(()),
        }
    }
}

impl Buffer {
    pub fn is_full(&self) -> bool {
        self.total > self.limit
    }
}

/// The streams of a command.
#[derive(Clone)]
pub struct Streams {
    pub input: Input,
    pub output: Output,
    pub errors: Output,
    /// Channels of the descriptors above 2.
    pub others: Rc<BTreeMap<u32, Channel>>,
}

/// The input or output that a descriptor stands for.
#[derive(Clone)]
pub enum Channel {
    Input(Input),
    Output(Output),
}

impl Streams {
    pub fn channel(&self, descriptor: u32) -> Option<Channel> {
        match descriptor {
            0 => Some(Channel::Input(self.input.clone())),
            1 => Some(Channel::Output(self.output.clone())),
            2 => Some(Channel::Output(self.errors.clone())),
            _ => self.others.get(&descriptor).cloned(),
        }
    }

    /// Sets what a descriptor means, or closes it.
    pub fn set_channel(&mut self, descriptor: u32, channel: Option<Channel>) {
        match (descriptor, channel) {
            (0, Some(Channel::Input(input))) => self.input = input,
            (0, _) => self.input = Input::default(),
            (1, Some(Channel::Output(output))) => self.output = output,
            (1, _) => self.output = Output::Null,
            (2, Some(Channel::Output(output))) => self.errors = output,
            (2, _) => self.errors = Output::Null,
            (other, Some(channel)) => drop(Rc::make_mut(&mut self.others).insert(other, channel)),
            (other, None) => drop(Rc::make_mut(&mut self.others).remove(&other)),
        }
    }
}
