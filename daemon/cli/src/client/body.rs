//! The body of a response, as it arrives.

use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use serde_json::value::RawValue;

use super::{ClientError, read};

/// Stream of the bytes of a body.
#[derive(Debug)]
pub struct BodyStream(Incoming);

impl BodyStream {
    /// Returns the body of a response of this type, or its refusal.
    pub(super) async fn from_response(
        response: Response<Incoming>,
        content_type: &str,
    ) -> Result<Self, ClientError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if response.status().is_success() && kind == Some(content_type) {
            return Ok(Self(response.into_body()));
        }
        let response = read::<Box<RawValue>>(response).await?;
        Err(ClientError::unexpected_response(response.status, response.body.get().as_bytes()))
    }

    /// Waits for the next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            match self.0.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::Lost { reason: error.to_string() }),
                // The other frames are trailers.
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}
