//! The document of a declared API, read strictly: what nothing enforces is refused, with its place and the way out.
//!
//! Everything that a call relies on is checked here, so that a call cannot meet a bad definition. What the daemon checks of
//! every plugin (whether a schema is valid, whether a text hides characters) is left to it.
//!
//! Parts of it: [`action`] and what an action is made of, [`base`] (where the API is), [`headers`] (which fields may be set).
//! [`part`] reads one value and knows its place.

mod base;
mod headers;

mod action;
mod placement;
mod template;

mod part;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_sdk::Error;

pub use action::Action;
pub use base::Base;
use part::Part;

/// Longest document, as JSON. What is described of it has its schemas once more, beside the plans, and may have 4 MiB.
const DOCUMENT_BYTES: usize = 2 * 1024 * 1024;

/// Most actions; as many as a plugin has tools at most.
const ACTIONS: usize = 1_000;

/// Most scopes. They are shown to a person.
const SCOPES: usize = 100;

/// Longest text of each kind, as the schema of descriptions has them.
const DISPLAY_NAME_CHARS: usize = 100;
const PURPOSE_CHARS: usize = 2_000;
const PUBLISHER_CHARS: usize = 200;
const CATEGORY_CHARS: usize = 100;
const VERSION_CHARS: usize = 64;
const PROVIDER_CHARS: usize = 100;

/// Longest URL that is only noted.
const URL_CHARS: usize = 2_000;

/// What a rate limit can say, as the schema of descriptions has it: one call a day is the least.
const RATE_CALLS: u64 = 1_000_000;
const RATE_SECONDS: u64 = 24 * 60 * 60;

/// What people call a secret where they write one down.
const SECRETS: [&str; 10] = [
    "secret",
    "client_secret",
    "token",
    "access_token",
    "refresh_token",
    "api_key",
    "key",
    "password",
    "username",
    "client_id",
];

/// A document that makes a plugin.
pub struct Definition {
    pub namespace: String,
    pub version: String,
    pub publisher: Option<String>,
    pub category: Option<String>,
    pub purpose: String,
    pub base: Base,
    /// Whose credential the requests carry.
    pub provider: Option<String>,
    pub rate_limit: Option<Value>,
    pub actions: Vec<Action>,
}

/// What the daemon hands over.
#[derive(Deserialize)]
struct Envelope {
    namespace: String,
    definition: Value,
}

impl Definition {
    /// Reads a document in its envelope. The details of an error have `pointer`, the place in the document, and `hint`.
    pub fn read(envelope: &str) -> Result<Self, Error> {
        if envelope.len() > DOCUMENT_BYTES {
            let message = format!("the definition has more than {DOCUMENT_BYTES} bytes");
            return Err(Error::invalid(message)
                .with_details(json!({"pointer": "", "hint": "shorten it, or make two tools of it"})));
        }
        let Envelope { namespace, definition } = serde_json::from_str(envelope)?;
        read_document(namespace, &Part::whole(&definition))
    }
}

fn read_document(namespace: String, whole: &Part<'_>) -> Result<Definition, Error> {
    whole.check_fields(&[
        "kind",
        "display_name",
        "description",
        "publisher",
        "category",
        "version",
        "base_url",
        "authentication",
        "headers",
        "rate_limit",
        "safe_methods",
        "actions",
    ])?;
    if let Some(kind) = whole.member("kind") {
        kind.one_of(&[("http", ())])?;
    }
    let display_name = whole.member("display_name");
    display_name.map(|part| part.text(DISPLAY_NAME_CHARS)).transpose()?;
    let purpose =
        whole.required("description", "say in a sentence what the API is for")?.text(PURPOSE_CHARS)?;
    let base = base::read(
        &whole.required("base_url", "write where the API is, like `https://api.example.com/v1`")?,
    )?;
    let provider =
        whole.member("authentication").map_or(Ok(None), |part| read_authentication(&part, &base))?;
    let headers = headers::read(whole.member("headers"))?;
    let shared = action::Shared {
        namespace: &namespace,
        base: &base,
        headers: &headers,
        has_credential: provider.is_some(),
        safe_methods: whole.member("safe_methods").map_or(Ok(false), |part| part.flag())?,
    };
    Ok(Definition {
        version: whole.member("version").map_or(Ok("1".to_owned()), |part| part.word(VERSION_CHARS))?,
        publisher: whole.member("publisher").map(|part| part.text(PUBLISHER_CHARS)).transpose()?,
        category: whole.member("category").map(|part| part.text(CATEGORY_CHARS)).transpose()?,
        rate_limit: whole.member("rate_limit").map(|part| read_rate_limit(&part)).transpose()?,
        actions: read_actions(whole, &shared)?,
        purpose,
        base,
        provider,
        namespace,
    })
}

