//! A simple command: its words, assignments and streams, and then a function, a builtin or a command.

use std::collections::HashMap;
use std::rc::Rc;

use crate::call::Call;
use crate::commands;
use crate::shell::{Options, Outcome, Shell, Stop, Value, Variable, fail};
use crate::stream::Streams;
use crate::syntax::{Argument, Assigned, Assignment, Command, Simple, Word};

impl Shell {
    pub(super) fn simple(&mut self, simple: &Simple, io: &Streams) -> Outcome {
        let status = self.state.status;
        let consumers = self.consumers.len();
        if !self.in_error_trap {
            self.state.line = simple.line;
        }
        let arguments = match self.arguments(&simple.arguments, io) {
            Ok(arguments) => arguments,
            Err(stop) => return self.end_with(stop, io),
        };
        if self.state.options.traces && !arguments.is_empty() {
            let words: Vec<String> =
                arguments.iter().map(|argument| crate::escape::quote(argument)).collect();
            io.errors.write(format!("+ {}\n", words.join(" ")).as_bytes())?;
        }
        let Some((name, rest)) = arguments.split_first() else {
            return self.assign_alone(simple, io);
        };
        self.state.status = status;
        let streams = match self.redirect(&simple.redirects, io) {
            Ok(streams) => streams,
            Err(stop) => return self.report("", stop, io),
        };
        if name == "exec" && rest.is_empty() {
            self.state.redirected = Some(Rc::new(streams));
            self.last_consumers.extend(self.consumers.drain(consumers..));
            return Ok(0);
        }
        if !simple.redirects.is_empty() {
            return self.with_own_streams(|shell| shell.call_with(&simple.assignments, name, rest, &streams));
        }
        self.call_with(&simple.assignments, name, rest, &streams)
    }

    /// Assigns and redirects without a command.
    fn assign_alone(&mut self, simple: &Simple, io: &Streams) -> Outcome {
        let before = self.substitutions;
        for assignment in &simple.assignments {
            if let Err(stop) = self.assign(assignment, io) {
                return self.end_with(stop, io);
            }
            if self.state.options.exports_all {
                self.variable_mut(&assignment.name).is_exported = true;
            }
        }
        // That of the last `$( )`; a value such as `$?` is no command.
        let status = if self.substitutions == before { 0 } else { self.state.status };
        match self.redirect(&simple.redirects, io) {
            Ok(_) => Ok(status),
            Err(stop) => self.report("", stop, io),
        }
    }

    /// Calls a function or command with variables of its own.
    fn call_with(
        &mut self,
        assignments: &[Assignment],
        name: &str,
        rest: &[String],
        io: &Streams,
    ) -> Outcome {
        if assignments.is_empty() {
            return self.call(name, rest, io);
        }
        match self.exports_of(assignments, io) {
            Ok(scope) => self.state.scopes.push(scope),
            Err(stop) => return self.end_with(stop, io),
        }
        let outcome = self.call(name, rest, io);
        if self.state.scopes.len() > 1 {
            self.state.scopes.pop();
        }
        outcome
    }

    /// The variables of a command alone, as in `LANG=C sort`.
    fn exports_of(
        &mut self,
        assignments: &[Assignment],
        io: &Streams,
    ) -> Outcome<HashMap<String, Rc<Variable>>> {
        let mut scope = HashMap::new();
        for assignment in assignments {
            let Assigned::Word(word) = &assignment.value else { return fail("an array cannot be exported") };
            let value = Some(Value::Text(self.expand_text(word, io)?));
            let variable = Variable { value, is_exported: true, ..Variable::default() };
            scope.insert(assignment.name.clone(), Rc::new(variable));
        }
        Ok(scope)
    }

    /// An error of an expansion or assignment ends the script, as in bash.
    pub(super) fn end_with(&mut self, stop: Stop, io: &Streams) -> Outcome {
        let status = self.report("", stop, io)?;
        Err(Stop::Exit(status))
    }

