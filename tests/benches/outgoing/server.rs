//! TLS server with keep-alive that responds from memory.

use std::convert::Infallible;
use std::future::ready;
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
use toolgate_tests::upstream::{NameServer, TLS_PORT, certificates, own_address};

pub const HOST: &str = "api.upstream.test";
/// Path prefix whose requests carry the credential.
pub const BOUND: &str = "/v1";
/// Path prefix without a credential.
pub const FREE: &str = "/open";

/// Largest response.
pub const MAX_BYTES: usize = 10 << 20;

pub struct Server {
    pub address: IpAddr,
    /// Certificate of the authority (PEM).
    pub authority: String,
    pub names: NameServer,
    _runtime: Runtime,
}

impl Server {
    pub fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let (authority, acceptor) = certificates::make();
        let address = own_address();
        let listener = runtime.block_on(TcpListener::bind((address, TLS_PORT))).unwrap();
        let text = Bytes::from(text(MAX_BYTES));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let (acceptor, text) = (acceptor.clone(), text.clone());
                let service = service_fn(move |request| ready(Ok::<_, Infallible>(answer(&request, &text))));
                tokio::spawn(async move {
                    let stream = TokioIo::new(acceptor.accept(stream).await.unwrap());
                    // A disconnect is no error.
                    let _ = http1::Builder::new().serve_connection(stream, service).await;
                });
            }
        });
        let names = NameServer::start();
        names.set_answers(HOST, &[&[&address.to_string()]]);
        Self { address, authority, names, _runtime: runtime }
    }
}

pub fn url(path: &str) -> String {
    format!("https://{HOST}:{TLS_PORT}{path}")
}

/// Number of bytes that a path requests.
pub fn bytes_of(path: &str) -> usize {
    path.rsplit('/').next().unwrap().parse().unwrap()
}

/// Asserts that exactly the requests below `BOUND` carry the credential.
fn answer(request: &Request<Incoming>, text: &Bytes) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    assert_eq!(request.headers().contains_key("authorization"), path.starts_with(BOUND));
    Response::new(Full::new(text.slice(..bytes_of(path))))
}

/// Typical JSON, truncated to this length.
fn text(bytes: usize) -> Vec<u8> {
    let record = |number: usize| {
        let amount = number * 37 % 100_000;
        format!(
            r#"{{"id":"ch_{number:08x}","object":"charge","amount":{amount},"currency":"eur","description":"Order {number} of a customer","paid":true}},"#
        )
    };
    (0..).map(record).flat_map(String::into_bytes).take(bytes).collect()
}
