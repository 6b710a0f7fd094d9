//! `toolgate policy`: the documents of the three policy layers, the explanation of a decision, and the difference
//! that a new document would make.

mod assertions;
pub(crate) mod diff;
mod explain;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolgate_api::document::DocumentWarnings;

use super::arguments::AgentName;
use super::document;
use super::failure::Result;
use super::history::{DocumentArguments, DocumentCommand, DocumentName, HistoryOptions, RollbackOptions};
use super::print::Printer;
use crate::client::{Client, escape};

/// Examples of the commands here.
pub const EXAMPLES: &str = "\
Examples:
  toolgate policy show platform
  toolgate policy diff acme policy.json              what would change, for whom
  toolgate policy put acme policy.json --strict
  toolgate policy history acme                       who wrote it, and when
  toolgate policy history acme --revision 17
  toolgate policy rollback acme                      return to the revision before
  toolgate policy explain acme/bot                   every tool
  toolgate policy explain acme/bot --allowed           those that it may call
  toolgate policy explain acme/bot files/write --channel sms
  toolgate policy assertions put acme assertions.json  refuse changes that break them
  toolgate policy assertions show platform
  toolgate policy assertions remove acme
  toolgate policy test policies                        check a folder of documents without a daemon

The policy of an organization, as small as it can be: {\"enabled\": [\"files/*\", \"arithmetic/*\"]}";

#[derive(Subcommand)]
pub enum PolicyCommand {
    /// Show a document, and its warnings with the current plugins
    Show(LayerArgument),
    /// Create a document, or replace it whole
    Put {
        #[command(flatten)]
        layer: LayerArgument,
        /// The document, as JSON; `-` for standard input
        file: String,
        /// Treat warnings as errors
        #[arg(long)]
        strict: bool,
    },
    /// List the kept revisions of a document, or show one
    History(DocumentCommand<LayerArgument, HistoryOptions>),
    /// Return to an earlier revision of a document, after its differences are shown
    Rollback(DocumentCommand<LayerArgument, RollbackOptions>),
    /// Explain what an agent may call, and which layer and rule decides
    Explain(explain::Explain),
    /// Show which decisions a document would change; nothing is written
    Diff {
        #[command(flatten)]
        layer: LayerArgument,
        /// The document, as JSON; `-` for standard input
        file: String,
    },
    /// Show, replace and delete the assertions that every change must keep
    Assertions {
        #[command(subcommand)]
        command: assertions::AssertionsCommand,
    },
}

#[derive(Args)]
pub struct LayerArgument {
    /// The layer
    #[arg(value_name = "platform|ORG|ORG/AGENT")]
    layer: LayerName,
}

impl DocumentArguments for LayerArgument {
    fn document(&self) -> Result<DocumentName> {
        Ok(self.layer.document())
    }
}

/// The layer of a document. An organization with the name `platform` cannot be addressed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerName {
    Platform,
    Organization(String),
    Agent(AgentName),
}

impl std::str::FromStr for LayerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "platform" => Ok(Self::Platform),
            "" => Err("write `platform`, an organization like `acme`, or an agent like `acme/bot`".into()),
            agent if agent.contains('/') => agent.parse().map(Self::Agent),
            organization => Ok(Self::Organization(organization.to_owned())),
        }
    }
}

impl std::fmt::Display for LayerName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Platform => out.write_str("the policy of the platform"),
            Self::Organization(organization) => write!(out, "the policy of `{organization}`"),
            Self::Agent(agent) => write!(out, "agent `{agent}`"),
        }
    }
}

impl LayerName {
    fn path(&self) -> String {
        match self {
            Self::Platform => "/v1/platform/policy".into(),
            Self::Organization(organization) => format!("/v1/orgs/{}/policy", escape(organization)),
            Self::Agent(agent) => agent.path(),
        }
    }

    /// The document, for its history.
    pub fn document(&self) -> DocumentName {
        let (kind, organization) = match self {
            Self::Platform => ("platform", None),
            Self::Organization(organization) => ("policy", Some(organization.clone())),
            Self::Agent(agent) => return agent.document(),
        };
        DocumentName { kind, organization, name: None, path: self.path(), label: self.to_string() }
    }

    fn diff_path(&self) -> String {
        match self {
            Self::Agent(agent) => format!("{}/policy/diff", agent.path()),
            Self::Platform | Self::Organization(_) => format!("{}/diff", self.path()),
        }
    }
}

pub async fn run(command: PolicyCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        PolicyCommand::Show(LayerArgument { layer }) => show(client, printer, &layer).await,
        PolicyCommand::Put { layer, file, strict } => put(client, printer, &layer.layer, &file, strict).await,
        PolicyCommand::History(history) => history.show(client, printer).await,
        PolicyCommand::Rollback(rollback) => rollback.roll_back(client, printer).await,
        PolicyCommand::Explain(asked) => explain::run(&asked, client, printer).await,
        PolicyCommand::Diff { layer, file } => diff::run(&layer.layer, &file, client, printer).await,
        PolicyCommand::Assertions { command } => assertions::run(command, client, printer).await,
    }
}

/// Prints only the document on standard output; a pipe or file gets it as JSON, so it can be edited and written back.
async fn show(client: &Client, printer: &mut Printer<'_>, layer: &LayerName) -> Result {
    let answer = client.get(&layer.path()).send::<Value>().await?;
    let (document, etag) = (answer.body, answer.etag);
    let DocumentWarnings { warnings } = client.get(&format!("{}/warnings", layer.path())).send().await?.body;
    if printer.is_json() {
        return Ok(printer.json(&json!({"document": document, "etag": etag, "warnings": warnings}))?);
    }
    printer.document(&document)?;
    document::warn(printer, &warnings)
}

