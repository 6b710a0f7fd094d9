//! The protocols of a service manager: notifications, watchdog, settings that are read again, socket activation, credentials.

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use toolgate_tests::daemon::{Options, run_to_end_in};
use toolgate_tests::wait::{self, TIMEOUT};
use toolgate_tests::{Client, Daemon, compiled_code};

use super::{PROGRAM, message_and_hint};

/// The socket that a service manager reads notifications from.
struct Manager {
    folder: TempDir,
    received: Receiver<String>,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        let (sender, received) = channel();
        // A full socket blocks the daemon, so that everything is read at once. The thread ends with the process.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = socket.recv(&mut buffer) {
                if sender.send(String::from_utf8_lossy(&buffer[..length]).into_owned()).is_err() {
                    return;
                }
            }
        });
        Self { folder, received }
    }

    fn options(&self, variables: &[&str]) -> Options {
        let socket = format!("NOTIFY_SOCKET={}", self.folder.path().join("notify").display());
        let words = ["env", &socket].into_iter().chain(variables.iter().copied());
        Options { under: words.map(str::to_owned).collect(), ..Options::default() }
    }

    /// Waits for a notification with this line, and returns all of its lines.
    #[track_caller]
    fn expect(&self, line: &str) -> String {
        loop {
            let received = self.received.recv_timeout(TIMEOUT);
            let told = received.unwrap_or_else(|_| panic!("the manager was not told `{line}`"));
            if told.lines().any(|told| told == line) {
                return told;
            }
        }
    }
}

#[test]
fn the_manager_learns_when_calls_can_be_served_of_reloads_and_of_the_stop() {
    let manager = Manager::new();
    let mut daemon = Daemon::start_with(PROGRAM, manager.options(&["WATCHDOG_USEC=90000"]));
    manager.expect("STATUS=starting: restoring the state of the last run");
    let told = manager.expect("READY=1");
    daemon.operator().get("/v1/plugins").expect(200);
    let status = format!("STATUS=serving at {}", daemon.address);
    assert!(told.lines().any(|line| line == status), "{told}");
    for _ in 0..3 {
        manager.expect("WATCHDOG=1");
    }

    daemon.hang_up();
    let told = manager.expect("RELOADING=1");
    assert!(told.lines().any(|line| line.starts_with("MONOTONIC_USEC=")), "{told}");
    let told = manager.expect("READY=1");
    assert!(told.lines().any(|line| line == status), "{told}");

    daemon.terminate();
    let told = manager.expect("STOPPING=1");
    assert!(told.lines().any(|line| line.starts_with("EXTEND_TIMEOUT_USEC=")), "{told}");
    assert!(daemon.wait_for_exit().success());
}

