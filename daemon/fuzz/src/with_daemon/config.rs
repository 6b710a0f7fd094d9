//! The daemon's settings: any text is settings that hold together, or an error with its line.

use std::net::Ipv6Addr;
use std::path::Path;

use toolgate::config::Config;

use crate::tell::assert_told;

/// A settings file.
///
/// What is accepted keeps the ranges that make sense together and names hosts in the form in which requests are
/// compared with them. What is refused is told on one line, and names the file.
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
            assert!(!hosts.is_empty(), "nobody could reach it");
            for host in hosts {
                let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
                assert!(
                    address.is_none_or(|address| address.parse::<Ipv6Addr>().is_ok()),
                    "`{host}` is no address"
                );
                assert!(!host.is_empty() && host == host.to_ascii_lowercase(), "`{host}` would never match");
                assert!(
                    host.ends_with(']') || !host.contains(':'),
                    "`{host}` has a port, and would never match"
                );
            }
        }
        Err(error) => {
            let shown = error.to_string();
            assert_told(&shown, error.hint());
        }
    }
}
