//! One call of a command: its arguments, options and streams.

use crate::files::{Place, explain};
use crate::shell::{Outcome, Shell, Stop};
use crate::stream::{Output, Streams};

/// Output is collected up to this size before it is written.
const PENDING_BYTES: usize = 64 * 1024;

pub struct Call<'s> {
    pub shell: &'s mut Shell,
    pub name: &'s str,
    pub arguments: &'s [String],
    pub io: &'s Streams,
    pending: Vec<u8>,
}

/// A path, and what is in the file.
pub type NamedInput = (String, Vec<u8>);

/// The options of a call, in their order, and the other arguments.
pub struct Options {
    pub flags: Vec<(char, String)>,
    pub rest: Vec<String>,
}

impl Options {
    pub fn has(&self, flag: char) -> bool {
        self.flags.iter().any(|(found, _)| *found == flag)
    }

    /// The last value of an option.
    pub fn value(&self, flag: char) -> Option<&str> {
        self.flags.iter().rev().find(|(found, _)| *found == flag).map(|(_, value)| value.as_str())
    }

    pub fn values(&self, flag: char) -> impl Iterator<Item = &str> {
        self.flags.iter().filter(move |(found, _)| *found == flag).map(|(_, value)| value.as_str())
    }

    /// The other arguments as paths, or `-` for the input where there are none.
    pub fn paths(&self) -> Vec<String> {
        paths_or_input(&self.rest)
    }
}

impl<'s> Call<'s> {
    pub fn new(shell: &'s mut Shell, name: &'s str, arguments: &'s [String], io: &'s Streams) -> Self {
        Self { shell, name, arguments, io, pending: Vec::new() }
    }

