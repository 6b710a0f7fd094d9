//! `toolgate webhook`: where approvals are announced (G18). A secret is read from a file or standard input, and never an
//! argument.

use clap::Subcommand;
use serde::de::IgnoredAny;
use serde_json::json;
use toolgate_api::webhook::{DeliveryView, WebhookList, WebhookTested, WebhookView};

use super::client::{Client, escape};
use super::document::text_from;
use super::failure::{Failure, Result};
use super::print::{Printer, time_text};

pub const EXAMPLES: &str = "\
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
        /// `organization/webhook`
        name: String,
        /// The endpoint
        url: String,
        /// The file with the secret of the signatures, or `-`; a new webhook without it gets a random secret
        #[arg(long, value_name = "FILE")]
        secret_file: Option<String>,
    },
    /// List the webhooks of an organization
    List {
        /// The organization
        #[arg(value_name = "ORG")]
        organization: String,
    },
    /// Show a webhook with its last deliveries
    Show {
        /// `organization/webhook`
        name: String,
    },
    /// Delete a webhook
    Remove {
        /// `organization/webhook`
        name: String,
    },
    /// Send a test event and show the answer
    Test {
        /// `organization/webhook`
        name: String,
    },
}

pub async fn run(command: WebhookCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        WebhookCommand::Put { name, url, secret_file } => {
            put(client, printer, &name, &url, secret_file.as_deref()).await
        }
        WebhookCommand::List { organization } => {
            let path = format!("/v1/orgs/{}/webhooks", escape(&organization));
            let list: WebhookList = client.get(&path).send().await?.body;
            Ok(printer.list(["NAME", "STATE", "URL"], &list.items, row)?)
        }
        WebhookCommand::Show { name } => {
            let webhook: WebhookView = client.get(&path(&name)?).send().await?.body;
            show(printer, &webhook)
        }
        WebhookCommand::Remove { name } => {
            client.delete(&path(&name)?).send::<IgnoredAny>().await?;
            Ok(printer.result(&json!({"removed": name}), &format!("webhook `{name}` is deleted"))?)
        }
        WebhookCommand::Test { name } => test(client, printer, &name).await,
    }
}

async fn put(
    client: &Client,
    printer: &mut Printer<'_>,
    name: &str,
    url: &str,
    secret_file: Option<&str>,
) -> Result {
    let mut request = json!({"url": url});
    if let Some(file) = secret_file {
        request["secret"] = json!(text_from(file)?.trim_end());
    }
    let webhook: WebhookView = client.put(&path(name)?).json(&request).send().await?.body;
    let text = match &webhook.secret {
        Some(secret) => format!("webhook `{name}` is set; its secret, shown once: {secret}"),
        None => format!("webhook `{name}` is set"),
    };
    Ok(printer.result(&webhook, &text)?)
}

async fn test(client: &Client, printer: &mut Printer<'_>, name: &str) -> Result {
    let tested: WebhookTested = client.post(&format!("{}/test", path(name)?)).send().await?.body;
    match &tested.error {
        None => Ok(printer.result(&tested, &format!("webhook `{name}` accepted the test event"))?),
        Some(error) => Err(Failure::new(
            format!("webhook `{name}` did not accept the test event: {error}"),
            "check the URL and the log of the endpoint",
        )),
    }
}

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
    let columns = ["DELIVERY", "EVENT", "APPROVAL", "STATE", "TRIES", "CREATED AT", "ERROR"];
    Ok(printer.list(columns, deliveries, delivery_row)?)
}

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

fn path(name: &str) -> Result<String> {
    let (organization, webhook) = name.split_once('/').ok_or_else(|| {
        Failure::wrong_usage(
            format!("`{name}` names no webhook"),
            "write `organization/webhook`, like `acme/chat`",
        )
    })?;
    Ok(format!("/v1/orgs/{}/webhooks/{}", escape(organization), escape(webhook)))
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
            let command = WebhookCommand::Put { name: "acme/chat".into(), url, secret_file };
            let run = run_command(command, vec![view(answer)]).await;
            run.result.expect("put");
            assert_eq!(run.asked[0].line(), "PUT /v1/orgs/acme/webhooks/chat");
            assert_eq!(run.asked[0].body.contains("\"secret\":\"0123456789abcdef\""), sent);
            assert_eq!(run.out.contains("whsec_x"), answer.is_some(), "{}", run.out);
        }
    }

    #[tokio::test]
    async fn g18_a_test_event_that_is_not_accepted_is_a_failure() {
        for (answer, accepted) in [
            (json!({"delivered": true}), true),
            (json!({"delivered": false, "error": "the endpoint answered 500"}), false),
        ] {
            let command = WebhookCommand::Test { name: "acme/chat".into() };
            let run = run_command(command, vec![Canned::json(200, answer)]).await;
            assert_eq!(run.result.is_ok(), accepted);
            assert_eq!(run.asked[0].line(), "POST /v1/orgs/acme/webhooks/chat/test");
        }
        let run = run_command(WebhookCommand::Show { name: "acme".into() }, vec![]).await;
        assert!(run.result.is_err() && run.asked.is_empty());
    }
}
