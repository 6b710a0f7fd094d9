//! Why a request has no answer: for the guest as `wasi:http` says it, for people in words.

use std::io;

use rustls::CertificateError;
use wasmtime_wasi_http::Error;

/// A request that has no answer.
pub(super) struct Failure {
    pub(super) error: Error,
    pub(super) words: &'static str,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { words: words(&error), error }
    }
}

impl Failure {
    /// TLS did not come about. What is wrong with a certificate is told apart, since each has another way out.
    pub(super) fn of_tls(error: &io::Error) -> Self {
        use CertificateError as Wrong;
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let words = match inner {
            Some(rustls::Error::InvalidCertificate(wrong)) => match wrong {
                Wrong::UnknownIssuer => {
                    "its certificate is of an unknown authority; `extra_ca` of the grant adds an authority"
                }
                Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
                    "its certificate is for another name"
                }
                Wrong::Expired
                | Wrong::ExpiredContext { .. }
                | Wrong::NotValidYet
                | Wrong::NotValidYetContext { .. } => "its certificate is not valid at this time",
                _ => words(&Error::TlsCertificateError),
            },
            Some(rustls::Error::NoCertificatesPresented) => words(&Error::TlsCertificateError),
            _ => return Error::TlsProtocolError.into(),
        };
        Self { error: Error::TlsCertificateError, words }
    }
}

/// What is said of a failure, to callers and in the record. Nothing of it comes from the upstream.
pub(super) fn words(error: &Error) -> &'static str {
    match error {
        Error::DnsError { .. } => "its name has no address",
        Error::DnsTimeout => "the name service did not answer",
        Error::ConnectionRefused => "it refused the connection",
        Error::ConnectionTimeout => "no connection in time",
        Error::ConnectionLimitReached => "too many connections are open",
        Error::Connect(_) | Error::DestinationNotFound => "no connection could be made",
        Error::TlsCertificateError => "its certificate is not to be trusted",
        Error::Tls(_) | Error::TlsProtocolError => "TLS failed",
        Error::ConnectionReadTimeout | Error::HttpResponseTimeout => "it did not answer in time",
        Error::ConnectionTerminated => "it closed the connection without an answer",
        Error::HttpProtocolError => "its answer is not HTTP",
        Error::HttpResponseIncomplete => "its answer is broken",
        Error::HttpResponseHeaderSectionSize(_) => "the head of its answer is too large",
        Error::HttpResponseTrailerSectionSize(_) => "the trailers of its answer are too large",
        Error::HttpResponseBodySize(_) => "its answer is larger than the call may take in",
        Error::HttpRequestBodySize(_) => "the request is larger than the call may send",
        Error::HttpResponseContentCoding(_) => "its answer is coded in a way that was not asked for",
        Error::HttpUpgradeFailed => "it wants to speak another protocol",
        Error::ConfigurationError => "a certificate of the grant cannot be used",
        _ => "the request failed",
    }
}
