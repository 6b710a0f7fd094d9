//! Grants of plugins and tools: shown, replaced, extended, and returned to an earlier revision.

use clap::Args;
use serde_json::{Value, json};
use toolgate_api::document::DocumentAccepted;
use toolgate_api::plugin::CapabilitiesView;

use crate::ask::asks;
use crate::client::Client;
use crate::differences::differences;
use crate::document::{self, document_from};
use crate::failure::{Failure, Result};
use crate::history::{self, DocumentName, HistoryOptions, RollbackOptions};
use crate::print::Printer;

/// The change that a command makes to a grant; without an option it shows the grant.
#[derive(Args, Clone, Debug, Default)]
pub struct GrantOptions {
    /// A JSON file, or `-` for standard input
    #[arg(conflicts_with_all = ["as_asked", "history", "rollback", "to"])]
    pub file: Option<String>,
    /// Add to the current grant instead of replacing it
    #[arg(long, requires = "file")]
    pub add: bool,
    /// Add what the description asks for to the current grant, after it is shown
    #[arg(long, conflicts_with_all = ["history", "rollback"])]
    pub as_asked: bool,
    /// List the kept revisions of the grant
    #[arg(long, conflicts_with = "rollback")]
    pub history: bool,
    /// Return to an earlier revision of the grant, after its differences are shown
    #[arg(long)]
    pub rollback: bool,
    /// The revision to return to [default: the one before the current one]
    #[arg(long, value_name = "REVISION", requires = "rollback")]
    pub to: Option<u64>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// Runs `toolgate plugin grant` and `toolgate tool grant`. `asked` reads the capabilities that the description asks for.
pub(crate) async fn run(
    client: &Client,
    printer: &mut Printer<'_>,
    name: &DocumentName,
    label: &str,
    options: &GrantOptions,
    asked: impl AsyncFnOnce() -> Result<CapabilitiesView>,
) -> Result {
    let set = format!("{label} has its grant, for calls from now on");
    match &options.file {
        _ if options.history => history::show(client, printer, name, &HistoryOptions::default()).await,
        _ if options.rollback => {
            let rollback = RollbackOptions { to: options.to, yes: options.yes };
            history::rollback(client, printer, name, &rollback).await
        }
        _ if options.as_asked => {
            let asked = as_grant(&asked().await?, printer)?;
            match add_asked(client, printer, name, label, &asked, options.yes).await? {
                Some(accepted) => Ok(printer.result(&accepted, &set)?),
                None => Ok(printer.result(&json!({"warnings": []}), "the grant has all of it already")?),
            }
        }
        Some(file) => {
            let accepted = write(client, printer, &name.path, file, options.add).await?;
            Ok(printer.result(&accepted, &set)?)
        }
        None => {
            let mut grant: Value = client.get(&name.path).send().await?.body;
            // The document leaves them out where they are false.
            for name in ["calls", "messages"] {
                if grant[name].is_null() {
                    grant[name] = json!(false);
                }
            }
            Ok(printer.document(&grant)?)
        }
    }
}

/// The capabilities as a grant. A grant names its hosts, so a request for every host is left out.
fn as_grant(asked: &CapabilitiesView, printer: &mut Printer<'_>) -> Result<Value> {
    let mut grant = json!({});
    if asked.filesystem == "workspace" {
        grant["filesystem"] = json!("workspace");
    }
    let network = serde_json::to_value(&asked.network).unwrap_or_default();
    let (every, named): (Vec<Value>, Vec<Value>) =
        network.as_array().cloned().unwrap_or_default().into_iter().partition(|rule| rule["host"] == "*");
    if !every.is_empty() {
        printer.warning(
            "it asks for every host: add those that it needs with `--add`, or every public host with `{\"network\": [{\"host\": \"*\"}]}`",
        )?;
    }
    // A rule for plain HTTP has an effect only with its host and port here.
    let plain = named.iter().filter(|rule| rule["scheme"] == "http").map(|rule| {
        let port = rule["port"].as_u64().unwrap_or(80);
        json!(format!("{}:{port}", rule["host"].as_str().unwrap_or_default()))
    });
    let plain: Vec<Value> = plain.collect();
    if !plain.is_empty() {
        grant["plain_http"] = Value::Array(plain);
    }
    if !named.is_empty() {
        grant["network"] = Value::Array(named);
    }
    if !asked.credentials.is_empty() {
        grant["credentials"] = json!(asked.credentials);
    }
    for (name, is_asked) in [("calls", asked.calls), ("messages", asked.messages)] {
        if is_asked {
            grant[name] = json!(true);
        }
    }
    Ok(grant)
}

/// Merges the capabilities into the current grant, after a question. Returns `None` if that changes nothing.
async fn add_asked(
    client: &Client,
    printer: &mut Printer<'_>,
    name: &DocumentName,
    label: &str,
    asked: &Value,
    yes: bool,
) -> Result<Option<DocumentAccepted>> {
    let current = document::current::<Value>(client, &name.path).await?;
    let before = current.as_ref().map_or_else(|| json!({}), |current| current.body.clone());
    let after: Value = serde_json::from_str(&with(&before, &asked.to_string())).unwrap_or_default();
    let lines = differences(&before, &after);
    if lines.is_empty() {
        return Ok(None);
    }
    for line in &lines {
        printer.note(line)?;
    }
    if !yes && !asks(&format!("Grant this to {label}? [y/N] "))? {
        let hint = "nothing is changed; add `--yes` to grant it without a question";
        return Err(Failure::new(format!("nothing was granted to {label}"), hint));
    }
    let etag = current.as_ref().and_then(|current| current.etag.as_deref());
    let put = client.put(&name.path).json(&after).replacing(etag);
    let accepted: DocumentAccepted = put.send().await?.body;
    document::warn(printer, &accepted.warnings)?;
    Ok(Some(accepted))
}

/// Replaces a grant with the document of a file, or merges that into it.
async fn write(
    client: &Client,
    printer: &mut Printer<'_>,
    path: &str,
    file: &str,
    add: bool,
) -> Result<DocumentAccepted> {
    let text = document_from(file)?;
    let body = |before: Option<&Value>| match before.filter(|_| add) {
        Some(before) => with(before, &text),
        None => text,
    };
    let accepted: DocumentAccepted = document::put(client, path, body).await?.body;
    document::warn(printer, &accepted.warnings)?;
    Ok(accepted)
}

/// Merges two grants: lists are joined, and other fields of the added grant replace those of the first.
fn with(before: &Value, added: &str) -> String {
    let Ok(Value::Object(added_members)) = serde_json::from_str(added) else { return added.to_owned() };
    let mut grant = before.as_object().cloned().unwrap_or_default();
    for (name, value) in added_members {
        match (grant.get_mut(&name), value) {
            (Some(Value::Array(list)), Value::Array(more)) => {
                let new: Vec<Value> = more.into_iter().filter(|item| !list.contains(item)).collect();
                list.extend(new);
            }
            (_, value) => drop(grant.insert(name, value)),
        }
    }
    Value::Object(grant).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::Canned;
    use crate::testing::run_with;

    fn capabilities(hosts: &[&str]) -> CapabilitiesView {
        let network: Vec<Value> = hosts.iter().map(|host| json!({"scheme": "https", "host": host})).collect();
        serde_json::from_value(
            json!({"filesystem": "workspace", "network": network, "credentials": ["stripe"]}),
        )
        .expect("capabilities")
    }

    #[tokio::test]
    async fn what_is_asked_for_is_added_to_the_current_grant() {
        let before = Canned::json(200, json!({"network": [], "private_networks": ["10.1.0.0/16"]}));
        let answers = vec![before.with_etag("\"3\""), Canned::json(200, json!({"warnings": []}))];
        let options = GrantOptions { as_asked: true, yes: true, ..GrantOptions::default() };
        let run = run_with(answers, false, async |client, printer| {
            let name = DocumentName::grant("shop");
            let asked = async || Ok::<_, Failure>(capabilities(&["a.example", "*"]));
            run(client, printer, &name, "plugin `shop`", &options, asked).await
        })
        .await;
        run.result.expect("granted");
        assert_eq!(run.asked[1].line(), "PUT /v1/plugins/shop/grant");
        assert_eq!(run.asked[1].header("if-match"), Some("\"3\""));
        let sent: Value = serde_json::from_str(&run.asked[1].body).expect("json");
        assert_eq!(
            (&sent["filesystem"], &sent["private_networks"][0]),
            (&json!("workspace"), &json!("10.1.0.0/16"))
        );
        assert_eq!(sent["network"].as_array().map(Vec::len), Some(1), "{sent}");
        assert!(run.notes.contains("it asks for every host"), "{}", run.notes);
    }

    #[test]
    fn lists_are_joined_and_other_fields_replaced() {
        let before = json!({"network": [{"host": "a"}], "filesystem": "none", "credentials": ["x"]});
        let added = r#"{"network": [{"host": "a"}, {"host": "b"}], "filesystem": "workspace"}"#;
        let merged: Value = serde_json::from_str(&with(&before, added)).expect("json");
        let expected = json!({"network": [{"host": "a"}, {"host": "b"}], "filesystem": "workspace", "credentials": ["x"]});
        assert_eq!(merged, expected);
    }
}
