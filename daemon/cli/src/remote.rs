//! Address and token of the daemon that a command connects to.
//!
//! Both come from options, else from the environment, else from a context; a context that is named gives its token before the
//! environment, whose token may be of another server. Without them, a daemon on this machine gets
//! the operator token of `./toolgate-data`, the default data folder of `serve`; a daemon on another host never gets that
//! token implicitly.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use clap::{Args, Subcommand};

use super::client::{Client, ClientError, Server, TlsFiles};
use super::contexts::{Context, ContextFile, ContextTls, Contexts};
use super::failure::{Failure, Result};
use super::print::Printer;

const DEFAULT_SERVER: &str = "http://127.0.0.1:7300";
const DEFAULT_TOKEN_FILE: &str = "toolgate-data/operator.token";

/// Size limit of a token file, far above the length of a token; a wrong file is rejected before it is read whole.
const TOKEN_FILE_BYTES: u64 = 4096;

/// Heading of the options that every command has, so that a command's own options stand first.
pub(crate) const GLOBAL: &str = "Global options";

/// Options of every command that connects to a daemon.
#[derive(Args, Clone, Debug, Default)]
pub struct Remote {
    /// The daemon's URL: `http://`, `https://`, or `unix:` and the path of its socket [default: the current context, else
    /// http://127.0.0.1:7300]
    #[arg(long, global = true, env = "TOOLGATE_SERVER", value_name = "URL", help_heading = GLOBAL)]
    server: Option<String>,
    /// The context of `toolgate login` to use instead of the current one
    #[arg(long, global = true, env = "TOOLGATE_CONTEXT", value_name = "NAME", help_heading = GLOBAL)]
    context: Option<String>,
    /// A PEM file of certificate authorities that `https://` trusts besides the public ones
    #[arg(
        long,
        visible_alias = "ca",
        global = true,
        env = "TOOLGATE_CA_FILE",
        value_name = "FILE",
        help_heading = GLOBAL
    )]
    ca_file: Option<PathBuf>,
    /// A PEM file with the client certificate for a daemon that demands one
    #[arg(long, global = true, env = "TOOLGATE_CLIENT_CERTIFICATE", value_name = "FILE", help_heading = GLOBAL)]
    client_certificate: Option<PathBuf>,
    /// A PEM file with the private key of the client certificate
    #[arg(long, global = true, env = "TOOLGATE_CLIENT_KEY", value_name = "FILE", help_heading = GLOBAL)]
    client_key: Option<PathBuf>,
    /// The file that contains the token; else the named context, else TOOLGATE_TOKEN, else the current context, else
    /// ./toolgate-data/operator.token
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Answer questions with yes
    #[arg(long, global = true, help_heading = GLOBAL)]
    yes: bool,
}

/// A command, and the daemon that it connects to.
#[derive(Args)]
pub struct Connected<C: Args> {
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub command: C,
}

/// A group of commands, and the daemon that each of them connects to.
#[derive(Args)]
pub struct ConnectedGroup<C: Subcommand> {
    #[command(flatten)]
    pub remote: Remote,
    #[command(subcommand)]
    pub command: C,
}

