//! Settings that are read again at SIGHUP.
//!
//! [`config::WITHOUT_RESTART`] lists the keys that take effect at once. Others are named in the log, since they need a restart.
//! A file that is not valid changes nothing. Files that the settings name, such as the certificate, vault tokens and the plugin
//! folder, are followed without a signal.

use toolgate_cli::Failure;
use toolgate_core::logging::LevelControl;
use toolgate_state::config::{self, Config};

use super::systemd;

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
    pub(super) fn run(&self, status: &str) {
        systemd::notify_reloading();
        match (self.read)() {
            Ok(config) => {
                self.apply(&config);
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

    fn apply(&self, config: &Config) {
        self.level.set(config.log.level);
        let differing = self.started_with.differing_keys(config);
        let needs_restart = |key: &&String| !config::WITHOUT_RESTART.contains(&key.as_str());
        let waiting: Vec<&str> = differing.iter().filter(needs_restart).map(String::as_str).collect();
        tracing::info!(log_level = ?config.log.level, "the settings were read again");
        if !waiting.is_empty() {
            tracing::warn!(keys = waiting.join(", "), "changed settings that take effect at the next start");
        }
    }
}