/// 34: a container stops a daemon that still starts, which is process 1 there.
#[test]
fn a_stop_that_comes_during_the_start_ends_the_process_in_order() {
    let manager = Manager::new();
    let data = manager.folder.path().join("data");
    compiled_code::restore(Path::new(PROGRAM), &data).expect("the compiled code is copied");
    let mut daemon = Command::new(PROGRAM)
        .args(["serve", "--data", "data", "--listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", manager.folder.path().join("notify"))
        .current_dir(manager.folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    // The daemon makes the store and the audit log now, which takes longer than the signal.
    manager.expect("STATUS=starting: restoring the state of the last run");
    kill_process(Pid::from_child(&daemon), Signal::TERM).expect("the daemon is told");
    let ended = wait::until("the daemon to end", || daemon.try_wait().expect("the daemon's status"));
    assert_eq!(ended.code(), Some(0), "{ended}");
    // The folder that was left serves.
    let options = Options { data: Some(data), ..Options::default() };
    Daemon::start_with(PROGRAM, options).anonymous().get("/readyz").expect(200);
}

#[test]
fn a_hangup_reads_the_settings_again_and_names_those_that_need_a_restart() {
    let manager = Manager::new();
    let settings = "[log]\nlevel = \"info\"\n[http]\nconnections = 100\n".to_owned();
    let daemon = Daemon::start_with(PROGRAM, Options { settings, ..manager.options(&[]) });
    let file = daemon.folder.path().join("toolgate.toml");
    manager.expect("READY=1");
    let before = fs::read_to_string(&file).expect("settings");

    let quieter = before.replace("\"info\"", "\"warn\"").replace("connections = 100", "connections = 200");
    fs::write(&file, quieter).expect("settings");
    daemon.hang_up();
    let line = daemon.wait_for_log("the key", |line| line.contains("take effect at the next start"));
    assert!(line.contains("http.connections") && !line.contains("log.level"), "{line}");
    manager.expect("READY=1");
    assert!(!daemon.log_text().contains("the settings were read again"), "the level is the old one");

    fs::write(&file, &before).expect("settings");
    daemon.hang_up();
    daemon.wait_for_log("the level in force", |line| line.contains("the settings were read again"));
    manager.expect("READY=1");

    fs::write(&file, before + "\nspeed = 11\n").expect("settings");
    daemon.hang_up();
    let told = manager.expect("READY=1");
    assert!(told.contains("cannot be read again") && told.contains("unknown key `speed`"), "{told}");
    daemon.anonymous().get("/readyz").expect(200);
}

/// Options of a daemon that gets `socket` as descriptor 3, with the variables of `LISTEN`.
fn socket_options(socket: &Arc<OwnedFd>, listen: &str) -> Options {
    let script = format!(r#"{listen} exec "$0" "$@" 3<&0 </dev/null"#);
    let under = ["sh", "-c", &script].map(str::to_owned).to_vec();
    Options { under, stdin: Some(Arc::clone(socket)), ..Options::default() }
}

/// The variables of the protocol; the shell becomes the daemon, so that its process id is the daemon's.
const LISTEN: &str = "LISTEN_FDS=1 LISTEN_PID=$$";

#[test]
fn a_passed_socket_keeps_its_clients_while_the_daemon_restarts() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut daemon = Daemon::start_with(PROGRAM, socket_options(&Arc::new(listener.into()), LISTEN));
    assert_eq!(daemon.address, address);
    daemon.anonymous().get("/healthz").expect(200);
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    // The connection waits in the queue of the socket, from which no process accepts now.
    let waiting = Client::new(address, None).start("GET", "/healthz", &[], b"");
    let daemon = daemon.crash_and_restart();
    waiting.reply().expect(200);
    drop(daemon);
}

#[test]
fn a_passed_unix_socket_keeps_its_file_and_one_of_another_process_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolgate.sock");
    let socket: Arc<OwnedFd> = Arc::new(UnixListener::bind(&path).expect("a socket").into());
    let mut daemon = Daemon::start_with(PROGRAM, socket_options(&socket, LISTEN));
    assert!(daemon.log_text().contains(&format!("serving address=unix:{}", path.display())));
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    assert!(path.exists(), "the manager's socket was removed");

    let daemon = Daemon::start_with(PROGRAM, socket_options(&socket, "LISTEN_FDS=1 LISTEN_PID=1"));
    daemon.anonymous().get("/healthz").expect(200);
}

#[test]
fn a_socket_that_cannot_be_served_ends_the_start_with_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    for (listen, cause) in [
        ("LISTEN_FDS=2 LISTEN_PID=$$", "it passed 2 sockets"),
        ("LISTEN_FDS=1 LISTEN_PID=$$", "not a socket"),
    ] {
        let script = format!(r#"{listen} exec {PROGRAM} serve --listen 127.0.0.1:0 3</dev/null"#);
        let ended = run_to_end_in("sh", &["-c", &script], folder.path(), &[]);
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        let (message, hint) = message_and_hint(&ended);
        assert!(message.contains(cause), "{message}");
        assert!(hint.contains("`.socket`"), "{hint}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "files were created");
}

/// Another address than that of the settings gets the same checks.
#[test]
fn a_passed_socket_that_others_reach_needs_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let script = format!("{LISTEN} exec {PROGRAM} serve 3<&0 </dev/null");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(folder.path()).stdin(OwnedFd::from(listener));
    let ended = command.output().expect("the program runs");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("there is no TLS"), "{told}");
}

fn start_with_credential(folder: &Path, key: &str) -> Daemon {
    let path = folder.join("root-key");
    fs::write(&path, key).expect("a credential");
    // As an access control list of the manager shows.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).expect("a mode");
    let under = vec!["env".to_owned(), format!("CREDENTIALS_DIRECTORY={}", folder.display())];
    Daemon::start_with(PROGRAM, Options { under, ..Options::default() })
}

#[test]
fn the_root_key_comes_from_a_credential_of_the_unit() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start_with_credential(folder.path(), &"0123456789abcdef".repeat(4));
    let readiness = daemon.anonymous().get("/readyz").expect(200).json();
    assert_eq!(readiness["status"], "ok", "{readiness}");
    assert!(!daemon.data().join("keys/root").exists(), "a key was generated all the same");
    drop(daemon);

    let daemon = start_with_credential(folder.path(), "no key");
    let readiness = daemon.anonymous().get("/readyz").expect(200).json();
    assert_eq!(readiness["status"], "sealed", "{readiness}");
    assert!(!daemon.data().join("keys/root").exists(), "a key was generated instead");
}
