//! The process that compiles: one component on standard input, its native code on standard output.
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
use toolgate_admission::{CallError, ErrorType};

use super::WorkerCommand;

/// Largest native code that is taken from the worker. Compiled code is 2 to 5 times the component, and the
/// largest known one (a Python runtime) is 80 MB.
const CODE_BYTES: u64 = 512 * 1024 * 1024;

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

/// Compiles one file in a new process.
pub(super) async fn compile(command: &WorkerCommand, file: &[u8]) -> Result<Arc<[u8]>, CallError> {
    let mut child = start(command)?;
    let exchange = exchange(&mut child, file);
    let wall = Duration::from_secs(command.limits.wall_seconds);
    let Ok((code, reason)) = tokio::time::timeout(wall, exchange).await else {
        return Err(refused(format!("compiling it takes longer than {} s", wall.as_secs())));
    };
    // It closed its output, so it is ending; killing it on drop covers the case that it does not.
    let status = tokio::time::timeout(wall, child.wait()).await;
    match status {
        Ok(Ok(status)) if status.success() && !code.is_empty() => Ok(code.into()),
        Ok(Ok(status)) if status.code() == Some(1) && !reason.is_empty() => Err(refused(reason)),
        _ => Err(refused(format!(
            "compiling it needs more than {} MiB of memory or {} s of processor time",
            command.limits.memory_bytes / (1024 * 1024),
            command.limits.cpu_seconds
        ))),
    }
}

fn start(command: &WorkerCommand) -> Result<Child, CallError> {
    Command::new(&command.program)
        .args(&command.arguments)
        .arg(command.limits.memory_bytes.to_string())
        .arg(command.limits.cpu_seconds.to_string())
        .env_clear()
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
pub fn run(memory_bytes: u64, cpu_seconds: u64) -> i32 {
    if let Err(error) = bind(memory_bytes, cpu_seconds) {
        eprintln!("the compile worker cannot limit itself: {error}");
        return 2;
    }
    let mut file = Vec::new();
    let compiled = std::io::stdin()
        .lock()
        .read_to_end(&mut file)
        .map_err(|error| error.to_string())
        .and_then(|_| toolgate_sandbox::precompile(&file).map_err(|error| error.to_string()))
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
