//! The attempts of a process behind the wall. A part of the program under test alone, which has the daemon.

#![allow(clippy::expect_used, reason = "a panic fails the test")]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{
    PidfdFlags, PidfdGetfdFlags, Resource, getpid, getppid, getrlimit, pidfd_getfd, pidfd_open,
    test_kill_process,
};
use serde_json::{Map, Value, json};
use toolgate::serve::PreparedDaemon;
use toolgate_core::wall;
use toolgate_state::config::{Config, Overrides};
use toolgate_tests::wall_probe::ProbeTargets;

/// The main function of the probe.
pub fn main(arguments: &[String]) -> ExitCode {
    let [role, settings, data, outside, server] = arguments else { return ExitCode::from(2) };
    let targets = ProbeTargets {
        settings: settings.into(),
        data: data.into(),
        outside: outside.into(),
        server: server.parse().expect("an address"),
    };
    let prepared = match role.as_str() {
        "daemon" => match prepare(&targets) {
            Ok(prepared) => Some(prepared),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        },
        _ => {
            wall::confine_worker();
            None
        }
    };
    // In a thread, as the runtime has.
    let results = std::thread::spawn(move || attempts(&targets)).join().expect("results");
    println!("{}", Value::Object(results));
    drop(prepared);
    ExitCode::SUCCESS
}

fn prepare(targets: &ProbeTargets) -> Result<PreparedDaemon, String> {
    let overrides = Overrides::parse(Some(targets.data.clone()), Some("127.0.0.1:0"), None);
    let config = Config::load(Some(&targets.settings), overrides.expect("options")).expect("settings");
    PreparedDaemon::new(config, wall::PROGRAM.into()).map_err(|error| error.to_string())
}

fn attempts(targets: &ProbeTargets) -> Map<String, Value> {
    let ProbeTargets { settings, data, outside, server } = targets;
    let results = [
        ("read data", File::open(data.join("own")).map(drop)),
        ("write data", fs::write(data.join("new"), "1")),
        ("move data", move_between_folders(data)),
        ("read settings", File::open(settings).map(drop)),
        ("read hosts", File::open("/etc/hosts").map(drop)),
        ("read outside", File::open(outside.join("secret")).map(drop)),
        ("list outside", fs::read_dir(outside).map(drop)),
        ("write outside", fs::write(outside.join("new"), "1")),
        ("append outside", OpenOptions::new().append(true).open(outside.join("secret")).map(drop)),
        ("chmod outside", fs::set_permissions(outside.join("secret"), Permissions::from_mode(0o666))),
        ("chown outside", chown(outside.join("secret"), None, None)),
        (
            "chmod open data",
            File::open(data.join("own")).and_then(|file| file.set_permissions(Permissions::from_mode(0o600))),
        ),
        ("execute", succeeds(Command::new("/bin/true"))),
        ("compile", compile()),
        ("connect", TcpStream::connect(server).map(drop)),
        ("connect to a socket of the machine", UnixStream::connect(outside.join("socket")).map(drop)),
        ("listen", TcpListener::bind("127.0.0.1:0").map(drop)),
        ("signal", signal_parent()),
        ("take a descriptor", take_descriptor()),
    ];
    let text = |result: io::Result<()>| match result {
        Ok(()) => json!("ok"),
        Err(error) => json!(format!("{:?}", error.kind())),
    };
    let mut results: Map<String, Value> =
        results.into_iter().map(|(name, result)| (name.to_owned(), text(result))).collect();
    results.insert("core bytes".into(), json!(getrlimit(Resource::Core).current));
    results.insert("dumps".into(), json!(format!("{:?}", rustix::process::dumpable_behavior())));
    results.insert("new privileges".into(), json!(rustix::thread::no_new_privs().map(|none| !none).ok()));
    results
}

/// A rename between two folders, as guests make in their workspace.
fn move_between_folders(data: &Path) -> io::Result<()> {
    for folder in ["a", "b"] {
        fs::create_dir(data.join(folder))?;
    }
    fs::write(data.join("a/file"), "1")?;
    fs::rename(data.join("a/file"), data.join("b/file"))
}

/// The compile worker, which the daemon may start.
fn compile() -> io::Result<()> {
    let mut worker = Command::new(wall::PROGRAM);
    worker.args(["compile-worker", "schemas", "1000000000", "10"]);
    succeeds(worker)
}

fn succeeds(mut command: Command) -> io::Result<()> {
    let done = command.stdin(Stdio::null()).output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned())),
    }
}

fn signal_parent() -> io::Result<()> {
    let parent = getppid().ok_or(io::ErrorKind::NotFound)?;
    Ok(test_kill_process(parent)?)
}

/// Takes a descriptor of this process as one would take it from another.
fn take_descriptor() -> io::Result<()> {
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(process, 0, PidfdGetfdFlags::empty()).map(drop)?)
}
