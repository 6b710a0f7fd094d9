//! Finds the addresses of a host: once a request, in bounded number and time.
//!
//! Names are asked for as they stand, without the search list of the machine, so that what was decided about is what is
//! asked for. Answers are kept as long as they say, up to a cap; all addresses go to the gate, the bad ones too.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::sync::Semaphore;

/// Questions under way at once, of all calls together. Others wait, within their own time.
const QUESTIONS_AT_ONCE: usize = 256;
/// How long one name server is waited for, once.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// How often it is asked.
const ATTEMPTS: usize = 2;
/// Answers that are kept. A name and its addresses take some hundred bytes.
const KEPT_ANSWERS: u64 = 4_096;
/// How long an answer is believed, whatever it says: an address that was vetted must not stay long after its host moved.
const BELIEVED: Duration = Duration::from_secs(60);
/// How long it is believed that there is none.
const DISBELIEVED: Duration = Duration::from_secs(5);

/// Asks name servers.
pub(super) struct Resolver {
    name_servers: Vec<SocketAddr>,
    /// Made on first use, since it needs a runtime.
    inner: OnceLock<Option<TokioResolver>>,
    questions: Semaphore,
}

/// Why there is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unresolved {
    /// The name service says so.
    NoSuchHost,
    /// It says nothing.
    NoAnswer,
}

impl Resolver {
    /// Asks these name servers, or those of the system where there are none.
    pub(super) fn new(name_servers: Vec<SocketAddr>) -> Self {
        Self { name_servers, inner: OnceLock::new(), questions: Semaphore::new(QUESTIONS_AT_ONCE) }
    }

    /// Every address of a name.
    pub(super) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Unresolved> {
        let resolver = self.inner.get_or_init(|| build(&self.name_servers)).as_ref();
        let resolver = resolver.ok_or(Unresolved::NoAnswer)?;
        let _turn = self.questions.acquire().await.map_err(|_| Unresolved::NoAnswer)?;
        match resolver.lookup_ip(format!("{name}.")).await {
            Ok(found) => Ok(found.iter().collect()),
            Err(error) if error.is_no_records_found() || error.is_nx_domain() => Err(Unresolved::NoSuchHost),
            Err(error) => {
                tracing::debug!(%error, "a name cannot be resolved");
                Err(Unresolved::NoAnswer)
            }
        }
    }
}

fn build(name_servers: &[SocketAddr]) -> Option<TokioResolver> {
    let mut builder = match name_servers {
        [] => match TokioResolver::builder_tokio() {
            Ok(builder) => builder,
            Err(error) => {
                tracing::error!(%error, "the name servers of this machine cannot be read");
                return None;
            }
        },
        given => {
            let config = ResolverConfig::from_parts(None, Vec::new(), given.iter().map(server).collect());
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    bound(builder.options_mut(), name_servers.is_empty());
    let built = builder.build();
    built.inspect_err(|error| tracing::error!(%error, "names cannot be resolved")).ok()
}

fn bound(options: &mut ResolverOpts, is_of_the_system: bool) {
    options.timeout = ANSWER_TIME;
    options.attempts = ATTEMPTS;
    options.cache_size = KEPT_ANSWERS;
    options.positive_max_ttl = Some(BELIEVED);
    options.negative_max_ttl = Some(DISBELIEVED);
    if !is_of_the_system {
        options.use_hosts_file = ResolveHosts::Never;
    }
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    server.connections = server.connections.into_iter().map(at_port).collect();
    server
}
