//! Outgoing HTTP of a guest: our own sender behind `wasi:http`.
//!
//! Whether a request may leave is decided in `toolgate_admission::egress`; this room only does what a permit says: it
//! resolves, connects to what was vetted, and passes on. No proxy of the environment is asked, no redirect followed, no
//! other protocol spoken. A call without [`Upstreams`] reaches nothing.
//!
//! In order: [`upstreams`] (what all calls share), [`send`] (one request), [`record`] (what the call did), [`resolve`],
//! [`slots`], [`connect`], [`connection`] with [`heard`], [`pool`], [`failure`] (why there is no answer), then the bytes: [`headers`], [`body`] (out), [`answer`] with [`decode`]
//! and [`scan`] (in), [`inject`] (credentials) with [`pattern`] (what is looked for in answers), and [`trace`] (what a
//! person who tries a tool is shown).

mod answer;
mod body;
mod connect;
mod connection;
mod decode;
mod failure;
mod headers;
mod heard;
mod host_client;
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
use toolgate_admission::{CallAccess, Limits, NetworkDenial, Permitted, Target};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::limiter::saturating;
use crate::run::CallContext;
pub use connect::is_certificate;
pub use host_client::{CaFileError, HostClient, HostClientError, HostClientSettings};
pub use inject::{Credentials, Found, Injection, InjectionPlace};
pub use pattern::SHORTEST as SHORTEST_SECRET;
pub(crate) use record::Record;
use send::{Outgoing, Sender};
pub use trace::{Excerpt, Exchange};
pub use upstreams::{EgressSettings, Upstreams};

/// Bytes of a request body that a guest may hand over at once. The library's megabyte is host memory.
const OUTGOING_CHUNK_BYTES: usize = 64 * 1024;

type Answer = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

/// The requests of one call.
pub(crate) struct Egress {
    reach: Arc<CallAccess>,
    record: Record,
    sender: Option<Sender>,
}

impl Egress {
    /// What is kept between calls is kept for the organization and this plugin alone, which its digest names.
    pub(crate) fn new(context: &CallContext, limits: &Limits, reach: &Arc<CallAccess>, plugin: &str) -> Self {
        let record = Record::new(limits, context.traced);
        let sender = context.upstreams.clone().filter(|_| reach.has_network()).map(|upstreams| Sender {
            upstreams,
            credentials: context.credentials.clone(),
            before_effect: context.before_effect.clone(),
            record: record.clone(),
            organization: Arc::clone(&context.made_for.organization),
            plugin: plugin.into(),
            header_bytes: saturating(limits.header_bytes),
        });
        Self { reach: Arc::clone(reach), record, sender }
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Decides about a request, and writes down what is refused.
    fn permit(&self, request: &Request<WasiBody>) -> Option<Permitted> {
        let uri = request.uri();
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        let target = match Target::parse(scheme, authority, path, request.method().as_str()) {
            Ok(target) => Arc::new(target),
            Err(error) => {
                let destination = format!("{} {scheme}://{}", request.method(), without_user_info(authority));
                self.record.denied(&destination, &error.into());
                return None;
            }
        };
        let permitted = self.reach.permit(Arc::clone(&target));
        permitted.inspect_err(|denied| self.record.denied(&target.to_string(), denied)).ok()
    }
}

/// What stands in front of an `@` can be a password.
fn without_user_info(authority: &str) -> &str {
    authority.rsplit('@').next().unwrap_or_default()
}

impl WasiHttpHooks for Egress {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = wasmtime_wasi_http::Result<Answer>> + Send> {
        let denied = || Box::new(std::future::ready(Err(Error::HttpRequestDenied)));
        if !self.record.take_request() {
            return denied();
        }
        let Some(permitted) = self.permit(&request) else { return denied() };
        let Some(sender) = self.sender.clone() else {
            self.record.denied(&permitted.target().to_string(), &NetworkDenial::no_network());
            return denied();
        };
        let outgoing = Outgoing { permitted, request, options: options.unwrap_or_default() };
        Box::new(async move {
            let answer = sender.send(outgoing).await?;
            Ok((answer, Box::new(std::future::ready(Ok(()))) as Box<_>))
        })
    }

    // Both are decided about with everything else, and so written down.
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
