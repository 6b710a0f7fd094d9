//! The process that compiles: a component on standard input and its native code on standard output, or a
//! description whose schemas are compiled to see what that takes.
//!
//! The first thing it does is to bind itself: address space, processor time, no files, no core dump. What
//! it says on standard error is the reason for the plugin's author.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use toolgate_admission::{CallError, Descriptor, ErrorType};

use super::WorkerCommand;

/// Largest native code that is taken from the worker. Compiled code is 2 to 5 times the component, and the
/// largest known one (a Python runtime) is 80 MB.
const CODE_BYTES: u64 = 512 * 1024 * 1024;

/// The largest plugins' schemas take a few megabytes; what takes more than this would take it from the daemon.
const SCHEMAS_MEMORY_BYTES: u64 = 256 * 1024 * 1024;
const SCHEMAS_CPU_SECONDS: u64 = 10;

/// Longest reason that is taken from the worker.
const REASON_BYTES: u64 = 4 * 1024;

/// What one compilation may use.
#[derive(Clone, Copy, Debug)]
pub struct WorkerLimits {
    /// Address space in bytes.
    pub memory_bytes: u64,
    /// Processor time in seconds, all threads together.
    pub cpu_seconds: u64,
    /// Time until the worker is killed, in seconds.
    pub wall_seconds: u64,
}

/// What the worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Work {
    /// Compile a component; answers its native code.
    Code,
    /// Compile the schemas of a description; answers a word.
    Schemas,
}

impl Work {
    fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Schemas => "schemas",
        }
    }

    /// What it may use of what compiling may use.
    fn limits(self, limits: WorkerLimits) -> WorkerLimits {
        match self {
            Self::Code => limits,
            Self::Schemas => WorkerLimits {
                memory_bytes: limits.memory_bytes.min(SCHEMAS_MEMORY_BYTES),
                cpu_seconds: limits.cpu_seconds.min(SCHEMAS_CPU_SECONDS),
                ..limits
            },
        }
    }
}

/// Does one piece of work in a new process.
pub(super) async fn work(command: &WorkerCommand, work: Work, input: &[u8]) -> Result<Arc<[u8]>, CallError> {
    let limits = work.limits(command.limits);
    let mut child = start(command, work, limits)?;
    let exchange = exchange(&mut child, input);
    let wall = Duration::from_secs(limits.wall_seconds);
    let Ok((code, reason)) = tokio::time::timeout(wall, exchange).await else {
        return Err(refused(format!("compiling it takes longer than {} s", wall.as_secs())));
    };
    // It closed its output, so it is ending; killing it on drop covers the case that it does not.
    let status = tokio::time::timeout(wall, child.wait()).await;
    match status {
        Ok(Ok(status)) if status.success() && !code.is_empty() => Ok(code.into()),
        Ok(Ok(status)) if status.code() == Some(1) && !reason.is_empty() => Err(refused(reason)),
        _ => Err(refused(format!(
            "compiling its {} needs more than {} MiB of memory or {} s of processor time",
            work.as_str(),
            limits.memory_bytes / (1024 * 1024),
            limits.cpu_seconds
        ))),
    }
}

fn start(command: &WorkerCommand, work: Work, limits: WorkerLimits) -> Result<Child, CallError> {
    Command::new(&command.program)
        .args(&command.arguments)
        .arg(work.as_str())
        .arg(limits.memory_bytes.to_string())
        .arg(limits.cpu_seconds.to_string())
        .env_clear()
        // The allocator sets a gigabyte of addresses aside at its start, which is more than the whole limit may be.
        .env("MIMALLOC_ARENA_RESERVE", "0")
        .current_dir(Path::new("/"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            tracing::error!(%error, program = %command.program.display(), "the compile worker cannot start");
            CallError::new(
                ErrorType::Unavailable,
                "the compile worker cannot start",
                "see the daemon's log; the plugin file may be fine",
            )
        })
}

/// Writes the component while reading code and reason, so that neither pipe can block the other.
async fn exchange(child: &mut Child, file: &[u8]) -> (Vec<u8>, String) {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // A worker that ended early says why on standard error.
            let _ = stdin.write_all(file).await;
        }
    };
    let code = async move {
        let mut code = Vec::new();
        if let Some(stdout) = stdout {
            let _ = stdout.take(CODE_BYTES).read_to_end(&mut code).await;
        }
        code
    };
    let reason = async move {
        let mut reason = Vec::new();
        if let Some(stderr) = stderr {
            let _ = stderr.take(REASON_BYTES).read_to_end(&mut reason).await;
        }
        String::from_utf8_lossy(&reason).trim().to_owned()
    };
    let ((), code, reason) = tokio::join!(feed, code, reason);
    (code, reason)
}

fn refused(reason: impl Into<String>) -> CallError {
    CallError::new(
        ErrorType::InvalidPlugin,
        reason,
        "build the plugin again for the target `wasm32-wasip2` and upload the whole file",
    )
}

/// The worker's own main: never returns to the caller's code. Exit status 0 with code on standard output,
/// 1 with a reason on standard error.
pub fn run(work: Work, memory_bytes: u64, cpu_seconds: u64) -> i32 {
    if let Err(error) = bind(memory_bytes, cpu_seconds) {
        eprintln!("the compile worker cannot limit itself: {error}");
        return 2;
    }
    let mut input = Vec::new();
    let compiled = std::io::stdin()
        .lock()
        .read_to_end(&mut input)
        .map_err(|error| error.to_string())
        .and_then(|_| match work {
            Work::Code => toolgate_sandbox::precompile(&input).map_err(|error| error.to_string()),
            // What is wrong with them the daemon says, which reads them again.
            Work::Schemas => {
                let _ = Descriptor::parse(&String::from_utf8_lossy(&input));
                Ok(b"done".to_vec())
            }
        })
        .and_then(|code| std::io::stdout().lock().write_all(&code).map_err(|error| error.to_string()));
    match compiled {
        Ok(()) => 0,
        Err(reason) => {
            eprintln!("{reason}");
            1
        }
    }
}

fn bind(memory_bytes: u64, cpu_seconds: u64) -> rustix::io::Result<()> {
    let limit = |most| Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::As, limit(memory_bytes))?;
    setrlimit(Resource::Cpu, limit(cpu_seconds))?;
    setrlimit(Resource::Core, limit(0))?;
    // It may write to the pipe it was given and to no file.
    setrlimit(Resource::Fsize, limit(0))
}
