//! `toolgate plugin key`: the keys that prove who published a plugin file.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolgate_api::document::{DocumentAccepted, DocumentEntry};
use toolgate_api::publisher::PublisherKeyDocument;

use crate::client::{Client, escape};
use crate::document;
use crate::failure::Failure;
use crate::print::Printer;

#[derive(Subcommand)]
pub enum KeyCommand {
    /// List the keys
    List {
        #[command(flatten)]
        owner: Owner,
    },
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
    #[arg(long, value_name = "ORG")]
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
    /// When it begins to verify loads, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    valid_from: Option<u64>,
    /// When it stops to verify loads, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    valid_until: Option<u64>,
}

pub async fn run(command: KeyCommand, client: &Client, printer: &mut Printer<'_>) -> Result<(), Failure> {
    match command {
        KeyCommand::List { owner } => {
            let keys: Vec<DocumentEntry<PublisherKeyDocument>> = client.list_all(&owner.path()).await?;
            Ok(printer.list(["NAME", "PUBLISHER", "NAMESPACES", "STATE", "KEY"], &keys, row)?)
        }
        KeyCommand::Show(key) => {
            let document: Value = client.get(&key.path()).send().await?.body;
            Ok(printer.json(&document)?)
        }
        KeyCommand::Put(put) => {
            let body = put.document().to_string();
            let path = put.key.path();
            let accepted: DocumentAccepted = document::put::<Value, _>(client, &path, |_| body).await?.body;
            document::warn(printer, &accepted.warnings)?;
            let line = format!("the key `{}` verifies signatures from now on", put.key.name);
            Ok(printer.result(&accepted, &line)?)
        }
        KeyCommand::Revoke(key) => {
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
            document::delete(client, &key.path()).await?;
            let line = format!("the key `{}` is removed", key.name);
            Ok(printer.result(&json!({"removed": key.name}), &line)?)
        }
    }
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

fn row(entry: &DocumentEntry<PublisherKeyDocument>) -> [String; 5] {
    let document = &entry.document;
    let namespaces = match serde_json::to_value(&document.namespaces).unwrap_or_default() {
        Value::String(all) => all,
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    };
    let state = if document.revoked { "revoked" } else { "valid" };
    [
        entry.name.clone(),
        document.publisher.clone(),
        namespaces,
        state.to_owned(),
        document.public_key.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::Canned;
    use crate::testing::{Run, run_with};

    async fn run_command(command: KeyCommand, answers: Vec<Canned>) -> Run {
        run_with(answers, false, async |client, printer| run(command, client, printer).await).await
    }

    fn key(organization: Option<&str>) -> Key {
        Key { name: "acme-2026".into(), owner: Owner { organization: organization.map(str::to_owned) } }
    }

    fn stored() -> Value {
        json!({"publisher": "acme", "public_key": "ed25519:x", "namespaces": ["crm", "billing-*"]})
    }

    #[tokio::test]
    async fn o2_a_key_is_put_for_the_platform_or_for_an_organization() {
        let missing = Canned::json(404, json!({"type": "about:blank", "status": 404}));
        for (organization, path) in
            [(None, "/v1/platform/publisher-keys"), (Some("blue"), "/v1/orgs/blue/publisher-keys")]
        {
            let put = Put {
                key: key(organization),
                publisher: "acme".into(),
                public_key: "ed25519:x".into(),
                namespaces: vec!["crm".into(), "billing-*".into()],
                valid_from: None,
                valid_until: None,
            };
            let answers = vec![missing.clone(), Canned::json(201, json!({"warnings": []}))];
            let run = run_command(KeyCommand::Put(put), answers).await;
            run.result.expect("stored");
            assert_eq!(run.asked[1].line(), format!("PUT {path}/acme-2026"));
            assert_eq!(serde_json::from_str::<Value>(&run.asked[1].body).expect("JSON"), stored());
        }
    }

    #[tokio::test]
    async fn o2_a_revoked_key_keeps_the_rest_of_its_document() {
        let answers = vec![Canned::json(200, stored()), Canned::json(200, json!({"warnings": []}))];
        let run = run_command(KeyCommand::Revoke(key(None)), answers).await;
        run.result.expect("revoked");
        let mut revoked = stored();
        revoked["revoked"] = json!(true);
        assert_eq!(serde_json::from_str::<Value>(&run.asked[1].body).expect("JSON"), revoked);
    }

    #[tokio::test]
    async fn o2_keys_are_listed_with_what_they_may_publish() {
        let items = json!([{"name": "acme-2026", "etag": "\"1\"", "document": stored()}]);
        let page = Canned::json(200, json!({"items": items, "next_cursor": null}));
        let owner = Owner { organization: None };
        let run = run_command(KeyCommand::List { owner }, vec![page]).await;
        run.result.expect("listed");
        assert!(run.out.contains("acme-2026  acme") && run.out.contains("crm, billing-*"), "{}", run.out);
    }
}
