//! A log of three segments, written by the daemon's own writer and copied while a call is open, as after a kill.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;
use serde_json::value::RawValue;
use toolgate_audit::{
    AdminRecord, Audit, AuditSettings, CallIntent, CallOutcome, EffectRecord, Executed, Reason, Status,
    Usage, Verdict, sha256,
};

use super::super::scratch;
use super::segment_file;
use super::segment_parser::{ValidRecord, open_intents, parse};

pub const KEY: [u8; 32] = [9; 32];
pub const SEGMENT_BYTES: u64 = 64 * 1024;
const SEGMENTS: u64 = 3;

pub static BASELINE: LazyLock<Baseline> = LazyLock::new(Baseline::write);

/// The files of the log, without the zeros at their ends, and its records.
pub struct Baseline {
    segments: Vec<Vec<u8>>,
    head: Vec<u8>,
    pub records: Vec<ValidRecord>,
}

impl Baseline {
    pub fn last_sequence(&self) -> u64 {
        self.records.last().map_or(0, |last| last.sequence)
    }

    pub fn write_to(&self, folder: &Path) {
        for (number, bytes) in (1..).zip(&self.segments) {
            fs::write(segment_file(folder, number), bytes).expect("a segment");
        }
        fs::write(folder.join("head"), &self.head).expect("the anchor");
    }

    /// Whether a segment differs, apart from zeros at its end.
    pub fn is_changed(&self, folder: &Path) -> bool {
        (1..).zip(&self.segments).any(|(number, bytes)| {
            fs::read(segment_file(folder, number))
                .map_or(true, |now| without_zeros(&now) != without_zeros(bytes))
        })
    }

    /// Start and end offset of a record.
    pub fn record(&self, segment: usize, record: usize) -> Option<(usize, usize)> {
        let bytes = self.segments.get(segment.checked_sub(1)?)?;
        let parsed = parse(bytes)?;
        let end = parsed.records.get(record)?.end;
        let start = match record.checked_sub(1) {
            Some(before) => parsed.records.get(before)?.end,
            None => 112 + 8 * open_intents(bytes)?,
        };
        Some((start, end))
    }

    fn write() -> Self {
        let folder = scratch::folder();
        let dir = folder.path().join("audit");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(write_log(&dir));
        let segments: Vec<Vec<u8>> = (1..=SEGMENTS)
            .map(|number| fs::read(folder.path().join("kept").join(format!("{number}"))).expect("a segment"))
            .collect();
        let mut records = Vec::new();
        for bytes in &segments {
            let parsed = parse(bytes).expect("a valid segment");
            assert!(parsed.is_whole(bytes) && !parsed.records.is_empty(), "a segment without records");
            records.extend(parsed.records);
        }
        let head = fs::read(folder.path().join("kept/head")).expect("the anchor");
        Self { segments: segments.iter().map(|bytes| with_padding(bytes)).collect(), head, records }
    }
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or_default()
}

/// Keeps some of the preallocated zeros, so that edits can reach them.
fn with_padding(bytes: &[u8]) -> Vec<u8> {
    let mut kept = without_zeros(bytes).to_vec();
    kept.resize(kept.len().next_multiple_of(8) + 256, 0);
    kept
}

/// Writes until there are enough segments, and copies the files while a call is open.
async fn write_log(dir: &Path) {
    let settings = AuditSettings {
        key: Some(KEY),
        segment_bytes: SEGMENT_BYTES,
        reserve_bytes: 8 * 1024,
        ..AuditSettings::new(dir)
    };
    let (audit, _) = Audit::start(&settings).await.expect("the log starts");
    let mut calls = 0;
    while audit.anchor().segment < SEGMENTS || calls % 4 != 3 {
        let id = format!("c{calls}");
        let entry = audit.open(intent(&id, calls)).expect("accepted");
        audit
            .effect(&entry, EffectRecord { effect: "workspace_write".into(), detail: "notes.txt".into() })
            .expect("accepted");
        audit.close(entry, outcome()).await.expect("synced");
        if calls % 3 == 0 {
            audit.admin(admin_record()).await.expect("synced");
        }
        calls += 1;
    }
    let open = audit.open(intent("open", 0)).expect("accepted");
    audit.sync().await.expect("synced");
    // The anchor is written after the sync.
    while !anchor_names(dir, audit.anchor().sequence) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let kept = dir.with_file_name("kept");
    fs::create_dir(&kept).expect("a folder");
    for number in 1..=SEGMENTS {
        fs::copy(segment_file(dir, number), kept.join(format!("{number}"))).expect("a copy");
    }
    fs::copy(dir.join("head"), kept.join("head")).expect("a copy");
    drop(open);
}

fn anchor_names(dir: &Path, sequence: u64) -> bool {
    let text = fs::read(dir.join("head")).unwrap_or_default();
    serde_json::from_slice::<Value>(&text).is_ok_and(|signed| signed["head"]["sequence"] == sequence)
}

/// Arguments of different lengths give padding of every length.
fn intent(call: &str, number: usize) -> CallIntent<'_> {
    let arguments = format!("{{\"text\":\"{}\"}}", "x".repeat(number * 397 % 9000));
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
        arguments_sha256: sha256(arguments.as_bytes()),
        arguments: Some(Cow::Owned(RawValue::from_string(arguments).expect("JSON"))),
        nulls_removed: Vec::new(),
        verdict: Verdict::Run,
        repeated: None,
        parent: None,
        reason: Reason::by("agent", "enabled"),
        policy_revision: 3,
        plugin: None,
        source: "http".into(),
        principal: "token-1".into(),
    }
}

fn outcome() -> CallOutcome<'static> {
    CallOutcome {
        status: Status::Ok,
        error_type: None,
        executed: Executed::Yes,
        usage: Usage::default(),
        duration_us: 12,
        output: None,
    }
}

fn admin_record() -> AdminRecord<'static> {
    AdminRecord {
        organization: None,
        principal: "token-0".into(),
        action: "plugin.load".into(),
        target: "files".into(),
        outcome: "ok".into(),
        revision: Some(1),
        details: None,
        source: "http".into(),
    }
}
