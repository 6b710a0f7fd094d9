//! Messages of a start: the path of the first token, and cause and fix of a failure.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

#[path = "start/faults.rs"]
mod faults;
#[path = "start/killed.rs"]
mod killed;
#[path = "start/package.rs"]
mod package;
#[path = "start/quickstart.rs"]
mod quickstart;
#[path = "start/reload.rs"]
mod reload;
#[path = "start/service_manager.rs"]
mod service_manager;

use std::fs::{self, DirBuilder};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;
use toolgate_core::wall::WallSupport;
use toolgate_tests::daemon::{ProgramOutput, run_to_end, run_to_end_in};
use toolgate_tests::disk::SmallDisk;
use toolgate_tests::wall_probe::{ProbeTargets, run_in_process};
use toolgate_tests::{Daemon, PluginFile, Value, compiled_code, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// A user without files.
const NOBODY: u32 = 65_534;

/// Runs a start that must fail.
#[track_caller]
fn start_fails(folder: &Path, options: &[&str]) -> ProgramOutput {
    let ended = run_to_end(PROGRAM, &[&["serve", "--listen", "127.0.0.1:0"], options].concat(), folder);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    ended
}

/// Message and hint of a failure, after the log lines.
#[track_caller]
fn message_and_hint(ended: &ProgramOutput) -> (&str, &str) {
    let message_and_hint = ended
        .stderr
        .split_once("error: ")
        .and_then(|(_, message_and_hint)| message_and_hint.split_once("\n hint: "));
    let (message, hint) =
        message_and_hint.unwrap_or_else(|| panic!("no message with a hint: {}", ended.stderr));
    (message, hint.trim_end())
}

#[test]
fn invalid_options_are_usage_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    for (words, hint) in [
        (&["serve", "--listen", "nonsense"][..], "127.0.0.1:7300"),
        (&["serve", "--listen", "127.0.0.1:80000"], "ports end at 65535"),
        (&["serve", "--listen", "localhost:7813"], "names are not looked up"),
        (&["serve", "--store", "postgres://x"], "use SQLite"),
        (&["plugin", "list", "--server", "nonsense"], "http://127.0.0.1:7300"),
    ] {
        let ended = run_to_end(PROGRAM, words, folder.path());
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {}", ended.stderr);
        assert!(message_and_hint(&ended).1.contains(hint), "{words:?}: {}", ended.stderr);
    }
    let ended = run_to_end(PROGRAM, &["token", "create", "--role", "owner"], folder.path());
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("--organization <ORG>"), "{}", ended.stderr);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "files were created");
    // An invalid value in a settings file is no usage error.
    fs::write(folder.path().join("t.toml"), "store = \"postgres://x\"").expect("settings");
    start_fails(folder.path(), &["--config", "t.toml"]);
}

#[test]
fn the_version_names_wasmtime_and_the_platform() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = run_to_end(PROGRAM, &["version", "--json"], folder.path());
    let version: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["wasmtime"], toolgate_sandbox::WASMTIME_VERSION);
    assert!(version["target"].as_str().is_some_and(|target| target.contains("linux")), "{version}");
    // The binary is the same for every commit.
    assert_eq!(version["commit"], Value::Null);
    let text = run_to_end(PROGRAM, &["--version"], folder.path()).stdout;
    assert!(text.starts_with(&format!("toolgate {} (wasmtime ", env!("CARGO_PKG_VERSION"))), "{text}");
}

#[test]
fn a_hangup_does_not_end_the_daemon() {
    let daemon = Daemon::start(PROGRAM, "");
    daemon.hang_up();
    daemon.wait_for_log("the signal", |line| line.contains("the settings were read again"));
    daemon.anonymous().get("/healthz").expect(200);
}

/// Holds for every umask: a later copy of the folder, or a folder opened before, is private too.
#[test]
fn the_data_folder_is_private() {
    let daemon = Daemon::start(PROGRAM, "");
    let (mut folders, mut seen) = (vec![daemon.data().to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let entry = entry.expect("an entry");
            // Files that the daemon has replaced no longer exist.
            let Ok(about) = entry.metadata() else { continue };
            assert_eq!(about.permissions().mode() & 0o077, 0, "{}", entry.path().display());
            if about.is_dir() {
                folders.push(entry.path());
            }
            seen.push(entry.file_name());
        }
    }
    for file in ["state.db", "audit-index.db", "operator.token"] {
        assert!(seen.iter().any(|name| name == file), "{file}: {seen:?}");
    }
}

