//! `toolgate webhook`: where approvals are announced (G18). A secret is read from a file or standard input, and never an
//! argument.

use clap::{Args, Subcommand};
use serde::de::IgnoredAny;
use serde_json::json;
use toolgate_api::webhook::{DeliveryView, WebhookTested, WebhookView};

use super::arguments::OrganizationArgument;
use super::ask;
use super::client::{Client, escape};
use super::document::text_from;
use super::failure::{Failure, Result};
use super::list;
use super::print::{Printer, time_text};

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate webhook put acme/chat https://hooks.example.org/approvals      prints the secret of the signatures once
  toolgate webhook put acme/chat https://hooks.example.org/approvals --secret-file secret
  toolgate webhook test acme/chat
  toolgate webhook show acme/chat                                         with its last deliveries
  toolgate webhook list acme
  toolgate webhook remove acme/chat

An operator grants the host in the setting `webhooks.hosts`.";

#[derive(Subcommand)]
pub enum WebhookCommand {
    /// Create a webhook, or replace it
    Put {
        #[command(flatten)]
        webhook: WebhookName,
        /// The endpoint
        url: String,
        /// The file with the secret of the signatures, or `-`; a new webhook without it gets a random secret
        #[arg(long, value_name = "FILE")]
        secret_file: Option<String>,
    },
    /// List the webhooks of an organization
    List(OrganizationArgument),
    /// Show a webhook with its last deliveries
    Show(WebhookName),
    /// Delete a webhook
    Remove(WebhookName),
    /// Send a test event and show the answer
    Test(WebhookName),
}

#[derive(Args)]
pub struct WebhookName {
    /// `organization/webhook`
    name: String,
}

pub(crate) async fn run(command: WebhookCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        WebhookCommand::Put { webhook, url, secret_file } => {
            put(client, printer, &webhook, &url, secret_file.as_deref()).await
        }
        WebhookCommand::List(organization) => {
            list::all(client, printer, &organization.list_path("webhooks"), HEADINGS, row).await
        }
        WebhookCommand::Show(webhook) => show(printer, &client.get(&webhook.path()?).send().await?.body),
        WebhookCommand::Remove(webhook) => {
            ask::before_removal(printer, &format!("webhook `{}` with its secret", webhook.name))?;
            client.delete(&webhook.path()?).send::<IgnoredAny>().await?;
            let line = format!("webhook `{}` is deleted", webhook.name);
            Ok(printer.result(&json!({"removed": webhook.name}), &line)?)
        }
        WebhookCommand::Test(webhook) => test(client, printer, &webhook).await,
    }
}

async fn put(
    client: &Client,
    printer: &mut Printer<'_>,
    webhook: &WebhookName,
    url: &str,
    secret_file: Option<&str>,
) -> Result {
    let mut request = json!({"url": url});
    if let Some(file) = secret_file {
        request["secret"] = json!(text_from(file)?.trim_end());
    }
    let stored: WebhookView = client.put(&webhook.path()?).json(&request).send().await?.body;
    let set = format!("webhook `{}` is set", webhook.name);
    let Some(secret) = stored.secret.as_deref() else { return Ok(printer.result(&stored, &set)?) };
    // Alone on standard output, so that it can be redirected to a file.
    printer.result(&stored, secret)?;
    match printer.is_json() {
        true => Ok(()),
        false => Ok(printer
            .note(&format!("{set}; the key of its signatures is the whole secret above, shown only once"))?),
    }
}

async fn test(client: &Client, printer: &mut Printer<'_>, webhook: &WebhookName) -> Result {
    let tested: WebhookTested = client.post(&format!("{}/test", webhook.path()?)).send().await?.body;
    let name = &webhook.name;
    match &tested.error {
        None => Ok(printer.result(&tested, &format!("webhook `{name}` accepted the test event"))?),
        Some(error) => Err(Failure::new(
            format!("webhook `{name}` did not accept the test event: {error}"),
            "check the URL and the log of the endpoint",
        )),
    }
}

const HEADINGS: [&str; 3] = ["NAME", "STATE", "URL"];

