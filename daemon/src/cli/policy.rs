//! `toolgate policy`: the requests of `toolgate-cli`, and `test`, which checks a folder of documents without a daemon.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use toolgate_cli::{Failure, Remote};

use super::policy_test;

#[derive(Args)]
#[command(after_help = toolgate_cli::policy::EXAMPLES)]
pub(super) struct PolicyOptions {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Subcommand)]
enum PolicyCommand {
    #[command(flatten)]
    Remote(toolgate_cli::policy::PolicyCommand),
    /// Check the documents of a folder and their assertions, without a daemon
    #[command(after_long_help = policy_test::FOLDER)]
    Test {
        /// The folder; `--help` shows its files
        folder: PathBuf,
        /// Fail on warnings too, as about an assertion that covers nothing
        #[arg(long)]
        strict: bool,
    },
}

pub(super) fn run(options: PolicyOptions, environment_token: Option<OsString>) -> Result<(), Failure> {
    let PolicyOptions { remote, command } = options;
    match command {
        PolicyCommand::Remote(command) => remote.run(environment_token, async |client, printer| {
            toolgate_cli::policy::run(command, client, printer).await
        }),
        PolicyCommand::Test { folder, strict } => {
            super::here(remote.json, async |printer| policy_test::run(&folder, strict, printer).await)
        }
    }
}
