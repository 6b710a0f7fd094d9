//! A whole script: its limits and what is returned of its output.

use std::rc::Rc;

use toolgate_sdk::Error;

use crate::Ended;
use crate::files::Files;
use crate::parse;
use crate::shell::{Outcome, Shell, Stop, Value, Variable};
use crate::stream::{Buffer, Input, Output, PIPE_BYTES, Streams};

/// Longer scripts are data.
const MAX_SCRIPT_BYTES: usize = 1024 * 1024;

/// Bytes that are returned of the output and of the errors. A model reads all of it.
const MAX_OUTPUT_BYTES: usize = 96 * 1024;
const MAX_ERROR_BYTES: usize = 16 * 1024;

/// A script that writes more is ended.
const MAX_WRITTEN_BYTES: usize = 16 * 1024 * 1024;

pub struct Script<'s> {
    pub text: &'s str,
    /// Variables whose expansions are whole words.
    pub variables: &'s [(String, Argument)],
    pub input: Vec<u8>,
}

/// The value of a variable.
#[cfg_attr(not(any(test, target_family = "wasm")), allow(dead_code, reason = "definitions have them"))]
#[derive(Clone, Debug)]
pub enum Argument {
    Text(String),
    List(Vec<String>),
}

impl Script<'_> {
    pub fn run(self, files: Files) -> Result<Ended, Error> {
        if self.text.len() > MAX_SCRIPT_BYTES {
            return Err(Error::invalid("the script is longer than 1 MiB: write data into a file first"));
        }
        let list = match parse::parse(self.text) {
            Ok(list) => list,
            Err(message) => {
                return Ok(Ended { stderr: format!("{message}\n"), exit_code: 2, ..Ended::default() });
            }
        };
        let mut shell = Shell::new(files);
        self.set_variables(&mut shell);
        let output = Output::buffer(MAX_OUTPUT_BYTES, MAX_WRITTEN_BYTES);
        let errors = Output::buffer(MAX_ERROR_BYTES, MAX_WRITTEN_BYTES);
        let streams = Streams {
            input: Input::of(self.input),
            output: output.clone(),
            errors: errors.clone(),
            others: Rc::default(),
        };
        let outcome = shell.list(&list, &streams);
        let outcome = shell.end(outcome, &streams);
        let (output, errors) = (output.take(), errors.take());
        let mut notes = Vec::new();
        let exit_code = exit_code(outcome, &mut notes);
        if shell.depth == u32::MAX {
            notes.push(
                "the script was ended: functions, subshells and substitutions are nested too deep".to_owned(),
            );
        }
        if shell.cut_pipe {
            notes.push(format!(
                "a pipe takes {} MiB, and a command wrote more, which was cut: use a file",
                PIPE_BYTES >> 20
            ));
        }
        let stdout = show("stdout", output, &mut notes);
        let stderr = show("stderr", errors, &mut notes);
        Ok(Ended { stdout, stderr, exit_code, notes })
    }

    fn set_variables(&self, shell: &mut Shell) {
        shell.is_declared = !self.variables.is_empty();
        for (name, argument) in self.variables {
            let value = match argument {
                Argument::Text(text) => Value::Text(text.clone()),
                Argument::List(list) => Value::List(list.iter().cloned().enumerate().collect()),
            };
            let variable = Variable { value: Some(value), is_whole: true, ..Variable::default() };
            shell.state.scopes[0].insert(name.clone(), Rc::new(variable));
        }
    }
}

/// The exit status of a script, with a note of what ended it early.
fn exit_code(outcome: Outcome, notes: &mut Vec<String>) -> i32 {
    match outcome {
        Ok(status) | Err(Stop::Exit(status) | Stop::Return(status)) => status,
        Err(Stop::Break(_) | Stop::Continue(_)) => 0,
        Err(Stop::Fail(status, message)) => {
            notes.push(message);
            status
        }
        Err(Stop::Pipe) => {
            let most = MAX_WRITTEN_BYTES >> 20;
            notes.push(format!("the script was ended, since it wrote more than {most} MiB"));
            141
        }
    }
}

/// The text of an output, with a note of what is cut.
fn show(name: &str, buffer: Buffer, notes: &mut Vec<String>) -> String {
    let kept = buffer.bytes.len();
    if buffer.total > kept {
        notes.push(format!(
            "`{name}` has {} bytes, of which the first {kept} are given: write it into a file, or narrow it with `head`, `tail` or `grep`",
            buffer.total
        ));
    }
    match String::from_utf8(buffer.bytes) {
        Ok(text) => text,
        Err(error) => {
            let bytes = error.into_bytes();
            // A cut may be within a character.
            let is_cut = buffer.total > kept
                && bytes.utf8_chunks().last().is_some_and(|chunk| chunk.invalid().len() < 4);
            if !is_cut || bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count() > 1 {
                notes.push(format!(
                    "`{name}` is not UTF-8, and other bytes are shown as `\u{fffd}`: use `base64` for them"
                ));
            }
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }
}
