//! Settings of the daemon: a TOML file in which every key is optional.
//!
//! `keys` is the table of keys with default, range and description; the structs, `toolgate serve --list-settings` and
//! `docs/config.md` are generated from it. `values` has the kinds and formats of values. `read` parses a file to [`Config`]; an
//! error has the line and the nearest key. `check` validates keys that depend on each other. `help` renders the table.
//!
//! Nothing here reads the environment: only the file and the options of `serve` determine the settings.

mod check;
mod files;
mod help;
mod keys;
mod listen;
mod read;
mod values;
mod vault_paths;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

pub use files::NamedFile;
pub use help::help_text;
pub use keys::{
    Audit, Calls, Compile, Config, ConsentSection, ConsoleSection, CredentialSection, Egress, Http,
    IssuerSection, Logging, McpSection, MetricsSection, OauthSection, OidcRoleSection, OidcSection,
    PluginsSection, Queue, Rates, RegistrySection, SandboxSection, Sessions, Tls, TracesSection,
    WebhookSection,
};
pub use listen::Listen;
pub use read::ConfigError;
use toolgate_api::name::Name;
pub use values::{Hardening, LogFormat, LogLevel, PagemapScan, Signatures, is_registry_host, parse_endpoint};
pub use vault_paths::{KvPath, ReferencePrefix, SecretFolders, VaultEngine, invalid_file, invalid_reference};

/// The least default of the memory for request bodies.
const BODIES_BYTES: u64 = 256 << 20;

/// Keys that take effect when the settings are read again (SIGHUP). Others need a restart.
pub const WITHOUT_RESTART: &[&str] = &[
    "allowed_hosts",
    "credentials.private_hosts",
    "log.level",
    "metrics.organizations",
    "plugins.registries",
    "rates.burst",
    "rates.calls_per_second",
    "tls.clients",
    "webhooks.hosts",
    "webhooks.plain_http",
    "webhooks.private_hosts",
];

/// Settings from the options of `serve`, which override the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    data: Option<PathBuf>,
    listen: Option<Listen>,
    store: Option<String>,
}

impl Overrides {
    /// Parses the options, apart from [`Config::load`]: an error here is wrong usage of the command.
    pub fn parse(
        data: Option<PathBuf>,
        listen: Option<&str>,
        store: Option<String>,
    ) -> Result<Self, ConfigError> {
        let address = |text: &str| {
            Listen::parse(text).ok_or_else(|| {
                ConfigError::new(
                    format!("`--listen {text}` is no IP address with a port"),
                    "write it like `127.0.0.1:7300`, `[::1]:7300` or `unix:/run/toolgate.sock`; names are not looked up, and ports \
                     end at 65535",
                )
            })
        };
        store.as_deref().map(sqlite_path).transpose()?;
        Ok(Self { data, listen: listen.map(address).transpose()?, store })
    }
}

impl MetricsSection {
    /// The organizations whose calls are counted by name; the file was checked to have names only.
    pub fn organizations(&self) -> impl Iterator<Item = Name> {
        self.organizations.iter().filter_map(|name| Name::parse(name).ok())
    }
}

impl Config {
    /// Reads `file`, or uses the defaults without one, applies `overrides` and validates the result.
    pub fn load(file: Option<&Path>, overrides: Overrides) -> Result<Self, ConfigError> {
        let config = Self::load_unchecked(file, overrides).map_err(read::first)?;
        config.check()?;
        Ok(config)
    }

    /// Reads `file` as [`load`](Self::load) does, and returns all errors. With errors in single values there are no settings, and
    /// those that depend on each other are not checked.
    pub fn load_with_errors(file: Option<&Path>, overrides: Overrides) -> (Option<Self>, Vec<ConfigError>) {
        match Self::load_unchecked(file, overrides) {
            Ok(config) => {
                let errors = config.errors();
                (Some(config), errors)
            }
            Err(errors) => (None, errors),
        }
    }

    fn load_unchecked(file: Option<&Path>, overrides: Overrides) -> Result<Self, Vec<ConfigError>> {
        let mut config = match file {
            Some(path) => read::read(&read::read_text(path).map_err(|error| vec![error])?, path)?,
            None => Self::default(),
        };
        config.file = file.map(Path::to_owned);
        config.override_with(overrides);
        Ok(config)
    }

