//! One plugin file on its author's machine, without a daemon: what `toolgate check` and `toolgate run` share.
//!
//! It is the daemon's way in small. The same worker compiles, the same gate decides over the rules of this
//! one plugin, the same sandbox runs; so what passes here passes there. Nothing is recorded: what a call did
//! is told to the author instead.

pub mod check;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use toolgate_admission::{
    self as admission, Admitted, CallError, Catalogue, Checked, Descriptor, Digest, ErrorType,
    FilesystemAccess, Ledger, Limits, LimitsPatch, Name, Plugin, Rates, Rules, SessionFacts, Verdict,
};
use toolgate_sandbox::workspace::{FilePool, Quota};
use toolgate_sandbox::{
    BeforeEffect, CallClock, CallContext, Component, Effect, EgressSettings, LogLine, MadeFor, Output,
    PagemapScan, Sandbox, SandboxSettings, Upstreams, Usage, Workspace,
};

use crate::audit::Sha256;
use crate::compile::{Compiler, WorkerCommand, WorkerLimits};
use crate::temporary;

/// What compiling may use here: an author has one plugin and a machine for it.
const WORKER_LIMITS: WorkerLimits =
    WorkerLimits { memory_bytes: 4 * 1024 * 1024 * 1024, cpu_seconds: 300, wall_seconds: 300 };

/// A plugin file that is ready to run.
pub struct Workbench {
    sandbox: Sandbox,
    component: Component,
    digest: Digest,
}

/// The circumstances of one call.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The folder that the guest sees as `/workspace`; none where it has no files.
    pub workspace: Option<PathBuf>,
    /// What time it is, and whether it goes on.
    pub clock: CallClock,
    /// Seed of the random numbers.
    pub seed: [u8; 32],
}

/// What came of one call.
#[derive(Debug)]
pub struct Ran {
    /// The result as JSON text, checked against its schema, or why there is none.
    pub outcome: Result<String, CallError>,
    /// What it used.
    pub usage: Usage,
    /// What it logged and printed.
    pub log: Vec<LogLine>,
    /// Lines that did not fit the limit.
    pub log_lines_dropped: u64,
    /// What it did, or tried to do, outside its own memory.
    pub effects: Vec<Effect>,
}

impl Workbench {
    /// Compiles and links a file. `worker` is the binary that compiles: this very program.
    pub async fn open(file: &[u8], worker: PathBuf) -> Result<Self, CallError> {
        let settings = SandboxSettings { instances: 4, pagemap_scan: PagemapScan::Off };
        let sandbox = Sandbox::new(&settings).map_err(|error| here(&error))?;
        let folder = temporary::folder()?;
        let command = WorkerCommand {
            program: worker,
            arguments: vec!["compile-worker".into()],
            limits: WORKER_LIMITS,
            concurrency: 1,
        };
        let compiler = Compiler::open(sandbox.clone(), folder.path(), &rand::random(), command)
            .map_err(|error| here(&error))?;
        let digest = Digest::from_sha256(Sha256::of(file).0);
        let (component, _) = compiler.component(&digest, file).await?;
        Ok(Self { sandbox, component, digest })
    }

    /// What runs.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// What the plugin says of itself, as JSON text.
    pub async fn describe(&self) -> Result<String, CallError> {
        self.sandbox.describe(&self.component, None).await
    }

    /// Rules under which everything that the plugin asks for is granted, and all of its tools may be called.
    pub fn rules(&self, descriptor: Descriptor, limits: LimitsPatch) -> Rules<Component> {
        let plugin = Plugin {
            granted: Arc::new(descriptor.capabilities.clone().into()),
            descriptor: Arc::new(descriptor),
            digest: self.digest.clone(),
            component: self.component.clone(),
            disabled: false,
        };
        let catalogue = Arc::new(Catalogue::new(limits, vec![Arc::new(plugin)]));
        Rules::everything(catalogue)
    }

