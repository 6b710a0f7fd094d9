//! The address of a daemon.

use std::path::Path;
use std::sync::Arc;

use hyper::Uri;

use super::ClientError;

/// Address of a daemon: scheme, host and port without a path, or a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub(super) socket: Option<Arc<Path>>,
    is_https: bool,
    authority: String,
    host: String,
}

impl Server {
    /// Parses an address like `http://127.0.0.1:7300`, `https://tools.example.org` or `unix:/run/toolgate.sock`.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let bad = || ClientError::BadServer { server: text.to_owned() };
        if let Some(path) = text.trim().strip_prefix("unix:") {
            let socket = Path::new(path);
            let host = "localhost".to_owned();
            let server = Self { socket: Some(socket.into()), is_https: false, authority: host.clone(), host };
            return socket.is_absolute().then_some(server).ok_or_else(bad);
        }
        let uri: Uri = text.trim().trim_end_matches('/').parse().map_err(|_| bad())?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad()),
        };
        let authority = uri.authority().ok_or_else(bad)?;
        let only_host_and_port = uri.path() == "/" && uri.query().is_none();
        // User-info would be a password on the command line.
        if !only_host_and_port || authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(bad());
        }
        Ok(Self {
            socket: None,
            is_https,
            authority: authority.to_string(),
            host: authority.host().to_owned(),
        })
    }

    #[cfg(test)]
    pub(super) fn port(&self) -> u16 {
        self.authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or_default()
    }

    /// The URL of the server, as requests name it.
    pub(super) fn url(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// The host, without brackets or port.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether requests leave this machine unencrypted.
    pub fn is_plain_remote(&self) -> bool {
        !self.is_https && !self.is_loopback()
    }

    /// Whether the server is on this machine (a loopback address).
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        let address = host.parse::<std::net::IpAddr>();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.socket {
            Some(path) => write!(out, "unix:{}", path.display()),
            None => out.write_str(&self.url()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_scheme_a_host_and_a_port() {
        for text in ["http://127.0.0.1:7300", "https://tools.example.org", "http://[::1]:7300/"] {
            let server = Server::parse(text).expect("a server");
            assert_eq!(server.to_string(), text.trim_end_matches('/'));
        }
        for text in [
            "",
            "127.0.0.1:7300",
            "http://",
            "ftp://a",
            "https://a/path",
            "http://a/path",
            "http://a?q",
            "http://me:pass@a",
        ] {
            let error = Server::parse(text).expect_err("no server");
            assert!(matches!(error, ClientError::BadServer { .. }), "{text}");
        }
    }

    #[test]
    fn loopback_is_told_from_the_network() {
        let server = |text| Server::parse(text).expect("a server");
        let is_loopback = |text| server(text).is_loopback();
        for text in ["http://127.0.0.1:1", "http://[::1]:1", "http://LocalHost:1", "http://127.9.9.9"] {
            assert!(is_loopback(text), "{text}");
        }
        for text in ["http://10.0.0.1", "http://localhost.example.org", "http://[2001:db8::1]"] {
            assert!(!is_loopback(text), "{text}");
            assert!(server(text).is_plain_remote(), "{text}");
        }
        assert!(!server("https://10.0.0.1").is_plain_remote());
    }
}
