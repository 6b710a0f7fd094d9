//! Outgoing HTTP of a guest: our own HTTP client behind `wasi:http`.
//!
//! `toolgate_admission::egress` decides which requests may leave. This module carries out its permits: it resolves the
//! host, connects to a vetted address, and sends. It uses no proxy of the environment, follows no redirect and speaks
//! no protocol besides HTTP/1.1. A call without [`Upstreams`] reaches nothing.
//!
//! In order: [`upstreams`] (shared by all calls), [`send`] (one request), [`record`] (limits and audit), [`resolve`],
//! [`slots`], [`connect`], [`connection`] with [`read_tracker`], [`pool`], [`failure`] (errors), then the bytes:
//! [`headers`], [`body`] and [`replay`] (out), [`response`] with [`decode`] and [`scan`] (in), [`inject`] (credentials) with
//! [`pattern`] (secret search), and [`trace`] (requests of a test call).

mod response;
mod body;
mod connect;
mod connection;
mod decode;
mod failure;
mod headers;
mod host_client;
mod read_tracker;
mod replay;
mod inject;
mod pattern;
mod pool;
mod record;
mod resolve;
mod scan;
mod send;
mod slots;
mod trace;
mod upstreams;

use std::sync::Arc;

use http::Request;
use http::uri::Scheme;
use toolgate_admission::{CallAccess, NetworkDenial, Permitted};
use toolgate_api::network::Target;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

pub use connect::is_certificate;
pub use headers::TraceContext;
pub use host_client::{
    CaFileError, ExchangeLimits, HostClient, HostClientError, HostClientSettings, PrivateHosts,
};
pub use inject::{Credentials, CredentialsForRequest, Injection, InjectionPlace};
pub use pattern::SHORTEST as SHORTEST_SECRET;
pub(crate) use record::EgressRecord;
pub(crate) use send::Sender;
pub use trace::{Excerpt, Exchange};
pub use upstreams::{EgressSettings, Upstreams};

/// Bytes of a request body that a guest may write at once. wasmtime-wasi-http's default of a megabyte is host memory.
const OUTGOING_CHUNK_BYTES: usize = 64 * 1024;

type SentRequest = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

/// The requests of one call.
pub(crate) struct Egress {
    pub(crate) reach: Arc<CallAccess>,
    pub(crate) record: EgressRecord,
    pub(crate) sender: Option<Sender>,
}

impl Egress {
    pub(crate) fn record(&self) -> &EgressRecord {
        &self.record
    }

    /// Applies the rules to a request, and records a refusal.
    fn permit(&self, request: &Request<WasiBody>) -> Option<Permitted> {
        let uri = request.uri();
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        let target = match Target::parse(scheme, authority, path, request.method().as_str()) {
            Ok(target) => Arc::new(target),
            Err(error) => {
                // Without the user info, which can contain a password.
                let host = authority.rsplit('@').next().unwrap_or_default();
                let destination = format!("{} {scheme}://{host}", request.method());
                self.record.record_denial(&destination, &error.into());
                return None;
            }
        };
        let permitted = self.reach.permit(Arc::clone(&target));
        permitted.inspect_err(|denied| self.record.record_denial(&target.to_string(), denied)).ok()
    }
}

impl WasiHttpHooks for Egress {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = wasmtime_wasi_http::Result<SentRequest>> + Send> {
        let denied = || Box::new(std::future::ready(Err(Error::HttpRequestDenied)));
        if !self.record.take_request() {
            return denied();
        }
        let Some(permitted) = self.permit(&request) else { return denied() };
        let Some(sender) = self.sender.clone() else {
            self.record.record_denial(&permitted.target().to_string(), &NetworkDenial::no_network());
            return denied();
        };
        Box::new(async move {
            let response = sender.send(permitted, request, options.unwrap_or_default()).await?;
            Ok((response, Box::new(std::future::ready(Ok(()))) as Box<_>))
        })
    }

    // Both are checked and recorded in `permit`.
    fn is_supported_scheme(&mut self, _scheme: &Scheme) -> bool {
        true
    }

    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        OUTGOING_CHUNK_BYTES
    }
}
