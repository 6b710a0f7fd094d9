//! An outcome on its way to the disk: the log has it, the answer waits for the sync.
//!
//! Hanging up cancels nothing any more by then, so the id remembers the outcome and not a cancelled call:
//! whoever asks again gets the answer that was on its way.

use std::sync::Arc;

use scopeguard::ScopeGuard;
use tokio::runtime::Handle;

use super::{now_ms, waiting};
use crate::audit::{AuditError, Durable};
use crate::events::Events;
use crate::sessions::{Ending, Recorded, RunningCall, Session};

/// What waits for an outcome to be on disk.
pub(super) trait Settle: Send + 'static {
    /// Gives the call its answer.
    fn settle(self) -> Arc<Recorded>;
}

/// What becomes of a call that ran.
pub(super) struct Settled {
    pub running: RunningCall,
    pub answer: Recorded,
    pub ending: Ending,
    /// The tool as it was called.
    pub called: Arc<str>,
    pub session: Arc<Session>,
    pub events: Events,
}

impl Settle for Settled {
    fn settle(self) -> Arc<Recorded> {
        let (id, stop) = (Arc::clone(self.running.id()), self.running.cancelled.clone());
        let waits = !matches!(self.ending, Ending::Final);
        let recorded = self.running.settle(self.answer, self.ending, &self.called, now_ms());
        // Whoever cancelled it on its way to the disk found it neither running nor waiting.
        if waits && stop.is_cancelled() {
            waiting::cancel(&self.events, &self.session, &id);
        }
        recorded
    }
}

/// Waits for the disk, and gives the call its answer. It is given back where its outcome cannot be recorded.
pub(super) async fn settle<S: Settle>(
    outcome: Durable,
    settled: S,
) -> Result<Arc<Recorded>, (AuditError, S)> {
    let mut left = scopeguard::guard((outcome, settled), settle_unasked);
    let recorded = (&mut left.0).await;
    let (_, settled) = ScopeGuard::into_inner(left);
    match recorded {
        Ok(()) => Ok(settled.settle()),
        Err(error) => Err((error, settled)),
    }
}

/// The caller hung up.
fn settle_unasked<S: Settle>((outcome, settled): (Durable, S)) {
    // Where the runtime is gone, so is everybody who could ask.
    let Ok(runtime) = Handle::try_current() else { return };
    runtime.spawn(async move {
        if outcome.await.is_ok() {
            settled.settle();
        }
    });
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use toolgate_admission::{Name, SessionFacts};

    use super::*;
    use crate::sessions::{Beginning, Bounds, CallState, Opened, SessionSetup, Sessions, Status};

    fn session() -> Arc<Session> {
        let bounds = Bounds { rounds_per_turn: 1, rounds_per_session: 1, failures: 1, recent: 1 };
        let name = |text: &str| Name::parse(text).expect("a name");
        let setup = SessionSetup {
            id: "s".into(),
            organization: name("acme"),
            agent: name("bot"),
            user: None,
            conversation: None,
            channel: None,
            principal: "t".into(),
            created_ms: 0,
        };
        let beginning = Beginning { facts: SessionFacts::default(), rounds: 0, last_used_ms: 0 };
        Sessions::new(Path::new("none"), u64::MAX, bounds).open(setup, beginning)
    }

    fn settled(session: &Arc<Session>, ending: Ending) -> Settled {
        let running = match session.calls.open("c1", &"t".into(), [0; 32], 0, session.ended()) {
            Opened::New(running) => running,
            other => panic!("{other:?}"),
        };
        let answer = Recorded { json: "\"answer\"".into(), status: Status::Ok };
        let session = Arc::clone(session);
        Settled { running, answer, ending, called: "t".into(), session, events: Events::default() }
    }

    fn for_approval() -> Ending {
        Ending::Approval { id: "a1".into(), arguments: [0; 32] }
    }

    fn state(session: &Session) -> CallState {
        session.calls.find("c1", 0).expect("the call")
    }

    #[tokio::test]
    async fn a_caller_that_hangs_up_during_the_sync_finds_its_answer_later() {
        let session = session();
        let (outcome, disk) = Durable::held();
        let waiting = tokio::spawn(settle(outcome, settled(&session, Ending::Final)));
        // It waits for the disk by then.
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
        assert!(matches!(state(&session), CallState::Running { .. }));
        disk.send(Ok(())).expect("somebody waits for the disk");
        let answer = loop {
            match state(&session) {
                CallState::Ended(recorded) => break recorded,
                _ => tokio::task::yield_now().await,
            }
        };
        assert_eq!(&*answer.json, "\"answer\"");
    }

    #[tokio::test]
    async fn an_outcome_that_cannot_be_recorded_gives_the_call_back() {
        let session = session();
        let failed = Durable::decided(Err(AuditError::Closed));
        let (error, settled) =
            settle(failed, settled(&session, Ending::Final)).await.expect_err("not recorded");
        assert!(matches!(error, AuditError::Closed));
        drop(settled);
        assert!(matches!(state(&session), CallState::Cancelled));
    }

    #[tokio::test]
    async fn r6_a_call_that_is_cancelled_on_its_way_to_wait_for_a_person_does_not_wait() {
        let session = session();
        let (outcome, disk) = Durable::held();
        let waiting = tokio::spawn(settle(outcome, settled(&session, for_approval())));
        tokio::task::yield_now().await;
        waiting::cancel(&Events::default(), &session, "c1");
        disk.send(Ok(())).expect("somebody waits for the disk");
        waiting.await.expect("it ends").map_err(|(error, _)| error).expect("it is recorded");
        match state(&session) {
            CallState::Ended(recorded) => assert!(recorded.json.contains("CANCELLED"), "{}", recorded.json),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn g11_a_call_that_nobody_cancels_waits_once_its_answer_is_on_disk() {
        let session = session();
        let settled = settled(&session, for_approval());
        settle(Durable::decided(Ok(())), settled).await.map_err(|(error, _)| error).expect("it is recorded");
        assert!(matches!(state(&session), CallState::Waiting(_)));
    }
}
