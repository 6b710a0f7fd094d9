//! `toolgate completions` and `toolgate man`: files made from the definition of the command line.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use toolgate_cli::{Failure, Printer};

const NAME: &str = "toolgate";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  toolgate completions bash > ~/.local/share/bash-completion/completions/toolgate
  toolgate completions zsh > ~/.zfunc/_toolgate
  toolgate completions fish > ~/.config/fish/completions/toolgate.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  toolgate man /usr/local/share/man/man1";

#[derive(Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(super) struct CompletionsOptions {
    /// The shell
    shell: Shell,
}

#[derive(Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(super) struct ManOptions {
    /// The folder for the pages, which is created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the completions of a shell.
pub(super) fn complete(options: &CompletionsOptions, command: &Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut without_hidden(command), NAME, &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}

/// Writes a page of section 1 for each command, such as `toolgate-policy-put.1`.
pub(super) fn write_pages(
    options: &ManOptions,
    command: Command,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let folder = &options.folder;
    fs::create_dir_all(folder).map_err(|error| failure(folder, &error))?;
    clap_mangen::generate_to(command, folder).map_err(|error| failure(folder, &error))?;
    Ok(printer.note(&format!("the pages are in `{}`", folder.display()))?)
}

/// The generators of completions write hidden commands out.
fn without_hidden(command: &Command) -> Command {
    let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned();
    Command::new(NAME).version(env!("CARGO_PKG_VERSION")).subcommands(shown)
}

fn failure(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write `{}`: {error}", path.display()), "name a folder that you may write")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        super::super::command_line()
    }

    #[test]
    fn every_visible_command_has_a_page_and_the_hidden_one_has_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = ManOptions { folder: folder.path().join("man1") };
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        write_pages(&options, command(), &mut Printer::new(&mut out, &mut notes, false)).expect("written");
        let page = |name: &str| fs::read_to_string(options.folder.join(name));
        for name in ["toolgate.1", "toolgate-serve.1", "toolgate-policy-put.1", "toolgate-login.1"] {
            assert!(page(name).expect(name).contains(".TH"), "{name} is no manual page");
        }
        page("toolgate-compile-worker.1").expect_err("no page of a hidden command");
    }

    #[test]
    fn completions_know_the_commands_that_are_shown() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut without_hidden(&command()), NAME, &mut script);
            let script = String::from_utf8(script).expect("text");
            assert!(script.contains("policy") && script.contains("login"), "{shell}");
            assert!(!script.contains("compile-worker"), "{shell}");
        }
    }
}
