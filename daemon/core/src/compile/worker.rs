//! The worker process: compiles a component from standard input to native code on standard output, or compiles the
//! schemas of a description to check that they stay within limits.
//!
//! A component comes after the functions that were compiled before, and their length; its code goes before the functions to keep, with
//! the length of the code at the end. Lengths have eight bytes.
//!
//! The worker first limits itself with `setrlimit`: address space, CPU time, no file writes, no core dump. Then it gives up all access
//! but to its three pipes ([`wall::confine_worker`]). Its standard error is the error message for the plugin's author.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use toolgate_admission::Descriptor;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_sandbox::{CompiledFunctions, processors};

use super::WorkerCommand;
use crate::wall;

/// Longest native code that is read from the worker. Native code has 2 to 5 times the size of its component, and the
/// largest known component (a Python runtime) 80 MB. The functions that are kept have as much again.
const CODE_BYTES: u64 = 512 * 1024 * 1024;

/// The schemas of the largest plugins take a few megabytes. The daemon would spend the same memory as the worker.
const SCHEMAS_MEMORY_BYTES: u64 = 256 * 1024 * 1024;
const SCHEMAS_CPU_SECONDS: u64 = 10;

/// Bytes of a length between two parts of an input or an output.
const LENGTH_BYTES: usize = 8;

/// Longest error message that is read from the worker.
const REASON_BYTES: u64 = 4 * 1024;

/// Limits of one compilation.
#[derive(Clone, Copy, Debug)]
pub struct WorkerLimits {
    /// Address space in bytes.
    pub memory_bytes: u64,
    /// CPU time of all threads together, in seconds.
    pub cpu_seconds: u64,
    /// Elapsed time until the worker is killed, in seconds.
    pub wall_seconds: u64,
}

/// A task of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerTask {
    /// Compile a component and write its native code.
    Code,
    /// The same with functions of earlier compilations; those of this one are written, too.
    KeptCode,
    /// Compile the schemas of a description and write `done`.
    Schemas,
}

impl WorkerTask {
    fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::KeptCode => "kept-code",
            Self::Schemas => "schemas",
        }
    }

    /// The limits of this task within the configured ones.
    fn limits(self, limits: WorkerLimits) -> WorkerLimits {
        match self {
            Self::Code | Self::KeptCode => limits,
            Self::Schemas => WorkerLimits {
                memory_bytes: limits.memory_bytes.min(SCHEMAS_MEMORY_BYTES),
                cpu_seconds: limits.cpu_seconds.min(SCHEMAS_CPU_SECONDS),
                ..limits
            },
        }
    }
}

impl FromStr for WorkerTask {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut tasks = [Self::Code, Self::KeptCode, Self::Schemas].into_iter();
        tasks.find(|task| task.as_str() == text).ok_or("no task of the compile worker")
    }
}

/// What a compilation made.
pub(super) struct Compiled {
    /// Native code of the component.
    pub(super) code: Arc<[u8]>,
    /// All functions to keep, if one of them is new.
    pub(super) functions: Option<Vec<u8>>,
}

/// Compiles a component in a new process. With `functions`, those that were kept are taken, and all are returned.
pub(super) async fn compile(
    command: &WorkerCommand,
    functions: Option<&[u8]>,
    file: &[u8],
) -> Result<Compiled, CallError> {
    let task = if functions.is_some() { WorkerTask::KeptCode } else { WorkerTask::Code };
    let functions = functions.unwrap_or_default();
    let mut code = run_task(command, task, &[&length(functions), functions, file]).await?;
    let functions = split_last(&mut code).filter(|functions| !functions.is_empty());
    Ok(Compiled { code: code.into(), functions })
}

/// Compiles the schemas of a description in a new process.
pub(super) async fn check_schemas(command: &WorkerCommand, described: &str) -> Result<(), CallError> {
    run_task(command, WorkerTask::Schemas, &[described.as_bytes()]).await.map(|_| ())
}

fn length(bytes: &[u8]) -> [u8; LENGTH_BYTES] {
    (bytes.len() as u64).to_le_bytes()
}

/// Cuts what follows the first part, whose length is at the end, and returns it.
fn split_last(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let (rest, first) = bytes.split_last_chunk::<LENGTH_BYTES>()?;
    let (first, rest) = (usize::try_from(u64::from_le_bytes(*first)).ok()?, rest.len());
    if first > rest {
        return None;
    }
    bytes.truncate(rest);
    Some(bytes.split_off(first))
}