impl<C: Args> Connected<C> {
    pub fn run(
        self,
        token: Option<OsString>,
        run: impl AsyncFnOnce(C, &Client, &mut Printer<'_>) -> Result,
    ) -> Result {
        self.remote.run(token, async |client, printer| run(self.command, client, printer).await)
    }
}

impl<C: Subcommand> ConnectedGroup<C> {
    pub fn run(
        self,
        token: Option<OsString>,
        run: impl AsyncFnOnce(C, &Client, &mut Printer<'_>) -> Result,
    ) -> Result {
        self.remote.run(token, async |client, printer| run(self.command, client, printer).await)
    }
}

impl Remote {
    /// Runs a command with a client of the configured daemon.
    pub fn run(
        &self,
        environment_token: Option<OsString>,
        command: impl AsyncFnOnce(&Client, &mut Printer<'_>) -> Result,
    ) -> Result {
        let (mut out, mut notes) = (anstream::stdout().lock(), anstream::stderr().lock());
        let mut printer = Printer::new(&mut out, &mut notes, self.json).fit_terminal().assume_yes(self.yes);
        let client = self.connect(environment_token, &mut printer)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // In a box, so that tokio's code that runs a future is compiled once, and not for each command.
        let command: Pin<Box<dyn Future<Output = Result> + '_>> = Box::pin(command(&client, &mut printer));
        runtime.block_on(command)?;
        Ok(out.flush()?)
    }

    /// The server of `--server` or the environment, or the default one, without a look at contexts.
    pub fn named_server(&self) -> &str {
        self.server.as_deref().unwrap_or(DEFAULT_SERVER)
    }

    /// Whether `--server` or the environment names a server.
    pub(crate) fn names_server(&self) -> bool {
        self.server.is_some()
    }

    /// The file of `--token-file`.
    pub fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }

    /// The files for TLS of options and environment, as absolute paths.
    pub fn named_files(&self) -> Result<ContextTls> {
        let absolute = |file: &Option<PathBuf>| file.as_deref().map(std::path::absolute).transpose();
        Ok(ContextTls {
            ca_file: absolute(&self.ca_file)?,
            client_certificate: absolute(&self.client_certificate)?,
            client_key: absolute(&self.client_key)?,
        })
    }

    /// The token of options, environment or data folder.
    pub fn token_without_context(
        &self,
        environment_token: Option<OsString>,
        server: &Server,
    ) -> Result<Option<String>> {
        self.token(environment_token, None, server, Path::new(DEFAULT_TOKEN_FILE))
    }

    fn connect(&self, environment_token: Option<OsString>, printer: &mut Printer<'_>) -> Result<Client> {
        let context = self.chosen_context()?;
        let server = self.server.as_deref().or(context.as_ref().map(|context| context.server.as_str()));
        let server = parse(server.unwrap_or(DEFAULT_SERVER))?;
        let token =
            self.token(environment_token, context.as_ref(), &server, Path::new(DEFAULT_TOKEN_FILE))?;
        if token.is_some() {
            warn_of_plain(&server, printer)?;
        }
        let files = self.tls_files(context.as_ref());
        // The printer belongs to the command, which is waiting, so the message goes straight to standard error.
        let client = Client::new(server, token.as_deref(), &files)?.on_wait(|server, why| {
            let why = why.map_or_else(|| ", which may compile a plugin".to_owned(), |why| format!(": {why}"));
            let _ = writeln!(
                anstream::stderr(),
                "no response yet from {server}{why}; waiting (Ctrl-C stops that)"
            );
        });
        Ok(client)
    }

    /// Returns the context that the command uses. The current one is read only where it can matter, so that a damaged
    /// file does not stop a command with options of its own.
    fn chosen_context(&self) -> Result<Option<Context>> {
        let contexts = match (&self.context, ContextFile::of_user()) {
            (_, Ok(file)) => file.read(),
            (Some(_), Err(failure)) => Err(failure),
            (None, Err(_)) => Ok(Contexts::default()),
        };
        match (contexts, &self.context, &self.server) {
            (Err(_), None, Some(_)) => Ok(None),
            (contexts, name, server) => context_for(&contexts?, name.as_deref(), server.as_deref()),
        }
    }

    fn tls_files(&self, context: Option<&Context>) -> TlsFiles {
        let stored = context.map(Context::tls_files).unwrap_or_default();
        TlsFiles {
            ca: self.ca_file.clone().or(stored.ca),
            pinned: None,
            certificate: self.client_certificate.clone().or(stored.certificate),
            key: self.client_key.clone().or(stored.key),
        }
    }

