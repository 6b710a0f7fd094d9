//! Options of `serve`: a settings file, and overrides of its values.

use std::path::{Path, PathBuf};

use clap::Args;
use toolgate_cli::Failure;

use crate::config::{Config, ConfigError, Overrides};

pub const EXAMPLES: &str = "\
Examples:
  toolgate serve
  toolgate serve --data /var/lib/toolgate --listen 127.0.0.1:7300
  toolgate serve --config /etc/toolgate.toml
  toolgate serve --list-settings                     every setting of the file, with its default";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeOptions {
    /// The settings file (TOML); `--list-settings` lists the settings
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data folder [default: toolgate-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The IP address and port to listen on [default: 127.0.0.1:7300]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The database of documents, tokens and sessions [default: sqlite:DIR/state.db]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// List the settings of the file with defaults and ranges, and do not start
    #[arg(long)]
    pub list_settings: bool,
}

impl ServeOptions {
    /// Loads the settings file and applies the options.
    pub fn config(&self) -> Result<Config, Failure> {
        load(self.config.as_deref(), self.data.as_deref(), self.listen.as_deref(), self.store.as_deref())
    }
}

/// Loads the settings of `file`, or the defaults, with the data folder, address and store of options.
pub fn load(
    file: Option<&Path>,
    data: Option<&Path>,
    listen: Option<&str>,
    store: Option<&str>,
) -> Result<Config, Failure> {
    let failure = |error: ConfigError| Failure::new(error.to_string(), error.hint());
    let overrides = Overrides::parse(data.map(Path::to_owned), listen, store.map(str::to_owned))
        .map_err(|error| Failure::wrong_usage(error.to_string(), error.hint()))?;
    Config::load(file, overrides).map_err(failure)
}