    /// Makes one call.
    pub async fn call(
        &self,
        rules: &Rules<Component>,
        tool: &str,
        arguments: &str,
        circumstances: &Circumstances,
    ) -> Ran {
        let call = admission::ToolCall { tool: tool.into(), arguments: arguments.into() };
        let charged = match admission::check(rules, &SessionFacts::default(), call) {
            Verdict::Run(checked) => charge(checked),
            Verdict::Refused(refusal) => Err(refusal.error),
            // The author's agent is autonomous.
            Verdict::NeedsApproval(_) => Err(here(&"a call on the workbench asks for approval")),
        };
        let admitted = match charged {
            Ok(admitted) => admitted,
            Err(error) => return Ran::refused(error),
        };
        let context = match context(admitted.limits(), admitted.reach().filesystem(), circumstances).await {
            Ok(context) => context,
            Err(error) => return Ran::refused(error),
        };
        let finished = self.sandbox.run(&admitted, context, std::future::pending()).await;
        let outcome = match finished.outcome {
            Ok(Output::Result(json)) => admitted.check_output(json),
            Ok(Output::Client(json)) => admitted.check_client_payload(json),
            Err(error) => Err(error),
        };
        Ran {
            outcome,
            usage: finished.usage,
            log: finished.log,
            log_lines_dropped: finished.log_lines_dropped,
            effects: finished.effects,
        }
    }
}

impl Ran {
    fn refused(error: CallError) -> Self {
        Self {
            outcome: Err(error),
            usage: Usage::default(),
            log: Vec::new(),
            log_lines_dropped: 0,
            effects: Vec::new(),
        }
    }
}

async fn context(
    limits: &Limits,
    files: FilesystemAccess,
    circumstances: &Circumstances,
) -> Result<CallContext, CallError> {
    let workspace = match (files, &circumstances.workspace) {
        (FilesystemAccess::Workspace, Some(folder)) => Some(open_workspace(folder, limits).await?),
        _ => None,
    };
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_millis(limits.deadline_ms);
    Ok(CallContext {
        made_for: Arc::new(MadeFor {
            session: "s_workbench".into(),
            organization: "workbench".into(),
            agent: "author".into(),
            ..MadeFor::default()
        }),
        workspace,
        clock: circumstances.clock.clone(),
        seed: circumstances.seed,
        upstreams: Some(Upstreams::new(EgressSettings::default())),
        // There is no log that an effect would have to wait for.
        before_effect: BeforeEffect::new(|| async { Ok(()) }),
        ..CallContext::powerless("c_workbench", deadline)
    })
}

async fn open_workspace(folder: &Path, limits: &Limits) -> Result<Workspace, CallError> {
    let quota = Quota { bytes: limits.workspace_bytes, files: limits.workspace_files };
    let opened = Workspace::open(folder, quota, FilePool::default()).await;
    opened.map(Workspace::telling_reads).map_err(|error| no_workspace(folder, &error))
}

/// Refuses what `--workspace` names where it is no folder, also if the plugin will not see it.
pub fn expect_folder(named: &Path) -> Result<(), CallError> {
    named.read_dir().map(drop).map_err(|error| no_workspace(named, &error))
}

fn no_workspace(named: &Path, error: &dyn std::fmt::Display) -> CallError {
    CallError::new(
        ErrorType::InvalidRequest,
        format!("`{}` cannot be the workspace: {error}", named.display()),
        "let `--workspace` name a folder that exists and that you may read and write",
    )
}

/// Nothing is limited here, but nothing runs that was not charged.
fn charge(checked: Checked<Component>) -> Result<Admitted<Component>, CallError> {
    let author = Name::parse("workbench").map_err(|error| here(&error))?;
    let mut ledger = Ledger::new(Rates { calls_per_second: None, burst: 1 });
    ledger.charge(&author, checked, 0).map_err(|refusal| refusal.error)
}

/// Something about this machine, not about the plugin.
fn here(error: &dyn std::fmt::Display) -> CallError {
    CallError::new(ErrorType::Internal, error.to_string(), "the fault is this machine's, not the plugin's")
}

impl Circumstances {
    /// As in a daemon: the time goes on, and random numbers are random.
    pub fn of_a_run(workspace: Option<PathBuf>) -> Self {
        Self { workspace, clock: CallClock::start(SystemTime::now()), seed: rand::random() }
    }
}
