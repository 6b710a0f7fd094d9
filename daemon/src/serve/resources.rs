//! Resources that the process takes from the system before the runtime starts: addresses, TLS files, and its limit of open files.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::limits::Limits;
use toolgate_core::sessions::OPEN_MAX;
use toolgate_http::listener::{ListenerSettings, Socket, TlsFiles};
use toolgate_state::config::{self, Config, Listen};

/// Open files of a connection: its socket, and the file of an upload with its folder.
const FILES_PER_CONNECTION: u64 = 3;

/// Open files besides connections and workspaces: the store and the audit log.
const OTHER_OPEN_FILES: u64 = 1_024;

pub(super) fn tls_files(settings: &config::Tls) -> Option<TlsFiles> {
    Some(TlsFiles {
        certificate: settings.certificate.clone()?,
        key: settings.key.clone()?,
        client_ca: settings.client_ca.clone(),
        clients: settings.clients.clone().unwrap_or_default(),
    })
}

pub(super) fn bind(address: &Listen) -> Result<Socket, CallError> {
    Socket::bind(address).map_err(|error| listen_error(address, &error))
}

pub(super) fn listen_error(address: &Listen, error: &io::Error) -> CallError {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "another daemon or program uses it; choose another port with `--listen`",
        io::ErrorKind::PermissionDenied if matches!(address, Listen::Unix(_)) => {
            "let the daemon's user write to the folder of the socket, or choose another one with `--listen`"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need a privilege; choose another port with `--listen`"
        }
        _ => {
            "give an address of this machine with `--listen`, like `127.0.0.1:7300` or `unix:/run/toolgate.sock`"
        }
    };
    CallError::new(ErrorType::Unavailable, format!("cannot listen at {address}: {error}"), hint)
}

pub(super) fn bind_metrics(address: SocketAddr) -> Result<std::net::TcpListener, CallError> {
    let bound = std::net::TcpListener::bind(address);
    let listener = bound.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.map_err(|error| metrics_listen_error(address, &error))
}

pub(super) fn metrics_listen_error(address: SocketAddr, error: &io::Error) -> CallError {
    let message = format!("cannot listen at {address} for metrics: {error}");
    CallError::new(ErrorType::Unavailable, message, "choose another address for `metrics.listen`")
}

pub(super) fn listener_settings(config: &Config) -> ListenerSettings {
    let http = &config.http;
    ListenerSettings {
        connections: count(http.connections),
        header_bytes: count(http.header_bytes),
        header_timeout: Duration::from_millis(http.header_timeout_ms),
        write_timeout: Duration::from_millis(http.write_timeout_ms),
        drain: Duration::from_secs(config.drain_seconds),
    }
}

/// Raises the soft limit to the hard limit: the usual 1,024 files are too few for connections and workspaces.
pub(super) fn raise_open_files(config: &Config) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let OpenFiles { usual, most } = open_files(config);
    if allowed < usual {
        tracing::warn!("{}", open_files_message(allowed, most));
    }
}

/// Files that a daemon opens with its settings.
pub(crate) struct OpenFiles {
    /// With every connection and workspace in use, and one file for each call.
    pub usual: u64,
    /// With every call at its limit of open files, too.
    pub most: u64,
}

/// The open files that the settings can lead to.
pub(crate) fn open_files(config: &Config) -> OpenFiles {
    let calls = u64::from(config.sandbox.instances);
    let workspaces = OPEN_MAX as u64 + calls;
    let connections = FILES_PER_CONNECTION * config.http.connections + config.egress.connections;
    let usual = connections + workspaces + calls + OTHER_OPEN_FILES;
    OpenFiles { usual, most: usual + calls * Limits::platform(&config.limits).open_files.saturating_sub(1) }
}

/// The message about a limit that may not suffice.
pub(crate) fn open_files_message(allowed: u64, most: u64) -> String {
    format!("open-file limit is {allowed}; this configuration may need {most} (set `LimitNOFILE`)")
}

/// A number of the settings as a `usize`.
pub(super) fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
