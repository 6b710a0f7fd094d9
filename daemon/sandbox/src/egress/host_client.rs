//! HTTPS client of the daemon itself, for OAuth2 providers, vaults and plugin registries. It shares resolver and connector with the requests of
//! guests.
//!
//! Organizations name token endpoints and services to discover, and the daemon runs inside a private network: a request to an
//! address that is not public would be server-side request forgery (SSRF). So all addresses of a host are checked, and the
//! connection goes to one of the checked addresses (no second lookup, against DNS rebinding). The client follows no redirect,
//! uses no proxy, and limits responses in bytes and time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use parking_lot::RwLock;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use toolgate_admission::lists_host;
use toolgate_api::network::{AddressKind, Host, address_kind};
use toolgate_macros::boxed;

use super::connect::{connect_tcp, http1_builder, server_name, tls_config, web_roots};
use super::resolve::{Resolver, Unresolved};

/// Limits of one exchange.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeLimits {
    /// Time for the whole request.
    pub time: Duration,
    /// Largest response body.
    pub response_bytes: usize,
}

impl Default for ExchangeLimits {
    /// Calls wait for the response, so a slower server counts as unavailable. A response with tokens has some kilobytes.
    fn default() -> Self {
        Self { time: Duration::from_secs(15), response_bytes: 256 * 1024 }
    }
}

/// Hosts and certificate authorities that a [`HostClient`] accepts.
#[derive(Default)]
pub struct HostClientSettings {
    /// `HOST:PORT`, or `HOST` for port 80: hosts that the operator allows over plain HTTP and at private addresses.
    pub plain_http: Vec<String>,
    /// Allows public addresses over plain HTTP, for a client that sends no credential (K4).
    pub public_plain_http: bool,
    /// Hosts that may have private addresses, over TLS.
    pub private_hosts: PrivateHosts,
    /// Allows private addresses for every host. For requests whose host is set by the operator alone.
    pub allow_private: bool,
    /// PEM file of certificate authorities that are trusted besides the public ones.
    pub ca_file: Option<PathBuf>,
}

/// `HOST:PORT`: hosts that may have private addresses, over TLS. Clones share the list of the settings, which can be replaced.
#[derive(Clone, Default)]
pub struct PrivateHosts {
    of_settings: Arc<RwLock<Vec<String>>>,
    /// Those of one client.
    own: Vec<String>,
}

impl PrivateHosts {
    /// The list of the settings.
    pub fn new(hosts: Vec<String>) -> Self {
        Self { of_settings: Arc::new(RwLock::new(hosts)), own: Vec::new() }
    }

    /// The same list, and hosts of one client.
    pub fn with(&self, own: Vec<String>) -> Self {
        Self { of_settings: Arc::clone(&self.of_settings), own }
    }

    /// Replaces the list of the settings, in all clients.
    pub fn replace(&self, hosts: Vec<String>) {
        *self.of_settings.write() = hosts;
    }

    /// Whether the host is listed with this port.
    pub fn has(&self, host: &str, port: u16) -> bool {
        lists_host(&self.own, host, port) || lists_host(&self.of_settings.read(), host, port)
    }
}

/// The file of certificate authorities cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the certificates in `{path}` cannot be read: {reason}")]
pub struct CaFileError {
    path: PathBuf,
    reason: String,
}

impl CaFileError {
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        "set the `ca_file` of `[credentials]`, `[traces]` or `[[plugins.registries]]` to a file of PEM certificates that the daemon's user may read"
    }
}

/// Why a request got no response. The text contains nothing that the server sent.
#[derive(Debug, thiserror::Error)]
pub enum HostClientError {
    /// The URL has no host, or cannot be sent.
    #[error("the URL is not valid")]
    InvalidUrl,
    /// The operator did not allow plain HTTP to this host.
    #[error("the URL uses plain HTTP, and the host is not in `credentials.plain_http`")]
    PlainHttp,
    /// The request may have a credential, which is sent without TLS only to loopback and private addresses.
    #[error(
        "the URL uses plain HTTP, and the host has an address that is not private: use `https`, or a loopback or private address"
    )]
    PublicPlainHttp,
    /// The name service knows no address.
    #[error("the host has no address")]
    NoAddress,
    /// The name service did not respond.
    #[error("the name service did not respond")]
    NameService,
    /// The operator did not allow addresses that are not public.
    #[error("the host has an address that is not public, and is not in `credentials.private_hosts`")]
    PrivateAddress,
    /// No TCP connection.
    #[error("the host cannot be reached: {0}")]
    Connect(io::Error),
    /// No TLS connection.
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    /// No HTTP response. Without hyper's text, which can quote the server.
    #[error("the host does not speak HTTP/1.1, or closed the connection")]
    Protocol,
    /// The body of the response ended early, or exceeds the limit.
    #[error("the response ended early or is too large")]
    Body,
    /// No response within the time limit.
    #[error("there was no response in time")]
    Timeout,
}

