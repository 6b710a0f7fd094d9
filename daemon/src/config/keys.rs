//! The one table of settings.
//!
//! Each entry of `settings!` is a key: what it means, its type, its default and
//! what values it takes. The macro makes of it the field that the daemon reads
//! and the row that the checks and the documentation read, so that neither can
//! know a key that the other does not. Units stand last in a name. Ceilings are
//! there so that a slip of the finger cannot ask for more than a machine has.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toolgate_admission::LimitsPatch;
use url::Url;

use crate::credentials::{ReferencePrefix, VaultPlace};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DAY_SECONDS: u64 = 24 * 3600;

/// One key of the file, as checks and documentation see it.
pub struct Key {
    pub name: &'static str,
    pub meaning: &'static [&'static str],
    pub values: Values,
    /// The default as TOML; none where it follows from other settings.
    pub default: fn() -> Option<String>,
}

/// What a key takes.
#[derive(Clone, Copy)]
pub enum Values {
    Number {
        least: u64,
        most: u64,
    },
    OneOf(&'static [&'static str]),
    Text,
    Address,
    Hosts,
    Addresses,
    /// Hosts, each with a port or without.
    Places,
    Form(&'static Form),
}

/// A text with a form of its own, which what uses it reads as well.
pub struct Form {
    pub fits: fn(&str) -> bool,
    /// What it is called.
    pub name: &'static str,
    pub example: &'static str,
}

const VAULT_URL: Form = Form { fits: is_base_url, name: "URL", example: "https://vault.example.org:8200" };
const PUBLIC_URL: Form = Form { fits: is_base_url, name: "URL", example: "https://tools.example.org" };
const VAULT_KV: Form = Form {
    fits: |text| VaultPlace::kv(text).is_some(),
    name: "`MOUNT/PATH#FIELD`",
    example: "secret/toolgate#root_key",
};
const VAULT_TRANSIT: Form = Form {
    fits: |text| VaultPlace::transit(text, PathBuf::new()).is_some(),
    name: "`MOUNT/KEY`",
    example: "transit/toolgate",
};
const VAULT_REFERENCES: Form = Form {
    fits: |text| ReferencePrefix::parse(text).is_some(),
    name: "`MOUNT/…/{organization}/`",
    example: "kv/tenants/{organization}/",
};

/// What a path can be put behind.
fn is_base_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let bare = url.query().is_none() && url.fragment().is_none();
        let nobody = url.username().is_empty() && url.password().is_none();
        matches!(url.scheme(), "http" | "https") && url.has_host() && bare && nobody
    })
}

/// One `[section]`; the keys at the top of the file stand in the one without a name.
pub struct Section {
    pub name: &'static str,
    pub meaning: &'static [&'static str],
    pub keys: &'static [Key],
}

/// Every section whose keys are listed here. `[limits]` has a table of its own,
/// in the crate that enforces it.
pub const SECTIONS: &[Section] = &[
    Config::SECTION,
    Http::SECTION,
    Queue::SECTION,
    Rates::SECTION,
    Calls::SECTION,
    Sessions::SECTION,
    SandboxSection::SECTION,
    Egress::SECTION,
    Compile::SECTION,
    CredentialSection::SECTION,
    Audit::SECTION,
    Logging::SECTION,
];

/// The section whose keys are the limits of a call.
pub const LIMITS_SECTION: &str = "limits";

