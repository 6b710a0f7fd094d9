//! Address and token of the daemon that a command connects to.
//!
//! The token comes from a file or the environment. Without either, a daemon on this machine gets the operator token
//! of `./toolgate-data`, the default data folder of `serve`; a daemon on another host never gets that token
//! implicitly.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::client::{Client, ClientError, Server, TlsFiles};
use super::failure::Failure;
use super::print::Printer;

const DEFAULT_SERVER: &str = "http://127.0.0.1:7300";
const DEFAULT_TOKEN_FILE: &str = "toolgate-data/operator.token";

/// Size limit of a token file, far above the length of a token; a wrong file is rejected before it is read whole.
const TOKEN_FILE_BYTES: u64 = 4096;

/// Options of every command that connects to a daemon.
#[derive(Args, Clone, Debug)]
pub struct Remote {
    /// The daemon's URL: `http://`, `https://`, or `unix:` and the path of its socket
    #[arg(long, global = true, env = "TOOLGATE_SERVER", value_name = "URL", default_value = DEFAULT_SERVER)]
    server: String,
    /// A PEM file of certificate authorities that `https://` trusts besides the public ones
    #[arg(long, visible_alias = "ca", global = true, env = "TOOLGATE_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// A PEM file with the client certificate for a daemon that demands one
    #[arg(long, global = true, env = "TOOLGATE_CLIENT_CERTIFICATE", value_name = "FILE")]
    client_certificate: Option<PathBuf>,
    /// A PEM file with the private key of the client certificate
    #[arg(long, global = true, env = "TOOLGATE_CLIENT_KEY", value_name = "FILE")]
    client_key: Option<PathBuf>,
    /// The file that contains the token; else TOOLGATE_TOKEN, else ./toolgate-data/operator.token
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

impl Remote {
    /// Runs a command with a client of the configured daemon.
    pub fn run(
        &self,
        environment_token: Option<OsString>,
        command: impl AsyncFnOnce(&Client, &mut Printer<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (mut out, mut notes) = (anstream::stdout().lock(), anstream::stderr().lock());
        let mut printer = Printer::new(&mut out, &mut notes, self.json);
        let client = self.connect(environment_token, &mut printer)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(command(&client, &mut printer))?;
        Ok(out.flush()?)
    }

    fn connect(
        &self,
        environment_token: Option<OsString>,
        printer: &mut Printer<'_>,
    ) -> Result<Client, Failure> {
        let usage_error = |error: ClientError| Failure::wrong_usage(error.to_string(), error.hint());
        let server = Server::parse(&self.server).map_err(usage_error)?;
        let token = self.token(environment_token, &server, Path::new(DEFAULT_TOKEN_FILE))?;
        if token.is_some() && server.is_plain_remote() {
            printer.warning(
                "the token is sent unencrypted and can be read on the way; use an `https://` server",
            )?;
        }
        // The printer belongs to the command, which is waiting, so the message goes straight to standard error.
        let files = TlsFiles {
            ca: self.ca_file.clone(),
            certificate: self.client_certificate.clone(),
            key: self.client_key.clone(),
        };
        let client = Client::new(server, token.as_deref(), &files)?.on_wait(|server| {
            let _ =
                writeln!(anstream::stderr(), "no response yet from {server}; waiting (Ctrl-C stops that)");
        });
        Ok(client)
    }

    fn token(
        &self,
        environment_token: Option<OsString>,
        server: &Server,
        default_file: &Path,
    ) -> Result<Option<String>, Failure> {
        if let Some(file) = &self.token_file {
            return token_in(file).map(Some);
        }
        if let Some(token) = environment_token.filter(|token| !token.is_empty()) {
            let token = token.into_string().map_err(|_| {
                Failure::wrong_usage("TOOLGATE_TOKEN is not text", "put the token into it and nothing else")
            })?;
            return Ok(Some(token.trim().to_owned()));
        }
        if server.is_loopback() && default_file.is_file() {
            return token_in(default_file).map(Some);
        }
        Ok(None)
    }
}

fn token_in(file: &Path) -> Result<String, Failure> {
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
        let remote = Remote {
            server: DEFAULT_SERVER.into(),
            ca_file: None,
            client_certificate: None,
            client_key: None,
            token_file: None,
            json: false,
        };
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
            self.remote.token(environment.map(OsString::from), &server, &default_file).expect("readable")
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
        let failure = desk.remote.token(None, &server, Path::new("")).expect_err("no file");
        assert!(failure.to_string().contains("`/no/such/file`"), "{failure}");
    }

    #[test]
    fn a_token_that_would_travel_the_network_in_clear_is_warned_of() {
        let notes_for = |server: &str| {
            let (mut out, mut notes) = (Vec::new(), Vec::new());
            let remote = Remote { server: server.into(), ..desk().remote };
            remote
                .connect(Some("tg_x".into()), &mut Printer::new(&mut out, &mut notes, false))
                .expect("a client");
            notes
        };
        assert!(notes_for("http://127.0.0.1:1").is_empty());
        assert!(notes_for("https://10.0.0.1:1").is_empty());
        assert!(!notes_for("http://10.0.0.1:1").is_empty());
    }
}
