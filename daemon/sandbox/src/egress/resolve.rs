//! DNS resolution, one lookup for each request, limited in number and time.
//!
//! The cache follows the TTL of a response up to a maximum. All addresses of a response are returned, since the check of
//! addresses must see the forbidden ones too.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;

use super::slots::Slots;

/// Most concurrent lookups of all calls. Further lookups wait, within the deadline of their request.
const CONCURRENT_LOOKUPS: usize = 256;
/// Most concurrent lookups of one organization, or of one name for the daemon itself: a name server may never respond.
const LOOKUPS_PER_OWNER: usize = 64;
/// Timeout of one query to one name server.
const QUERY_TIME: Duration = Duration::from_secs(2);
/// Attempts for each query.
const ATTEMPTS: usize = 2;
/// Responses in the cache. A name and its addresses take some hundred bytes.
const CACHED_RESPONSES: u64 = 4_096;
/// Longest time in the cache, also for a longer TTL: a host that moved must be resolved again soon.
const MAX_TTL: Duration = Duration::from_secs(60);
/// Longest time in the cache for a negative response.
const MAX_NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// A DNS client.
pub(super) struct Resolver {
    name_servers: Vec<SocketAddr>,
    /// Built on first use, since it needs a tokio runtime.
    inner: OnceLock<Option<TokioResolver>>,
    lookups: Slots,
}

/// Why there is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unresolved {
    /// The name service responded that the name does not exist, or has no address.
    NoSuchHost,
    /// The name service did not respond.
    NoAnswer,
}

impl Resolver {
    /// Queries these name servers; with none, those of the system and its hosts file.
    pub(super) fn new(name_servers: Vec<SocketAddr>) -> Self {
        let lookups = Slots::new(CONCURRENT_LOOKUPS, LOOKUPS_PER_OWNER);
        Self { name_servers, inner: OnceLock::new(), lookups }
    }

    /// Every address of an absolute name. The search list of the system is not used, so that the resolved name is the
    /// one that the rules were applied to.
    pub(super) async fn addresses(&self, organization: &str, name: &str) -> Result<Vec<IpAddr>, Unresolved> {
        self.look_up(organization, &format!("{name}.")).await
    }

    /// Every address of a name of the daemon's settings or of a credential, completed by the search list of the system.
    pub(super) async fn search(&self, name: &str) -> Result<Vec<IpAddr>, Unresolved> {
        self.look_up(name, name).await
    }

    async fn look_up(&self, owner: &str, name: &str) -> Result<Vec<IpAddr>, Unresolved> {
        let resolver = self.inner.get_or_init(|| build(&self.name_servers)).as_ref();
        let resolver = resolver.ok_or(Unresolved::NoAnswer)?;
        let _slot = self.lookups.take(owner, |_| {}).await;
        match resolver.lookup_ip(name).await {
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
                tracing::error!(%error, "the system's resolver configuration cannot be read");
                return None;
            }
        },
        given => {
            let config =
                ResolverConfig::from_parts(None, Vec::new(), given.iter().map(name_server).collect());
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    set_limits(builder.options_mut());
    if !name_servers.is_empty() {
        builder.options_mut().use_hosts_file = ResolveHosts::Never;
    }
    let built = builder.build();
    built.inspect_err(|error| tracing::error!(%error, "the DNS resolver cannot be built")).ok()
}

fn set_limits(options: &mut ResolverOpts) {
    options.timeout = QUERY_TIME;
    options.attempts = ATTEMPTS;
    options.cache_size = CACHED_RESPONSES;
    options.positive_max_ttl = Some(MAX_TTL);
    options.negative_max_ttl = Some(MAX_NEGATIVE_TTL);
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    let with_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    server.connections = server.connections.into_iter().map(with_port).collect();
    server
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::net::UdpSocket;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn lookups_without_a_response_leave_room_for_other_organizations() {
        let silent = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let resolver = Arc::new(Resolver::new(vec![silent.local_addr().expect("an address")]));
        let lookups: Vec<_> = (0..CONCURRENT_LOOKUPS)
            .map(|number| {
                let resolver = Arc::clone(&resolver);
                tokio::spawn(async move { resolver.addresses("acme", &format!("n{number}.example")).await })
            })
            .collect();
        tokio::task::yield_now().await;
        silent.recv_from(&mut [0; 512]).await.expect("a query");
        let room = timeout(Duration::from_secs(1), resolver.lookups.take("rival", |_| {})).await;
        assert!(room.is_ok());
        lookups.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
