//! The state of a shell: variables, functions and options.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use regex::Regex;

use crate::files::Files;
use crate::stream::{Output, Streams};
use crate::syntax::{Command, List};
use crate::wildcard;

/// Nested calls of functions, substitutions and subshells. Each takes some stack.
pub const MAX_DEPTH: u32 = 100;

/// Compound commands in one another, of all functions that run.
pub const MAX_FRAMES: u32 = 250;

/// Compiled patterns that are kept.
const MAX_REGEXES: usize = 200;

/// The longest text that is compared with `!(…)`, for which each of its parts is.
const MAX_NEGATED_BYTES: usize = 1024;

/// Why a command ends without a status of its own.
#[derive(Debug)]
pub enum Stop {
    /// The command failed with this status and message.
    Fail(i32, String),
    /// The output has no reader.
    Pipe,
    Exit(i32),
    Return(i32),
    Break(u32),
    Continue(u32),
}

impl Stop {
    /// The same, with another status if it is a failure.
    pub fn with_status(self, status: i32) -> Self {
        match self {
            Self::Fail(_, message) => Self::Fail(status, message),
            stop => stop,
        }
    }
}

pub type Outcome<T = i32> = Result<T, Stop>;

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Pipe,
            _ => Self::Fail(1, crate::files::explain(&error)),
        }
    }
}

pub fn fail<T>(message: impl Into<String>) -> Outcome<T> {
    Err(Stop::Fail(1, message.into()))
}

/// Whether a text can be the name of a variable, in awk too.
pub fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    List(BTreeMap<usize, String>),
    Map(BTreeMap<String, String>),
}

#[derive(Clone, Debug, Default)]
pub struct Variable {
    pub value: Option<Value>,
    pub is_exported: bool,
    pub is_readonly: bool,
    pub is_integer: bool,
    /// `declare -n`: its value is the name of the variable that it stands for.
    pub is_reference: bool,
    /// An argument of a declared tool: its expansion is neither split nor a pattern.
    pub is_whole: bool,
}

#[derive(Clone, Copy, Default)]
pub struct Options {
    /// `-e`
    pub exits_on_error: bool,
    /// `-u`
    pub refuses_unset: bool,
    pub pipefail: bool,
    /// `-E`: functions have the trap of `ERR` too.
    pub traces_errors: bool,
    /// `-f`
    pub no_glob: bool,
    /// `-a`
    pub exports_all: bool,
    /// `-x`
    pub traces: bool,
    /// `shopt -s nullglob`
    pub null_glob: bool,
    /// `shopt -s dotglob`
    pub dot_glob: bool,
    /// `shopt -s nocasematch`
    pub ignores_case: bool,
    /// `shopt -s globstar`
    pub globstar: bool,
    /// `shopt -s lastpipe`: the last stage of a pipeline is no subshell.
    pub keeps_last_stage: bool,
    /// `shopt -s inherit_errexit`: `-e` counts in `$( )` too.
    pub inherits_exit: bool,
}

/// The state that a subshell gets a copy of.
#[derive(Clone, Default)]
pub struct State {
    /// The global variables, then those of each function that runs.
    pub scopes: Vec<HashMap<String, Rc<Variable>>>,
    pub functions: HashMap<String, Rc<Command>>,
    pub positional: Rc<Vec<String>>,
    pub current: String,
    pub options: Options,
    pub status: i32,
    /// The line of the simple command that runs, for `LINENO`.
    pub line: usize,
    pub name: String,
    /// The streams of commands after an `exec` with redirections alone.
    pub redirected: Option<Rc<Streams>>,
    /// The commands of `trap`, by condition, as text and as they run.
    pub traps: BTreeMap<String, (String, Rc<List>)>,
    /// The statuses of the last pipeline, for `PIPESTATUS`.
    pub stages: Vec<i32>,
    /// The functions that run, outermost first, for `FUNCNAME`.
    pub calls: Vec<String>,
    /// Loops of the function that runs, one in another.
    pub loops: u32,
    /// Where `getopts` goes on: the number of an argument such as `-abc`, and the byte in it.
    pub next_option: (usize, usize),
    /// The folders of `pushd`, the last one first to return to.
    pub folders: Vec<String>,
    /// The commands before an `&`, which have ended.
    pub jobs: Vec<Job>,
}

