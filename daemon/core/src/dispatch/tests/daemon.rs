//! The services of a daemon in this process. No guest runs: a test gets each call that reaches the sandbox, and ends it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolgate_admission::{Descriptor, Digest, Plugin, SessionFacts};
use toolgate_api::call::Executed;
use toolgate_api::document::OrganizationDocument;
use toolgate_api::error::ErrorType;
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::Name;
use toolgate_audit::Status;
use toolgate_sandbox::{Component, FakeCall, Output, PagemapScan, Sandbox, SandboxSettings, precompile};
use toolgate_state::clock::now_ms;
use toolgate_state::config::Config;
use toolgate_state::documents::{DocumentKey, Precondition};
use toolgate_state::identifier;
use toolgate_state::store::DataFolder;

use crate::admin::{Actor, Admin, DocumentWrite};
use crate::call::{CallAnswer, CallOutcome, RequestedCall};
use crate::dispatch::Origin;
use crate::identity::Caller;
use crate::restore::StartSettings;
use crate::services::Services;
use crate::sessions::{CallState, Session, SessionSetup};
use crate::traces::Traces;

/// A tool without files.
pub(crate) const ADD: &str = "notes/add";
/// A tool that may change the files of its session.
pub(crate) const WRITE: &str = "files/write";
/// A tool that reads them.
pub(crate) const READ: &str = "files/read";
/// A tool whose calls a person approves.
pub(crate) const DELETE: &str = "files/delete";

/// Error and execution of a call that ended with a result.
pub(crate) const FINISHED: CallEnd = (None, Executed::Yes);
/// The same of a call that was stopped in the sandbox.
pub(crate) const STOPPED: CallEnd = (Some(ErrorType::Cancelled), Executed::Yes);
/// The same of a call that was cancelled before it ran.
pub(crate) const NOT_RUN: CallEnd = (Some(ErrorType::Cancelled), Executed::No);

pub(crate) type CallEnd = (Option<ErrorType>, Executed);

/// The file of the plugin `answers`.
pub(crate) const COMPONENT: &[u8] = include_bytes!("../../../../fuzz/corpus/component/answers-one.wasm");

/// Compiled once for all tests.
static COMPILED: LazyLock<(Sandbox, Component, Vec<u8>)> = LazyLock::new(|| {
    let sandbox = Sandbox::new(&SandboxSettings { instances: 1, pagemap_scan: PagemapScan::Off }).unwrap();
    let code = precompile(COMPONENT, None).unwrap();
    (sandbox.clone(), sandbox.load(&code).unwrap(), code)
});

/// Longest wait for a condition, after which a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct TestDaemon {
    pub admin: Admin,
    operator: Caller,
    origin: Origin,
    started: mpsc::UnboundedReceiver<StartedCall>,
    _data: DataFolder,
    _folder: tempfile::TempDir,
}

/// A call in the sandbox. Dropping it leaves the call without an end.
pub(crate) struct StartedCall {
    pub call: FakeCall,
    end: oneshot::Sender<()>,
}

impl StartedCall {
    /// Ends the call with a result, unless it was stopped.
    pub(crate) fn finish(self) {
        let _ = self.end.send(());
    }
}

impl TestDaemon {
    /// A daemon with this number of slots, and the agent `acme/bot`.
    pub(crate) async fn start(slots: u32) -> Self {
        Self::start_with(slots, |_| {}).await
    }

