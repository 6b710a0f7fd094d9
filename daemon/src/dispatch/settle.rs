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
