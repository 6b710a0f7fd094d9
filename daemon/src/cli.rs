//! Command line: one binary for operators of the daemon and for its clients.
//!
//! `serve`, `quickstart` and the hidden `compile-worker` delegate to their own modules; `new`, `check` and `run` work
//! without a daemon. All other commands are those of `toolgate-cli`.

mod audit;
mod backup;
mod check;
mod compile;
mod dev;
mod config_check;
mod doctor;
mod examples;
mod failure;
mod finding;
mod inputs;
mod man;
mod mcp;
mod new;
mod plugin;
mod policy;
mod policy_test;
mod push;
mod run;
mod run_grant;
mod serve;
mod sign;
mod status;
mod version;

#[cfg(test)]
mod book;

use std::ffi::OsString;
use std::io::Write;
use std::pin::Pin;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use toolgate_cli::{Failure, Printer, RemoteCommand};
use toolgate_state::config;

const EXAMPLES: &str = "\
Examples:
  toolgate quickstart                          see it work, with nothing set up
  toolgate serve                               run the daemon, data in ./toolgate-data
  toolgate new weather                         begin a plugin
  toolgate plugin load weather.wasm            load a plugin into it
  toolgate org put acme
  toolgate policy put acme policy.json         which tools the organization has
  toolgate agent put acme/bot --enabled 'weather/*'
  toolgate policy explain acme/bot             what it may call, and why
  toolgate call acme/bot weather/current '{\"city\": \"Paris\"}'";

const QUICKSTART_EXAMPLES: &str = "\
Examples:
  toolgate quickstart             four calls, then a daemon to try things with
  toolgate quickstart --once      the calls alone";

/// Runs the tools of AI agents: gated, validated, sandboxed, audited.
#[derive(Parser)]
#[command(name = "toolgate", version = toolgate_core::version::text(), arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a daemon in a temporary folder and make example calls through it
    #[command(after_help = QUICKSTART_EXAMPLES)]
    Quickstart {
        /// Exit after the calls; status 0 if all results are as expected
        #[arg(long)]
        once: bool,
    },
    /// Run the daemon
    Serve(serve::ServeOptions),
    /// Compile plugins before the daemon starts, or for a package
    Compile(compile::CompileOptions),
    /// Check settings before a start
    Config(config_check::ConfigOptions),
    /// Check whether this machine suits the daemon
    Doctor(doctor::DoctorOptions),
    /// Create a plugin project from a template
    New(new::NewOptions),
    /// Validate a plugin file
    Check(check::CheckOptions),
    /// Call a tool of a plugin file, without a daemon
    Run(run::RunOptions),
    /// Build a plugin, check it and load it into a daemon, again after each change
    Dev(dev::DevOptions),
    /// Load, list, enable, disable and remove plugins
    Plugin(plugin::PluginOptions),
    /// Show, replace, explain, compare and test the policies that decide calls
    Policy(policy::PolicyOptions),
    /// Serve an agent's tools to an MCP client that starts this program
    Mcp(mcp::McpCommand),
    /// Save the state of a daemon in one file
    Backup(Box<backup::BackupOptions>),
    /// Restore a backup into an empty data folder
    Restore(backup::RestoreOptions),
    #[command(flatten)]
    Remote(RemoteCommand),
    /// Print the completions of a shell
    Completions(man::CompletionsOptions),
    /// Write the manual pages of all commands
    Man(man::ManOptions),
    /// Print the version, the commit and the version of wasmtime
    Version(version::VersionOptions),
    /// Compile a plugin from standard input to standard output, with resource limits
    #[command(hide = true)]
    CompileWorker {
        work: toolgate_core::compile::WorkerTask,
        memory_bytes: u64,
        cpu_seconds: u64,
        /// Keep the access of the user
        #[arg(long)]
        unconfined: bool,
    },
}