    pub(crate) async fn start_with(slots: u32, configure: impl FnOnce(&mut Config)) -> Self {
        let (sandbox, component, code) = &*COMPILED;
        let folder = tempfile::tempdir().unwrap();
        let data = DataFolder::open(folder.path()).unwrap();
        let mut config = Config { data: data.path().to_owned(), ..Config::default() };
        config.sandbox.instances = slots;
        config.audit.segment_bytes = 1024 * 1024;
        config.audit.reserve_bytes = 0;
        config.consent.required = false;
        configure(&mut config);
        let (starting, started) = mpsc::unbounded_channel();
        let sandbox = sandbox.with_fake(move |call| {
            let (end, ended) = oneshot::channel();
            let _ = starting.send(StartedCall { call, end });
            async {
                match ended.await {
                    Ok(()) => Ok(Output::Result("1".into())),
                    Err(_) => std::future::pending().await,
                }
            }
        });
        let start = StartSettings {
            config: &config,
            folder: &data,
            sandbox: &sandbox,
            traces: &Traces::default(),
            worker: &write_worker(folder.path(), code),
            public_url: "http://localhost".to_owned(),
            private_hosts: Default::default(),
            root_key_credential: None,
            accept_lost_log: false,
            built_in: &[],
        };
        let stop = CancellationToken::new();
        let (admin, _) = start.restore(Box::new(|_| {}), &stop, &CancellationToken::new()).await.unwrap();
        admin.services().registry.serve(LimitsPatch::new(), plugins(component));
        let (principal, revoked) = ("orchestrator".into(), CancellationToken::new());
        let origin = Origin { principal, source: "test", trace: None, revoked };
        let daemon =
            Self { admin, operator: Caller::daemon(), origin, started, _data: data, _folder: folder };
        let document = OrganizationDocument::default();
        let absent = Precondition::Absent;
        daemon.admin.put_organization(daemon.actor(), &acme(), &document, &absent, false).await.unwrap();
        daemon.put(DocumentKey::Policy(acme()), r#"{"enabled":"*"}"#, Precondition::Absent).await;
        daemon.add_agent("bot").await;
        daemon
    }

    pub(crate) fn services(&self) -> &Services {
        self.admin.services()
    }

    /// The operator.
    pub(crate) fn actor(&self) -> Actor<'_> {
        Actor { caller: &self.operator, source: "test" }
    }

    pub(crate) async fn put(&self, key: DocumentKey, text: &str, precondition: Precondition) {
        let write = DocumentWrite { key, text: text.to_owned(), precondition, strict: false, dry_run: false };
        self.admin.put_document(self.actor(), write).await.unwrap();
    }

    /// Replaces the policy of the organization.
    pub(crate) async fn put_policy(&self, text: &str) {
        self.put(DocumentKey::Policy(acme()), text, Precondition::Present).await;
    }

    pub(crate) async fn add_agent(&self, agent: &str) {
        let document = r#"{"enabled":"*","autonomy":"supervised","require_approval_for":["files/delete"]}"#;
        self.put(agent_key(agent), document, Precondition::Absent).await;
    }

    pub(crate) async fn open_session(&self) -> Arc<Session> {
        self.open_session_of("bot").await
    }

    pub(crate) async fn open_session_of(&self, agent: &str) -> Arc<Session> {
        let setup = SessionSetup {
            id: identifier::fresh("s"),
            organization: acme(),
            agent: Name::parse(agent).unwrap(),
            user: None,
            conversation: None,
            channel: None,
            principal: self.origin.principal.to_string(),
            created_ms: now_ms(),
        };
        let rules = self.services().registry.snapshot().rules(&setup.organization, &setup.agent).unwrap();
        self.admin.open_session(self.actor(), setup, SessionFacts::default(), &rules).await.unwrap()
    }

    /// Posts a call in a request of its own. Aborting the task hangs up.
    pub(crate) fn post(&self, session: &Arc<Session>, call: RequestedCall) -> JoinHandle<CallAnswer> {
        self.post_as(&self.origin, session, call)
    }

    pub(crate) fn post_as(
        &self,
        origin: &Origin,
        session: &Arc<Session>,
        call: RequestedCall,
    ) -> JoinHandle<CallAnswer> {
        let (origin, session) = (origin.clone(), Arc::clone(session));
        let dispatcher = self.admin.dispatcher().clone();
        tokio::spawn(async move {
            let answering = dispatcher.batch(&session, None, vec![call], &origin);
            let answered = tokio::time::timeout(PATIENCE, answering).await;
            answered.expect("the call has no end").results.remove(0)
        })
    }

    /// Posts a call that waits for a slot or for the files of its session.
    pub(crate) async fn post_waiting(
        &self,
        session: &Arc<Session>,
        call: RequestedCall,
    ) -> JoinHandle<CallAnswer> {
        let waiting = || self.services().queue.depth().1 + session.changing_files.depth().1;
        let (before, request) = (waiting(), self.post(session, call));
        until("the call waits", || waiting() > before).await;
        request
    }

    /// Posts a call that need not wait.
    pub(crate) async fn run(
        &mut self,
        session: &Arc<Session>,
        call: RequestedCall,
    ) -> (JoinHandle<CallAnswer>, StartedCall) {
        (self.post(session, call), self.started().await)
    }

    /// The next call that reaches the sandbox.
    pub(crate) async fn started(&mut self) -> StartedCall {
        tokio::time::timeout(PATIENCE, self.started.recv()).await.expect("no call starts").unwrap()
    }

