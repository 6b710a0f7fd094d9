//! A terminal of an author or operator: commands from a page of the documentation, run by a shell.

#![allow(clippy::disallowed_methods, reason = "a shell is given the search path of this terminal")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::daemon::Daemon;

/// The page "your first plugin".
const GUIDE: &str = include_str!("../../daemon/docs/first-plugin.md");

/// Returns the commands of a text: the lines that begin with a prompt.
pub fn commands<'a>(text: &'a str) -> Vec<&'a str> {
    let without_comment = |line: &'a str| line.split("  #").next().unwrap_or(line).trim_end();
    let command = |line: &'a str| line.strip_prefix("$ ").map(without_comment);
    text.lines().filter_map(command).collect()
}

/// Returns the commands of one section of the guide.
pub fn guide_commands(section: &str) -> Vec<&'static str> {
    let (_, behind) = GUIDE.split_once(&format!("\n## {section}\n")).expect(section);
    commands(behind.split("\n## ").next().unwrap_or_default())
}

/// A terminal in a folder, in which `toolgate` is the program under test and the client of a daemon.
pub struct Shell {
    pub folder: PathBuf,
    environment: Vec<(String, String)>,
}

/// The output of a command line.
pub struct ShellOutput(pub Output);

impl Shell {
    pub fn new(program: &str, folder: &Path, daemon: &Daemon) -> Self {
        let programs = folder.join("bin");
        fs::create_dir(&programs).expect("a folder for programs");
        symlink(program, programs.join("toolgate")).expect("a program");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let home = |name: &str| folder.join(name).display().to_string();
        let environment = [
            ("PATH", path),
            ("TOOLGATE_SERVER", format!("http://{}", daemon.address)),
            ("TOOLGATE_TOKEN", daemon.operator_token()),
            ("XDG_CACHE_HOME", home("cache")),
            ("XDG_STATE_HOME", home("state")),
            // Dependencies were downloaded before, so the network is not needed.
            ("CARGO_NET_OFFLINE", "true".to_owned()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
        Self { folder: folder.to_owned(), environment }
    }

    /// Adds an environment variable.
    pub fn with(mut self, name: &str, value: &Path) -> Self {
        self.environment.push((name.to_owned(), value.display().to_string()));
        self
    }

    /// Runs a line as in a new terminal, without the environment of the build that runs this test.
    pub fn run(&self, line: &str) -> ShellOutput {
        let mut shell = Command::new("sh");
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("CARGO") && name != "CARGO_HOME"
                || name.starts_with("RUST") && name != "RUSTUP_HOME"
            {
                shell.env_remove(name);
            }
        }
        shell.envs(self.environment.iter().map(|(name, value)| (name, value)));
        ShellOutput(shell.current_dir(&self.folder).arg("-c").arg(line).output().expect("a shell"))
    }
}

impl ShellOutput {
    /// Standard output.
    #[track_caller]
    pub fn expect_success(self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, error) = (text(&self.0.stdout), text(&self.0.stderr));
        assert!(self.0.status.success(), "{out}\n{error}");
        out
    }

    /// Standard output of a command that failed with any status.
    #[track_caller]
    pub fn expect_refusal(self) -> String {
        assert!(!self.0.status.success(), "{:?}", self.0);
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    /// Standard error.
    #[track_caller]
    pub fn expect_failure(self) -> String {
        assert_eq!(self.0.status.code(), Some(1), "{:?}", self.0);
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}
