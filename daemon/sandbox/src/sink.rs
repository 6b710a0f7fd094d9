//! The log of a call: one bounded buffer for log records, standard output and standard error.
//!
//! Lines beyond the limit are dropped and counted, and the guest gets no error: a tool that logs too much still does
//! its work. Empty writes cost nothing here (wasmtime-wasi's asynchronous writer queues each).

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::outcome::{LogLevel, LogLine};

/// Maximum length of a printed line. A longer one is split.
const PRINTED_LINE_BYTES: usize = 8 * 1024;

/// Memory of a line and of a key-value pair without their text, so that a flood of empty ones meets the limit too.
const LINE_OVERHEAD_BYTES: usize = size_of::<LogLine>();
const PAIR_OVERHEAD_BYTES: usize = size_of::<(String, String)>();

/// The log of one call, shared by its three writers.
#[derive(Clone, Debug)]
pub(crate) struct LogBuffer(Arc<Mutex<LogState>>);

#[derive(Debug, Default)]
struct LogState {
    lines: Vec<LogLine>,
    bytes: usize,
    limit_bytes: usize,
    dropped: u64,
    partial: [Vec<u8>; 2],
    /// The standard output of a program, which is its result and no part of the log.
    output: Option<ProgramOutput>,
}

#[derive(Debug)]
struct ProgramOutput {
    bytes: Vec<u8>,
    limit_bytes: usize,
    is_too_large: bool,
}

impl LogBuffer {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(LogState { limit_bytes, ..LogState::default() })))
    }

    /// Appends a line. Returns whether it fits the limit.
    pub(crate) fn write(
        &self,
        level: LogLevel,
        event: String,
        message: String,
        fields: Vec<(String, String)>,
    ) -> bool {
        self.with_state(|state| state.push(LogLine { level, event, message, fields }))
    }

    /// Keeps standard output, up to this limit, in the place of logging it.
    pub(crate) fn keep_output(&self, limit_bytes: usize) {
        let kept = ProgramOutput { bytes: Vec::new(), limit_bytes, is_too_large: false };
        self.with_state(|state| state.output = Some(kept));
    }

    /// The kept standard output; none if it is larger than its limit.
    pub(crate) fn take_output(&self) -> Option<Vec<u8>> {
        let output = self.with_state(|state| state.output.take())?;
        (!output.is_too_large).then_some(output.bytes)
    }

    /// The last lines of standard error, at most so many bytes.
    pub(crate) fn last_errors(&self, bytes: usize) -> String {
        self.with_state(|state| {
            state.end_line(PrintStream::Stderr);
            let mut left = bytes;
            let errors = state.lines.iter().rev().filter(|line| line.event == PrintStream::Stderr.event());
            let mut last: Vec<&str> = errors
                .map_while(|line| {
                    left = left.checked_sub(line.message.len() + 1)?;
                    Some(&*line.message)
                })
                .collect();
            last.reverse();
            last.join("\n")
        })
    }

    /// Ends the log: unfinished printed lines become lines. Returns the lines, the dropped ones and the bytes.
    pub(crate) fn finish(&self) -> (Vec<LogLine>, u64, u64) {
        self.with_state(|state| {
            for stream in [PrintStream::Stdout, PrintStream::Stderr] {
                state.end_line(stream);
            }
            (std::mem::take(&mut state.lines), state.dropped, state.bytes as u64)
        })
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut LogState) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl LogState {
    fn push(&mut self, line: LogLine) -> bool {
        let fields: usize =
            line.fields.iter().map(|(key, value)| PAIR_OVERHEAD_BYTES + key.len() + value.len()).sum();
        let size = LINE_OVERHEAD_BYTES + line.event.len() + line.message.len() + fields;
        if self.bytes.saturating_add(size) > self.limit_bytes {
            self.dropped = self.dropped.saturating_add(1);
            return false;
        }
        self.bytes += size;
        self.lines.push(line);
        true
    }

    fn print(&mut self, stream: PrintStream, mut bytes: &[u8]) {
        if let (PrintStream::Stdout, Some(output)) = (stream, &mut self.output) {
            output.is_too_large |= output.bytes.len() + bytes.len() > output.limit_bytes;
            if !output.is_too_large {
                output.bytes.extend_from_slice(bytes);
            }
            return;
        }
        while !bytes.is_empty() {
            let free = PRINTED_LINE_BYTES.saturating_sub(self.partial[stream as usize].len());
            let window = &bytes[..bytes.len().min(free)];
            let (text, ended) = match window.iter().position(|byte| *byte == b'\n') {
                Some(at) => (&window[..at], true),
                None => (window, window.len() == free),
            };
            self.partial[stream as usize].extend_from_slice(text);
            let newline = usize::from(window.get(text.len()) == Some(&b'\n'));
            bytes = &bytes[text.len() + newline..];
            if ended {
                self.end_line(stream);
            }
        }
    }

    fn end_line(&mut self, stream: PrintStream) {
        let text = std::mem::take(&mut self.partial[stream as usize]);
        if text.is_empty() {
            return;
        }
        let level = match stream {
            PrintStream::Stdout => LogLevel::Info,
            PrintStream::Stderr => LogLevel::Warn,
        };
        self.push(LogLine {
            level,
            event: stream.event().into(),
            message: String::from_utf8_lossy(&text).into_owned(),
            fields: Vec::new(),
        });
    }
}