macro_rules! settings {
    (
        $(#[doc = $about:literal])+
        $section:ident in $title:literal {
            $( $(#[doc = $meaning:literal])+ $key:ident: $type:ty = $default:expr, $values:expr; )+
        }
        $( sections { $( $(#[doc = $nested_about:literal])+ $nested:ident: $nested_type:ty; )+ } )?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $section {
            $( $(#[doc = $meaning])+ pub $key: $type, )+
            $($( $(#[doc = $nested_about])+ pub $nested: $nested_type, )+)?
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
        }

        impl Default for $section {
            fn default() -> Self {
                Self {
                    $( $key: $default, )+
                    $($( $nested: Default::default(), )+)?
                }
            }
        }
    };
}

const fn number(least: u64, most: u64) -> Values {
    Values::Number { least, most }
}

settings! {
    /// Where data lies and where requests come in.
    Config in "" {
        /// The data folder. It is made with mode 0700, and one daemon at a time holds it.
        data: PathBuf = PathBuf::from("toolgate-data"), Values::Text;
        /// The address and port to listen at; port 0 takes a free one.
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 7300)), Values::Address;
        /// Where documents, tokens and sessions are kept: `sqlite:PATH`.
        /// By default the file `state.db` in the data folder.
        store: Option<String> = None, Values::Text;
        /// The host names that requests may ask for, without a port; others are refused, since a
        /// web page could otherwise reach the daemon under a name of its own.
        /// By default the loopback names and the address of `listen`.
        allowed_hosts: Option<Vec<String>> = None, Values::Hosts;
        /// How long a stopping daemon lets running calls and changes finish.
        drain_seconds: u64 = 30, number(0, 600);
    }
    sections {
        /// The platform's limits of a call.
        limits: LimitsPatch;
        /// What a connection and a request may take.
        http: Http;
        /// How many calls of one organization run, and how many may wait.
        queue: Queue;
        /// How often an organization may call.
        rates: Rates;
        /// What one request for calls may hold.
        calls: Calls;
        /// How long sessions live.
        sessions: Sessions;
        /// What runs the calls.
        sandbox: SandboxSection;
        /// How calls reach upstreams.
        egress: Egress;
        /// What the compile worker may take.
        compile: Compile;
        /// Where the root key is, and where secrets may go.
        credentials: CredentialSection;
        /// The audit log on disk.
        audit: Audit;
        /// The daemon's own log.
        log: Logging;
    }
}

settings! {
    /// What a connection and a request may take.
    Http in "http" {
        /// Connections open at the same time; more wait to be accepted.
        connections: u64 = 1024, number(1, 65_536);
        /// Streams of events that one organization follows at the same time, those of its calls among them. Each holds a
        /// connection, and others find room beside it. By default half of `connections`.
        streams_per_organization: Option<u64> = None, number(1, 65_536);
        /// The head of a request: its first line, its header fields and the empty line after them. Its fields are at
        /// most 100.
        header_bytes: u64 = 32 * KIB, number(8 * KIB, 256 * KIB);
        /// How long a client may take to send a head; an idle connection is closed after it too.
        header_timeout_ms: u64 = 10_000, number(100, 600_000);
        /// How long a client may take to send a body.
        body_timeout_ms: u64 = 30_000, number(100, 600_000);
        /// How long a client may leave an answer untaken before its connection is closed.
        write_timeout_ms: u64 = 30_000, number(100, 600_000);
        /// The body of a request, plugin files and workspace files apart.
        body_bytes: u64 = 8 * MIB, number(KIB, 256 * MIB);
        /// A plugin file.
        plugin_bytes: u64 = 64 * MIB, number(KIB, 512 * MIB);
    }
}

settings! {
    /// How many calls of one organization may run, and how many may wait for their turn; past that they are refused as
    /// `OVERLOADED`.
    Queue in "queue" {
        /// Calls of one organization that run at the same time. Others find room beside it, however long its calls take.
        /// By default three quarters of `sandbox.instances`.
        running_per_organization: Option<u32> = None, number(1, 2048);
        /// Calls of one organization that wait; it keeps one tenant from filling the queue.
        waiting_per_organization: u64 = 256, number(1, 65_536);
        /// Calls of all organizations that wait.
        waiting_total: u64 = 4096, number(1, 1_048_576);
    }
}

settings! {
    /// How often an organization may call; past that its calls are refused as `RATE_LIMITED`.
    Rates in "rates" {
        /// Calls of one organization in a second, over time.
        calls_per_second: u64 = 100_000, number(1, 10_000_000);
        /// Calls of one organization at once, after a pause.
        burst: u64 = 100_000, number(1, 10_000_000);
    }
}

settings! {
    /// What a request for calls may hold, and how long its answers are kept.
    Calls in "calls" {
        /// Calls in one request.
        per_request: u64 = 32, number(1, 256);
        /// How long an answer can be asked for again, until a restart at most; its id never runs a second time.
        recorded_seconds: u64 = DAY_SECONDS, number(60, 30 * DAY_SECONDS);
        /// Requests that bring new calls, in one turn of the model; it ends loops that lead nowhere.
        rounds_per_turn: u64 = 10, number(1, 1_000_000);
        /// The same in one session.
        rounds_per_session: u64 = 1_000, number(1, 1_000_000);
        /// How long a client has to post the result of a call that it performs.
        client_result_seconds: u64 = 15 * 60, number(1, 7 * DAY_SECONDS);
        /// How long somebody has to approve a call, and how long an approval then lasts at most.
        approval_seconds: u64 = 3_600, number(1, 30 * DAY_SECONDS);
        /// Calls of a session whose tools count as used recently when a broker chooses what a model is shown.
        recent: u64 = 5, number(1, 1_000);
        /// Failures in a row (traps, limits, deadlines) that take a tool out of its session.
        breaker_failures: u64 = 3, number(1, 1_000);
    }
}

settings! {
    /// How long sessions live.
    Sessions in "sessions" {
        /// A session that nobody uses for this long ends.
        idle_seconds: u64 = DAY_SECONDS, number(1, 30 * DAY_SECONDS);
    }
}

settings! {
    /// What runs the calls.
    SandboxSection in "sandbox" {
        /// Calls that run at the same time, a fresh instance each. Address space, not memory, is
        /// set aside for every one of them.
        instances: u32 = 256, number(1, 2048);
        /// Whether memory is reset by looking up which pages were written. It halves the cost of
        /// a call; `auto` uses it where this process cannot be swapped out, which is when it is safe.
        pagemap_scan: PagemapScan = PagemapScan::Auto, Values::OneOf(&["auto", "off"]);
    }
}

settings! {
    /// How calls reach upstreams, where their plugins were granted any. Nothing of it comes from the environment:
    /// no proxy is used.
    Egress in "egress" {
        /// The name servers that are asked, each an address and a port; without any those of the system.
        name_servers: Vec<SocketAddr> = Vec::new(), Values::Addresses;
        /// Connections to upstreams that are open or being opened at the same time, of all organizations. Each is an
        /// open file of the process. Past that a request waits as long as connecting may take, and its call is then
        /// `OVERLOADED`; connections that are kept and not in use are closed first.
        connections: u64 = 1024, number(1, 65_536);
        /// Those of one organization; it keeps one tenant from taking all of them.
        connections_per_organization: u64 = 256, number(1, 65_536);
    }
}

settings! {
    /// What the worker process that compiles a plugin file may take.
    Compile in "compile" {
        /// Memory of one worker.
        memory_bytes: u64 = 2 * GIB, number(128 * MIB, 64 * GIB);
        /// Time for one plugin file.
        timeout_seconds: u64 = 120, number(1, 1800);
        /// Workers at the same time.
        concurrency: u64 = 1, number(1, 64);
    }
}

settings! {
    /// Where the root key is, which opens every stored credential, and where secrets may go. Without a file, a variable or a
    /// vault the daemon makes a key of its own, `keys/root` in the data folder: that keeps secrets from whoever gets the
    /// database alone, and not from whoever reads the whole folder.
    CredentialSection in "credentials" {
        /// A file with the root key: 32 random bytes, as they are, as 64 hexadecimal digits or in base64. It must be of
        /// its user alone (`chmod 600`). Where it is missing or wrong the daemon starts sealed and waits for
        /// `POST /v1/unseal`.
        root_key_file: Option<PathBuf> = None, Values::Text;
        /// A variable of the environment with the root key, in hexadecimal digits or base64. It stays readable in
        /// `/proc` for the daemon's user, so a file is better.
        root_key_environment: Option<String> = None, Values::Text;
        /// An OpenBao or Vault server, like `https://vault.example.org:8200`, that has the root key at `vault_kv`, unwraps
        /// it with `vault_transit`, or has secrets of organizations below `vault_references`.
        vault_url: Option<String> = None, Values::Form(&VAULT_URL);
        /// A file with the token for it. It is read whenever the vault is asked, so that others can renew it.
        vault_token_file: Option<PathBuf> = None, Values::Text;
        /// Where its KV engine (version 2) has the root key, as `MOUNT/PATH#FIELD`, like `secret/toolgate#root_key`.
        vault_kv: Option<String> = None, Values::Form(&VAULT_KV);
        /// The key of its transit engine, as `MOUNT/KEY`, that wraps a root key which the daemon makes itself. The wrapped
        /// key is `keys/root.wrapped` in the data folder.
        vault_transit: Option<String> = None, Values::Form(&VAULT_TRANSIT);
        /// Where in its KV engine (version 2) organizations have secrets that their credentials may refer to, as
        /// `MOUNT/…/{organization}/`, like `kv/tenants/{organization}/`: each below its own name alone. The token must be able
        /// to read there, and had better read nothing else. Without it no credential refers to the vault.
        vault_references: Option<String> = None, Values::Form(&VAULT_REFERENCES);
        /// How long a secret from there is used before it is read anew; so long a call does not wait for the vault, and a
        /// secret that was changed or taken out is still sent.
        vault_kept_ms: u64 = 60_000, number(100, 600_000);
        /// A file with certificates, in PEM, that the daemon trusts besides those of the web when it asks a vault or an
        /// OAuth2 provider.
        ca_file: Option<PathBuf> = None, Values::Text;
        /// How browsers reach the daemon, like `https://tools.example.org`: OAuth2 providers send people back there. Its host
        /// must be one of `allowed_hosts`. By default the address of `listen`, over plain HTTP.
        public_url: Option<String> = None, Values::Form(&PUBLIC_URL);
        /// Hosts of token addresses that may be asked without TLS, as `HOST:PORT`, or `HOST` for port 80. Whoever listens
        /// on the way reads the client's secret and the tokens. By default none. Requests of tools never carry a
        /// credential without TLS.
        plain_http: Option<Vec<String>> = None, Values::Places;
        /// Hosts of token addresses that may have addresses which are not public, as `HOST:PORT`. They are asked over TLS
        /// like all others. By default none.
        private_hosts: Option<Vec<String>> = None, Values::Places;
    }
}

settings! {
    /// The audit log on disk.
    Audit in "audit" {
        /// One file of the log; its space is taken beforehand.
        segment_bytes: u64 = 64 * MIB, number(MIB, GIB);
        /// Space kept back so that running calls can still be closed on a full disk.
        reserve_bytes: u64 = 8 * MIB, number(256 * KIB, GIB);
    }
}

settings! {
    /// The daemon's own log, on standard error.
    Logging in "log" {
        /// Lines for people or JSON for machines.
        format: LogFormat = LogFormat::Text, Values::OneOf(&["text", "json"]);
        /// The least urgent level that is written.
        level: LogLevel = LogLevel::Info, Values::OneOf(&["error", "warn", "info", "debug", "trace"]);
    }
}

/// Whether pages are reset by page-map scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PagemapScan {
    Auto,
    Off,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

/// The least urgent level that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The level as a filter directive writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> impl Iterator<Item = (&'static Section, &'static Key)> {
        SECTIONS.iter().flat_map(|section| section.keys.iter().map(move |key| (section, key)))
    }

    #[test]
    fn every_key_says_what_it_means() {
        for (section, key) in keys() {
            assert!(key.meaning.concat().trim().len() > 8, "{}.{}", section.name, key.name);
            assert!(key.meaning.concat().trim_end().ends_with('.'), "{}.{}", section.name, key.name);
        }
    }

    #[test]
    fn every_default_that_is_a_number_is_within_its_range() {
        for (section, key) in keys() {
            let (Values::Number { least, most }, Some(default)) = (key.values, (key.default)()) else {
                continue;
            };
            let default: u64 = default.parse().expect("a number");
            assert!((least..=most).contains(&default), "{}.{}", section.name, key.name);
        }
    }

    #[test]
    fn every_default_reads_back_as_a_setting() {
        let mut text = String::new();
        for section in SECTIONS {
            if !section.name.is_empty() {
                text += &format!("[{}]\n", section.name);
            }
            for key in section.keys {
                if let Some(default) = (key.default)() {
                    text += &format!("{} = {default}\n", key.name);
                }
            }
        }
        Config::parse(&text, std::path::Path::new("defaults.toml")).expect("the defaults are sound");
    }

    #[test]
    fn every_choice_that_a_key_lists_is_one_that_it_takes() {
        for (section, key) in keys() {
            let Values::OneOf(choices) = key.values else { continue };
            for choice in choices {
                let text = format!("[{}]\n{} = \"{choice}\"", section.name, key.name);
                Config::parse(&text, std::path::Path::new("choice.toml")).expect("a choice");
            }
        }
    }
}