    /// Reads options. `known` has a letter for each, with a colon if it takes a value; `long` has names for letters, as
    /// `lines=n bytes=c`. With `stops`, options end at the first other argument.
    pub fn options(&self, known: &str, long: &str, stops: bool) -> Outcome<Options> {
        let mut options = Options { flags: Vec::new(), rest: Vec::new() };
        let mut arguments = self.arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                options.rest.extend(arguments.cloned());
                break;
            }
            if argument.starts_with("--") {
                options.flags.push(self.long_option(argument, known, long, &mut arguments)?);
            } else if let Some(letters) = argument.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                for (index, letter) in letters.char_indices() {
                    if letter == ':' || !known.contains(letter) {
                        return Err(self.unknown(&format!("-{letter}"), known, long));
                    }
                    let rest = &letters[index + letter.len_utf8()..];
                    let value = match takes_value(known, letter) {
                        false => String::new(),
                        true if rest.is_empty() => self.next_value(argument, &mut arguments)?,
                        true => rest.to_owned(),
                    };
                    options.flags.push((letter, value));
                    if takes_value(known, letter) {
                        break;
                    }
                }
            } else {
                options.rest.push(argument.clone());
                if stops {
                    options.rest.extend(arguments.cloned());
                    break;
                }
            }
        }
        Ok(options)
    }

    /// The letter and the value of an option such as `--lines=5` or `--lines 5`.
    fn long_option(
        &self,
        argument: &str,
        known: &str,
        long: &str,
        arguments: &mut std::slice::Iter<'_, String>,
    ) -> Outcome<(char, String)> {
        let (name, value) = split_value(&argument[2..]);
        let Some((_, flag)) = long_options(long).find(|(long, _)| *long == name) else {
            return Err(self.unknown(argument, known, long));
        };
        let value = match value {
            Some(value) => value.to_owned(),
            None if takes_value(known, flag) => self.next_value(argument, arguments)?,
            None => String::new(),
        };
        Ok((flag, value))
    }

    fn next_value(&self, option: &str, arguments: &mut std::slice::Iter<'_, String>) -> Outcome<String> {
        arguments.next().cloned().ok_or_else(|| Stop::Fail(2, format!("option `{option}` needs a value")))
    }

    fn unknown(&self, option: &str, known: &str, long: &str) -> Stop {
        let letters = known.chars().filter(|letter| *letter != ':' && letter.is_ascii_graphic());
        let mut names: Vec<String> = letters.map(|letter| format!("-{letter}")).collect();
        names.extend(long_options(long).map(|(name, _)| format!("--{name}")));
        let status = if matches!(self.name, "grep" | "ls" | "sort" | "diff" | "awk") { 2 } else { 1 };
        Stop::Fail(
            status,
            format!("option `{option}` is not supported by this shell: {} are", names.join(" ")),
        )
    }

    /// Writes to the output.
    pub fn out(&mut self, bytes: impl AsRef<[u8]>) -> Outcome<()> {
        self.pending.extend_from_slice(bytes.as_ref());
        if self.pending.len() >= PENDING_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes a text and a newline to the output.
    pub fn line(&mut self, text: impl AsRef<[u8]>) -> Outcome<()> {
        self.pending.extend_from_slice(text.as_ref());
        self.out("\n")
    }

    pub fn flush(&mut self) -> Outcome<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let written = self.io.output.write(&self.pending);
        self.pending.clear();
        Ok(written?)
    }

    /// Writes a message with the name of the command to the errors.
    pub fn complain(&mut self, message: &str) -> Outcome<()> {
        self.flush()?;
        Ok(self.io.errors.write(format!("{}: {message}\n", self.name).as_bytes())?)
    }

    /// Writes the message about a path to the errors.
    pub fn complain_of(&mut self, path: &str, error: &std::io::Error) -> Outcome<()> {
        self.complain(&format!("{path}: {}", explain(error)))
    }

    /// Reads a file, or the input where the path is `-`.
    pub fn read(&mut self, path: &str) -> std::io::Result<Vec<u8>> {
        match path {
            "-" | "/dev/stdin" => Ok(self.io.input.read_all()),
            _ => self.shell.files.read(&self.shell.state.current, path),
        }
    }

    /// Reads a file, or fails with its name.
    pub fn read_or_fail(&mut self, path: &str, status: i32) -> Outcome<Vec<u8>> {
        self.read(path).map_err(|error| Stop::Fail(status, format!("{path}: {}", explain(&error))))
    }

    /// Reads all files, or the input where there are none. Files that cannot be read are complained of.
    pub fn read_inputs(&mut self, paths: &[String]) -> Outcome<(Vec<NamedInput>, bool)> {
        let (mut inputs, mut is_complete) = (Vec::new(), true);
        for path in paths_or_input(paths) {
            match self.read(&path) {
                Ok(bytes) => inputs.push((path, bytes)),
                Err(error) => {
                    self.complain_of(&path, &error)?;
                    is_complete = false;
                }
            }
        }
        Ok((inputs, is_complete))
    }

    /// Opens a file to write, which is made if it is missing.
    pub fn create(&self, path: &str, appends: bool) -> std::io::Result<Output> {
        self.shell.files.create(&self.shell.state.current, path, appends)
    }

    /// The names in a folder, sorted.
    pub fn names(&self, folder: &str) -> std::io::Result<Vec<String>> {
        self.shell.files.list(&self.shell.state.current, folder)
    }

    pub fn place(&self, path: &str) -> std::io::Result<Place> {
        self.shell.files.resolve(&self.shell.state.current, path)
    }
}

fn takes_value(known: &str, flag: char) -> bool {
    known.split_once(flag).is_some_and(|(_, rest)| rest.starts_with(':'))
}

/// The parts of `name=value`, of which the value may be missing.
pub fn split_value(text: &str) -> (&str, Option<&str>) {
    text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)))
}

/// The names of long options and their letters, from a text such as `lines=n bytes=c`.
pub fn long_options(names: &str) -> impl Iterator<Item = (&str, char)> {
    names.split_whitespace().filter_map(|option| {
        let (name, letter) = option.split_once('=')?;
        Some((name, letter.chars().next()?))
    })
}

/// The paths, or `-` for the input where there are none.
pub fn paths_or_input(paths: &[String]) -> Vec<String> {
    if paths.is_empty() { vec!["-".to_owned()] } else { paths.to_vec() }
}

/// The lines of a text, each with its newline.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

/// A line without its newline.
pub fn chomp(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Whether a zero byte near its beginning shows that a file is no text.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(8192).any(|byte| *byte == 0)
}

pub fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
