//! The endpoints that webhooks may have: URLs of hosts that the operator granted.

use toolgate_api::error::{CallError, ErrorType};
use toolgate_sandbox::{HostClientSettings, PrivateHosts};
use url::Url;

/// Longest URL, in bytes.
const URL_BYTES: usize = 2_000;

/// The hosts that the operator granted to webhooks, each `HOST` or `HOST:PORT`. Without a port, the port is the default of
/// the scheme.
#[derive(Clone, Debug, Default)]
pub struct GrantedHosts {
    /// Hosts that are reached over TLS.
    pub hosts: Vec<String>,
    /// The hosts among `hosts` that may have private addresses.
    pub private_hosts: Vec<String>,
    /// Hosts that are reached over plain HTTP, at any address.
    pub plain_http: Vec<String>,
}

impl GrantedHosts {
    /// Checks that the URL is one that webhooks may have, and returns its normal form.
    ///
    /// # Errors
    ///
    /// `INVALID_REQUEST`, and `NETWORK_DENIED` for a host that is not granted.
    pub fn check(&self, url: &str) -> Result<String, CallError> {
        let invalid = |message: &str| {
            CallError::new(
                ErrorType::InvalidRequest,
                message,
                "write a URL like `https://hooks.example.org/approvals`",
            )
        };
        if url.len() > URL_BYTES {
            return Err(invalid("`url` has more than 2000 bytes"));
        }
        let parsed = Url::parse(url).map_err(|_| invalid("`url` is not a URL"))?;
        if !parsed.username().is_empty() || parsed.password().is_some() || parsed.fragment().is_some() {
            return Err(invalid("`url` has credentials or a fragment"));
        }
        let (Some(host), Some(port)) = (parsed.host_str(), parsed.port_or_known_default()) else {
            return Err(invalid("`url` has no host"));
        };
        let granted = match parsed.scheme() {
            "https" => lists(&self.hosts, host, port, 443),
            "http" => lists(&self.plain_http, host, port, 80),
            _ => return Err(invalid("`url` is neither `https` nor `http`")),
        };
        if granted {
            return Ok(parsed.to_string());
        }
        let setting = if parsed.scheme() == "https" { "webhooks.hosts" } else { "webhooks.plain_http" };
        Err(CallError::new(
            ErrorType::NetworkDenied,
            format!("the operator has not granted `{host}:{port}` to webhooks"),
            format!("use a host that is granted, or let the operator add it to `{setting}`"),
        ))
    }

    /// The settings of the client that sends to these hosts.
    pub fn client_settings(&self, ca_file: Option<std::path::PathBuf>) -> HostClientSettings {
        let with_port = |host: &String| match host.rsplit_once(':') {
            Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.clone(),
            _ => format!("{host}:443"),
        };
        HostClientSettings {
            plain_http: self.plain_http.clone(),
            // A delivery has a signature and no credential.
            public_plain_http: true,
            private_hosts: PrivateHosts::new(self.private_hosts.iter().map(with_port).collect()),
            allow_private: false,
            ca_file,
        }
    }
}

fn lists(granted: &[String], host: &str, port: u16, default_port: u16) -> bool {
    granted.iter().any(|named| {
        named.eq_ignore_ascii_case(&format!("{host}:{port}"))
            || port == default_port && named.eq_ignore_ascii_case(host)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted_hosts() -> GrantedHosts {
        GrantedHosts {
            hosts: vec!["hooks.example.org".into(), "other.example.org:8443".into()],
            private_hosts: vec!["hooks.example.org".into()],
            plain_http: vec!["127.0.0.1:9000".into()],
        }
    }

    #[test]
    fn g18_only_granted_hosts_are_endpoints() {
        for url in [
            "https://hooks.example.org/a?b=c",
            "https://HOOKS.example.org:443",
            "https://other.example.org:8443/",
            "http://127.0.0.1:9000/x",
        ] {
            granted_hosts().check(url).expect(url);
        }
        for url in [
            "https://hooks.example.org:8443/",
            "https://other.example.org/",
            "http://hooks.example.org/",
            "https://127.0.0.1:9000/",
            "https://hooks.example.org.evil.example/",
        ] {
            let error = granted_hosts().check(url).expect_err(url);
            assert_eq!(error.error_type, ErrorType::NetworkDenied, "{url}");
        }
        let nothing = GrantedHosts::default();
        nothing.check("https://hooks.example.org/a").expect_err("nothing is granted");
    }

    #[test]
    fn g18_what_is_no_url_of_an_endpoint_is_refused() {
        let long = format!("https://hooks.example.org/{}", "a".repeat(URL_BYTES));
        for url in [
            "",
            "hooks.example.org",
            "https://",
            "ftp://hooks.example.org/",
            "https://u:p@hooks.example.org/",
            "https://hooks.example.org/#a",
            &long,
        ] {
            let error = granted_hosts().check(url).expect_err(url);
            assert_eq!(error.error_type, ErrorType::InvalidRequest, "{url}");
        }
    }

    #[test]
    fn g18_a_private_host_without_a_port_is_that_of_https() {
        let hosts = granted_hosts().client_settings(None).private_hosts;
        assert!(hosts.has("hooks.example.org", 443) && !hosts.has("hooks.example.org", 80));
    }
}
