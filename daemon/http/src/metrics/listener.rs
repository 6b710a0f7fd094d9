//! The listener of `[metrics] listen`, which serves `GET /metrics` without a token.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolgate_core::admin::Admin;
use toolgate_macros::boxed;

use super::scrape;

/// Open connections. A scraper needs one.
const CONNECTIONS: usize = 16;
/// Timeout for a request head, and for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a connection cannot be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the metrics until `stop`. Without a listener there is nothing to serve.
#[boxed]
pub async fn serve(listener: Option<TcpListener>, admin: Admin, stop: CancellationToken) {
    let Some(listener) = listener else { return };
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (admin, stop) = (admin.clone(), stop.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let service = service_fn(move |request| answer(admin.clone(), request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            // A connection that fails is the scraper's to open again.
            let _ = stop.run_until_cancelled(connection).await;
        });
    }
}

async fn answer(admin: Admin, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let is_metrics = request.method() == Method::GET && request.uri().path() == "/metrics";
    let mut response = Response::new(Body::empty());
    if !is_metrics {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return Ok(response);
    }
    match scrape::scrape(admin.services()).await {
        Ok(text) => {
            let media_type = header::HeaderValue::from_static(scrape::CONTENT_TYPE);
            response.headers_mut().insert(header::CONTENT_TYPE, media_type);
            *response.body_mut() = Body::from(text);
        }
        Err(error) => {
            tracing::warn!(%error, "the metrics cannot be collected");
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
    }
    Ok(response)
}
