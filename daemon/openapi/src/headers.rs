//! Header fields that cannot be arguments: those that carry credentials, and those that control message framing.
//!
//! The built-in plugin `api` refuses a definition that sets one of them. An action that requires one is left out here with
//! the reason; this list must be at least as long as that of the plugin.

/// Fields that the host sets, or that concern one connection (RFC 9110, 7.6.1).
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

/// Fields in which a proxy states the original client, or which override path, host or method.
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

/// Fields that carry a credential.
const CREDENTIALS: [&str; 8] =
    ["cookie", "cookie2", "set-cookie", "token", "apikey", "authentication", "auth", "x-csrf"];

/// Substrings of the names of further fields that carry a credential.
const CREDENTIAL_PARTS: [&str; 12] = [
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

const NAME_BYTES: usize = 100;

/// Why a header field cannot be an argument; none if it can.
pub(crate) fn refusal_reason(name: &str) -> Option<&'static str> {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    // Some servers treat an underscore as a hyphen.
    let plain = name.to_ascii_lowercase().replace('_', "-");
    if name.is_empty() || name.len() > NAME_BYTES || !name.bytes().all(is_sign) {
        Some("its name is not a valid header name")
    } else if carries_credential(&plain) {
        Some("such a header carries a credential, which only the host sets")
    } else if FRAMING.contains(&plain.as_str()) || plain.starts_with("proxy-") {
        Some("such a header controls message framing, which only the host sets")
    } else if FORWARDING.contains(&plain.as_str()) || plain.starts_with("x-forwarded-") {
        Some("such a header makes the server treat the request as a different one")
    } else {
        None
    }
}

/// Whether a header of that name only repeats the credential of the request.
pub(crate) fn repeats_credential(name: &str) -> bool {
    ["token", "auth", "authentication", "access_token", "access-token"]
        .contains(&name.to_ascii_lowercase().as_str())
}

/// Whether a name, in lower case with hyphens, is that of a secret.
pub(crate) fn carries_credential(plain: &str) -> bool {
    CREDENTIALS.contains(&plain)
        || CREDENTIAL_PARTS.iter().any(|part| plain.contains(part))
        || plain.ends_with("-token")
        || plain.starts_with("x-auth")
        || plain.ends_with("-auth")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_and_framing_headers_are_refused_in_every_spelling() {
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
            assert!(refusal_reason(name).is_some(), "{name}");
        }
        for name in ["X-Trace", "Accept-Language", "Idempotency-Key", "If-Match", "X-GitHub-Api-Version"] {
            assert_eq!(refusal_reason(name), None, "{name}");
        }
    }
}
