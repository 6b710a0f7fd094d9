//! Sends requests through `wasi:http`.
//!
//! The request body is written while waiting for the response, since a server may respond before it has read everything.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody,
    OutgoingRequest, RequestOptions, Scheme, http_error_code,
};
use wasip2::io::streams::{InputStream, StreamError};

use super::request::Outgoing;
use super::response::RawResponse;
use super::{Error, Headers, Unavailable};
use crate::task::{sleep, wait_for};

/// Bytes read at once.
const PIECE_BYTES: u64 = 64 * 1024;

type Writing = Pin<Box<dyn Future<Output = ()>>>;

pub(crate) async fn send(outgoing: Outgoing) -> Result<RawResponse, Error> {
    let host = outgoing.address.host().to_owned();
    let until = outgoing.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let request = outgoing_request(&outgoing)?;
    let body = outgoing.body.is_some().then(|| request.body().ok()).flatten();
    let pending = handle(request, options(outgoing.timeout)).map_err(|code| error_from_code(&host, &code))?;
    let mut writing: Option<Writing> = match (body, outgoing.body) {
        (Some(body), Some(bytes)) => Some(Box::pin(write(body, bytes))),
        _ => None,
    };
    let received = with_deadline(until, receive(&pending, &mut writing)).await;
    let timeout = || unavailable(&host, Unavailable::Timeout);
    let response = received.ok_or_else(timeout)?.map_err(|code| error_from_code(&host, &code))?;
    let body = response.consume().map_err(|()| unavailable(&host, Unavailable::Broken))?;
    Ok(RawResponse {
        status: response.status(),
        headers: headers(&response),
        body: Body { content: Content::of(body), host, until, _writing: writing },
    })
}

/// The body of a response.
pub(crate) struct Body {
    content: Option<Content>,
    host: String,
    until: Option<Instant>,
    /// The rest of the request to write; dropping it would close the connection.
    _writing: Option<Writing>,
}

/// The stream is a child resource of the body and must be dropped first, so it is declared first.
struct Content {
    stream: InputStream,
    _body: IncomingBody,
}

impl Content {
    fn of(body: IncomingBody) -> Option<Self> {
        body.stream().ok().map(|stream| Self { stream, _body: body })
    }
}

impl Body {
    /// Returns the next piece, or none at the end.
    pub(crate) async fn read(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let Some(content) = &self.content else { return Ok(None) };
            match content.stream.read(PIECE_BYTES) {
                Ok(piece) if piece.is_empty() => {
                    let ready = wait_for(content.stream.subscribe());
                    if with_deadline(self.until, ready).await.is_none() {
                        return Err(unavailable(&self.host, Unavailable::Timeout));
                    }
                }
                Ok(piece) => return Ok(Some(piece)),
                Err(StreamError::Closed) => self.content = None,
                Err(StreamError::LastOperationFailed(error)) => {
                    let broken = || unavailable(&self.host, Unavailable::Broken);
                    let error = http_error_code(&error);
                    return Err(error.map_or_else(broken, |code| error_from_code(&self.host, &code)));
                }
            }
        }
    }
}

fn outgoing_request(outgoing: &Outgoing) -> Result<OutgoingRequest, Error> {
    let request = OutgoingRequest::new(fields(outgoing)?);
    let address = &outgoing.address;
    let scheme = if address.is_tls { Scheme::Https } else { Scheme::Http };
    let is_set = request.set_method(&method(&outgoing.method)).is_ok()
        && request.set_scheme(Some(&scheme)).is_ok()
        && request.set_authority(Some(&address.authority)).is_ok()
        && request.set_path_with_query(Some(&address.path_with_query)).is_ok();
    match is_set {
        true => Ok(request),
        false => Err(Error::InvalidUrl {
            url: address.url(),
            why: "write it as `https://example.com:8443/path?name=value`",
        }),
    }
}

fn fields(outgoing: &Outgoing) -> Result<Fields, Error> {
    let fields = Fields::new();
    let append = |name: &str, value: &str| {
        fields.append(name, value.as_bytes()).map_err(|_| Error::InvalidRequest {
            why: format!("a plugin cannot set the header field `{name}`"),
        })
    };
    outgoing.headers.iter().try_for_each(|(name, value)| append(name, value))?;
    if let Some(body) = &outgoing.body {
        append("content-length", &body.len().to_string())?;
    }
    Ok(fields)
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "PATCH" => Method::Patch,
        "OPTIONS" => Method::Options,
        other => Method::Other(other.to_owned()),
    }
}