/// The printed stream that a sink serves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PrintStream {
    Stdout = 0,
    Stderr = 1,
}

impl PrintStream {
    /// The event of its lines.
    fn event(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Standard output or standard error of a guest.
pub(crate) struct PrintSink {
    log: LogBuffer,
    stream: PrintStream,
}

impl PrintSink {
    pub(crate) fn new(log: &LogBuffer, stream: PrintStream) -> Self {
        Self { log: log.clone(), stream }
    }
}

impl IsTerminal for PrintSink {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for PrintSink {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI 0.3 needs this form, and none of its interfaces is linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(PrintSink::new(&self.log, self.stream))
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for PrintSink {
    async fn ready(&mut self) {}
}

#[wasmtime_wasi::async_trait]
impl OutputStream for PrintSink {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.log.with_state(|state| state.print(self.stream, &bytes));
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PRINTED_LINE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print_lines(writes: &[&[u8]], limit_bytes: usize) -> (Vec<String>, u64) {
        let log = LogBuffer::new(limit_bytes);
        let mut sink = PrintSink::new(&log, PrintStream::Stdout);
        for write in writes {
            sink.write(Bytes::copy_from_slice(write)).unwrap();
        }
        let (lines, dropped, _) = log.finish();
        (lines.into_iter().map(|line| line.message).collect(), dropped)
    }

    #[test]
    fn printed_text_becomes_lines() {
        let (lines, dropped) = print_lines(&[b"one\ntw", b"o\n\nthree"], 10_000);
        assert_eq!(lines, ["one", "two", "three"]);
        assert_eq!(dropped, 0);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let flood = vec![b'x'; PRINTED_LINE_BYTES * 2 + 1];
        let (lines, _) = print_lines(&[&flood], 100_000);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0].len(), PRINTED_LINE_BYTES);
        assert_eq!(lines[2].len(), 1);
    }

    #[test]
    fn a_flood_is_bounded_and_counted() {
        let writes: Vec<&[u8]> = vec![b"line\n"; 1_000];
        let (lines, dropped) = print_lines(&writes, 1_000);
        assert!(lines.len() < 30, "{}", lines.len());
        assert_eq!(lines.len() as u64 + dropped, 1_000);
    }

    #[test]
    fn empty_pairs_are_bounded_too() {
        let log = LogBuffer::new(64 * 1024);
        let pairs = |count: usize| vec![(String::new(), String::new()); count];
        log.write(LogLevel::Debug, String::new(), String::new(), pairs(1_000));
        log.write(LogLevel::Debug, String::new(), String::new(), pairs(1_000));
        log.write(LogLevel::Debug, String::new(), String::new(), pairs(2));
        let (lines, dropped, bytes) = log.finish();
        let kept: Vec<_> = lines.iter().map(|line| line.fields.len()).collect();
        assert_eq!((&*kept, dropped), (&[1_000, 2][..], 1));
        assert!(bytes >= 1_002 * 48, "{bytes}");
    }

    #[test]
    fn empty_writes_keep_nothing() {
        let writes: Vec<&[u8]> = vec![b""; 10_000];
        assert_eq!(print_lines(&writes, 1_000), (vec![], 0));
    }
}
