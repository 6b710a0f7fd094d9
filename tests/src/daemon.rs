//! The daemon as a child process: start, log, restart and exit.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::client::Client;
use crate::compiled_code;
use crate::wait::{self, TIMEOUT};

/// Running daemon. Killed on drop; the end of its log is printed if a test failed.
pub struct Daemon {
    program: PathBuf,
    options: Options,
    /// Temporary folder, kept across restarts.
    pub folder: Arc<TempDir>,
    child: Child,
    log: Arc<Log>,
    pub address: SocketAddr,
}

/// Options of a start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Settings file (TOML).
    pub settings: String,
    /// Data folder; by default one in the temporary folder.
    pub data: Option<PathBuf>,
    /// Address to listen at; by default a free port on loopback.
    pub listen: Option<String>,
    /// Command that runs the program, such as `env`; empty to run it directly.
    pub under: Vec<String>,
    /// Standard input; by default empty.
    pub stdin: Option<Arc<OwnedFd>>,
    /// More arguments of `serve`.
    pub arguments: Vec<String>,
}

/// Lines of the daemon's log, and whether it has ended.
#[derive(Default)]
struct Log {
    lines: Mutex<(Vec<String>, bool)>,
    changed: Condvar,
}

/// Exit status and output of a program.
#[derive(Debug)]
pub struct ProgramOutput {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Daemon {
    /// Starts the program on an empty data folder.
    pub fn start(program: &str, settings: &str) -> Self {
        Self::start_with(program, Options { settings: settings.to_owned(), ..Options::default() })
    }

    pub fn start_with(program: &str, options: Options) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        Self::run(program.into(), options, folder)
    }

    /// Starts a program that may exit before it serves.
    pub fn try_start_with(program: &str, options: Options) -> Option<Self> {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        Self::try_run(program.into(), options, folder).ok()
    }

    fn run(program: PathBuf, options: Options, folder: Arc<TempDir>) -> Self {
        Self::try_run(program, options, folder)
            .unwrap_or_else(|log| panic!("the line that it serves is not in the log:\n{log}"))
    }

    /// Returns the daemon, or its log if it exited before it served.
    fn try_run(program: PathBuf, options: Options, folder: Arc<TempDir>) -> Result<Self, String> {
        if options.data.is_none() {
            compiled_code::restore(&program, &data_of(&options, &folder))
                .expect("the compiled code is copied");
        }
        let settings = folder.path().join("toolgate.toml");
        fs::write(&settings, with_generous_limits(&options.settings)).expect("the settings are written");
        let mut command = Command::new(options.under.first().map_or(program.as_path(), Path::new));
        if !options.under.is_empty() {
            command.args(&options.under[1..]).arg(&program);
        }
        command.arg("serve").arg("--config").arg(&settings);
        command.arg("--data").arg(data_of(&options, &folder));
        command.arg("--listen").arg(options.listen.as_deref().unwrap_or("127.0.0.1:0"));
        command.args(&options.arguments);
        let input = options.stdin.as_ref().map(|input| input.try_clone().expect("a second descriptor"));
        let mut child = command
            .current_dir(folder.path())
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let log = Arc::new(Log::default());
        read_log(child.stderr.take().expect("a pipe"), Arc::clone(&log));
        let Some(serving) = log.find(|line| served_at(line).is_some()) else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(log.lock().0.join("\n"));
        };
        let address = served_at(&serving).expect("an address");
        Ok(Self { program, options, folder, child, log, address })
    }

    /// Kills it, and starts it again on the same folder.
    pub fn crash_and_restart(self) -> Self {
        self.restart_with(|_| {})
    }

    /// The same with other options. It may have ended already.
    pub fn restart_with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        self.crash();
        let (program, folder) = (self.program.clone(), Arc::clone(&self.folder));
        let mut options = self.options.clone();
        change(&mut options);
        drop(self);
        Self::run(program, options, folder)
    }

    /// Kills it with SIGKILL.
    pub fn crash(&mut self) {
        self.child.kill().expect("the daemon is killed");
        self.child.wait().expect("the daemon ends");
    }

    /// Sends SIGTERM without waiting.
    pub fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("the daemon is told");
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        kill_process(Pid::from_child(&self.child), Signal::HUP).expect("the daemon is told");
    }

    /// Waits until the process exits by itself.
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        wait::until("the daemon to end", || self.child.try_wait().expect("the daemon's status"))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub fn data(&self) -> PathBuf {
        data_of(&self.options, &self.folder)
    }

    /// The operator token that the first start created.
    pub fn operator_token(&self) -> String {
        let text = fs::read_to_string(self.data().join("operator.token")).expect("a first token");
        text.trim().to_owned()
    }

    /// Client with the operator token.
    pub fn operator(&self) -> Client {
        Client::new(self.address, Some(&self.operator_token()))
    }

    /// Client without a token.
    pub fn anonymous(&self) -> Client {
        Client::new(self.address, None)
    }

    /// Waits for a log line.
    pub fn wait_for_log(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        self.log.wait(what, fits)
    }

    /// All log lines so far.
    pub fn log_text(&self) -> String {
        self.log.lock().0.join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.log.wait_for_end();
        // Saving the cache only speeds up the next start, so errors are ignored.
        let _ = compiled_code::save(&self.program, &self.data());
        if std::thread::panicking() {
            let lines = self.log.lock();
            let last = lines.0.len().saturating_sub(40);
            eprintln!("--- the daemon's log\n{}\n---", lines.0[last..].join("\n"));
        }
    }
}