/// Reads the command line and the environment once, then runs the command.
pub fn main(commit: Option<&'static str>) -> ExitCode {
    toolgate_core::version::set_commit(commit);
    let environment_token = std::env::var_os("TOOLGATE_TOKEN");
    let arguments = match parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => return explain(&error),
    };
    if let Command::CompileWorker { work, memory_bytes, cpu_seconds, unconfined } = arguments.command {
        let status = toolgate_core::compile::run_worker(work, memory_bytes, cpu_seconds, !unconfined);
        return ExitCode::from(u8::try_from(status).unwrap_or(1));
    }
    match run(arguments.command, environment_token) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(&mut anstream::stderr().lock()),
    }
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    Arguments::from_arg_matches(&command_line().try_get_matches_from(arguments)?)
}

fn command_line() -> clap::Command {
    examples::hand_down(Arguments::command())
}

/// Prints a clap error. Help and version are successes on standard output, a usage error goes to standard error; clap
/// selects the stream.
fn explain(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    match (error.use_stderr(), printed) {
        (true, _) => ExitCode::from(2),
        (false, Ok(())) => ExitCode::SUCCESS,
        (false, Err(error)) => Failure::from(error).report(&mut anstream::stderr().lock()),
    }
}

fn run(command: Command, environment_token: Option<OsString>) -> Result<(), Failure> {
    match command {
        Command::Quickstart { once } => crate::quickstart::run(once).map_err(failure::of_start),
        Command::Serve(options) if options.list_settings => {
            here(false, async |printer| Ok(printer.text(&config::help_text())?))
        }
        Command::Serve(options) => {
            let accept_lost_log = options.accept_lost_log;
            let read_again = move || options.config();
            let config = read_again()?;
            let is_json = config.log.format == config::LogFormat::Json;
            crate::serve::run(config, accept_lost_log, read_again).map_err(|error| {
                let failure = failure::of_start(error);
                match is_json {
                    true => failure::log(failure),
                    false => failure,
                }
            })
        }
        Command::Compile(options) => here(options.json, async |printer| compile::run(options, printer).await),
        Command::Config(options) => {
            here(options.is_json(), async |printer| config_check::run(options, printer).await)
        }
        Command::Doctor(options) => here(options.json, async |printer| doctor::run(options, printer).await),
        Command::CompileWorker { .. } => Ok(()),
        Command::New(options) => here(false, async |printer| new::run(options, printer)),
        Command::Check(options) => here(options.json, async |printer| check::run(options, printer).await),
        Command::Run(options) => here(options.json, async |printer| run::run(options, printer).await),
        Command::Dev(options) => dev::run(&options, environment_token),
        Command::Plugin(options) => plugin::run(options, environment_token),
        Command::Policy(options) => policy::run(options, environment_token),
        Command::Mcp(command) => mcp::run(command, environment_token),
        Command::Backup(options) => backup::run(*options, environment_token),
        Command::Restore(options) => {
            here(options.json, async |printer| backup::run_restore(&options, printer))
        }
        Command::Remote(command) => match (command.log_of_folder(), command.settings_to_ask()) {
            (Some((log, json)), _) => here(json, async |printer| audit::run(log, printer).await),
            (None, Some((settings, json))) => {
                here(json, async |printer| status::ask(&settings, printer).await)
            }
            (None, None) => command.run(environment_token),
        },
        Command::Completions(options) => man::complete(&options, &command_line()),
        Command::Version(options) => here(options.json, async |printer| version::print(printer)),
        Command::Man(options) => {
            here(false, async |printer| man::write_pages(&options, command_line(), printer))
        }
    }
}

