//! The accept loop, with limits on connections, on the size and time of heads and bodies, and a graceful drain.
//!
//! `axum::serve` has no timeout for reading a request's head or for writing a response, and no limit on the number of
//! connections.

mod refused;
mod taken;
mod unreadable;
mod withheld;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::RootService;
use refused::Refused;
use taken::TakenInTime;
use unreadable::Unreadable;
use withheld::{AnswerBody, Answering, Requests, Withheld};

/// Pause after `accept` failed, most often for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Time for the responses of calls that were cancelled at the end of the drain.
pub(super) const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Time that a client may continue to send after its request was refused early.
const LINGER: Duration = Duration::from_secs(2);

/// Limit of header fields in one request. Clients send about ten.
pub(super) const HEADER_FIELDS: usize = 100;

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
pub async fn serve(
    listener: TcpListener,
    service: RootService,
    settings: ListenerSettings,
    stop: CancellationToken,
    over: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(settings.connections));
    let _near = AbortOnDropHandle::new(tokio::spawn(keep_a_timer_near(settings.header_timeout / 8)));
    let connections = TaskTracker::new();
    let mut refused = Refused::default();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &room) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                let connection = connection(stream, service.clone(), settings, stop.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                if let Some(times) = refused.count(Instant::now()) {
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
    if tokio::time::timeout(LAST_ANSWERS, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were still open when the time to drain ended");
    }
}

/// Keeps a short timer registered. Tokio wakes its driver with a system call when a new timer becomes the earliest
/// one; without this timer, each request's header timeout would cause that system call.
async fn keep_a_timer_near(distance: Duration) {
    let mut near = tokio::time::interval(distance.max(Duration::from_millis(1)));
    loop {
        near.tick().await;
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Responses are small and complete; Nagle's algorithm would only add latency.
    stream.set_nodelay(true)?;
    Ok((stream, permit))
}

/// Serves the requests of one connection until it ends; after `stop`, completes only the current request.
pub async fn connection<S>(
    stream: S,
    service: RootService,
    settings: ListenerSettings,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let requests = Arc::<Requests>::default();
    let begun = Arc::clone(&requests);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (service, answering) = (service.clone(), Answering::begin(&begun));
        async move { answer(service, request.map(Body::new), answering).await }
    });
    let stream = Withheld::new(TakenInTime::new(stream, settings.write_timeout), requests);
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
    };
    let parts = serving.into_parts();
    let stream = parts.io.into_inner();
    let answering = stream.is_answering();
    let (mut stream, status) = stream.into_parts();
    if let Err(error) = ended {
        // Clients disconnect, send malformed requests and time out routinely; these are not errors of the daemon.
        tracing::debug!(%error, "a connection ended early");
        let unreadable = Unreadable { error, status, head: parts.read_buf };
        if !answering {
            stream = unreadable.refuse(stream, &settings).await;
        }
    }
    if !stop.is_cancelled() {
        let _ = tokio::time::timeout(LINGER, swallow(stream)).await;
    }
}

/// Reads and discards the remaining bytes of a client that has its response. Closing a socket with unread data sends
/// a TCP reset, which makes the client lose the response.
async fn swallow<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    // The FIN tells the client that the response is complete.
    let _ = stream.shutdown().await;
    let mut piece = vec![0; 16 * 1024];
    while stream.read(&mut piece).await.is_ok_and(|read| read > 0) {}
}

async fn answer(
    service: RootService,
    request: Request,
    answering: Answering,
) -> Result<Response<AnswerBody>, Infallible> {
    Ok(service.answer(request).await.map(|body| answering.with(body)))
}
