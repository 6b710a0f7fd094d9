//! Runs the syntax tree of a script. No command is a process: each is a function over streams.

mod call_command;
mod job;
mod redirect;
mod test;
mod trap;

use std::rc::Rc;

use crate::arithmetic;
use crate::shell::{MAX_FRAMES, Outcome, Shell, Stop};
use crate::stream::{Output, Streams};
use crate::syntax::{AndOr, Arm, ArmEnd, Command, Compound, List, Part, Pipeline, Word};

pub use job::{kill, time_command, wait};
pub use test::evaluate as evaluate_test;
pub use trap::trap;

impl Shell {
    /// Runs commands, and returns the status of the last one.
    pub fn list(&mut self, list: &List, io: &Streams) -> Outcome {
        let mut status = 0;
        for and_or in list {
            status =
                if and_or.is_background { self.background(and_or, io)? } else { self.and_or(and_or, io)? };
        }
        Ok(status)
    }

    fn and_or(&mut self, and_or: &AndOr, io: &Streams) -> Outcome {
        let count = and_or.rest.len();
        let mut status = self.pipeline(&and_or.first, count > 0, io)?;
        for (index, (is_and, pipeline)) in and_or.rest.iter().enumerate() {
            if *is_and == (status == 0) {
                status = self.pipeline(pipeline, index + 1 < count, io)?;
            }
        }
        Ok(status)
    }

    /// Runs a pipeline; where it is tested, its failure ends no shell with `-e`.
    fn pipeline(&mut self, pipeline: &Pipeline, is_tested: bool, io: &Streams) -> Outcome {
        let redirected = self.state.redirected.clone();
        let io = redirected.as_deref().unwrap_or(io);
        match pipeline.timing {
            None => self.run_pipeline(pipeline, is_tested, io),
            Some(timing) => job::time(io, timing, || self.run_pipeline(pipeline, is_tested, io)),
        }
    }

    fn run_pipeline(&mut self, pipeline: &Pipeline, is_tested: bool, io: &Streams) -> Outcome {
        let is_tested = is_tested || pipeline.is_negated;
        self.tested += u32::from(is_tested);
        let outcome = match pipeline.stages.as_slice() {
            [stage] => self.command(&stage.command, io),
            _ => self.stages(pipeline, io),
        };
        self.tested -= u32::from(is_tested);
        let mut status = outcome?;
        let is_checked = match pipeline.stages.as_slice() {
            [stage] => has_own_status(&stage.command),
            _ => true,
        };
        if is_checked && pipeline.stages.len() == 1 {
            self.state.stages.clear();
            self.state.stages.push(status);
        }
        if pipeline.is_negated {
            status = i32::from(status == 0);
        }
        self.state.status = status;
        if is_checked && !is_tested {
            self.check(status, io)?;
        }
        Ok(status)
    }

    /// Runs the trap of `ERR` after a failure, which ends a shell with `-e`.
    fn check(&mut self, status: i32, io: &Streams) -> Outcome<()> {
        if status == 0 || self.tested > 0 {
            return Ok(());
        }
        self.run_trap("ERR", status, io)?;
        if self.state.options.exits_on_error { Err(Stop::Exit(status)) } else { Ok(()) }
    }

    /// Runs each stage to its end over what the one before it wrote.
    fn stages(&mut self, pipeline: &Pipeline, io: &Streams) -> Outcome {
        let mut input = io.input.clone();
        let (mut failed, mut was_full) = (0, false);
        let mut statuses = Vec::with_capacity(pipeline.stages.len());
        let last = pipeline.stages.len() - 1;
        for (index, stage) in pipeline.stages.iter().enumerate() {
            let output = if index == last { io.output.clone() } else { Output::pipe() };
            let errors = if stage.pipes_errors { output.clone() } else { io.errors.clone() };
            let streams = Streams { input: input.clone(), output: output.clone(), errors, ..io.clone() };
            let run = |shell: &mut Self| shell.command(&stage.command, &streams);
            let outcome = match index == last && self.state.options.keeps_last_stage {
                true => self.with_own_streams(run),
                false => self.subshell(&streams, run),
            };
            let status = match outcome {
                Err(Stop::Pipe) if index < last => 141,
                other => other?,
            };
            statuses.push(status);
            // A command that wants no more, such as `head`, loses nothing.
            self.cut_pipe |= was_full && input.is_at_end();
            if index == last {
                self.state.stages = statuses;
                return Ok(if status == 0 && self.state.options.pipefail { failed } else { status });
            }
            if status != 0 {
                failed = status;
            }
            let written = output.take();
            if index > 0 {
                // Frees what the stage before wrote.
                input.read_all();
            }
            was_full = written.is_full();
            input = crate::stream::Input::of(written.bytes);
        }
        Ok(failed)
    }

