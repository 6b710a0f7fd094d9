//! What awk reads and writes: records, `getline`, `print` and `printf`.

use std::rc::Rc;

use super::record::Record;
use super::run::{Machine, fault};
use super::syntax::{Expression, Redirect, Source};
use super::value::Value;
use super::{FILENAME, FNR, NR, OFMT, OFS, ORS, RS, slot_text};
use crate::call::text_of;
use crate::commands::Spec;
use crate::shell::Outcome;
use crate::stream::{Input, Output, Streams};

impl Machine<'_, '_> {
    /// Reads one record from an input.
    fn read_record(&mut self, input: &Input) -> Outcome<Option<Rc<str>>> {
        if input.is_at_end() {
            return Ok(None);
        }
        let separator = slot_text(&self.globals, RS);
        if separator.len() == 1 {
            let end = separator.as_bytes()[0];
            let mut bytes = input.read_until(end);
            if bytes.last() == Some(&end) {
                bytes.pop();
            }
            return Ok(Some(text_of(&bytes).into()));
        }
        if separator.is_empty() {
            let mut lines = Vec::new();
            loop {
                let line = input.read_until(b'\n');
                let text = text_of(crate::call::chomp(&line));
                if text.is_empty() && (!lines.is_empty() || line.is_empty()) {
                    break;
                }
                if !text.is_empty() {
                    lines.push(text);
                }
            }
            return Ok(if lines.is_empty() { None } else { Some(lines.join("\n").into()) });
        }
        let regular = self.regular(&separator)?;
        Ok(Some(input.read_with(|rest| match regular.find(rest, 0).filter(|(start, end)| end > start) {
            Some((start, end)) => (text_of(&rest[..start]).into(), end),
            None => (text_of(rest).into(), rest.len()),
        })))
    }

    /// The next record of the main input.
    fn next_text(&mut self) -> Outcome<Option<Rc<str>>> {
        loop {
            if let Some(input) = self.current.clone() {
                if let Some(text) = self.read_record(&input)? {
                    self.add_one(NR);
                    self.add_one(FNR);
                    return Ok(Some(text));
                }
                self.current = None;
            }
            let Some(path) = self.inputs.pop_front() else {
                if self.has_read {
                    return Ok(None);
                }
                self.has_read = true;
                self.current = Some(self.call.io.input.clone());
                continue;
            };
            if path.contains('=') && self.assign_argument(&path) {
                continue;
            }
            self.has_read = true;
            self.set_slot(FNR, Value::Number(0.0));
            self.set_slot(FILENAME, Value::Text(path.as_str().into()));
            if path == "-" {
                self.current = Some(self.call.io.input.clone());
                continue;
            }
            match self.call.read(&path) {
                Ok(bytes) => self.current = Some(Input::of(bytes)),
                Err(error) => {
                    self.call.complain_of(&path, &error)?;
                    self.has_failed = true;
                }
            }
        }
    }

