//! An offline test harness for one plugin file, without a daemon: shared by `toolgate check` and `toolgate run`.
//!
//! The harness uses the daemon's compile worker, its admission check with rules for this one plugin, and its sandbox, so a plugin
//! that passes here also passes in a daemon. There is no audit log; the effects of a call are returned.

pub mod check;
mod credential;
pub(crate) mod example;
mod user_cache;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use tempfile::TempDir;
use toolgate_admission::{
    self as admission, Admitted, CanaryDraw, Catalogue, ChargeTime, Checked, Consumer, Descriptor, Digest,
    Ledger, Plugin, QuotaCounters, Rates, Rules, SessionFacts, Verdict,
};
use toolgate_api::content::ContentBlock;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::{FilesystemAccess, Grant};
use toolgate_api::limits::{Limits, LimitsPatch};
use toolgate_api::name::Name;
use toolgate_audit as audit;
use toolgate_macros::boxed;
use toolgate_sandbox::workspace::{FilePool, Quota};
use toolgate_sandbox::{
    BeforeEffect, CallClock, CallContext, CallIdentity, Component, Effect, EgressSettings,
    FunctionsDescription, LogLine, Output, PagemapScan, Sandbox, SandboxSettings, Upstreams, Usage,
    Workspace, output_too_large,
};
use toolgate_state::keys::KEY_BYTES;

use crate::compile::{Compiler, WorkerCommand, WorkerLimits};

pub use credential::LocalCredential;
pub use example::ExampleInputs;
pub use user_cache::UserCache;

/// Generous compile limits: one plugin has the whole machine.
const WORKER_LIMITS: WorkerLimits =
    WorkerLimits { memory_bytes: 4 * 1024 * 1024 * 1024, cpu_seconds: 300, wall_seconds: 300 };

/// A compiled and linked plugin file.
pub struct PluginHarness {
    sandbox: Sandbox,
    component: Component,
    digest: Digest,
    file: Bytes,
}

/// The means to compile a plugin file.
#[derive(Clone, Debug)]
pub struct CompileTools {
    /// The binary of the compile worker.
    pub worker: PathBuf,
    /// The cache that outlives the command; none compiles each time.
    pub cache: Option<UserCache>,
}

/// The organization of calls without a daemon.
pub(crate) const LOCAL_ORGANIZATION: &str = "local";

/// The inputs of a call besides its arguments.
#[derive(Clone, Debug)]
pub struct CallEnvironment {
    /// The folder that the guest sees as `/workspace`; none for a guest without files.
    pub workspace: Option<PathBuf>,
    /// The guest's clock, running or stopped.
    pub clock: CallClock,
    /// Seed of the guest's random numbers.
    pub seed: [u8; 32],
    /// The settings of the plugin, as JSON text; none stands for `{}`.
    pub settings: Option<Arc<str>>,
    /// The credential of requests that its document names.
    pub credential: Option<Arc<LocalCredential>>,
    /// The organization that the guest sees, and that processors are shared with others for.
    pub organization: Arc<str>,
}

/// The result of one call.
#[derive(Debug)]
pub struct HarnessResult {
    /// The output as JSON text, validated against its schema, or the error.
    pub outcome: Result<String, CallError>,
    /// Content blocks beside the output.
    pub content: Vec<ContentBlock>,
    /// Fuel, memory and time used.
    pub usage: Usage,
    /// Lines that the guest logged and printed.
    pub log: Vec<LogLine>,
    /// Number of lines over the log limit.
    pub log_lines_dropped: u64,
    /// Attempted and completed effects: file writes and requests.
    pub effects: Vec<Effect>,
}

#[boxed]
impl PluginHarness {
    /// Compiles and links a file, or takes its code from the cache.
    pub async fn open(file: &[u8], tools: CompileTools) -> Result<Self, CallError> {
        let settings = SandboxSettings { instances: 4, pagemap_scan: PagemapScan::Off };
        let sandbox = Sandbox::new(&settings).map_err(|error| host_fault(&error))?;
        let temporary = temporary_folder()?;
        let command =
            WorkerCommand { program: tools.worker, limits: WORKER_LIMITS, concurrency: 1, is_confined: true };
        let open = |folder: &Path, key: &[u8; KEY_BYTES]| {
            Compiler::open(sandbox.clone(), folder, key, command.clone())
        };
        // A cache that cannot be used only costs time.
        let kept = tools.cache.and_then(|cache| open(&cache.folder, &cache.key().ok()?).ok());
        let compiler = match kept {
            Some(compiler) => compiler,
            None => open(temporary.path(), &rand::random()).map_err(|error| host_fault(&error))?,
        };
        let digest = Digest::from_sha256(audit::sha256(file).0);
        let (component, _) = compiler.component(&digest, file).await?;
        compiler.remove_unused();
        Ok(Self { sandbox, component, digest, file: Bytes::copy_from_slice(file) })
    }