    /// Runs something on a copy of the state, and then the trap of `EXIT` that it set.
    pub fn subshell(&mut self, io: &Streams, run: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let state = self.state.clone();
        let keeps_errors = self.state.options.traces_errors;
        let last_consumers = std::mem::take(&mut self.last_consumers);
        self.state.redirected = None;
        self.state.traps.retain(|condition, _| keeps_errors && condition == "ERR");
        let outcome = self.deeper(|shell| {
            let outcome = run(shell);
            shell.end(outcome, io)
        });
        self.state = state;
        self.last_consumers = last_consumers;
        match outcome {
            Err(Stop::Exit(status)) if self.depth == u32::MAX => Err(Stop::Exit(status)),
            Err(Stop::Exit(status) | Stop::Return(status)) => Ok(status),
            Err(Stop::Break(_) | Stop::Continue(_)) => Ok(0),
            other => other,
        }
    }

    /// Runs a command, and then the consumers of its `>( )`.
    fn command(&mut self, command: &Command, io: &Streams) -> Outcome {
        let consumers = self.consumers.len();
        let outcome = self.command_inside(command, io);
        if self.consumers.len() > consumers { self.consume(consumers, outcome) } else { outcome }
    }

    fn command_inside(&mut self, command: &Command, io: &Streams) -> Outcome {
        match command {
            Command::Simple(simple) => self.simple(simple, io),
            Command::Function(name, body) => {
                self.state.functions.insert(name.clone(), Rc::clone(body));
                Ok(0)
            }
            Command::Compound(compound, redirects) if redirects.is_empty() => self.compound(compound, io),
            Command::Compound(compound, redirects) => match self.redirect(redirects, io) {
                Ok(streams) => self.with_own_streams(|shell| shell.compound(compound, &streams)),
                Err(stop) => {
                    let status = self.report("", stop, io)?;
                    if !has_own_status(command) {
                        self.check(status, io)?;
                    }
                    Ok(status)
                }
            },
        }
    }

    /// Runs something whose streams are given, so that those of an `exec` before it do not count.
    fn with_own_streams(&mut self, run: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let before = self.state.redirected.take();
        let outcome = run(self);
        self.state.redirected = before;
        outcome
    }

    /// Writes the message of a failure, and returns its status.
    pub fn report(&mut self, name: &str, stop: Stop, io: &Streams) -> Outcome {
        let Stop::Fail(status, message) = stop else { return Err(stop) };
        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
        io.errors.write(format!("{name}{message}\n").as_bytes())?;
        Ok(status)
    }

    fn compound(&mut self, compound: &Compound, io: &Streams) -> Outcome {
        if self.frames >= MAX_FRAMES {
            return self.end_deep();
        }
        let is_loop =
            matches!(compound, Compound::Loop(..) | Compound::For(..) | Compound::ForArithmetic(..));
        self.frames += 1;
        self.state.loops += u32::from(is_loop);
        let outcome = self.compound_inside(compound, io);
        self.frames -= 1;
        self.state.loops -= u32::from(is_loop);
        match outcome {
            // An error of the words of a loop or `case`. A subshell ends by it, and what is around goes on.
            Err(stop @ Stop::Fail(..)) => self.end_with(stop, io),
            outcome => outcome,
        }
    }

    fn compound_inside(&mut self, compound: &Compound, io: &Streams) -> Outcome {
        match compound {
            Compound::Group(list) => self.list(list, io),
            Compound::Subshell(list) => self.subshell(io, |shell| shell.list(list, io)),
            Compound::If(arms, otherwise) => {
                for (condition, body) in arms {
                    if self.condition(condition, io)? {
                        return self.list(body, io);
                    }
                }
                self.list(otherwise, io)
            }
            Compound::Loop(is_until, condition, body) => {
                let mut status = 0;
                while self.condition(condition, io)? != *is_until {
                    let outcome = self.list(body, io);
                    if !goes_on(outcome, &mut status)? {
                        break;
                    }
                }
                Ok(status)
            }
            Compound::For(name, words, body) => self.for_each(name, words.as_deref(), body, io),
            Compound::ForArithmetic(parts, body) => self.for_arithmetic(parts, body, io),
            Compound::Case(word, arms) => {
                let text = self.expand_text(word, io)?;
                self.case(&text, arms, io)
            }
            Compound::Test(test) => match self.test(test, io) {
                Ok(holds) => Ok(i32::from(!holds)),
                Err(Stop::Fail(_, message)) => self.report("[[", Stop::Fail(2, message), io),
                Err(stop) => Err(stop),
            },
            Compound::Arithmetic(word) => match self.arithmetic_word(word, io) {
                Ok(value) => Ok(i32::from(value == 0)),
                Err(stop) => self.report("((", stop, io),
            },
        }
    }

