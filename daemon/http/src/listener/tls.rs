//! TLS of the listener (rustls with ring): the certificate, its key, and the authority of client certificates.
//!
//! The files are read again when they change. Connections keep the certificate with which they began; a new file that is
//! broken, expired, or does not belong to the key is logged, and the last good ones stay in use.

mod subject;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::connections::ClientCertificate;
use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::problem::Problem;
use webpki::{EndEntityCert, KeyUsage};

use subject::common_name;
use toolgate_audit::{Sha256, sha256};

/// Interval of the looks at the files.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// First byte of a TLS handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// HTTP/2, as clients and servers agree on it within TLS.
pub(super) const HTTP2: &[u8] = b"h2";

/// The files of TLS.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate with its chain, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// The CA certificates of clients, in PEM; clients need no certificate without them.
    pub client_ca: Option<PathBuf>,
    /// The tokens of clients, by a name in their certificates.
    pub clients: BTreeMap<String, String>,
}

/// TLS of a listener. Clones share the certificate.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    files: TlsFiles,
    /// The tokens of clients, by a name in their certificates.
    clients: ArcSwap<BTreeMap<String, String>>,
    /// The contents at the start.
    first: [Sha256; 3],
    current: ArcSwap<InForce>,
}

/// The files that are in use.
struct InForce {
    config: Arc<ServerConfig>,
    /// When the certificate ends, in seconds since 1970.
    end_seconds: Option<u64>,
}

impl Tls {
    /// Reads the files.
    pub fn load(files: TlsFiles) -> Result<Self, CallError> {
        let loaded = files.read().and_then(|texts| Ok((texts.hash(), files.config(&texts)?)));
        let (first, config) = loaded.map_err(|reason| {
            CallError::new(
                ErrorType::Unavailable,
                format!("TLS cannot be set up: {reason}"),
                "give PEM files of a certificate with its chain and of its key in `[tls]`, readable for this user",
            )
        })?;
        let clients = ArcSwap::from_pointee(files.clients.clone());
        Ok(Self(Arc::new(Shared { files, clients, first, current: ArcSwap::from_pointee(config) })))
    }

    /// Reads the files again whenever they change, until `stop`.
    pub async fn follow_files(self, stop: CancellationToken) {
        let mut seen = Ok(self.0.first);
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = looks.tick() => {}
            }
            let (files, before) = (self.0.files.clone(), seen.clone());
            let look = tokio::task::spawn_blocking(move || {
                let texts = files.read();
                let hash = texts.as_ref().map(Texts::hash).map_err(Clone::clone);
                (hash != before).then(|| (hash, texts.and_then(|texts| files.config(&texts))))
            });
            let Ok(Some((hash, config))) = look.await else { continue };
            seen = hash;
            match config {
                Ok(config) => {
                    self.0.current.store(Arc::new(config));
                    tracing::info!("the certificate was read again and is in use");
                }
                Err(reason) => {
                    tracing::error!(reason, "the changed files of TLS are not used; the last good ones are");
                }
            }
        }
    }

    /// Takes other tokens of clients, for the connections that are opened from now on.
    pub fn replace_clients(&self, clients: BTreeMap<String, String>) {
        self.0.clients.store(Arc::new(clients));
    }

    /// When the certificate ends, in seconds since 1970, if it can be told.
    pub fn end_seconds(&self) -> Option<u64> {
        self.0.current.load().end_seconds
    }

    /// Performs the handshake. A request without TLS is told so in plain text.
    pub(super) async fn accept(&self, mut stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let mut first = [0];
        if stream.peek(&mut first).await? > 0 && first != [HANDSHAKE] {
            stream.write_all(without_tls().as_bytes()).await?;
            let _ = stream.shutdown().await;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it begins without a handshake"));
        }
        TlsAcceptor::from(Arc::clone(&self.0.current.load().config)).accept(stream).await
    }

    /// The token for which the client's certificate stands.
    pub(super) fn client(&self, connection: &ServerConnection) -> Option<ClientCertificate> {
        let clients = self.0.clients.load();
        let certificate = EndEntityCert::try_from(connection.peer_certificates()?.first()?).ok()?;
        let mut names = certificate.valid_dns_names().chain(certificate.valid_uri_names());
        let common_name = || clients.get(&format!("CN={}", common_name(certificate.subject())?));
        let token = names.find_map(|name| clients.get(name)).or_else(common_name)?;
        Some(ClientCertificate(token.as_str().into()))
    }
}

