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

    /// Installs the handlers before there is a runtime, and creates no thread. The runtime that waits learns of signals that came
    /// before it was made, since handlers and their pipe are of the process. Process 1 of a container would not be ended by a
    /// signal without a handler.
    pub fn listen_before_runtime() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let _entered = runtime.enter();
        Self::listen()
    }

    /// Runs `work` to its end; `None` if a signal comes first.
    pub async fn interrupt<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.next() => None,
        }
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
