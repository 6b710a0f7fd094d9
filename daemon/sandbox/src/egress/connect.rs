//! Opens a connection to what was vetted: TCP to one of its addresses, TLS for its name.
//!
//! The name that TLS proves is the one that was decided about. Nothing of a session is kept between connections, since
//! a ticket would tie the calls of two organizations together at the upstream.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use toolgate_admission::{Host, NetworkScheme, Vetted};
use wasmtime_wasi_http::Error;

use super::body::GuestBody;
use super::connection::Connection;
use super::failure::Failure;
use super::heard::{Heard, Listened};
use super::slots::Slot;

/// Addresses of one host that are tried, in the order of the answer.
const ADDRESSES_TRIED: usize = 4;
/// Header fields of an answer. Common servers send some dozen.
const ANSWER_FIELDS: usize = 128;
/// Most that is read of the head of an answer, in bytes; a call's own limit is narrower.
const HEAD_BYTES: usize = 128 * 1024;
/// Sets of extra certificates whose configuration is kept. Each grant has one set.
const CONFIGURATIONS: usize = 64;

/// Opens connections.
#[derive(Default)]
pub(super) struct Connector {
    configurations: Mutex<HashMap<Vec<String>, Arc<ClientConfig>>>,
}

impl Connector {
    pub(super) async fn connect(&self, vetted: &Vetted, slot: Slot) -> Result<Connection, Failure> {
        let stream = reach(vetted).await?;
        // Small requests must not wait for an acknowledgement of the one before.
        stream.set_nodelay(true).map_err(Error::Connect)?;
        match vetted.request().target().scheme() {
            NetworkScheme::Http => Ok(handshake(stream, slot).await?),
            NetworkScheme::Https => {
                let config = self.configuration(&vetted.request().grant().extra_ca)?;
                let name = server_name(vetted.request().target().host())?;
                let stream = TlsConnector::from(config).connect(name, stream).await;
                let stream = stream.map_err(|error| Failure::of_tls(&error))?;
                Ok(handshake(stream, slot).await?)
            }
        }
    }

    fn configuration(&self, extra_ca: &[String]) -> Result<Arc<ClientConfig>, Error> {
        let mut kept = self.configurations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = kept.get(extra_ca) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(configure(extra_ca).ok_or(Error::ConfigurationError)?);
        if kept.len() >= CONFIGURATIONS {
            kept.clear();
        }
        kept.insert(extra_ca.to_vec(), Arc::clone(&config));
        Ok(config)
    }
}

async fn reach(vetted: &Vetted) -> Result<TcpStream, Error> {
    let mut failed = None;
    for address in vetted.addresses().iter().take(ADDRESSES_TRIED) {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => Err(Error::ConnectionRefused),
        Some(error) => Err(Error::Connect(error)),
        None => Err(Error::DestinationNotFound),
    }
}

async fn handshake<S>(stream: S, slot: Slot) -> Result<Connection, Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_headers(ANSWER_FIELDS).max_buf_size(HEAD_BYTES);
    let heard = Heard::default();
    let stream = TokioIo::new(Listened { stream, heard: heard.clone() });
    let (sender, connection) = builder.handshake::<_, GuestBody>(stream).await?;
    Ok(Connection::new(sender, slot, heard, async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an outgoing connection ended");
        }
    }))
}

fn server_name(host: &Host) -> Result<ServerName<'static>, Error> {
    match host {
        Host::Address(address) => Ok(ServerName::from(*address)),
        Host::Name(name) => ServerName::try_from(name.to_string()).map_err(|_| Error::HttpRequestUriInvalid),
    }
}

/// Whether a certificate of a grant can be used: the daemon asks before it takes one.
pub fn is_certificate(pem: &str) -> bool {
    configure(&[pem.to_owned()]).is_some()
}

fn configure(extra_ca: &[String]) -> Option<ClientConfig> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for pem in extra_ca {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        roots.add(certificate).ok()?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(config)
}
