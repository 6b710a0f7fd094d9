//! Sends requests for tokens, and for a root key in a vault: one connection each, over TLS, to an address that was looked at first.
//!
//! Who owns an organization names the provider's host, and the daemon stands inside somebody's network: so what a name
//! resolves to is held against the special ranges, and the address that was looked at is the one that is connected to.
//! No redirect is followed, no proxy asked, and answers are capped in bytes and time.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::HOST;
use axum::http::{HeaderValue, Request, Response, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use oauth2::{HttpRequest, HttpResponse};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use toolgate_admission::{AddressKind, address_kind};

use super::oauth::{TokenClient, TokenClientError};

/// A provider that takes longer than this is down for whoever waits.
const PATIENCE: Duration = Duration::from_secs(15);
/// An answer with tokens has some kilobytes.
const ANSWER_BYTES: usize = 256 * 1024;

/// Who may be reached, and whose word is taken for who they are.
#[derive(Default)]
pub struct HttpsSettings {
    /// Hosts that the operator named, `HOST:PORT` or `HOST` for port 80: they alone are reached without TLS, and may have
    /// addresses that are not public.
    pub named: Vec<String>,
    /// Those that may have addresses that are not public, `HOST:PORT`, over TLS like all others.
    pub private_hosts: Vec<String>,
    /// Whether every host may have an address that is not public: where only the operator names them.
    pub private: bool,
    /// A file with certificates, in PEM, that are trusted besides those of the web.
    pub ca_file: Option<PathBuf>,
}

/// The file of certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the certificates in `{path}` cannot be read: {why}")]
pub struct CaFileError {
    path: PathBuf,
    why: String,
}

impl CaFileError {
    /// The way out.
    pub fn hint(&self) -> &'static str {
        "give certificates in PEM, in a file that the daemon's user may read, as `credentials.ca_file`"
    }
}

/// A client for requests for tokens and root keys.
pub fn https_client(settings: HttpsSettings) -> Result<TokenClient, CaFileError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = &settings.ca_file {
        trust(&mut roots, path).map_err(|why| CaFileError { path: path.clone(), why })?;
    }
    let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let HttpsSettings { named, private_hosts, private, .. } = settings;
    let client = Arc::new(Client { tls: TlsConnector::from(Arc::new(tls)), named, private_hosts, private });
    Ok(Arc::new(move |request| {
        let client = Arc::clone(&client);
        Box::pin(async move {
            let sent = tokio::time::timeout(PATIENCE, client.send(request));
            sent.await.unwrap_or_else(|_| Err(failed("there was no answer in time")))
        })
    }))
}

fn trust(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    let mut some = false;
    for certificate in certificates {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
        some = true;
    }
    if some { Ok(()) } else { Err("there is none in it".to_owned()) }
}

struct Client {
    tls: TlsConnector,
    named: Vec<String>,
    private_hosts: Vec<String>,
    private: bool,
}

impl Client {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TokenClientError> {
        let uri = request.uri().clone();
        let host = uri.host().ok_or_else(|| failed("the address has no host"))?.to_owned();
        let with_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if with_tls { 443 } else { 80 });
        let is_among = |places| toolgate_admission::lists_host(places, &host, port);
        let is_named = is_among(&self.named);
        if !with_tls && !is_named {
            return Err(failed(
                "the address is one of plain HTTP, and the host is not in `credentials.plain_http`",
            ));
        }
        let tcp = connect(&host, port, is_named || self.private || is_among(&self.private_hosts)).await?;
        let request = in_origin_form(request, &uri)?;
        if !with_tls {
            return exchange(tcp, request).await;
        }
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(|_| failed("the host has no name for TLS"))?;
        let tls = self.tls.connect(name, tcp).await;
        exchange(tls.map_err(|error| failed(format!("TLS failed: {error}")))?, request).await
    }
}

