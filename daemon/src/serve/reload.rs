//! Settings that are read again at SIGHUP.
//!
//! [`config::WITHOUT_RESTART`] lists the keys that take effect at once. Others are named in the log, since they need a restart.
//! A file that is not valid changes nothing. Files that the settings name, such as the certificate, vault tokens and the plugin
//! folder, are followed without a signal.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result as AnyResult;
use toolgate_cli::Failure;
use toolgate_core::admin::Admin;
use toolgate_core::logging::LevelControl;
use toolgate_core::plugins::Registries;
use toolgate_core::restore;
use toolgate_http::ServedHosts;
use toolgate_http::listener::Tls;
use toolgate_sandbox::{HostClient, PrivateHosts};
use toolgate_state::config::{self, Config};

use super::systemd;

/// The registries that plugins are loaded from. They need a restart if they name a file that the start did not, since the process
/// may read no other one, or a vault.
const REGISTRIES: &str = "plugins.registries";

/// The parts of a running daemon that take changed settings.
#[derive(Clone)]
pub(super) struct LiveParts {
    pub hosts: ServedHosts,
    /// Those of `credentials.private_hosts`.
    pub private_hosts: PrivateHosts,
    pub tls: Option<Tls>,
    pub registries: Registries,
    pub admin: Admin,
}

/// Reads the settings again, with the options of the start.
pub(super) struct Reload<F> {
    started_with: Config,
    read: F,
    level: LevelControl,
}

impl<F: Fn() -> Result<Config, Failure>> Reload<F> {
    pub(super) fn new(started_with: Config, read: F, level: LevelControl) -> Self {
        Self { started_with, read, level }
    }

    /// Reads the settings and applies them. `status` is that of the daemon for the service manager.
    pub(super) fn run(&self, status: &str, live: &LiveParts) {
        systemd::notify_reloading();
        match (self.read)() {
            Ok(config) => {
                self.apply(&config, live);
                systemd::notify_ready(status);
            }
            Err(error) => {
                tracing::error!(
                    %error,
                    hint = error.hint(),
                    "the settings cannot be read again: the daemon goes on with those that it has"
                );
                systemd::notify_ready(&format!("{status}; the settings cannot be read again: {error}"));
            }
        }
    }

    fn apply(&self, config: &Config, live: &LiveParts) {
        self.level.set(config.log.level);
        let services = live.admin.services();
        live.hosts.replace(config.hosts());
        live.private_hosts.replace(config.credentials.private_hosts.clone().unwrap_or_default());
        if let Some(tls) = &live.tls {
            tls.replace_clients(config.tls.clients.clone().unwrap_or_default());
        }
        services.ledger.replace_rates(restore::rates(config));
        services.metrics.replace_organizations(config.metrics.organizations());
        if let Err(error) = self.replace_webhook_hosts(config, live) {
            tracing::error!(%error, "the changed hosts of webhooks are not used; the last good ones are");
        }
        let takes_registries = self.can_replace_registries(config);
        if takes_registries && let Err(error) = self.replace_registries(config, live) {
            tracing::error!(%error, "the changed registries are not used; the last good ones are");
        }
        let differing = self.started_with.differing_keys(config);
        let needs_restart = |key: &&String| match key.as_str() {
            REGISTRIES => !takes_registries,
            key => !config::WITHOUT_RESTART.contains(&key),
        };
        let waiting: Vec<&str> = differing.iter().filter(needs_restart).map(String::as_str).collect();
        tracing::info!(log_level = ?config.log.level, "the settings were read again");
        if !waiting.is_empty() {
            tracing::warn!(keys = waiting.join(", "), "changed settings that take effect at the next start");
        }
    }

    fn replace_webhook_hosts(&self, config: &Config, live: &LiveParts) -> AnyResult<()> {
        let hosts = restore::webhook_hosts(config);
        let client = HostClient::new(hosts.client_settings(self.started_with.credentials.ca_file.clone()))?;
        live.admin.services().webhooks.replace_hosts(hosts, client);
        Ok(())
    }

    fn can_replace_registries(&self, config: &Config) -> bool {
        let files = |config: &Config| -> BTreeSet<PathBuf> {
            let named = config.named_files().into_iter();
            named.filter(|file| file.section == REGISTRIES).map(|file| file.path).collect()
        };
        let uses_vault = config.plugins.registries().iter().any(|entry| entry.password_vault_kv.is_some());
        !uses_vault && files(config).is_subset(&files(&self.started_with))
    }

    fn replace_registries(&self, config: &Config, live: &LiveParts) -> AnyResult<()> {
        let timeout = Duration::from_secs(self.started_with.plugins.registry_timeout_seconds);
        let registries = Registries::of_settings(config.plugins.registries(), None, timeout)?;
        live.registries.replace(&registries);
        Ok(())
    }
}
