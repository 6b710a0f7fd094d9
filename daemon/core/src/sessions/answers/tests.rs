use serde_json::json;
use serde_json::value::to_raw_value;
use toolgate_admission::ClientResultCheck;
use toolgate_api::call::Executed;
use toolgate_api::content::ContentBlock;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::ToolId;
use toolgate_audit as audit;
use toolgate_sandbox::Usage;

use super::*;
use crate::call::{OutcomeState, SpilledResult};
use crate::sessions::{ClientPart, PendingOn};

const KEPT_MS: u64 = 1_000;

/// SHA-256 of a call's arguments.
const ARGUMENTS: [u8; 32] = [4; 32];

struct Fixture {
    folder: tempfile::TempDir,
    answers: Answers,
}

fn start(folder: tempfile::TempDir) -> Fixture {
    let settings = AnswerSettings {
        folder: folder.path().to_owned(),
        key: [7; 32],
        kept_ms: KEPT_MS,
        file_kept_ms: KEPT_MS,
        organization_bytes: 1 << 20,
    };
    Fixture { folder, answers: Answers::start(settings).unwrap() }
}

impl Fixture {
    fn new() -> Self {
        start(tempfile::tempdir().unwrap())
    }

    fn session(&self, id: &str) -> Arc<SessionAnswers> {
        self.answers.of_session("acme", id, Arc::default())
    }

    async fn restart(self) -> Self {
        self.answers.close().await;
        start(self.folder)
    }
}

fn outcome(id: &str, state: OutcomeState) -> Arc<CallOutcome> {
    Arc::new(CallOutcome::new(id, &"t".into(), Executed::Yes, state))
}

fn ok(id: &str, output: &str) -> Arc<CallOutcome> {
    outcome(id, OutcomeState::Ok(to_raw_value(output).unwrap()))
}

#[tokio::test]
async fn r7_every_kind_of_outcome_is_read_as_it_was() {
    let fixture = Fixture::new();
    let spilled = SpilledResult {
        output: to_raw_value(&json!({"path": "/workspace/.results/r.json"})).unwrap(),
        text: "The tool ran.".to_owned(),
        bytes: 5,
        sha256: audit::sha256(b"whole"),
    };
    let error = CallError::new(ErrorType::ToolFailed, "no", "try").retryable(true);
    let usage = Usage { fuel: 1, output_bytes: 2, log_bytes: 3, ..Usage::default() };
    let whole = CallOutcome {
        tool: ToolId::parse("files/read").ok(),
        content: vec![ContentBlock::Text { text: "see".to_owned() }],
        usage,
        duration: std::time::Duration::from_micros(1_234_567),
        ..CallOutcome::new("c0", &"t".into(), Executed::Yes, OutcomeState::Ok(to_raw_value(&1).unwrap()))
    };
    let outcomes = [
        Arc::new(whole),
        outcome("c1", OutcomeState::Spilled(Box::new(spilled))),
        outcome("c2", OutcomeState::Error(error.clone().with_pointer("/a"))),
        outcome("c3", OutcomeState::Error(error.clone().with_retry_after_ms(7))),
        outcome("c4", OutcomeState::Error(error.with_details(json!({"limit": "fuel"})))),
        outcome("c5", OutcomeState::Unknown(CallError::cancellation())),
    ];
    let session = fixture.session("s1");
    for outcome in &outcomes {
        session.append_end(Arc::clone(outcome), ARGUMENTS, None, 0);
    }
    let fixture = fixture.restart().await;
    let session = fixture.session("s1");
    for outcome in outcomes {
        let found = session.find(&outcome.id, 0).await.expect("the answer");
        assert_eq!(format!("{:?}", found.outcome), format!("{outcome:?}"));
        assert!(found.has_ended());
    }
}

#[tokio::test]
async fn r7_an_answer_is_found_within_its_retention() {
    let fixture = Fixture::new();
    let session = fixture.session("s1");
    session.append_end(ok("c1", "answer"), ARGUMENTS, None, 10);
    assert!(session.find("c1", 10 + KEPT_MS).await.is_some());
    assert!(session.find("c1", 11 + KEPT_MS).await.is_none());
    assert!(session.find("c2", 10).await.is_none());
    let path = fixture.folder.path().join("s1");
    for (now_ms, is_kept) in [(10 + KEPT_MS, true), (11 + KEPT_MS, false)] {
        fixture.answers.remove_old(now_ms);
        session.find("c1", now_ms).await;
        assert_eq!(path.exists(), is_kept);
    }
}