    fn token(
        &self,
        environment_token: Option<OsString>,
        context: Option<&Context>,
        server: &Server,
        default_file: &Path,
    ) -> Result<Option<String>> {
        if let Some(file) = &self.token_file {
            return token_in(file).map(Some);
        }
        if let (Some(_), Some(context)) = (&self.context, context) {
            return Ok(Some(context.token.clone()));
        }
        if let Some(token) = environment_token.filter(|token| !token.is_empty()) {
            let token = token.into_string().map_err(|_| {
                Failure::wrong_usage("TOOLGATE_TOKEN is not text", "put the token into it and nothing else")
            })?;
            return Ok(Some(token.trim().to_owned()));
        }
        if let Some(context) = context {
            return Ok(Some(context.token.clone()));
        }
        if server.is_loopback() && default_file.is_file() {
            return token_in(default_file).map(Some);
        }
        Ok(None)
    }
}

/// Warns of a token that travels the network in clear.
pub(crate) fn warn_of_plain(server: &Server, printer: &mut Printer<'_>) -> Result {
    if server.is_plain_remote() {
        printer
            .warning("the token is sent unencrypted and can be read on the way; use an `https://` server")?;
    }
    Ok(())
}

/// Returns the named context, or the current one where it is of the named server: a token never goes to another server
/// than its own.
fn context_for(contexts: &Contexts, name: Option<&str>, server: Option<&str>) -> Result<Option<Context>> {
    let is_of = |context: &Context| match server {
        None => Ok(true),
        Some(server) => Ok::<_, Failure>(parse(server)? == parse(&context.server)?),
    };
    let Some(name) = name else {
        return match contexts.current() {
            Some(context) if is_of(context)? => Ok(Some(context.clone())),
            _ => Ok(None),
        };
    };
    let context = contexts.get(name)?;
    if is_of(context)? {
        return Ok(Some(context.clone()));
    }
    Err(Failure::wrong_usage(
        format!("context `{name}` is of another server, {}", context.server),
        "leave out `--server` (and TOOLGATE_SERVER), or `--context` (and TOOLGATE_CONTEXT)",
    ))
}

fn parse(server: &str) -> Result<Server> {
    Server::parse(server).map_err(|error: ClientError| Failure::wrong_usage(error.to_string(), error.hint()))
}

fn token_in(file: &Path) -> Result<String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(TOKEN_FILE_BYTES).read_to_string(&mut text));
    if let Err(error) = read {
        return Err(Failure::new(
            format!("cannot read a token from `{}`: {error}", file.display()),
            "give a file that this user may read, with the token in it and nothing else",
        ));
    }
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Desk {
        folder: tempfile::TempDir,
        remote: Remote,
    }

    fn desk() -> Desk {
        // A named server keeps the contexts of the person who runs the tests out.
        let remote = Remote { server: Some(DEFAULT_SERVER.into()), ..Remote::default() };
        Desk { folder: tempfile::tempdir().expect("a folder"), remote }
    }

    impl Desk {
        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            path
        }

