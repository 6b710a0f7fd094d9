//! `toolgate org`: manages organizations.

use clap::{Args, Subcommand};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use toolgate_api::document::{DocumentAccepted, DocumentEntry, OrganizationDocument};
use toolgate_api::token::TokenView;

use super::ask::asks;
use super::client::{Client, escape};
use super::document;
use super::enabled::{ConsentOptions, EnableOptions, accept_enabled, enable as enable_plugin, withdraw};
use super::failure::{Failure, Result};
use super::history::{DocumentArguments, DocumentCommand, DocumentName, HistoryOptions, RollbackOptions};
use super::list;
use super::print::{Printer, cell};

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate org put acme --display-name 'Acme Inc.'
  toolgate org put acme --enabled 'files/*' --enabled arithmetic/evaluate
  toolgate org put acme --connected stripe --connected resend
  toolgate org put acme --enabled 'mail/*' --accept
  toolgate org enable acme mail --accept
  toolgate org enable acme weather --settings @weather.json
  toolgate org withdraw acme mail
  toolgate org list
  toolgate org show acme
  toolgate org history acme
  toolgate org rollback acme
  toolgate org delete-data acme
  toolgate org remove acme
  toolgate org remove acme --yes";

#[derive(Subcommand)]
pub enum OrganizationCommand {
    /// Create an organization, or change the given fields of it
    Put(Put),
    /// Give an organization a plugin: enable its tools, set it up, accept what it may reach, and connect its services
    Enable(EnableOptions),
    /// Withdraw an organization's consent to a plugin, and remove its settings
    Withdraw {
        #[command(flatten)]
        organization: OrganizationName,
        /// The plugin
        namespace: String,
    },
    /// Show an organization
    #[command(alias = "get")]
    Show(OrganizationName),
    /// List the kept revisions of an organization's document, or show one
    History(DocumentCommand<OrganizationName, HistoryOptions>),
    /// Return to an earlier revision of an organization's document, after its differences are shown
    Rollback(DocumentCommand<OrganizationName, RollbackOptions>),
    /// List the organizations
    List,
    /// Remove an organization with its agents, sessions, tokens and data
    #[command(alias = "delete")]
    Remove(Deletion),
    /// Delete an organization's data: sessions with their files, messages, approvals, and arguments in the audit log
    DeleteData(Deletion),
}

#[derive(Args)]
pub struct OrganizationName {
    /// The organization
    name: String,
}

#[derive(Args)]
pub struct Put {
    #[command(flatten)]
    organization: OrganizationName,
    /// The display name
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// An integration whose credentials are stored elsewhere; replaces the whole list
    #[arg(long, value_name = "INTEGRATION")]
    connected: Option<Vec<String>>,
    /// A tool that the organization has: `namespace/tool`, `namespace/*` or `*`; replaces the whole list
    #[arg(long, value_name = "TOOL")]
    enabled: Option<Vec<String>>,
    #[command(flatten)]
    consent: ConsentOptions,
}

#[derive(Args)]
pub struct Deletion {
    #[command(flatten)]
    organization: OrganizationName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn run(command: OrganizationCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        OrganizationCommand::Put(options) => put(client, printer, options).await,
        OrganizationCommand::Enable(options) => enable_plugin(client, printer, &options).await,
        OrganizationCommand::Withdraw { organization, namespace } => {
            withdraw(client, printer, &organization.name, &namespace).await
        }
        OrganizationCommand::Show(OrganizationName { name }) => {
            document::print(client, printer, &path(&name)).await
        }
        OrganizationCommand::History(history) => history.show(client, printer).await,
        OrganizationCommand::Rollback(rollback) => rollback.roll_back(client, printer).await,
        OrganizationCommand::List => list::all(client, printer, "/v1/orgs", HEADINGS, row).await,
        OrganizationCommand::Remove(options) => delete(client, printer, &options).await,
        OrganizationCommand::DeleteData(options) => delete_data(client, printer, &options).await,
    }
}

impl DocumentArguments for OrganizationName {
    fn document(&self) -> Result<DocumentName> {
        let Self { name } = self;
        Ok(DocumentName {
            kind: "organization",
            organization: Some(name.clone()),
            name: None,
            path: path(name),
            label: format!("organization `{name}`"),
        })
    }
}

const HEADINGS: [&str; 3] = ["NAME", "DISPLAY NAME", "CONNECTED"];

fn row(entry: &DocumentEntry<OrganizationDocument>) -> [String; 3] {
    let OrganizationDocument { display_name, connected } = &entry.document;
    [entry.name.clone(), cell(display_name.as_ref()), connected.join(",")]
}

