//! `trap`: the commands of `EXIT` and `ERR`. No signal reaches a script.

use std::rc::Rc;

use crate::call::Call;
use crate::escape;
use crate::parse;
use crate::shell::{Outcome, Shell, Stop, fail};
use crate::stream::Streams;

/// Signals that scripts name. Their commands are kept and never run.
const SIGNALS: [&str; 9] = ["HUP", "INT", "QUIT", "PIPE", "ALRM", "TERM", "USR1", "USR2", "CHLD"];

impl Shell {
    /// Runs the trap of a condition, if there is one. The status is the same after it.
    pub(super) fn run_trap(&mut self, condition: &str, status: i32, io: &Streams) -> Outcome<()> {
        // A trap does not run in itself.
        let Some((text, list)) = self.state.traps.remove(condition) else { return Ok(()) };
        self.state.status = status;
        let was_in_trap = std::mem::replace(&mut self.in_error_trap, condition == "ERR");
        let outcome = self.deeper(|shell| shell.list(&list, io));
        self.in_error_trap = was_in_trap;
        outcome?;
        self.state.status = status;
        if condition != "EXIT" {
            self.state.traps.entry(condition.to_owned()).or_insert((text, list));
        }
        Ok(())
    }

    /// Runs the trap of `EXIT`, and the consumers of an `exec`, when a shell ends. An `exit` in it gives another status.
    pub fn end(&mut self, outcome: Outcome, io: &Streams) -> Outcome {
        let (Ok(status) | Err(Stop::Exit(status) | Stop::Return(status))) = outcome else { return outcome };
        if self.depth < u32::MAX {
            self.run_trap("EXIT", status, io)?;
        }
        if !self.last_consumers.is_empty() {
            self.consumers.append(&mut self.last_consumers);
            return self.consume(0, outcome);
        }
        outcome
    }
}

/// `trap`
pub fn trap(call: &mut Call<'_>) -> Outcome {
    let arguments = match call.arguments {
        [first, rest @ ..] if first == "--" => rest,
        all => all,
    };
    let (action, conditions) = match arguments.split_first() {
        Some((action, conditions)) if action != "-p" => (action, conditions),
        shown => return list(call, shown.map_or(&[][..], |(_, conditions)| conditions)),
    };
    if conditions.is_empty() {
        return Err(Stop::Fail(2, "usage: trap [-p] [commands condition ...]".to_owned()));
    }
    let list = match action.as_str() {
        "-" | "" => None,
        text => Some(Rc::new(parse::parse(text).or_else(fail)?)),
    };
    for condition in conditions {
        let name = read_condition(condition);
        if !matches!(name.as_str(), "EXIT" | "ERR") && !SIGNALS.contains(&name.as_str()) {
            return fail(format!("`{condition}` is not supported by this shell: EXIT, ERR and signals are"));
        }
        match &list {
            Some(list) => {
                call.shell.state.traps.insert(name, (action.clone(), Rc::clone(list)));
            }
            None => drop(call.shell.state.traps.remove(&name)),
        }
    }
    Ok(0)
}

/// The name of a condition without `SIG`, also of one that is given by its number.
fn read_condition(text: &str) -> String {
    let name = text.to_ascii_uppercase();
    match name.strip_prefix("SIG").unwrap_or(&name) {
        "0" => "EXIT",
        "1" => "HUP",
        "2" => "INT",
        "15" => "TERM",
        name => name,
    }
    .to_owned()
}

/// Prints the traps of these conditions, or all.
fn list(call: &mut Call<'_>, conditions: &[String]) -> Outcome {
    let names: Vec<String> = conditions.iter().map(|condition| read_condition(condition)).collect();
    for (condition, (text, _)) in call.shell.state.traps.clone() {
        if !names.is_empty() && !names.contains(&condition) {
            continue;
        }
        let is_signal = SIGNALS.contains(&condition.as_str());
        let name = if is_signal { format!("SIG{condition}") } else { condition };
        call.line(format!("trap -- {} {name}", escape::quote_always(&text)))?;
    }
    Ok(0)
}
