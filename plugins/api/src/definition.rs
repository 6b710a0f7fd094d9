//! Checks a definition of kind `http`, and compiles its actions to plans.
//!
//! Everything that a call relies on is checked here, so that a call cannot meet a bad definition.
//! [`toolgate_api::definition`] has the fields and the rules for each of them alone.

mod base;
mod headers;

mod action;
mod placement;
mod template;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_api::definition::{CustomToolDefinition, DefinitionKind};
use toolgate_api::read::ReadError;
use toolgate_sdk::Error;

pub use action::Action;
pub use base::Base;

/// Longest document, as JSON. Its description has the schemas once more, beside the plans, and may have 4 MiB.
const DOCUMENT_BYTES: usize = 2 * 1024 * 1024;

/// Longest URL that is only noted.
const URL_BYTES: usize = 2_000;

/// A document that makes a plugin.
pub struct Definition {
    pub namespace: String,
    /// Without its actions.
    pub document: CustomToolDefinition,
    pub base: Base,
    pub actions: Vec<Action>,
}

/// The document and the discovery that the daemon hands over.
#[derive(Deserialize)]
struct Envelope {
    namespace: String,
    definition: Value,
}

impl Definition {
    /// Reads a document in its envelope. The details of an error have `pointer`, the place in the document, and `hint`.
    pub fn read(envelope: &str) -> Result<Self, Error> {
        let refusal = |error: ReadError| {
            Error::invalid(error.message).with_details(json!({"pointer": error.place, "hint": error.hint}))
        };
        if envelope.len() > DOCUMENT_BYTES {
            let message = format!("the definition has more than {DOCUMENT_BYTES} bytes");
            return Err(refusal(ReadError::new("", message, "shorten it, or make two tools of it")));
        }
        let Envelope { namespace, definition } = serde_json::from_str(envelope)?;
        CustomToolDefinition::read(&definition, DefinitionKind::Http)
            .and_then(|document| compile(namespace, document))
            .map_err(refusal)
    }
}

fn compile(namespace: String, mut document: CustomToolDefinition) -> Result<Definition, ReadError> {
    let base = base::read(document.base_url.as_deref())?;
    check_authentication(&document, &base)?;
    let shared = action::Shared {
        namespace: &namespace,
        base: &base,
        headers: headers::read(&document.headers)?,
        has_credential: document.provider().is_some(),
        safe_methods: document.safe_methods.unwrap_or_default(),
    };
    let hint = "declare at least one in `actions`: each becomes a tool";
    let definitions = match document.actions.take() {
        None => return Err(ReadError::new("", "the field `actions` is missing", hint)),
        Some(empty) if empty.is_empty() => {
            return Err(ReadError::new("/actions", "there are no actions", hint));
        }
        Some(definitions) => definitions,
    };
    let mut names = BTreeMap::new();
    let mut actions = Vec::with_capacity(definitions.len());
    for (index, definition) in definitions.into_iter().enumerate() {
        let place = format!("/actions/{index}");
        let action = action::compile(&place, definition, &shared)?;
        if let Some(other) = names.insert(action.name.clone(), action.definition.name.clone()) {
            let message = format!("it and the action `{other}` would both be the tool `{}`", action.name);
            return Err(ReadError::new(format!("{place}/name"), message, "give each action its own name"));
        }
        actions.push(action);
    }
    Ok(Definition { namespace, document, base, actions })
}

fn check_authentication(document: &CustomToolDefinition, base: &Base) -> Result<(), ReadError> {
    if document.provider().is_some() && !base.is_tls {
        return Err(ReadError::new(
            "/authentication",
            "a credential is not sent without TLS, and `base_url` is plain HTTP",
            "write `https://` in `base_url`, or leave `authentication` out",
        ));
    }
    let is_good = |url: &String| {
        url.starts_with("https://")
            && !url.contains('@')
            && url.len() <= URL_BYTES
            && url.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match document.authentication.as_ref().and_then(|authentication| authentication.token_url.as_ref()) {
        Some(url) if !is_good(url) => Err(ReadError::new(
            "/authentication/token_url",
            "this is no address over TLS",
            "write it like `https://login.example.com/token`",
        )),
        _ => Ok(()),
    }
}