/// Sends requests of the daemon. Cheap to clone.
#[derive(Clone)]
pub struct HostClient(Arc<Inner>);

struct Inner {
    resolver: Resolver,
    tls: Arc<ClientConfig>,
    settings: HostClientSettings,
}

#[boxed]
impl HostClient {
    /// Reads `ca_file`.
    pub fn new(settings: HostClientSettings) -> Result<Self, CaFileError> {
        let mut roots = web_roots();
        let failure = |reason| CaFileError { path: settings.ca_file.clone().unwrap_or_default(), reason };
        if let Some(path) = &settings.ca_file {
            add_certificates(&mut roots, path).map_err(failure)?;
        }
        let tls = tls_config(roots).ok_or_else(|| failure("TLS cannot be configured".to_owned()))?;
        Ok(Self(Arc::new(Inner { resolver: Resolver::new(Vec::new()), tls: Arc::new(tls), settings })))
    }

    /// Sends a request with an absolute URL over a connection of its own, and returns the response with any status.
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, HostClientError> {
        self.send_within(request, ExchangeLimits::default()).await
    }

    /// Sends a request as [`HostClient::send`] does, within other limits.
    pub async fn send_within(
        &self,
        request: Request<Vec<u8>>,
        limits: ExchangeLimits,
    ) -> Result<Response<Vec<u8>>, HostClientError> {
        let sending = tokio::time::timeout(limits.time, self.0.send(request, limits.response_bytes));
        sending.await.unwrap_or(Err(HostClientError::Timeout))
    }
}

impl Inner {
    async fn send(
        &self,
        request: Request<Vec<u8>>,
        response_bytes: usize,
    ) -> Result<Response<Vec<u8>>, HostClientError> {
        let uri = request.uri().clone();
        let is_tls = uri.scheme_str() == Some("https");
        let host = uri.host().ok_or(HostClientError::InvalidUrl)?;
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let allows_plain = lists_host(&self.settings.plain_http, host, port);
        if !is_tls && !allows_plain {
            return Err(HostClientError::PlainHttp);
        }
        let allows_private =
            allows_plain || self.settings.allow_private || self.settings.private_hosts.has(host, port);
        let host = parse_host(host);
        let addresses = self.vetted_addresses(&host, port, allows_private).await?;
        let is_private = |address: &SocketAddr| matches!(address_kind(address.ip()), AddressKind::Private(_));
        if !is_tls && !self.settings.public_plain_http && !addresses.iter().all(is_private) {
            return Err(HostClientError::PublicPlainHttp);
        }
        let request = to_origin_form(request, &uri)?;
        let tcp = connect_tcp(&addresses).await.map_err(HostClientError::Connect)?;
        if !is_tls {
            return exchange(tcp, request, response_bytes).await;
        }
        let name = server_name(&host).ok_or(HostClientError::InvalidUrl)?;
        let tls = TlsConnector::from(Arc::clone(&self.tls)).connect(name, tcp).await;
        exchange(tls.map_err(HostClientError::Tls)?, request, response_bytes).await
    }

    async fn vetted_addresses(
        &self,
        host: &Host,
        port: u16,
        allows_private: bool,
    ) -> Result<Vec<SocketAddr>, HostClientError> {
        let addresses = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolver.search(name).await.map_err(|error| match error {
                Unresolved::NoSuchHost => HostClientError::NoAddress,
                Unresolved::NoAnswer => HostClientError::NameService,
            })?,
        };
        let is_public = |address: &IpAddr| address_kind(*address) == AddressKind::Public;
        match addresses.is_empty() || !allows_private && !addresses.iter().all(is_public) {
            true => Err(HostClientError::PrivateAddress),
            false => Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()),
        }
    }
}

