//! Attempts of a process behind the wall, made by `toolgate-under-test` in place of a daemon's runtime or of a compilation.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{
    PidfdFlags, PidfdGetfdFlags, Resource, getpid, getppid, getrlimit, pidfd_getfd, pidfd_open,
    test_kill_process,
};
use serde_json::{Map, Value, json};
use toolgate::config::{Config, Overrides};
use toolgate::serve::PreparedDaemon;
use toolgate::wall;

/// First argument of a probe.
pub const COMMAND: &str = "wall-probe";

/// The folders and servers that a probe tries to reach.
#[derive(Clone, Debug)]
pub struct ProbeTargets {
    /// The settings file, alone in its folder.
    pub settings: PathBuf,
    /// The data folder, with a file `own`.
    pub data: PathBuf,
    /// A folder that the settings do not name, with a file `secret` and a Unix socket `socket`.
    pub outside: PathBuf,
    /// A TCP listener.
    pub server: SocketAddr,
}

/// Runs a probe in a process of its own. `role` is `daemon` or `worker`. Returns the result of each attempt, `ok` or the kind
/// of its error, or the standard error of a daemon that did not start.
pub fn run_in_process(program: &str, role: &str, targets: &ProbeTargets) -> Result<Value, String> {
    let done = Command::new(program)
        .args([COMMAND, role])
        .args([&targets.settings, &targets.data, &targets.outside])
        .arg(targets.server.to_string())
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    Ok(serde_json::from_slice(&done.stdout).expect("results"))
}

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
