//! Outgoing HTTP of a guest: linked, and denied for every destination.
//!
//! A request never leaves this function, so no name is resolved and no packet sent. What was tried is kept
//! for the record, with its host and without path or query.

use http::Request;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::effect::Effect;

/// Tries kept for the record of one call. Further ones are counted as host calls and otherwise forgotten.
const RECORDED_TRIES: usize = 32;

/// Bytes of a request body that a guest may hand over at once. The library's megabyte is host memory.
const OUTGOING_CHUNK_BYTES: usize = 64 * 1024;

type Answer = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

/// What a guest tried to reach.
#[derive(Debug, Default)]
pub(crate) struct Egress {
    tried: Vec<Effect>,
}

impl Egress {
    /// Whether the host refused a request of this call.
    pub(crate) fn denied(&self) -> bool {
        !self.tried.is_empty()
    }

    pub(crate) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.tried)
    }
}

impl WasiHttpHooks for Egress {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        _options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = wasmtime_wasi_http::Result<Answer>> + Send> {
        if self.tried.len() < RECORDED_TRIES {
            let host = request.uri().host().unwrap_or("?").chars().take(255).collect::<String>();
            self.tried.push(Effect { kind: "network_denied", detail: host });
        }
        Box::new(std::future::ready(Err(Error::HttpRequestDenied)))
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        OUTGOING_CHUNK_BYTES
    }
}
