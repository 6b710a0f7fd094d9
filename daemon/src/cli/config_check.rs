//! `toolgate config check`: finds the errors with which `serve` would not start.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use toolgate_cli::{Failure, Printer};

use super::finding::{self, Finding};
use super::{failure, serve};

const EXAMPLES: &str = "\
Examples:
  toolgate config check /etc/toolgate/toolgate.toml
  toolgate config check                                 the defaults, on this machine
  toolgate config check toolgate.toml --data /var/lib/toolgate --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ConfigOptions {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Check settings with their files and folders; exit status 1 if the daemon would not start
    Check(ConfigCheckOptions),
}

#[derive(Args)]
struct ConfigCheckOptions {
    /// The settings file (TOML); without one, the defaults are checked
    file: Option<PathBuf>,
    #[command(flatten)]
    overrides: serve::OverrideOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ConfigOptions {
    pub(super) fn is_json(&self) -> bool {
        let ConfigCommand::Check(options) = &self.command;
        options.json
    }
}

/// Checks the settings. Nothing is changed, no port is taken, and no request is sent.
pub(super) async fn run(options: ConfigOptions, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let ConfigCommand::Check(ConfigCheckOptions { file, overrides, .. }) = options.command;
    let (config, errors) = serve::load_with_errors(file.as_deref(), &overrides)?;
    let mut findings: Vec<Finding> =
        errors.iter().map(|error| Finding::error(NAME, error.to_string(), error.hint())).collect();
    if let Some(config) = config {
        let of_machine = crate::serve::check(&config).await.into_iter().map(finding_of);
        // Wrong settings are also found where they are used.
        let new: Vec<Finding> =
            of_machine.filter(|found| findings.iter().all(|known| known.message != found.message)).collect();
        findings.extend(new);
    }
    let name = file.as_deref().map_or_else(|| "the defaults".into(), |file| file.display().to_string());
    if findings.is_empty() && !printer.is_json() {
        return Ok(printer.line(&format!("ok: {name}: {CHECKED}"))?);
    }
    match finding::print(&findings, printer)? {
        false => Ok(()),
        true => Err(Failure::new(
            format!("the daemon does not start with {name}"),
            "fix the errors above; each line says how",
        )),
    }
}

/// What was checked if nothing was found. Whether a port is free and a server answers tells only a start.
pub(super) const CHECKED: &str = "the settings are valid, and their files, folders and addresses can be used; ports and other servers are not tried";

const NAME: &str = "settings";

/// A fault of a start as a finding.
pub(super) fn finding_of(fault: crate::serve::StartFault) -> Finding {
    let failure = failure::of_start(fault.error);
    match fault.is_fatal {
        true => Finding::error(NAME, failure.to_string(), failure.hint()),
        false => Finding::warning(NAME, failure.to_string(), failure.hint()),
    }
}