/// The provider whose credential is put in. Which kind it is stands in the document for whoever makes the credential.
fn read_authentication(part: &Part<'_>, base: &Base) -> Result<Option<String>, Error> {
    refuse_secrets(part)?;
    let kind = part.required("kind", "write `none`, or what the API asks for, like `api_key`")?;
    let (has_provider, is_oauth) = kind.one_of(&[
        ("none", (false, false)),
        ("api_key", (true, false)),
        ("bearer", (true, false)),
        ("basic", (true, false)),
        ("oauth2_client_credentials", (true, true)),
        ("oauth2_authorization_code", (true, true)),
    ])?;
    let known: &[&str] = match (has_provider, is_oauth) {
        (false, _) => &["kind"],
        (true, false) => &["kind", "provider"],
        (true, true) => &["kind", "provider", "token_url", "scopes"],
    };
    part.check_fields(known)?;
    if !has_provider {
        return Ok(None);
    }
    check_oauth(part)?;
    if !base.is_tls {
        return Err(part.error(
            "a credential is not sent without TLS, and `base_url` is plain HTTP",
            "write `https://` in `base_url`, or leave `authentication` out",
        ));
    }
    let hint = "name whose credential it is, as the store of credentials does: `\"provider\":\"weather\"`";
    part.required("provider", hint)?.word(PROVIDER_CHARS).map(Some)
}

fn refuse_secrets(part: &Part<'_>) -> Result<(), Error> {
    match SECRETS.iter().find_map(|name| part.member(name)) {
        None => Ok(()),
        Some(secret) => Err(secret.error(
            "a secret or an account does not stand in a definition",
            "take it out, name a `provider`, and store the credential: `toolgate credential put ORG/NAME --provider …`",
        )),
    }
}

fn check_oauth(part: &Part<'_>) -> Result<(), Error> {
    if let Some(url) = part.member("token_url") {
        let text = url.word(URL_CHARS)?;
        if !text.starts_with("https://") || text.contains('@') {
            return Err(
                url.error("this is no address over TLS", "write it like `https://login.example.com/token`")
            );
        }
    }
    for scope in part.member("scopes").map_or(Ok(Vec::new()), |part| part.items(SCOPES))? {
        scope.word(PROVIDER_CHARS)?;
    }
    Ok(())
}

fn read_rate_limit(part: &Part<'_>) -> Result<Value, Error> {
    part.check_fields(&["calls", "seconds"])?;
    let hint = "write both, like `{\"calls\":60,\"seconds\":60}`";
    let calls = part.required("calls", hint)?.number(1, RATE_CALLS)?;
    let seconds = part.required("seconds", hint)?.number(1, RATE_SECONDS)?;
    Ok(json!({"calls": calls, "seconds": seconds}))
}

fn read_actions(whole: &Part<'_>, shared: &action::Shared<'_>) -> Result<Vec<Action>, Error> {
    let list = whole.required("actions", "declare at least one: each becomes a tool")?;
    let items = list.items(ACTIONS)?;
    if items.is_empty() {
        return Err(list.error("there are no actions", "declare at least one: each becomes a tool"));
    }
    let mut names = BTreeMap::new();
    let mut actions = Vec::with_capacity(items.len());
    for item in items {
        let action = action::read(&item, shared)?;
        if let Some(other) = names.insert(action.name.clone(), action.original_name.clone()) {
            let message = format!("it and the action `{other}` would both be the tool `{}`", action.name);
            return Err(item.below("name").error(message, "give each action its own name"));
        }
        actions.push(action);
    }
    Ok(actions)
}