#[test]
fn only_the_first_start_logs_the_path_of_the_token() {
    let daemon = Daemon::start(PROGRAM, "");
    let file = daemon.data().join("operator.token").display().to_string();
    let token = daemon.operator_token();
    let log = daemon.log_text();
    assert_eq!(log.matches(&file).count(), 1, "{log}");
    assert!(!log.contains(&token), "a log is read by others: {log}");
    let daemon = daemon.crash_and_restart();
    assert!(!daemon.log_text().contains(&file), "{}", daemon.log_text());
}

#[test]
fn the_log_follows_the_colour_settings_of_the_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = |environment: &[(&str, &str)]| {
        let words = ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:missing/state.db"];
        let ended = run_to_end_in(PROGRAM, &words, folder.path(), environment);
        let line = ended.stderr.lines().find(|line| line.contains("sandbox ready")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{ended:?}"))
    };
    let forced = ("CLICOLOR_FORCE", "1");
    assert!(log(&[forced]).contains('\x1b'));
    assert!(!log(&[forced, ("NO_COLOR", "1")]).contains('\x1b'));
    assert!(!log(&[]).contains('\x1b'));
}

#[test]
fn a_missing_folder_of_the_store_is_named_with_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = start_fails(folder.path(), &["--store", "sqlite:nowhere/state.db"]);
    let (message, hint) = message_and_hint(&ended);
    assert!(message.starts_with("the folder of the store does not exist: `nowhere/state.db`"), "{message}");
    assert!(hint.contains("create it"), "{hint}");
}

#[test]
fn a_cause_is_reported_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = start_fails(folder.path(), &["--data", "/proc/toolgate"]);
    let (message, hint) = message_and_hint(&ended);
    assert_eq!(message.matches("os error").count(), 1, "{message}");
    assert!(hint.contains("`--data`"), "{hint}");
}

#[test]
#[cfg_attr(not(has = "mount"), ignore = "needs permission to mount a file system")]
fn a_full_disk_gets_a_hint_to_free_space() {
    let disk = SmallDisk::mount("16m");
    let data = disk.path().join("data").display().to_string();
    // The first file that the start writes may be the lock or the WAL of the store.
    disk.fill();
    let ended = start_fails(disk.path(), &["--data", &data]);
    assert!(message_and_hint(&ended).1.starts_with("free space on the disk"), "{}", ended.stderr);
}

/// 34: a unit whose user has no rights to the folder.
#[test]
fn a_data_folder_of_another_user_is_named_and_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    fs::write(data.join("letter"), "of another user").expect("a file");
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data).current_dir("/");
    // Modes do not bind root, so root starts the daemon as the user `nobody`; any other user gets a folder without write permission.
    let mode = if geteuid().is_root() { 0o700 } else { 0o500 };
    if geteuid().is_root() {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        command.uid(NOBODY).gid(NOBODY);
    }
    fs::set_permissions(&data, fs::Permissions::from_mode(mode)).expect("a mode");
    let done = command.output().expect("the program runs");
    let ended = ProgramOutput {
        status: done.status,
        stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    };
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let (message, hint) = message_and_hint(&ended);
    assert!(message.contains("data") && hint.contains("user"), "{message} ({hint})");
    assert_eq!(fs::read_dir(&data).expect("a folder").count(), 1, "a file was made");
}

#[test]
fn a_start_at_a_port_in_use_creates_no_files() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let ended = run_to_end(PROGRAM, &["serve", "--data", "data", "--listen", &address], folder.path());
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(message_and_hint(&ended).0.contains(&address), "{}", ended.stderr);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "files were created");
}

/// Files and folders of other types at the paths that the daemon needs.
#[test]
fn a_wrong_file_in_the_data_folder_is_named_with_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let data = data.to_str().expect("text");
    let assert_reported = |name: &str, put: fn(&Path)| {
        let path = Path::new(data).join(name);
        let parent = path.parent().expect("a folder");
        DirBuilder::new().recursive(true).mode(0o700).create(parent).expect("a folder");
        put(&path);
        let ended = start_fails(folder.path(), &["--data", data]);
        let (message, hint) = message_and_hint(&ended);
        assert!(message.contains(&format!("`{}`", path.display())), "{name}: {message}");
        assert_eq!(message.matches("os error").count(), 1, "{name}: {message}");
        assert!(hint.starts_with("move"), "{name}: {hint}");
        fs::remove_dir_all(data).expect("removed");
    };
    let file = |path: &Path| fs::write(path, "wrong").expect("written");
    for name in ["components", "workspaces", "keys", "audit", "cache"] {
        assert_reported(name, file);
    }
    let directory = |path: &Path| fs::create_dir(path).expect("made");
    for name in ["lock", "state.db", "operator.token", "keys/cache.key", "keys/audit.key"] {
        assert_reported(name, directory);
    }
}