    /// The component.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// Calls `describe`, or describes the functions of a component without the plugin contract. Returns the JSON text.
    pub async fn describe(&self) -> Result<String, CallError> {
        self.describe_as(None, None).await
    }

    /// Like [`PluginHarness::describe`]; functions get this namespace and version.
    pub async fn describe_as(
        &self,
        namespace: Option<&str>,
        version: Option<&str>,
    ) -> Result<String, CallError> {
        match self.component.describe_functions(&self.file, namespace, version) {
            Some(functions) => Ok(functions.json),
            None => self.sandbox.describe(&self.component, None).await,
        }
    }

    /// Describes the tools that the component of custom tools makes from a definition, which is its input as JSON text.
    pub async fn describe_definition(
        &self,
        organization: &str,
        definition: String,
    ) -> Result<String, CallError> {
        let definition =
            toolgate_sandbox::Definition { text: definition.into(), organization: organization.into() };
        self.sandbox.describe(&self.component, Some(definition)).await
    }

    /// Calls `describe` at another time and with other random numbers, which may not change the description. Functions do
    /// not describe themselves.
    pub async fn describe_otherwise(&self) -> Result<String, CallError> {
        match self.component.describe_functions(&self.file, None, None) {
            Some(functions) => Ok(functions.json),
            None => self.sandbox.describe_otherwise(&self.component).await,
        }
    }

    /// The functions of a component without the plugin contract.
    pub fn functions(&self) -> Option<FunctionsDescription> {
        self.component.describe_functions(&self.file, None, None)
    }

    /// Builds rules with this grant that allow all tools of the plugin.
    pub fn rules_granting(
        &self,
        granted: Grant,
        descriptor: Descriptor,
        limits: LimitsPatch,
    ) -> Rules<Component> {
        let plugin = Plugin::with_trusted_hints(
            self.digest.clone(),
            Arc::new(granted),
            descriptor,
            self.component.clone(),
        );
        let catalogue = Arc::new(Catalogue::new(limits, vec![Arc::new(plugin)]));
        Rules::allow_all(catalogue)
    }

    /// Checks and runs one call.
    pub async fn call(
        &self,
        rules: &Rules<Component>,
        tool: &str,
        arguments: &str,
        environment: &CallEnvironment,
    ) -> HarnessResult {
        call(&self.sandbox, rules, tool, arguments, environment).await
    }
}

/// Checks and runs one call by rules of its own, which nothing records.
pub(crate) async fn call(
    sandbox: &Sandbox,
    rules: &Rules<Component>,
    tool: &str,
    arguments: &str,
    environment: &CallEnvironment,
) -> HarnessResult {
    let draw = CanaryDraw::SERVING;
    let call = admission::ToolCall { tool: tool.into(), arguments: arguments.into(), draw };
    run(sandbox, rules, call, environment).await.unwrap_or_else(|error| HarnessResult {
        outcome: Err(error),
        content: Vec::new(),
        usage: Usage::default(),
        log: Vec::new(),
        log_lines_dropped: 0,
        effects: Vec::new(),
    })
}

