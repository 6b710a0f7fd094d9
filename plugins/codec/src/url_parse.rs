//! `url_parse`: the parts of a URL.

use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};
use url::{ParseError, Url};

/// Browsers and servers take no longer ones.
const MAX_URL_BYTES: usize = 32 * 1024;

/// Takes a URL apart as a browser does: scheme, host, port, path, query and fragment, with values decoded.
///
/// With `base`, a relative URL as `../img/a.png` is resolved first. To put a value into a URL, call `encode` with
/// `percent`.
#[tool(
    read_only,
    tags("query string", "link", "host", "domain"),
    examples(
        {"url": "https://Example.com:8443/a%20b/c?q=caf%C3%A9+x&q=2#top"} => {
            "url": "https://example.com:8443/a%20b/c?q=caf%C3%A9+x&q=2#top", "scheme": "https", "host": "example.com", "port": 8443,
            "path": "/a%20b/c", "segments": ["a b", "c"],
            "query": [{"name": "q", "value": "café x"}, {"name": "q", "value": "2"}], "fragment": "top"
        },
        "relative": {"url": "../img/a.png", "base": "https://example.com/docs/start/"} => {
            "url": "https://example.com/docs/img/a.png", "scheme": "https", "host": "example.com", "port": 443,
            "path": "/docs/img/a.png", "segments": ["docs", "img", "a.png"], "query": []
        },
    )
)]
pub fn url_parse(
    /// The URL
    url: String,
    /// The URL of the page it stands on, for one that is relative
    base: Option<String>,
) -> Result<Parts, Error> {
    let base = base.map(|base| read(&base, "base", None)).transpose()?;
    Ok(Parts::from(&read(&url, "url", base.as_ref())?))
}

/// The parts of a URL.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Parts {
    /// The URL in its normal form
    pub url: String,
    pub scheme: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// In small letters, with punycode for what is not ASCII
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// As written, or the one that the scheme implies
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// As written, still encoded
    pub path: String,
    /// The names between the slashes of the path, decoded
    pub segments: Vec<String>,
    /// The pairs of the query, decoded, in their order
    pub query: Vec<Pair>,
    /// Decoded
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragment: Option<String>,
}

/// A name and its value.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pair {
    pub name: String,
    pub value: String,
}

fn read(text: &str, name: &str, base: Option<&Url>) -> Result<Url, Error> {
    if text.len() > MAX_URL_BYTES {
        return Err(Error::invalid(format!("`{name}` has {} bytes: a URL has at most 32 KiB", text.len())));
    }
    Url::options().base_url(base).parse(text).map_err(|error| {
        let hint = match error {
            ParseError::RelativeUrlWithoutBase => {
                "write it with its scheme, as `https://example.com/a`, or give its `base`"
            }
            ParseError::RelativeUrlWithCannotBeABaseBase => {
                "give a `base` with a host, as `https://example.com/`"
            }
            _ => "write it as `https://example.com:8443/path?name=value`",
        };
        Error::invalid(format!("`{name}` is no URL: {error}; {hint}"))
    })
}

impl From<&Url> for Parts {
    fn from(url: &Url) -> Self {
        let segments = url.path_segments().into_iter().flatten().filter(|segment| !segment.is_empty());
        Self {
            url: url.to_string(),
            scheme: url.scheme().to_owned(),
            username: Some(decode(url.username())).filter(|name| !name.is_empty()),
            password: url.password().map(decode),
            host: url.host_str().filter(|host| !host.is_empty()).map(str::to_owned),
            port: url.port_or_known_default(),
            path: url.path().to_owned(),
            segments: segments.map(decode).collect(),
            query: url
                .query_pairs()
                .map(|(name, value)| Pair { name: name.into_owned(), value: value.into_owned() })
                .collect(),
            fragment: url.fragment().map(decode),
        }
    }
}

/// Bytes that are no text once decoded stay encoded: nothing is lost then.
fn decode(part: &str) -> String {
    percent_decode_str(part).decode_utf8().map_or_else(|_| part.to_owned(), |text| text.into_owned())
}
