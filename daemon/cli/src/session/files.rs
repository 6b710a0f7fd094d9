//! `toolgate session files`: the files of a session's workspace.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::de::IgnoredAny;
use serde_json::json;
use toolgate_api::file::{FileList, FileView};

use crate::ask;
use crate::client::{Client, escape};
use crate::failure::{Failure, Result};
use crate::print::Printer;

#[derive(Subcommand)]
pub enum FilesCommand {
    /// List the files and folders
    List {
        /// The session
        id: String,
    },
    /// Write a file of the workspace to standard output, or to a file here
    Get {
        /// The session
        id: String,
        /// The path in the workspace
        path: String,
        /// The file here [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Put a file into the workspace, and replace one at the path
    Put {
        /// The session
        id: String,
        /// The path in the workspace
        path: String,
        /// The file here, or `-` for standard input
        file: String,
        /// Refuse if there is a file at the path
        #[arg(long)]
        new: bool,
    },
    /// Remove a file or an empty folder
    Rm {
        /// The session
        id: String,
        /// The path in the workspace
        path: String,
    },
}

pub(super) async fn run(command: FilesCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        FilesCommand::List { id } => {
            let list: FileList = client.get(&folder(&id)).send().await?.body;
            printer.list(["PATH", "KIND", "BYTES"], &list.items, row)?;
            if list.truncated {
                Ok(printer.warning("the list is not complete, since there are too many files")?)
            } else {
                Ok(())
            }
        }
        FilesCommand::Get { id, path, output } => {
            let bytes = client.get(&file(&id, &path)).bytes().await?;
            match output {
                Some(output) => {
                    std::fs::write(&output, &bytes).map_err(|error| cannot("write", &output, &error))?;
                    Ok(printer.note(&format!("{} bytes are in `{}`", bytes.len(), output.display()))?)
                }
                None => Ok(std::io::stdout().lock().write_all(&bytes)?),
            }
        }
        FilesCommand::Put { id, path, file: from, new } => {
            let bytes = read(&from)?;
            let written = bytes.len();
            let put = client.put(&file(&id, &path)).body("application/octet-stream", bytes.into());
            let put = if new { put.replacing(None) } else { put };
            put.send::<IgnoredAny>().await?;
            let line = format!("`{path}` is written, {written} bytes");
            Ok(printer.result(&json!({"path": path, "bytes": written}), &line)?)
        }
        FilesCommand::Rm { id, path } => {
            ask::before_removal(printer, &format!("`{path}`"))?;
            client.delete(&file(&id, &path)).send::<IgnoredAny>().await?;
            Ok(printer.result(&json!({"removed": path}), &format!("`{path}` is removed"))?)
        }
    }
}

fn row(file: &FileView) -> [String; 3] {
    [file.path.clone(), file.kind.to_string(), file.bytes.to_string()]
}

fn read(place: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match place {
        "-" => std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes).map_err(Failure::from),
        file => std::fs::read(file).map_err(|error| cannot("read", Path::new(file), &error)),
    }
}

fn cannot(what: &str, file: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {what} `{}`: {error}", file.display()), "check the path and its permissions")
}

fn folder(id: &str) -> String {
    format!("/v1/sessions/{}/files", escape(id))
}

fn file(id: &str, path: &str) -> String {
    format!("{}/{}", folder(id), escape(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::Canned;
    use crate::testing::run_with;

    #[tokio::test]
    async fn a_file_is_put_and_read_byte_for_byte() {
        let here = tempfile::tempdir().expect("a folder");
        let (from, to) = (here.path().join("from"), here.path().join("to"));
        std::fs::write(&from, "a,b\r\n").expect("written");
        let put = FilesCommand::Put {
            id: "s_1".into(),
            path: "data/x.csv".into(),
            file: from.display().to_string(),
            new: true,
        };
        let ran = run_with(vec![Canned::empty(204)], false, async |client, printer| {
            run(put, client, printer).await
        })
        .await;
        ran.result.expect("put");
        assert_eq!(ran.asked[0].line(), "PUT /v1/sessions/s_1/files/data%2Fx.csv");
        assert_eq!(
            (ran.asked[0].header("if-none-match"), ran.asked[0].body.as_str()),
            (Some("*"), "a,b\r\n")
        );

        let get = FilesCommand::Get { id: "s_1".into(), path: "data/x.csv".into(), output: Some(to.clone()) };
        let answer = Canned { body: "a,b\r\n".into(), ..Canned::empty(200) };
        let ran =
            run_with(vec![answer], false, async |client, printer| run(get, client, printer).await).await;
        ran.result.expect("read");
        assert_eq!(std::fs::read(&to).expect("there"), b"a,b\r\n");
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_a_refusal_and_writes_nothing() {
        use toolgate_api::error::{CallError, ErrorType};
        let here = tempfile::tempdir().expect("a folder");
        let to = here.path().join("to");
        let get = FilesCommand::Get { id: "s_1".into(), path: "x".into(), output: Some(to.clone()) };
        let missing = Canned::refusal(CallError::new(ErrorType::NotFound, "no file `x`", "list them"));
        let ran =
            run_with(vec![missing], false, async |client, printer| run(get, client, printer).await).await;
        assert_eq!(ran.result.expect_err("missing").to_string(), "no file `x`");
        assert!(!to.exists());
    }
}
