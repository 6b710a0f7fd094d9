//! Streams into and out of files.
//!
//! An output stream takes room in the quota with every piece it writes. It holds one piece of at most 64
//! KiB at a time, so a guest that does not wait cannot make the host keep more; writing nothing does
//! nothing. A write that was taken is finished even if the guest drops the stream; only the end of the
//! call can leave it undone.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, poll_noop, spawn};

use super::access::{GuestFile, Lane};
use crate::workspace::operations::Position;
use crate::workspace::{FileError, cached};

/// The most that one write or read of a stream moves: what guests see of the standard streams too.
const PIECE_BYTES: usize = 64 * 1024;

/// Bytes on their way into a file.
pub(crate) struct FileWriter {
    lane: Arc<Lane>,
    file: Arc<GuestFile>,
    position: Position,
    state: Writing,
}

enum Writing {
    Idle,
    Busy { bytes: u64, task: AbortOnDropJoinHandle<Result<(), FileError>> },
    Failed(wasmtime::Error),
    Closed,
}

impl FileWriter {
    pub(crate) fn new(lane: Arc<Lane>, file: Arc<GuestFile>, position: Position) -> Self {
        Self { lane, file, position, state: Writing::Idle }
    }

    fn start(&mut self, piece: Bytes) {
        let (lane, file, position) = (Arc::clone(&self.lane), Arc::clone(&self.file), self.position);
        lane.moved.copied(piece.len());
        let bytes = piece.len() as u64;
        let path = Arc::clone(&file.path);
        let task = spawn(async move {
            let write = lane.locked(path, true, move |workspace, lock| {
                workspace.write_to(lock, &file.held, &piece, position)
            });
            write.await
        });
        self.state = Writing::Busy { bytes, task };
    }

    fn finish(&mut self, bytes: u64, done: Result<(), FileError>) {
        self.state = match done {
            Ok(()) => Writing::Idle,
            Err(error) => Writing::Failed(into_stream_error(error)),
        };
        if let (Position::At(offset), Writing::Idle) = (&mut self.position, &self.state) {
            *offset += bytes;
        }
    }

    /// Notices a write that has ended although nobody waited for it.
    fn look(&mut self) {
        if let Writing::Busy { bytes, task } = &mut self.state
            && task.is_finished()
            && let Some(done) = poll_noop(std::pin::Pin::new(task))
        {
            let bytes = *bytes;
            self.finish(bytes, done);
        }
    }

    /// Hands out an error once; after that the stream is closed.
    fn check(&mut self) -> StreamResult<()> {
        self.look();
        match std::mem::replace(&mut self.state, Writing::Closed) {
            Writing::Failed(error) => Err(StreamError::LastOperationFailed(error)),
            Writing::Closed => Err(StreamError::Closed),
            usable => {
                self.state = usable;
                Ok(())
            }
        }
    }
}

#[async_trait]
impl OutputStream for FileWriter {
    fn write(&mut self, piece: Bytes) -> StreamResult<()> {
        self.check()?;
        if piece.is_empty() {
            return Ok(());
        }
        if piece.len() > PIECE_BYTES || matches!(self.state, Writing::Busy { .. }) {
            return Err(StreamError::trap("more was written than `check-write` allowed"));
        }
        self.start(piece);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        // Nothing is kept back that a flush could set off: a piece is on its way as soon as it is written.
        self.check()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.check()?;
        Ok(if matches!(self.state, Writing::Busy { .. }) { 0 } else { PIECE_BYTES })
    }

    async fn cancel(&mut self) {
        self.ready().await;
        self.state = Writing::Closed;
    }
}

#[async_trait]
impl Pollable for FileWriter {
    async fn ready(&mut self) {
        if let Writing::Busy { bytes, task } = &mut self.state {
            let (bytes, done) = (*bytes, task.await);
            self.finish(bytes, done);
        }
    }
}

