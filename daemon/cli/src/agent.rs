//! `toolgate agent`: manages the agents of an organization.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_api::document::{DocumentAccepted, DocumentEntry};

use super::arguments::{AgentArgument, OrganizationArgument};
use super::ask;
use super::client::Client;
use super::document::{self, document_from};
use super::failure::Result;
use super::history::{DocumentCommand, HistoryOptions, RollbackOptions};
use super::list;
use super::print::{Printer, cell};

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate agent put acme/bot --enabled 'files/*' --enabled arithmetic/evaluate
  toolgate agent put acme/bot --profile support --autonomy autonomous
  toolgate agent put acme/bot bot.json
  toolgate agent show acme/bot > bot.json
  toolgate agent list acme
  toolgate agent history acme/bot
  toolgate agent rollback acme/bot --to 17
  toolgate agent remove acme/bot";

#[derive(Subcommand)]
pub enum AgentCommand {
    /// Create an agent, or change the given fields of it; a file replaces its whole document
    Put(Put),
    /// Show an agent's document
    #[command(alias = "get")]
    Show(AgentArgument),
    /// List the agents of an organization
    List(OrganizationArgument),
    /// List the kept revisions of an agent's document, or show one
    History(DocumentCommand<AgentArgument, HistoryOptions>),
    /// Return to an earlier revision of an agent's document, after its differences are shown
    Rollback(DocumentCommand<AgentArgument, RollbackOptions>),
    /// Remove an agent and end its sessions
    #[command(alias = "delete")]
    Remove(AgentArgument),
}

#[derive(Args)]
pub struct Put {
    #[command(flatten)]
    agent: AgentArgument,
    /// The document, as JSON; `-` for standard input
    #[arg(
        required_unless_present_any = ["enabled", "disabled", "profile", "subtype", "autonomy"],
        conflicts_with_all = ["enabled", "disabled", "profile", "subtype", "autonomy"]
    )]
    file: Option<String>,
    #[command(flatten)]
    fields: NamedFields,
}

/// The fields of a document that options name.
#[derive(Args)]
struct NamedFields {
    /// A tool that the agent may call: `namespace/tool`, `namespace/*` or `*`
    #[arg(long, value_name = "TOOL")]
    enabled: Vec<String>,
    /// A tool that the agent may not call; overrides every allow rule
    #[arg(long, value_name = "TOOL")]
    disabled: Vec<String>,
    /// The profile: a named set of tools
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The kind of agent, which selects a profile
    #[arg(long, value_name = "NAME")]
    subtype: Option<String>,
    /// How far the agent acts without a person [default: supervised]
    #[arg(long, value_parser = PossibleValuesParser::new(["draft_only", "supervised", "autonomous"]))]
    autonomy: Option<String>,
}

pub(crate) async fn run(command: AgentCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        AgentCommand::Put(options) => put(client, printer, options).await,
        AgentCommand::Show(AgentArgument { agent }) => document::print(client, printer, &agent.path()).await,
        AgentCommand::List(organization) => {
            list::all(client, printer, &organization.list_path("agents"), HEADINGS, row).await
        }
        AgentCommand::History(history) => history.show(client, printer).await,
        AgentCommand::Rollback(rollback) => rollback.roll_back(client, printer).await,
        AgentCommand::Remove(AgentArgument { agent }) => {
            ask::before_removal(printer, &format!("agent `{agent}`"))?;
            document::delete(client, &agent.path()).await?;
            let deleted = json!({"deleted": agent.to_string()});
            Ok(printer.result(&deleted, &format!("agent `{agent}` is deleted"))?)
        }
    }
}

impl NamedFields {
    /// The document with these fields; the others keep their value. Without an explicit list, the profile decides the tools of
    /// the agent.
    fn in_document(self, current: Option<&Value>) -> String {
        let mut document = current.and_then(Value::as_object).cloned().unwrap_or_default();
        let lists = [("enabled", self.enabled), ("disabled", self.disabled)];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let lists = lists.map(|(name, list)| (name, json!(list)));
        let words = [("profile", self.profile), ("subtype", self.subtype), ("autonomy", self.autonomy)];
        let words = words.into_iter().filter_map(|(name, word)| Some((name, Value::String(word?))));
        document.extend(lists.chain(words).map(|(name, value)| (name.to_owned(), value)));
        Value::Object(document).to_string()
    }
}

/// A list of tools, or `*`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ToolNames {
    List(Vec<String>),
    Word(String),
}

impl ToolNames {
    fn text(&self) -> String {
        match self {
            Self::List(names) => names.join(","),
            Self::Word(word) => word.clone(),
        }
    }
}

