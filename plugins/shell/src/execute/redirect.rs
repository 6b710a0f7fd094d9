//! Redirections.

use std::cell::RefCell;
use std::rc::Rc;

use crate::files::explain;
use crate::shell::{Outcome, Shell, fail};
use crate::stream::{Input, Output, Streams};
use crate::syntax::{Redirect, Target};

impl Shell {
    pub fn redirect(&mut self, redirects: &[Redirect], io: &Streams) -> Outcome<Streams> {
        let mut streams = io.clone();
        for redirect in redirects {
            if let Some(other) = redirect.descriptors.iter().find(|descriptor| **descriptor > 2) {
                return fail(format!("descriptor {other} is not supported by this shell: 0, 1 and 2 are"));
            }
            match &redirect.target {
                Target::Text(word) => {
                    let text = self.expand_text(&word.borrow(), io)?;
                    streams.input = Input::of(text.into_bytes());
                }
                Target::Read(word) => {
                    let path = self.expand_text(word, io)?;
                    if path != "/dev/stdin" {
                        let read = self.files.read(&self.state.current, &path);
                        streams.input =
                            Input::of(read.or_else(|error| fail(format!("{path}: {}", explain(&error))))?);
                    }
                }
                Target::Write(word) | Target::Append(word) => {
                    let path = self.expand_text(word, io)?;
                    let appends = matches!(redirect.target, Target::Append(_));
                    let output = self.open_output(&path, appends, &streams)?;
                    redirect
                        .descriptors
                        .iter()
                        .for_each(|descriptor| put(&mut streams, *descriptor, output.clone()));
                }
                Target::Descriptor(word) => {
                    let number = self.expand_text(word, io)?;
                    let descriptor = redirect.descriptors.first().copied().unwrap_or(1);
                    match number.as_str() {
                        "0" if descriptor == 0 => {}
                        "1" | "2" => {
                            let output =
                                if number == "1" { streams.output.clone() } else { streams.errors.clone() };
                            put(&mut streams, descriptor, output);
                        }
                        "-" => put(&mut streams, descriptor, Output::Null),
                        _ if number.parse::<u32>().is_ok() => {
                            return fail(format!(
                                "descriptor {number} is not supported by this shell: 0, 1 and 2 are"
                            ));
                        }
                        _ => {
                            let output = self.open_output(&number, false, &streams)?;
                            put(&mut streams, 1, output.clone());
                            put(&mut streams, 2, output);
                        }
                    }
                }
            }
        }
        Ok(streams)
    }

    fn open_output(&mut self, path: &str, appends: bool, streams: &Streams) -> Outcome<Output> {
        match path {
            "/dev/null" => return Ok(Output::Null),
            "/dev/stdout" => return Ok(streams.output.clone()),
            "/dev/stderr" => return Ok(streams.errors.clone()),
            _ => {}
        }
        match self.files.create(&self.state.current, path, appends) {
            Ok(file) => Ok(Output::File(Rc::new(RefCell::new(file)))),
            Err(error) => fail(format!("{path}: {}", explain(&error))),
        }
    }
}

fn put(streams: &mut Streams, descriptor: u32, output: Output) {
    match descriptor {
        0 => streams.input = Input::default(),
        1 => streams.output = output,
        _ => streams.errors = output,
    }
}