/// The guest can ask an error of a stream for its code: what is kept here is what that looks for.
fn into_stream_error(error: FileError) -> wasmtime::Error {
    match error {
        FileError::Quota(exceeded) => exceeded.into(),
        FileError::Io(error) => error.into(),
        FileError::Refused(refusal) => {
            io::Error::new(io::ErrorKind::PermissionDenied, refusal.to_string()).into()
        }
    }
}

/// Bytes on their way out of a file.
pub(crate) struct FileReader {
    lane: Arc<Lane>,
    file: Arc<GuestFile>,
    offset: u64,
    state: Reading,
}

enum Reading {
    Idle,
    Busy(AbortOnDropJoinHandle<io::Result<Bytes>>),
    Ready(Bytes),
    Failed(io::Error),
    Closed,
}

impl FileReader {
    pub(crate) fn new(lane: Arc<Lane>, file: Arc<GuestFile>, offset: u64) -> Self {
        Self { lane, file, offset, state: Reading::Idle }
    }

    fn start(&mut self, bytes: usize) {
        let bytes = bytes.min(PIECE_BYTES);
        if let Some(piece) = cached::read(&self.file.held.file, bytes as u64, self.offset) {
            return self.finish(Ok(piece.into()));
        }
        let (lane, file, offset) = (Arc::clone(&self.lane), Arc::clone(&self.file), self.offset);
        self.state = Reading::Busy(spawn(async move {
            lane.read(move || read_piece(&file.held.file, bytes, offset)).await.flatten()
        }));
    }

    fn finish(&mut self, done: io::Result<Bytes>) {
        self.state = match done {
            Ok(piece) if piece.is_empty() => Reading::Closed,
            Ok(piece) => Reading::Ready(piece),
            Err(error) => Reading::Failed(error),
        };
    }

    fn look(&mut self) {
        if let Reading::Busy(task) = &mut self.state
            && task.is_finished()
            && let Some(done) = poll_noop(std::pin::Pin::new(task))
        {
            self.finish(done);
        }
    }

    fn take(&mut self, mut piece: Bytes, bytes: usize) -> Bytes {
        let taken = piece.split_to(bytes.min(piece.len()));
        self.lane.moved.copied(taken.len());
        self.offset += taken.len() as u64;
        self.state = if piece.is_empty() { Reading::Idle } else { Reading::Ready(piece) };
        taken
    }
}

#[async_trait]
impl InputStream for FileReader {
    fn read(&mut self, bytes: usize) -> StreamResult<Bytes> {
        self.look();
        if matches!(self.state, Reading::Idle) && bytes > 0 {
            self.start(bytes);
        }
        match std::mem::replace(&mut self.state, Reading::Closed) {
            Reading::Ready(piece) => return Ok(self.take(piece, bytes)),
            Reading::Failed(error) => return Err(StreamError::LastOperationFailed(error.into())),
            Reading::Closed => return Err(StreamError::Closed),
            waiting => self.state = waiting,
        }
        Ok(Bytes::new())
    }

    /// As the default, but reads as much as was asked for and not just what waiting fetches.
    async fn blocking_read(&mut self, bytes: usize) -> StreamResult<Bytes> {
        if matches!(self.state, Reading::Idle) && bytes > 0 {
            self.start(bytes);
        }
        self.ready().await;
        self.read(bytes)
    }

    async fn cancel(&mut self) {
        // Waited for, so that a guest cannot pile up readers by dropping them.
        if let Reading::Busy(task) = std::mem::replace(&mut self.state, Reading::Closed) {
            drop(task.await);
        }
    }
}

#[async_trait]
impl Pollable for FileReader {
    async fn ready(&mut self) {
        if matches!(self.state, Reading::Idle) {
            self.start(PIECE_BYTES);
        }
        if let Reading::Busy(task) = &mut self.state {
            let done = task.await;
            self.finish(done);
        }
    }
}

fn read_piece(file: &std::fs::File, bytes: usize, offset: u64) -> io::Result<Bytes> {
    let mut piece = vec![0; bytes];
    loop {
        match file.read_at(&mut piece, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => {
                piece.truncate(read?);
                return Ok(piece.into());
            }
        }
    }
}
