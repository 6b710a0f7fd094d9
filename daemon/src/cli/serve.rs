//! Options of `serve`: a settings file, and overrides of its values.

use std::path::{Path, PathBuf};

use clap::Args;
use toolgate_cli::Failure;
use toolgate_state::config::{Config, ConfigError, Overrides};

pub(super) const EXAMPLES: &str = "\
Examples:
  toolgate serve
  toolgate serve --data /var/lib/toolgate --listen 127.0.0.1:7300
  toolgate serve --config /etc/toolgate.toml
  toolgate serve --list-settings                     every setting of the file, with its default";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ServeOptions {
    /// The settings file (TOML); `--list-settings` lists the settings
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: OverrideOptions,
    /// Begin a new audit log if the one of the data folder is damaged or gone; its files are moved aside, and the loss is recorded
    #[arg(long)]
    pub accept_lost_log: bool,
    /// List the settings of the file with defaults and ranges, and do not start
    #[arg(long)]
    pub list_settings: bool,
}

// Options that override the settings file. A doc comment would be the help of the commands that have them.
#[derive(Args, Default)]
pub(super) struct OverrideOptions {
    /// The data folder [default: toolgate-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The IP address and port to listen on [default: 127.0.0.1:7300]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// The database of documents, tokens and sessions [default: sqlite:DIR/state.db]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
}

impl ServeOptions {
    /// Loads the settings file and applies the options.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        load(self.config.as_deref(), &self.overrides)
    }
}

/// Loads the settings of `file`, or the defaults, and applies the options.
pub(super) fn load(file: Option<&Path>, options: &OverrideOptions) -> Result<Config, Failure> {
    Config::load(file, overrides(options)?).map_err(|error| Failure::new(error.to_string(), error.hint()))
}

/// Loads the settings as [`load`] does, and returns all errors. There are no settings if single values are wrong.
pub(super) fn load_with_errors(
    file: Option<&Path>,
    options: &OverrideOptions,
) -> Result<(Option<Config>, Vec<ConfigError>), Failure> {
    Ok(Config::load_with_errors(file, overrides(options)?))
}

fn overrides(options: &OverrideOptions) -> Result<Overrides, Failure> {
    Overrides::parse(options.data.clone(), options.listen.as_deref(), options.store.clone())
        .map_err(|error| Failure::wrong_usage(error.to_string(), error.hint()))
}
