//! The document that the owner of a mount writes.

use toolgate_api::definition::{CustomToolDefinition, DefinitionKind};
use toolgate_api::read::ReadError;
use toolgate_api::text::hidden_character;
use toolgate_sdk::Error;
use toolgate_sdk::serde_json::{Value, json};

use crate::address::{self, Address};
use crate::header;

/// A mount.
#[derive(Debug)]
pub struct Document {
    pub namespace: String,
    pub definition: CustomToolDefinition,
    pub address: Address,
    pub headers: Vec<(String, String)>,
}

/// Reads the envelope: the namespace, and the owner's document.
pub fn read(envelope: &Value) -> Result<Document, Error> {
    let namespace = envelope.get("namespace").and_then(Value::as_str);
    let namespace = namespace.ok_or_else(|| Error::new("the definition comes without its namespace"))?;
    read_document(namespace, envelope.get("definition").unwrap_or(&Value::Null)).map_err(|error| {
        Error::invalid(error.message).with_details(json!({"pointer": error.place, "hint": error.hint}))
    })
}

fn read_document(namespace: &str, document: &Value) -> Result<Document, ReadError> {
    let definition = CustomToolDefinition::read(document, DefinitionKind::Mcp)?;
    if definition.display_name.as_deref().and_then(hidden_character).is_some() {
        let hint = "leave out control, bidirectional and invisible characters";
        return Err(ReadError::new("/display_name", "the text holds a hidden character", hint));
    }
    let Some(url) = &definition.url else {
        return Err(ReadError::new("", "the field `url` is missing", "add `url`"));
    };
    let token_url = definition.authentication.as_ref().and_then(|written| written.token_url.as_ref());
    if let Some(url) = token_url
        && address::read("/authentication/token_url", url)?.scheme != "https"
    {
        return Err(ReadError::new(
            "/authentication/token_url",
            "a token is fetched over TLS alone",
            "write an address with `https://`",
        ));
    }
    Ok(Document {
        namespace: namespace.to_owned(),
        address: address::read("/url", url)?,
        headers: header::read(&definition.headers)?,
        definition,
    })
}
