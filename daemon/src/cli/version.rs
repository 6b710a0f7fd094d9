//! `toolgate version`: what the binary was built from.

use clap::Args;
use toolgate_cli::{Failure, Printer};
use toolgate_core::version::BuildInfo;

const EXAMPLES: &str = "\
Examples:
  toolgate version
  toolgate version --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct VersionOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints the version, the commit and the version of wasmtime.
pub(super) fn print(printer: &mut Printer<'_>) -> Result<(), Failure> {
    let build = BuildInfo::current();
    Ok(printer.result(&build, &format!("toolgate {build}"))?)
}
