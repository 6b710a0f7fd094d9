//! Which header fields are no arguments: those that lend authority, and those that say how a message travels.
//!
//! The component behind definitions refuses a definition that sets one of them, so an action that needs one is left out
//! here, with the reason. What it refuses decides; this list only has to be as long.

/// Fields that the host sets, or that are about one connection.
const FRAMING: [&str; 19] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "via",
];

/// Fields by which a proxy says for whom it asks, or which path, host or method it means.
const FORWARDING: [&str; 16] = [
    "cf-connecting-ip",
    "client-ip",
    "fastly-client-ip",
    "forwarded",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-forwarded",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// Fields that lend authority.
const AUTHORITY: [&str; 8] =
    ["cookie", "cookie2", "set-cookie", "token", "apikey", "authentication", "auth", "x-csrf"];

/// Parts of the names of others that do.
const AUTHORITY_PARTS: [&str; 12] = [
    "authorization",
    "api-key",
    "apikey",
    "access-key",
    "auth-key",
    "subscription-key",
    "secret",
    "password",
    "passwd",
    "credential",
    "session-id",
    "signature",
];

/// Longest name of a field.
const NAME_BYTES: usize = 100;

/// Why a header field is no argument; none where it can be.
pub(crate) fn refused(name: &str) -> Option<&'static str> {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    // Some servers read an underscore as a hyphen.
    let plain = name.to_ascii_lowercase().replace('_', "-");
    if name.is_empty() || name.len() > NAME_BYTES || !name.bytes().all(is_sign) {
        Some("its name is no name of a header field")
    } else if lends_authority(&plain) {
        Some("such a field lends authority, which is the credential's to do")
    } else if FRAMING.contains(&plain.as_str()) || plain.starts_with("proxy-") {
        Some("such a field says how a message travels, which the host does")
    } else if FORWARDING.contains(&plain.as_str()) || plain.starts_with("x-forwarded-") {
        Some("such a field would make the server take the request for another one")
    } else {
        None
    }
}

/// Whether a field of that name is nothing but the credential of the request.
pub(crate) fn is_credential(name: &str) -> bool {
    ["token", "auth", "authentication", "access_token", "access-token"]
        .contains(&name.to_ascii_lowercase().as_str())
}

/// Whether what is called so, in small letters with hyphens, is a secret.
pub(crate) fn lends_authority(plain: &str) -> bool {
    AUTHORITY.contains(&plain)
        || AUTHORITY_PARTS.iter().any(|part| plain.contains(part))
        || plain.ends_with("-token")
        || plain.starts_with("x-auth")
        || plain.ends_with("-auth")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lends_authority_or_frames_a_message_is_refused_in_every_spelling() {
        for name in [
            "Authorization",
            "X-API-Key",
            "x_api_key",
            "PRIVATE-TOKEN",
            "Host",
            "Proxy-Foo",
            "X-Forwarded-For",
            "é",
            "",
        ] {
            assert!(refused(name).is_some(), "{name}");
        }
        for name in ["X-Trace", "Accept-Language", "Idempotency-Key", "If-Match", "X-GitHub-Api-Version"] {
            assert_eq!(refused(name), None, "{name}");
        }
    }
}
