//! `toolgate approval`: calls that wait for a person (G11).
//!
//! What is shown is what would run. The arguments are never read and written anew: of a number, of two members of one
//! name, of the order, a reader and the tool could then think differently. Only characters that a reader would not see
//! are written out.

mod view;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::audit::now_ms;
use super::document::{self, all_items_as, arguments_from, query};
use super::failure::Failure;
use super::print::{Printer, time_text};
use super::remote::Remote;
use crate::client::{Answer, Client, escaped};
use crate::store::ApprovalState;
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
    /// List approvals, the oldest first
    List {
        /// Those of this organization
        #[arg(long, alias = "org", value_name = "ORG")]
        organization: Option<String>,
        /// Those in this state
        #[arg(long, value_parser = PossibleValuesParser::new(ApprovalState::ALL.map(ApprovalState::as_str)))]
        state: Option<String>,
    },
    /// Show an approval with everything that it is bound to
    Show {
        /// The approval, as the call that waits for it names it
        id: String,
    },
    /// Show what would run, and let it run
    Approve(Approve),
    /// Refuse a call
    Deny {
        /// The approval
        id: String,
        /// Why; the model is told
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Args)]
pub struct Approve {
    /// The approval
    id: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Calls that it allows; without it, one
    #[arg(long, value_name = "N")]
    uses: Option<u64>,
    /// Until when it allows them, from now on; without it, as long as the operator has set
    #[arg(long, value_name = "SECONDS")]
    expires_in: Option<u64>,
    /// Places of the arguments that may vary: JSON pointers, each with a JSON Schema; JSON, @FILE, or -
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
}

/// What is decided, as it is sent.
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
            let answer = client.get(&path(&id)).send().await?;
            show(printer, &answer)
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
    let items: Vec<Box<RawValue>> = all_items_as(client, &format!("/v1/approvals{query}")).await?;
    if printer.json() {
        let items: Vec<&str> = items.iter().map(|item| item.get()).collect();
        return Ok(printer.json_text(&format!("{{\"items\":[{}]}}", items.join(",")))?);
    }
    let rows = items.iter().map(|item| Ok(Approval::read(item.get().as_bytes())?.row()));
    let rows: Vec<_> = rows.collect::<Result<_, Failure>>()?;
    Ok(printer.table(["ID", "STATE", "AGENT", "TOOL", "ASKED AT", "EXPIRES AT"], &rows)?)
}

fn show(printer: &mut Printer<'_>, answer: &Answer) -> Result<(), Failure> {
    let approval = Approval::read(&answer.body)?;
    if printer.json() {
        return print_as_it_is(printer, answer);
    }
    Ok(printer.fields(&approval.fields())?)
}

async fn approve(client: &Client, printer: &mut Printer<'_>, wanted: Approve) -> Result<(), Failure> {
    let arguments = wanted.arguments.as_deref().map(shape).transpose()?;
    let lifetime_ms = wanted.expires_in.map(|seconds| seconds.saturating_mul(1000));
    let shown = client.get(&path(&wanted.id)).send().await?;
    // A machine gets one document, which says all this as well.
    if !printer.json() {
        show(printer, &shown)?;
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

/// The places that may vary. What they may be is the daemon's to say, which knows the arguments.
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
    // Strings, numbers and JSON text: nothing of it can fail.
    let body = serde_json::to_string(decision).unwrap_or_else(|_| json!({}).to_string());
    let answer = client.post(&path(id)).body("application/json", body.into()).send().await?;
    if printer.json() {
        return print_as_it_is(printer, &answer);
    }
    let approval = Approval::read(&answer.body)?;
    Ok(printer.line(&format!("approval `{id}` is {}", outcome(&approval)))?)
}

fn print_as_it_is(printer: &mut Printer<'_>, answer: &Answer) -> Result<(), Failure> {
    let text: Box<RawValue> = document::read(answer)?;
    Ok(printer.json_text(text.get())?)
}

fn path(id: &str) -> String {
    format!("/v1/approvals/{}", escaped(id))
}

#[cfg(test)]
mod tests;
