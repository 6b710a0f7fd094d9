//! Input and output streams of files.
//!
//! An output stream reserves quota with every chunk. It buffers one chunk of at most 64 KiB, so a guest that does not
//! wait cannot fill host memory; an empty write does nothing. An accepted write finishes even if the guest drops the
//! stream; only the end of the call can interrupt it.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, poll_noop, spawn};

use super::access::{FileChannel, GuestFile};
use crate::workspace::cached;
use crate::workspace::error::FileError;
use crate::workspace::operations::Position;

/// Maximum bytes of one write or read of a stream, the same as for standard streams.
const CHUNK_BYTES: usize = 64 * 1024;

/// An output stream to a file.
pub(crate) struct FileWriter {
    channel: Arc<FileChannel>,
    file: Arc<GuestFile>,
    position: Position,
    state: WriteState,
}

enum WriteState {
    Idle,
    Busy { bytes: u64, task: AbortOnDropJoinHandle<Result<(), FileError>> },
    Failed(wasmtime::Error),
    Closed,
}

impl FileWriter {
    pub(crate) fn new(channel: Arc<FileChannel>, file: Arc<GuestFile>, position: Position) -> Self {
        Self { channel, file, position, state: WriteState::Idle }
    }

    fn start(&mut self, chunk: Bytes) {
        let (channel, file, position) = (Arc::clone(&self.channel), Arc::clone(&self.file), self.position);
        channel.copy_meter.add_copied(chunk.len());
        let bytes = chunk.len() as u64;
        let path = Arc::clone(&file.path);
        let task = spawn(async move {
            let write = channel.run_locked(path, true, move |workspace, lock| {
                workspace.write_to(lock, &file.held, &chunk, position)
            });
            write.await
        });
        self.state = WriteState::Busy { bytes, task };
    }

    fn finish(&mut self, bytes: u64, done: Result<(), FileError>) {
        self.state = match done {
            Ok(()) => WriteState::Idle,
            Err(error) => WriteState::Failed(into_stream_error(error)),
        };
        if let (Position::At(offset), WriteState::Idle) = (&mut self.position, &self.state) {
            *offset += bytes;
        }
    }

    /// Handles a finished write that the guest has not waited for.
    fn poll_finished(&mut self) {
        if let WriteState::Busy { bytes, task } = &mut self.state
            && task.is_finished()
            && let Some(done) = poll_noop(std::pin::Pin::new(task))
        {
            let bytes = *bytes;
            self.finish(bytes, done);
        }
    }

    /// Returns an error once; after that the stream is closed.
    fn check(&mut self) -> StreamResult<()> {
        self.poll_finished();
        match std::mem::replace(&mut self.state, WriteState::Closed) {
            WriteState::Failed(error) => Err(StreamError::LastOperationFailed(error)),
            WriteState::Closed => Err(StreamError::Closed),
            usable => {
                self.state = usable;
                Ok(())
            }
        }
    }
}

#[async_trait]
impl OutputStream for FileWriter {
    fn write(&mut self, chunk: Bytes) -> StreamResult<()> {
        self.check()?;
        if chunk.is_empty() {
            return Ok(());
        }
        if chunk.len() > CHUNK_BYTES || matches!(self.state, WriteState::Busy { .. }) {
            return Err(StreamError::trap("more was written than `check-write` allowed"));
        }
        self.start(chunk);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        // Nothing to do: a chunk is already being written.
        self.check()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.check()?;
        Ok(if matches!(self.state, WriteState::Busy { .. }) { 0 } else { CHUNK_BYTES })
    }

    async fn cancel(&mut self) {
        self.ready().await;
        self.state = WriteState::Closed;
    }
}

#[async_trait]
impl Pollable for FileWriter {
    async fn ready(&mut self) {
        if let WriteState::Busy { bytes, task } = &mut self.state {
            let (bytes, done) = (*bytes, task.await);
            self.finish(bytes, done);
        }
    }
}

