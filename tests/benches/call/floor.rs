//! HTTP floors: hyper with JSON parsing, optionally with a fresh instance as in (c). No gate, no audit, no
//! authentication. `tests/benches/http.sh` compares the daemon with them.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::value::RawValue;
use tokio::net::TcpListener;

use crate::bare::{Bare, Ticker};

/// The parts of a request that the floors read.
#[derive(serde::Deserialize)]
struct FloorRequest<'a> {
    #[serde(borrow)]
    calls: Vec<FloorCall<'a>>,
}

#[derive(serde::Deserialize)]
struct FloorCall<'a> {
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// Serves until the process is killed, and prints its address first. Without a component it returns the arguments.
pub async fn serve(bare: Option<Bare>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let _ticker = bare.as_ref().map(Ticker::of);
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let bare = bare.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(bare.as_ref(), request));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    bare: Option<&Bare>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let asked: FloorRequest<'_> = serde_json::from_slice(&body).unwrap();
    let arguments = asked.calls[0].arguments.get();
    let answer = match bare {
        Some(bare) => bare.fresh(arguments).await,
        None => arguments.to_owned(),
    };
    Ok(Response::new(Full::new(answer.into())))
}
