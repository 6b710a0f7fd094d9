//! One request, from what the guest wrote to the head of the answer.
//!
//! The order is the point: decided by the rules, written down, given its credential, resolved, decided by its addresses,
//! given a slot, connected to one of them. A connection that is kept was vetted for the same owner by the same grant.

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
use toolgate_admission::{CallError, Host, NetworkDenial, Permitted, Vetted};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};
use zeroize::Zeroizing;

use super::answer::{AnswerBody, Around};
use super::body::GuestBody;
use super::connection::Connection;
use super::decode::Decoder;
use super::failure::Failure;
use super::headers;
use super::inject::{Credentials, Found, Injection};
use super::pool::Key;
use super::record::{Noted, Record};
use super::resolve::Unresolved;
use super::scan::Scanner;
use super::upstreams::Upstreams;
use crate::effect::BeforeEffect;

/// Resolving, waiting for a slot, connecting and agreeing on TLS, together.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// From the request to the head of its answer. What takes longer has no user who waits.
const FIRST_BYTE_TIME: Duration = Duration::from_secs(120);
/// Between two pieces of an answer.
const BETWEEN_BYTES_TIME: Duration = Duration::from_secs(60);

/// What the requests of one call share.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) upstreams: Upstreams,
    pub(super) credentials: Credentials,
    pub(super) before_effect: BeforeEffect,
    pub(super) record: Record,
    pub(super) organization: Arc<str>,
    pub(super) plugin: Arc<str>,
    pub(super) header_bytes: usize,
}

/// One request that the rules allow.
pub(super) struct Outgoing {
    pub(super) permitted: Permitted,
    pub(super) request: Request<WasiBody>,
    pub(super) options: RequestOptions,
}

impl Sender {
    pub(super) async fn send(self, outgoing: Outgoing) -> Result<Response<WasiBody>, Error> {
        let Outgoing { permitted, request, options } = outgoing;
        self.recorded().await?;
        let found = self.found(&permitted).await?;
        let credential = found.injection.as_ref().map(|injection| &**injection.credential());
        let noted = self.record.begin(&permitted, credential);
        let sent = self.exchange(permitted, request, options, found, &noted).await;
        sent.map_err(|Failure { error, words }| {
            match error {
                // A denial has said so already.
                Error::HttpRequestDenied => {}
                Error::ConnectionLimitReached => noted.crowded_out(words),
                _ => noted.failed(words),
            }
            error
        })
    }

    async fn exchange(
        &self,
        permitted: Permitted,
        request: Request<WasiBody>,
        options: RequestOptions,
        found: Found,
        noted: &Noted,
    ) -> Result<Response<WasiBody>, Failure> {
        let credential = found.injection.as_ref().map(|injection| Arc::clone(injection.identity()));
        let key = Arc::new(Key::new(&self.organization, &self.plugin, credential.clone(), &permitted));
        let scanner = found.hidden().map(Scanner::new);
        let request =
            self.prepare(request, &permitted, found.injection.as_deref(), scanner.is_some(), noted)?;
        drop(found);
        let sending = request.body().sending();
        let head = headers::bytes(request.headers());
        let opening = |permitted| self.open(permitted, &key, options.connect_timeout);
        let (mut connection, is_new) = match self.upstreams.pool().take(&key) {
            Some(connection) => (connection, false),
            None => (opening(permitted.clone()).await?, true),
        };
        let patience = options.first_byte_timeout.map_or(FIRST_BYTE_TIME, |asked| asked.min(FIRST_BYTE_TIME));
        let copy = if is_new { None } else { repeatable(&request, noted) };
        noted.sent(head).map_err(|_| Error::HttpRequestBodySize(None))?;
        let mut sent = timeout(patience, connection.send(request)).await;
        if let Ok(Err(error)) = &mut sent
            && let Some((request, has_left)) = again(error, copy, &connection).filter(|_| !is_new)
        {
            // Its slot comes first, where there is no other.
            drop(connection);
            connection = opening(permitted).await?;
            if has_left {
                noted.sent(head).map_err(|_| Error::HttpRequestBodySize(None))?;
            }
            sent = timeout(patience, connection.send(request)).await;
        }
        let answer = match sent {
            Ok(answer) => answer.map_err(|error| answer_error(error.error(), &connection))?,
            Err(_) => return Err(Error::ConnectionReadTimeout.into()),
        };
        if let Some(identity) = credential.filter(|_| answer.status() == StatusCode::UNAUTHORIZED) {
            self.credentials.refused(&identity);
        }
        if sending.may_go_on() {
            connection.drive_apart();
        }
        let between_bytes =
            options.between_bytes_timeout.map_or(BETWEEN_BYTES_TIME, |asked| asked.min(BETWEEN_BYTES_TIME));
        let home = Some((self.upstreams.pool().clone(), key));
        let (noted, header_bytes) = (noted.clone(), self.header_bytes);
        let around =
            Around { scanner, noted, between_bytes, header_bytes, connection: Some(connection), home };
        Ok(self.accept(answer, around)?)
    }

