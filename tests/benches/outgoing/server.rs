//! A server with TLS that answers from memory, and keeps its connections.

use std::convert::Infallible;
use std::net::IpAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use toolgate_tests::upstream::{Names, TLS_PORT, certificates, own_address};

pub const HOST: &str = "api.upstream.test";
/// Below this every request has the credential.
pub const BOUND: &str = "/v1";
/// Below this none has.
pub const FREE: &str = "/open";

/// What a common answer of an API has.
pub const SMALL_BYTES: usize = 1024;
pub const LARGE_BYTES: usize = 10 << 20;

pub struct Server {
    pub address: IpAddr,
    /// The certificate of its authority, as PEM.
    pub authority: String,
    pub names: Names,
    _runtime: Runtime,
}

impl Server {
    pub fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let (authority, acceptor) = certificates::make();
        let address = own_address();
        let listener = runtime.block_on(TcpListener::bind((address, TLS_PORT))).unwrap();
        let (small, large) = (Bytes::from(text(SMALL_BYTES)), Bytes::from(text(LARGE_BYTES)));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let (acceptor, small, large) = (acceptor.clone(), small.clone(), large.clone());
                let service = service_fn(move |request| {
                    std::future::ready(Ok::<_, Infallible>(answer(&request, &small, &large)))
                });
                tokio::spawn(async move {
                    let stream = TokioIo::new(acceptor.accept(stream).await.unwrap());
                    // Whoever hangs up is done.
                    let _ = http1::Builder::new().serve_connection(stream, service).await;
                });
            }
        });
        let names = Names::start();
        names.tell(HOST, &[&[&address.to_string()]]);
        Self { address, authority, names, _runtime: runtime }
    }
}

pub fn url(path: &str) -> String {
    format!("https://{HOST}:{TLS_PORT}{path}")
}

/// Whoever is to have the credential has it, and nobody else.
fn answer(request: &Request<Incoming>, small: &Bytes, large: &Bytes) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    assert_eq!(request.headers().contains_key("authorization"), path.starts_with(BOUND));
    let body = if path.ends_with("large") { large } else { small };
    Response::new(Full::new(body.clone()))
}

/// JSON as APIs answer it, cut where it is long enough.
fn text(bytes: usize) -> Vec<u8> {
    let record = |number: usize| {
        let amount = number * 37 % 100_000;
        format!(
            r#"{{"id":"ch_{number:08x}","object":"charge","amount":{amount},"currency":"eur","description":"Order {number} of a customer","paid":true}},"#
        )
    };
    (0..).map(record).flat_map(String::into_bytes).take(bytes).collect()
}