/// With these timeouts the host gives up too, and its error names the phase.
fn options(timeout: Option<Duration>) -> Option<RequestOptions> {
    let nanoseconds = timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))?;
    let options = RequestOptions::new();
    let _ = options.set_connect_timeout(Some(nanoseconds));
    let _ = options.set_first_byte_timeout(Some(nanoseconds));
    let _ = options.set_between_bytes_timeout(Some(nanoseconds));
    Some(options)
}

/// Waits for the response, and writes the request meanwhile.
async fn receive(
    pending: &FutureIncomingResponse,
    writing: &mut Option<Writing>,
) -> Result<IncomingResponse, ErrorCode> {
    let mut ready = pin!(wait_for(pending.subscribe()));
    poll_fn(|context| {
        if writing.as_mut().is_some_and(|writing| writing.as_mut().poll(context).is_ready()) {
            *writing = None;
        }
        ready.as_mut().poll(context)
    })
    .await;
    match pending.get() {
        Some(Ok(response)) => response,
        _ => Err(ErrorCode::HttpResponseIncomplete),
    }
}

/// Writes the body of a request. If the server no longer reads it, the response has the reason.
async fn write(body: OutgoingBody, bytes: Vec<u8>) {
    let Ok(stream) = body.write() else { return };
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let Ok(capacity) = stream.check_write() else { return };
        if capacity == 0 {
            wait_for(stream.subscribe()).await;
            continue;
        }
        let length = rest.len().min(usize::try_from(capacity).unwrap_or(usize::MAX));
        let (piece, later) = rest.split_at(length);
        if stream.write(piece).is_err() {
            return;
        }
        rest = later;
    }
    if stream.flush().is_ok() {
        wait_for(stream.subscribe()).await;
    }
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}

fn headers(response: &IncomingResponse) -> Headers {
    let mut headers = Headers::default();
    for (name, value) in response.headers().entries() {
        headers.append(name, String::from_utf8_lossy(&value));
    }
    headers
}

/// Returns the output of the future, or none after the deadline.
async fn with_deadline<F: Future>(until: Option<Instant>, future: F) -> Option<F::Output> {
    let Some(until) = until else { return Some(future.await) };
    let mut future = pin!(future);
    let mut end = pin!(sleep(until.saturating_duration_since(Instant::now())));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => end.as_mut().poll(context).map(|()| None),
    })
    .await
}

fn error_from_code(host: &str, code: &ErrorCode) -> Error {
    let unavailable = |why| unavailable(host, why);
    match code {
        ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => {
            Error::Denied { host: host.to_owned() }
        }
        ErrorCode::DnsTimeout | ErrorCode::DnsError(_) => unavailable(Unavailable::Dns),
        ErrorCode::DestinationNotFound
        | ErrorCode::DestinationUnavailable
        | ErrorCode::DestinationIpUnroutable
        | ErrorCode::ConnectionRefused => unavailable(Unavailable::Connect),
        ErrorCode::TlsProtocolError
        | ErrorCode::TlsCertificateError
        | ErrorCode::TlsAlertReceived(_)
        | ErrorCode::ConfigurationError => unavailable(Unavailable::Tls),
        ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::HttpResponseTimeout => unavailable(Unavailable::Timeout),
        ErrorCode::ConnectionLimitReached
        | ErrorCode::HttpRequestBodySize(_)
        | ErrorCode::HttpRequestHeaderSectionSize(_)
        | ErrorCode::HttpResponseBodySize(_)
        | ErrorCode::HttpResponseHeaderSectionSize(_)
        | ErrorCode::HttpResponseTrailerSectionSize(_) => unavailable(Unavailable::Limit),
        ErrorCode::HttpRequestUriInvalid
        | ErrorCode::HttpRequestUriTooLong
        | ErrorCode::HttpRequestMethodInvalid
        | ErrorCode::HttpRequestHeaderSize(_) => {
            Error::InvalidRequest { why: "the host refuses its method, URL or header fields".to_owned() }
        }
        _ => unavailable(Unavailable::Broken),
    }
}

fn unavailable(host: &str, why: Unavailable) -> Error {
    Error::Unavailable { host: host.to_owned(), why }
}