/// A command that was written with `&`.
#[derive(Clone, Copy)]
pub struct Job {
    /// Its `$!`.
    pub id: u32,
    pub status: i32,
    /// Whether `wait` returned its status already.
    pub is_waited: bool,
}

/// The commands of `>( )`, which run after the command that writes to them.
pub struct Consumer {
    pub input: Output,
    pub list: Rc<List>,
    pub io: Streams,
}

#[derive(Default)]
pub struct Shell {
    pub state: State,
    pub files: Files,
    pub depth: u32,
    /// Compound commands in one another, over all calls of functions.
    pub frames: u32,
    /// Greater than zero where a failure does not end a shell with `-e`.
    pub tested: u32,
    pub random: u64,
    /// Whether the script is a declared tool, whose arguments are never parsed.
    pub is_declared: bool,
    /// Whether the trap of `ERR` runs, in which `LINENO` is the line of the failed command.
    pub in_error_trap: bool,
    /// How often `$( )` ran: the status of an assignment is that of the last one in it.
    pub substitutions: u64,
    /// Whether a pipe was full, so that a command was cut short.
    pub cut_pipe: bool,
    /// Consumers of the commands that run.
    pub consumers: Vec<Consumer>,
    /// Consumers of an `exec`, which run when their shell ends.
    pub last_consumers: Vec<Consumer>,
    /// How many jobs there were, in subshells too.
    pub started_jobs: u32,
    regexes: HashMap<String, Regex>,
}

impl Shell {
    pub fn new(files: Files) -> Self {
        let root = files.root.clone();
        let mut variables = HashMap::new();
        for (name, value, is_exported) in [
            ("HOME", root.as_str(), true),
            ("PWD", &root, true),
            ("PATH", "/usr/bin:/bin", true),
            ("USER", "agent", true),
            ("SHELL", "/bin/bash", true),
            ("LANG", "C.UTF-8", true),
            ("IFS", " \t\n", false),
        ] {
            let value = Some(Value::Text(value.to_owned()));
            let variable = Variable { value, is_exported, ..Variable::default() };
            variables.insert(name.to_owned(), Rc::new(variable));
        }
        let state = State {
            scopes: vec![variables],
            current: root.clone(),
            line: 1,
            name: "shell".to_owned(),
            next_option: (1, 1),
            ..State::default()
        };
        Self { state, files, random: seed(), ..Self::default() }
    }

    pub fn variable(&self, name: &str) -> Option<&Variable> {
        let found = self.state.scopes.iter().rev().find_map(|scope| scope.get(name))?;
        if found.is_reference { self.scope_of(self.target(name)).1 } else { Some(found) }
    }

    /// The name of the variable that a name stands for. A reference to a reference is none.
    fn target<'n>(&'n self, name: &'n str) -> &'n str {
        match self.state.scopes.iter().rev().find_map(|scope| scope.get(name)).map(Rc::as_ref) {
            Some(Variable { is_reference: true, value: Some(Value::Text(target)), .. }) => target,
            _ => name,
        }
    }

    /// The innermost scope with a variable that is no reference, and the variable.
    fn scope_of(&self, name: &str) -> (usize, Option<&Variable>) {
        let mut scopes = self.state.scopes.iter().enumerate().rev();
        let found = scopes.find_map(|(index, scope)| {
            let variable = scope.get(name).filter(|variable| !variable.is_reference)?;
            Some((index, Some(variable.as_ref())))
        });
        found.unwrap_or((0, None))
    }

    /// The variable, made in the global scope if it is new.
    pub fn variable_mut(&mut self, name: &str) -> &mut Variable {
        let name = self.target(name).to_owned();
        let scope = self.scope_of(&name).0;
        Rc::make_mut(self.state.scopes[scope].entry(name).or_default())
    }

    /// The value of a variable without subscript: of an array the entry 0.
    pub fn get(&self, name: &str) -> Option<&str> {
        match self.variable(name)?.value.as_ref()? {
            Value::Text(text) => Some(text),
            Value::List(list) => list.get(&0).map(String::as_str),
            Value::Map(map) => map.get("0").map(String::as_str),
        }
    }

    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Outcome<()> {
        self.writable(name)?;
        let value = value.into();
        let variable = self.variable_mut(name);
        match &mut variable.value {
            Some(Value::List(list)) => drop(list.insert(0, value)),
            Some(Value::Map(map)) => drop(map.insert("0".to_owned(), value)),
            other => *other = Some(Value::Text(value)),
        }
        Ok(())
    }