    /// Parses settings from `text`; `file` is its name in errors.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let config = read::read(text, file).map_err(read::first)?;
        config.check()?;
        Ok(config)
    }

    /// The settings at another address, which a service manager chose.
    pub fn listening_at(mut self, listen: Listen) -> Result<Self, ConfigError> {
        self.listen = listen;
        self.check()?;
        Ok(self)
    }

    /// The keys with other values than in `other`, as `section.key`.
    pub fn differing_keys(&self, other: &Self) -> Vec<String> {
        let mut differing = Vec::new();
        for ((section, ours), (_, theirs)) in self.values().iter().zip(other.values()) {
            let keys = [ours, &theirs].into_iter().filter_map(|value| value.as_object());
            let keys: BTreeSet<&String> = keys.flat_map(|values| values.keys()).collect();
            let changed = keys.into_iter().filter(|key| ours.get(key) != theirs.get(key));
            differing.extend(changed.map(|key| match *section {
                "" => key.clone(),
                section => format!("{section}.{key}"),
            }));
        }
        differing
    }

    /// The accepted values of the `Host` header, in lower case and without a port.
    pub fn hosts(&self) -> Vec<String> {
        if let Some(hosts) = &self.allowed_hosts {
            return hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        }
        let mut hosts = vec!["localhost".into(), "127.0.0.1".into(), "[::1]".into()];
        let address = self.listen.ip().filter(|ip| !ip.is_unspecified()).map(host_header);
        hosts.extend(address.filter(|address| !hosts.contains(address)));
        hosts
    }

    /// `queue.running_per_organization`, by default three quarters of the instances.
    pub fn running_per_organization(&self) -> u32 {
        let instances = self.sandbox.instances;
        self.queue.running_per_organization.unwrap_or(instances - instances / 4)
    }

    /// `http.streams_per_organization`, by default half of the connections.
    pub fn streams_per_organization(&self) -> u64 {
        self.http.streams_per_organization.unwrap_or(self.http.connections.div_ceil(2))
    }

    /// `http.bodies_bytes`, by default enough for two bodies of the largest size.
    pub fn bodies_bytes(&self) -> u64 {
        let Http { body_bytes, plugin_bytes, .. } = self.http;
        self.http.bodies_bytes.unwrap_or(BODIES_BYTES.max(2 * body_bytes).max(2 * plugin_bytes))
    }

    /// `http.bodies_bytes_per_organization`, by default half of the bytes for all.
    pub fn bodies_bytes_per_organization(&self) -> u64 {
        self.http.bodies_bytes_per_organization.unwrap_or(self.bodies_bytes().div_ceil(2))
    }

    /// The SQLite file of `store`, by default `state.db` in the data folder.
    pub fn store_path(&self) -> Result<PathBuf, ConfigError> {
        self.store.as_deref().map_or_else(|| Ok(self.data.join("state.db")), sqlite_path)
    }

    fn override_with(&mut self, overrides: Overrides) {
        if let Some(data) = overrides.data {
            self.data = data;
        }
        if let Some(listen) = overrides.listen {
            self.listen = listen;
        }
        self.store = overrides.store.or(self.store.take());
    }
}

impl OauthSection {
    /// The authorization servers whose access tokens are accepted.
    pub fn issuers(&self) -> &[IssuerSection] {
        self.issuers.as_deref().unwrap_or_default()
    }
}

impl ConsoleSection {
    /// Seconds after which a person signs in again whom the provider knows.
    pub fn person_seconds(&self) -> u64 {
        let own = self.oidc.as_ref().map(|oidc| oidc.session_seconds);
        own.map_or(self.longest_seconds, |seconds| seconds.min(self.longest_seconds))
    }
}

impl OidcSection {
    /// The roles of people, in the order in which they decide.
    pub fn roles(&self) -> &[OidcRoleSection] {
        self.roles.as_deref().unwrap_or_default()
    }
}

impl PluginsSection {
    /// The registries that plugins may be loaded from.
    pub fn registries(&self) -> &[RegistrySection] {
        self.registries.as_deref().unwrap_or_default()
    }
}

fn sqlite_path(url: &str) -> Result<PathBuf, ConfigError> {
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"));
    match path {
        Some(path) if !path.is_empty() && !path.starts_with(":memory:") => Ok(path.into()),
        Some(_) => Err(ConfigError::new(
            format!("store `{url}` names no file"),
            "write it like `sqlite:/var/lib/toolgate/state.db`",
        )),
        // The message does not repeat the URL, which may contain a password.
        None => Err(ConfigError::new(
            "this version cannot open a store of this kind",
            "use SQLite: `sqlite:/var/lib/toolgate/state.db`",
        )),
    }
}

/// An address in the form of the `Host` header: IPv6 in brackets.
fn host_header(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests;