/// The audit log may have forgotten the call before.
#[tokio::test]
async fn r7_the_id_of_an_answer_that_is_too_old_is_still_known_after_a_restart() {
    let fixture = Fixture::new();
    fixture.session("s1").append_end(ok("c1", "answer"), ARGUMENTS, None, 10);
    let fixture = fixture.restart().await;
    let session = fixture.session("s1");
    assert_eq!((session.had("c1").await, session.had("c2").await), (Ok(true), Ok(false)));
    assert!(session.find("c1", 11 + KEPT_MS).await.is_none());
    let found = session.find("c1", 10 + KEPT_MS).await.expect("the answer");
    assert!(found.is_of("t", ARGUMENTS) && !found.is_of("t", [5; 32]) && !found.is_of("u", ARGUMENTS));
    assert_eq!(fixture.session("s2").had("c1").await, Ok(false), "there is no file");
}

/// A link to itself cannot be opened, by root neither.
#[tokio::test]
async fn r7_an_id_is_not_new_while_the_file_cannot_be_read() {
    let fixture = Fixture::new();
    fixture.session("s1").append_end(ok("c1", "answer"), ARGUMENTS, None, 10);
    let fixture = fixture.restart().await;
    let (session, path) = (fixture.session("s1"), fixture.folder.path().join("s1"));
    let aside = path.with_extension("aside");
    std::fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink("s1", &path).unwrap();
    assert_eq!(session.had("c1").await, Err(UnreadableAnswers));
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!((session.had("c1").await, session.had("c2").await), (Ok(true), Ok(false)));
}

#[tokio::test]
async fn r7_a_late_answer_of_an_ended_session_is_not_stored() {
    let fixture = Fixture::new();
    let (ended, open) = (fixture.session("ended"), fixture.session("open"));
    for session in [&ended, &open] {
        session.append_end(ok("c1", "answer"), ARGUMENTS, None, 0);
    }
    ended.remove().await;
    ended.append_end(ok("c2", "late"), ARGUMENTS, None, 0);
    open.append_end(ok("c2", "late"), ARGUMENTS, None, 0);
    assert!(open.find("c2", 0).await.is_some());
    assert!(ended.find("c1", 0).await.is_none() && ended.find("c2", 0).await.is_none());
    assert!(!fixture.folder.path().join("ended").exists());
}

#[tokio::test]
async fn r7_an_answer_that_does_not_fit_is_dropped_and_later_ones_are_stored() {
    let fixture = Fixture::new();
    let session = fixture.session("s1");
    session.append_end(ok("queue", &"x".repeat(QUEUE_BYTES_PER_ORGANIZATION)), ARGUMENTS, None, 0);
    session.append_end(ok("disk", &"x".repeat(1 << 20)), ARGUMENTS, None, 0);
    session.append_end(ok("fits", "x"), ARGUMENTS, None, 0);
    assert!(session.find("fits", 0).await.is_some());
    assert!(session.find("queue", 0).await.is_none() && session.find("disk", 0).await.is_none());
    assert_eq!(session.queued.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn r7_files_beyond_the_open_ones_are_opened_again() {
    let fixture = Fixture::new();
    let sessions: Vec<_> = (0..150).map(|number| fixture.session(&format!("s{number}"))).collect();
    for id in ["c1", "c2"] {
        for session in &sessions {
            session.append_end(ok(id, "x"), ARGUMENTS, None, 0);
        }
    }
    for session in &sessions {
        assert!(session.find("c1", 0).await.is_some() && session.find("c2", 0).await.is_some());
    }
}

#[tokio::test]
async fn r7_a_call_at_its_client_is_restored_until_it_ends() {
    let fixture = Fixture::new();
    let session = fixture.session("s1");
    let schema = json!({"type": "integer"});
    for id in ["waits", "ended"] {
        let state = OutcomeState::ClientRequired { payload: to_raw_value(&1).unwrap(), expires_ms: 9 };
        let check = ClientResultCheck::new("t".into(), 100, Some(&schema)).unwrap();
        let on = PendingOn::Client(ClientPart::Restored(Box::new(check)));
        let call = PendingCall { outcome: outcome(id, state), arguments: [3; 32], on };
        session.append_at_client(&Arc::new(call), 0);
    }
    session.append_end(ok("ended", "answer"), ARGUMENTS, Some([5; 32]), 0);
    let fixture = fixture.restart().await;
    let session = fixture.session("s1");
    let mut calls = session.calls_at_client().await;
    let call = calls.pop().expect("a call");
    assert!(calls.is_empty());
    assert_eq!((call.outcome.id.as_str(), call.arguments), ("waits", [3; 32]));
    let PendingOn::Client(part) = &call.on else { panic!("{call:?}") };
    assert!(part.check("1".into()).is_ok() && part.check("\"a\"".into()).is_err());
    let waits = session.find("waits", 0).await.expect("a record");
    assert!(!waits.has_ended() && waits.is_of("t", [3; 32]) && !waits.is_of("t", ARGUMENTS));
    let ended = session.find("ended", 0).await.expect("an answer");
    assert_eq!((ended.was_posted([5; 32]), ended.was_posted([6; 32])), (Some(true), Some(false)));
}
