//! Floors: bare hyper connections, and the client of hyper-util.

use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::http::request::Builder;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use toolgate_tests::upstream::TLS_PORT;

use super::server::{HOST, Server, bytes_of, url};
use super::{Requester, SECRET, runtime};

/// Bare connections, opened once per round.
pub struct Plain {
    runtime: Runtime,
    address: SocketAddr,
    tls: TlsConnector,
}

/// Client of hyper-util, with a connection pool.
struct Pooled<C> {
    runtime: Runtime,
    client: Client<C, Empty<Bytes>>,
}

impl Plain {
    pub fn new(server: &Server) -> Self {
        let address = SocketAddr::new(server.address, TLS_PORT);
        Self { runtime: runtime(), address, tls: TlsConnector::from(Arc::new(tls(server))) }
    }

    async fn on_one(address: SocketAddr, tls: TlsConnector, requests: usize, path: String) {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let stream = tls.connect(ServerName::try_from(HOST).unwrap(), stream).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        for _ in 0..requests {
            let request = request(&path).header("host", format!("{HOST}:{TLS_PORT}"));
            let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), bytes_of(&path));
            sender.ready().await.unwrap();
        }
        drop(sender);
        connection.await.unwrap().unwrap();
    }
}

impl Requester for Plain {
    fn request(&self, connections: usize, of_each: usize, path: &str) {
        self.runtime.block_on(async {
            let on_one = |_| Self::on_one(self.address, self.tls.clone(), of_each, path.to_owned());
            (0..connections).map(on_one).collect::<JoinSet<()>>().join_all().await;
        });
    }
}

/// Creates the pooling client, with one name to resolve.
pub fn pooled_client(server: &Server) -> impl Requester + use<> {
    let address = SocketAddr::new(server.address, TLS_PORT);
    let resolve = tower::service_fn(move |_: Name| ready(Ok::<_, Infallible>(Some(address).into_iter())));
    let mut connector = HttpConnector::new_with_resolver(resolve);
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls(server))
        .https_only()
        .enable_http1()
        .wrap_connector(connector);
    Pooled { runtime: runtime(), client: Client::builder(TokioExecutor::new()).build(connector) }
}

impl<C: Connect + Clone + Send + Sync + 'static> Requester for Pooled<C> {
    fn request(&self, connections: usize, of_each: usize, path: &str) {
        let on_one = |_| {
            let (client, url, bytes) = (self.client.clone(), url(path), bytes_of(path));
            async move {
                for _ in 0..of_each {
                    let request = request(&url).body(Empty::new()).unwrap();
                    let answer = client.request(request).await.unwrap();
                    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), bytes);
                }
            }
        };
        self.runtime.block_on(async {
            (0..connections).map(on_one).collect::<JoinSet<()>>().join_all().await;
        });
    }
}

fn request(uri: &str) -> Builder {
    Request::get(uri).header("authorization", format!("Bearer {SECRET}"))
}

fn tls(server: &Server) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.authority.as_bytes()).unwrap()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}
