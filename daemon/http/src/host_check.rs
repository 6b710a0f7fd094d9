//! The hosts that requests may name: those that the daemon serves. A web page that rebinds its name to the daemon's address reaches
//! nothing.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use toolgate_api::error::ErrorType;

use super::header::header;
use super::problem::Problem;

/// The hosts that the daemon serves. Clones share them, so that a change counts for every listener.
#[derive(Clone)]
pub struct ServedHosts(Arc<ArcSwap<Vec<String>>>);

impl ServedHosts {
    /// These hosts, as [`Config::hosts`](toolgate_state::config::Config::hosts) has them.
    pub fn new(hosts: Vec<String>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(hosts)))
    }

    /// Serves other hosts from the next request on.
    pub fn replace(&self, hosts: Vec<String>) {
        self.0.store(Arc::new(hosts));
    }

    pub(crate) fn current(&self) -> Arc<Vec<String>> {
        self.0.load_full()
    }
}

/// Refuses a request for a foreign host (DNS rebinding), and a request from a web page of another origin.
pub(crate) fn expect_host<B>(request: &Request<B>, hosts: &[String]) -> Result<(), Problem> {
    expect_named(request, hosts)?;
    let origin = header(request.headers(), &ORIGIN)?;
    match origin.is_none_or(|origin| is_our_origin(origin, hosts)) {
        true => Ok(()),
        false => Err(Problem::new(
            ErrorType::Forbidden,
            "the request was made by a web page of another origin",
            "call the interface from a program, or from a page that the daemon itself serves",
        )),
    }
}

/// The same where addresses are hosts, too: scrapers ask for them, and no name can be rebound to one that a browser sends.
pub(crate) fn expect_host_or_address<B>(request: &Request<B>, hosts: &[String]) -> Result<(), Problem> {
    let named = header(request.headers(), &HOST)?.and_then(without_port);
    let address = named.filter(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok());
    let hosts: Vec<String> = hosts.iter().cloned().chain(address.map(str::to_owned)).collect();
    expect_host(request, &hosts)
}

/// Checks the authority of the request target and the `Host` header. Both are checked where both are present, since a
/// proxy may have routed by either.
fn expect_named<B>(request: &Request<B>, hosts: &[String]) -> Result<(), Problem> {
    let field = header(request.headers(), &HOST)?;
    let target = request.uri().authority().map(Authority::as_str);
    let mut named = target.into_iter().chain(field).peekable();
    if named.peek().is_none() {
        return Err(no_host());
    }
    named.find(|named| !is_ours(named, hosts)).map_or(Ok(()), |other| Err(not_our_host(other)))
}

/// Whether `HOST` or `HOST:PORT` names one of these hosts.
fn is_ours(named: &str, hosts: &[String]) -> bool {
    without_port(named).is_some_and(|host| hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host)))
}

fn is_our_origin(origin: &str, hosts: &[String]) -> bool {
    origin.split_once("://").is_some_and(|(_, named)| is_ours(named, hosts))
}

/// `127.0.0.1:7300` → `127.0.0.1`, `[::1]:7300` → `[::1]`. `None` if the text after the host is not a port: in
/// `localhost:x@example.com` the host comes last.
fn without_port(named: &str) -> Option<&str> {
    let end = match named.find(']') {
        Some(end) => end + 1,
        None => named.find(':').unwrap_or(named.len()),
    };
    let (host, rest) = named.split_at_checked(end)?;
    let port = rest.strip_prefix(':').unwrap_or(rest);
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = port.is_empty() || digits && port.parse::<u16>().is_ok();
    (is_port && (rest.is_empty() || rest.starts_with(':'))).then_some(host)
}

/// A request without a host (RFC 9112, section 3.2).
fn no_host() -> Problem {
    Problem::new(
        ErrorType::InvalidRequest,
        "the request does not say which host it is for",
        "send the header `Host` with the address that the daemon listens at",
    )
}

fn not_our_host(host: &str) -> Problem {
    let host: String = host.chars().filter(|character| character.is_ascii_graphic()).take(100).collect();
    Problem::new(
        ErrorType::Forbidden,
        format!("the request asks for host `{host}`, which this daemon does not serve"),
        "use the address that it listens at, or set `allowed_hosts` to all hosts that it serves, this one with them",
    )
}