/// operators.md 43: new keys would make the log look damaged.
#[test]
fn a_start_without_the_keys_of_its_data_names_them_and_makes_none() {
    let mut daemon = Daemon::start(PROGRAM, "");
    daemon.operator().make_agent("acme/bot", &json!({"enabled": ["text/*"]}));
    daemon.crash();
    let (folder, keys) = (tempfile::tempdir().expect("a folder"), daemon.data().join("keys"));
    let kept = folder.path().join("kept");
    fs::rename(&keys, &kept).expect("moved");
    let data = daemon.data();
    let ended = start_fails(folder.path(), &["--data", data.to_str().expect("UTF-8")]);
    let (message, hint) = message_and_hint(&ended);
    for name in ["audit.key", "data.key"] {
        assert!(message.contains(&format!("`{}`", keys.join(name).display())), "{message}");
    }
    assert!(hint.contains("put the files back"), "{hint}");
    assert!(!keys.join("audit.key").exists() && !keys.join("data.key").exists());
    fs::remove_dir_all(&keys).expect("removed");
    fs::rename(&kept, &keys).expect("moved back");
    let daemon = daemon.crash_and_restart();
    daemon.operator().get("/v1/orgs/acme/agents/bot").expect(200);
}

#[test]
fn a_missing_certificate_file_is_reported_with_its_setting() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    compiled_code::restore(Path::new(PROGRAM), &data).expect("the compiled code is copied");
    fs::write(folder.path().join("t.toml"), "[credentials]\nca_file = \"missing.pem\"").expect("settings");
    let ended = start_fails(folder.path(), &["--config", "t.toml", "--data", "data"]);
    let (message, hint) = message_and_hint(&ended);
    assert!(message.contains("`missing.pem`"), "{message}");
    assert!(hint.contains("`ca_file`") && hint.contains("`[credentials]`"), "{hint}");
    // With a log of JSON lines, the last word is one, too (O5).
    let settings = "[log]\nformat = \"json\"\n[credentials]\nca_file = \"missing.pem\"";
    fs::write(folder.path().join("t.toml"), settings).expect("settings");
    let ended = start_fails(folder.path(), &["--config", "t.toml", "--data", "data"]);
    let lines: Result<Vec<Value>, _> = ended.stderr.lines().map(serde_json::from_str).collect();
    let lines = lines.unwrap_or_else(|error| panic!("{error}: {}", ended.stderr));
    let last = lines.last().expect("a line");
    assert_eq!((&last["level"], last["message"].as_str()), (&Value::from("ERROR"), Some(message)));
    assert_eq!(last["fields"]["hint"].as_str(), Some(hint));
}

/// Files and servers that a probe of the wall may reach; the folder is removed with them.
struct Surroundings {
    _folder: tempfile::TempDir,
    _servers: (TcpListener, UnixListener),
    targets: ProbeTargets,
}

impl Surroundings {
    fn new(hardening: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["etc", "data", "outside"] {
            DirBuilder::new().mode(0o700).create(path(name)).expect("a folder");
        }
        fs::write(path("etc/t.toml"), format!("hardening = \"{hardening}\"")).expect("settings");
        fs::write(path("data/own"), "1").expect("written");
        fs::write(path("outside/secret"), "canary").expect("written");
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let machine = UnixListener::bind(path("outside/socket")).expect("a socket");
        let targets = ProbeTargets {
            settings: path("etc/t.toml"),
            data: path("data"),
            outside: path("outside"),
            server: server.local_addr().expect("an address"),
        };
        Self { _folder: folder, _servers: (server, machine), targets }
    }

    fn probe(&self, role: &str) -> Result<Value, String> {
        run_in_process(PROGRAM, role, &self.targets)
    }
}

/// Attempts that a daemon needs.
const NEEDED: &[&str] = &[
    "read data",
    "write data",
    "move data",
    "chmod open data",
    "read settings",
    "read hosts",
    "compile",
    "connect",
];

/// Attempts that no daemon needs, bounded by Landlock or seccomp of every supported kernel.
const BOUNDED: &[&str] = &[
    "read outside",
    "list outside",
    "write outside",
    "append outside",
    "chmod outside",
    "chown outside",
    "execute",
    "connect to a socket of the machine",
    "listen",
    "take a descriptor",
];

