//! An outcome on its way to the disk: the log has it, the answer waits for the sync.
//!
//! Hanging up cancels nothing any more by then, so the id remembers the outcome and not a cancelled call:
//! whoever asks again gets the answer that was on its way.

use std::sync::Arc;

use scopeguard::ScopeGuard;
use tokio::runtime::Handle;

use super::now_ms;
use crate::audit::{AuditError, Durable};
use crate::sessions::{Recorded, RunningCall};

/// Waits for the disk, and gives the call its answer. It is given back where its outcome cannot be recorded.
pub(super) async fn settle(
    outcome: Durable,
    running: RunningCall,
    answer: Box<str>,
) -> Result<Arc<Recorded>, (AuditError, RunningCall)> {
    let mut left = scopeguard::guard((outcome, running, answer), settle_unasked);
    let recorded = (&mut left.0).await;
    let (_, running, answer) = ScopeGuard::into_inner(left);
    match recorded {
        Ok(()) => Ok(running.end(answer, now_ms())),
        Err(error) => Err((error, running)),
    }
}

/// The caller hung up.
fn settle_unasked((outcome, running, answer): (Durable, RunningCall, Box<str>)) {
    // Where the runtime is gone, so is everybody who could ask.
    let Ok(runtime) = Handle::try_current() else { return };
    runtime.spawn(async move {
        if outcome.await.is_ok() {
            running.end(answer, now_ms());
        }
    });
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::sessions::{CallBook, CallState, Opened};

    fn running(book: &CallBook) -> RunningCall {
        match book.open("c1", [0; 32], 0, &CancellationToken::new()) {
            Opened::New(running) => running,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_caller_that_hangs_up_during_the_sync_finds_its_answer_later() {
        let book = CallBook::new(u64::MAX, Arc::default());
        let (outcome, disk) = Durable::held();
        let waiting = tokio::spawn(settle(outcome, running(&book), "\"answer\"".into()));
        // It waits for the disk by then.
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
        assert!(matches!(book.find("c1", 0), Some(CallState::Running(_))));
        disk.send(Ok(())).expect("somebody waits for the disk");
        let answer = loop {
            match book.find("c1", 0) {
                Some(CallState::Ended(recorded)) => break recorded,
                _ => tokio::task::yield_now().await,
            }
        };
        assert_eq!(&*answer.json, "\"answer\"");
    }

    #[tokio::test]
    async fn an_outcome_that_cannot_be_recorded_gives_the_call_back() {
        let book = CallBook::new(u64::MAX, Arc::default());
        let failed = Durable::decided(Err(AuditError::Closed));
        let (error, running) = settle(failed, running(&book), "1".into()).await.expect_err("not recorded");
        assert!(matches!(error, AuditError::Closed));
        drop(running);
        assert!(matches!(book.find("c1", 0), Some(CallState::Cancelled)));
    }
}
