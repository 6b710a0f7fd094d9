//! One request, from the guest's `wasi:http` request to the head of the response.
//!
//! The order matters: decided by the rules, recorded, given its credential, resolved, decided by its addresses, given
//! a connection slot, connected to a vetted address. A pooled connection was vetted for the same owner under the same
//! grant.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::time::{Instant, timeout, timeout_at};
use toolgate_admission::{NetworkDenial, Permitted, Vetted};
use toolgate_api::network::Host;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};
use zeroize::Zeroizing;

use super::body::GuestBody;
use super::connection::Connection;
use super::decode::Decoder;
use super::failure::Failure;
use super::headers::{self, TraceContext};
use super::inject::{Credentials, CredentialsForRequest, Injection};
use super::pool::PoolKey;
use super::record::{EgressRecord, RequestHandle};
use super::replay::Replay;
use super::resolve::Unresolved;
use super::response::{BodyContext, ResponseBody};
use super::scan::Scanner;
use super::upstreams::Upstreams;
use crate::effect::BeforeEffect;

/// Timeout for resolving, waiting for a slot, connecting and the TLS handshake together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout from the request to the head of the response. A slower response has no waiting user.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(120);
/// Timeout between two chunks of a response.
const BETWEEN_BYTES_TIMEOUT: Duration = Duration::from_secs(60);

/// Shared by the requests of one call.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) upstreams: Upstreams,
    pub(crate) credentials: Credentials,
    pub(crate) before_effect: BeforeEffect,
    pub(crate) trace_context: Option<Arc<TraceContext>>,
    pub(crate) record: EgressRecord,
    pub(crate) organization: Arc<str>,
    pub(crate) plugin: Arc<str>,
    pub(crate) header_bytes: usize,
}

impl Sender {
    /// Sends a request that the rules allow. Repeats it once if a server refuses a credential that can be renewed.
    pub(super) async fn send(
        self,
        permitted: Permitted,
        request: Request<WasiBody>,
        options: RequestOptions,
    ) -> Result<Response<WasiBody>, Error> {
        self.before_effect.wait().await.map_err(|_| {
            self.record.set_unrecordable();
            Error::HttpRequestDenied
        })?;
        let credentials = self.credentials.find(&permitted).await.map_err(|error| {
            self.record.set_error(error);
            Error::HttpRequestDenied
        })?;
        let identity = credentials.identity();
        let (replay, request) = if credentials.is_renewable {
            let (replay, request) = Replay::of(request);
            (Some(replay), request)
        } else {
            (None, request)
        };
        let sent = self.send_once(permitted.clone(), request, options, credentials).await?;
        let Some(identity) = identity.filter(|_| sent.status() == StatusCode::UNAUTHORIZED) else {
            return Ok(sent);
        };
        let is_renewed = self.credentials.report_refusal(&identity);
        let repeated = replay.filter(|_| is_renewed).and_then(Replay::into_request);
        if let Some(request) = repeated
            && let Ok(credentials) = self.credentials.find(&permitted).await
            && let Some(renewed) = credentials.identity().filter(|renewed| *renewed != identity)
        {
            // Closes the connection of the first response.
            drop(sent);
            let sent = self.send_once(permitted, request, options, credentials).await?;
            if sent.status() == StatusCode::UNAUTHORIZED {
                self.record.set_credential_renewed(self.credentials.report_refusal(&renewed));
            }
            return Ok(sent);
        }
        self.record.set_credential_renewed(is_renewed);
        Ok(sent)
    }

    /// Sends and records one request.
    async fn send_once(
        &self,
        permitted: Permitted,
        request: Request<WasiBody>,
        options: RequestOptions,
        credentials: CredentialsForRequest,
    ) -> Result<Response<WasiBody>, Error> {
        let credential = credentials.injection.as_ref().map(|injection| &**injection.credential());
        let handle = self.record.begin_request(&permitted, credential);
        let sent = self.exchange(permitted, request, options, credentials, &handle).await;
        sent.map_err(|Failure { error, reason }| {
            match &error {
                // Recorded when it was denied.
                Error::HttpRequestDenied => {}
                Error::ConnectionLimitReached => handle.record_no_slot(reason),
                _ => handle.record_failure(&error, reason),
            }
            error
        })
    }

