//! Where a guest's log, standard output and standard error end: one bounded buffer.
//!
//! What does not fit is dropped and counted, and the guest is not told: a tool that talks too much still
//! does its work. Empty writes cost nothing here (the library's own asynchronous writer keeps each).

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::outcome::{LogLevel, LogLine};

/// Upper bound of one printed line. A longer one is cut into several.
const PRINTED_LINE_BYTES: usize = 8 * 1024;

/// What one kept line costs beside its text, and what one of its pairs does: what they take here, so that a flood of
/// empty ones meets the limit too.
const LINE_OVERHEAD_BYTES: usize = size_of::<LogLine>();
const PAIR_OVERHEAD_BYTES: usize = size_of::<(String, String)>();

/// The log of one call, shared by its three writers.
#[derive(Clone, Debug)]
pub(crate) struct LogBuffer(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    lines: Vec<LogLine>,
    bytes: usize,
    limit_bytes: usize,
    dropped: u64,
    partial: [Vec<u8>; 2],
}

impl LogBuffer {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Kept {
            lines: Vec::new(),
            bytes: 0,
            limit_bytes,
            dropped: 0,
            partial: [Vec::new(), Vec::new()],
        })))
    }

    /// Whether there was room for the line.
    pub(crate) fn write(
        &self,
        level: LogLevel,
        event: String,
        message: String,
        fields: Vec<(String, String)>,
    ) -> bool {
        self.with(|kept| kept.push(LogLine { level, event, message, fields }))
    }

    /// Ends the log: unfinished printed lines become lines.
    pub(crate) fn finish(&self) -> (Vec<LogLine>, u64, u64) {
        self.with(|kept| {
            for printer in [Printer::Stdout, Printer::Stderr] {
                kept.end_line(printer);
            }
            (std::mem::take(&mut kept.lines), kept.dropped, kept.bytes as u64)
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Kept) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Kept {
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

    fn print(&mut self, printer: Printer, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = PRINTED_LINE_BYTES.saturating_sub(self.partial[printer as usize].len());
            let window = &bytes[..bytes.len().min(room)];
            let (text, ended) = match window.iter().position(|byte| *byte == b'\n') {
                Some(at) => (&window[..at], true),
                None => (window, window.len() == room),
            };
            self.partial[printer as usize].extend_from_slice(text);
            let newline = usize::from(window.get(text.len()) == Some(&b'\n'));
            bytes = &bytes[text.len() + newline..];
            if ended {
                self.end_line(printer);
            }
        }
    }

    fn end_line(&mut self, printer: Printer) {
        let text = std::mem::take(&mut self.partial[printer as usize]);
        if text.is_empty() {
            return;
        }
        let (level, event) = match printer {
            Printer::Stdout => (LogLevel::Info, "stdout"),
            Printer::Stderr => (LogLevel::Warn, "stderr"),
        };
        self.push(LogLine {
            level,
            event: event.into(),
            message: String::from_utf8_lossy(&text).into_owned(),
            fields: Vec::new(),
        });
    }
}

/// Which of the two printed streams a sink serves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Printer {
    Stdout = 0,
    Stderr = 1,
}

/// Standard output or standard error of a guest.
pub(crate) struct PrintSink {
    log: LogBuffer,
    printer: Printer,
}

impl PrintSink {
    pub(crate) fn new(log: &LogBuffer, printer: Printer) -> Self {
        Self { log: log.clone(), printer }
    }
}

impl IsTerminal for PrintSink {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for PrintSink {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI 0.3 asks for this form, and no interface of it is linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(PrintSink::new(&self.log, self.printer))
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for PrintSink {
    async fn ready(&mut self) {}
}

#[wasmtime_wasi::async_trait]
impl OutputStream for PrintSink {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.log.with(|kept| kept.print(self.printer, &bytes));
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

    fn printed(writes: &[&[u8]], limit_bytes: usize) -> (Vec<String>, u64) {
        let log = LogBuffer::new(limit_bytes);
        let mut sink = PrintSink::new(&log, Printer::Stdout);
        for write in writes {
            sink.write(Bytes::copy_from_slice(write)).unwrap();
        }
        let (lines, dropped, _) = log.finish();
        (lines.into_iter().map(|line| line.message).collect(), dropped)
    }

    #[test]
    fn printed_text_becomes_lines() {
        let (lines, dropped) = printed(&[b"one\ntw", b"o\n\nthree"], 10_000);
        assert_eq!(lines, ["one", "two", "three"]);
        assert_eq!(dropped, 0);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let flood = vec![b'x'; PRINTED_LINE_BYTES * 2 + 1];
        let (lines, _) = printed(&[&flood], 100_000);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0].len(), PRINTED_LINE_BYTES);
        assert_eq!(lines[2].len(), 1);
    }

    #[test]
    fn a_flood_is_bounded_and_counted() {
        let writes: Vec<&[u8]> = vec![b"line\n"; 1_000];
        let (lines, dropped) = printed(&writes, 1_000);
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
        assert_eq!(printed(&writes, 1_000), (vec![], 0));
    }
}