/// Runs a command that needs no daemon.
fn here(json: bool, act: impl AsyncFnOnce(&mut Printer<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
    let (mut out, mut notes) = (anstream::stdout().lock(), anstream::stderr().lock());
    let mut printer = Printer::new(&mut out, &mut notes, json).fit_terminal();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let act: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(act(&mut printer));
    let done = runtime.block_on(act);
    out.flush()?;
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments, clap::Error> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_definition_of_every_command_is_sound() {
        command_line().debug_assert();
    }

    #[test]
    fn what_people_type_is_understood() {
        for line in [
            "toolgate quickstart --once",
            "toolgate serve --config a.toml --data /d --listen 127.0.0.1:0 --store sqlite:/s",
            "toolgate new weather --lang rust --into plugins/weather",
            "toolgate new weather --lang js",
            "toolgate new weather --lang javascript",
            "toolgate new weather --lang python",
            "toolgate check weather.wasm --workspace testdata --json",
            "toolgate run weather.wasm current {} --limit fuel=1000 --limit deadline_ms=5 --workspace w",
            "toolgate call acme/bot weather/current {}",
            "toolgate call --session s_1 weather/current {} --json",
            "toolgate config check",
            "toolgate config check a.toml --data d --listen 127.0.0.1:0 --store sqlite:/s --json",
            "toolgate doctor --config a.toml --data d --json",
            "toolgate status --json",
            "toolgate plugin list --server http://127.0.0.1:1",
            "toolgate plugin load weather.wasm --namespace weather",
            "toolgate plugin rollback weather --token-file t",
            "toolgate plugin sign weather.wasm --key k --out s --json",
            "toolgate plugin verify weather.wasm --signature s --public-key ed25519:k",
            "toolgate plugin approve weather --keep-grant --yes",
            "toolgate org put acme --display-name Acme --connected stripe",
            "toolgate agent put acme/bot --enabled weather/* --disabled weather/set",
            "toolgate agent put acme/bot -",
            "toolgate policy show platform",
            "toolgate policy put acme policy.json --strict --json",
            "toolgate policy explain acme/bot files/write --channel sms --session s_1",
            "toolgate policy diff acme/bot -",
            "toolgate policy assertions put platform a.json --json",
            "toolgate policy test policies --json",
            "toolgate webhook put acme/chat https://h.example/a --secret-file -",
            "toolgate approval list --organization acme --state pending",
            "toolgate approval approve a_1 --reason fine --uses 3 --expires-in 60 --arguments {}",
            "toolgate approval deny a_1 --reason no --json",
            "toolgate session open acme/bot --user u --conversation c --channel sms",
            "toolgate session tools s_1 --format openai --message hello",
            "toolgate session disable s_1 files/write",
            "toolgate session events s_1 --json",
            "toolgate events acme",
            "toolgate session list --agent acme/bot --state open --limit 10",
            "toolgate session calls s_1 --json",
            "toolgate backup b.tar.gz --json",
            "toolgate backup b.tar.gz --data d --store sqlite:/s --with-keys",
            "toolgate restore b.tar.gz --data d --keys k --json",
            "toolgate credential put acme/stripe --provider stripe --kind bearer --to https://a.example --secret-env S",
            "toolgate credential rotate acme/stripe --secret-file - --json",
            "toolgate credential unseal --secret-file k",
            "toolgate token create --role owner --organization acme --label ci",
            "toolgate token create --role auditor",
            "toolgate token revoke abc --json",
            "toolgate audit search --organization acme --status error --since 2h",
            "toolgate audit search --error-type ACCESS_DENIED --kind call --limit 500",
            "toolgate audit verify",
            "toolgate audit export --data d --out o --max-bytes 9",
            "toolgate mcp --stdio --agent acme/bot --search",
            "toolgate mcp --stdio --embedded --data d",
            "toolgate version --json",
            "toolgate compile-worker code 1 2",
            "toolgate dev --watch --load plugins/weather --server http://127.0.0.1:1",
            "toolgate run ticket.wasm read {} --grant grant.json",
            "toolgate apply -f policies --dry-run --prune",
            "toolgate plugin use weather@1.2.0",
            "toolgate session files list s_1",
            "toolgate login --server https://a.example --token-file t --ca-file c",
            "toolgate login prod --offline",
            "toolgate context use prod",
            "toolgate plugin list --context prod",
            "toolgate completions zsh",
            "toolgate man pages",
        ] {
            assert!(read(line).is_ok(), "{line}: {:?}", read(line).err());
        }
    }

    #[test]
    fn a_command_that_is_not_understood_is_wrong_usage() {
        for line in [
            "toolgate",
            "toolgate fly",
            "toolgate config",
            "toolgate config check a.toml b.toml",
            "toolgate plugin load",
            "toolgate plugin sign weather.wasm",
            "toolgate plugin verify weather.wasm",
            "toolgate plugin key put acme-2026 --publisher acme --public-key ed25519:k",
            "toolgate token create",
            "toolgate token create --role king",
            "toolgate token create --role owner",
            "toolgate token create --role orchestrator --agent bot",
            "toolgate call",
            "toolgate call acme/bot weather/current {} more",
            "toolgate agent put acme/bot",
            "toolgate dev --build make",
            "toolgate run a.wasm b --allow-network a.example",
            "toolgate plugin use weather",
            "toolgate apply",
            "toolgate agent put acme/bot - --enabled a/b",
            "toolgate policy show",
            "toolgate policy show acme/bot/more",
            "toolgate policy explain acme",
            "toolgate policy put acme",
            "toolgate policy assertions put acme",
            "toolgate policy test",
            "toolgate webhook put acme/chat",
            "toolgate approval list --state perhaps",
            "toolgate approval approve",
            "toolgate approval deny a_1 --uses 2",
            "toolgate approval approve a_1 --uses many",
            "toolgate credential rotate acme/stripe --secret sk",
            "toolgate credential put acme/stripe --provider stripe --kind barer --to https://a.example --secret-env S",
            "toolgate audit search --status bad",
            "toolgate audit search --kind nope",
            "toolgate audit search --error-type NOPE",
            "toolgate audit search --limit 501",
            "toolgate audit search --limit 0",
            "toolgate session open acme",
            "toolgate session tools s_1 --format yaml",
            "toolgate session disable s_1",
            "toolgate serve --token secret",
            "toolgate new weather --lang cobol",
            "toolgate run weather.wasm current {} --limit fual=1",
            "toolgate run weather.wasm current {} --limit fuel=much",
        ] {
            let error = read(line).err().expect("not understood");
            assert!(error.use_stderr(), "{line}");
        }
    }

    #[test]
    fn help_and_version_are_answers() {
        for line in ["toolgate --help", "toolgate --version", "toolgate serve --help", "toolgate help call"] {
            assert!(!read(line).err().expect("an answer").use_stderr(), "{line}");
        }
    }

    #[test]
    fn the_help_of_serve_is_short_and_names_the_list_of_settings() {
        let help = read("toolgate serve --help").err().expect("help").to_string();
        assert!(help.contains("--list-settings") && !help.contains("header_bytes"), "{help}");
        assert!(config::help_text().contains("header_bytes = 32768 (32 KiB), 8 KiB to 256 KiB"));
        assert!(read("toolgate serve --list-settings").is_ok());
    }

    #[test]
    fn options_of_every_command_stand_under_their_own_heading() {
        let help = read("toolgate policy put --help").err().expect("help").to_string();
        let (own, global) = help.split_once("Global options:").expect("a heading");
        let global = global.split("Examples:").next().unwrap_or_default();
        assert!(own.contains("--strict") && global.contains("--token-file"), "{help}");
        assert!(!own.contains("--token-file") && !global.contains("--strict"), "{help}");
    }

    /// Returns every visible command with its path of names.
    fn commands(command: &clap::Command, before: &[&str]) -> Vec<(Vec<String>, clap::Command)> {
        let path = [before, &[command.get_name()]].concat();
        let below = command.get_subcommands().filter(|below| !below.is_hide_set());
        let own = (path.iter().map(ToString::to_string).collect(), command.clone());
        std::iter::once(own).chain(below.flat_map(|below| commands(below, &path))).collect()
    }

    #[test]
    fn every_command_has_examples_of_it_that_are_understood() {
        for (path, command) in commands(&command_line(), &[]) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = examples::tests::examples(&help);
            assert!(examples.iter().any(|words| words.starts_with(&path)), "no example of {path:?}: {help}");
            for words in examples {
                let understood = parse(words.iter().map(OsString::from));
                assert!(understood.is_ok(), "{words:?}: {:?}", understood.err());
            }
        }
    }

    #[test]
    fn every_argument_says_what_it_is() {
        for (path, command) in commands(&command_line(), &[]) {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{path:?}: `{}`", argument.get_id());
            }
        }
    }

    #[test]
    fn the_worker_is_not_shown() {
        let help = read("toolgate --help").err().expect("help").to_string();
        assert!(!help.contains("compile-worker") && help.contains("quickstart"), "{help}");
    }
}