async fn put(
    client: &Client,
    printer: &mut Printer<'_>,
    layer: &LayerName,
    file: &str,
    strict: bool,
) -> Result {
    let query = if strict { "?strict=true" } else { "" };
    let path = format!("{}{query}", layer.path());
    document::put_file(client, printer, &path, file, &format!("{layer} is set")).await
}

#[cfg(test)]
mod tests {
    use toolgate_api::error::{CallError, ErrorType};

    use super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    async fn run_command(command: PolicyCommand, json: bool, answers: Vec<Canned>) -> Run {
        run_with(answers, json, async |client, printer| run(command, client, printer).await).await
    }

    fn layer(text: &str) -> LayerName {
        text.parse().expect("a layer")
    }

    fn argument(text: &str) -> LayerArgument {
        LayerArgument { layer: layer(text) }
    }

    fn there() -> Canned {
        Canned::json(200, json!({"enabled": ["crm/serch"]})).with_etag("\"4\"")
    }

    fn odd() -> Canned {
        let warning = json!({"code": "UNRESOLVED_TOOL", "path": "/enabled/0", "message": "no loaded tool answers to `crm/serch`",
            "nearest": "crm/search"});
        Canned::json(200, json!({"warnings": [warning]}))
    }

    struct Desk {
        folder: tempfile::TempDir,
    }

    impl Desk {
        fn put(&self, of: &str, text: &str, strict: bool) -> PolicyCommand {
            let file = self.folder.path().join("policy.json");
            std::fs::write(&file, text).expect("written");
            PolicyCommand::Put { layer: argument(of), file: file.display().to_string(), strict }
        }
    }

    fn desk() -> Desk {
        Desk { folder: tempfile::tempdir().expect("a folder") }
    }

    #[test]
    fn each_layer_has_its_addresses() {
        let addresses = |text: &str| (layer(text).path(), layer(text).diff_path());
        assert_eq!(
            addresses("platform"),
            ("/v1/platform/policy".into(), "/v1/platform/policy/diff".to_owned())
        );
        assert_eq!(
            addresses("acme"),
            ("/v1/orgs/acme/policy".into(), "/v1/orgs/acme/policy/diff".to_owned())
        );
        assert_eq!(
            addresses("acme/bot"),
            ("/v1/orgs/acme/agents/bot".into(), "/v1/orgs/acme/agents/bot/policy/diff".to_owned())
        );
        for text in ["", "a/b/c", "/bot", "acme/"] {
            text.parse::<LayerName>().expect_err("no layer");
        }
    }

    #[tokio::test]
    async fn a_document_is_shown_and_then_what_is_odd_about_it() {
        let run = run_command(PolicyCommand::Show(argument("acme")), false, vec![there(), odd()]).await;
        run.result.expect("shown");
        assert_eq!(run.asked[1].line(), "GET /v1/orgs/acme/policy/warnings");
        assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json"), json!({"enabled": ["crm/serch"]}));
        assert_eq!(
            run.notes,
            "warning: no loaded tool answers to `crm/serch` (`/enabled/0`); did you mean `crm/search`?\n"
        );
    }

    #[tokio::test]
    async fn a_machine_gets_the_document_with_its_tag_and_warnings() {
        let run = run_command(PolicyCommand::Show(argument("a/b")), true, vec![there(), odd()]).await;
        run.result.expect("shown");
        assert_eq!(run.asked[1].line(), "GET /v1/orgs/a/agents/b/warnings");
        let shown: Value = serde_json::from_str(&run.out).expect("json");
        assert_eq!(
            (&shown["etag"], &shown["warnings"][0]["nearest"]),
            (&json!("\"4\""), &json!("crm/search"))
        );
        assert_eq!(run.notes, "");
    }

    #[tokio::test]
    async fn a_document_is_made_where_there_is_none_and_else_replaced() {
        let missing = Canned::refusal(CallError::new(ErrorType::NotFound, "none", ""));
        for (before, header) in [(missing, ("if-none-match", "*")), (there(), ("if-match", "\"4\""))] {
            let run = run_command(desk().put("platform", "{ }", false), false, vec![before, odd()]).await;
            run.result.expect("put");
            assert_eq!(run.asked[1].line(), "PUT /v1/platform/policy");
            assert_eq!((run.asked[1].header(header.0), run.asked[1].body.as_str()), (Some(header.1), "{ }"));
            assert_eq!(run.out, "the policy of the platform is set\n");
            assert!(run.notes.contains("did you mean `crm/search`?"), "{}", run.notes);
        }
    }

    #[tokio::test]
    async fn a_strict_write_is_refused_with_the_place_and_the_way_out() {
        let (message, hint) = ("no loaded tool answers to `crm/serch`", "did you mean `crm/search`?");
        let refused = CallError::new(ErrorType::InvalidPolicy, message, hint).with_pointer("/enabled/0");
        let answers = vec![there(), Canned::refusal(refused)];
        let run = run_command(desk().put("acme", "{}", true), false, answers).await;
        let failure = run.result.expect_err("refused");
        assert_eq!(run.asked[1].line(), "PUT /v1/orgs/acme/policy?strict=true");
        assert_eq!(failure.to_string(), "no loaded tool answers to `crm/serch` (`/enabled/0`)");
        assert_eq!(failure.hint(), "did you mean `crm/search`?");
    }

    #[tokio::test]
    async fn what_is_no_document_is_not_sent() {
        for text in ["", "[]", "{\"enabled\": }"] {
            let run = run_command(desk().put("acme", text, false), false, vec![]).await;
            run.result.expect_err("no document");
            assert!(run.asked.is_empty());
        }
    }
}
