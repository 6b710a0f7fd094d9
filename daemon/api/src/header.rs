//! Header field names: which ones definitions, imports and credentials must not set.
//!
//! One table for the host and the built-in plugins. Comparison ignores ASCII case and reads `_` as `-`, as some servers do.

/// Longest name of a field, in bytes.
const NAME_BYTES: usize = 100;

/// Fields about one connection (RFC 9110, 7.6.1).
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that place a request in a trace (W3C Trace Context). A guest could otherwise write into other traces.
const TRACE_CONTEXT: [&str; 2] = ["traceparent", "tracestate"];

/// Request fields that the host sets itself.
const SET_BY_HOST: [&str; 5] = ["accept-encoding", "content-length", "expect", "host", "http2-settings"];

/// Further fields about framing, coding and routing of a message.
const FRAMING: [&str; 7] = [
    "content-encoding",
    "content-range",
    "content-type",
    "date",
    "max-forwards",
    "upgrade-insecure-requests",
    "via",
];

/// Fields by which a proxy says for whom it asks, or which path, host or method it means.
const FORWARDING: [&str; 10] = [
    "cf-connecting-ip",
    "client-ip",
    "fastly-client-ip",
    "forwarded",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-forwarded",
    "x-host",
    "x-real-ip",
];
const FORWARDING_PREFIXES: [&str; 6] = [
    "x-forwarded-",
    "x-http-host-override",
    "x-http-method",
    "x-method-override",
    "x-original-",
    "x-rewrite-",
];

/// Fields that carry a credential, a cookie or a signature.
const CREDENTIALS: [&str; 11] = [
    "apikey",
    "auth",
    "authentication",
    "authentication-info",
    "cookie",
    "cookie2",
    "set-cookie",
    "token",
    "www-authenticate",
    "x-csrf",
    "x-xsrf",
];
/// Parts of other names of such fields.
const CREDENTIAL_PARTS: [&str; 12] = [
    "access-key",
    "api-key",
    "apikey",
    "auth-key",
    "authorization",
    "credential",
    "passwd",
    "password",
    "secret",
    "session-id",
    "signature",
    "subscription-key",
];

/// Why a definition must not set a header field. As text, the predicate of a sentence about the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForbiddenHeader {
    /// The name is no token of at most 100 bytes.
    #[error("has a name that is not a valid header name")]
    NotAName,
    /// The field is a credential, a cookie or a signature.
    #[error("carries a credential, which only the host sets")]
    Credential,
    /// The field is about framing, coding or routing of the message.
    #[error("controls message framing, which only the host sets")]
    Framing,
    /// The field places the request in a trace.
    #[error("places the request in a trace, which only the host does (`trace_context`)")]
    TraceContext,
    /// The field makes a server treat the request as another one.
    #[error("makes the server treat the request as a different one")]
    Forwarding,
}

/// Returns why a definition must not set this field, or `None` if it may.
pub fn forbidden_header(name: &str) -> Option<ForbiddenHeader> {
    let normal = normalize(name);
    if !is_token(name) || name.len() > NAME_BYTES {
        Some(ForbiddenHeader::NotAName)
    } else if carries_credential(name) {
        Some(ForbiddenHeader::Credential)
    } else if TRACE_CONTEXT.contains(&normal.as_str()) {
        Some(ForbiddenHeader::TraceContext)
    } else if is_framing(name) {
        Some(ForbiddenHeader::Framing)
    } else if FORWARDING.contains(&normal.as_str())
        || FORWARDING_PREFIXES.iter().any(|prefix| normal.starts_with(prefix))
    {
        Some(ForbiddenHeader::Forwarding)
    } else {
        None
    }
}

/// Whether a field or parameter of that name is a secret.
pub fn carries_credential(name: &str) -> bool {
    let normal = normalize(name);
    CREDENTIALS.contains(&normal.as_str())
        || CREDENTIAL_PARTS.iter().any(|part| normal.contains(part))
        || normal.ends_with("-token")
        || normal.starts_with("x-auth")
        || normal.ends_with("-auth")
}

/// Whether the field is about framing, coding or routing of a message.
pub fn is_framing(name: &str) -> bool {
    let normal = normalize(name);
    is_set_by_host(&normal) || FRAMING.contains(&normal.as_str()) || normal.starts_with("proxy-")
}

/// Whether the host sets or removes this request field, a lower-case name.
pub fn is_set_by_host(name: &str) -> bool {
    is_hop_by_hop(name) || SET_BY_HOST.contains(&name) || TRACE_CONTEXT.contains(&name)
}

/// Whether the field, a lower-case name, is about one connection only.
pub fn is_hop_by_hop(name: &str) -> bool {
    HOP_BY_HOP.contains(&name)
}

/// Whether the text is a token (RFC 9110, 5.6.2), the grammar of field names.
pub fn is_token(text: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

fn normalize(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Returns a parameter of a `WWW-Authenticate` field (RFC 9110, section 11.6.1), without its quotes. A value with a quote
/// inside ends there.
pub fn challenge_parameter<'a>(challenges: &'a str, name: &str) -> Option<&'a str> {
    let is_start = |at: usize| challenges[..at].ends_with([' ', ',', '\t']) || at == 0;
    challenges.match_indices(name).filter(|(at, _)| is_start(*at)).find_map(|(at, _)| {
        let value = challenges[at + name.len()..].trim_start().strip_prefix('=')?.trim_start();
        let value = match value.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => value.split([',', ' ']).next(),
        };
        value.filter(|value| !value.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_and_framing_fields_are_forbidden_in_every_spelling() {
        for (name, why) in [
            ("Authorization", ForbiddenHeader::Credential),
            ("Proxy-Authorization", ForbiddenHeader::Credential),
            ("X-API-Key", ForbiddenHeader::Credential),
            ("x_api_key", ForbiddenHeader::Credential),
            ("PRIVATE-TOKEN", ForbiddenHeader::Credential),
            ("Host", ForbiddenHeader::Framing),
            ("Content_Type", ForbiddenHeader::Framing),
            ("Proxy-Foo", ForbiddenHeader::Framing),
            ("X-Forwarded-For", ForbiddenHeader::Forwarding),
            ("X-HTTP-Method-Override", ForbiddenHeader::Forwarding),
            ("Traceparent", ForbiddenHeader::TraceContext),
            ("tracestate", ForbiddenHeader::TraceContext),
            ("é", ForbiddenHeader::NotAName),
            ("", ForbiddenHeader::NotAName),
        ] {
            assert_eq!(forbidden_header(name), Some(why), "{name}");
        }
        for name in ["X-Trace", "Accept-Language", "Idempotency-Key", "If-Match", "X-GitHub-Api-Version"] {
            assert_eq!(forbidden_header(name), None, "{name}");
        }
    }
}
