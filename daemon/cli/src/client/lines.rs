//! Lines of a response body, as they arrive.

use hyper::Response;
use hyper::body::Incoming;

use super::{BodyStream, ClientError};

/// Limit of a line, far above the longest one, a record of the audit log with its arguments.
const LINE_BYTES: usize = 64 << 20;

/// Stream of lines.
#[derive(Debug)]
pub struct LineStream {
    body: BodyStream,
    /// Received bytes that are not parsed yet.
    buffer: Vec<u8>,
}

impl LineStream {
    pub(super) fn new(body: BodyStream) -> Self {
        Self { body, buffer: Vec::new() }
    }

    /// Returns the lines of a response, or its refusal.
    pub(super) async fn from_response(response: Response<Incoming>) -> Result<Self, ClientError> {
        BodyStream::from_response(response, |kind| kind.starts_with("application/jsonl")).await.map(Self::new)
    }

    /// Waits for the next complete line; `None` once the daemon has ended the stream.
    pub async fn next(&mut self) -> Result<Option<String>, ClientError> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=searched + end).collect();
                let line = String::from_utf8_lossy(&line);
                return Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()));
            }
            searched = self.buffer.len();
            if searched > LINE_BYTES {
                return Err(ClientError::unexpected_response(200, &self.buffer));
            }
            match self.body.next().await? {
                Some(bytes) => self.buffer.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }
}
