//! Opens connections to vetted addresses: TCP, then TLS for the name of the host, then HTTP/1.1.
//!
//! TLS proves the same name that the rules were applied to. TLS sessions are not resumed: a session ticket would link
//! the calls of two organizations at the upstream.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use toolgate_admission::Vetted;
use toolgate_api::network::{Host, NetworkScheme};
use wasmtime_wasi_http::Error;

use super::body::GuestBody;
use super::connection::Connection;
use super::failure::Failure;
use super::read_tracker::{ReadTracker, TrackedStream};
use super::slots::Slot;

/// Most addresses of one host that are tried, in the order of the DNS response.
const ADDRESSES_TRIED: usize = 4;
/// Most header fields of a response. Common servers send a few dozen.
const RESPONSE_FIELDS: usize = 128;
/// Most bytes of a response's head. The limit of a call is lower.
const HEAD_BYTES: usize = 128 * 1024;
/// Most TLS configurations in the cache. Each set of `extra_ca` certificates has one.
const CONFIGURATIONS: usize = 64;

/// Opens connections for calls.
#[derive(Default)]
pub(super) struct Connector {
    configurations: Mutex<HashMap<Vec<String>, Arc<ClientConfig>>>,
}

impl Connector {
    pub(super) async fn connect(&self, vetted: &Vetted, slot: Slot) -> Result<Connection, Failure> {
        let tcp = connect_tcp(vetted.addresses()).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Error::ConnectionRefused,
            _ => Error::Connect(error),
        })?;
        match vetted.request().target().scheme() {
            NetworkScheme::Http => Ok(handshake(tcp, slot).await?),
            NetworkScheme::Https => {
                let config = self.configuration(&vetted.request().grant().extra_ca)?;
                let name = server_name(vetted.request().target().host());
                let name = name.ok_or(Error::HttpRequestUriInvalid)?;
                let tls = TlsConnector::from(config).connect(name, tcp).await;
                Ok(handshake(tls.map_err(|error| Failure::of_tls(&error))?, slot).await?)
            }
        }
    }

    fn configuration(&self, extra_ca: &[String]) -> Result<Arc<ClientConfig>, Error> {
        let mut cache = self.configurations.lock();
        if let Some(config) = cache.get(extra_ca) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(config_with(extra_ca).ok_or(Error::ConfigurationError)?);
        if cache.len() >= CONFIGURATIONS {
            cache.clear();
        }
        cache.insert(extra_ca.to_vec(), Arc::clone(&config));
        Ok(config)
    }
}

/// Connects to the first of these addresses that accepts. The caller has vetted all of them.
pub(super) async fn connect_tcp(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses.iter().take(ADDRESSES_TRIED) {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Nagle's algorithm would delay small requests until the previous one is acknowledged.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The name that the server's certificate must have.
pub(super) fn server_name(host: &Host) -> Option<ServerName<'static>> {
    match host {
        Host::Address(address) => Some(ServerName::from(*address)),
        Host::Name(name) => ServerName::try_from(name.to_string()).ok(),
    }
}

/// The certificate authorities of Mozilla's root program.
pub(super) fn web_roots() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

pub(super) fn tls_config(roots: RootCertStore) -> Option<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(config)
}

pub(super) fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_headers(RESPONSE_FIELDS).max_buf_size(HEAD_BYTES);
    builder
}

/// Whether a certificate for `extra_ca` can be parsed. The daemon asks before it stores a grant.
pub fn is_certificate(pem: &str) -> bool {
    config_with(&[pem.to_owned()]).is_some()
}

fn config_with(extra_ca: &[String]) -> Option<ClientConfig> {
    let mut roots = web_roots();
    for pem in extra_ca {
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).ok()?).ok()?;
    }
    tls_config(roots)
}

async fn handshake<S>(stream: S, slot: Slot) -> Result<Connection, Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let tracker = ReadTracker::default();
    let stream = TokioIo::new(TrackedStream { stream, tracker: tracker.clone() });
    let (sender, connection) = http1_builder().handshake::<_, GuestBody>(stream).await?;
    Ok(Connection::new(sender, slot, tracker, async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an outgoing connection ended");
        }
    }))
}
