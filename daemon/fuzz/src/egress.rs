//! Outgoing requests of a guest, compared with a direct reading of its grant.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use toolgate_admission::CallAccess;
use toolgate_api::grant::{Capabilities, Grant};
use toolgate_api::network::Target;

use crate::error_format::{assert_error_text, assert_pointer};

/// Input: a grant, a line `---`, and five lines: scheme, authority, path and query, method, addresses between spaces.
///
/// A permitted request has a host that the grant lists, by a look at its JSON; every address is public, by numeric ranges,
/// or in a network that the grant names; and no lenient parser can read the request differently.
pub fn egress(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Some((document, request)) = text.split_once("\n---\n") else { return };
    let lines: Vec<&str> = request.lines().collect();
    let &[scheme, authority, path, method, addresses] = &lines[..] else { return };
    let target = match Target::parse(scheme, authority, path, method) {
        Ok(target) => target,
        Err(error) => return assert_error_text(&error.message, error.hint),
    };
    check_unambiguous(authority, path, &target);
    let granted = match Grant::parse(document) {
        Ok(grant) => grant,
        Err(error) => {
            assert_pointer(&error.place);
            return assert_error_text(&error.to_string(), &error.hint);
        }
    };
    let written: Value = serde_json::from_str(document).expect("a parsed grant");
    let asked = Capabilities { network: granted.network.clone(), ..Capabilities::default() };
    let reach = CallAccess::new(Arc::new(asked), Arc::new(granted));
    let addresses: Vec<IpAddr> = addresses.split(' ').filter_map(|text| text.parse().ok()).collect();
    let permitted = match reach.permit(target.clone()) {
        Ok(permitted) => permitted,
        Err(denied) => return assert_error_text(&denied.message, &denied.hint),
    };
    assert!(is_listed(&written, &target), "{target} is in no rule of {document}");
    match permitted.vet(&addresses) {
        Ok(vetted) => {
            assert_eq!(vetted.addresses().len(), addresses.len());
            for address in &addresses {
                assert!(is_public(*address) || is_named(&written, *address), "{address} is reached");
            }
        }
        Err(denied) => {
            assert_error_text(&denied.message, &denied.hint);
            let is_literal = target.host().name().is_none();
            let all_good = addresses.iter().all(|address| is_public(*address));
            assert!(addresses.is_empty() || is_literal || !all_good, "{addresses:?} are refused");
        }
    }
}

/// No part of the target exists only for a lenient parser.
fn check_unambiguous(authority: &str, path: &str, target: &Target) {
    let host = target.host().to_string();
    assert!(authority.to_ascii_lowercase().starts_with(&host), "`{authority}` is read as `{host}`");
    let rest = &authority[host.len()..];
    assert!(rest.is_empty() || rest == format!(":{}", target.port()), "`{rest}` is left of `{authority}`");
    assert!(path.is_empty() || path.starts_with(target.path()) || path.starts_with('?'), "`{path}`");
    let mut decoded = target.path().to_owned();
    for _ in 0..5 {
        let detours = ["//", "/./", "/../", "/..;", "/.;", "\\", "\0"];
        assert!(
            !detours.iter().any(|detour| decoded.contains(detour)),
            "{target} can be normalized: {decoded}"
        );
        assert!(!decoded.ends_with("/.") && !decoded.ends_with("/.."), "{target} ends in a dot segment");
        decoded = decoded.replace("%25", "%");
        for (code, letter) in
            [("%2e", "."), ("%2E", "."), ("%2f", "/"), ("%2F", "/"), ("%5c", "\\"), ("%5C", "\\")]
        {
            decoded = decoded.replace(code, letter);
        }
    }
}

/// Whether a rule of the grant's JSON has the host, the scheme and the port.
fn is_listed(grant: &Value, target: &Target) -> bool {
    let host = target.host().to_string();
    let rules = grant["network"].as_array().map(Vec::as_slice).unwrap_or_default();
    rules.iter().any(|rule| {
        let listed = rule["host"].as_str().unwrap_or_default().to_ascii_lowercase();
        let is_host = match listed.strip_prefix('*') {
            Some(end) => {
                host.strip_suffix(end).is_some_and(|label| !label.is_empty() && !label.contains('.'))
            }
            None => listed == host,
        };
        let scheme = rule["scheme"].as_str().unwrap_or("https");
        let port = rule["port"].as_u64().unwrap_or(if scheme == "https" { 443 } else { 80 });
        let methods = rule["methods"].as_array();
        is_host
            && scheme == target.scheme().as_str()
            && port == u64::from(target.port())
            && methods.is_none_or(|list| list.iter().any(|method| method == target.method()))
            && rule["path"].as_str().is_none_or(|prefix| target.path().starts_with(prefix))
    })
}

