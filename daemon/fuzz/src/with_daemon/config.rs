//! The daemon's configuration.

use std::net::Ipv6Addr;
use std::path::Path;

use toolgate_state::config::Config;

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

/// Seeds, each with a name for its content.
#[rustfmt::skip]
pub const SEEDS: &[(&str, &str)] = &[
    ("address-without-port", r#"listen = "localhost"
"#),
    ("array-of-tables", "[[http]]
body_bytes = 1024
"),
    ("carriage-return", "data = \"a\"\r\n\
         listen = \"x\"\r\n"),
    ("dotted", "http.body_bytes = 1024
limits.fuel = 5
"),
    ("every-address", r#"listen = "[::]:0"
"#),
    ("hidden-in-key", r#""a\u202Eb" = 1
["\u001b[2J"]
"#),
    ("host-in-brackets", r#"allowed_hosts = ["[::1]", "[::A]"]
"#),
    ("host-of-brackets", r#"allowed_hosts = ["[]", "[a:b]c]"]
"#),
    ("host-with-port", r#"allowed_hosts = ["localhost:80"]
"#),
    ("inline-table", "http = { body_bytes = 1024 }
"),
    ("key-for-section", "http = 1
"),
    ("key-of-another-section", "body_bytes = 1
"),
    ("key-twice", r#"data = "a"
data = "b"
"#),
    ("newline-in-key", r#""a\nb" = 1
"#),
    ("no-hosts", "allowed_hosts = []
"),
    ("not-toml", r#"{"data": 1}"#),
    ("nothing", ""),
    ("number-below-zero", "[http]
body_bytes = -1
"),
    ("number-too-large", "[http]
body_bytes = 99999999999999999999
"),
    ("quoted-section", r#"["http"]
"body_bytes" = 1024
"#),
    ("reserve-above-half", "[audit]
segment_bytes = 65536
reserve_bytes = 65536
"),
    ("section-for-key", "[data]
"),
    ("share-above-the-whole", "[queue]
waiting_per_organization = 100
waiting_total = 1
"),
    ("store-elsewhere", r#"store = "postgres://user:secret@host/db"
"#),
    ("store-in-memory", r#"store = "sqlite::memory:"
"#),
    ("text-for-number", r#"[http]
body_bytes = "8 MiB"
"#),
    ("unknown-key", r#"lisen = "127.0.0.1:1"
"#),
    ("unknown-section", "[htp]
body_bytes = 1
"),
    ("usual", r#"data = "/var/lib/toolgate"
listen = "127.0.0.1:7300"
allowed_hosts = ["tools.example.org", "LOCALHOST"]

[limits]
fuel = 1_000_000

[http]
body_bytes = 0x100000
"#),
];
