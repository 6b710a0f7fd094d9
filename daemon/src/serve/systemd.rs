//! The protocols of a service manager: socket activation (`sd_listen_fds(3)`), notifications and the watchdog
//! (`sd_notify(3)`), and credentials (`systemd.exec(5)`).
//!
//! Each is asked for by an environment variable of the manager, so that nothing here has an effect without one.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_http::listener::Socket;

/// Name of the credential with the root key, as in `LoadCredential=root-key:FILE` of the unit.
const ROOT_KEY_CREDENTIAL: &str = "root-key";

/// Time beyond the drain timeout in which a stopping daemon closes its files.
const CLOSING: Duration = Duration::from_secs(30);

/// Takes the listening socket that the service manager passed, if it passed one. It must be called before there are threads,
/// since it removes the variables from the environment.
pub(super) fn take_socket() -> Result<Option<Socket>, CallError> {
    let mut passed = ListenFd::from_env();
    let failed = |cause: &dyn std::fmt::Display| {
        CallError::new(
            ErrorType::Unavailable,
            format!("the socket of the service manager cannot be used: {cause}"),
            "let the `.socket` unit have one `ListenStream`: a TCP address (`[::]:7300` is for both families, and needs TLS), or the path of a Unix socket",
        )
    };
    match passed.len() {
        0 => return Ok(None),
        1 => {}
        number => return Err(failed(&format_args!("it passed {number} sockets, and one is served"))),
    }
    let unix = passed.take_unix_listener(0).ok().flatten().map(Socket::of_unix_listener);
    let socket = match unix {
        Some(socket) => socket,
        None => passed.take_tcp_listener(0).and_then(|listener| match listener {
            Some(listener) => Socket::of_tcp_listener(listener),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }),
    };
    socket.map(Some).map_err(|error| failed(&error))
}

/// The file of the root key in the folder of credentials, if the unit loads one.
pub(super) fn root_key_credential() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("CREDENTIALS_DIRECTORY")?).join(ROOT_KEY_CREDENTIAL);
    path.exists().then_some(path)
}

/// Tells the service manager what the daemon does.
pub(super) fn notify_status(status: &str) {
    send(&[NotifyState::Status(status)]);
}

/// Tells the service manager that calls can be served.
pub(super) fn notify_ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells the service manager that the settings are being read again; [`notify_ready`] ends it.
pub(super) fn notify_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "the clock cannot be read"),
    }
}

/// Tells the service manager that the daemon stops, and asks for the time that it drains calls, beyond the unit's own limit.
pub(super) fn notify_stopping(drain: Duration) {
    let most = u32::try_from((drain + CLOSING).as_micros()).unwrap_or(u32::MAX);
    let status = NotifyState::Status("stopping: waiting for running calls");
    send(&[NotifyState::Stopping, status, NotifyState::ExtendTimeoutUsec(most)]);
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told the state of the daemon");
    }
}

/// Keeps the watchdog of the service manager from restarting the daemon, until the handle is dropped. `None` if there is no
/// watchdog.
///
/// A signal needs the timer, a worker thread that takes a new task, and the loop that accepts connections. A full disk or a
/// slow upstream sends no daemon into a restart, which would not help.
pub(super) fn keep_watchdog(
    accepting: AbortHandle,
    stop: CancellationToken,
) -> Option<AbortOnDropHandle<()>> {
    let timeout = sd_notify::watchdog_enabled().filter(|timeout| !timeout.is_zero())?;
    Some(AbortOnDropHandle::new(tokio::spawn(signal_while_healthy(timeout / 3, accepting, stop))))
}

async fn signal_while_healthy(period: Duration, accepting: AbortHandle, stop: CancellationToken) {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !is_healthy(&accepting, &stop).await {
            tracing::error!("no connections are accepted: the watchdog gets no more signals");
            return;
        }
        send(&[NotifyState::Watchdog]);
    }
}

/// Whether connections are accepted, by a runtime that runs a new task. A daemon that stops accepts none: it waits for changes and
/// calls, and the manager's limit for a stop ends it if they hang.
async fn is_healthy(accepting: &AbortHandle, stop: &CancellationToken) -> bool {
    let runs = tokio::spawn(std::future::ready(())).await.is_ok();
    runs && (stop.is_cancelled() || !accepting.is_finished())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_daemon_that_accepts_no_connections_is_not_healthy() {
        let stop = CancellationToken::new();
        let accepting = tokio::spawn(std::future::pending::<()>());
        assert!(is_healthy(&accepting.abort_handle(), &stop).await);
        let ended = tokio::spawn(std::future::ready(()));
        let handle = ended.abort_handle();
        ended.await.expect("it ended");
        assert!(!is_healthy(&handle, &stop).await);
        stop.cancel();
        assert!(is_healthy(&handle, &stop).await, "it waits for running changes");
    }
}
