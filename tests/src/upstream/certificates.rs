//! Certificates of the HTTPS upstream: one for the common names, and one invalid certificate for each kind of fault.

use std::collections::HashMap;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType, date_time_ymd,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::own_address;

/// Labels below `upstream.test` with an invalid certificate, each with its fault.
pub const UNTRUSTED: [(&str, &str); 8] = [
    ("expired", "expired"),
    ("early", "not yet valid"),
    ("wrong", "issued for another host"),
    ("selfsigned", "self-signed"),
    ("unknown", "unknown issuer"),
    ("unentitled", "issuer is no authority"),
    ("client", "client certificate"),
    ("authority", "certificate of an authority"),
];

/// Label of the positive twin: a valid certificate made the same way.
pub const TRUSTED: &str = "sound";

/// Labels of the common certificate.
const COMMON: [&str; 4] = ["api", "other", "moving", "mixed"];

/// Returns the authority (PEM) and the TLS acceptor, which selects a certificate by SNI.
pub fn make() -> (String, TlsAcceptor) {
    let provider = Arc::new(ring::default_provider());
    let (authority, issuer) = authority("the authority");
    let mut common = parameters(&COMMON);
    // For clients without a name server.
    common.subject_alt_names.push(SanType::IpAddress(own_address()));
    let certificates =
        Certificates { common: sign(common, &issuer, &[], &provider), special: special(&issuer, &provider) };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificates));
    (authority.pem(), TlsAcceptor::from(Arc::new(config)))
}

#[derive(Debug)]
struct Certificates {
    common: Arc<CertifiedKey>,
    special: HashMap<String, Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let special = hello.server_name().and_then(|name| self.special.get(name));
        Some(Arc::clone(special.unwrap_or(&self.common)))
    }
}

type Authority = Issuer<'static, KeyPair>;

fn special(issuer: &Authority, provider: &CryptoProvider) -> HashMap<String, Arc<CertifiedKey>> {
    let of = |label: &str, change: &dyn Fn(&mut CertificateParams)| {
        let mut parameters = parameters(&[label]);
        change(&mut parameters);
        parameters
    };
    let signed = |label, change: &dyn Fn(&mut CertificateParams)| {
        (name(label), sign(of(label, change), issuer, &[], provider))
    };
    let middle_key = KeyPair::generate().expect("a key");
    let middle = parameters(&[TRUSTED]);
    let middle_certificate = middle.signed_by(&middle_key, issuer).expect("a certificate");
    let middle = Issuer::new(middle, middle_key);
    HashMap::from([
        signed(TRUSTED, &|_| {}),
        signed("expired", &|parameters| parameters.not_after = date_time_ymd(2021, 1, 1)),
        signed("early", &|parameters| parameters.not_before = date_time_ymd(2999, 1, 1)),
        signed("client", &|parameters| {
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        }),
        signed("authority", &|parameters| parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
        (name("selfsigned"), sign_itself(&parameters(&["selfsigned"]), provider)),
        (name("unknown"), sign(parameters(&["unknown"]), &authority("a stranger").1, &[], provider)),
        (name("unentitled"), sign(parameters(&["unentitled"]), &middle, &[&middle_certificate], provider)),
    ])
}

fn authority(called: &str) -> (Certificate, Authority) {
    let key = KeyPair::generate().expect("a key");
    let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
    parameters.distinguished_name.push(DnType::CommonName, called);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = parameters.self_signed(&key).expect("a certificate");
    (certificate, Issuer::new(parameters, key))
}

/// Parameters of a valid server certificate for these labels.
fn parameters(labels: &[&str]) -> CertificateParams {
    let names: Vec<String> = labels.iter().map(|label| name(label)).collect();
    let mut parameters = CertificateParams::new(names).expect("parameters");
    parameters.distinguished_name.push(DnType::CommonName, labels[0]);
    parameters.not_before = date_time_ymd(2020, 1, 1);
    parameters.not_after = date_time_ymd(3000, 1, 1);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters
}

fn name(label: &str) -> String {
    format!("{label}.upstream.test")
}

fn sign(
    parameters: CertificateParams,
    issuer: &Authority,
    above: &[&Certificate],
    provider: &CryptoProvider,
) -> Arc<CertifiedKey> {
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.signed_by(&key, issuer).expect("a certificate");
    certified_key(&certificate, above, &key, provider)
}

fn sign_itself(parameters: &CertificateParams, provider: &CryptoProvider) -> Arc<CertifiedKey> {
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    certified_key(&certificate, &[], &key, provider)
}

fn certified_key(
    certificate: &Certificate,
    above: &[&Certificate],
    key: &KeyPair,
    provider: &CryptoProvider,
) -> Arc<CertifiedKey> {
    let chain = [certificate].into_iter().chain(above.iter().copied());
    let chain = chain.map(|certificate| certificate.der().clone()).collect();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Arc::new(CertifiedKey::from_der(chain, key, provider).expect("a certificate and its key"))
}