/// Whether this kernel has the essential parts of the wall. With `TOOLGATE_TEST_TOOLS=required` it must.
#[track_caller]
fn has_wall() -> bool {
    let missing = WallSupport::detect().missing_essentials();
    let is_required = std::env::var_os("TOOLGATE_TEST_TOOLS").is_some_and(|value| value == "required");
    assert!(missing.is_empty() || !is_required, "the kernel of this machine cannot bound {missing:?}");
    missing.is_empty()
}

#[test]
fn b6_a_daemon_behind_the_wall_reaches_what_its_settings_need_and_nothing_else() {
    let around = Surroundings::new("required");
    let probed = around.probe("daemon");
    if !has_wall() {
        let refusal = probed.expect_err("there is no wall");
        assert!(refusal.contains("`hardening` is `required`"), "{refusal}");
        return;
    }
    let found = probed.expect("a daemon behind the wall");
    for attempt in NEEDED {
        assert_eq!(found[attempt], "ok", "{attempt}: {found}");
    }
    for attempt in BOUNDED {
        assert_eq!(found[attempt], "PermissionDenied", "{attempt}: {found}");
    }
    let available = WallSupport::detect().available;
    let bounds_signals = available.iter().any(|part| part.name == "signals to other processes");
    assert_eq!(found["signal"] == "ok", !bounds_signals, "{found}");
    let rest = [&found["core bytes"], &found["dumps"], &found["new privileges"]];
    assert_eq!(rest, [&json!(0), &json!("Ok(NotDumpable)"), &json!(false)]);
}

/// The positive twin: each attempt works where nothing is bounded.
#[test]
fn b6_without_hardening_a_daemon_has_the_rights_of_its_user() {
    let found = Surroundings::new("off").probe("daemon").expect("a daemon");
    for attempt in NEEDED.iter().chain(BOUNDED).chain(&["signal"]) {
        assert_eq!(found[attempt], "ok", "{attempt}: {found}");
    }
    assert_eq!(found["dumps"], "Ok(Dumpable)");
}

#[test]
fn b6_the_compile_worker_reaches_nothing() {
    let found = Surroundings::new("off").probe("worker").expect("a worker");
    if has_wall() {
        for attempt in NEEDED.iter().chain(BOUNDED).chain(&["signal"]) {
            assert_eq!(found[attempt], "PermissionDenied", "{attempt}: {found}");
        }
    }
    assert_eq!(found["dumps"], "Ok(NotDumpable)");
}

#[test]
fn b6_a_daemon_behind_the_required_wall_compiles_and_serves() {
    if !has_wall() {
        return;
    }
    // The store is a link to another disk, and the plugin folder has a link to a build.
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["disk", "plugins", "builds"] {
        fs::create_dir(path(name)).expect("a folder");
    }
    fs::write(path("disk/state.db"), "").expect("written");
    fs::write(path("builds/1.wasm"), PluginFile::new("linked").build()).expect("written");
    symlink(path("disk/state.db"), path("state.db")).expect("a link");
    symlink(path("builds/1.wasm"), path("plugins/linked.wasm")).expect("a link");
    let settings = format!(
        "hardening = \"required\"\nstore = \"sqlite:{}\"\n[plugins]\nfolder = \"{}\"",
        path("state.db").display(),
        path("plugins").display()
    );
    let daemon = Daemon::start(PROGRAM, &settings);
    daemon.wait_for_log("the wall", |line| line.contains("the process is hardened"));
    daemon.wait_for_log("the linked plugin", |line| line.contains("a plugin of the folder was loaded"));
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("it lives");
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
    let operator = daemon.operator();
    operator.load("walled", &PluginFile::new("walled").build());
    operator.make_agent("acme/bot", &json!({"enabled": ["walled/*", "linked/*", "files/*"]}));
    let session = operator.open_session("acme/bot");
    for tool in ["walled/answer", "linked/answer"] {
        assert_eq!(session.call(tool, json!({})).0["status"], "ok", "{tool}");
    }
    let written = session.call("files/write", json!({"path": "a/b.txt", "content": "hello"}));
    assert_eq!(written.0["status"], "ok", "{written:?}");
    let read = session.call("files/read", json!({"path": "a/b.txt"}));
    assert_eq!(read.0["status"], "ok", "{read:?}");
}