/// Runs the program until it exits.
pub fn run_to_end(program: &str, arguments: &[&str], folder: &Path) -> ProgramOutput {
    run_to_end_in(program, arguments, folder, &[])
}

/// Runs the program with environment variables until it exits.
pub fn run_to_end_in(
    program: &str,
    arguments: &[&str],
    folder: &Path,
    environment: &[(&str, &str)],
) -> ProgramOutput {
    let done = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    ProgramOutput {
        status: done.status,
        stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}

/// Raises the limits on rounds and failures, unless the settings have a `[calls]` section: tests make more calls in
/// one session than a model, and let tools fail on purpose.
fn with_generous_limits(settings: &str) -> String {
    let mut settings = settings.to_owned();
    if !settings.contains("[calls]") {
        settings +=
            "\n[calls]\nrounds_per_turn = 1000000\nrounds_per_session = 1000000\nbreaker_failures = 1000\n";
    }
    // Tests count the open files of a daemon. Behind the wall only root may list them.
    if !settings.contains("hardening") && !geteuid().is_root() {
        settings.insert_str(0, "hardening = \"off\"\n");
    }
    // Most tests load plugins of their own, and are not about consent.
    if !settings.contains("[consent]") {
        settings += "\n[consent]\nrequired = false\n";
    }
    settings
}

/// Parses the address from the log line `serving`, as text or JSON. A Unix socket has none: port 0 stands for it.
fn served_at(line: &str) -> Option<SocketAddr> {
    let forms = ["serving address=", "\"serving\",\"fields\":{\"address\":\""];
    let (_, behind) = forms.iter().find_map(|form| line.split_once(form))?;
    match behind.split('"').next()?.trim() {
        unix if unix.starts_with("unix:") => Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        address => address.parse().ok(),
    }
}

fn data_of(options: &Options, folder: &TempDir) -> PathBuf {
    options.data.clone().unwrap_or_else(|| folder.path().join("data"))
}

fn read_log(stderr: impl Read + Send + 'static, log: Arc<Log>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines() {
            let Ok(line) = line else { break };
            log.lock().0.push(line);
            log.changed.notify_all();
        }
        log.lock().1 = true;
        log.changed.notify_all();
    });
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, (Vec<String>, bool)> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let found = self.find(fits);
        found.unwrap_or_else(|| panic!("{what} is not in the log:\n{}", self.lock().0.join("\n")))
    }

    /// Waits until no process has the log open for writing.
    fn wait_for_end(&self) {
        let open = self.changed.wait_timeout_while(self.lock(), TIMEOUT, |state| !state.1);
        let is_late = open.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        assert!(!is_late || std::thread::panicking(), "a process of the daemon has outlived it");
    }

    /// Waits for a line; `None` if the log ends first.
    fn find(&self, fits: impl Fn(&str) -> bool) -> Option<String> {
        let missing = |state: &mut (Vec<String>, bool)| !state.1 && !state.0.iter().any(|line| fits(line));
        let waited = self.changed.wait_timeout_while(self.lock(), TIMEOUT, missing);
        let (lines, _) = waited.unwrap_or_else(PoisonError::into_inner);
        lines.0.iter().find(|line| fits(line)).cloned()
    }
}

/// Fixture shared by all tests of a file, one test at a time, so that each test measures only its own effects.
/// Dropped with the last waiting test, because a `static` is never dropped.
pub struct Shared<T> {
    value: Mutex<Weak<Mutex<T>>>,
}

impl<T> Shared<T> {
    #[allow(clippy::new_without_default, reason = "it stands in a static")]
    pub const fn new() -> Self {
        Self { value: Mutex::new(Weak::new()) }
    }

    /// Runs one test on the fixture. The first test starts it.
    pub fn with<R>(&self, start: impl FnOnce() -> T, test: impl FnOnce(&mut T) -> R) -> R {
        let value = {
            let mut shared = self.value.lock().unwrap_or_else(PoisonError::into_inner);
            shared.upgrade().unwrap_or_else(|| {
                let started = Arc::new(Mutex::new(start()));
                *shared = Arc::downgrade(&started);
                started
            })
        };
        let mut guard = value.lock().unwrap_or_else(PoisonError::into_inner);
        test(&mut guard)
    }
}
