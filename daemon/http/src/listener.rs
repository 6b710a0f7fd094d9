//! The accept loop, with limits on connections, on the size and time of heads and bodies, and a graceful drain.
//!
//! `axum::serve` has no timeout for reading a request's head or for writing a response, and no limit on the number of
//! connections. `listener/connections.rs` decides which connections give way to new ones at that limit.

mod bad_request;
mod client_stream;
mod framing;
mod socket;
mod stalled;
mod tls;

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use toolgate_macros::boxed;

use super::connections::{ClientCertificate, ConnectionPermit, Connections, RequestInFlight};
use super::header::HEADER_FIELDS;
use super::service::RootService;
use super::state::AFTER_DRAIN;
use bad_request::BadRequest;
use client_stream::ClientStream;
use socket::Accepted;
pub use socket::{Listener, Socket};
use stalled::StreamWatch;
use tls::HTTP2;
pub use tls::{Tls, TlsFiles};

/// Pause after `accept` failed, most often for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Minimum time between two log lines about `accept`.
const ACCEPT_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Time that a client may continue to send after its request was refused early.
const LINGER: Duration = Duration::from_secs(2);

/// Concurrent requests of one HTTP/2 connection.
const HTTP2_STREAMS: u32 = 128;

/// Write timeouts in which a client of HTTP/2 reads no frame of a response. A frame has up to a megabyte, of which parts are no
/// progress that shows.
const UNREAD_TIMEOUTS: u32 = 4;

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct ListenerSettings {
    /// Concurrent connections.
    pub connections: usize,
    /// Size of the request line and the header fields together, in bytes.
    pub header_bytes: usize,
    /// Timeout for receiving the head of a request; an idle connection is closed after it too.
    pub header_timeout: Duration,
    /// Timeout for a write of which the client reads no byte.
    pub write_timeout: Duration,
    /// Time for running requests to complete after a stop began.
    pub drain: Duration,
}

