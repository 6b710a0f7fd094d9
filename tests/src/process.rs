//! Child processes, and the state of processes in `/proc`.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc;

use crate::wait::{self, TIMEOUT};

/// Server as a child process, killed on drop.
pub struct ServerProcess(Child);

impl ServerProcess {
    /// Starts a server, and returns it with the first line of its output that says that it is ready.
    pub fn start(command: &mut Command, is_ready: impl Fn(&str) -> bool) -> (Self, String) {
        let mut server = Self::spawn(command.stdout(Stdio::piped()));
        let output = server.0.stdout.take().expect("a pipe");
        let (sender, lines) = mpsc::channel();
        // Drains the later output too, so that the pipe does not block.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        loop {
            let line = lines.recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|why| panic!("the server is not ready: {why}: {command:?}"));
            if is_ready(&line) {
                return (server, line);
            }
        }
    }

    /// Starts a server without its standard error.
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.stderr(Stdio::null()).spawn().expect("the server starts"))
    }

    pub fn stop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the command of a third-party program, which is ended after 8 minutes with a message on standard error.
pub fn external_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--verbose", "--kill-after=10", "480"]).arg(program);
    command
}

/// Path of a tool of the tests, relative to the folder where `.ci/run` installs them.
pub fn find_installed(program: &str, path: &str) -> PathBuf {
    let target = Path::new(program).parent().and_then(Path::parent).expect("a target folder");
    let path = target.join("test-tools").join(path);
    assert!(path.exists(), "`{}` is not installed: run `.ci/install-test-tools`", path.display());
    path
}

/// Ports that Linux gives to no connection and to no listener without a port of its own, unless the machine is set up otherwise.
const RESERVED_PORTS: Range<u16> = 10_000..32_000;

/// Loopback address whose port is free, and stays so until a server listens there: no other caller gets it, nor the next port,
/// where OpenBao listens for its cluster.
pub fn free_address() -> SocketAddr {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let count = RESERVED_PORTS.end - RESERVED_PORTS.start;
    // Processes that run at the same time begin at different ports.
    let first = u16::try_from(std::process::id() * 16 % u32::from(count)).expect("less than the count");
    wait::until("a free port", || {
        let place = (first + CALLS.fetch_add(2, Ordering::Relaxed) % count) % count;
        TcpListener::bind(("127.0.0.1", RESERVED_PORTS.start + place)).ok()?.local_addr().ok()
    })
}

/// Resident memory, in bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    // Field 2 of `statm` counts pages, of 4 KiB on the supported machines.
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).expect("the process lives");
    let pages: u64 = statm.split(' ').nth(1).and_then(|field| field.parse().ok()).expect("a number of pages");
    pages * 4096
}

/// CPU time of all threads, in microseconds, and how often they went to sleep. Zero for a process that has ended.
///
/// The clock of guests is left out: it sleeps a thousand times a second while a guest runs, and less often on a busy machine.
pub fn cpu_us_and_waits(pid: u32) -> (u64, u64) {
    // The process or a thread may end meanwhile.
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.fold((0, 0), |(cpu_us, waits), thread| {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let cpu_ns: u64 =
            read("schedstat").split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0);
        let status = read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let is_clock = read("comm").trim() == "epoch";
        let own_waits: u64 =
            line.filter(|_| !is_clock).and_then(|line| line.trim().parse().ok()).unwrap_or(0);
        (cpu_us + cpu_ns / 1000, waits + own_waits)
    })
}

/// Number of open descriptors: files, sockets and pipes.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process lives").count()
}

/// Number of descriptors of files whose path ends so.
pub fn open_files_named(pid: u32, name: &str) -> usize {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("the process lives").flatten();
    let paths = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    paths.filter(|path| path.ends_with(name)).count()
}

/// Number of running child processes.
pub fn children(pid: u32) -> usize {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .map_or(0, |list| list.split_whitespace().count())
}

/// Swapped memory, in bytes.
pub fn swapped_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:")).unwrap_or_default();
    let kib: u64 = line.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0);
    kib * 1024
}

/// Control group whose memory can be pushed out to swap. Removed on drop, after its processes have exited.
pub struct MemoryPressure {
    folder: PathBuf,
    limit: &'static str,
}

impl MemoryPressure {
    /// Moves a process into a new group; `None` if this user may not create one.
    pub fn new(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let of = |wanted: &str| {
            groups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                (parts.next()? == wanted)
                    .then(|| parts.next().unwrap_or("/").trim_start_matches('/').to_owned())
            })
        };
        let (root, group, limit) = match (of("memory"), of("")) {
            (Some(group), _) => (Path::new("/sys/fs/cgroup/memory"), group, "memory.limit_in_bytes"),
            (None, Some(group)) => (Path::new("/sys/fs/cgroup"), group, "memory.high"),
            (None, None) => return None,
        };
        let folder = root.join(group).join(format!("toolgate-test-{pid}"));
        fs::create_dir(&folder).ok()?;
        let pressure = Self { folder, limit };
        fs::write(pressure.folder.join("cgroup.procs"), pid.to_string()).ok()?;
        pressure.folder.join(limit).is_file().then_some(pressure)
    }

    /// Pushes memory above this limit out to swap.
    pub fn push_out_above(&self, bytes: u64) {
        // The kernel may find pages busy, so the caller checks the result.
        let _ = fs::write(self.folder.join(self.limit), bytes.to_string());
    }

    /// Lifts the limit.
    pub fn release(&self) {
        let all = if self.limit == "memory.high" { "max" } else { "-1" };
        fs::write(self.folder.join(self.limit), all).expect("the limit is lifted");
    }
}

impl Drop for MemoryPressure {
    fn drop(&mut self) {
        // An empty group that remains does no harm.
        let _ = fs::remove_dir(&self.folder);
    }
}