/// Creates an organization, or changes the given fields; the others keep their value.
async fn put(client: &Client, printer: &mut Printer<'_>, options: Put) -> Result {
    let Put { organization: OrganizationName { name }, display_name, connected, enabled, consent } = options;
    let body = |current: Option<&OrganizationDocument>| {
        let mut document = current.cloned().unwrap_or_default();
        document.display_name = display_name.or(document.display_name);
        document.connected = connected.unwrap_or(document.connected);
        serde_json::to_string(&document).unwrap_or_default()
    };
    let etag = document::put::<_, IgnoredAny>(client, &path(&name), body).await?.etag;
    if let Some(enabled) = enabled {
        enable(client, printer, &name, enabled).await?;
        accept_enabled(client, printer, &name, consent).await?;
    }
    let set = json!({"organization": name, "etag": etag});
    Ok(printer.result(&set, &format!("organization `{name}` is set"))?)
}

/// Deletes an organization, after a question at a terminal that names what goes with it.
async fn delete(client: &Client, printer: &mut Printer<'_>, options: &Deletion) -> Result {
    let Deletion { organization: OrganizationName { name }, yes } = options;
    let current = client.get(&path(name)).send::<IgnoredAny>().await?;
    if !yes {
        let mut counts = Vec::new();
        for list in ["agents", "tools", "credentials"] {
            let entries: Vec<IgnoredAny> = client.list_all(&format!("{}/{list}", path(name))).await?;
            counts.push(format!("{} {list}", entries.len()));
        }
        let tokens: Vec<TokenView> = client.list_all("/v1/tokens").await?;
        let tokens = tokens.iter().filter(|token| token.organization.as_deref() == Some(name)).count();
        let goes =
            format!("{}, {tokens} tokens, and every session, file, message and approval", counts.join(", "));
        if !asks(&format!("Delete `{name}` with {goes}? [y/N] "))? {
            let message = format!("organization `{name}` was not deleted; with it would go {goes}");
            return Err(Failure::new(message, "nothing brings it back; add `--yes` if you mean it"));
        }
    }
    client.delete(&path(name)).replacing(current.etag.as_deref()).send::<IgnoredAny>().await?;
    Ok(printer.result(&json!({"deleted": name}), &format!("organization `{name}` is deleted"))?)
}

/// Deletes the data of an organization, after a question at a terminal.
async fn delete_data(client: &Client, printer: &mut Printer<'_>, options: &Deletion) -> Result {
    let Deletion { organization: OrganizationName { name }, yes } = options;
    let question = format!(
        "End every session of `{name}` and delete its files, messages, approvals and recorded arguments? [y/N] "
    );
    if !yes && !asks(&question)? {
        let hint = "nothing brings it back; add `--yes` if you mean it";
        return Err(Failure::new(format!("the data of `{name}` was not deleted"), hint));
    }
    client.delete(&format!("{}/data", path(name))).send::<IgnoredAny>().await?;
    let line = format!("the data of `{name}` is deleted");
    Ok(printer.result(&json!({"deleted_data": name}), &line)?)
}

/// Writes the list into the organization's policy and keeps its other fields.
async fn enable(client: &Client, printer: &mut Printer<'_>, name: &str, enabled: Vec<String>) -> Result {
    let body = |current: Option<&Value>| {
        let mut policy = current.cloned().unwrap_or_else(|| json!({}));
        policy["enabled"] = enabled.into();
        policy.to_string()
    };
    let path = format!("{}/policy", path(name));
    let mut accepted: DocumentAccepted = document::put(client, &path, body).await?.body;
    // The consents come next, and are asked for or warned of then.
    accepted.warnings.retain(|warning| warning.code != "NO_CONSENT");
    document::warn(printer, &accepted.warnings)
}

fn path(name: &str) -> String {
    format!("/v1/orgs/{}", escape(name))
}

#[cfg(test)]
mod tests {
    use toolgate_api::error::{CallError, ErrorType};

    use super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    async fn run_command(command: OrganizationCommand, json: bool, answers: Vec<Canned>) -> Run {
        run_with(answers, json, async |client, printer| run(command, client, printer).await).await
    }

    fn put(display_name: Option<&str>, connected: Option<Vec<String>>) -> OrganizationCommand {
        OrganizationCommand::Put(Put {
            organization: acme(),
            display_name: display_name.map(Into::into),
            connected,
            enabled: None,
            consent: ConsentOptions::default(),
        })
    }

    fn acme() -> OrganizationName {
        OrganizationName { name: "acme".to_owned() }
    }

    fn missing() -> Canned {
        Canned::refusal(CallError::new(ErrorType::NotFound, "no organization `acme`", ""))
    }

    #[tokio::test]
    async fn o3_data_is_deleted_only_if_that_is_confirmed() {
        let delete = |yes| OrganizationCommand::DeleteData(Deletion { organization: acme(), yes });
        let run = run_command(delete(true), false, vec![Canned::empty(204)]).await;
        run.result.expect("done");
        assert_eq!(run.asked[0].line(), "DELETE /v1/orgs/acme/data");
        let run = run_command(delete(false), false, vec![]).await;
        run.result.expect_err("not confirmed");
        assert!(run.asked.is_empty());
    }