    async fn exchange(
        &self,
        permitted: Permitted,
        request: Request<WasiBody>,
        options: RequestOptions,
        credentials: CredentialsForRequest,
        handle: &RequestHandle,
    ) -> Result<Response<WasiBody>, Failure> {
        let identity = credentials.identity();
        let permitted = if identity.is_some() { permitted.with_credential() } else { permitted };
        let key = Arc::new(PoolKey::new(&self.organization, &self.plugin, identity, &permitted));
        let scanner = credentials.scan_secrets().map(Scanner::new);
        let request =
            self.prepare(request, &permitted, credentials.injection.as_deref(), scanner.is_some(), handle)?;
        drop(credentials);
        let progress = request.body().progress();
        let between_bytes = cap_timeout(options.between_bytes_timeout, BETWEEN_BYTES_TIMEOUT);
        let (mut connection, response) = self.transmit(permitted, request, options, &key, handle).await?;
        if progress.may_be_unsent() {
            connection.drive_apart();
        }
        let pool = Some((self.upstreams.pool().clone(), key));
        let (handle, header_bytes) = (handle.clone(), self.header_bytes);
        let body =
            BodyContext { scanner, handle, between_bytes, header_bytes, connection: Some(connection), pool };
        Ok(self.build_response(response, body)?)
    }

    /// Sends a request on a pooled or new connection. Retries once on a new one if the server closed a pooled one.
    async fn transmit(
        &self,
        permitted: Permitted,
        request: Request<GuestBody>,
        options: RequestOptions,
        key: &PoolKey,
        handle: &RequestHandle,
    ) -> Result<(Connection, Response<Incoming>), Failure> {
        let head_bytes = headers::wire_bytes(request.headers());
        let open = |permitted| self.open(permitted, key, options.connect_timeout);
        let (mut connection, is_new) = match self.upstreams.pool().take(key) {
            Some(connection) => (connection, false),
            None => (open(permitted.clone()).await?, true),
        };
        let first_byte = cap_timeout(options.first_byte_timeout, FIRST_BYTE_TIMEOUT);
        let copy = if is_new { None } else { retry_copy(&request, handle) };
        handle.count_sent(head_bytes)?;
        let mut sent = timeout(first_byte, connection.send(request)).await;
        if let Ok(Err(error)) = &mut sent
            && let Some((request, was_sent)) = retry_request(error, copy, &connection).filter(|_| !is_new)
        {
            // Frees its slot first, which may be the only one.
            drop(connection);
            connection = open(permitted).await?;
            if was_sent {
                handle.count_sent(head_bytes)?;
            }
            sent = timeout(first_byte, connection.send(request)).await;
        }
        match sent {
            Ok(Ok(response)) => Ok((connection, response)),
            Ok(Err(error)) => Err(response_error(error.error(), &connection).into()),
            Err(_) => Err(Error::ConnectionReadTimeout.into()),
        }
    }

    /// Builds the request to send.
    fn prepare(
        &self,
        request: Request<WasiBody>,
        permitted: &Permitted,
        injection: Option<&Injection>,
        scans_response: bool,
        handle: &RequestHandle,
    ) -> Result<Request<GuestBody>, Error> {
        let target = permitted.target();
        let (mut parts, body) = request.into_parts();
        let length = headers::content_length(&parts.headers);
        headers::clean_request(&mut parts.headers, target, scans_response)?;
        if let Some(context) = &self.trace_context {
            headers::add_trace_context(&mut parts.headers, context);
        }
        let mut query = target.query().map(|query| Zeroizing::new(query.to_owned()));
        if let Some(injection) = injection {
            let conflict = injection.apply(&mut parts.headers, &mut query);
            if let Some(conflict) = conflict.map_err(|_| Error::ConfigurationError)? {
                let credential = injection.credential();
                let detail = format!("{target}: the tool set the {} of credential {credential}", conflict.0);
                self.record.add_effect("credential_displaced", detail);
            }
        }
        if body.is_end_stream() && [Method::POST, Method::PUT, Method::PATCH].contains(&parts.method) {
            // Servers expect a `Content-Length` with these methods (RFC 9110, 8.6), and hyper adds none.
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        if headers::wire_bytes(&parts.headers) > self.header_bytes {
            return Err(Error::HttpRequestHeaderSectionSize(None));
        }
        let path = Zeroizing::new(match &query {
            Some(query) => format!("{}?{}", target.path(), query.as_str()),
            None => target.path().to_owned(),
        });
        handle.trace(|exchange| exchange.record_request(target, injection, &parts.headers));
        parts.uri = Uri::try_from(path.as_str()).map_err(|_| Error::HttpRequestUriInvalid)?;
        parts.version = Version::HTTP_11;
        Ok(Request::from_parts(parts, GuestBody::new(body, length, handle.clone())))
    }

    async fn open(
        &self,
        permitted: Permitted,
        key: &PoolKey,
        asked: Option<Duration>,
    ) -> Result<Connection, Failure> {
        let end = Instant::now() + cap_timeout(asked, CONNECT_TIMEOUT);
        let in_time = |_| Error::ConnectionTimeout;
        let vetted = timeout_at(end, self.resolve_and_vet(permitted)).await.map_err(in_time)??;
        let slot = timeout_at(end, self.upstreams.pool().slot(key)).await;
        let slot = slot.map_err(|_| Error::ConnectionLimitReached)?;
        timeout_at(end, self.upstreams.connector().connect(&vetted, slot)).await.map_err(in_time)?
    }

    async fn resolve_and_vet(&self, permitted: Permitted) -> Result<Vetted, Error> {
        let destination = permitted.target().to_string();
        let addresses = match permitted.target().host() {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let found = self.upstreams.resolver().addresses(&self.organization, name).await;
                found.map_err(resolve_error)?
            }
        };
        permitted.vet(&addresses).map_err(|denied: NetworkDenial| {
            self.record.record_denial(&destination, &denied);
            Error::HttpRequestDenied
        })
    }

