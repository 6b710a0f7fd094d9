//! The program as people run it: a daemon, token files, and commands with their output.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use toolgate_tests::daemon::{ProgramOutput, run_to_end};
use toolgate_tests::{Daemon, Value};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// A daemon, and a folder with the token files of several principals.
pub struct Terminal {
    pub daemon: Daemon,
    pub folder: tempfile::TempDir,
    /// Option that names the daemon.
    pub server: String,
}

impl Terminal {
    pub fn new() -> Self {
        Self::with_settings("")
    }

    pub fn with_settings(settings: &str) -> Self {
        let daemon = Daemon::start(PROGRAM, settings);
        let server = format!("--server=http://{}", daemon.address);
        let terminal = Self { daemon, folder: tempfile::tempdir().expect("a folder"), server };
        terminal.file("operator", &terminal.daemon.operator_token());
        terminal
    }

    /// Starts a daemon with an organization that enables every tool, and an agent.
    pub fn with_agent(document: &str) -> Self {
        let terminal = Self::new();
        terminal.file("everything.json", r#"{"enabled": "*"}"#);
        terminal.file("bot.json", document);
        terminal.run_ok(&["org", "put", "acme"]);
        terminal.run_ok(&["policy", "put", "acme", "everything.json"]);
        terminal.run_ok(&["policy", "put", "acme/bot", "bot.json"]);
        terminal
    }

    pub fn file(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Creates a token and writes it into the file `name`.
    pub fn new_token(&self, name: &str, options: &[&str]) {
        self.file(name, &self.run_ok(&[&["token", "create", "--label", name], options].concat()));
    }

    /// Runs a command with the token file `who`.
    pub fn run_as(&self, who: &str, words: &[&str]) -> ProgramOutput {
        run_to_end(PROGRAM, &self.line(who, words), self.folder.path())
    }

    pub fn line<'a>(&'a self, who: &'a str, words: &[&'a str]) -> Vec<&'a str> {
        [words, &["--token-file", who, &self.server]].concat()
    }

    /// Runs a command as operator, and returns its standard output. Asserts success.
    #[track_caller]
    pub fn run_ok(&self, words: &[&str]) -> String {
        self.run_ok_as("operator", words)
    }

    #[track_caller]
    pub fn run_ok_as(&self, who: &str, words: &[&str]) -> String {
        let ended = self.run_as(who, words);
        assert_eq!(ended.status.code(), Some(0), "{words:?}: {}\n{}", ended.stdout, ended.stderr);
        ended.stdout
    }

    /// Runs a command with `--json`.
    #[track_caller]
    pub fn read_json(&self, words: &[&str]) -> Value {
        let out = self.run_ok(&[words, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{words:?}: {error}: {out}"))
    }

    /// Runs a command that must fail, and returns its standard error: a message and a hint.
    #[track_caller]
    pub fn fail_as(&self, who: &str, words: &[&str]) -> String {
        let ended = self.run_as(who, words);
        assert_eq!(ended.status.code(), Some(1), "{words:?}: {}\n{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains("error: ") && ended.stderr.contains("\n hint: "), "{}", ended.stderr);
        ended.stderr
    }

    #[track_caller]
    pub fn fail(&self, words: &[&str]) -> String {
        self.fail_as("operator", words)
    }

    pub fn session(&self) -> String {
        text(&self.read_json(&["session", "open", "acme/bot"])["session"])
    }

    /// Makes a call that needs approval, and returns the approval's id.
    pub fn request_approval(&self, session: &str, arguments: &str) -> String {
        let error = self.fail(&["call", "--session", session, "files/append", arguments]);
        expect(&error, &["the call waits for a person"]);
        error.split('`').nth(1).expect("the approval's name").to_owned()
    }

    /// Starts a command that streams events, and waits until it listens.
    pub fn follow(&self, words: &[&str]) -> EventCommand {
        let mut child = Command::new(PROGRAM)
            .args(self.line("operator", words))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut notes = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut first = String::new();
        notes.read_line(&mut first).expect("a note");
        assert!(first.starts_with("listening"), "{first}");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        EventCommand { child, out }
    }
}

/// A command that streams events.
pub struct EventCommand {
    pub child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl EventCommand {
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line
    }

    /// Reads the rest of the output, and returns it with the exit status.
    pub fn rest(mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("text");
        (rest, self.child.wait().expect("an end").code())
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[track_caller]
pub fn expect(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}`: {text}");
    }
}
