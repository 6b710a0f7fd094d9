//! The table of settings.
//!
//! Each entry of `settings!` is a key with its description, type, default and accepted values. The macro generates the
//! struct field and the table row for validation and documentation, so that both have the same keys. Names end with
//! their unit. Upper bounds catch typing errors that would ask for more than a machine has.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::token::Role;

use super::listen::Listen;
use super::values::{
    CONSOLE_ROLE, FILE_REFERENCES, Hardening, LogFormat, LogLevel, ORGANIZATION, PUBLIC_URL, PagemapScan,
    REGISTRY_HOST, SECURE_URL, Signatures, TRACES_ENDPOINT, VAULT_KV, VAULT_REFERENCES, VAULT_TRANSIT,
    VAULT_URL, ValueKind,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DAY_SECONDS: u64 = 24 * 3600;

/// A key, for validation and documentation.
pub(super) struct Key {
    pub name: &'static str,
    pub meaning: &'static [&'static str],
    pub values: ValueKind,
    /// The default as TOML; none if it depends on other settings.
    pub default: fn() -> Option<String>,
}

/// A `[section]` of the file. The section without a name has the top-level keys.
pub(super) struct Section {
    pub name: &'static str,
    pub meaning: &'static [&'static str],
    pub keys: &'static [Key],
}

/// The sections that are defined here. A name with a dot is that of a key whose value is a table, or a list of tables. The table of `[limits]` is
/// in `toolgate-admission`, which enforces them.
pub(super) const SECTIONS: &[Section] = &[
    Config::SECTION,
    Tls::SECTION,
    Http::SECTION,
    Queue::SECTION,
    Rates::SECTION,
    Calls::SECTION,
    Sessions::SECTION,
    TokensSection::SECTION,
    McpSection::SECTION,
    SandboxSection::SECTION,
    Egress::SECTION,
    Compile::SECTION,
    PluginsSection::SECTION,
    ConsentSection::SECTION,
    RegistrySection::SECTION,
    CredentialSection::SECTION,
    OauthSection::SECTION,
    IssuerSection::SECTION,
    WebhookSection::SECTION,
    ConsoleSection::SECTION,
    OidcSection::SECTION,
    OidcRoleSection::SECTION,
    Audit::SECTION,
    Logging::SECTION,
    MetricsSection::SECTION,
    TracesSection::SECTION,
];

/// The section with the limits of a call.
pub(super) const LIMITS_SECTION: &str = "limits";

