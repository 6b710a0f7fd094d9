//! One request, from what the guest wrote to the head of the answer.
//!
//! The order is the point: decided by the rules, written down, given its credential, resolved, decided by its addresses,
//! given a slot, connected to one of them. A connection that is kept was vetted for the same owner by the same grant.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode, Uri, Version, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout, timeout_at};
use toolgate_admission::{CallError, Denied, Host, Permitted, Vetted};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};
use zeroize::Zeroizing;

use super::answer::{AnswerBody, Around};
use super::body::GuestBody;
use super::connection::Connection;
use super::decode::Decoder;
use super::headers;
use super::inject::{Credentials, Injection};
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
        let injection = self.credential(&permitted).await?;
        let credential = injection.as_ref().map(|injection| &**injection.credential());
        let noted = self.record.begin(&permitted, credential);
        let sent = self.exchange(permitted, request, options, injection, &noted).await;
        sent.inspect_err(|error| match error {
            // A denial has said so already.
            Error::HttpRequestDenied => {}
            Error::ConnectionLimitReached => noted.crowded_out(headers::words(error)),
            _ => noted.failed(headers::words(error)),
        })
    }

    async fn exchange(
        &self,
        permitted: Permitted,
        request: Request<WasiBody>,
        options: RequestOptions,
        injection: Option<Arc<Injection>>,
        noted: &Noted,
    ) -> Result<Response<WasiBody>, Error> {
        let credential = injection.as_ref().map(|injection| Arc::clone(injection.identity()));
        let key = Arc::new(Key::new(&self.organization, &self.plugin, credential, &permitted));
        let request = self.prepare(request, &permitted, injection.as_deref(), noted)?;
        let scanner = injection.map(Scanner::new);
        let sending = request.body().sending();
        let opening = |permitted| self.open(permitted, &key, options.connect_timeout);
        let (mut connection, is_new) = match self.upstreams.pool().take(&key) {
            Some(connection) => (connection, false),
            None => (opening(permitted.clone()).await?, true),
        };
        let patience = options.first_byte_timeout.map_or(FIRST_BYTE_TIME, |asked| asked.min(FIRST_BYTE_TIME));
        let mut sent = timeout(patience, connection.send(request)).await;
        // A kept connection that its server closed meanwhile gives the request back untouched.
        if let Ok(Err(error)) = &mut sent
            && let Some(request) = error.take_message().filter(|_| !is_new)
        {
            // Its slot comes first, where there is no other.
            drop(connection);
            connection = opening(permitted).await?;
            sent = timeout(patience, connection.send(request)).await;
        }
        let answer = match sent {
            Ok(answer) => answer.map_err(|error| answer_error(error.error()))?,
            Err(_) => return Err(Error::ConnectionReadTimeout),
        };
        if sending.may_go_on() {
            connection.drive_apart();
        }
        let between_bytes =
            options.between_bytes_timeout.map_or(BETWEEN_BYTES_TIME, |asked| asked.min(BETWEEN_BYTES_TIME));
        let home = Some((self.upstreams.pool().clone(), key));
        let (noted, header_bytes) = (noted.clone(), self.header_bytes);
        self.accept(
            answer,
            Around { scanner, noted, between_bytes, header_bytes, connection: Some(connection), home },
        )
    }

    async fn recorded(&self) -> Result<(), Error> {
        self.before_effect.recorded().await.map_err(|_| {
            self.record.unrecordable();
            Error::HttpRequestDenied
        })
    }

    async fn credential(&self, permitted: &Permitted) -> Result<Option<Arc<Injection>>, Error> {
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
        noted: &Noted,
    ) -> Result<Request<GuestBody>, Error> {
        let target = permitted.target();
        let (mut parts, body) = request.into_parts();
        let length = headers::announced_length(&parts.headers);
        headers::clean_request(&mut parts.headers, target, injection.is_some())?;
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
        noted.sent(headers::bytes(&parts.headers)).map_err(|_| Error::HttpRequestBodySize(None))?;
        Ok(Request::from_parts(parts, GuestBody::new(body, length, noted.clone())))
    }

    async fn open(
        &self,
        permitted: Permitted,
        key: &Key,
        asked: Option<Duration>,
    ) -> Result<Connection, Error> {
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
        permitted.vet(&addresses).map_err(|denied: Denied| {
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

/// Hyper's words can hold the upstream's, so none of them goes on.
fn answer_error(error: &hyper::Error) -> Error {
    if error.is_parse_too_large() {
        return Error::HttpResponseHeaderSectionSize(None);
    }
    if error.is_user() {
        // The body of the guest ended in an error of its own.
        return Error::HttpRequestBodySize(None);
    }
    match error.is_parse() {
        true => Error::HttpProtocolError,
        false => Error::ConnectionTerminated,
    }
}
