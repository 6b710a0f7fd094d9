//! References to plugins in registries.

use std::fmt;
use std::str::FromStr;

use toolgate_admission::Digest;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_state::config::is_registry_host;

const SCHEME: &str = "oci://";

/// The longest reference: a host name, a repository and a digest fit.
const REFERENCE_BYTES: usize = 768;

/// The longest tag (distribution specification, "Pulling manifests").
const TAG_BYTES: usize = 128;

/// `oci://HOST[:PORT]/REPOSITORY:TAG`, or with `@sha256:…` in the place of the tag or behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    text: String,
    /// Host with an optional port, in lower case.
    pub host: String,
    /// The path of the repository in the registry.
    pub repository: String,
    /// The tag, if the reference has no digest.
    pub tag: Option<String>,
    /// The digest of the manifest.
    pub digest: Option<Digest>,
}

impl Reference {
    /// The last segment of the manifest's URL: the digest, or else the tag.
    pub fn target(&self) -> &str {
        self.digest.as_ref().map(Digest::as_str).or(self.tag.as_deref()).unwrap_or_default()
    }
}

impl FromStr for Reference {
    type Err = CallError;

    fn from_str(text: &str) -> Result<Self, CallError> {
        parse(text).ok_or_else(|| {
            CallError::new(
                ErrorType::InvalidRequest,
                "that is no reference to a plugin in a registry",
                "write it like `oci://registry.example.org/tools/weather:1.2.0`, or with `@sha256:…` instead of the tag",
            )
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

fn parse(text: &str) -> Option<Reference> {
    let named = text.strip_prefix(SCHEME).filter(|_| text.len() <= REFERENCE_BYTES)?;
    let (named, digest) = match named.split_once('@') {
        Some((named, digest)) => (named, Some(Digest::parse(digest).ok()?)),
        None => (named, None),
    };
    let (host, path) = named.split_once('/')?;
    let (repository, tag) = match path.split_once(':') {
        Some((repository, tag)) => (repository, Some(tag)),
        None => (path, None),
    };
    let is_valid = is_registry_host(host) && is_repository(repository) && tag.is_none_or(is_tag);
    (is_valid && (tag.is_some() || digest.is_some())).then(|| Reference {
        text: text.to_owned(),
        host: host.to_ascii_lowercase(),
        repository: repository.to_owned(),
        tag: tag.filter(|_| digest.is_none()).map(str::to_owned),
        digest,
    })
}

/// The host with its port, which is that of the scheme if it has none.
pub fn with_port(host: &str, plain_http: bool) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { host.to_owned() } else { format!("{host}:{}", if plain_http { 80 } else { 443 }) }
}

/// Segments of lower-case letters and digits, joined by `.`, `_`, `__` or dashes.
fn is_repository(text: &str) -> bool {
    let is_segment = |segment: &str| {
        let edge =
            |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let is_allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
        };
        let bytes = || segment.bytes();
        edge(bytes().next())
            && edge(bytes().next_back())
            && bytes().all(is_allowed)
            && !segment.contains("..")
    };
    text.split('/').all(is_segment)
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= TAG_BYTES
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    #[test]
    fn o1_a_reference_has_a_host_a_repository_and_a_tag_or_a_digest() {
        let reference: Reference = "oci://127.0.0.1:5000/tools/weather:1.2.0".parse().unwrap();
        assert_eq!((&*reference.host, &*reference.repository), ("127.0.0.1:5000", "tools/weather"));
        assert_eq!(reference.target(), "1.2.0");
        let text = format!("oci://Registry.example.org/weather:latest@{DIGEST}");
        let reference: Reference = text.parse().unwrap();
        assert_eq!((reference.target(), &*reference.host), (DIGEST, "registry.example.org"));
        assert_eq!(reference.to_string(), text);
        for text in
            ["oci://[::1]:5000/a:b", "oci://localhost/a-b/c__d/e.f:_x-1", &format!("oci://a/b@{DIGEST}")]
        {
            assert!(text.parse::<Reference>().is_ok(), "{text}");
        }
    }

    #[test]
    fn o1_a_host_without_a_port_has_that_of_its_scheme() {
        for (host, plain_http, expected) in [
            ("a.example", true, "a.example:80"),
            ("a.example", false, "a.example:443"),
            ("a.example:5000", true, "a.example:5000"),
            ("[::2]", false, "[::2]:443"),
            ("[::1]:5000", false, "[::1]:5000"),
        ] {
            assert_eq!(with_port(host, plain_http), expected);
        }
    }

    #[test]
    fn o1_what_is_no_reference_is_refused() {
        for text in [
            "",
            "oci://",
            "oci://a/b",
            "oci://a:b",
            "a/b:c",
            "https://a/b:c",
            "OCI://a/b:c",
            "oci:///b:c",
            "oci://a//b:c",
            "oci://a/../b:c",
            "oci://a/B:c",
            "oci://a/b:",
            "oci://a/b:c:d",
            "oci://a/b:c/d",
            "oci://a/b:.c",
            "oci://a/b?x:c",
            "oci://a/b%2fc:d",
            "oci://me:secret@a/b:c",
            "oci://me@a/b:c",
            "oci://a:0/b:c",
            "oci://a:70000/b:c",
            "oci://a b/c:d",
            "oci://a/b@sha256:abc",
            "oci://a/b@sha512:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            &format!("oci://a/{}:c", "b".repeat(REFERENCE_BYTES)),
            &format!("oci://a/b:{}", "c".repeat(TAG_BYTES + 1)),
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }
}