async fn run(
    sandbox: &Sandbox,
    rules: &Rules<Component>,
    call: admission::ToolCall,
    environment: &CallEnvironment,
) -> Result<HarnessResult, CallError> {
    let admitted = match admission::check(rules, &SessionFacts::default(), call) {
        Verdict::Run(checked) => charge(checked)?,
        Verdict::Refused(refusal) => return Err(refusal.error),
        // The rules of the harness require no approvals.
        Verdict::NeedsApproval(_) => {
            return Err(host_fault(&"a call without a daemon asks for approval"));
        }
    };
    let mut context = context(admitted.limits(), admitted.access().filesystem(), environment).await?;
    if let Some(credential) = &environment.credential {
        context.credentials = credential::credentials(credential, admitted.access());
    }
    let finished = sandbox.run(&admitted, context, pin!(std::future::pending())).await;
    let mut content = Vec::new();
    let outcome = finished.outcome.and_then(|output| match output {
        Output::Result(json) if json.len() as u64 > admitted.limits().output_bytes => {
            Err(output_too_large(admitted.limits()))
        }
        Output::Result(json) => admitted.check_result(&json).map(|with_content| match with_content {
            Some((output, blocks)) => {
                content = blocks;
                output
            }
            None => json,
        }),
        Output::Client(json) => admitted.check_client_payload(json),
    });
    Ok(HarnessResult {
        outcome,
        content,
        usage: finished.usage,
        log: finished.log,
        log_lines_dropped: finished.log_lines_dropped,
        effects: finished.effects,
    })
}

async fn context(
    limits: &Limits,
    files: FilesystemAccess,
    environment: &CallEnvironment,
) -> Result<CallContext, CallError> {
    let workspace = match (files, &environment.workspace) {
        (FilesystemAccess::Workspace, Some(folder)) => Some(open_workspace(folder, limits).await?),
        _ => None,
    };
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_millis(limits.deadline_ms);
    Ok(CallContext {
        identity: Arc::new(CallIdentity {
            session: "s_local".into(),
            organization: Arc::clone(&environment.organization),
            agent: "author".into(),
            ..CallIdentity::default()
        }),
        workspace,
        clock: environment.clock.clone(),
        seed: environment.seed,
        settings: environment.settings.clone(),
        upstreams: Some(Upstreams::new(EgressSettings::default())),
        // Effects wait for no audit record here.
        before_effect: BeforeEffect::new(|| async { Ok(()) }),
        ..CallContext::without_capabilities("c_local", deadline)
    })
}

async fn open_workspace(folder: &Path, limits: &Limits) -> Result<Workspace, CallError> {
    let quota = Quota { bytes: limits.workspace_bytes, files: limits.workspace_files };
    // The author may name it by a link.
    let real = folder.canonicalize().map_err(|error| workspace_error(folder, &error))?;
    let opened = Workspace::open(&real, quota, FilePool::default()).await;
    opened.map(Workspace::with_read_effects).map_err(|error| workspace_error(folder, &error))
}

/// Checks that the value of `--workspace` is a readable folder, also if the plugin has no access to files.
pub fn check_workspace(folder: &Path) -> Result<(), CallError> {
    folder.read_dir().map(drop).map_err(|error| workspace_error(folder, &error))
}

fn workspace_error(folder: &Path, error: &dyn std::fmt::Display) -> CallError {
    CallError::new(
        ErrorType::InvalidRequest,
        format!("`{}` cannot be the workspace: {error}", folder.display()),
        "let `--workspace` name a folder that exists and that you may read and write",
    )
}

/// Charges a ledger without rate limits, since the sandbox only runs charged calls.
fn charge(checked: Checked<Component>) -> Result<Admitted<Component>, CallError> {
    let author = Name::parse("local").map_err(|error| host_fault(&error))?;
    let ledger = Ledger::new(Rates::UNLIMITED, QuotaCounters::default());
    ledger
        .charge(Consumer::without_session(&author), checked, ChargeTime::at(0))
        .map_err(|refusal| refusal.error)
}

/// Creates an empty folder that is deleted on drop.
pub fn temporary_folder() -> Result<TempDir, CallError> {
    tempfile::tempdir().map_err(|error| {
        CallError::new(
            ErrorType::Unavailable,
            format!("no temporary folder can be made: {error}"),
            "set the variable `TMPDIR` to a folder that this user may write",
        )
    })
}

/// An error of this machine, not of the plugin.
fn host_fault(error: &dyn std::fmt::Display) -> CallError {
    CallError::new(
        ErrorType::Internal,
        error.to_string(),
        "this is a problem of this machine, not of the plugin",
    )
}

impl CallEnvironment {
    /// A running clock and random numbers, as in a daemon.
    pub fn live(workspace: Option<PathBuf>) -> Self {
        Self {
            workspace,
            clock: CallClock::start(SystemTime::now()),
            seed: rand::random(),
            settings: None,
            credential: None,
            organization: LOCAL_ORGANIZATION.into(),
        }
    }
}
