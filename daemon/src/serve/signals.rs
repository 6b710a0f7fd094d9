//! Signals of an operator or supervisor.

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

/// SIGTERM and SIGINT. One listener for the whole run, so that a signal between two waits is not lost.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Installs the handlers. From now on a signal does not terminate the process.
    pub fn listen() -> Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for a signal; returns at once if one arrived since the last wait.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Acts at each SIGHUP, until the handle is dropped. A closed terminal does not end the daemon: later signals are ignored.
pub(super) fn follow_hangups(act: impl Fn() + Send + 'static) -> Result<AbortOnDropHandle<()>> {
    let mut hangups = signal(SignalKind::hangup())?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            act();
        }
    })))
}