macro_rules! settings {
    (
        $(#[doc = $about:literal])+
        $section:ident in $title:literal {
            $( $(#[doc = $meaning:literal])+ $key:ident: $type:ty = $default:expr, $values:expr; )+
        }
        $( sections { $( $(#[doc = $nested_about:literal])+ $nested:ident: $nested_type:ty; )+ } )?
        $( apart { $( $(#[doc = $apart_about:literal])+ $apart:ident: $apart_type:ty; )+ } )?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Deserialize, Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $section {
            $( $(#[doc = $meaning])+ pub $key: $type, )+
            $($( $(#[doc = $nested_about])+ #[serde(skip_serializing)] pub $nested: $nested_type, )+)?
            $($( $(#[doc = $apart_about])+ #[serde(skip)] pub $apart: $apart_type, )+)?
        }

        impl $section {
            const SECTION: Section = Section {
                name: $title,
                meaning: &[$($about),+],
                keys: &[$( Key {
                    name: stringify!($key),
                    meaning: &[$($meaning),+],
                    values: $values,
                    default: || {
                        let default: $type = $default;
                        toml::Value::try_from(default).ok().map(|value| value.to_string())
                    },
                } ),+],
            };

            /// The values by section, the keys of this one under an empty name.
            pub fn values(&self) -> Vec<(&'static str, serde_json::Value)> {
                let own = ("", serde_json::to_value(self).unwrap_or_default());
                let nested = [
                    $($( (stringify!($nested), serde_json::to_value(&self.$nested).unwrap_or_default()), )+)?
                ];
                std::iter::once(own).chain(nested).collect()
            }
        }

        impl Default for $section {
            fn default() -> Self {
                Self {
                    $( $key: $default, )+
                    $($( $nested: Default::default(), )+)?
                    $($( $apart: Default::default(), )+)?
                }
            }
        }
    };
}

const fn number(least: u64, most: u64) -> ValueKind {
    ValueKind::Number { least, most }
}

settings! {
    /// The data folder and the listen address.
    Config in "" {
        /// The data folder. It is created with mode 0700, and one daemon at a time locks it.
        data: PathBuf = PathBuf::from("toolgate-data"), ValueKind::Text;
        /// The IP address and port to listen on; port 0 takes a free port. `unix:/PATH` listens on a Unix socket that only this
        /// user may use.
        listen: Listen = Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 7300))), ValueKind::Address;
        /// Whether to listen without TLS on an address that other machines reach. Tokens and results are then readable on the
        /// network, unless a proxy in front adds TLS.
        insecure_listen: bool = false, ValueKind::Switch;
        /// The store of documents, tokens and sessions: `sqlite:PATH`. By default the file `state.db` in the data folder.
        store: Option<String> = None, ValueKind::Text;
        /// The accepted values of the `Host` header, without a port. Other requests are refused, which prevents DNS
        /// rebinding by web pages. By default the loopback names and the address of `listen`.
        allowed_hosts: Option<Vec<String>> = None, ValueKind::Hosts;
        /// How long a stopping daemon waits for running calls and changes.
        drain_seconds: u64 = 30, number(0, 600);
        /// Whether `/readyz` answers 503 while built-in plugins are compiled. Requests are served meanwhile, and calls of these plugins
        /// wait.
        ready_when_compiled: bool = false, ValueKind::Switch;
        /// Whether the process bounds its own files, sockets, signals and system calls with Landlock and seccomp. `required` does not
        /// start without, `best-effort` uses what the kernel has and logs what it lacks.
        hardening: Hardening = Hardening::BestEffort, ValueKind::OneOf(&["required", "best-effort", "off"]);
    }
    sections {
        /// The platform's limits of a call.
        limits: LimitsPatch;
        /// TLS of the listener, and client certificates.
        tls: Tls;
        /// Limits of connections and requests.
        http: Http;
        /// Limits of running and waiting calls.
        queue: Queue;
        /// Rate limits of calls.
        rates: Rates;
        /// Limits and retention of calls.
        calls: Calls;
        /// Limits of sessions.
        sessions: Sessions;
        /// Tokens that the daemon makes.
        tokens: TokensSection;
        /// The MCP server.
        mcp: McpSection;
        /// The sandbox that runs calls.
        sandbox: SandboxSection;
        /// Requests of calls to upstreams.
        egress: Egress;
        /// Limits of the compile worker.
        compile: Compile;
        /// Which plugins are loaded.
        plugins: PluginsSection;
        /// Consent of organizations to plugins.
        consent: ConsentSection;
        /// The root key, vaults and OAuth2 providers.
        credentials: CredentialSection;
        /// Access tokens of OAuth 2.1 authorization servers, for MCP.
        oauth: OauthSection;
        /// The hosts that webhooks may have.
        webhooks: WebhookSection;
        /// The pages for people under `/console`.
        console: ConsoleSection;
        /// The audit log on disk.
        audit: Audit;
        /// The daemon's own log.
        log: Logging;
        /// Metrics for Prometheus.
        metrics: MetricsSection;
        /// Traces for OpenTelemetry.
        traces: TracesSection;
    }
    apart {
        /// The file that the settings were read from.
        file: Option<PathBuf>;
    }
}

settings! {
    /// Limits of connections and requests.
    Http in "http" {
        /// Maximum number of open connections. A quarter is kept for clients that sent a valid token, and connections without
        /// one may be half of all with one peer address. At a limit, idle connections without a token are closed for new
        /// ones, and after them idle ones with a token; if there are none, new ones wait to be accepted.
        connections: u64 = 1024, number(1, 65_536);
        /// Maximum number of open event streams of one organization, including the streams of its calls. Each uses a
        /// connection, so this limit leaves connections for other organizations. By default half of `connections`. Live
        /// pages of the console have half as many streams beside them.
        streams_per_organization: Option<u64> = None, number(1, 65_536);
        /// Maximum size of a request head: request line, header fields and the empty line. A head has at most 100 fields.
        header_bytes: u64 = 32 * KIB, number(8 * KIB, 256 * KIB);
        /// Timeout for reading a request head. An idle connection is closed after the same time.
        header_timeout_ms: u64 = 10_000, number(100, 600_000);
        /// Timeout for reading a request body.
        body_timeout_ms: u64 = 30_000, number(100, 600_000);
        /// Timeout for writing to a client that does not read its response; the connection is then closed.
        write_timeout_ms: u64 = 30_000, number(100, 600_000);
        /// Maximum size of a request body, except plugin files and workspace files.
        body_bytes: u64 = 8 * MIB, number(KIB, 256 * MIB);
        /// Maximum size of a plugin file.
        plugin_bytes: u64 = 64 * MIB, number(KIB, 512 * MIB);
        /// Maximum memory for all request bodies that are read or in use, except workspace files, which are written to disk
        /// as they arrive. A request over the limit fails with `OVERLOADED`. By default 256 MiB, or twice `body_bytes` or
        /// `plugin_bytes` where that is more.
        bodies_bytes: Option<u64> = None, number(MIB, 64 * GIB);
        /// Maximum memory for the request bodies of one organization. A request over the limit fails with `QUOTA_EXCEEDED`.
        /// By default half of `bodies_bytes`.
        bodies_bytes_per_organization: Option<u64> = None, number(KIB, 64 * GIB);
    }
}

settings! {
    /// Limits of running and waiting calls. Calls over the limit fail with `OVERLOADED`.
    Queue in "queue" {
        /// Maximum number of running calls of one organization, so that long calls of one organization leave instances
        /// for others. By default three quarters of `sandbox.instances`.
        running_per_organization: Option<u32> = None, number(1, 2048);
        /// Maximum number of waiting calls of one organization, so that no organization can fill the queue.
        waiting_per_organization: u64 = 256, number(1, 65_536);
        /// Maximum number of waiting calls of all organizations.
        waiting_total: u64 = 4096, number(1, 1_048_576);
    }
}

settings! {
    /// The rate limit of each organization, a token bucket. Calls over the limit fail with `RATE_LIMITED`.
    Rates in "rates" {
        /// Sustained calls per second of one organization: the refill rate of the bucket.
        calls_per_second: u64 = 100_000, number(1, 10_000_000);
        /// Calls of one organization at once, after a pause: the size of the bucket.
        burst: u64 = 100_000, number(1, 10_000_000);
    }
}

settings! {
    /// Limits of calls, and how long their results are kept.
    Calls in "calls" {
        /// Maximum number of calls in one request.
        per_request: u64 = 32, number(1, 256);
        /// How long the result of a call is kept for a retry with the same id. A call id never runs twice.
        recorded_seconds: u64 = DAY_SECONDS, number(60, 30 * DAY_SECONDS);
        /// Maximum size of the results of one organization on disk, where they outlive a restart. Beyond it, those of the
        /// oldest session are removed.
        recorded_bytes_per_organization: u64 = 256 * MIB, number(MIB, 1 << 50);
        /// Maximum number of requests with new calls in one turn of the model, which ends endless loops.
        rounds_per_turn: u64 = 30, number(1, 1_000_000);
        /// Maximum number of requests with new calls in one session; over MCP, where a session has no end, of new calls in an hour.
        rounds_per_session: u64 = 1_000, number(1, 1_000_000);
        /// Timeout for the result of a call that the client performs.
        client_result_seconds: u64 = 15 * 60, number(1, 7 * DAY_SECONDS);
        /// Maximum number of calls of one organization that wait for their clients.
        at_client_per_organization: u64 = 1_024, number(1, 1_048_576);
        /// Timeout for the decision about a call that needs approval, and the maximum lifetime of the approval.
        approval_seconds: u64 = 3_600, number(1, 30 * DAY_SECONDS);
        /// Number of last calls of a session whose tools count as recently used when the broker selects tools.
        recent: u64 = 5, number(1, 1_000);
        /// Failures in a row (traps, limits, deadlines) that open the circuit breaker: the tool is disabled in the session.
        breaker_failures: u64 = 3, number(1, 1_000);
    }
}

settings! {
    /// Limits of sessions.
    Sessions in "sessions" {
        /// Idle timeout of a session.
        idle_seconds: u64 = DAY_SECONDS, number(1, 30 * DAY_SECONDS);
        /// Maximum number of open sessions of one organization.
        open_per_organization: u64 = 10_000, number(1, 10_000_000);
        /// Maximum size of the workspaces of all sessions of one organization together.
        workspace_bytes_per_organization: u64 = 16 * GIB, number(MIB, 1 << 50);
        /// Retention of messages between agents, read or not.
        messages_kept_seconds: u64 = 30 * DAY_SECONDS, number(60, 3650 * DAY_SECONDS);
    }
}

settings! {
    /// Tokens that the daemon makes.
    TokensSection in "tokens" {
        /// Days after which a new token ends if the request names no end. 0: such a token does not end. Tokens that exist, and the
        /// first operator's, are not affected.
        default_days: u64 = 365, number(0, 36_500);
    }
}

impl TokensSection {
    /// When a token ends that is made now and has no end of its own, in milliseconds since 1970; none if it does not end.
    pub fn default_end_ms(&self, now_ms: u64) -> Option<u64> {
        let life_ms = self.default_days.saturating_mul(DAY_SECONDS * 1_000);
        (life_ms > 0).then(|| now_ms.saturating_add(life_ms))
    }
}

settings! {
    /// The MCP server.
    McpSection in "mcp" {
        /// Whether the instructions of the server bind a model to its tools, as the system prompt of a session does. By default they are
        /// neutral, since a client may have other servers and tasks of its own.
        strict_instructions: bool = false, ValueKind::Switch;
    }
}

settings! {
    /// The sandbox that runs calls.
    SandboxSection in "sandbox" {
        /// Maximum number of running calls, each in a fresh instance. Address space, not memory, is reserved for each
        /// instance.
        instances: u32 = 256, number(1, 2048);
        /// Whether the page-map scan finds the written pages when memory is reset, which halves the cost of a call.
        /// `auto` uses it if this process cannot be swapped out, since it is only safe then.
        pagemap_scan: PagemapScan = PagemapScan::Auto, ValueKind::OneOf(&["auto", "off"]);
    }
}

settings! {
    /// Requests of calls to upstreams, for plugins with a network grant. The environment has no influence: no proxy is
    /// used.
    Egress in "egress" {
        /// The DNS servers, each an address and a port. By default those of the system.
        name_servers: Vec<SocketAddr> = Vec::new(), ValueKind::Addresses;
        /// Maximum number of connections to upstreams, of all organizations. Each is an open file of the process. At the
        /// limit, idle connections are closed; if there are none, a request waits for its connect timeout, and its call
        /// then fails with `OVERLOADED`.
        connections: u64 = 1024, number(1, 65_536);
        /// Maximum number of connections to upstreams of one organization, so that no organization can use all of them.
        connections_per_organization: u64 = 256, number(1, 65_536);
    }
}

settings! {
    /// Limits of the worker process that compiles plugin files.
    Compile in "compile" {
        /// Memory limit of one worker.
        memory_bytes: u64 = 2 * GIB, number(128 * MIB, 64 * GIB);
        /// Timeout of one compilation, and its CPU time limit.
        timeout_seconds: u64 = 120, number(1, 1800);
        /// Maximum number of concurrent workers. Each uses several processors for a part of its time.
        concurrency: u64 = 2, number(1, 64);
    }
}

settings! {
    /// Which plugins are loaded.
    PluginsSection in "plugins" {
        /// Whether each loaded file needs a signature by a publisher's key. A signature that comes with a file must verify
        /// in both cases. Built-in plugins need none.
        signatures: Signatures = Signatures::Optional, ValueKind::OneOf(&["optional", "required"]);
        /// A folder of plugin files, `NAMESPACE.wasm` each, with a signature in `NAMESPACE.wasm.sig`. A file that is added or
        /// replaced is loaded, and a plugin whose file is removed is removed. By default none.
        folder: Option<PathBuf> = None, ValueKind::Text;
        /// The OCI registries that plugins may be loaded from. By default none.
        registries: Option<Vec<RegistrySection>> = None, ValueKind::Tables(&RegistrySection::SECTION);
        /// Timeout for getting a plugin from a registry.
        registry_timeout_seconds: u64 = 120, number(1, 3_600);
        /// Most plugins that an organization loads for itself, where the platform's policy allows it.
        owned_per_organization: u64 = 20, number(0, 200);
        /// Most bytes of their files, of which four versions of each plugin are kept.
        owned_bytes_per_organization: u64 = 256 * MIB, number(0, 16 * GIB);
    }
}

settings! {
    /// An OCI registry that plugins may be loaded from.
    RegistrySection in "plugins.registries" {
        /// Its host, as `HOST` or `HOST:PORT`.
        host: String = String::new(), ValueKind::TextFormat(&REGISTRY_HOST);
        /// The user of a private registry. By default requests are anonymous.
        username: Option<String> = None, ValueKind::Text;
        /// A file with the password or the access token of the user. It is read before each load.
        password_file: Option<PathBuf> = None, ValueKind::Text;
        /// The password in the vault of `[credentials]`, as `MOUNT/PATH#FIELD`, instead of a file. It is read before each load.
        password_vault_kv: Option<String> = None, ValueKind::TextFormat(&VAULT_KV);
        /// Whether the registry is used without TLS. The password and the files are then readable on the network.
        plain_http: bool = false, ValueKind::Switch;
        /// Whether the host may resolve to private addresses. A registry without TLS always may.
        private_network: bool = false, ValueKind::Switch;
        /// A file with CA certificates, in PEM, to trust in addition to the public ones. By default none.
        ca_file: Option<PathBuf> = None, ValueKind::Text;
    }
}

settings! {
    /// Consent of organizations to plugins.
    ConsentSection in "consent" {
        /// Whether an organization must accept a plugin that is neither built in nor marked `standard` in its grant before its
        /// agents have the plugin's tools. `false` suits a daemon whose operator decides for every organization.
        required: bool = true, ValueKind::Switch;
    }
}

settings! {
    /// The root key that encrypts every stored credential, vaults and OAuth2 providers. Without a file, a variable or a
    /// vault the daemon generates the key `keys/root` in the data folder. It protects secrets if only the database leaks,
    /// but not if the whole data folder leaks.
    CredentialSection in "credentials" {
        /// A file with the root key: 32 random bytes, raw, as 64 hexadecimal digits or in base64. Only its owner may have
        /// access (`chmod 600`). If it is missing or wrong, the daemon starts sealed and waits for `POST /v1/unseal`.
        root_key_file: Option<PathBuf> = None, ValueKind::Text;
        /// An environment variable with the root key, in hexadecimal digits or base64. It stays readable in `/proc` for
        /// the daemon's user, so a file is safer.
        root_key_environment: Option<String> = None, ValueKind::Text;
        /// An OpenBao or Vault server, like `https://vault.example.org:8200`. It stores the root key (`vault_kv`), unwraps
        /// it (`vault_transit`), or stores secrets of organizations (`vault_references`).
        vault_url: Option<String> = None, ValueKind::TextFormat(&VAULT_URL);
        /// A file with the vault token. It is read before each request to the vault, so another program can renew it.
        vault_token_file: Option<PathBuf> = None, ValueKind::Text;
        /// The path of the root key in the KV engine (version 2), as `MOUNT/PATH#FIELD`, like `secret/toolgate#root_key`.
        vault_kv: Option<String> = None, ValueKind::TextFormat(&VAULT_KV);
        /// The key of the transit engine, as `MOUNT/KEY`, that wraps a root key which the daemon generates. The wrapped
        /// key is `keys/root.wrapped` in the data folder.
        vault_transit: Option<String> = None, ValueKind::TextFormat(&VAULT_TRANSIT);
        /// The path in the KV engine (version 2) of secrets that credentials may refer to, as `MOUNT/…/{organization}/`,
        /// like `kv/tenants/{organization}/`. An organization can only refer to secrets under its own name. The token
        /// needs read access to this path, and should have no other access. By default no credential can refer to the
        /// vault.
        vault_references: Option<String> = None, ValueKind::TextFormat(&VAULT_REFERENCES);
        /// How long a secret from `vault_references` is cached. During that time calls do not wait for the vault, and a
        /// changed or deleted secret is still sent.
        vault_kept_ms: u64 = 60_000, number(100, 600_000);
        /// The folder of files with secrets that credentials may refer to, as `/…/{organization}/`, like `/run/secrets/{organization}/`. An
        /// organization can only refer to files below its own name. A changed file is read within a second. By default no credential
        /// can refer to a file.
        file_references: Option<String> = None, ValueKind::TextFormat(&FILE_REFERENCES);
        /// A file with CA certificates, in PEM, to trust in addition to the public ones in requests to a vault, an
        /// OAuth2 provider or a webhook.
        ca_file: Option<PathBuf> = None, ValueKind::Text;
        /// The URL of the daemon for browsers, like `https://tools.example.org`: OAuth2 providers redirect users to it and
        /// read the client metadata document there, and webhooks have links to it. Its host must be one of `allowed_hosts`. By
        /// default the address of `listen`.
        public_url: Option<String> = None, ValueKind::TextFormat(&PUBLIC_URL);
        /// Hosts that credentials may be sent to without TLS, as `HOST:PORT`, or `HOST` for port 80: OAuth2 token endpoints,
        /// discovered services, vaults, and places in `bound_to`. Secrets are then readable on the network, so only loopback and
        /// private addresses are used. By default none.
        plain_http: Option<Vec<String>> = None, ValueKind::HostsWithPorts;
        /// Hosts of OAuth2 token endpoints, and of discovered services, that may resolve to private addresses, as
        /// `HOST:PORT`. They are used over TLS like all others. By default none.
        private_hosts: Option<Vec<String>> = None, ValueKind::HostsWithPorts;
    }
}

settings! {
    /// Access tokens (JWT) of OAuth 2.1 authorization servers, with which MCP clients use `/mcp`. By default only the daemon's own
    /// tokens are accepted.
    OauthSection in "oauth" {
        /// The URL of `/mcp` for clients. It is the audience of the access tokens. Its host must be one of `allowed_hosts`.
        resource: Option<String> = None, ValueKind::TextFormat(&SECURE_URL);
        /// The scopes that an access token must have, at least one. By default none.
        scopes: Option<Vec<String>> = None, ValueKind::Words;
        /// The authorization servers whose access tokens are accepted, at least one. By default none.
        issuers: Option<Vec<IssuerSection>> = None, ValueKind::Tables(&IssuerSection::SECTION);
    }
}

settings! {
    /// An authorization server whose access tokens are accepted.
    IssuerSection in "oauth.issuers" {
        /// The issuer, spelled as in its access tokens.
        issuer: String = String::new(), ValueKind::TextFormat(&SECURE_URL);
        /// The audience that its access tokens must have. By default `resource`.
        audience: Option<String> = None, ValueKind::Text;
        /// The claim with the audience. Some issuers name only the client, as Amazon Cognito in `client_id`: `audience` is then its id.
        audience_claim: String = "aud".into(), ValueKind::Text;
        /// The URL of its public keys (JWKS). By default the one in its metadata (RFC 8414, OpenID Connect Discovery).
        jwks_uri: Option<String> = None, ValueKind::TextFormat(&SECURE_URL);
        /// The claim that names the agent, as `ORGANIZATION/AGENT`.
        agent_claim: String = "toolgate_agent".into(), ValueKind::Text;
        /// The claim that names the user that calls are made for: they are recorded for this user, and use their credentials. Empty for
        /// calls without a user.
        user_claim: String = "sub".into(), ValueKind::Text;
    }
}

settings! {
    /// TLS of the listener, and client certificates. The files are read again when they change; a faulty one is logged, and
    /// the last good ones stay in use.
    Tls in "tls" {
        /// The daemon's certificate with its chain, in PEM. By default there is no TLS.
        certificate: Option<PathBuf> = None, ValueKind::Text;
        /// The private key of the certificate, in PEM.
        key: Option<PathBuf> = None, ValueKind::Text;
        /// The CA certificates, in PEM, of which every client must have a certificate. By default clients need none.
        client_ca: Option<PathBuf> = None, ValueKind::Text;
        /// The names of client certificates (DNS names and URIs of the subject alternative name, or `CN=` with the common name of
        /// the subject), each with the id of a token: a request without a token has the rights of that one. By default a
        /// certificate gives no rights.
        clients: Option<BTreeMap<String, String>> = None, ValueKind::TokenIds;
    }
}

settings! {
    /// The endpoints that organizations may announce approvals to. Links and callbacks in the announcements begin with
    /// `credentials.public_url`.
    WebhookSection in "webhooks" {
        /// The hosts that webhooks may have, each `HOST:PORT`, or `HOST` for port 443. By default none.
        hosts: Option<Vec<String>> = None, ValueKind::HostsWithPorts;
        /// The members of `hosts` that may have private addresses, in the same form. By default none.
        private_hosts: Option<Vec<String>> = None, ValueKind::HostsWithPorts;
        /// Hosts that webhooks may have without TLS and at any address, each `HOST:PORT`, or `HOST` for port 80. Arguments of
        /// calls are then readable on the network. By default none.
        plain_http: Option<Vec<String>> = None, ValueKind::HostsWithPorts;
    }
}

settings! {
    /// The pages for people under `/console`.
    ConsoleSection in "console" {
        /// Whether the pages are served.
        enabled: bool = true, ValueKind::Switch;
        /// Seconds without a request after which a signed-in session ends.
        idle_seconds: u64 = 1_800, number(1, DAY_SECONDS);
        /// Seconds after which a session ends, whether it is used or not.
        longest_seconds: u64 = 43_200, number(1, 30 * DAY_SECONDS);
        /// Sign-in by OpenID Connect. By default people sign in with a token alone.
        oidc: Option<OidcSection> = None, ValueKind::Table(&OidcSection::SECTION);
    }
}

settings! {
    /// Sign-in to the console by OpenID Connect, besides tokens. The redirect URL to register with the provider is
    /// `/console/sign-in/callback` below `credentials.public_url`.
    OidcSection in "console.oidc" {
        /// The issuer, spelled as in its ID tokens.
        issuer: String = String::new(), ValueKind::TextFormat(&SECURE_URL);
        /// The client id of the daemon at the provider.
        client_id: String = String::new(), ValueKind::Text;
        /// A file with the client secret, which is read at each sign-in. By default the client has no secret.
        client_secret_file: Option<PathBuf> = None, ValueKind::Text;
        /// The client secret in the vault of `[credentials]`, as `MOUNT/PATH#FIELD`, instead of a file.
        client_secret_vault_kv: Option<String> = None, ValueKind::TextFormat(&VAULT_KV);
        /// The scopes to ask for. `openid` must be one of them.
        scopes: Vec<String> = vec!["openid".into()], ValueKind::Words;
        /// The name of the provider on the button. By default the host of the issuer.
        display_name: Option<String> = None, ValueKind::Text;
        /// The claim that decides about the role, of the ID token or else of the userinfo endpoint: a text, or a list of texts. A name
        /// that no claim has is the path to a nested one, as `realm_access.roles` of Keycloak.
        claim: String = "groups".into(), ValueKind::Text;
        /// Seconds after which a person signs in again, at the latest after `longest_seconds`. Until then a change of the claim
        /// at the provider has no effect.
        session_seconds: u64 = 3_600, number(1, 30 * DAY_SECONDS);
        /// The roles of people, by the values of the claim. The first entry that fits decides, and people without one are
        /// refused.
        roles: Option<Vec<OidcRoleSection>> = None, ValueKind::Tables(&OidcRoleSection::SECTION);
    }
}

settings! {
    /// The role of the people with a value of the claim.
    OidcRoleSection in "console.oidc.roles" {
        /// The value, spelled as in the claim.
        value: String = String::new(), ValueKind::Text;
        /// The role: `operator`, `owner`, `orchestrator`, `approver` or `auditor`.
        role: Option<Role> = None, ValueKind::TextFormat(&CONSOLE_ROLE);
        /// The organization. An `operator` has none, and an `auditor` without one reads the whole audit log.
        organization: Option<String> = None, ValueKind::TextFormat(&ORGANIZATION);
        /// The agents that an `orchestrator` acts for. By default all of the organization.
        agents: Option<Vec<String>> = None, ValueKind::Words;
    }
}

settings! {
    /// The audit log on disk.
    Audit in "audit" {
        /// Size of one segment file, which is preallocated.
        segment_bytes: u64 = 64 * MIB, number(MIB, GIB);
        /// Days after which records are cut from the log, in whole segments. 0 keeps them for ever.
        kept_days: u64 = 0, number(0, 36_500);
        /// Size of the log above which its oldest segments are cut; two always stay. 0 is without limit.
        kept_bytes: u64 = 0, number(0, 1 << 50);
        /// Reserved space, so that the outcomes of running calls can still be recorded on a full disk.
        reserve_bytes: u64 = 8 * MIB, number(256 * KIB, GIB);
    }
}

settings! {
    /// Metrics for Prometheus. Operators get them from `GET /metrics`.
    MetricsSection in "metrics" {
        /// The address of a listener that serves `GET /metrics` without a token, like `127.0.0.1:9464`. By default none.
        listen: Option<SocketAddr> = None, ValueKind::SocketAddress;
        /// Organizations whose calls are counted by name, at most 16. By default no name of a tenant is in the metrics.
        organizations: Vec<String> = Vec::new(), ValueKind::Organizations;
    }
}

settings! {
    /// Traces of calls, sent to an OpenTelemetry collector.
    TracesSection in "traces" {
        /// The URL of the collector, which takes OTLP over HTTP, like `http://127.0.0.1:4318/v1/traces`. By default calls have
        /// no traces.
        endpoint: Option<String> = None, ValueKind::TextFormat(&TRACES_ENDPOINT);
        /// The share of calls that are traced where the caller sends no `traceparent`. Otherwise the caller's flag decides.
        sample: f64 = 1.0, ValueKind::Share;
        /// A file with header fields for the collector, such as its key: `NAME=VALUE` on each line. By default none.
        headers_file: Option<PathBuf> = None, ValueKind::Text;
        /// An environment variable with header fields for the collector: `NAME=VALUE`, separated by commas. By default none.
        headers_environment: Option<String> = None, ValueKind::Text;
        /// A file with CA certificates, in PEM, to trust in addition to the public ones in requests to the collector. By default
        /// none.
        ca_file: Option<PathBuf> = None, ValueKind::Text;
    }
}

settings! {
    /// The daemon's own log, on standard error.
    Logging in "log" {
        /// Plain text or JSON lines.
        format: LogFormat = LogFormat::Text, ValueKind::OneOf(&["text", "json"]);
        /// The lowest level that is logged.
        level: LogLevel = LogLevel::Info, ValueKind::OneOf(&["error", "warn", "info", "debug", "trace"]);
    }
}

#[cfg(test)]
mod tests;