/// The response to a request without TLS.
fn without_tls() -> String {
    let error = CallError::new(
        ErrorType::InvalidRequest,
        "the request came without TLS, which this port demands",
        "use `https://` in the address",
    );
    let body = serde_json::to_string(&Problem::new(error, 400)).unwrap_or_default();
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nConnection: close";
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The contents of the files.
struct Texts {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Texts {
    fn hash(&self) -> [Sha256; 3] {
        [sha256(&self.certificate), sha256(&self.key), sha256(self.client_ca.as_deref().unwrap_or_default())]
    }
}

impl TlsFiles {
    fn read(&self) -> Result<Texts, String> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
        };
        Ok(Texts {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            client_ca: self.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn config(&self, texts: &Texts) -> Result<InForce, String> {
        let chain = certificates(&texts.certificate, &self.certificate)?;
        expect_in_force(&chain, SystemTime::now())
            .map_err(|reason| format!("the certificate in `{}` {reason}", self.certificate.display()))?;
        let end_seconds = end_of(&chain);
        let key = PrivateKeyDer::from_pem_slice(&texts.key)
            .map_err(|error| format!("`{}` has no private key: {error}", self.key.display()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let builder = match self.client_ca.as_ref().zip(texts.client_ca.as_ref()) {
            None => builder.with_no_client_auth(),
            Some((path, text)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(text, path)? {
                    roots.add(certificate).map_err(|error| format!("`{}`: {error}", path.display()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(|error| error.to_string())?)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            format!("`{}` and `{}` do not fit: {error}", self.certificate.display(), self.key.display())
        })?;
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        Ok(InForce { config: Arc::new(config), end_seconds })
    }
}

fn certificates(text: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let certificates = read.map_err(|error| format!("`{}` is no PEM file: {error}", path.display()))?;
    match certificates.is_empty() {
        true => Err(format!("`{}` has no certificate", path.display())),
        false => Ok(certificates),
    }
}

/// Checks the time in which the certificate is valid. Whether clients trust it is theirs to say.
fn expect_in_force(chain: &[CertificateDer<'static>], now: SystemTime) -> Result<(), &'static str> {
    match verify_at(chain, now.duration_since(UNIX_EPOCH).unwrap_or_default()) {
        Err(webpki::Error::BadDer) => Err("is malformed"),
        Err(webpki::Error::CertExpired { .. }) => Err("has expired"),
        Err(webpki::Error::CertNotValidYet { .. }) => Err("is not valid yet"),
        _ => Ok(()),
    }
}

/// When the first certificate ends, in seconds since 1970: the verifier tells at a time after all.
fn end_of(chain: &[CertificateDer<'static>]) -> Option<u64> {
    match verify_at(chain, Duration::from_secs(u64::MAX)) {
        Err(webpki::Error::CertExpired { not_after, .. }) => Some(not_after.as_secs()),
        _ => None,
    }
}

fn verify_at(chain: &[CertificateDer<'static>], since_1970: Duration) -> Result<(), webpki::Error> {
    let (Some(first), Some(last)) = (chain.first(), chain.last()) else { return Ok(()) };
    let Ok(certificate) = EndEntityCert::try_from(first) else { return Err(webpki::Error::BadDer) };
    let Ok(anchor) = webpki::anchor_from_trusted_cert(last) else { return Ok(()) };
    let now = UnixTime::since_unix_epoch(since_1970);
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
    let anchors = [anchor];
    let rest = chain.get(1..).unwrap_or_default();
    let usage = KeyUsage::server_auth();
    certificate.verify_for_usage(algorithms, &anchors, rest, now, usage, None, None).map(drop)
}
