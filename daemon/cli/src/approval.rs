//! `toolgate approval`: lists and decides calls that wait for approval (G11).
//!
//! The printed arguments are exactly those that would run. They are never parsed and serialized again: that could
//! change the text of a number, a duplicate key or the order of keys, and the reader and the tool would then
//! interpret different arguments. Only hidden characters are escaped.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::value::RawValue;
use toolgate_api::approval::{ApprovalState, ApprovalView, Choice, DecisionRequest};

use super::audit::now_ms;
use super::client::{Client, escape};
use super::document::{arguments_from, query};
use super::failure::{Failure, Result};
use super::list;
use super::print::{Printer, time_from, time_text, token_text};
use super::watch::{WatchOptions, repeat};

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate approval list --organization acme --state pending
  toolgate approval list --state pending --watch
  toolgate approval show a_…
  toolgate approval approve a_… --reason 'agreed by phone'
  toolgate approval approve a_… --uses 10 --expires-in 600 --arguments '{\"/amount\": {\"type\": \"integer\", \"maximum\": 100}}'
  toolgate approval approve a_… --arguments-instead '{\"to\": \"bob\", \"amount\": 5}'
  toolgate approval deny a_… --reason 'wrong customer'

A token cannot decide about calls of a session that it opened.";

#[derive(Subcommand)]
pub enum ApprovalCommand {
    /// List approvals, oldest first
    List {
        /// Only approvals of this organization
        #[arg(long, visible_alias = "org", value_name = "ORG")]
        organization: Option<String>,
        /// Only approvals in this state
        #[arg(long, value_parser = PossibleValuesParser::new(ApprovalState::ALL.map(ApprovalState::as_str)))]
        state: Option<String>,
        #[command(flatten)]
        watch: WatchOptions,
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
    /// When it expires, such as `2026-11-26T08:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = time_from, conflicts_with = "expires_in")]
    expires_at: Option<u64>,
    /// Arguments that may vary: JSON pointers, each with a JSON Schema; JSON, @FILE, or -
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// Other arguments, with which the call runs instead: JSON, @FILE, or -
    #[arg(long, value_name = "JSON", conflicts_with_all = ["arguments", "uses"])]
    arguments_instead: Option<String>,
}

pub(crate) async fn run(command: ApprovalCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        ApprovalCommand::List { organization, state, watch } => {
            let query = query(&[("organization", organization.as_deref()), ("state", state.as_deref())]);
            let path = format!("/v1/approvals{query}");
            let list =
                async |printer: &mut Printer<'_>| list::all(client, printer, &path, HEADINGS, row).await;
            repeat(printer, watch, list).await
        }
        ApprovalCommand::Show { id } => show(printer, &client.get(&path(&id)).send().await?.body),
        ApprovalCommand::Approve(options) => approve(client, printer, options).await,
        ApprovalCommand::Deny { id, reason } => {
            let request = decision(Choice::Deny, reason);
            decide(client, printer, &id, &request, |_| "denied".to_owned()).await
        }
    }
}

const HEADINGS: [&str; 6] = ["ID", "STATE", "AGENT", "TOOL", "ASKED AT", "EXPIRES AT"];

fn row(approval: &ApprovalView) -> [String; 6] {
    [
        approval.id.clone(),
        approval.state.as_str().to_owned(),
        format!("{}/{}", approval.organization, approval.agent),
        approval.tool.clone(),
        time_text(approval.created_at),
        time_text(approval.expires_at),
    ]
}

/// Prints an approval: first the call, then its origin, then its state.
fn show(printer: &mut Printer<'_>, approval: &ApprovalView) -> Result {
    if printer.is_json() {
        return Ok(printer.json(approval)?);
    }
    let text = |text: &str| Some(text.to_owned());
    let is_approved = approval.state == ApprovalState::Approved;
    Ok(printer.fields(&[
        ("approval", text(&approval.id)),
        ("state", text(approval.state.as_str())),
        ("tool", text(&approval.tool)),
        ("arguments", text(approval.arguments.get())),
        ("instead", approval.arguments_instead.as_ref().map(|other| other.get().to_owned())),
        ("may vary", approval.constraints.as_ref().map(|shape| shape.get().to_owned())),
        ("plugin", Some(format!("{} {}", approval.plugin_version, approval.plugin_digest))),
        ("rules", text(approval.rules.get())),
        ("agent", Some(format!("{}/{}", approval.organization, approval.agent))),
        ("user", approval.user.clone()),
        ("channel", approval.channel.clone()),
        ("conversation", approval.conversation.clone()),
        ("session", text(&approval.session)),
        ("call", text(&approval.call)),
        (
            "asked",
            Some(format!(
                "{} by {}",
                time_text(approval.created_at),
                token_text(&approval.asked_by, approval.asked_by_label.as_deref())
            )),
        ),
        ("expires", Some(time_text(approval.expires_at))),
        ("uses left", is_approved.then(|| approval.uses_left.to_string())),
        ("decided", approval.decided_at.map(time_text)),
        (
            "decided by",
            approval.decided_by.as_ref().map(|id| token_text(id, approval.decided_by_label.as_deref())),
        ),
        ("reason", approval.reason.clone()),
    ])?)
}

async fn approve(client: &Client, printer: &mut Printer<'_>, options: Approve) -> Result {
    let arguments = options.arguments.as_deref().map(shape).transpose()?;
    let arguments_instead = options.arguments_instead.as_deref().map(shape).transpose()?;
    let ends_ms = options.expires_in.map(|seconds| now_ms().saturating_add(seconds.saturating_mul(1000)));
    let shown: ApprovalView = client.get(&path(&options.id)).send().await?.body;
    // With `--json`, the one document of the response contains all of this.
    if !printer.is_json() {
        show(printer, &shown)?;
    }
    let request = DecisionRequest {
        arguments,
        arguments_instead,
        uses: options.uses,
        expires_at: options.expires_at.or(ends_ms),
        ..decision(Choice::Approve, options.reason)
    };
    decide(client, printer, &options.id, &request, |approval| {
        let calls = if approval.uses_left == 1 { "call" } else { "calls" };
        format!("approved: {} {calls}, until {}", approval.uses_left, time_text(approval.expires_at))
    })
    .await
}

/// Parses the arguments that may vary. The daemon, which knows the arguments, validates the schemas.
fn shape(word: &str) -> Result<Box<RawValue>> {
    RawValue::from_string(arguments_from(word)?).map_err(|error| {
        Failure::wrong_usage(
            format!("the shape of the arguments is not JSON: {error}"),
            "quote it for the shell: '{\"/amount\": {\"maximum\": 100}}'",
        )
    })
}

fn decision(decision: Choice, reason: Option<String>) -> DecisionRequest {
    let (arguments, arguments_instead, uses, expires_at) = (None, None, None, None);
    DecisionRequest { decision, reason, arguments, arguments_instead, uses, expires_at }
}

async fn decide(
    client: &Client,
    printer: &mut Printer<'_>,
    id: &str,
    request: &DecisionRequest,
    outcome: impl FnOnce(&ApprovalView) -> String,
) -> Result {
    let approval: ApprovalView = client.post(&path(id)).json(request).send().await?.body;
    Ok(printer.result(&approval, &format!("approval `{id}` is {}", outcome(&approval)))?)
}

fn path(id: &str) -> String {
    format!("/v1/approvals/{}", escape(id))
}

#[cfg(test)]
mod tests;