fn add_certificates(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    let before = roots.len();
    for certificate in certificates {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    if roots.len() > before { Ok(()) } else { Err("it contains no certificate".to_owned()) }
}

fn parse_host(text: &str) -> Host {
    let text = text.trim_start_matches('[').trim_end_matches(']');
    text.parse().map_or_else(|_| Host::Name(text.into()), Host::Address)
}

/// The request target without scheme and authority, and a `Host` header (RFC 9112, sections 3.2.1 and 3.2).
fn to_origin_form(request: Request<Vec<u8>>, uri: &Uri) -> Result<Request<Full<Bytes>>, HostClientError> {
    let invalid = || HostClientError::InvalidUrl;
    let (mut parts, body) = request.into_parts();
    let authority = uri.authority().ok_or_else(invalid)?;
    parts.headers.insert(HOST, HeaderValue::from_str(authority.as_str()).map_err(|_| invalid())?);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse().map_err(|_| invalid())?;
    Ok(Request::from_parts(parts, Full::new(Bytes::from(body))))
}

/// An event stream may not end, and no request of the daemon reads one: its head is the response.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media_type.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    response_bytes: usize,
) -> Result<Response<Vec<u8>>, HostClientError> {
    let handshake = http1_builder().handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|_| HostClientError::Protocol)?;
    let response = async {
        let response = sender.send_request(request).await.map_err(|_| HostClientError::Protocol)?;
        let (parts, body) = response.into_parts();
        if is_event_stream(&parts.headers) {
            return Ok(Response::from_parts(parts, Vec::new()));
        }
        let body = Limited::new(body, response_bytes).collect().await.map_err(|_| HostClientError::Body)?;
        Ok(Response::from_parts(parts, body.to_bytes().to_vec()))
    };
    // Both run in this task, so dropping the request also closes the connection.
    tokio::pin!(connection, response);
    tokio::select! {
        response = &mut response => response,
        ended = &mut connection => {
            ended.map_err(|_| HostClientError::Protocol)?;
            response.await
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn send(settings: HostClientSettings, url: &str) -> Result<Response<Vec<u8>>, HostClientError> {
        let request = Request::builder().method("POST").uri(url).body(Vec::new()).unwrap();
        HostClient::new(settings).unwrap().send(request).await
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let client = || {
            HostClient::new(HostClientSettings {
                ca_file: Some(path.clone()),
                ..HostClientSettings::default()
            })
        };
        assert!(client().err().unwrap().to_string().contains("/ca.pem`"));
        std::fs::write(&path, "no certificate").unwrap();
        assert!(client().err().unwrap().to_string().contains("it contains no certificate"));
    }

    #[tokio::test]
    async fn k4_plain_http_and_private_addresses_need_the_operators_permission() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (plain, tls) = (format!("http://{address}/token?a=b"), format!("https://{address}/"));
        let refused = send(HostClientSettings::default(), &plain).await.unwrap_err();
        assert!(matches!(refused, HostClientError::PlainHttp), "{refused}");
        let refused = send(HostClientSettings::default(), &tls).await.unwrap_err();
        assert!(matches!(refused, HostClientError::PrivateAddress), "{refused}");
        // A host in `private_hosts` must still use TLS.
        let private = || HostClientSettings {
            private_hosts: PrivateHosts::new(vec![address.to_string()]),
            ..HostClientSettings::default()
        };
        let refused = send(private(), &plain).await.unwrap_err();
        assert!(matches!(refused, HostClientError::PlainHttp), "{refused}");
        let (_, refused) = tokio::join!(async { listener.accept().await.map(drop) }, send(private(), &tls));
        assert!(refused.unwrap_err().to_string().contains("TLS failed"));
    }

    /// K4: a listed host gets no credential without TLS at a public address. The twin at a loopback address is the test of redirects.
    #[tokio::test]
    async fn k4_plain_http_with_a_credential_needs_a_private_address() {
        // A public address, and that of a metadata service. No packet is sent to either.
        for host in ["8.8.8.8:80", "169.254.169.254:80"] {
            let settings = HostClientSettings { plain_http: vec![host.to_owned()], ..Default::default() };
            let refused = send(settings, &format!("http://{host}/token")).await.unwrap_err();
            assert!(matches!(refused, HostClientError::PublicPlainHttp), "{refused}");
            assert!(refused.to_string().contains("`https`"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_redirect_is_returned_and_not_followed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = [0; 1024];
            let length = stream.read(&mut text).await.unwrap();
            let response =
                b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 2\r\n\r\nok";
            stream.write_all(response).await.unwrap();
            String::from_utf8_lossy(&text[..length]).to_ascii_lowercase()
        };
        let settings =
            HostClientSettings { plain_http: vec![address.to_string()], ..HostClientSettings::default() };
        let url = format!("http://{address}/token?a=b");
        let (request, response) = tokio::join!(server, send(settings, &url));
        assert!(request.starts_with("post /token?a=b http/1.1\r\n"), "{request}");
        assert!(request.contains(&format!("host: {address}")), "{request}");
        let response = response.unwrap();
        assert_eq!((response.status().as_u16(), response.body().as_slice()), (302, &b"ok"[..]));
    }
}
