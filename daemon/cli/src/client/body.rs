//! The body of a response, as it arrives.

use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;

use super::{ClientError, read};

/// Stream of the bytes of a body.
#[derive(Debug)]
pub struct BodyStream(Incoming);

impl BodyStream {
    /// Returns the body of a response of an expected content type, or its refusal.
    pub(super) async fn from_response(
        response: Response<Incoming>,
        is_expected: impl FnOnce(&str) -> bool,
    ) -> Result<Self, ClientError> {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if response.status().is_success() && content_type.is_some_and(is_expected) {
            return Ok(Self(response.into_body()));
        }
        let response = read(response).await?;
        Err(ClientError::unexpected_response(response.status, &response.body))
    }

    /// Waits for the next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.0.frame().await {
            let frame = frame.map_err(|error| ClientError::Lost { reason: error.to_string() })?;
            // The other frames are trailers.
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}
