//! `awk`: an interpreter of its own, since no kept crate has one that compiles to a component.

mod builtin;
mod expression;
mod lex;
mod parse;
mod record;
mod run;
mod stream;
mod syntax;
mod value;

use std::rc::Rc;

use crate::call::{Call, text_of};
use crate::escape::{self, Kind};
use crate::shell::{Outcome, Stop};
use record::Record;
use run::{Flow, Machine};
use syntax::When;
use value::{Array, Cell, Value};

/// Variables that awk itself reads and sets, in the order of their slots.
const NAMES: [&str; 14] = [
    "NF", "NR", "FNR", "FS", "OFS", "RS", "ORS", "FILENAME", "SUBSEP", "RSTART", "RLENGTH", "CONVFMT",
    "OFMT", "ENVIRON",
];
const NF: usize = 0;
const NR: usize = 1;
const FNR: usize = 2;
const FS: usize = 3;
const OFS: usize = 4;
const RS: usize = 5;
const ORS: usize = 6;
const FILENAME: usize = 7;
const SUBSEP: usize = 8;
const RSTART: usize = 9;
const RLENGTH: usize = 10;
const CONVFMT: usize = 11;
const OFMT: usize = 12;
const ENVIRON: usize = 13;

pub fn awk(call: &mut Call<'_>) -> Outcome {
    let options = call.options("F:v:f:", "field-separator=F assign=v file=f", true)?;
    let mut arguments = options.rest.clone();
    let mut source = String::new();
    for path in options.values('f') {
        source.push_str(&text_of(&call.read_or_fail(path, 2)?));
        source.push('\n');
    }
    if !options.has('f') {
        if arguments.is_empty() {
            return Err(Stop::Fail(2, "usage: awk [-F fs] [-v name=value] program [file…]".to_owned()));
        }
        source = arguments.remove(0);
    }
    let names = [&NAMES[..], &["ARGC", "ARGV"]].concat();
    let program = parse::parse(&source, &names)?;
    let mut machine = Machine::new(call, &program);
    set_variables(&mut machine, &arguments);
    if let Some(separator) = options.value('F') {
        let separator =
            if separator == "t" { "\t".to_owned() } else { escape::decode(separator, Kind::Shell).0 };
        machine.globals[FS] = Cell::Value(Value::Text(separator.into()));
    }
    for assignment in options.values('v') {
        if !machine.assign_argument(assignment) {
            return Err(Stop::Fail(2, format!("`{assignment}' is no assignment: write -v name=value")));
        }
    }
    machine.inputs = arguments.into();
    run(machine)
}

/// Sets the variables that awk itself has.
fn set_variables(machine: &mut Machine<'_, '_>, arguments: &[String]) {
    for (slot, value) in
        [(FS, " "), (OFS, " "), (RS, "\n"), (ORS, "\n"), (SUBSEP, "\x1c"), (CONVFMT, "%.6g"), (OFMT, "%.6g")]
    {
        machine.globals[slot] = Cell::Value(Value::Text(value.into()));
    }
    for slot in [NR, FNR, RSTART] {
        machine.globals[slot] = Cell::Value(Value::Number(0.0));
    }
    machine.globals[RLENGTH] = Cell::Value(Value::Number(-1.0));
    let environment = Array::default();
    for (name, value) in machine.call.shell.environment() {
        environment.borrow_mut().insert(name.into(), Value::Input(value.into()));
    }
    machine.globals[ENVIRON] = Cell::Array(environment);
    let listed = Array::default();
    for (index, argument) in std::iter::once("awk").chain(arguments.iter().map(String::as_str)).enumerate() {
        listed.borrow_mut().insert(index.to_string().into(), Value::Input(argument.into()));
    }
    machine.globals[NAMES.len()] =
        Cell::Value(Value::Number(f64::from(u32::try_from(arguments.len() + 1).unwrap_or(u32::MAX))));
    machine.globals[NAMES.len() + 1] = Cell::Array(listed);
}

fn run(mut machine: Machine<'_, '_>) -> Outcome {
    let program = machine.program;
    let begins = program.rules.iter().filter(|(when, _)| matches!(when, When::Begin));
    let mut flow = Flow::Next;
    for (_, body) in begins {
        flow = machine.rule(body.as_ref())?;
        if matches!(flow, Flow::Exit(_)) {
            break;
        }
    }
    let has_input = program.rules.iter().any(|(when, _)| !matches!(when, When::Begin));
    if has_input && !matches!(flow, Flow::Exit(_)) {
        while machine.next_record()? {
            flow = machine.record_rules()?;
            if matches!(flow, Flow::Exit(_)) {
                break;
            }
        }
    }
    let mut status = match flow {
        Flow::Exit(status) => status,
        _ => 0,
    };
    // `exit` in BEGIN or in a rule runs END too.
    for (_, body) in program.rules.iter().filter(|(when, _)| matches!(when, When::End)) {
        if let Flow::Exit(code) = machine.rule(body.as_ref())? {
            status = machine.exit_code.unwrap_or(code);
            break;
        }
    }
    machine.close_all()?;
    Ok(if machine.has_failed && status == 0 { 2 } else { status })
}

/// The text of a slot.
fn slot_text(globals: &[Cell], slot: usize) -> Rc<str> {
    match globals.get(slot) {
        Some(Cell::Value(value)) => value.text("%.6g"),
        _ => "".into(),
    }
}

/// A record without fields.
fn empty_record() -> Record {
    Record::new("".into())
}
