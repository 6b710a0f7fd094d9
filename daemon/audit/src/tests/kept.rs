//! Data keys, retention and exports.

use futures_util::FutureExt;
use toolgate_api::audit_export::{ExportGap, ExportLine, ExportRecord};
use toolgate_state::keys::KEY_BYTES;

use super::*;
use crate::export::ExportQuery;
use crate::retention::Retention;

const CUT_TO_TWO: Retention = Retention { kept_ms: None, kept_bytes: Some(1) };

/// Keys of these organizations.
fn keys(organizations: &[&str]) -> DataKeys {
    let keys = DataKeys::new([3; KEY_BYTES]);
    for organization in organizations {
        keys.insert(organization, &keys.generate(organization).expect("a key")).expect("it unwraps");
    }
    keys
}

async fn start_with_keys(log: &TestLog, keys: &DataKeys) -> Audit {
    let settings = AuditSettings { data_keys: Some(keys.clone()), ..log.settings() };
    Audit::start(&settings).await.expect("the log starts").0
}

/// Fills at least `segments` segments, and returns the number of calls.
async fn fill(audit: &Audit, folder: &Folder, segments: u64) -> u64 {
    let mut calls = 0;
    while folder.segments().expect("a folder").last().is_none_or(|last| *last < segments) {
        let entry = audit.open(large_intent(&format!("c{calls}"))).expect("it is taken");
        audit.close(entry, success()).await.expect("it is on disk");
        calls += 1;
    }
    calls
}

async fn export(audit: &Audit, query: ExportQuery) -> Vec<ExportLine> {
    let mut exporter = audit.export(query).await.expect("it begins");
    let goal = audit.anchor();
    let mut text = exporter.read(goal).expect("readable");
    while !exporter.has_reached(goal) {
        text.extend(exporter.read(goal).expect("readable"));
    }
    text.extend(exporter.end());
    let text = String::from_utf8(text).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
}

fn export_records(lines: &[ExportLine]) -> Vec<&ExportRecord> {
    let found = lines.iter().filter_map(|line| match line {
        ExportLine::Record(record) => Some(record),
        _ => None,
    });
    found.collect()
}

fn gaps(lines: &[ExportLine]) -> Vec<&ExportGap> {
    let found = lines.iter().filter_map(|line| match line {
        ExportLine::Gap(gap) => Some(gap),
        _ => None,
    });
    found.collect()
}

