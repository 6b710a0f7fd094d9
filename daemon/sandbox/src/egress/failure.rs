//! Why a request has no response: as a `wasi:http` error code for the guest, as text for people.

use std::io;

use rustls::CertificateError;
use wasmtime_wasi_http::Error;

/// A request without a response.
pub(super) struct Failure {
    pub(super) error: Error,
    pub(super) reason: &'static str,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { reason: reason(&error), error }
    }
}

impl Failure {
    /// A TLS failure. The reasons of an invalid certificate are told apart, since each has another fix.
    pub(super) fn of_tls(error: &io::Error) -> Self {
        use CertificateError as Reason;
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let reason = match inner {
            Some(rustls::Error::InvalidCertificate(invalid)) => match invalid {
                Reason::UnknownIssuer => {
                    "its certificate is of an unknown authority; `extra_ca` of the grant adds an authority"
                }
                Reason::NotValidForName | Reason::NotValidForNameContext { .. } => {
                    "its certificate is for another name"
                }
                Reason::Expired
                | Reason::ExpiredContext { .. }
                | Reason::NotValidYet
                | Reason::NotValidYetContext { .. } => "its certificate is not valid at this time",
                Reason::InvalidPurpose | Reason::InvalidPurposeContext { .. } => {
                    "its certificate is not for a server"
                }
                // It has no variant of its own.
                Reason::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
                    "its certificate is that of an authority; a server needs one that the authority issued to it"
                }
                _ => reason(&Error::TlsCertificateError),
            },
            Some(rustls::Error::NoCertificatesPresented) => reason(&Error::TlsCertificateError),
            _ => return Error::TlsProtocolError.into(),
        };
        Self { error: Error::TlsCertificateError, reason }
    }
}

/// The text of an error, for callers and the record. It contains nothing from the upstream.
pub(super) fn reason(error: &Error) -> &'static str {
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