    fn build_response(
        &self,
        response: Response<Incoming>,
        mut body: BodyContext,
    ) -> Result<Response<WasiBody>, Error> {
        let (mut parts, incoming) = response.into_parts();
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Error::HttpUpgradeFailed);
        }
        let head = headers::wire_bytes(&parts.headers);
        body.handle.count_received(head)?;
        if head > self.header_bytes {
            return Err(Error::HttpResponseHeaderSectionSize(None));
        }
        let Some(decoder) = Decoder::for_coding(&headers::codings(&parts.headers)) else {
            return Err(Error::HttpResponseContentCoding(None));
        };
        if !decoder.is_identity() {
            parts.headers.remove(header::CONTENT_ENCODING);
            parts.headers.remove(header::CONTENT_LENGTH);
        }
        body.pool = body.pool.filter(|_| !headers::closes_connection(parts.version, &parts.headers));
        headers::clean_response(&mut parts.headers, body.scanner.as_ref());
        let location = parts.headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
        body.handle.record_status(parts.status.as_u16(), location);
        body.handle.trace(|exchange| exchange.record_response(&parts.headers));
        parts.extensions.clear();
        let decoder = if body.scanner.is_some() { decoder.for_scan() } else { decoder };
        let body = ResponseBody::new(incoming, decoder, body);
        Ok(Response::from_parts(parts, body.boxed_unsync()))
    }
}

/// The guest's timeout, at most ours.
fn cap_timeout(asked: Option<Duration>, max: Duration) -> Duration {
    asked.map_or(max, |asked| asked.min(max))
}

fn resolve_error(why: Unresolved) -> Error {
    match why {
        Unresolved::NoSuchHost => Error::DnsError { rcode: Some("NXDOMAIN".to_owned()), info_code: None },
        Unresolved::NoAnswer => Error::DnsTimeout,
    }
}

/// Copies a request that may be retried (RFC 9110, 9.2.2): one with a safe method and without content.
fn retry_copy(request: &Request<GuestBody>, handle: &RequestHandle) -> Option<Request<GuestBody>> {
    let changes_nothing = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    (changes_nothing && request.body().is_end_stream()).then(|| {
        let empty = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let mut copy = Request::new(GuestBody::new(empty, None, handle.clone()));
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        *copy.headers_mut() = request.headers().clone();
        copy
    })
}

/// Returns the request to retry on a new connection after the server closed a pooled one: the request itself if hyper
/// returns it unsent, or else its copy if no response byte was read. And whether it was sent before.
fn retry_request(
    error: &mut TrySendError<Request<GuestBody>>,
    copy: Option<Request<GuestBody>>,
    connection: &Connection,
) -> Option<(Request<GuestBody>, bool)> {
    if let Some(request) = error.take_message() {
        return Some((request, false));
    }
    let was_dropped = is_disconnect(error.error()) && !connection.was_answered();
    copy.filter(|_| was_dropped).map(|copy| (copy, true))
}

/// Whether the error is the end of the connection.
fn is_disconnect(error: &hyper::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    let ended = [BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof];
    error.is_incomplete_message() || error.is_closed() || io.is_some_and(|kind| ended.contains(&kind))
}

/// hyper's error text can contain the upstream's, so none of it is passed on.
fn response_error(error: &hyper::Error, connection: &Connection) -> Error {
    if error.is_parse_too_large() {
        return Error::HttpResponseHeaderSectionSize(None);
    }
    if error.is_user() {
        // The guest's body ended with an error.
        return Error::HttpRequestBodySize(None);
    }
    match error.is_parse() {
        true => Error::HttpProtocolError,
        false if connection.was_answered() => Error::HttpResponseIncomplete,
        false => Error::ConnectionTerminated,
    }
}