#[test]
fn o3_sealed_arguments_are_shown_until_the_key_goes_and_the_chain_stays_valid() {
    block_on(async {
        let (log, keys) = (TestLog::new(), keys(&["acme", "rival"]));
        let audit = start_with_keys(&log, &keys).await;
        call(&audit, "acme").await;
        let entry =
            audit.open(CallIntent { organization: "rival".into(), ..intent("rival") }).expect("taken");
        let effect = EffectRecord { effect: "workspace_write".into(), detail: "canary.txt".into() };
        audit.effect(&entry, effect).expect("taken");
        audit.close(entry, success()).await.expect("on disk");
        let sealed = log.segment(1);
        for plain in ["notes.txt", "canary.txt"] {
            assert!(!sealed.windows(plain.len()).any(|found| found == plain.as_bytes()), "{plain}");
        }
        let shown = row(&audit, "acme").await;
        let arguments = shown.call.expect("a call").arguments.expect("arguments");
        assert_eq!((arguments.get(), shown.arguments_deleted), (r#"{"path":"notes.txt"}"#, false));
        keys.remove("acme");
        let deleted = row(&audit, "acme").await;
        assert!(deleted.arguments_deleted && deleted.call.expect("a call").arguments.is_none());
        let other = row(&audit, "rival").await;
        assert!(!other.arguments_deleted && other.call.expect("a call").arguments.is_some());
        let effects = Query { kind: Some(Kind::Effect), ..Query::default() };
        let effects = audit.search(&effects).await.expect("found").rows;
        assert_eq!(effects[0].effect.as_ref().expect("an effect").detail, "canary.txt");
        call(&audit, "later").await;
        let later = row(&audit, "later").await;
        assert!(later.arguments_deleted, "without a key no arguments are recorded");
        assert!(audit.verify().await.expect("read").ok);
    });
}

#[test]
fn o3_a_cut_waits_for_a_verification() {
    block_on(async {
        let log = TestLog::new();
        let audit = log.start().await;
        fill(&audit, &log.folder(), 5).await;
        let verification = audit.log.cutting.read().await;
        let mut cut = Box::pin(audit.cut_old(CUT_TO_TWO));
        assert!((&mut cut).now_or_never().is_none(), "it waits");
        drop(verification);
        assert!(cut.await.expect("cut") > 0);
    });
}

#[test]
fn o3_a_cut_removes_whole_segments_and_the_log_verifies_from_there() {
    block_on(async {
        let log = TestLog::new();
        let audit = log.start().await;
        fill(&audit, &log.folder(), 5).await;
        let usage = UsageQuery::default();
        let used = audit.usage(&usage).await.expect("a report").expect("short");
        let cut = audit.cut_old(CUT_TO_TWO).await.expect("cut");
        assert!(cut > 0);
        let kept = log.folder().segments().expect("a folder");
        assert_eq!(kept.len(), 2, "{kept:?}");
        let report = audit.verify().await.expect("read");
        assert!(report.ok, "{report:?}");
        assert_eq!(report.cut.expect("a cut").sequence, cut);
        let acts = Query { action: Some("audit.cut".to_owned()), ..Query::default() };
        let acts = audit.search(&acts).await.expect("found").rows;
        assert_eq!(acts.len(), 1);
        let rows =
            audit.search(&Query { order: Order::OldestFirst, ..Query::default() }).await.expect("found").rows;
        assert!(rows.iter().all(|row| row.sequence > cut && row.damaged.is_none()), "{:?}", rows.first());
        assert_eq!(audit.usage(&usage).await.expect("a report").expect("short"), used);
        assert_eq!(audit.cut_old(CUT_TO_TWO).await.expect("nothing to cut"), 0);
        drop(audit);
        assert!(log.verify().ok);
        // The index can be made again.
        std::fs::remove_file(log.settings().index).expect("removed");
        let audit = log.start().await;
        call(&audit, "after").await;
        assert!(row(&audit, "after").await.damaged.is_none());
        assert!(audit.verify().await.expect("read").ok);
    });
}

#[test]
fn o3_a_cut_that_a_crash_interrupted_is_finished_at_the_next_start() {
    block_on(async {
        let log = TestLog::new();
        let audit = log.start().await;
        fill(&audit, &log.folder(), 5).await;
        let old = |number| (number, std::fs::read(log.folder().segment(number)).expect("a segment"));
        let old = [old(1), old(2), old(3)];
        audit.cut_old(CUT_TO_TWO).await.expect("cut");
        drop(audit);
        // As if the daemon had died before it removed any, or after it removed some.
        for from in 0..3 {
            for (number, bytes) in &old[from..] {
                std::fs::write(log.folder().segment(*number), bytes).expect("written");
            }
            assert!(log.verify().ok, "what is cut is not read");
            let audit = log.start().await;
            assert_eq!(log.folder().segments().expect("a folder").len(), 2);
            assert!(audit.verify().await.expect("read").ok);
        }
    });
}

#[test]
fn o3_a_cut_without_its_record_is_damage() {
    block_on(async {
        let log = TestLog::new();
        let audit = log.start().await;
        fill(&audit, &log.folder(), 4).await;
        drop(audit);
        // Segments are removed, and a cut is claimed that the log does not have.
        let mut next = Reader::open(&log.folder(), 2).expect("a segment");
        let (header, _) = next.header().expect("readable").expect("intact");
        let sequence = header.first_sequence - 1;
        let anchor = Anchor { sequence, segment: 1, offset: 0, hash: Sha256(header.previous_hash) };
        Sealer::new(None).write_cut(&log.folder(), &anchor).expect("written");
        std::fs::remove_file(log.folder().segment(1)).expect("removed");
        let report = log.verify();
        assert!(!report.ok && report.first_bad.expect("a place").what.contains("no record says"));
        // Without the claim, the first segment is missing.
        std::fs::remove_file(log.folder().cut()).expect("removed");
        assert!(!log.verify().ok);
        assert!(matches!(log.start_error().await, StartError::Missing { segment: 1, .. }));
    });
}

#[test]
fn o3_an_export_has_every_record_and_goes_on_after_a_cursor() {
    block_on(async {
        let (log, keys) = (TestLog::new(), keys(&["acme"]));
        let audit = start_with_keys(&log, &keys).await;
        fill(&audit, &log.folder(), 3).await;
        perform(&audit, "agent.put", None).await;
        let all = export(&audit, ExportQuery::default()).await;
        let records = export_records(&all);
        let sequences: Vec<u64> = records.iter().map(|record| record.sequence).collect();
        assert_eq!(sequences, (1..=audit.anchor().sequence).collect::<Vec<_>>());
        assert_eq!(records.last().expect("a record").hash, Some(audit.anchor().hash));
        assert!(records[0].arguments.as_ref().expect("arguments").get().contains("xxx"));
        for pair in records.windows(2) {
            let begins_segment = all.iter().any(|line| {
                matches!(line, ExportLine::Segment(segment) if segment.first_sequence == pair[1].sequence)
            });
            assert!(begins_segment || pair[1].previous_hash == pair[0].hash, "{}", pair[1].sequence);
        }
        for after in [0, 1, sequences.len() as u64 / 2, sequences.len() as u64] {
            let rest = export(&audit, ExportQuery { after: Some(after), ..ExportQuery::default() }).await;
            let rest: Vec<u64> = export_records(&rest).iter().map(|record| record.sequence).collect();
            assert_eq!(rest, sequences[usize::try_from(after).expect("small")..], "after {after}");
        }
        let beyond = ExportQuery { after: Some(1_000_000), ..ExportQuery::default() };
        assert!(matches!(audit.export(beyond).await, Err(AuditError::BadCursor { .. })));
    });
}

#[test]
fn o3_an_export_of_one_organization_has_its_records_alone() {
    block_on(async {
        let log = TestLog::new();
        let audit = log.start().await;
        let open = |organization: &'static str, id: &'static str| {
            audit.open(CallIntent { organization: organization.into(), ..intent(id) }).expect("taken")
        };
        let (early, rival) = (open("acme", "a1"), open("rival", "r1"));
        let early_sequence = early.sequence();
        let effect = || EffectRecord { effect: "network_denied".into(), detail: "https://a.example".into() };
        fill(&audit, &log.folder(), 3).await;
        audit.effect(&rival, effect()).expect("taken");
        audit.close(rival, success()).await.expect("on disk");
        audit.effect(&early, effect()).expect("taken");
        audit.close(early, success()).await.expect("on disk");
        perform(&audit, "plugin.load", None).await;
        let last = audit.anchor().sequence;
        // From the last segment on, the intent is known from the header and the index.
        for after in [0, last - 8] {
            let query = ExportQuery {
                organization: Some("acme".to_owned()),
                after: Some(after),
                hides_platform: true,
                ..ExportQuery::default()
            };
            let lines = export(&audit, query).await;
            let records = export_records(&lines);
            let of_early = records.iter().filter(|record| record.of == early_sequence).count();
            assert_eq!(of_early, 2, "after {after}");
            assert!(records.iter().all(|record| !record.payload.get().contains("rival")));
            assert!(!lines.iter().any(|line| matches!(line, ExportLine::Segment(_))));
        }
        let rival = ExportQuery { organization: Some("rival".to_owned()), ..ExportQuery::default() };
        assert_eq!(export_records(&export(&audit, rival).await).len(), 3);
    });
}

#[test]
fn o3_a_rule_of_the_platform_is_hidden_from_tenants_with_each_hash_that_confirms_a_guess() {
    block_on(async {
        let log = TestLog::new();
        let audit = log.start().await;
        let reason = Reason::by("platform", "blocked");
        let entry = audit.open(CallIntent { reason, ..intent("c1") }).expect("taken");
        audit.close(entry, failure("TOOL_DISABLED")).await.expect("on disk");
        call(&audit, "c2").await;
        let shown = async |hides_platform| {
            let organization = Some("acme".to_owned());
            let lines =
                export(&audit, ExportQuery { organization, hides_platform, ..ExportQuery::default() }).await;
            let records = export_records(&lines);
            let provable: Vec<bool> = records
                .iter()
                .map(|record| {
                    assert_eq!(record.previous_hash.is_some(), record.hash.is_some());
                    assert_eq!(record.not_provable, record.hash.is_none());
                    record.hash.is_some()
                })
                .collect();
            let end = lines.iter().find_map(|line| match line {
                ExportLine::End(end) => Some(end.hash.is_some()),
                _ => None,
            });
            (records[0].payload.get().contains("blocked"), provable, end.expect("the end"))
        };
        assert_eq!(shown(false).await, (true, vec![true; 4], true));
        assert_eq!(shown(true).await, (false, vec![false; 4], false));
        // The tenant does not know the session of another organization's call, and so not its hash.
        let other = CallIntent { organization: "rival".into(), ..intent("r1") };
        audit.close(audit.open(other).expect("taken"), success()).await.expect("on disk");
        call(&audit, "c3").await;
        assert_eq!(shown(true).await, (false, [[false; 4].as_slice(), &[true; 2]].concat(), true));
    });
}

#[test]
fn o3_a_payload_with_line_breaks_is_exported_as_its_hash_covers_it() {
    block_on(async {
        let log = TestLog::new();
        let audit = log.start().await;
        let arguments = "{\n\"path\":\r\"notes.txt\"}";
        let written = CallIntent { arguments: Some(raw(arguments)), ..intent("c1") };
        audit.close(audit.open(written).expect("taken"), success()).await.expect("on disk");
        let lines = export(&audit, ExportQuery::default()).await;
        let records = export_records(&lines);
        let text = records[0].payload_text.as_deref().expect("a text");
        assert!(text.contains(arguments), "{text}");
        assert_eq!(records[0].payload.get(), text.replace(['\n', '\r'], " "));
        assert!(records[1].payload_text.is_none());
    });
}

/// Damage of any byte leaves every intact record in the export.
#[test]
fn o3_damaged_records_are_gaps_and_the_others_are_exported() {
    block_on(async {
        let log = TestLog::new();
        let audit = log.start().await;
        for id in ["c1", "c2", "c3"] {
            call(&audit, id).await;
        }
        let stored = records(&log.folder(), 1);
        let intact = std::fs::read(log.folder().segment(1)).expect("a segment");
        for record in &stored[..stored.len() - 1] {
            let mut bytes = intact.clone();
            bytes[record.end - 2] ^= 1;
            std::fs::write(log.folder().segment(1), &bytes).expect("written");
            let lines = export(&audit, ExportQuery::default()).await;
            let sequence = record.header.sequence;
            let gaps = gaps(&lines);
            assert_eq!(gaps.len(), 1, "{gaps:?}");
            assert_eq!((gaps[0].from, gaps[0].to), (sequence, sequence));
            assert_eq!(export_records(&lines).len(), stored.len() - 1);
        }
        std::fs::write(log.folder().segment(1), intact).expect("written");
    });
}

#[test]
fn o3_records_that_were_cut_are_a_gap_of_the_export() {
    block_on(async {
        let log = TestLog::new();
        let audit = log.start().await;
        fill(&audit, &log.folder(), 5).await;
        let cut = audit.cut_old(CUT_TO_TWO).await.expect("cut");
        let lines = export(&audit, ExportQuery { after: Some(3), ..ExportQuery::default() }).await;
        let gaps = gaps(&lines);
        assert_eq!((gaps.len(), gaps[0].from, gaps[0].to), (1, 4, cut));
        assert_eq!(export_records(&lines)[0].sequence, cut + 1);
        let later = export(&audit, ExportQuery { after: Some(cut), ..ExportQuery::default() }).await;
        assert!(!later.iter().any(|line| matches!(line, ExportLine::Gap(_))));
    });
}