fn row(webhook: &WebhookView) -> [String; 3] {
    [webhook.name.clone(), webhook.state.to_string(), webhook.url.clone()]
}

fn show(printer: &mut Printer<'_>, webhook: &WebhookView) -> Result {
    if printer.is_json() {
        return Ok(printer.json(webhook)?);
    }
    printer.fields(&[
        ("webhook", Some(webhook.name.clone())),
        ("url", Some(webhook.url.clone())),
        ("state", Some(webhook.state.to_string())),
        ("reason", webhook.reason.clone()),
        ("changed", Some(time_text(webhook.changed_at))),
    ])?;
    let deliveries = webhook.deliveries.as_deref().unwrap_or_default();
    Ok(printer.list(DELIVERY_HEADINGS, deliveries, delivery_row)?)
}

const DELIVERY_HEADINGS: [&str; 7] =
    ["DELIVERY", "EVENT", "APPROVAL", "STATE", "TRIES", "CREATED AT", "ERROR"];

fn delivery_row(delivery: &DeliveryView) -> [String; 7] {
    [
        delivery.id.clone(),
        delivery.event.clone(),
        delivery.approval.clone(),
        delivery.state.clone(),
        delivery.attempts.to_string(),
        time_text(delivery.created_at),
        delivery.error.clone().unwrap_or_default(),
    ]
}

impl WebhookName {
    fn path(&self) -> Result<String> {
        let (organization, webhook) = self.name.split_once('/').ok_or_else(|| {
            let hint = "write `organization/webhook`, like `acme/chat`";
            Failure::wrong_usage(format!("`{}` names no webhook", self.name), hint)
        })?;
        Ok(format!("/v1/orgs/{}/webhooks/{}", escape(organization), escape(webhook)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::testing::Canned;
    use super::super::testing::{Run, run_with};
    use super::*;

    async fn run_command(command: WebhookCommand, answers: Vec<Canned>) -> Run {
        run_with(answers, false, async |client, printer| run(command, client, printer).await).await
    }

    fn view(secret: Option<&str>) -> Canned {
        let mut view = json!({"name": "chat", "url": "https://h.example/a", "events": ["approval"], "state": "active",
            "created_at": 1, "changed_at": 1});
        if let Some(secret) = secret {
            view["secret"] = json!(secret);
        }
        Canned::json(201, view)
    }

    #[tokio::test]
    async fn g18_a_random_secret_is_printed_once_and_a_given_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("secret");
        std::fs::write(&file, "0123456789abcdef\n").expect("written");
        for (secret_file, answer, sent) in
            [(None, Some("whsec_x"), false), (Some(file.display().to_string()), None, true)]
        {
            let url = "https://h.example/a".to_owned();
            let command =
                WebhookCommand::Put { webhook: WebhookName { name: "acme/chat".into() }, url, secret_file };
            let run = run_command(command, vec![view(answer)]).await;
            run.result.expect("put");
            assert_eq!(run.asked[0].line(), "PUT /v1/orgs/acme/webhooks/chat");
            assert_eq!(run.asked[0].body.contains("\"secret\":\"0123456789abcdef\""), sent);
            let expected = if answer.is_some() { "whsec_x\n" } else { "webhook `acme/chat` is set\n" };
            assert_eq!(run.out, expected);
        }
    }

    #[tokio::test]
    async fn g18_a_test_event_that_is_not_accepted_is_a_failure() {
        for (answer, accepted) in [
            (json!({"delivered": true}), true),
            (json!({"delivered": false, "error": "the endpoint answered 500"}), false),
        ] {
            let command = WebhookCommand::Test(WebhookName { name: "acme/chat".into() });
            let run = run_command(command, vec![Canned::json(200, answer)]).await;
            assert_eq!(run.result.is_ok(), accepted);
            assert_eq!(run.asked[0].line(), "POST /v1/orgs/acme/webhooks/chat/test");
        }
        let run = run_command(WebhookCommand::Show(WebhookName { name: "acme".into() }), vec![]).await;
        assert!(run.result.is_err() && run.asked.is_empty());
    }
}
