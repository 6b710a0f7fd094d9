//! The challenge of a registry that wants a login (RFC 9110, section 11.6.1).

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// A challenge that the client can answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User and password in the request itself.
    Basic,
    /// A token of the realm (Docker's token authentication).
    Bearer {
        /// The URL of the server that gives tokens.
        realm: String,
        /// The name of the registry at that server.
        service: Option<String>,
    },
}

impl Challenge {
    /// Finds the first challenge of a known scheme.
    pub(super) fn find(headers: &HeaderMap) -> Option<Self> {
        headers.get_all(WWW_AUTHENTICATE).iter().find_map(|value| Self::parse(value.to_str().ok()?))
    }

    fn parse(text: &str) -> Option<Self> {
        let (scheme, parameters) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let find = |name: &str| parameters_of(parameters).find(|(key, _)| key.eq_ignore_ascii_case(name));
        let value = |name: &str| find(name).map(|(_, value)| value.to_owned());
        Some(Self::Bearer { realm: value("realm")?, service: value("service") })
    }
}

/// Names and values; a quoted value may have commas.
fn parameters_of(mut text: &str) -> impl Iterator<Item = (&str, &str)> {
    std::iter::from_fn(move || {
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => (rest.split(',').next()?, &rest[rest.find(',').unwrap_or(rest.len())..]),
        };
        text = rest.trim_start_matches([',', ' ']);
        Some((name.trim(), value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o1_challenges_are_read() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.into(), service: service.map(str::to_owned) })
        };
        for (text, expected) in [
            ("Basic realm=\"a\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://a.example/token\",service=\"b\",scope=\"repository:c:pull,push\"",
                bearer("https://a.example/token", Some("b")),
            ),
            ("Bearer scope=\"x,realm=y\", Realm=https://a.example/t", bearer("https://a.example/t", None)),
            ("Bearer service=\"b\"", None),
            ("Bearer realm=\"unfinished", None),
            ("Digest realm=\"a\"", None),
            ("", None),
        ] {
            assert_eq!(Challenge::parse(text), expected, "{text}");
        }
    }
}