    fn condition(&mut self, list: &List, io: &Streams) -> Outcome<bool> {
        self.tested += 1;
        let outcome = self.list(list, io);
        self.tested -= 1;
        Ok(outcome? == 0)
    }

    pub fn arithmetic_word(&mut self, word: &Word, io: &Streams) -> Outcome<i64> {
        let is_literal = word.iter().all(|part| matches!(part, Part::Literal(_) | Part::Quoted(_)));
        let text = self.expand_text(&[Part::Double(word.clone())], io)?;
        if is_literal { arithmetic::evaluate_literal(self, &text) } else { self.arithmetic(&text) }
    }

    fn for_each(&mut self, name: &str, words: Option<&[Word]>, body: &List, io: &Streams) -> Outcome {
        let values = match words {
            Some(words) => self.expand_words(words, io)?,
            None => self.state.positional.to_vec(),
        };
        let mut status = 0;
        for value in values {
            if let Err(stop) = self.set(name, value) {
                return self.report("", stop, io);
            }
            let outcome = self.list(body, io);
            if !goes_on(outcome, &mut status)? {
                break;
            }
        }
        Ok(status)
    }

    /// `for ((first; condition; step))`. An error of one of these ends the loop, as in bash.
    fn for_arithmetic(&mut self, [first, condition, step]: &[Word; 3], body: &List, io: &Streams) -> Outcome {
        let mut status = 0;
        let mut started = self.arithmetic_word(first, io);
        loop {
            let holds = started.and_then(|_| match condition.is_empty() {
                true => Ok(1),
                false => self.arithmetic_word(condition, io),
            });
            match holds {
                Ok(0) => return Ok(status),
                Ok(_) => {}
                Err(stop) => return self.report("((", stop, io),
            }
            let outcome = self.list(body, io);
            if !goes_on(outcome, &mut status)? {
                return Ok(status);
            }
            started = self.arithmetic_word(step, io);
        }
    }

    fn case(&mut self, text: &str, arms: &[Arm], io: &Streams) -> Outcome {
        let mut status = 0;
        let mut falls = false;
        for arm in arms {
            let mut is_met = falls;
            for pattern in &arm.patterns {
                if is_met {
                    break;
                }
                let pattern = self.expand_pattern(pattern, io)?;
                is_met = self.matches(&pattern, text)?;
            }
            if !is_met {
                continue;
            }
            status = self.list(&arm.body, io)?;
            match arm.end {
                ArmEnd::Leave => return Ok(status),
                ArmEnd::FallThrough => falls = true,
                ArmEnd::TestNext => falls = false,
            }
        }
        Ok(status)
    }
}

/// Whether the status of a command is its own. That of a group, a condition or a loop is the one of a command in it, which
/// ended a shell with `-e` already, or whose failure was tested, as in `[ -f x ] && cat x`.
fn has_own_status(command: &Command) -> bool {
    match command {
        Command::Simple(_) => true,
        Command::Compound(compound, _) => {
            matches!(**compound, Compound::Subshell(_) | Compound::Test(_) | Compound::Arithmetic(_))
        }
        Command::Function(..) => false,
    }
}

/// Whether a loop goes on after its body.
fn goes_on(outcome: Outcome, status: &mut i32) -> Outcome<bool> {
    match outcome {
        Ok(last) => *status = last,
        Err(Stop::Break(levels)) if levels <= 1 => {
            *status = 0;
            return Ok(false);
        }
        Err(Stop::Continue(levels)) if levels <= 1 => *status = 0,
        Err(Stop::Break(levels)) => return Err(Stop::Break(levels - 1)),
        Err(Stop::Continue(levels)) => return Err(Stop::Continue(levels - 1)),
        Err(stop) => return Err(stop),
    }
    Ok(true)
}
