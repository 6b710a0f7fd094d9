//! What the process takes from the system before the runtime: addresses, TLS files, and its limit of open files.

use std::net::SocketAddr;
use std::time::Duration;

use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::limits::Limits;

use crate::config::{self, Config, Listen};
use crate::http::listener::{ListenerSettings, Socket, TlsFiles};
use crate::sessions::OPEN_MAX;

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
    Socket::bind(address).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another daemon or program uses it; choose another port with `--listen`"
            }
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need a privilege; choose another port with `--listen`"
            }
            _ => "give an address of this machine with `--listen`, like `127.0.0.1:7300` or `unix:/run/toolgate.sock`",
        };
        CallError::new(ErrorType::Unavailable, format!("cannot listen at {address}: {error}"), hint)
    })
}

pub(super) fn bind_metrics(address: SocketAddr) -> Result<std::net::TcpListener, CallError> {
    let bound = std::net::TcpListener::bind(address);
    let listener = bound.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.map_err(|error| {
        let message = format!("cannot listen at {address} for metrics: {error}");
        CallError::new(ErrorType::Unavailable, message, "choose another address for `metrics.listen`")
    })
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
    let of_calls = u64::from(config.sandbox.instances) * Limits::platform(&config.limits).open_files;
    let workspaces = OPEN_MAX as u64 + u64::from(config.sandbox.instances);
    let connections = FILES_PER_CONNECTION * config.http.connections + config.egress.connections;
    let wanted = connections + of_calls + workspaces + OTHER_OPEN_FILES;
    if allowed < wanted {
        tracing::warn!(
            allowed,
            wanted,
            "the process may open fewer files than `http.connections`, `egress.connections`, and `limits.open_files` of \
             `sandbox.instances` calls need: raise its limit (`LimitNOFILE` of the service), or lower these settings"
        );
    }
}

/// A number of the settings as a `usize`.
pub(super) fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
