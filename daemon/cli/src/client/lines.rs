//! Lines of a response body, as they arrive.

use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use serde_json::value::RawValue;

use super::{ClientError, read};

/// Limit of a line, far above the longest one, a record of the audit log with its arguments.
const LINE_BYTES: usize = 64 << 20;

/// Stream of lines.
#[derive(Debug)]
pub struct LineStream {
    body: Incoming,
    /// Received bytes that are not parsed yet.
    buffer: Vec<u8>,
}

impl LineStream {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, buffer: Vec::new() }
    }

    /// Returns the lines of a response, or its refusal.
    pub(super) async fn from_response(response: Response<Incoming>) -> Result<Self, ClientError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if response.status().is_success() && kind.is_some_and(|kind| kind.starts_with("application/jsonl")) {
            return Ok(Self::new(response.into_body()));
        }
        let response = read::<Box<RawValue>>(response).await?;
        Err(ClientError::unexpected_response(response.status, response.body.get().as_bytes()))
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
            match self.more().await? {
                Some(bytes) => self.buffer.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }

    async fn more(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| ClientError::Lost { reason: error.to_string() })?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}