    async fn recorded(&self) -> Result<(), Error> {
        self.before_effect.recorded().await.map_err(|_| {
            self.record.unrecordable();
            Error::HttpRequestDenied
        })
    }

    async fn found(&self, permitted: &Permitted) -> Result<Found, Error> {
        self.credentials.find(permitted).await.map_err(|error: CallError| {
            self.record.trouble(error);
            Error::HttpRequestDenied
        })
    }

    /// The request as it is sent.
    fn prepare(
        &self,
        request: Request<WasiBody>,
        permitted: &Permitted,
        injection: Option<&Injection>,
        hides: bool,
        noted: &Noted,
    ) -> Result<Request<GuestBody>, Error> {
        let target = permitted.target();
        let (mut parts, body) = request.into_parts();
        let length = headers::announced_length(&parts.headers);
        headers::clean_request(&mut parts.headers, target, hides)?;
        let mut query = target.query().map(|query| Zeroizing::new(query.to_owned()));
        if let Some(injection) = injection {
            let displaced =
                injection.apply(&mut parts.headers, &mut query).map_err(|_| Error::ConfigurationError)?;
            if let Some(displaced) = displaced {
                let detail = format!(
                    "{target}: the tool set the {} of credential {}",
                    displaced.0,
                    injection.credential()
                );
                self.record.note("credential_displaced", detail);
            }
        }
        if body.is_end_stream() && [Method::POST, Method::PUT, Method::PATCH].contains(&parts.method) {
            // Servers ask for a length where content is usual (RFC 9110, 8.6), and the library says none.
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        if headers::bytes(&parts.headers) > self.header_bytes {
            return Err(Error::HttpRequestHeaderSectionSize(None));
        }
        let path = Zeroizing::new(match &query {
            Some(query) => format!("{}?{}", target.path(), query.as_str()),
            None => target.path().to_owned(),
        });
        noted.trace(|exchange| exchange.sent(target, injection, &parts.headers));
        parts.uri = Uri::try_from(path.as_str()).map_err(|_| Error::HttpRequestUriInvalid)?;
        parts.version = Version::HTTP_11;
        Ok(Request::from_parts(parts, GuestBody::new(body, length, noted.clone())))
    }

    async fn open(
        &self,
        permitted: Permitted,
        key: &Key,
        asked: Option<Duration>,
    ) -> Result<Connection, Failure> {
        let end = Instant::now() + asked.map_or(CONNECT_TIME, |asked| asked.min(CONNECT_TIME));
        let in_time = |_| Error::ConnectionTimeout;
        let vetted = timeout_at(end, self.vetted(permitted)).await.map_err(in_time)??;
        let slot = timeout_at(end, self.upstreams.pool().slot(key)).await;
        let slot = slot.map_err(|_| Error::ConnectionLimitReached)?;
        timeout_at(end, self.upstreams.connector().connect(&vetted, slot)).await.map_err(in_time)?
    }

    async fn vetted(&self, permitted: Permitted) -> Result<Vetted, Error> {
        let destination = permitted.target().to_string();
        let addresses = match permitted.target().host() {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.upstreams.resolver().addresses(name).await.map_err(unresolved)?,
        };
        permitted.vet(&addresses).map_err(|denied: NetworkDenial| {
            self.record.denied(&destination, &denied);
            Error::HttpRequestDenied
        })
    }

    fn accept(&self, answer: Response<Incoming>, mut around: Around) -> Result<Response<WasiBody>, Error> {
        let (mut parts, incoming) = answer.into_parts();
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Error::HttpUpgradeFailed);
        }
        let head = headers::bytes(&parts.headers);
        around.noted.received(head).map_err(|_| Error::HttpResponseBodySize(None))?;
        if head > self.header_bytes {
            return Err(Error::HttpResponseHeaderSectionSize(None));
        }
        let Some(decoder) = Decoder::named(&headers::coding(&parts.headers)) else {
            return Err(Error::HttpResponseContentCoding(None));
        };
        if !decoder.is_identity() {
            parts.headers.remove(header::CONTENT_ENCODING);
            parts.headers.remove(header::CONTENT_LENGTH);
        }
        around.home = around.home.filter(|_| !headers::is_last(parts.version, &parts.headers));
        headers::clean_answer(&mut parts.headers, around.scanner.as_ref());
        around.noted.answered(parts.status.as_u16());
        around.noted.trace(|exchange| exchange.answered(&parts.headers));
        parts.extensions.clear();
        let body = AnswerBody::new(incoming, decoder, around);
        Ok(Response::from_parts(parts, body.boxed_unsync()))
    }
}