/// Runs one task in a new process.
async fn run_task(command: &WorkerCommand, task: WorkerTask, input: &[&[u8]]) -> Result<Vec<u8>, CallError> {
    let limits = task.limits(command.limits);
    let mut child = start(command, task, limits)?;
    let exchange = exchange(&mut child, input);
    let wall = Duration::from_secs(limits.wall_seconds);
    let Ok((code, reason)) = tokio::time::timeout(wall, exchange).await else {
        return Err(worker_error(format!("compiling it takes longer than {} s", wall.as_secs())));
    };
    // Its output is closed, so it should exit; `kill_on_drop` covers the case that it does not.
    let status = tokio::time::timeout(wall, child.wait()).await;
    match status {
        Ok(Ok(status)) if status.success() && !code.is_empty() => Ok(code),
        Ok(Ok(status)) if status.code() == Some(1) && !reason.is_empty() => Err(worker_error(reason)),
        _ => Err(worker_error(format!(
            "compiling its {} needs more than {} MiB of memory or {} s of processor time",
            if task == WorkerTask::Schemas { "schemas" } else { "code" },
            limits.memory_bytes / (1024 * 1024),
            limits.cpu_seconds
        ))),
    }
}

fn start(command: &WorkerCommand, task: WorkerTask, limits: WorkerLimits) -> Result<Child, CallError> {
    Command::new(&command.program)
        .arg0("toolgate")
        .arg("compile-worker")
        .arg(task.as_str())
        .arg(limits.memory_bytes.to_string())
        .arg(limits.cpu_seconds.to_string())
        .args((!command.is_confined).then_some("--unconfined"))
        .env_clear()
        // Confined, it could not read what its control group may use.
        .env("RAYON_NUM_THREADS", processors().to_string())
        // mimalloc reserves a gigabyte of address space at start, which can exceed the whole limit.
        .env("MIMALLOC_ARENA_RESERVE", "0")
        .current_dir(Path::new("/"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    "restart the daemon: the wall around it knows the loader of programs (`ld.so`) from before an upgrade"
                }
                _ => "check the memory and the number of processes of this user",
            };
            tracing::error!(%error, program = %command.program.display(), hint, "the compile worker cannot start");
            CallError::new(
                ErrorType::Unavailable,
                "the compile worker cannot start",
                "see the daemon's log; the plugin file may be fine",
            )
        })
}

/// Writes the input while reading both outputs, so that no full pipe causes a deadlock.
async fn exchange(child: &mut Child, input: &[&[u8]]) -> (Vec<u8>, String) {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async move {
        if let Some(mut stdin) = stdin {
            for part in input {
                // A worker that ends early writes the reason to standard error.
                let _ = stdin.write_all(part).await;
            }
        }
    };
    let ((), code, reason) =
        tokio::join!(feed, read_pipe(stdout, CODE_BYTES), read_pipe(stderr, REASON_BYTES));
    (code, String::from_utf8_lossy(&reason).trim().to_owned())
}

async fn read_pipe(pipe: Option<impl AsyncRead + Unpin>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(most).read_to_end(&mut bytes).await;
    }
    bytes
}

fn worker_error(reason: impl Into<String>) -> CallError {
    CallError::new(
        ErrorType::InvalidPlugin,
        reason,
        "build the plugin again for the target `wasm32-wasip2` and upload the whole file",
    )
}

/// The main function of the worker. Returns its exit status: 0 with the result on standard output, 1 with an error
/// message on standard error.
pub fn run(task: WorkerTask, memory_bytes: u64, cpu_seconds: u64, is_confined: bool) -> i32 {
    if let Err(error) = limit_self(memory_bytes, cpu_seconds) {
        eprintln!("the compile worker cannot limit itself: {error}");
        return 2;
    }
    if is_confined {
        wall::confine_worker();
    }
    let mut input = Vec::new();
    let compiled = std::io::stdin()
        .lock()
        .read_to_end(&mut input)
        .map_err(|error| error.to_string())
        .and_then(|_| match task {
            WorkerTask::Code => compile_input(&input, false),
            WorkerTask::KeptCode => compile_input(&input, true),
            // The daemon parses the description again and reports its errors.
            WorkerTask::Schemas => {
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

/// Compiles a component after its known functions, and returns its code before those to keep.
fn compile_input(input: &[u8], is_kept: bool) -> Result<Vec<u8>, String> {
    let parts = input.split_first_chunk::<LENGTH_BYTES>().and_then(|(functions, rest)| {
        rest.split_at_checked(usize::try_from(u64::from_le_bytes(*functions)).ok()?)
    });
    let (functions, file) = parts.ok_or("the input of the compile worker is cut")?;
    let functions = is_kept.then(|| Arc::new(CompiledFunctions::read(functions)));
    let compiled = toolgate_sandbox::precompile(file, functions.as_ref());
    let mut code = compiled.map_err(|error| error.to_string())?;
    let code_length = length(&code);
    code.extend(functions.map(|functions| functions.write()).unwrap_or_default());
    code.extend(code_length);
    Ok(code)
}

/// The address space of the program itself, with the embedded plugins: the limit is of what a compilation adds to it.
fn mapped_bytes() -> u64 {
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = sizes.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64)
}

fn limit_self(memory_bytes: u64, cpu_seconds: u64) -> rustix::io::Result<()> {
    let limit = |most| Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::As, limit(memory_bytes.saturating_add(mapped_bytes())))?;
    setrlimit(Resource::Cpu, limit(cpu_seconds))?;
    setrlimit(Resource::Core, limit(0))?;
    // Writes to its pipes are still possible.
    setrlimit(Resource::Fsize, limit(0))
}