/// Whether a private network of the grant contains the address, compared as numbers.
fn is_named(grant: &Value, address: IpAddr) -> bool {
    let networks = grant["private_networks"].as_array().map(Vec::as_slice).unwrap_or_default();
    networks.iter().filter_map(Value::as_str).any(|network| {
        let (first, bits) = network.split_once('/').expect("a parsed network");
        let (first, bits): (IpAddr, u32) = (first.parse().expect("an address"), bits.parse().expect("bits"));
        let (first, at, width) = match (first, address) {
            (IpAddr::V4(first), IpAddr::V4(at)) => {
                (u128::from(u32::from(first)), u128::from(u32::from(at)), 32)
            }
            (IpAddr::V6(first), IpAddr::V6(at)) => (u128::from(first), u128::from(at), 128),
            _ => return false,
        };
        let size = 1_u128.checked_shl(width - bits).unwrap_or(0);
        at >= first && at - first <= size.wrapping_sub(1)
    })
}

/// Whether IANA's special-purpose registries leave the address globally reachable.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            !(matches!(a, 0 | 10 | 127 | 224..)
                || matches!(
                    (a, b, c),
                    (100, 64..=127, _)
                        | (169, 254, _)
                        | (172, 16..=31, _)
                        | (192, 168, _)
                        | (192, 0, 0 | 2)
                        | (192, 31, 196)
                        | (192, 52, 193)
                        | (192, 88, 99)
                        | (192, 175, 48)
                        | (198, 18 | 19, _)
                        | (198, 51, 100)
                        | (203, 0, 113)
                )
                || (a, b, c, d) == (168, 63, 129, 16))
        }
        IpAddr::V6(address) => match address.segments() {
            [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002 | 0x3ffe, ..] | [0x3fff, 0..=0xfff, ..] => false,
            [0x2620, 0x4f, 0x8000, ..] => false,
            [0x2000..=0x3fff, ..] => true,
            _ => false,
        },
    }
}

/// Seeds, each with a name for its content.
#[rustfmt::skip]
pub const SEEDS: &[(&str, &str)] = &[
    ("encoded-dots", r#"{"network":[{"host":"api.example.com","methods":["GET"],"path":"/points/"},{"host":"*.files.example.com","port":8443}],"private_networks":["10.1.0.0/16"]}
---
https
api.example.com
/points/%252e%252e/admin
GET
1.1.1.1"#),
    ("everything-private", r#"{"network":[{"host":"a.example"}],"private_networks":["0.0.0.0/0"]}
---
https
a.example
/
GET
10.0.0.1"#),
    ("literal-metadata", r#"{"network":[{"scheme":"http","host":"169.254.169.254"}],"plain_http":["169.254.169.254:80"],"private_networks":["169.254.169.254/32"]}
---
http
169.254.169.254
/latest
GET
169.254.169.254"#),
    ("literal-v6", r#"{"network":[{"host":"[::1]","port":8443}],"private_networks":["::1/128"]}
---
https
[::1]:8443
?a
GET
::1"#),
    ("mapped-loopback", r#"{"network":[{"host":"api.example.com","methods":["GET"],"path":"/points/"},{"host":"*.files.example.com","port":8443}],"private_networks":["10.1.0.0/16"]}
---
https
api.example.com
/points/
GET
::ffff:127.0.0.1"#),
    ("mixed-answer", r#"{"network":[{"host":"api.example.com","methods":["GET"],"path":"/points/"},{"host":"*.files.example.com","port":8443}],"private_networks":["10.1.0.0/16"]}
---
https
api.example.com
/points/
GET
1.1.1.1 127.0.0.1"#),
    ("octal-loopback", r#"{"network":[{"host":"api.example.com","methods":["GET"],"path":"/points/"},{"host":"*.files.example.com","port":8443}],"private_networks":["10.1.0.0/16"]}
---
https
0177.0.0.1
/
GET
127.0.0.1"#),
    ("permitted", r#"{"network":[{"host":"api.example.com","methods":["GET"],"path":"/points/"},{"host":"*.files.example.com","port":8443}],"private_networks":["10.1.0.0/16"]}
---
https
api.example.com
/points/7?q=1
GET
1.1.1.1 2606:4700::1111"#),
    ("private-granted", r#"{"network":[{"host":"api.example.com","methods":["GET"],"path":"/points/"},{"host":"*.files.example.com","port":8443}],"private_networks":["10.1.0.0/16"]}
---
https
a.files.example.com:8443
/
POST
10.1.2.3"#),
    ("upper-case", r#"{"network":[{"host":"API.Example.com"}]}
---
HTTPS
Api.EXAMPLE.com:443

GET
8.8.8.8"#),
    ("user-info", r#"{"network":[{"host":"api.example.com","methods":["GET"],"path":"/points/"},{"host":"*.files.example.com","port":8443}],"private_networks":["10.1.0.0/16"]}
---
https
api.example.com@evil.example
/points/
GET
1.1.1.1"#),
    ("wildcard-two-labels", r#"{"network":[{"host":"api.example.com","methods":["GET"],"path":"/points/"},{"host":"*.files.example.com","port":8443}],"private_networks":["10.1.0.0/16"]}
---
https
a.b.files.example.com:8443
/
GET
1.1.1.1"#),
];