    #[tokio::test]
    async fn a_new_organization_is_made_as_a_new_one() {
        let run = run_command(put(Some("Acme"), None), false, vec![missing(), Canned::empty(201)]).await;
        run.result.expect("done");
        assert_eq!(run.out, "organization `acme` is set\n");
        assert_eq!(run.asked[1].line(), "PUT /v1/orgs/acme");
        assert_eq!(run.asked[1].header("if-none-match"), Some("*"));
        assert_eq!(run.asked[1].body, r#"{"display_name":"Acme","connected":[]}"#);
    }

    #[tokio::test]
    async fn what_is_not_named_stays_as_it_was() {
        let there =
            Canned::json(200, json!({"display_name": "Acme", "connected": ["stripe"]})).with_etag("\"4\"");
        let run =
            run_command(put(None, Some(vec!["resend".into()])), false, vec![there, Canned::empty(200)]).await;
        run.result.expect("done");
        assert_eq!(run.asked[1].header("if-match"), Some("\"4\""));
        assert_eq!(run.asked[1].body, r#"{"display_name":"Acme","connected":["resend"]}"#);
    }

    #[tokio::test]
    async fn tools_that_it_has_go_into_its_policy_and_the_rest_of_that_stays() {
        let mut command = put(None, None);
        if let OrganizationCommand::Put(put) = &mut command {
            put.enabled = Some(vec!["files/*".into()]);
        }
        let policy =
            Canned::json(200, json!({"disabled": ["files/delete"], "enabled": []})).with_etag("\"7\"");
        let odd = json!({"code": "UNRESOLVED_TOOL", "message": "nothing answers to it", "path": "/enabled/0", "nearest": "file/*"});
        let accepted = Canned::json(200, json!({"warnings": [odd]}));
        let waiting = json!({
            "namespace": "mail", "kind": "third_party", "purpose": null, "version": "1", "digest": "sha256:0",
            "publisher": null, "publisher_proven": false, "category": null, "prerequisites": [], "integrations": [],
            "permissions": [], "risk": {"level": "low", "reasons": []}, "tools": [], "enabled": true,
            "consent": "missing", "calls_30d": 0, "rank": null, "loaded_ms": 0,
        });
        let catalogue = Canned::json(200, json!({"items": [waiting], "next_cursor": null}));
        let answers = vec![missing(), Canned::empty(201), policy, accepted, catalogue];
        let run = run_command(command, false, answers).await;
        run.result.expect("done");
        assert!(run.notes.contains("`toolgate org enable acme mail --accept`"), "{}", run.notes);
        assert!(
            run.notes.contains("nothing answers to it (`/enabled/0`); did you mean `file/*`?"),
            "{}",
            run.notes
        );
        assert_eq!(run.asked[3].line(), "PUT /v1/orgs/acme/policy");
        assert_eq!(run.asked[3].body, r#"{"disabled":["files/delete"],"enabled":["files/*"]}"#);
    }

    #[tokio::test]
    async fn a_list_is_read_to_its_end() {
        let page = |name: &str, display_name: Value, next: Value| {
            let document = json!({"display_name": display_name, "connected": ["stripe"]});
            Canned::json(
                200,
                json!({"items": [{"name": name, "etag": "\"1\"", "document": document}], "next_cursor": next}),
            )
        };
        let run = run_command(
            OrganizationCommand::List,
            false,
            vec![page("a", json!("Acme Inc."), json!("a/1")), page("b", Value::Null, Value::Null)],
        )
        .await;
        run.result.expect("done");
        assert_eq!(
            run.out,
            "NAME  DISPLAY NAME  CONNECTED\na     Acme Inc.     stripe\nb     -             stripe\n"
        );
        assert_eq!(run.asked[1].line(), "GET /v1/orgs?cursor=a%2F1");
    }

    #[tokio::test]
    async fn a_list_for_machines_is_one_json_document() {
        let item = json!({"name": "a", "etag": "\"1\"", "document": {"display_name": null, "connected": []}});
        let answer = Canned::json(200, json!({"items": [item], "next_cursor": null}));
        let run = run_command(OrganizationCommand::List, true, vec![answer]).await;
        assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json"), json!({"items": [item]}));
    }

    #[tokio::test]
    async fn a_deletion_is_of_what_is_there_now() {
        let there = Canned::json(200, json!({})).with_etag("\"4\"");
        let run = run_command(
            OrganizationCommand::Remove(Deletion { organization: acme(), yes: true }),
            false,
            vec![there, Canned::empty(204)],
        )
        .await;
        run.result.expect("done");
        assert_eq!(run.asked[1].line(), "DELETE /v1/orgs/acme");
        assert_eq!(run.asked[1].header("if-match"), Some("\"4\""));
    }
}
