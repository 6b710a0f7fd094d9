//! `toolgate plugin key`: the keys that prove who published a plugin file.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolgate_api::document::{DocumentAccepted, DocumentEntry};
use toolgate_api::publisher::PublisherKeyDocument;

use crate::ask;
use crate::audit::now_ms;
use crate::client::{Client, escape};
use crate::document;
use crate::failure::{Failure, Result};
use crate::list;
use crate::print::{Printer, time_from};

#[derive(Subcommand)]
pub enum KeyCommand {
    /// List the keys
    List(Owner),
    /// Show a key
    Show(Key),
    /// Add a key, or replace it whole
    Put(Put),
    /// Revoke a key: it verifies nothing any more
    Revoke(Key),
    /// Remove a key
    Remove(Key),
}

#[derive(Args)]
pub struct Owner {
    /// The organization whose key it is; without it, the platform's
    #[arg(long, visible_alias = "org", value_name = "ORG")]
    organization: Option<String>,
}

#[derive(Args)]
pub struct Key {
    /// The key's name, like `acme-2026`
    name: String,
    #[command(flatten)]
    owner: Owner,
}

#[derive(Args)]
pub struct Put {
    #[command(flatten)]
    key: Key,
    /// The publisher, as its plugins name it
    #[arg(long)]
    publisher: String,
    /// The public key, which `toolgate plugin keygen` prints
    #[arg(long, value_name = "ed25519:BASE64")]
    public_key: String,
    /// A namespace that the key may publish: `crm`, `billing-*` or `*`; several may be given
    #[arg(long = "namespace", value_name = "NS", required = true)]
    namespaces: Vec<String>,
    /// When it begins to verify loads, such as `2026-11-26T08:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = time_from)]
    valid_from: Option<u64>,
    /// When it stops to verify loads, such as `2027-11-26T08:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = time_from)]
    valid_until: Option<u64>,
}

pub(super) async fn run(command: KeyCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        KeyCommand::List(owner) => list::all(client, printer, &owner.path(), HEADINGS, row).await,
        KeyCommand::Show(key) => {
            let document: Value = client.get(&key.path()).send().await?.body;
            Ok(printer.json(&document)?)
        }
        KeyCommand::Put(key) => put(client, printer, &key).await,
        KeyCommand::Revoke(key) => {
            ask::before_removal(printer, &format!("the key `{}` from those that verify", key.name))?;
            let mut current = client.get(&key.path()).send::<Value>().await?;
            current.body["revoked"] = json!(true);
            let put = client.put(&key.path()).json(&current.body).replacing(current.etag.as_deref());
            let accepted: DocumentAccepted = put.send().await?.body;
            let line = format!(
                "the key `{}` is revoked; versions that it signed serve on until they are replaced",
                key.name
            );
            Ok(printer.result(&accepted, &line)?)
        }
        KeyCommand::Remove(key) => {
            ask::before_removal(printer, &format!("the key `{}`", key.name))?;
            document::delete(client, &key.path()).await?;
            let line = format!("the key `{}` is removed", key.name);
            Ok(printer.result(&json!({"removed": key.name}), &line)?)
        }
    }
}

async fn put(client: &Client, printer: &mut Printer<'_>, put: &Put) -> Result {
    let (path, name) = (put.key.path(), &put.key.name);
    let current = document::current::<PublisherKeyDocument>(client, &path).await?;
    if current.as_ref().is_some_and(|current| current.body.revoked) {
        return Err(Failure::new(
            format!("the key `{name}` is revoked, and stays so"),
            "make another key with `toolgate plugin keygen`, and put it under a new name",
        ));
    }
    let etag = current.as_ref().and_then(|current| current.etag.as_deref());
    let request = client.put(&path).json(&put.document()).replacing(etag);
    let accepted: DocumentAccepted = request.send().await?.body;
    document::warn(printer, &accepted.warnings)?;
    Ok(printer.result(&accepted, &format!("the key `{name}` is stored"))?)
}

impl Owner {
    fn path(&self) -> String {
        match &self.organization {
            None => "/v1/platform/publisher-keys".to_owned(),
            Some(organization) => format!("/v1/orgs/{}/publisher-keys", escape(organization)),
        }
    }
}

impl Key {
    fn path(&self) -> String {
        format!("{}/{}", self.owner.path(), escape(&self.name))
    }
}

impl Put {
    fn document(&self) -> Value {
        let mut document = json!({
            "publisher": self.publisher, "public_key": self.public_key, "namespaces": self.namespaces,
        });
        for (name, time) in [("valid_from", self.valid_from), ("valid_until", self.valid_until)] {
            if let Some(time) = time {
                document[name] = json!(time);
            }
        }
        document
    }
}

const HEADINGS: [&str; 5] = ["NAME", "PUBLISHER", "NAMESPACES", "STATE", "KEY"];