fn unresolved(why: Unresolved) -> Error {
    match why {
        Unresolved::NoSuchHost => Error::DnsError { rcode: Some("NXDOMAIN".to_owned()), info_code: None },
        Unresolved::NoAnswer => Error::DnsTimeout,
    }
}

/// The same request once more, where that asks for nothing twice: one that changes nothing (RFC 9110, 9.2.2) and has no
/// content.
fn repeatable(request: &Request<GuestBody>, noted: &Noted) -> Option<Request<GuestBody>> {
    let changes_nothing = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    (changes_nothing && request.body().is_end_stream()).then(|| {
        let mut copy = Request::new(GuestBody::new(empty(), None, noted.clone()));
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        *copy.headers_mut() = request.headers().clone();
        copy
    })
}

fn empty() -> WasiBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// What is sent by another connection, since a kept one was being closed by its server: the request itself, where it comes
/// back untouched, or else its copy, where nothing of an answer came. And whether it left already.
fn again(
    error: &mut TrySendError<Request<GuestBody>>,
    copy: Option<Request<GuestBody>>,
    connection: &Connection,
) -> Option<(Request<GuestBody>, bool)> {
    if let Some(request) = error.take_message() {
        return Some((request, false));
    }
    let was_dropped = has_ended(error.error()) && !connection.was_answered();
    copy.filter(|_| was_dropped).map(|copy| (copy, true))
}

/// Whether the connection ended, and nothing else is wrong.
fn has_ended(error: &hyper::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    let ended = [BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof];
    error.is_incomplete_message() || error.is_closed() || io.is_some_and(|kind| ended.contains(&kind))
}

/// Hyper's words can hold the upstream's, so none of them goes on.
fn answer_error(error: &hyper::Error, connection: &Connection) -> Error {
    if error.is_parse_too_large() {
        return Error::HttpResponseHeaderSectionSize(None);
    }
    if error.is_user() {
        // The body of the guest ended in an error of its own.
        return Error::HttpRequestBodySize(None);
    }
    match error.is_parse() {
        true => Error::HttpProtocolError,
        false if connection.was_answered() => Error::HttpResponseIncomplete,
        false => Error::ConnectionTerminated,
    }
}
