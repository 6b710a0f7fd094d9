//! The listener of `[metrics] listen`, which serves `GET /metrics` without a token.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolgate_core::admin::Admin;
use toolgate_macros::boxed;

use super::scrape;
use crate::connections::{Connections, RequestInFlight};
use crate::host_check::{ServedHosts, expect_host_or_address};

/// Open connections. A scraper needs one.
const CONNECTIONS: usize = 16;
/// Timeout for a request head, and for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a connection cannot be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the metrics until `stop`. Without a listener there is nothing to serve. Requests name an address or one of the hosts.
#[boxed]
pub async fn serve(listener: Option<TcpListener>, hosts: ServedHosts, admin: Admin, stop: CancellationToken) {
    let Some(listener) = listener else { return };
    let connections = Connections::new(CONNECTIONS);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (admin, stop, hosts, connections) =
            (admin.clone(), stop.clone(), hosts.clone(), connections.clone());
        tokio::spawn(async move {
            // An idle connection gives way, so that nobody keeps the scraper out.
            let Some(permit) = connections.admit(peer.ip()).await else { return };
            let state = Arc::clone(&permit.state);
            let service = service_fn(|request| {
                let counted = RequestInFlight::begin(&state.requests);
                let (admin, hosts) = (admin.clone(), hosts.current());
                async move {
                    let response = answer(admin, &hosts, request).await;
                    drop(counted);
                    response
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            // A connection that fails is the scraper's to open again.
            tokio::select! {
                _ = connection => {}
                () = stop.cancelled() => {}
                () = state.gives_way.cancelled() => {}
            }
        });
    }
}

async fn answer(
    admin: Admin,
    hosts: &[String],
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if let Err(problem) = expect_host_or_address(&request, hosts) {
        return Ok(problem.into_response());
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_metrics = is_read && request.uri().path() == "/metrics";
    let mut response = Response::new(Body::empty());
    if !is_metrics {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return Ok(response);
    }
    match scrape::scrape(admin.services(), request.headers()).await {
        Ok((media_type, text)) => {
            let media_type = header::HeaderValue::from_static(media_type);
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