    pub fn writable(&self, name: &str) -> Outcome<()> {
        match self.variable(name) {
            Some(variable) if variable.is_readonly => fail(format!("{name}: readonly variable")),
            _ => Ok(()),
        }
    }

    pub fn unset(&mut self, name: &str) {
        if let Some(scope) = self.state.scopes.iter_mut().rev().find(|scope| scope.contains_key(name)) {
            scope.remove(name);
        }
    }

    /// Exported variables, sorted by name.
    pub fn environment(&self) -> Vec<(String, String)> {
        let mut names: Vec<&String> = self.state.scopes.iter().flat_map(HashMap::keys).collect();
        names.sort_unstable();
        names.dedup();
        let exported =
            names.into_iter().filter(|name| self.variable(name).is_some_and(|variable| variable.is_exported));
        exported.filter_map(|name| Some((name.clone(), self.get(name)?.to_owned()))).collect()
    }

    /// Compiles a regular expression, or returns it from the cache.
    pub fn regex(&mut self, source: &str) -> Outcome<Regex> {
        if let Some(regex) = self.regexes.get(source) {
            return Ok(regex.clone());
        }
        let regex = wildcard::compile(source).or_else(fail)?;
        if self.regexes.len() >= MAX_REGEXES {
            self.regexes.clear();
        }
        self.regexes.insert(source.to_owned(), regex.clone());
        Ok(regex)
    }

    /// Whether a whole text matches a pattern of the shell.
    pub fn matches(&mut self, pattern: &str, text: &str) -> Outcome<bool> {
        let ignores_case = self.state.options.ignores_case;
        if !wildcard::is_pattern(pattern) && !ignores_case {
            return Ok(wildcard::unescape(pattern) == text);
        }
        if let Some((before, inside, after)) = wildcard::negation(pattern) {
            let inside = format!("@({inside})");
            return self.deeper(|shell| shell.matches_negation(before, &inside, after, text));
        }
        let flags = if ignores_case { "(?i)" } else { "" };
        Ok(self
            .regex(&format!("{flags}^(?:{})$", wildcard::translate(pattern, false, false)))?
            .is_match(text))
    }

    /// Whether a whole text matches one of several patterns.
    pub fn matches_any(&mut self, patterns: &[String], text: &str) -> Outcome<bool> {
        for pattern in patterns {
            if self.matches(pattern, text)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a text is one that matches `before`, one that does not match `inside`, and one that matches `after`.
    fn matches_negation(&mut self, before: &str, inside: &str, after: &str, text: &str) -> Outcome<bool> {
        if text.len() > MAX_NEGATED_BYTES {
            return fail(format!("`!(…)` takes texts of at most {MAX_NEGATED_BYTES} bytes in this shell"));
        }
        let places: Vec<usize> = (0..=text.len()).filter(|index| text.is_char_boundary(*index)).collect();
        for start in &places {
            if !self.matches(before, &text[..*start])? {
                continue;
            }
            for end in places.iter().filter(|end| *end >= start) {
                if self.matches(after, &text[*end..])? && !self.matches(inside, &text[*start..*end])? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    pub fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Runs something one level deeper, up to a limit.
    pub fn deeper<T>(&mut self, run: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        if self.depth >= MAX_DEPTH {
            return self.end_deep();
        }
        self.depth += 1;
        let outcome = run(self);
        if self.depth != u32::MAX {
            self.depth -= 1;
        }
        outcome
    }
}

impl Shell {
    /// Ends the script, since it is nested too deep. A caller would only try again.
    pub fn end_deep<T>(&mut self) -> Outcome<T> {
        self.depth = u32::MAX;
        Err(Stop::Exit(2))
    }
}

fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) | 1
}

impl Shell {
    /// Sets an exported variable.
    pub fn export(&mut self, name: &str, value: &str) {
        let value = Some(Value::Text(value.to_owned()));
        let variable = Variable { value, is_exported: true, ..Variable::default() };
        self.state.scopes[0].insert(name.to_owned(), Rc::new(variable));
    }
}
