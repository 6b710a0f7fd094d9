//! Tests of the guarantees of the log, on real files: in `/dev/shm` if it exists, since many tests change every byte.

mod chain;
mod damage;
mod kept;
mod recovery;
mod search;
mod watch;
mod space;

use std::borrow::Cow;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tempfile::TempDir;

use super::folder::Folder;
use super::format::{RecordHeader, RecordKind};
use super::reader::{ChainLink, Reader, Step};
use super::record::sha256;
use super::*;

const SEGMENT_BYTES: u64 = 64 * 1024;

/// A temporary folder with a log and its index.
struct TestLog {
    dir: TempDir,
}

impl TestLog {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        Self { dir: tempfile::tempdir_in(base).expect("a folder") }
    }

    fn settings(&self) -> AuditSettings {
        AuditSettings {
            segment_bytes: SEGMENT_BYTES,
            reserve_bytes: 8 * 1024,
            ..AuditSettings::new(self.audit_dir())
        }
    }

    fn audit_dir(&self) -> PathBuf {
        self.dir.path().join("audit")
    }

    fn folder(&self) -> Folder {
        Folder::at(&self.audit_dir())
    }

    async fn start(&self) -> Audit {
        self.start_after_crash().await.0
    }

    async fn start_after_crash(&self) -> (Audit, Recovery) {
        Audit::start(&self.settings()).await.expect("the log starts")
    }

    async fn start_error(&self) -> StartError {
        Audit::start(&self.settings()).await.err().expect("the log is refused")
    }

    fn verify(&self) -> VerifyReport {
        verify_folder(&self.audit_dir(), None).expect("the log can be read")
    }

    /// Creates a folder with one segment, as a crash may leave it.
    fn with_segment(bytes: &[u8]) -> Self {
        let log = Self::new();
        log.folder().create().expect("a folder");
        std::fs::write(log.folder().segment(1), bytes).expect("a segment");
        log
    }

    /// Reads a segment, without the preallocated zeros.
    fn segment(&self, number: u64) -> Vec<u8> {
        let mut bytes = std::fs::read(self.folder().segment(number)).expect("a segment");
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(used);
        bytes
    }
}

/// A record in a segment file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoredRecord {
    offset: usize,
    end: usize,
    header: RecordHeader,
    payload: Vec<u8>,
}

/// Reads the valid records of one segment.
fn records(folder: &Folder, segment: u64) -> Vec<StoredRecord> {
    let mut reader = Reader::open(folder, segment).expect("a segment");
    let Ok((header, hash)) = reader.header().expect("it can be read") else { return Vec::new() };
    let mut link = ChainLink { hash, sequence: header.first_sequence };
    let mut found = Vec::new();
    while let Step::Record { offset, header, payload } = reader.next(&mut link).expect("it can be read") {
        let offset = usize::try_from(offset).expect("small");
        let end = offset + super::format::RECORD_HEADER_BYTES + header.length as usize;
        found.push(StoredRecord { offset, end, header, payload: payload.to_vec() });
    }
    found
}

fn intent(call: &str) -> CallIntent<'_> {
    CallIntent {
        organization: "acme".into(),
        session: "s1".into(),
        call: call.into(),
        agent: "helper".into(),
        user: Some("u1".into()),
        conversation: None,
        channel: None,
        tool: "files/read".into(),
        wire_name: "call_files_read".into(),
        arguments: Some(raw(r#"{"path":"notes.txt"}"#)),
        arguments_sha256: sha256(br#"{"path":"notes.txt"}"#),
        nulls_removed: Vec::new(),
        verdict: Verdict::Run,
        reason: Reason::by("agent", "enabled"),
        repeated: None,
        parent: None,
        policy_revision: 3,
        plugin: Some(PluginStamp { version: "0.1.0".into(), digest: "sha256:00".into() }),
        source: "http".into(),
        principal: "token-1".into(),
    }
}

fn large_intent(call: &str) -> CallIntent<'_> {
    CallIntent { arguments: Some(raw(&format!("{{\"text\":\"{}\"}}", "x".repeat(9000)))), ..intent(call) }
}

fn raw(json: &str) -> Cow<'static, RawValue> {
    Cow::Owned(RawValue::from_string(json.to_owned()).expect("JSON"))
}

fn success() -> CallOutcome<'static> {
    CallOutcome {
        status: Status::Ok,
        error_type: None,
        executed: Executed::Yes,
        usage: Usage { fuel: 1000, ..Usage::default() },
        duration_us: 12,
        output: Some(OutputStamp { sha256: sha256(b"{}"), bytes: 2 }),
    }
}

fn failure(error_type: &'static str) -> CallOutcome<'static> {
    CallOutcome { status: Status::Error, error_type: Some(error_type.into()), output: None, ..success() }
}

fn act(action: &str) -> AdminRecord<'_> {
    AdminRecord {
        organization: None,
        principal: "token-0".into(),
        action: action.into(),
        target: "files".into(),
        outcome: "ok".into(),
        revision: Some(1),
        details: None,
        source: "http".into(),
    }
}

/// Records an act as the administration layer does: its intent is on disk before its outcome is appended.
async fn perform(audit: &Audit, action: &str, error_type: Option<&'static str>) {
    let entry =
        audit.open_act(AdminRecord { outcome: "UNKNOWN".into(), ..act(action) }).expect("it is taken");
    entry.sync().await.expect("it is on disk");
    let status = if error_type.is_none() { Status::Ok } else { Status::Error };
    let outcome = ActOutcome { status, error_type: error_type.map(Into::into), revision: Some(2) };
    audit.close_act(entry, outcome).await.expect("it is on disk");
}

async fn call(audit: &Audit, id: &str) {
    let entry = audit.open(intent(id)).expect("it is taken");
    audit.close(entry, success()).await.expect("it is on disk");
}

async fn row(audit: &Audit, id: &str) -> Row {
    // A search waits for the index, which a lookup does not.
    audit.search(&Query::default()).await.expect("the index answers");
    audit.lookup("s1", 0, id).await.expect("the index answers").expect("the call is known")
}

/// Polls a condition; fails after a time limit.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "waited for {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Command and environment that run one ignored test of this program in a child process.
fn child(test: &str, dir: &Path) -> (String, Vec<(String, String)>) {
    let program = std::env::current_exe().expect("a path").display().to_string();
    let arguments = format!("'{program}' --exact tests::{test} --ignored --nocapture --test-threads=1");
    (arguments, vec![("AUDIT_TEST_DIR".into(), dir.display().to_string())])
}

/// The folder given to a child process.
fn child_dir() -> PathBuf {
    std::env::var_os("AUDIT_TEST_DIR").expect("started by another test").into()
}

fn run_to_end(shell: &str, environment: Vec<(String, String)>) {
    let output = Command::new("sh").arg("-c").arg(shell).envs(environment).output().expect("a shell");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}