        fn token(&self, environment: Option<&str>, server: &str) -> Option<String> {
            let server = Server::parse(server).expect("a server");
            let default_file = self.folder.path().join("operator.token");
            let environment = environment.map(OsString::from);
            self.remote.token(environment, None, &server, &default_file).expect("readable")
        }
    }

    #[test]
    fn the_file_wins_over_the_environment_and_that_over_the_default() {
        let mut desk = desk();
        assert_eq!(desk.token(None, DEFAULT_SERVER), None);
        desk.file("operator.token", "tg_default\n");
        assert_eq!(desk.token(None, DEFAULT_SERVER).as_deref(), Some("tg_default"));
        assert_eq!(desk.token(Some(""), DEFAULT_SERVER).as_deref(), Some("tg_default"));
        assert_eq!(desk.token(Some("tg_env"), DEFAULT_SERVER).as_deref(), Some("tg_env"));
        desk.remote.token_file = Some(desk.file("mine", " tg_file \n"));
        assert_eq!(desk.token(Some("tg_env"), DEFAULT_SERVER).as_deref(), Some("tg_file"));
    }

    #[test]
    fn a_daemon_elsewhere_does_not_get_the_operator_token_of_this_machine() {
        let desk = desk();
        desk.file("operator.token", "tg_default");
        assert_eq!(desk.token(None, "http://tools.example.org"), None);
        assert_eq!(desk.token(Some("tg_env"), "http://tools.example.org").as_deref(), Some("tg_env"));
    }

    #[test]
    fn a_token_file_that_is_not_there_is_named() {
        let mut desk = desk();
        desk.remote.token_file = Some("/no/such/file".into());
        let server = Server::parse(DEFAULT_SERVER).expect("a server");
        let failure = desk.remote.token(None, None, &server, Path::new("")).expect_err("no file");
        assert!(failure.to_string().contains("`/no/such/file`"), "{failure}");
    }

    #[test]
    fn a_token_that_would_travel_the_network_in_clear_is_warned_of() {
        let notes_for = |server: &str| {
            let (mut out, mut notes) = (Vec::new(), Vec::new());
            let remote = Remote { server: Some(server.into()), ..desk().remote };
            remote
                .connect(Some("tg_x".into()), &mut Printer::new(&mut out, &mut notes, false))
                .expect("a client");
            notes
        };
        assert!(notes_for("http://127.0.0.1:1").is_empty());
        assert!(notes_for("https://10.0.0.1:1").is_empty());
        assert!(!notes_for("http://10.0.0.1:1").is_empty());
    }

    fn contexts() -> Contexts {
        let context = |server: &str, token: &str| Context {
            server: server.into(),
            token: token.into(),
            files: ContextTls::default(),
        };
        let contexts = [
            ("dev".to_owned(), context(DEFAULT_SERVER, "tg_dev")),
            ("prod".to_owned(), context("https://tools.example.org", "tg_prod")),
        ];
        Contexts { current: Some("prod".into()), contexts: contexts.into() }
    }

    #[test]
    fn a_token_of_a_context_goes_to_its_own_server_alone() {
        let token = |name: Option<&str>, server: Option<&str>| {
            context_for(&contexts(), name, server).map(|context| context.map(|context| context.token))
        };
        assert_eq!(token(None, None).expect("current").as_deref(), Some("tg_prod"));
        assert_eq!(
            token(None, Some("https://tools.example.org/")).expect("the same").as_deref(),
            Some("tg_prod")
        );
        assert_eq!(token(None, Some("https://other.example.org")).expect("none"), None);
        assert_eq!(token(Some("dev"), None).expect("named").as_deref(), Some("tg_dev"));
        let failure = token(Some("dev"), Some("https://other.example.org")).expect_err("another server");
        assert!(failure.hint().contains("TOOLGATE_SERVER"), "{}", failure.hint());
        token(Some("test"), None).expect_err("no such context");
    }

    #[test]
    fn options_and_environment_override_the_context_and_that_the_data_folder() {
        let mut desk = desk();
        let default_file = desk.file("operator.token", "tg_default");
        let server = Server::parse(DEFAULT_SERVER).expect("a server");
        let contexts = contexts();
        let context = contexts.get("dev").expect("a context");
        let token = |remote: &Remote, environment: Option<&str>| {
            let environment = environment.map(OsString::from);
            remote.token(environment, Some(context), &server, &default_file).expect("readable")
        };
        assert_eq!(token(&desk.remote, None).as_deref(), Some("tg_dev"));
        assert_eq!(token(&desk.remote, Some("tg_env")).as_deref(), Some("tg_env"));
        // The token of the environment may be of another server than the named context.
        desk.remote.context = Some("dev".into());
        assert_eq!(token(&desk.remote, Some("tg_env")).as_deref(), Some("tg_dev"));
        desk.remote.token_file = Some(desk.file("mine", "tg_file"));
        assert_eq!(token(&desk.remote, Some("tg_env")).as_deref(), Some("tg_file"));
    }
}