/// Fields of an agent's document that a list shows.
#[derive(Serialize, Deserialize)]
struct Summary {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<ToolNames>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

const HEADINGS: [&str; 3] = ["AGENT", "NAME", "ENABLED"];

fn row(entry: &DocumentEntry<Summary>) -> [String; 3] {
    let Summary { name, enabled, .. } = &entry.document;
    [entry.name.clone(), cell(name.as_ref()), cell(enabled.as_ref().map(ToolNames::text).as_ref())]
}

async fn put(client: &Client, printer: &mut Printer<'_>, options: Put) -> Result {
    let Put { agent: AgentArgument { agent }, file, fields } = options;
    let text = file.as_deref().map(document_from).transpose()?;
    let body = |current: Option<&Value>| text.unwrap_or_else(|| fields.in_document(current));
    let accepted: DocumentAccepted = document::put(client, &agent.path(), body).await?.body;
    document::warn(printer, &accepted.warnings)?;
    Ok(printer.result(&accepted, &format!("agent `{agent}` is set"))?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    async fn run_command(command: AgentCommand, answers: Vec<Canned>) -> Run {
        run_with(answers, false, async |client, printer| run(command, client, printer).await).await
    }

    fn bot() -> AgentArgument {
        AgentArgument { agent: "acme/bot".parse().expect("an agent") }
    }

    fn put(file: Option<String>) -> AgentCommand {
        let fields = NamedFields {
            enabled: vec!["files/*".into()],
            disabled: Vec::new(),
            profile: None,
            subtype: None,
            autonomy: None,
        };
        AgentCommand::Put(Put { agent: bot(), file, fields })
    }

    fn there() -> Canned {
        Canned::json(200, json!({"enabled": []})).with_etag("\"4\"")
    }

    #[tokio::test]
    async fn an_agent_is_made_from_lists_of_tools() {
        let warned = Canned::json(
            200,
            json!({"warnings": [{"code": "UNRESOLVED_TOOL", "path": "", "message": "no tool `files/*` is loaded"}]}),
        );
        let run = run_command(put(None), vec![there(), warned]).await;
        run.result.expect("done");
        assert_eq!(run.asked[1].line(), "PUT /v1/orgs/acme/agents/bot");
        assert_eq!(run.asked[1].body, r#"{"enabled":["files/*"]}"#);
        assert_eq!(run.notes, "warning: no tool `files/*` is loaded\n");
    }

    #[tokio::test]
    async fn g10_an_agent_is_made_of_a_profile_and_an_autonomy() {
        #[derive(Parser)]
        struct Line {
            #[command(subcommand)]
            command: AgentCommand,
        }
        let read = |words: &[&str]| Line::try_parse_from(["agent", "put", "acme/bot"].iter().chain(words));
        let line = read(&["--profile", "support", "--autonomy", "autonomous"]).expect("understood");
        let before = Canned::json(200, json!({"autonomy": "supervised", "name": "Bot"})).with_etag("\"4\"");
        let run = run_command(line.command, vec![before, Canned::json(200, json!({"warnings": []}))]).await;
        run.result.expect("done");
        assert_eq!(run.asked[1].body, r#"{"autonomy":"autonomous","name":"Bot","profile":"support"}"#);
        for wrong in [&[][..], &["--profile", "a", "bot.json"], &["--subtype", "a", "--autonomy", "free"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_document_from_a_file_is_sent_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("bot.json");
        std::fs::write(&file, "{ \"enabled\" : \"*\" }\n").expect("written");
        let place = file.display().to_string();
        let run =
            run_command(put(Some(place.clone())), vec![there(), Canned::json(200, json!({"warnings": []}))])
                .await;
        run.result.expect("done");
        assert_eq!(run.asked[1].body, "{ \"enabled\" : \"*\" }\n");

        for text in ["{", "[]"] {
            std::fs::write(&file, text).expect("written");
            let run = run_command(put(Some(place.clone())), vec![]).await;
            run.result.expect_err("no document");
            assert!(run.asked.is_empty());
        }
    }

    #[tokio::test]
    async fn an_agent_is_deleted_as_it_is_now() {
        let run = run_command(AgentCommand::Remove(bot()), vec![there(), Canned::empty(204)]).await;
        run.result.expect("done");
        assert_eq!(run.asked[1].header("if-match"), Some("\"4\""));
        assert_eq!(run.out, "agent `acme/bot` is deleted\n");
    }

    #[tokio::test]
    async fn a_list_shows_each_agent_with_its_tools() {
        let item = json!({"name": "bot", "etag": "\"1\"", "document": {"name": "Bot", "enabled": ["files/*", "sums/add"]}});
        let all = json!({"name": "root", "etag": "\"1\"", "document": {"enabled": "*"}});
        let page = Canned::json(200, json!({"items": [item, all], "next_cursor": null}));
        let run =
            run_command(AgentCommand::List(OrganizationArgument { organization: "acme".into() }), vec![page])
                .await;
        run.result.expect("listed");
        assert!(run.out.contains("root   -     *"), "{}", run.out);
        assert!(run.out.contains("bot    Bot   files/*,sums/add"), "{}", run.out);
    }
}