    /// Finishes the next call that reaches the sandbox, which is that of the request.
    pub(crate) async fn finish_next(&mut self, request: JoinHandle<CallAnswer>) {
        self.started().await.finish();
        assert_eq!(end(request).await, FINISHED);
    }

    /// The id of a call that reached the sandbox, and that no test expected.
    pub(crate) fn started_beside(&mut self) -> Option<Arc<str>> {
        self.started.try_recv().ok().map(|started| started.call.id)
    }

    /// Finishes each call from now on as soon as it starts. Returns the number of these calls so far.
    pub(crate) fn finish_each(&mut self) -> Arc<AtomicUsize> {
        let mut started = std::mem::replace(&mut self.started, mpsc::unbounded_channel().1);
        let runs = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&runs);
        tokio::spawn(async move {
            while let Some(call) = started.recv().await {
                counter.fetch_add(1, Ordering::Relaxed);
                call.finish();
            }
        });
        runs
    }

    /// The status of a call in the audit log.
    pub(crate) async fn recorded_status(&self, session: &Session, id: &str) -> Option<Status> {
        let audit = &self.services().audit;
        // A search waits until the newest records are indexed.
        audit.search(&Default::default()).await.unwrap();
        audit.lookup(&session.setup.id, 0, id).await.unwrap()?.status
    }
}

/// A compile worker that has the compiled code already: nothing is compiled for a test.
fn write_worker(folder: &Path, code: &[u8]) -> PathBuf {
    let (worker, compiled) = (folder.join("worker"), folder.join("code"));
    fs::write(&compiled, [code, &(code.len() as u64).to_le_bytes()].concat()).unwrap();
    let script = format!("#!/bin/sh\n[ \"$2\" = code ] && exec cat '{}'\necho done\n", compiled.display());
    fs::write(&worker, script).unwrap();
    fs::set_permissions(&worker, fs::Permissions::from_mode(0o700)).unwrap();
    worker
}

fn plugins(component: &Component) -> Vec<Arc<Plugin<Component>>> {
    let tool = |name: &str, read_only: bool| {
        json!({
            "name": name, "description": "Does it.", "usage": "Use it.", "input_schema": {"type": "object"},
            "hints": {"read_only": read_only, "destructive": !read_only},
        })
    };
    let files = json!({
        "name": "files", "version": "1.0.0", "capabilities": {"filesystem": "workspace"},
        "tools": [tool("read", true), tool("write", false), tool("delete", false)],
    });
    let notes = json!({"name": "notes", "version": "1.0.0", "tools": [tool("add", false)]});
    let plugin = |description: Value| {
        let descriptor = Descriptor::parse(&description.to_string()).unwrap();
        let granted = Arc::new(descriptor.capabilities.clone().into());
        let digest = Digest::from_sha256([7; 32]);
        Arc::new(Plugin::with_trusted_hints(digest, granted, descriptor, component.clone()))
    };
    [files, notes].map(plugin).into()
}

pub(crate) fn acme() -> Name {
    Name::parse("acme").unwrap()
}

pub(crate) fn agent_key(agent: &str) -> DocumentKey {
    DocumentKey::agent(&acme(), &Name::parse(agent).unwrap())
}

/// A call with an id of its caller, which ends with its request.
pub(crate) fn call(id: &str, tool: &str) -> RequestedCall {
    RequestedCall { id_is_new: false, ..RequestedCall::new(id, tool, "{}".into()) }
}

/// The error of a call, and whether it ran.
pub(crate) fn end_of(outcome: &CallOutcome) -> CallEnd {
    (outcome.error().map(|error| error.error_type), outcome.executed)
}

/// The end of the call of a request.
pub(crate) async fn end(request: JoinHandle<CallAnswer>) -> CallEnd {
    end_of(&request.await.unwrap())
}

pub(crate) async fn hang_up(request: JoinHandle<CallAnswer>) {
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
}

/// The outcome of a call that no request waits for any more.
pub(crate) async fn outcome_of(session: &Session, id: &str) -> Arc<CallOutcome> {
    let find = || session.calls.find(id, now_ms());
    until("the call ends", || !matches!(find(), Some(CallState::Running { .. }))).await;
    let Some(CallState::Ended(outcome)) = find() else { panic!("the call has no outcome: {:?}", find()) };
    outcome
}

/// Lets the other tasks run until a condition holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect(what);
}
