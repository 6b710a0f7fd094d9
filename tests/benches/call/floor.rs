//! The least that a server in front of a fresh instance can cost: hyper, the JSON of a request, and (c). It gates
//! nothing, records nothing, and answers whoever asks. `tests/benches/http.sh` measures the daemon beside it.

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

/// What is sent to the daemon, as far as it is looked at here.
#[derive(serde::Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    calls: Vec<OneCall<'a>>,
}

#[derive(serde::Deserialize)]
struct OneCall<'a> {
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// Serves until the process is ended, and says where on the first line of its output. Without an instance to make, the
/// arguments are the answer.
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
    let asked: Asked<'_> = serde_json::from_slice(&body).unwrap();
    let arguments = asked.calls[0].arguments.get();
    let answer = match bare {
        Some(bare) => bare.fresh(arguments).await,
        None => arguments.to_owned(),
    };
    Ok(Response::new(Full::new(answer.into())))
}