/// Serves `service` until `stop`, then drains running requests until `settings.drain` has passed or `over` is cancelled,
/// and then cancels the calls that still run.
#[boxed]
pub async fn serve(
    listener: Listener,
    tls: Option<Tls>,
    service: RootService,
    settings: ListenerSettings,
    stop: CancellationToken,
    over: CancellationToken,
) {
    let _following =
        tls.clone().map(|tls| AbortOnDropHandle::new(tokio::spawn(tls.follow_files(stop.clone()))));
    let table = Connections::new(settings.connections);
    let _timer = AbortOnDropHandle::new(tokio::spawn(keep_short_timer(settings.header_timeout / 8)));
    let connections = TaskTracker::new();
    let mut accept_errors = AcceptErrors::default();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &table) => accepted,
        };
        match accepted {
            Ok(Some((stream, permit))) => {
                let (service, stop) = (service.clone(), stop.clone());
                match (stream, tls.clone()) {
                    (Accepted::Tcp(stream), None) => {
                        connections.spawn(connection(stream, permit, service, settings, stop))
                    }
                    (Accepted::Tcp(stream), Some(tls)) => {
                        connections.spawn(tls_connection(stream, tls, permit, service, settings, stop))
                    }
                    (Accepted::Unix(stream), _) => {
                        connections.spawn(connection(stream, permit, service, settings, stop))
                    }
                };
            }
            // The address has its share of connections in use.
            Ok(None) => {}
            Err(error) => {
                if let Some(times) = accept_errors.count(Instant::now()) {
                    tracing::warn!(%error, times, "a connection cannot be accepted");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    tokio::select! {
        () = connections.wait() => return,
        () = tokio::time::sleep(settings.drain) => {}
        () = over.cancelled() => {}
    }
    over.cancel();
    // Clients that wait for a cancelled call still get its response.
    if tokio::time::timeout(AFTER_DRAIN, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were still open when the time to drain ended");
    }
}

/// Keeps a short timer registered. Tokio wakes its driver with a system call when a new timer becomes the earliest
/// one; without this timer, each request's header timeout would cause that system call.
async fn keep_short_timer(period: Duration) {
    let mut timer = tokio::time::interval(period.max(Duration::from_millis(1)));
    loop {
        timer.tick().await;
    }
}

async fn accept(
    listener: &Listener,
    table: &Connections,
) -> io::Result<Option<(Accepted, ConnectionPermit)>> {
    let (stream, peer) = listener.accept().await?;
    Ok(table.admit(peer).await.map(|permit| (stream, permit)))
}

/// Serves a connection within TLS, over HTTP/2 or HTTP/1.1 as both sides agree.
async fn tls_connection(
    stream: TcpStream,
    tls: Tls,
    permit: ConnectionPermit,
    service: RootService,
    settings: ListenerSettings,
    stop: CancellationToken,
) {
    let gives_way = permit.state.gives_way.clone();
    let accepting = tokio::time::timeout(settings.header_timeout, tls.accept(stream));
    let accepted = tokio::select! {
        accepted = accepting => accepted,
        () = stop.cancelled() => return,
        () = gives_way.cancelled() => return,
    };
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a connection has no TLS that is accepted"),
        Err(_) => return,
    };
    let session = stream.get_ref().1;
    let answering = Answering { client: tls.client(session), permit, service };
    match session.alpn_protocol() {
        Some(HTTP2) => http2_connection(stream, answering, settings, stop).await,
        _ => http1_connection(stream, answering, settings, stop).await,
    }
}

/// The body of a response. Dropping it ends the request.
struct AnswerBody {
    body: Body,
    _in_flight: RequestInFlight,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The answers to the requests of a connection.
struct Answering {
    permit: ConnectionPermit,
    service: RootService,
    client: Option<ClientCertificate>,
}

impl Answering {
    /// Answers a request.
    fn answer(
        &self,
        request: hyper::Request<Incoming>,
    ) -> impl Future<Output = Result<hyper::Response<AnswerBody>, Infallible>> + use<> {
        let in_flight = RequestInFlight::begin(&self.permit.state.requests);
        let (service, peer) = (self.service.clone(), self.permit.peer(self.client.clone()));
        async move {
            let response = service.answer(request, peer).await;
            Ok(response.map(|body| AnswerBody { body, _in_flight: in_flight }))
        }
    }
}

/// Serves the requests of an HTTP/2 connection until it ends; after `stop`, completes those that began.
async fn http2_connection<S>(
    stream: S,
    answering: Answering,
    settings: ListenerSettings,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let state = Arc::clone(&answering.permit.state);
    let streams = StreamWatch::default();
    let service = service_fn(|request| {
        let (answer, streams) = (answering.answer(request), streams.clone());
        async move { answer.await.map(|response| response.map(|body| streams.watch(body))) }
    });
    let mut stalled = pin!(streams.wait_for_stall(settings.write_timeout * UNREAD_TIMEOUTS));
    let mut serving = pin!(
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(HTTP2_STREAMS)
            .max_header_list_size(u32::try_from(settings.header_bytes).unwrap_or(u32::MAX))
            // A client that reads nothing answers no ping.
            .keep_alive_interval(settings.header_timeout)
            .keep_alive_timeout(settings.write_timeout)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = &mut stalled => return tracing::debug!("a client of HTTP/2 does not read its responses"),
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
        () = state.gives_way.cancelled() => {
            // A client need not act on a notice, so an idle connection is closed without one.
            if !state.requests.any_in_flight() && !state.is_authenticated() {
                return;
            }
            serving.as_mut().graceful_shutdown();
            if !state.requests.any_in_flight() {
                // The end of a response may still be in a buffer.
                let _ = tokio::time::timeout(LINGER, serving).await;
                return;
            }
            tokio::select! {
                ended = &mut serving => ended,
                () = &mut stalled => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Serves the requests of one connection until it ends; after `stop`, completes only the current request.
pub async fn connection<S>(
    stream: S,
    permit: ConnectionPermit,
    service: RootService,
    settings: ListenerSettings,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    http1_connection(stream, Answering { permit, service, client: None }, settings, stop).await;
}

async fn http1_connection<S>(
    stream: S,
    answering: Answering,
    settings: ListenerSettings,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let state = Arc::clone(&answering.permit.state);
    let stream = ClientStream::new(stream, settings.write_timeout, Arc::clone(&state.requests));
    let service = service_fn(|request| answering.answer(request));
    let mut serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(settings.header_bytes)
        // hyper's buffer can grow beyond this limit, and with it a head that arrives in one read.
        .max_header_size(settings.header_bytes)
        .max_headers(HEADER_FIELDS)
        .serve_connection(TokioIo::new(stream), service);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = stop.cancelled() => {
            Pin::new(&mut serving).graceful_shutdown();
            (&mut serving).await
        }
        () = state.gives_way.cancelled() => {
            if !state.requests.any_in_flight() && !state.is_authenticated() {
                return;
            }
            Pin::new(&mut serving).graceful_shutdown();
            if !state.requests.any_in_flight() {
                // The end of a response may still be in a buffer.
                let _ = tokio::time::timeout(LINGER, serving).await;
                return;
            }
            // A request arrived just before.
            (&mut serving).await
        }
    };
    let parts = serving.into_parts();
    let mut stream = parts.io.into_inner();
    let is_responding = stream.is_responding();
    let status = stream.end_suppression();
    if let Err(error) = ended {
        // Clients disconnect, send malformed requests and time out routinely; these are not errors of the daemon.
        tracing::debug!(%error, "a connection ended early");
        if !is_responding {
            let ListenerSettings { header_bytes, header_timeout, .. } = settings;
            let framing = stream.framing_refusal();
            let bad_request =
                BadRequest { error, status, framing, head: parts.read_buf, header_bytes, header_timeout };
            bad_request.reply(&mut stream).await;
        }
    }
    if !stop.is_cancelled() {
        let _ = tokio::time::timeout(LINGER, discard_input(stream)).await;
    }
}

/// Reads and discards the remaining bytes of a client that has its response. Closing a socket with unread data sends
/// a TCP reset, which makes the client lose the response.
async fn discard_input<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    // The FIN tells the client that the response is complete.
    let _ = stream.shutdown().await;
    let mut buffer = vec![0; 16 * 1024];
    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}

/// Rate-limited log of failed `accept` calls. The error persists as long as its cause, most often a lack of file
/// descriptors, and recurs twenty times a second: a log line for each would fill the disk.
#[derive(Debug, Default)]
struct AcceptErrors {
    logged: Option<Instant>,
    count: u64,
}

impl AcceptErrors {
    /// Counts an error. Returns the number of errors since the last log line, if the next line is due.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        let is_due = self.logged.is_none_or(|logged| now.duration_since(logged) >= ACCEPT_LOG_INTERVAL);
        is_due.then(|| {
            self.logged = Some(now);
            std::mem::take(&mut self.count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_accept_error_is_logged_at_once_and_later_ones_by_their_number() {
        let (mut errors, start) = (AcceptErrors::default(), Instant::now());
        assert_eq!(errors.count(start), Some(1));
        for at in 1..200 {
            assert_eq!(errors.count(start + ACCEPT_LOG_INTERVAL / 200 * at), None);
        }
        assert_eq!(errors.count(start + ACCEPT_LOG_INTERVAL), Some(200));
        assert_eq!(errors.count(start + ACCEPT_LOG_INTERVAL), None);
        assert_eq!(errors.count(start + ACCEPT_LOG_INTERVAL * 3), Some(2));
    }
}
