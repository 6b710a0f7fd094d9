//! For benchmarks alone: the requests of one call as `wasi:http` hands them over, without a guest that makes them.
//!
//! They are decided, recorded, sent and scanned as a guest's are. A daemon that is built by itself is without this.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use toolgate_admission::{CallAccess, Limits};
use wasmtime_wasi_http::{Error, WasiHttpHooks};

use crate::egress::Egress;
use crate::run::CallContext;

/// The requests of one call.
pub struct Requests(Egress);

impl Requests {
    /// Of a call in this context, under these limits.
    pub fn new(context: &CallContext, limits: &Limits, reach: &Arc<CallAccess>, plugin: &str) -> Self {
        Self(Egress::new(context, limits, reach, plugin))
    }

    /// Requests an address with `GET`, reads the answer to its end, and tells how many bytes it had.
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
