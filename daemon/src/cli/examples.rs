//! Examples in the help of commands. Each is written once, in the help of its command group; the subcommand that it
//! is about shows it as well.

use clap::Command;

/// Adds to each subcommand of `group` without own examples the group's examples that are about it.
pub(super) fn hand_down(group: Command) -> Command {
    let path = group.get_name().to_owned();
    hand_down_from(group, &path)
}

fn hand_down_from(group: Command, path: &str) -> Command {
    let Some(text) = group.get_after_help().map(ToString::to_string) else { return group };
    group.mut_subcommands(|command| {
        let path = format!("{path} {}", command.get_name());
        let about: Vec<&str> = text.lines().filter(|line| is_about(line, &path)).collect();
        let command = match command.get_after_help().is_some() || about.is_empty() {
            true => command,
            false => command.after_help(format!("Examples:\n{}", about.join("\n"))),
        };
        hand_down_from(command, &path)
    })
}

fn is_about(line: &str, path: &str) -> bool {
    line.split_once(path).is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with(' '))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Parses the examples of a help text, each into the arguments that a shell would pass to the program.
    pub(crate) fn examples(help: &str) -> Vec<Vec<String>> {
        let commands = help.lines().filter(|line| line.starts_with("  "));
        commands.filter_map(|line| line.find("toolgate ").map(|at| words(&line[at..]))).collect()
    }

    /// Splits an example into words. Quotes group words; two spaces begin the explanation, and a redirection
    /// belongs to the shell.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for character in line.chars() {
            match (character, words.last_mut()) {
                (_, Some(_)) if quote == Some(character) => quote = None,
                ('\'' | '"', Some(_)) if quote.is_none() => quote = Some(character),
                ('>' | ' ', Some(word)) if quote.is_none() && word.is_empty() => break,
                (' ', _) if quote.is_none() => words.push(String::new()),
                (_, Some(word)) => word.push(character),
                (_, None) => {}
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn an_example_is_read_as_a_shell_reads_it() {
        let help =
            "Examples:\n  toolgate a 'b c' d       why\n  cat x | toolgate a - > y\n\nA toolgate of words";
        assert_eq!(examples(help), [vec!["toolgate", "a", "b c", "d"], vec!["toolgate", "a", "-"]]);
    }

    #[test]
    fn a_command_has_the_examples_that_are_about_it() {
        let group = || {
            Command::new("t").after_help("Examples:\n  t load a\n  t loads\n  t show").subcommands([
                Command::new("load"),
                Command::new("show").after_help("own"),
                Command::new("end"),
            ])
        };
        let handed = hand_down(group());
        let help = |name: &str| {
            let command = handed.find_subcommand(name).expect("a command");
            command.get_after_help().map(ToString::to_string)
        };
        assert_eq!(help("load").as_deref(), Some("Examples:\n  t load a"));
        assert_eq!(help("show").as_deref(), Some("own"));
        assert_eq!(help("end"), None);
    }
}
