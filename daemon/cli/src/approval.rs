//! `toolgate approval`: lists and decides calls that wait for approval (G11).
//!
//! The printed arguments are exactly those that would run. They are never parsed and serialized again: that could
//! change the text of a number, a duplicate key or the order of keys, and the reader and the tool would then
//! interpret different arguments. Only hidden characters are escape.

mod view;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use toolgate_api::approval::ApprovalState;

use super::audit::now_ms;
use super::document::{arguments_from, query};
use super::failure::Failure;
use super::print::{Printer, time_text};
use super::remote::Remote;
use crate::client::{Client, escape};
use view::Approval;

const EXAMPLES: &str = "\
Examples:
  toolgate approval list --organization acme --state pending
  toolgate approval show a_…
  toolgate approval approve a_… --reason 'agreed by phone'
  toolgate approval approve a_… --uses 10 --expires-in 600 --arguments '{\"/amount\": {\"type\": \"integer\", \"maximum\": 100}}'
  toolgate approval deny a_… --reason 'wrong customer'

Nobody decides about calls of a session that the same token opened.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ApprovalOptions {
    #[command(flatten)]
    pub remote: Remote,
    #[command(subcommand)]
    pub command: ApprovalCommand,
}

#[derive(Subcommand)]
pub enum ApprovalCommand {
    /// List approvals, oldest first
    List {
        /// Only approvals of this organization
        #[arg(long, alias = "org", value_name = "ORG")]
        organization: Option<String>,
        /// Only approvals in this state
        #[arg(long, value_parser = PossibleValuesParser::new(ApprovalState::ALL.map(ApprovalState::as_str)))]
        state: Option<String>,
    },
    /// Show an approval with everything that it is bound to
    Show {
        /// The id of the approval, as in the response to the waiting call
        id: String,
    },
    /// Show the call, and approve it
    Approve(Approve),
    /// Deny a call
    Deny {
        /// The approval
        id: String,
        /// The reason, which the model receives
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Args)]
pub struct Approve {
    /// The approval
    id: String,
    /// The reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Number of calls that it allows [default: 1]
    #[arg(long, value_name = "N")]
    uses: Option<u64>,
    /// Seconds until it expires [default: the operator's setting]
    #[arg(long, value_name = "SECONDS")]
    expires_in: Option<u64>,
    /// Arguments that may vary: JSON pointers, each with a JSON Schema; JSON, @FILE, or -
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
}

/// Request body of a decision.
#[derive(Serialize)]
struct Decision {
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uses: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Box<RawValue>>,
}

pub async fn run(
    command: ApprovalCommand,
    client: &Client,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    match command {
        ApprovalCommand::List { organization, state } => list(client, printer, organization, state).await,
        ApprovalCommand::Show { id } => {
            show(printer, &client.get(&path(&id)).send::<Box<RawValue>>().await?.body)
        }
        ApprovalCommand::Approve(wanted) => approve(client, printer, wanted).await,
        ApprovalCommand::Deny { id, reason } => {
            let decision =
                Decision { decision: "deny", reason, uses: None, expires_at: None, arguments: None };
            decide(client, printer, &id, &decision, |_| "denied".to_owned()).await
        }
    }
}

async fn list(
    client: &Client,
    printer: &mut Printer<'_>,
    organization: Option<String>,
    state: Option<String>,
) -> Result<(), Failure> {
    let query = query(&[("organization", organization.as_deref()), ("state", state.as_deref())]);
    let items: Vec<Box<RawValue>> = client.list_all(&format!("/v1/approvals{query}")).await?;
    if printer.is_json() {
        let items: Vec<&str> = items.iter().map(|item| item.get()).collect();
        return Ok(printer.json_text(&format!("{{\"items\":[{}]}}", items.join(",")))?);
    }
    let rows = items.iter().map(|item| Ok(Approval::read(item)?.row()));
    let rows: Vec<_> = rows.collect::<Result<_, Failure>>()?;
    Ok(printer.table(["ID", "STATE", "AGENT", "TOOL", "ASKED AT", "EXPIRES AT"], &rows)?)
}

fn show(printer: &mut Printer<'_>, answer: &RawValue) -> Result<(), Failure> {
    let approval = Approval::read(answer)?;
    if printer.is_json() {
        return Ok(printer.json_text(answer.get())?);
    }
    Ok(printer.fields(&approval.fields())?)
}

async fn approve(client: &Client, printer: &mut Printer<'_>, wanted: Approve) -> Result<(), Failure> {
    let arguments = wanted.arguments.as_deref().map(shape).transpose()?;
    let lifetime_ms = wanted.expires_in.map(|seconds| seconds.saturating_mul(1000));
    let shown = client.get(&path(&wanted.id)).send::<Box<RawValue>>().await?;
    // With `--json`, the one document of the response contains all of this.
    if !printer.is_json() {
        show(printer, &shown.body)?;
    }
    let decision = Decision {
        decision: "approve",
        reason: wanted.reason,
        uses: wanted.uses,
        expires_at: lifetime_ms.map(|lifetime_ms| now_ms().saturating_add(lifetime_ms)),
        arguments,
    };
    decide(client, printer, &wanted.id, &decision, |approval| {
        let calls = if approval.uses_left == 1 { "call" } else { "calls" };
        format!("approved: {} {calls}, until {}", approval.uses_left, time_text(approval.expires_at))
    })
    .await
}

/// Parses the arguments that may vary. The daemon, which knows the arguments, validates the schemas.
fn shape(word: &str) -> Result<Box<RawValue>, Failure> {
    RawValue::from_string(arguments_from(word)?).map_err(|error| {
        Failure::wrong_usage(
            format!("the shape of the arguments is not JSON: {error}"),
            "quote it for the shell: '{\"/amount\": {\"maximum\": 100}}'",
        )
    })
}

async fn decide(
    client: &Client,
    printer: &mut Printer<'_>,
    id: &str,
    decision: &Decision,
    outcome: impl FnOnce(&Approval) -> String,
) -> Result<(), Failure> {
    // Serialization cannot fail: the fields are strings, numbers and raw JSON.
    let body = serde_json::to_string(decision).unwrap_or_else(|_| json!({}).to_string());
    let answer = client.post(&path(id)).json_text(body).send::<Box<RawValue>>().await?.body;
    if printer.is_json() {
        return Ok(printer.json_text(answer.get())?);
    }
    let approval = Approval::read(&answer)?;
    Ok(printer.line(&format!("approval `{id}` is {}", outcome(&approval)))?)
}

fn path(id: &str) -> String {
    format!("/v1/approvals/{}", escape(id))
}

#[cfg(test)]
mod tests;
