//! TLS settings: rustls with ring, the public certificate authorities and the private ones of a PEM file, or one certificate that is known.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{ClientError, Server, TlsFiles};

/// Creates the settings for `server`. The certificates in `files.ca` are trusted besides the public authorities.
pub(super) fn config(server: &Server, files: &TlsFiles) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    if let Some(path) = files.ca.as_deref() {
        add_certificates(&mut roots, path)
            .map_err(|reason| ClientError::BadCaFile { path: path.to_owned(), reason })?;
    }
    let builder =
        builder.map_err(|error| ClientError::Tls { server: server.clone(), reason: error.to_string() })?;
    let builder = match files.pinned.as_deref() {
        None => builder.with_root_certificates(roots),
        Some(path) => {
            let certificate = CertificateDer::from_pem_file(path).map_err(|error| {
                ClientError::BadCaFile { path: path.to_owned(), reason: error.to_string() }
            })?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Pinned { certificate, provider }))
        }
    };
    match (&files.certificate, &files.key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(certificate), Some(key)) => {
            let bad =
                |path: &Path, reason: String| ClientError::BadClientFile { path: path.to_owned(), reason };
            let chain =
                CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let chain = chain.map_err(|error| bad(certificate, error.to_string()))?;
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error.to_string()))?;
            builder.with_client_auth_cert(chain, secret).map_err(|error| bad(certificate, error.to_string()))
        }
        (Some(path), None) | (None, Some(path)) => Err(ClientError::BadClientFile {
            path: path.clone(),
            reason: "a certificate and its key need each other".to_owned(),
        }),
    }
}

/// Trusts one certificate. The server proves that it has its key, so neither names nor times matter.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _stapled: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match *certificate == self.certificate {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::ServerConfig;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use serde_json::{Value, json};
    use tempfile::TempDir;
    use tokio_rustls::TlsAcceptor;

    use super::super::testing::{Canned, FakeDaemon};
    use super::super::{Client, Response};
    use super::*;

    /// A private authority in a file, and a server on loopback with a certificate of it.
    struct PrivateServer {
        daemon: FakeDaemon,
        folder: TempDir,
    }

    impl PrivateServer {
        /// Starts a server with a certificate for `name`.
        async fn start(name: &str) -> Self {
            let mut authority = CertificateParams::new([]).expect("parameters");
            authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let authority_key = KeyPair::generate().expect("a key");
            let pem = authority.self_signed(&authority_key).expect("a certificate").pem();
            let issuer = Issuer::new(authority, authority_key);
            let key = KeyPair::generate().expect("a key");
            let parameters = CertificateParams::new([name.to_owned()]).expect("parameters");
            let certificate = parameters.signed_by(&key, &issuer).expect("a certificate");
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("versions of TLS")
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], key)
                .expect("a certificate for the key");
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::write(folder.path().join("ca.pem"), pem).expect("written");
            std::fs::write(folder.path().join("own.pem"), certificate.pem()).expect("written");
            let answers = vec![Canned::json(200, json!({"status": "ok"}))];
            let daemon = FakeDaemon::start_with(answers, Some(TlsAcceptor::from(Arc::new(config)))).await;
            Self { daemon, folder }
        }

        fn ca_file(&self) -> PathBuf {
            self.folder.path().join("ca.pem")
        }

        async fn ask(&self, scheme: &str, ca_file: Option<&Path>) -> Result<Response<Value>, ClientError> {
            let port = self.daemon.server().port();
            let server = Server::parse(&format!("{scheme}://localhost:{port}")).expect("a server");
            Client::new(
                server,
                Some("tg_secret"),
                &TlsFiles { ca: ca_file.map(Path::to_owned), ..TlsFiles::default() },
            )?
            .get("/healthz")
            .send()
            .await
        }
    }

    #[tokio::test]
    async fn a_server_of_a_private_authority_is_trusted_with_its_file_alone() {
        let server = PrivateServer::start("localhost").await;
        let error = server.ask("https", None).await.expect_err("not trusted");
        assert!(matches!(error, ClientError::Untrusted { .. }), "{error:?}");
        assert!(error.hint().contains("--ca-file"), "{}", error.hint());
        assert!(server.daemon.requests().is_empty());
        let response = server.ask("https", Some(&server.ca_file())).await.expect("trusted");
        assert_eq!(response.body, json!({"status": "ok"}));
        assert_eq!(server.daemon.requests()[0].header("authorization"), Some("Bearer tg_secret"));
    }

    #[tokio::test]
    async fn a_certificate_for_another_name_is_refused() {
        let server = PrivateServer::start("elsewhere.example").await;
        let error = server.ask("https", Some(&server.ca_file())).await.expect_err("refused");
        assert!(matches!(error, ClientError::Untrusted { .. }), "{error:?}");
        assert!(error.to_string().contains("elsewhere.example"), "{error}");
        assert!(server.daemon.requests().is_empty());
    }

    #[tokio::test]
    async fn a_known_certificate_is_trusted_for_every_name_and_no_other_one_is() {
        let server = PrivateServer::start("elsewhere.example").await;
        let ask = async |pinned: &str| {
            let address = Server::parse(&format!("https://127.0.0.1:{}", server.daemon.server().port()))
                .expect("a server");
            let files = TlsFiles { pinned: Some(server.folder.path().join(pinned)), ..TlsFiles::default() };
            Client::new(address, None, &files)?.get("/healthz").send::<Value>().await
        };
        let error = ask("ca.pem").await.expect_err("the certificate of the authority");
        assert!(matches!(error, ClientError::Untrusted { .. }), "{error:?}");
        assert_eq!(ask("own.pem").await.expect("trusted").body, json!({"status": "ok"}));
    }

    #[tokio::test]
    async fn the_wrong_scheme_is_named() {
        let server = PrivateServer::start("localhost").await;
        let error = server.ask("http", None).await.expect_err("TLS on this port");
        assert!(matches!(error, ClientError::NotHttp { .. }), "{error:?}");
        assert!(error.hint().contains("`https://`"), "{}", error.hint());

        let plain = FakeDaemon::start(vec![]).await;
        let server =
            Server::parse(&format!("https://localhost:{}", plain.server().port())).expect("a server");
        let client = Client::new(server, None, &TlsFiles::default()).expect("a client");
        let error = client.get("/healthz").send::<Value>().await.expect_err("no TLS on this port");
        assert!(matches!(error, ClientError::Tls { .. }), "{error:?}");
        assert!(error.hint().contains("`http://`"), "{}", error.hint());
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca.pem");
        let server = Server::parse("https://localhost").expect("a server");
        let error = config(&server, &TlsFiles { ca: Some(path.clone()), ..TlsFiles::default() })
            .expect_err("no file")
            .to_string();
        assert!(error.contains("/ca.pem`"), "{error}");
        std::fs::write(&path, "no certificate").expect("written");
        let error = config(&server, &TlsFiles { ca: Some(path.clone()), ..TlsFiles::default() })
            .expect_err("no certificate")
            .to_string();
        assert!(error.contains("it contains no certificate"), "{error}");
    }
}