    pub fn next_record(&mut self) -> Outcome<bool> {
        match self.next_text()? {
            Some(text) => {
                self.record = Record::new(text);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    pub fn getline(&mut self, source: &Source, target: Option<&Expression>) -> Outcome<Value> {
        let text = match source {
            Source::Input => self.next_text()?,
            Source::File(path) | Source::Command(path) => {
                let name = self.evaluate(path)?.text("%.6g");
                if !self.readers.contains_key(&name) {
                    let input = if matches!(source, Source::Command(_)) {
                        let output = Output::pipe();
                        let streams = Streams { output: output.clone(), ..self.call.io.clone() };
                        self.call.shell.run_line(&name, &streams)?;
                        Input::of(output.take().bytes)
                    } else {
                        match self.call.read(&name) {
                            Ok(bytes) => Input::of(bytes),
                            Err(_) => return Ok(Value::Number(-1.0)),
                        }
                    };
                    self.readers.insert(Rc::clone(&name), input);
                }
                let input = self.readers.get(&name).cloned().unwrap_or_default();
                let text = self.read_record(&input)?;
                if text.is_some() && matches!(source, Source::Command(_)) {
                    self.add_one(NR);
                }
                text
            }
        };
        let Some(text) = text else { return Ok(Value::Number(0.0)) };
        match target {
            Some(target) => self.assign(target, Value::Input(text))?,
            None => self.record = Record::new(text),
        }
        Ok(Value::Number(1.0))
    }

    pub fn print(
        &mut self,
        arguments: &[Expression],
        is_format: bool,
        target: Option<&(Redirect, Expression)>,
    ) -> Outcome<()> {
        let text = if is_format { self.sprintf(arguments)? } else { self.output_record(arguments)? };
        let Some((kind, target)) = target else { return self.call.out(text) };
        let name = self.evaluate(target)?.text("%.6g");
        if &*name == "/dev/stdout" {
            return self.call.out(text);
        }
        if !self.writers.contains_key(&name) {
            let output = match (&*name, kind) {
                ("/dev/stderr" | "cat 1>&2" | "cat >&2", _) => self.call.io.errors.clone(),
                (_, Redirect::Command) => Output::pipe(),
                (path, kind) => {
                    let shell = &self.call.shell;
                    shell.files.create(&shell.state.current, path, *kind == Redirect::Append)?
                }
            };
            self.writers.insert(Rc::clone(&name), (*kind, output, Vec::new()));
        }
        if let Some((_, output, pending)) = self.writers.get_mut(&name) {
            pending.extend_from_slice(text.as_bytes());
            if pending.len() > 65_536 || &*name == "/dev/stderr" {
                output.write(&std::mem::take(pending))?;
            }
        }
        Ok(())
    }

    /// The record that `print` writes, with its separators.
    fn output_record(&mut self, arguments: &[Expression]) -> Outcome<String> {
        let mut text = String::new();
        if arguments.is_empty() {
            text.push_str(&self.record_text());
        }
        let (joiner, format) = (slot_text(&self.globals, OFS), slot_text(&self.globals, OFMT));
        for (index, argument) in arguments.iter().enumerate() {
            if index > 0 {
                text.push_str(&joiner);
            }
            text.push_str(&self.evaluate(argument)?.show(&format));
        }
        text.push_str(&slot_text(&self.globals, ORS));
        Ok(text)
    }

    /// Closes an output or input; a command runs now over what was printed to it.
    pub fn close(&mut self, name: &Rc<str>) -> Outcome<Option<i32>> {
        let was_read = self.readers.remove(name).is_some();
        let Some((kind, output, pending)) = self.writers.remove(name) else {
            return Ok(was_read.then_some(0));
        };
        output.write(&pending)?;
        if kind != Redirect::Command
            || !matches!(output, Output::Buffer(_))
            || name.starts_with("/dev/")
            || name.starts_with("cat 1>&2")
        {
            return Ok(Some(0));
        }
        self.call.flush()?;
        let streams = Streams { input: Input::of(output.take().bytes), ..self.call.io.clone() };
        self.call.shell.run_line(name, &streams).map(Some)
    }

    pub fn close_all(&mut self) -> Outcome<()> {
        let mut names: Vec<Rc<str>> = self.writers.keys().cloned().collect();
        names.sort_unstable();
        for name in names {
            self.close(&name)?;
        }
        Ok(())
    }

    /// `sprintf`, and `printf` without its target.
    pub fn sprintf(&mut self, arguments: &[Expression]) -> Outcome<String> {
        let Some((format, rest)) = arguments.split_first() else { return fault("a format expected") };
        let format = self.evaluate(format)?.text("%.6g");
        let mut values = Vec::with_capacity(rest.len());
        for argument in rest {
            values.push(self.evaluate(argument)?);
        }
        let mut values = values.into_iter();
        let mut text = String::new();
        let mut rest = &*format;
        while let Some(start) = rest.find('%') {
            text.push_str(&rest[..start]);
            rest = &rest[start..];
            #[expect(clippy::cast_possible_truncation, reason = "a width, which is limited")]
            let parsed = Spec::parse(rest, || values.next().map_or(0, |value| value.number() as i64));
            let Some((spec, length)) = parsed else {
                text.push_str(rest);
                return Ok(text);
            };
            rest = &rest[length..];
            if spec.kind == '%' {
                text.push('%');
                continue;
            }
            let value = values.next().unwrap_or_default();
            text.push_str(&self.convert(&spec, &value)?);
        }
        text.push_str(rest);
        Ok(text)
    }

    /// Writes a value as one conversion of a format says.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float beyond the range becomes its end, and the code of a sign"
    )]
    fn convert(&self, spec: &Spec, value: &Value) -> Outcome<String> {
        Ok(match spec.kind {
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => spec.integer(value.number().trunc() as i64),
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' => spec.float(value.number()),
            'c' => match value {
                Value::Number(code) => {
                    spec.text(&char::from_u32(*code as u32).unwrap_or_default().to_string())
                }
                value => spec.text(&value.show("%.6g").chars().take(1).collect::<String>()),
            },
            's' => spec.text(&value.show(&self.format())),
            kind => {
                return fault(format!(
                    "`%{kind}` is not supported by this shell: %d %i %u %x %X %o %f %e %g %c %s are"
                ));
            }
        })
    }
}