    fn arguments(&mut self, arguments: &[Argument], io: &Streams) -> Outcome<Vec<String>> {
        let mut expanded = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match argument {
                Argument::Word(word) => self.expand_word(word, io, &mut expanded)?,
                Argument::Assignment(assignment) => match &assignment.value {
                    Assigned::Word(word) => {
                        let value = self.expand_text(word, io)?;
                        let sign = if assignment.appends { "+=" } else { "=" };
                        expanded.push(format!("{}{sign}{value}", assignment.name));
                    }
                    Assigned::Array(entries) => {
                        let entries = self.expand_entries(entries, io)?;
                        // The builtin declares the name; the entries follow.
                        let flags =
                            expanded.iter().filter(|flag| flag.starts_with('-')).cloned().collect::<String>();
                        let is_local =
                            expanded.first().is_some_and(|name| name != "export" && name != "readonly");
                        let is_local = is_local && !flags.contains('g');
                        self.writable(&assignment.name)?;
                        self.declare_array(&assignment.name, is_local, flags.contains('A'));
                        self.assign_entries(&assignment.name, entries, true)?;
                        expanded.push(assignment.name.clone());
                    }
                },
            }
        }
        Ok(expanded)
    }

    fn declare_array(&mut self, name: &str, is_local: bool, is_map: bool) {
        let value = Some(if is_map { Value::Map([].into()) } else { Value::List([].into()) });
        let variable = Rc::new(Variable { value, ..Variable::default() });
        let scope = if is_local { self.state.scopes.len() - 1 } else { 0 };
        self.state.scopes[scope].insert(name.to_owned(), variable);
    }

    fn assign(&mut self, assignment: &Assignment, io: &Streams) -> Outcome<()> {
        let name = &assignment.name;
        self.writable(name)?;
        match (&assignment.value, &assignment.subscript) {
            (Assigned::Word(word), Some(subscript)) => {
                let subscript = self.expand_text(subscript, io)?;
                let value = self.expand_text(word, io)?;
                self.set_entry(name, &subscript, value, assignment.appends)
            }
            (Assigned::Word(word), None) => {
                let value = self.expand_text(word, io)?;
                self.assign_text(name, value, assignment.appends)
            }
            (Assigned::Array(entries), _) => {
                // The new values may name the old ones, as in `a=("${a[@]:1}")`.
                let entries = self.expand_entries(entries, io)?;
                self.assign_entries(name, entries, assignment.appends)
            }
        }
    }

    /// Sets entries of an array, beside those that it has or instead of them.
    fn assign_entries(
        &mut self,
        name: &str,
        entries: Vec<(Option<String>, String)>,
        keeps: bool,
    ) -> Outcome<()> {
        let value = self.variable(name).and_then(|variable| variable.value.as_ref());
        let is_map = matches!(value, Some(Value::Map(_)));
        let mut next = match value.filter(|_| keeps) {
            Some(Value::List(list)) => list.last_key_value().map_or(0, |(last, _)| last + 1),
            Some(Value::Text(_)) => 1,
            _ => 0,
        };
        if !keeps || value.is_none() {
            self.variable_mut(name).value =
                Some(if is_map { Value::Map([].into()) } else { Value::List([].into()) });
        }
        for (key, value) in entries {
            let key = key.unwrap_or_else(|| next.to_string());
            self.set_entry(name, &key, value, false)?;
            next = if is_map { next + 1 } else { self.index(name, &key)? + 1 };
        }
        Ok(())
    }

    /// The keys and values of `(a [key]=b)`.
    fn expand_entries(
        &mut self,
        entries: &[(Option<Word>, Word)],
        io: &Streams,
    ) -> Outcome<Vec<(Option<String>, String)>> {
        let mut expanded = Vec::with_capacity(entries.len());
        for (key, word) in entries {
            match key {
                Some(key) => expanded.push((Some(self.expand_text(key, io)?), self.expand_text(word, io)?)),
                None => {
                    expanded.extend(self.expand_words([word], io)?.into_iter().map(|value| (None, value)))
                }
            }
        }
        Ok(expanded)
    }

    /// Sets a variable, which may be one of integers.
    pub fn assign_text(&mut self, name: &str, value: String, appends: bool) -> Outcome<()> {
        let old = self.get(name).unwrap_or_default().to_owned();
        if self.variable(name).is_some_and(|variable| variable.is_integer) {
            let added = if appends { self.arithmetic(&old)? } else { 0 };
            let value = self.arithmetic(&value)?.wrapping_add(added);
            return self.set(name, value.to_string());
        }
        self.set(name, if appends { old + &value } else { value })
    }

    /// Calls a function or a command by its name.
    pub fn call(&mut self, name: &str, arguments: &[String], io: &Streams) -> Outcome {
        if let Some(body) = self.state.functions.get(name).cloned() {
            return self.call_function(name, &body, arguments, io);
        }
        self.call_command(name, arguments, io)
    }

    fn call_function(&mut self, name: &str, body: &Command, arguments: &[String], io: &Streams) -> Outcome {
        let hides_trap = !self.state.options.traces_errors;
        let trap = if hides_trap { self.state.traps.remove("ERR") } else { None };
        self.state.calls.push(name.to_owned());
        let calls = self.state.calls.len();
        let loops = std::mem::take(&mut self.state.loops);
        let positional = std::mem::replace(&mut self.state.positional, Rc::new(arguments.to_vec()));
        self.state.scopes.push(HashMap::new());
        let scopes = self.state.scopes.len();
        let outcome = self.deeper(|shell| shell.command(body, io));
        self.state.scopes.truncate(scopes - 1);
        self.state.calls.truncate(calls - 1);
        self.state.loops = loops;
        self.state.positional = positional;
        if let Some(trap) = trap {
            self.state.traps.entry("ERR".to_owned()).or_insert(trap);
        }
        match outcome {
            Err(Stop::Return(status)) => Ok(status),
            other => other,
        }
    }

    /// Calls a command, not a function.
    pub fn call_command(&mut self, name: &str, arguments: &[String], io: &Streams) -> Outcome {
        let base = match name.rsplit_once('/') {
            Some(("/bin" | "/usr/bin", base)) => base,
            _ => name,
        };
        let Some(run) = commands::find(base) else {
            if name.contains('/') {
                return self.run_file(name, arguments, Options::default(), io);
            }
            let message = format!("command not found; {}", commands::HINT);
            return self.report(name, Stop::Fail(127, message), io);
        };
        let mut call = Call::new(self, base, arguments, io);
        let outcome = run(&mut call).and_then(|status| call.flush().map(|()| status));
        match outcome {
            Err(Stop::Fail(status, message)) => {
                call.flush()?;
                self.report(base, Stop::Fail(status, message), io)
            }
            Err(stop) => {
                call.flush()?;
                Err(stop)
            }
            ok => ok,
        }
    }

    /// Runs a script of the workspace.
    pub fn run_file(&mut self, path: &str, arguments: &[String], options: Options, io: &Streams) -> Outcome {
        let script = match self.files.read(&self.state.current, path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => {
                let message = crate::files::explain(&error);
                let status = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
                return self.report(path, Stop::Fail(status, message), io);
            }
        };
        let first = script.lines().next().unwrap_or_default();
        if first.starts_with("#!") && !first.contains("sh") {
            let message = format!("`{first}` is no shell: this shell runs its own scripts alone");
            return self.report(path, Stop::Fail(126, message), io);
        }
        let source = Value::List([(0, path.to_owned())].into());
        let source = Rc::new(Variable { value: Some(source), ..Variable::default() });
        let scope = HashMap::from([("BASH_SOURCE".to_owned(), source)]);
        self.run_script(&script, (path, arguments), scope, options, io)
    }

    /// Runs a command line in a new shell, as `sh -c` does.
    pub fn run_line(&mut self, script: &str, io: &Streams) -> Outcome {
        self.run_script(script, ("sh", &[]), HashMap::new(), Options::default(), io)
    }

    /// Runs a script in a new shell, which knows exported variables and those of `scope` alone.
    pub fn run_script(
        &mut self,
        script: &str,
        (name, arguments): (&str, &[String]),
        mut scope: HashMap<String, Rc<Variable>>,
        options: Options,
        io: &Streams,
    ) -> Outcome {
        let list = match crate::parse::parse(script) {
            Ok(list) => list,
            Err(message) => return self.report(name, Stop::Fail(2, message), io),
        };
        let positional = Rc::new(arguments.to_vec());
        self.subshell(io, |shell| {
            let environment = shell.environment();
            let separators = Variable { value: Some(Value::Text(" \t\n".to_owned())), ..Variable::default() };
            scope.insert("IFS".to_owned(), Rc::new(separators));
            shell.state.scopes = vec![scope];
            environment.iter().for_each(|(name, value)| shell.export(name, value));
            shell.state.functions.clear();
            shell.state.options = options;
            shell.state.calls.clear();
            shell.state.loops = 0;
            shell.state.positional = positional;
            shell.state.name = name.to_owned();
            let tested = std::mem::take(&mut shell.tested);
            let outcome = shell.list(&list, io);
            shell.tested = tested;
            outcome
        })
    }
}