fn row(entry: &DocumentEntry<PublisherKeyDocument>) -> [String; 5] {
    let document = &entry.document;
    let namespaces = match serde_json::to_value(&document.namespaces).unwrap_or_default() {
        Value::String(all) => all,
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    };
    [
        entry.name.clone(),
        document.publisher.clone(),
        namespaces,
        state(document, now_ms()).to_owned(),
        document.public_key.clone(),
    ]
}

fn state(document: &PublisherKeyDocument, now_ms: u64) -> &'static str {
    match document {
        _ if document.revoked => "revoked",
        _ if document.valid_from.is_some_and(|from| now_ms < from) => "not yet valid",
        _ if document.valid_until.is_some_and(|until| until <= now_ms) => "expired",
        _ => "valid",
    }
}

#[cfg(test)]
mod tests {
    use toolgate_api::error::{CallError, ErrorType};

    use super::*;
    use crate::client::testing::Canned;
    use crate::testing::{Run, run_with};

    async fn run_command(command: KeyCommand, answers: Vec<Canned>) -> Run {
        run_with(answers, false, async |client, printer| run(command, client, printer).await).await
    }

    fn key(organization: Option<&str>) -> Key {
        Key { name: "acme-2026".into(), owner: Owner { organization: organization.map(str::to_owned) } }
    }

    fn put_of(key: Key) -> Put {
        Put {
            key,
            publisher: "acme".into(),
            public_key: "ed25519:x".into(),
            namespaces: vec!["crm".into(), "billing-*".into()],
            valid_from: None,
            valid_until: None,
        }
    }

    fn key_document() -> Value {
        json!({"publisher": "acme", "public_key": "ed25519:x", "namespaces": ["crm", "billing-*"]})
    }

    #[tokio::test]
    async fn o2_a_key_is_put_for_the_platform_or_for_an_organization() {
        let missing = Canned::refusal(CallError::new(ErrorType::NotFound, "no such key", "make it"));
        for (organization, path) in
            [(None, "/v1/platform/publisher-keys"), (Some("blue"), "/v1/orgs/blue/publisher-keys")]
        {
            let answers = vec![missing.clone(), Canned::json(201, json!({"warnings": []}))];
            let run = run_command(KeyCommand::Put(put_of(key(organization))), answers).await;
            run.result.expect("stored");
            assert_eq!(run.asked[1].line(), format!("PUT {path}/acme-2026"));
            assert_eq!(serde_json::from_str::<Value>(&run.asked[1].body).expect("JSON"), key_document());
        }
    }

    #[tokio::test]
    async fn o2_a_revoked_key_keeps_the_rest_of_its_document() {
        let answers = vec![Canned::json(200, key_document()), Canned::json(200, json!({"warnings": []}))];
        let run = run_command(KeyCommand::Revoke(key(None)), answers).await;
        run.result.expect("revoked");
        let mut revoked = key_document();
        revoked["revoked"] = json!(true);
        assert_eq!(serde_json::from_str::<Value>(&run.asked[1].body).expect("JSON"), revoked);
    }

    #[tokio::test]
    async fn o2_a_revoked_key_is_not_replaced_and_another_one_is() {
        for (revoked, requests) in [(true, 1), (false, 2)] {
            let mut current = key_document();
            current["revoked"] = json!(revoked);
            let answers = vec![Canned::json(200, current), Canned::json(200, json!({"warnings": []}))];
            let run = run_command(KeyCommand::Put(put_of(key(None))), answers).await;
            assert_eq!((run.result.is_err(), run.asked.len()), (revoked, requests));
        }
    }

    #[test]
    fn o2_the_state_of_a_key_follows_its_times() {
        let document = |more: Value| {
            let mut document = key_document();
            document.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            serde_json::from_value::<PublisherKeyDocument>(document).expect("a document")
        };
        for (more, expected) in [
            (json!({}), "valid"),
            (json!({"valid_from": 5, "valid_until": 6}), "valid"),
            (json!({"valid_from": 6}), "not yet valid"),
            (json!({"valid_until": 5}), "expired"),
            (json!({"valid_until": 5, "revoked": true}), "revoked"),
        ] {
            assert_eq!(state(&document(more.clone()), 5), expected, "{more}");
        }
    }

    #[tokio::test]
    async fn o2_keys_are_listed_with_what_they_may_publish() {
        let items = json!([{"name": "acme-2026", "etag": "\"1\"", "document": key_document()}]);
        let page = Canned::json(200, json!({"items": items, "next_cursor": null}));
        let owner = Owner { organization: None };
        let run = run_command(KeyCommand::List(owner), vec![page]).await;
        run.result.expect("listed");
        assert!(run.out.contains("acme-2026  acme") && run.out.contains("crm, billing-*"), "{}", run.out);
    }
}
