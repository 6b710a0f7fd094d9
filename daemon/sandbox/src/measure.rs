//! For benchmarks: sends the requests of one call through `wasi:http`'s host functions without a guest.
//!
//! Admission, record, transport and secret scan are the same as for a guest. The feature is off in a build of the
//! daemon.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use toolgate_admission::CallAccess;
use toolgate_api::limits::Limits;
use wasmtime_wasi_http::{Error, WasiHttpHooks};

use crate::context::CallContext;
use crate::egress::Egress;

/// The requests of one call.
pub struct Requests(Egress);

impl Requests {
    /// The requests of a call with this context and these limits.
    pub fn new(context: &CallContext, limits: &Limits, reach: &Arc<CallAccess>, plugin: &str) -> Self {
        Self(context.egress(limits, reach, plugin))
    }

    /// Sends a `GET` request, reads the response body to its end, and returns its length in bytes.
    pub async fn get(&mut self, uri: &str) -> Result<u64, Error> {
        let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::get(uri).body(body).map_err(|_| Error::HttpRequestUriInvalid)?;
        let sent = self.0.send_request(request, None, Box::new(std::future::ready(Ok(()))));
        let (answer, _) = Box::into_pin(sent).await?;
        let (mut body, mut bytes) = (answer.into_body(), 0);
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len) as u64;
        }
        Ok(bytes)
    }
}
