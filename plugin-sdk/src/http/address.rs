//! The URL of a request, in the parts of `wasi:http`: scheme, authority, and path with query.
//!
//! Nothing is decided here. The host parses the parts again, strictly, and checks, connects to and records its own result.
//! A complete URL parser would be larger than most plugins.

use std::fmt::Write;

/// The parts of a URL, without its fragment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Address {
    pub(crate) is_tls: bool,
    /// Host, and port if the URL has one.
    pub(crate) authority: String,
    /// Begins with a slash.
    pub(crate) path_with_query: String,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, &'static str> {
        let (scheme, rest) =
            url.split_once("://").ok_or("write it completely, as `https://example.com/a`")?;
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err("only `https://` and `http://` are supported"),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
        if authority.is_empty() {
            return Err("it has no host");
        }
        if authority.contains('@') {
            return Err("leave out the part before the `@`: the host adds credentials");
        }
        if !authority.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("its host is not ASCII: write names in other scripts in their form with `xn--`");
        }
        if path.contains(char::is_control) {
            return Err("it contains a line break or another control character");
        }
        let path = path.split('#').next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            is_tls,
            authority: authority.to_owned(),
            path_with_query: format!("{slash}{}", encode(path)),
        })
    }

    /// Adds a parameter to the query.
    pub(crate) fn add_query(&mut self, name: &str, value: &str) {
        let joint = if self.path_with_query.contains('?') { '&' } else { '?' };
        let pair = form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish();
        let _ = write!(self.path_with_query, "{joint}{pair}");
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path_with_query)
    }

    /// The host without its port, for messages.
    pub(crate) fn host(&self) -> &str {
        match self.authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => &self.authority,
        }
    }
}

/// Percent-encodes the characters that a URL must not contain, as browsers do; existing percent signs are kept.
fn encode(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0..=b' ' | 0x7f.. => {
                let _ = write!(encoded, "%{byte:02X}");
            }
            _ => encoded.push(char::from(byte)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t2_a_url_is_split_and_characters_outside_of_urls_are_encoded() {
        for (url, sent) in [
            ("https://example.com", "https://example.com/"),
            ("HTTPS://example.com:8443?q=1#top", "https://example.com:8443/?q=1"),
            ("http://[::1]:80/a b/é?x={y}%20", "http://[::1]:80/a%20b/%C3%A9?x=%7By%7D%20"),
            ("https://example.com/a://b", "https://example.com/a://b"),
        ] {
            assert_eq!(Address::parse(url).unwrap().url(), sent, "{url}");
        }
    }

    #[test]
    fn t2_a_url_without_a_valid_destination_is_refused() {
        for url in [
            "example.com",
            "/a",
            "ftp://example.com",
            "https://",
            "https:///a",
            "https://u:p@example.com/",
            "https://exämple.com/",
            "https://exa mple.com/",
            "https://example.com/\r\nx: y",
        ] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn t2_a_query_parameter_is_added_to_existing_ones() {
        let mut address = Address::parse("https://example.com/a?b=c#d").unwrap();
        address.add_query("q", "x y&é");
        assert_eq!(address.path_with_query, "/a?b=c&q=x+y%26%C3%A9");
        assert_eq!(
            (address.host(), Address::parse("https://[::1]").unwrap().host()),
            ("example.com", "[::1]")
        );
    }
}
