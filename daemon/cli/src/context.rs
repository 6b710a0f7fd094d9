//! Contexts: named daemons with their tokens, so that commands need no `--server` and `--token-file`.
//!
//! The file of contexts is `$XDG_CONFIG_HOME/toolgate/contexts.json`, readable by its owner alone. The token of a context is
//! sent to the server of this context and to no other one.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use serde::de::IgnoredAny;
use serde_json::json;

use super::client::{Client, ClientError, Server};
use super::contexts::{Context, ContextFile, Contexts};
use super::document::text_from;
use super::failure::{Failure, Result};
use super::print::{Printer, cell, time_text};
use super::remote::{Remote, warn_of_plain};
use super::sign_in::sign_in;

const LOGIN_EXAMPLES: &str = "\
Examples:
  toolgate login --server https://tools.example.org --token-file token
  toolgate login prod --server https://tools.example.org --token-file - --ca-file ca.pem
  toolgate login prod --server https://tools.example.org --oidc    sign in as in the console, on any device
  toolgate login --oidc    the same again for the current context";

const CONTEXT_EXAMPLES: &str = "\
Examples:
  toolgate context list
  toolgate context use prod
  toolgate context remove prod";

/// Name of a context whose server has no host name, such as a Unix socket.
const DEFAULT_NAME: &str = "default";

#[derive(Args)]
#[command(after_help = LOGIN_EXAMPLES)]
pub struct LoginOptions {
    #[command(flatten)]
    pub remote: Remote,
    /// The name of the context [default: the host of the server]
    name: Option<String>,
    /// Store the context without a request that proves the token
    #[arg(long)]
    offline: bool,
    /// Sign in at the provider of the daemon's console, on any device with a browser, instead of with a token
    #[arg(long, conflicts_with_all = ["offline", "token_file"])]
    oidc: bool,
}

#[derive(Args)]
#[command(after_help = CONTEXT_EXAMPLES)]
pub struct ContextOptions {
    #[command(subcommand)]
    command: ContextCommand,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum ContextCommand {
    /// List the contexts; `*` marks the current one
    List,
    /// Make a context the current one
    Use {
        /// The context
        name: String,
    },
    /// Remove a context with its token
    Remove {
        /// The context
        name: String,
    },
}

/// Stores server, token and certificates as a context, and makes it the current one.
pub(crate) fn login(options: LoginOptions, environment_token: Option<OsString>) -> Result {
    let LoginOptions { remote, name, offline, oidc } = options;
    let file = ContextFile::of_user()?;
    let mut contexts = file.read()?;
    let known = match &name {
        Some(name) => contexts.contexts.get(name),
        None => contexts.current(),
    };
    let (name, server, files) = match known.filter(|_| oidc && !remote.names_server()) {
        // Another sign-in at the same daemon.
        Some(known) => (name.or_else(|| contexts.current.clone()), known.server.clone(), known.files.clone()),
        None => (name, remote.named_server().to_owned(), remote.named_files()?),
    };
    let parsed = Server::parse(&server).map_err(|error| wrong_usage(&error))?;
    let mut context = Context { server, token: String::new(), files };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if oidc {
        let client = Client::new(parsed.clone(), None, &context.tls_files())?;
        print_with(remote.json, |printer| {
            warn_of_plain(&parsed, printer)?;
            let made = runtime.block_on(sign_in(&client, printer))?;
            if let Some(end) = made.expires_at {
                printer.note(&format!("signed in as {} until {}", made.role.as_str(), time_text(end)))?;
            }
            context.token = made.token.unwrap_or_default();
            Ok(())
        })?;
    } else {
        context.token = login_token(&remote, environment_token, &parsed)?;
        print_with(remote.json, |printer| warn_of_plain(&parsed, printer))?;
    }
    let name = match name {
        Some(name) => checked_name(name)?,
        None => default_name(&parsed),
    };
    if !offline && !oidc {
        let client = Client::new(parsed, Some(&context.token), &context.tls_files())?;
        runtime.block_on(expect_known_token(&client))?;
    }
    let shown = json!({"context": name, "server": context.server, "file": file.path().display().to_string()});
    let line = format!("`{name}` is the current context: {}", context.server);
    contexts.contexts.insert(name.clone(), context);
    contexts.current = Some(name);
    file.write(&contexts)?;
    print_with(remote.json, |printer| Ok(printer.result(&shown, &line)?))
}

/// Runs `toolgate context`.
pub(crate) fn run(options: ContextOptions) -> Result {
    let file = ContextFile::of_user()?;
    print_with(options.json, |printer| run_in(options.command, &file, printer))
}

fn run_in(command: ContextCommand, file: &ContextFile, printer: &mut Printer<'_>) -> Result {
    let mut contexts = file.read()?;
    match command {
        ContextCommand::List => list(&contexts, printer),
        ContextCommand::Use { name } => {
            contexts.get(&name)?;
            contexts.current = Some(name.clone());
            file.write(&contexts)?;
            Ok(printer.result(&json!({"current": name}), &format!("`{name}` is the current context"))?)
        }
        ContextCommand::Remove { name } => {
            contexts.get(&name)?;
            contexts.contexts.remove(&name);
            contexts.current = contexts.current.filter(|current| *current != name);
            file.write(&contexts)?;
            Ok(printer.result(&json!({"removed": name}), &format!("context `{name}` is removed"))?)
        }
    }
}

/// A context without its token.
#[derive(serde::Serialize)]
struct ListedContext<'a> {
    name: &'a str,
    server: &'a str,
    current: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_file: Option<String>,
}

