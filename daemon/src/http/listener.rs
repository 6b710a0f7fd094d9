//! The accept loop: connections are counted, heads and bodies are bounded in size and time, stopping drains.
//!
//! The loop is our own because the framework's has no limit on the time a client takes to send a request's
//! head or to take an answer, and none on the number of connections.

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

use super::Site;
use refused::Refused;
use taken::TakenInTime;
use unreadable::Unreadable;
use withheld::{AnswerBody, Answering, Requests, Withheld};

/// Pause after the system refused to accept, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long the answers of calls may take that were stopped because the time to drain ended.
pub(super) const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// How long a client may go on sending that was refused before it had sent all.
const LINGER: Duration = Duration::from_secs(2);

/// Header fields of one request. Clients send about ten.
pub(super) const HEADER_FIELDS: usize = 100;

/// What a connection may take.
#[derive(Clone, Copy, Debug)]
pub struct ListenerSettings {
    /// Connections open at the same time.
    pub connections: usize,
    /// Request line and header fields together.
    pub header_bytes: usize,
    /// How long a client may take to send them; an idle connection is closed after it too.
    pub header_timeout: Duration,
    /// How long a client may take nothing of what it is sent.
    pub write_timeout: Duration,
    /// How long running requests may take to end once stopping began.
    pub drain: Duration,
}

/// Serves `site` until `stop`, then lets running requests end, as long as the settings say or until `over`, which
/// stops the calls that still run then.
pub async fn serve(
    listener: TcpListener,
    site: Site,
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
                let connection = connection(stream, site.clone(), settings, stop.clone());
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

/// Where a timer is the first to come, the runtime is told of it by a system call. Without one that is nearer, that would
/// be so for the time in which each request's head must come: once a request.
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
    // Answers are small and complete; waiting to fill a packet would only add to their latency.
    stream.set_nodelay(true)?;
    Ok((stream, permit))
}

/// Answers the requests of one connection until it ends; after `stop`, until the one under way is answered.
pub async fn connection<S>(stream: S, site: Site, settings: ListenerSettings, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let requests = Arc::<Requests>::default();
    let begun = Arc::clone(&requests);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (site, answering) = (site.clone(), Answering::begin(&begun));
        async move { answer(site, request.map(Body::new), answering).await }
    });
    let stream = Withheld::new(TakenInTime::new(stream, settings.write_timeout), requests);
    let mut serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(settings.header_bytes)
        // The buffer alone can turn out larger, and a head that comes in one piece with it.
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
        // Clients hang up, send nonsense and time out all day; none of it is this daemon's trouble.
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

/// Takes what a client still sends that has its answer: were the connection closed upon it, the kernel would throw away
/// the answer as well, and the client would see nothing but that it broke off.
async fn swallow<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    // It need not wait for the end of ours to see that its answer is whole.
    let _ = stream.shutdown().await;
    let mut piece = vec![0; 16 * 1024];
    while stream.read(&mut piece).await.is_ok_and(|read| read > 0) {}
}

async fn answer(
    site: Site,
    request: Request,
    answering: Answering,
) -> Result<Response<AnswerBody>, Infallible> {
    Ok(site.answer(request).await.map(|body| answering.with(body)))
}
