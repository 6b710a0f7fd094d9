//! What the owner of a mount writes.

use serde::{Deserialize, Serialize};
use toolgate_sdk::Error;
use toolgate_sdk::serde_json::Value;

use crate::address::{self, Address};
use crate::header;
use crate::place::Place;

/// Tools that can be named: no plugin has more.
const TOOLS: usize = 1_000;
/// Longest name of a server's tool, in characters. The specification advises 128.
pub const TOOL_NAME_CHARS: usize = 256;

/// A mount.
#[derive(Debug)]
pub struct Document {
    pub namespace: String,
    pub version: String,
    pub publisher: Option<String>,
    pub category: Option<String>,
    pub purpose: String,
    pub address: Address,
    /// The provider of the credential that the host adds.
    pub provider: Option<String>,
    pub headers: Vec<(String, String)>,
    pub rate_limit: Option<Value>,
    /// The server's names of the tools to mount; all where there is no list.
    pub only: Option<Vec<String>>,
    /// The server's names of the tools that the owner says change nothing.
    pub read_only: Vec<String>,
    pub protocol: Option<Protocol>,
}

/// The two families of the protocol.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub enum Protocol {
    /// Each request stands for itself.
    #[serde(rename = "2026-07-28")]
    Stateless,
    /// A session is opened with `initialize`.
    #[serde(rename = "2025-11-25")]
    Session,
}

impl Protocol {
    const WORDS: [(&str, Self); 2] = [("2026-07-28", Self::Stateless), ("2025-11-25", Self::Session)];
}

/// Kinds of authentication, and whether one has a credential.
const AUTHENTICATION: [(&str, bool); 6] = [
    ("none", false),
    ("api_key", true),
    ("bearer", true),
    ("basic", true),
    ("oauth2_client_credentials", true),
    ("oauth2_authorization_code", true),
];

/// Reads the envelope: the namespace, and the owner's document.
pub fn read(envelope: &Value) -> Result<Document, Error> {
    let namespace = envelope.get("namespace").and_then(Value::as_str);
    let namespace = namespace.ok_or_else(|| Error::new("the definition comes without its namespace"))?;
    read_document(namespace, &Place::root(envelope.get("definition").unwrap_or(&Value::Null)))
}

fn read_document(namespace: &str, place: &Place<'_>) -> Result<Document, Error> {
    place.fields(&[
        "kind",
        "display_name",
        "description",
        "publisher",
        "category",
        "version",
        "url",
        "authentication",
        "headers",
        "rate_limit",
        "tools",
        "read_only",
        "protocol",
    ])?;
    place.required("kind")?.one_of(&[("mcp", ())])?;
    let text = |name: &str, most_chars| -> Result<Option<String>, Error> {
        place.optional(name).map(|place| place.text(most_chars).map(str::to_owned)).transpose()
    };
    // Shown by who keeps the document; read here so that a wrong one is refused.
    text("display_name", 100)?;
    let version = place.optional("version").map_or(Ok("1"), |place| place.word(64))?;
    Ok(Document {
        namespace: namespace.to_owned(),
        version: version.to_owned(),
        publisher: text("publisher", 200)?,
        category: text("category", 100)?,
        purpose: place.required("description")?.text(2_000)?.to_owned(),
        address: address::read(&place.required("url")?)?,
        provider: place.optional("authentication").map_or(Ok(None), |place| read_provider(&place))?,
        headers: place.optional("headers").map_or(Ok(Vec::new()), |place| header::read(&place))?,
        rate_limit: place.optional("rate_limit").map(|place| read_rate_limit(&place)).transpose()?,
        only: place.optional("tools").map(|place| place.distinct(TOOLS, TOOL_NAME_CHARS)).transpose()?,
        read_only: place
            .optional("read_only")
            .map_or(Ok(Vec::new()), |place| place.distinct(TOOLS, TOOL_NAME_CHARS))?,
        protocol: place.optional("protocol").map(|place| place.one_of(&Protocol::WORDS)).transpose()?,
    })
}

fn read_provider(place: &Place<'_>) -> Result<Option<String>, Error> {
    let kind = place.required("kind")?;
    if !kind.one_of(&AUTHENTICATION)? {
        place.fields(&["kind"])?;
        return Ok(None);
    }
    match kind.str()? {
        // For whoever makes the credential.
        "oauth2_client_credentials" => place.fields(&["kind", "provider", "token_url", "scopes"])?,
        _ => place.fields(&["kind", "provider"])?,
    }
    place.optional("token_url").map(|place| read_token_url(&place)).transpose()?;
    place.optional("scopes").map(|place| place.distinct(100, 200)).transpose()?;
    Ok(Some(place.required("provider")?.word(100)?.to_owned()))
}

fn read_token_url(place: &Place<'_>) -> Result<(), Error> {
    match address::read(place)?.scheme {
        "https" => Ok(()),
        _ => Err(place.refuse("a token is fetched over TLS alone", "write an address with `https://`")),
    }
}

fn read_rate_limit(place: &Place<'_>) -> Result<Value, Error> {
    place.fields(&["calls", "seconds"])?;
    place.required("calls")?.number(1, 1_000_000)?;
    place.required("seconds")?.number(1, 86_400)?;
    Ok(place.value.clone())
}