async fn connect(host: &str, port: u16, may_be_private: bool) -> Result<TcpStream, TokenClientError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = tokio::net::lookup_host((bare, port)).await;
    let found: Vec<SocketAddr> = found.map_err(|_| failed("the host has no address"))?.collect();
    if found.is_empty()
        || !may_be_private && !found.iter().all(|address| address_kind(address.ip()) == AddressKind::Public)
    {
        return Err(failed(
            "the host has an address that is not public, and is not in `credentials.private_hosts`",
        ));
    }
    TcpStream::connect(&*found).await.map_err(|error| failed(format!("the host cannot be reached: {error}")))
}

fn in_origin_form(request: HttpRequest, uri: &Uri) -> Result<Request<Full<Bytes>>, TokenClientError> {
    let unsound = || failed("the address is not sound");
    let (mut parts, body) = request.into_parts();
    let authority = uri.authority().ok_or_else(unsound)?;
    parts.headers.insert(HOST, HeaderValue::from_str(authority.as_str()).map_err(|_| unsound())?);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse().map_err(|_| unsound())?;
    Ok(Request::from_parts(parts, Full::new(Bytes::from(body))))
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<HttpResponse, TokenClientError> {
    let broken = |error: hyper::Error| failed(format!("the host does not speak HTTP: {error}"));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answering = async {
        let (parts, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES).collect().await;
        let body = body.map_err(|_| failed("the answer ended early or is too large"))?;
        Ok(Response::from_parts(parts, body.to_bytes().to_vec()))
    };
    // Both in this task: nothing is left running when it is given up.
    let mut connection = std::pin::pin!(connection);
    tokio::pin!(answering);
    tokio::select! {
        answer = &mut answering => answer,
        ended = &mut connection => {
            ended.map_err(broken)?;
            answering.await
        }
    }
}

fn failed(message: impl Into<String>) -> TokenClientError {
    TokenClientError(message.into())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn client_of(named: Vec<String>) -> TokenClient {
        https_client(HttpsSettings { named, ..HttpsSettings::default() }).unwrap()
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let client =
            || https_client(HttpsSettings { ca_file: Some(path.clone()), ..HttpsSettings::default() });
        assert!(client().err().unwrap().to_string().contains("/ca.pem`"));
        std::fs::write(&path, "no certificate").unwrap();
        assert!(client().err().unwrap().to_string().contains("there is none in it"));
    }

    fn request(url: &str) -> HttpRequest {
        axum::http::Request::builder().method("POST").uri(url).body(Vec::new()).unwrap()
    }

    #[tokio::test]
    async fn k4_a_token_is_asked_for_over_plain_http_only_where_the_operator_named_the_host() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = format!("http://{address}/token?a=b");
        let refused = client_of(Vec::new())(request(&url)).await.unwrap_err();
        assert!(refused.0.contains("plain HTTP"), "{refused}");
        let refused = client_of(Vec::new())(request(&format!("https://{address}/"))).await.unwrap_err();
        assert!(refused.0.contains("not public"), "{refused}");
        // One that may be private is connected to, and has to speak TLS all the same.
        let private_hosts = vec![address.to_string()];
        let private = https_client(HttpsSettings { private_hosts, ..HttpsSettings::default() }).unwrap();
        assert!(private(request(&url)).await.unwrap_err().0.contains("plain HTTP"));
        let secured = request(&format!("https://{address}/"));
        let (_, refused) = tokio::join!(async { listener.accept().await.map(drop) }, private(secured));
        assert!(refused.unwrap_err().0.contains("TLS failed"));
        let answering = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = [0; 1024];
            let length = stream.read(&mut text).await.unwrap();
            let answer = b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 2\r\n\r\nok";
            stream.write_all(answer).await.unwrap();
            String::from_utf8_lossy(&text[..length]).into_owned()
        };
        let client = client_of(vec![address.to_string()]);
        let (asked, answer) = tokio::join!(answering, client(request(&url)));
        assert!(asked.starts_with("POST /token?a=b HTTP/1.1\r\n"), "{asked}");
        assert!(asked.to_ascii_lowercase().contains(&format!("host: {address}")), "{asked}");
        // The redirect is an answer and is not followed.
        let answer = answer.unwrap();
        assert_eq!((answer.status().as_u16(), answer.body().as_slice()), (302, &b"ok"[..]));
    }
}
