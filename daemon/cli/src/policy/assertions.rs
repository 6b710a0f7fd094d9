//! `toolgate policy assertions`: statements about what agents can call, which every change must keep (G17).

use clap::Subcommand;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use toolgate_api::document::DocumentAccepted;

use crate::client::{Client, escape};
use crate::document::{self, document_from};
use crate::failure::Result;
use crate::print::Printer;

#[derive(Subcommand)]
pub enum AssertionsCommand {
    /// Show the assertions
    Show {
        /// The holder
        #[arg(value_name = "platform|ORG")]
        holder: String,
    },
    /// Create the assertions, or replace them whole, if all of them hold
    Put {
        /// The holder
        #[arg(value_name = "platform|ORG")]
        holder: String,
        /// The document, as JSON; `-` for standard input
        file: String,
    },
    /// Delete the assertions
    Remove {
        /// The holder
        #[arg(value_name = "platform|ORG")]
        holder: String,
    },
}

pub async fn run(command: AssertionsCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        AssertionsCommand::Show { holder } => {
            let answer = client.get(&path(&holder)).send::<Value>().await?;
            match printer.is_json() {
                true => Ok(printer.json(&json!({"document": answer.body, "etag": answer.etag}))?),
                false => Ok(printer.json(&answer.body)?),
            }
        }
        AssertionsCommand::Put { holder, file } => {
            let body = document_from(&file)?;
            let path = path(&holder);
            let answer = document::put::<IgnoredAny, DocumentAccepted>(client, &path, |_| body).await?;
            document::warn(printer, &answer.body.warnings)?;
            let set = json!({"etag": answer.etag, "warnings": answer.body.warnings});
            Ok(printer.result(&set, &format!("the assertions of `{holder}` are set"))?)
        }
        AssertionsCommand::Remove { holder } => {
            document::delete(client, &path(&holder)).await?;
            Ok(printer
                .result(&json!({"removed": holder}), &format!("the assertions of `{holder}` are deleted"))?)
        }
    }
}

/// An organization with the name `platform` cannot be addressed here.
fn path(holder: &str) -> String {
    match holder {
        "platform" => "/v1/platform/policy/assertions".into(),
        organization => format!("/v1/orgs/{}/policy/assertions", escape(organization)),
    }
}

#[cfg(test)]
mod tests {
    use toolgate_api::error::{CallError, ErrorType};

    use super::*;
    use crate::client::testing::Canned;
    use crate::testing::run_with;

    #[tokio::test]
    async fn g17_assertions_are_put_with_the_tag_that_was_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("assertions.json");
        std::fs::write(&file, r#"{"assertions": []}"#).expect("written");
        let missing = Canned::refusal(CallError::new(ErrorType::NotFound, "none", ""));
        let accepted = Canned::json(201, json!({"warnings": []}));
        let command = AssertionsCommand::Put { holder: "acme".into(), file: file.display().to_string() };
        let run = run_with(vec![missing, accepted], false, async |client, printer| {
            run(command, client, printer).await
        })
        .await;
        run.result.expect("put");
        assert_eq!(run.asked[1].line(), "PUT /v1/orgs/acme/policy/assertions");
        assert_eq!(run.asked[1].header("if-none-match"), Some("*"));
        assert_eq!(run.out, "the assertions of `acme` are set\n");
        assert_eq!(path("platform"), "/v1/platform/policy/assertions");
    }
}