/// A guest can map a stream error to its code; `filesystem_error_code` looks for these types.
fn into_stream_error(error: FileError) -> wasmtime::Error {
    match error {
        FileError::Quota(exceeded) => exceeded.into(),
        FileError::Io(error) => error.into(),
        FileError::Refused(refusal) => {
            io::Error::new(io::ErrorKind::PermissionDenied, refusal.to_string()).into()
        }
    }
}

/// An input stream from a file.
pub(crate) struct FileReader {
    channel: Arc<FileChannel>,
    file: Arc<GuestFile>,
    offset: u64,
    state: ReadState,
}

enum ReadState {
    Idle,
    Busy(AbortOnDropJoinHandle<io::Result<Bytes>>),
    Ready(Bytes),
    Failed(io::Error),
    Closed,
}

impl FileReader {
    pub(crate) fn new(channel: Arc<FileChannel>, file: Arc<GuestFile>, offset: u64) -> Self {
        Self { channel, file, offset, state: ReadState::Idle }
    }

    fn start(&mut self, bytes: usize) {
        let bytes = bytes.min(CHUNK_BYTES);
        if let Some(chunk) = cached::read(&self.file.held.file, bytes as u64, self.offset) {
            return self.finish(Ok(chunk.into()));
        }
        let (channel, file, offset) = (Arc::clone(&self.channel), Arc::clone(&self.file), self.offset);
        self.state = ReadState::Busy(spawn(async move {
            channel.read(move || read_chunk(&file.held.file, bytes, offset)).await.flatten()
        }));
    }

    fn finish(&mut self, done: io::Result<Bytes>) {
        self.state = match done {
            Ok(chunk) if chunk.is_empty() => ReadState::Closed,
            Ok(chunk) => ReadState::Ready(chunk),
            Err(error) => ReadState::Failed(error),
        };
    }

    fn poll_finished(&mut self) {
        if let ReadState::Busy(task) = &mut self.state
            && task.is_finished()
            && let Some(done) = poll_noop(std::pin::Pin::new(task))
        {
            self.finish(done);
        }
    }

    fn take(&mut self, mut chunk: Bytes, bytes: usize) -> Bytes {
        let taken = chunk.split_to(bytes.min(chunk.len()));
        self.channel.copy_meter.add_copied(taken.len());
        self.offset += taken.len() as u64;
        self.state = if chunk.is_empty() { ReadState::Idle } else { ReadState::Ready(chunk) };
        taken
    }
}

#[async_trait]
impl InputStream for FileReader {
    fn read(&mut self, bytes: usize) -> StreamResult<Bytes> {
        self.poll_finished();
        if matches!(self.state, ReadState::Idle) && bytes > 0 {
            self.start(bytes);
        }
        match std::mem::replace(&mut self.state, ReadState::Closed) {
            ReadState::Ready(chunk) => return Ok(self.take(chunk, bytes)),
            ReadState::Failed(error) => return Err(StreamError::LastOperationFailed(error.into())),
            ReadState::Closed => return Err(StreamError::Closed),
            waiting => self.state = waiting,
        }
        Ok(Bytes::new())
    }

    /// Like the default, but reads as much as requested and not only as `ready` prefetched.
    async fn blocking_read(&mut self, bytes: usize) -> StreamResult<Bytes> {
        if matches!(self.state, ReadState::Idle) && bytes > 0 {
            self.start(bytes);
        }
        self.ready().await;
        self.read(bytes)
    }

    async fn cancel(&mut self) {
        // Awaited, so that a guest cannot accumulate readers by dropping them.
        if let ReadState::Busy(task) = std::mem::replace(&mut self.state, ReadState::Closed) {
            drop(task.await);
        }
    }
}

#[async_trait]
impl Pollable for FileReader {
    async fn ready(&mut self) {
        if matches!(self.state, ReadState::Idle) {
            self.start(CHUNK_BYTES);
        }
        if let ReadState::Busy(task) = &mut self.state {
            let done = task.await;
            self.finish(done);
        }
    }
}

fn read_chunk(file: &std::fs::File, bytes: usize, offset: u64) -> io::Result<Bytes> {
    let mut chunk = vec![0; bytes];
    loop {
        match file.read_at(&mut chunk, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => {
                chunk.truncate(read?);
                return Ok(chunk.into());
            }
        }
    }
}