const HEADINGS: [&str; 4] = ["", "NAME", "SERVER", "CA FILE"];

fn row(context: &ListedContext<'_>) -> [String; 4] {
    let mark = if context.current { "*" } else { " " };
    [mark.to_owned(), context.name.to_owned(), context.server.to_owned(), cell(context.ca_file.as_ref())]
}

fn list(contexts: &Contexts, printer: &mut Printer<'_>) -> Result {
    let items: Vec<_> = contexts
        .contexts
        .iter()
        .map(|(name, context)| ListedContext {
            name,
            server: &context.server,
            current: contexts.current.as_deref() == Some(name),
            ca_file: context.files.ca_file.as_ref().map(|file| file.display().to_string()),
        })
        .collect();
    Ok(printer.list(HEADINGS, &items, row)?)
}

/// The token of a login: as of every command, but without a context; `--token-file -` reads standard input.
fn login_token(remote: &Remote, environment_token: Option<OsString>, server: &Server) -> Result<String> {
    let is_input = remote.token_file().is_some_and(|file| file.as_os_str() == "-");
    let token = if is_input {
        Some(text_from("-")?.trim().to_owned())
    } else {
        remote.token_without_context(environment_token, server)?
    };
    token.filter(|token| !token.is_empty()).ok_or_else(|| {
        Failure::wrong_usage(
            "a login needs a token",
            "name its file with `--token-file FILE`, or `--token-file -` for standard input",
        )
    })
}

/// Sends one request with the token. A refusal for the role proves the token as well.
async fn expect_known_token(client: &Client) -> Result {
    match client.get("/v1/orgs?limit=1").send::<IgnoredAny>().await {
        Ok(_) => Ok(()),
        Err(error) if error.status() == Some(403) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn default_name(server: &Server) -> String {
    let name: String = server
        .host()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' })
        .collect();
    let name = name.trim_matches('-');
    if name.is_empty() { DEFAULT_NAME.to_owned() } else { name.to_owned() }
}

fn checked_name(name: String) -> Result<String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    if !name.is_empty() && name.len() <= 100 && name.chars().all(is_plain) {
        return Ok(name);
    }
    Err(Failure::wrong_usage(
        format!("`{name}` is not the name of a context"),
        "write 1 to 100 letters, digits, dots, hyphens and underscores, like `prod`",
    ))
}

fn wrong_usage(error: &ClientError) -> Failure {
    Failure::wrong_usage(error.to_string(), error.hint())
}

fn print_with(json: bool, print: impl FnOnce(&mut Printer<'_>) -> Result) -> Result {
    let (mut out, mut notes) = (anstream::stdout().lock(), anstream::stderr().lock());
    print(&mut Printer::new(&mut out, &mut notes, json).fit_terminal())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_contexts(folder: &tempfile::TempDir) -> ContextFile {
        let file = ContextFile::at(folder.path().join("toolgate/contexts.json"));
        let context = |server: &str| Context {
            server: server.into(),
            token: "tg_secret".into(),
            files: Default::default(),
        };
        let contexts = [("dev", "http://127.0.0.1:7300"), ("prod", "https://tools.example.org")];
        let contexts = contexts.map(|(name, server)| (name.to_owned(), context(server)));
        file.write(&Contexts { current: Some("dev".into()), contexts: contexts.into() }).expect("written");
        file
    }

    fn run_command(command: ContextCommand, file: &ContextFile) -> (Result, String) {
        let (mut out, mut notes) = (anstream::StripStream::new(Vec::new()), Vec::new());
        let result = run_in(command, file, &mut Printer::new(&mut out, &mut notes, false));
        (result, String::from_utf8(out.into_inner()).expect("text"))
    }

    #[test]
    fn contexts_are_listed_without_tokens_chosen_and_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = two_contexts(&folder);
        let (result, out) = run_command(ContextCommand::List, &file);
        result.expect("listed");
        assert!(out.contains("*  dev   http://127.0.0.1:7300") && !out.contains("tg_secret"), "{out}");
        run_command(ContextCommand::Use { name: "prod".into() }, &file).0.expect("chosen");
        assert_eq!(file.read().expect("contexts").current.as_deref(), Some("prod"));
        run_command(ContextCommand::Remove { name: "prod".into() }, &file).0.expect("removed");
        let left = file.read().expect("contexts");
        assert_eq!((left.current, left.contexts.len()), (None, 1));
    }

    #[test]
    fn an_unknown_context_is_refused_and_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = two_contexts(&folder);
        let failure = run_command(ContextCommand::Use { name: "prd".into() }, &file).0.expect_err("unknown");
        assert!(failure.to_string().contains("`prd`") && failure.hint().contains("dev, prod"), "{failure}");
        run_command(ContextCommand::Remove { name: "prd".into() }, &file).0.expect_err("unknown");
        assert_eq!(file.read().expect("contexts").current.as_deref(), Some("dev"));
    }

    #[test]
    fn a_context_is_named_for_its_host() {
        for (server, name) in [
            ("https://tools.example.org:8443", "tools.example.org"),
            ("http://[::1]:7300", "1"),
            ("unix:/run/toolgate.sock", "localhost"),
        ] {
            assert_eq!(default_name(&Server::parse(server).expect("a server")), name);
        }
        checked_name("prod_1.eu".into()).expect("a name");
        checked_name("a/b".into()).expect_err("no name");
    }
}
