//! `toolgate policy assertions`: statements about what agents can call, which every change must keep (G17).

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::ask;
use crate::client::{Client, escape};
use crate::document;
use crate::failure::Result;
use crate::print::Printer;

#[derive(Subcommand)]
pub enum AssertionsCommand {
    /// Show the assertions
    Show(Holder),
    /// Create the assertions, or replace them whole, if all of them hold
    Put {
        #[command(flatten)]
        holder: Holder,
        /// The document, as JSON; `-` for standard input
        file: String,
    },
    /// Delete the assertions
    Remove(Holder),
}

#[derive(Args)]
pub struct Holder {
    /// The holder
    #[arg(value_name = "platform|ORG")]
    holder: String,
}

pub(super) async fn run(command: AssertionsCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        AssertionsCommand::Show(holder) => {
            let answer = client.get(&holder.path()).send::<Value>().await?;
            if printer.is_json() {
                return Ok(printer.json(&json!({"document": answer.body, "etag": answer.etag}))?);
            }
            Ok(printer.json(&answer.body)?)
        }
        AssertionsCommand::Put { holder, file } => {
            let line = format!("the assertions of `{}` are set", holder.holder);
            document::put_file(client, printer, &holder.path(), &file, &line).await
        }
        AssertionsCommand::Remove(holder) => {
            ask::before_removal(printer, &format!("the assertions of `{}`", holder.holder))?;
            document::delete(client, &holder.path()).await?;
            let line = format!("the assertions of `{}` are deleted", holder.holder);
            Ok(printer.result(&json!({"removed": holder.holder}), &line)?)
        }
    }
}

impl Holder {
    /// An organization with the name `platform` cannot be addressed here.
    fn path(&self) -> String {
        match self.holder.as_str() {
            "platform" => "/v1/platform/policy/assertions".into(),
            organization => format!("/v1/orgs/{}/policy/assertions", escape(organization)),
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_api::error::{CallError, ErrorType};

    use super::*;
    use crate::client::testing::Canned;
    use crate::testing::run_with;

    fn holder(name: &str) -> Holder {
        Holder { holder: name.to_owned() }
    }

    #[tokio::test]
    async fn g17_assertions_are_put_with_the_tag_that_was_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("assertions.json");
        std::fs::write(&file, r#"{"assertions": []}"#).expect("written");
        let missing = Canned::refusal(CallError::new(ErrorType::NotFound, "none", ""));
        let accepted = Canned::json(201, json!({"warnings": []}));
        let command = AssertionsCommand::Put { holder: holder("acme"), file: file.display().to_string() };
        let run = run_with(vec![missing, accepted], false, async |client, printer| {
            run(command, client, printer).await
        })
        .await;
        run.result.expect("put");
        assert_eq!(run.asked[1].line(), "PUT /v1/orgs/acme/policy/assertions");
        assert_eq!(run.asked[1].header("if-none-match"), Some("*"));
        assert_eq!(run.out, "the assertions of `acme` are set\n");
        assert_eq!(holder("platform").path(), "/v1/platform/policy/assertions");
    }
}