#[test]
fn config_check_finds_what_a_start_refuses_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |words: &[&str]| run_to_end(PROGRAM, &[&["config", "check"], words].concat(), folder.path());
    let settings = |text: &str| fs::write(folder.path().join("t.toml"), text).expect("settings");
    settings("[log]\nlevel = \"debug\"");
    let fine = check(&["t.toml", "--data", "data"]);
    assert_eq!(fine.status.code(), Some(0), "{fine:?}");
    assert!(fine.stdout.starts_with("ok: t.toml: the settings are valid"), "{fine:?}");
    for wrong in [
        "[credentials]\nca_file = \"missing.pem\"",
        "[tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"",
        "store = \"sqlite:nowhere/state.db\"",
        "listen = \"unix:/nowhere/toolgate.sock\"",
    ] {
        settings(wrong);
        let found = check(&["t.toml", "--data", "data"]);
        assert_eq!(found.status.code(), Some(1), "{wrong}: {found:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "{wrong}: files were created");
        let mut start = vec!["serve", "--config", "t.toml", "--data", "data"];
        // The option would override the socket.
        if !wrong.starts_with("listen") {
            start.extend(["--listen", "127.0.0.1:0"]);
        }
        let started = run_to_end(PROGRAM, &start, folder.path());
        assert_eq!(started.status.code(), Some(1), "{wrong}: {started:?}");
        let (message, hint) = message_and_hint(&started);
        assert!(found.stderr.contains(message) && found.stderr.contains(hint), "{wrong}: {found:?}");
        let _ = fs::remove_dir_all(folder.path().join("data"));
    }
    // Every error is told: those of single values first, then those of settings and files that depend on each other.
    for (wrong, parts) in [
        (
            "lisen = 1\ndrain_seconds = true\n[rates]\nburts = 1\n[[plugins.registries]]\nhots = \"r.example\"",
            [
                "t.toml:1:1: unknown key `lisen`",
                "t.toml:2:17: `drain_seconds`",
                "t.toml:4:1: unknown key `burts`",
                "`hots`",
            ],
        ),
        (
            "[queue]\nwaiting_per_organization = 9\nwaiting_total = 1\n[tls]\nkey = \"k.pem\"\n[credentials]\nca_file = \"c.pem\"\n[audit]\nsegment_bytes = 1048576\nreserve_bytes = 1048576",
            ["`queue.waiting_total`", "`tls.certificate` and `tls.key`", "`c.pem`", "`audit.reserve_bytes`"],
        ),
    ] {
        settings(wrong);
        let found = check(&["t.toml", "--data", "data"]);
        assert_eq!(found.status.code(), Some(1), "{found:?}");
        for part in parts {
            assert!(found.stderr.contains(part), "{part}: {found:?}");
        }
    }
    assert!(check(&["t.toml", "--json"]).stdout.contains("`audit.reserve_bytes`"));
}

#[test]
fn doctor_reports_the_machine_and_a_key_that_others_can_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let doctor = |words: &[&str]| run_to_end(PROGRAM, &[&["doctor"], words].concat(), folder.path());
    let machine = doctor(&["--data", "data", "--json"]);
    let report: Value = serde_json::from_str(&machine.stdout).expect("a report");
    let findings = report["findings"].as_array().expect("findings");
    for name in
        ["version", "clock", "hardening", "sandbox", "memory", "open files", "disk space", "disk speed"]
    {
        assert!(findings.iter().any(|finding| finding["name"] == name), "{name}: {report}");
    }
    let key = folder.path().join("root.key");
    fs::write(&key, "0".repeat(64)).expect("written");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("a mode");
    fs::write(folder.path().join("t.toml"), "[credentials]\nroot_key_file = \"root.key\"").expect("settings");
    let told = doctor(&["--config", "t.toml", "--data", "data"]);
    assert!(
        told.stderr.contains("root key file `root.key` has mode 0644; run `chmod 600 root.key`"),
        "{told:?}"
    );
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "files were created");
}

#[test]
fn status_is_a_health_check_with_numbers_for_operators() {
    let daemon = Daemon::start(PROGRAM, "");
    let server = format!("--server=http://{}", daemon.address);
    let token = daemon.data().join("operator.token").display().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let status = |words: &[&str]| run_to_end(PROGRAM, &[&["status"], words].concat(), folder.path());
    let shown = status(&[&server, "--token-file", &token]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    for part in ["status", "ok", "version", "audit lag", "disk free"] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let json = status(&[&server, "--token-file", &token, "--json"]);
    let report: Value = serde_json::from_str(&json.stdout).expect("a report");
    assert_eq!((&report["status"], &report["reasons"]), (&json!("ok"), &json!([])));
    assert!(report["disk_free_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{report}");
    // A health check has no token.
    let anonymous = status(&[&server]);
    assert_eq!(anonymous.status.code(), Some(0), "{anonymous:?}");
    assert!(!anonymous.stdout.contains("audit lag"), "{}", anonymous.stdout);
    assert_eq!(status(&["--server", "http://127.0.0.1:1"]).status.code(), Some(1));
}
