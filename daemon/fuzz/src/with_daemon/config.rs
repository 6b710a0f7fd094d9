//! The daemon's configuration.

use std::net::Ipv6Addr;
use std::path::Path;

use toolgate::config::Config;

use crate::error_format::assert_error_text;

/// Input: a configuration file.
///
/// Accepted values are consistent with each other, and hosts have the form in which requests are compared with them. An
/// error is one line with the file's name.
pub fn config(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match Config::parse(text, Path::new("toolgate.toml")) {
        Ok(config) => {
            assert!(config.audit.reserve_bytes <= config.audit.segment_bytes / 2);
            assert!(config.queue.waiting_per_organization <= config.queue.waiting_total);
            assert!(
                config.http.connections > 0 && config.http.header_bytes > 0 && config.http.body_bytes > 0
            );
            assert!(config.store_path().is_ok());
            let hosts = config.hosts();
            assert!(!hosts.is_empty(), "no request could reach it");
            for host in hosts {
                let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
                assert!(
                    address.is_none_or(|address| address.parse::<Ipv6Addr>().is_ok()),
                    "`{host}` is not an address"
                );
                assert!(!host.is_empty() && host == host.to_ascii_lowercase(), "`{host}` can never match");
                assert!(
                    host.ends_with(']') || !host.contains(':'),
                    "`{host}` has a port, so it can never match"
                );
            }
        }
        Err(error) => assert_error_text(&error.to_string(), error.hint()),
    }
}
