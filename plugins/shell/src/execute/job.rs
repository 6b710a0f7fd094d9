//! `&`, `wait`, `>( )` and `time`. No command runs beside another: that before an `&` runs to its end at once.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use crate::call::Call;
use crate::shell::{Consumer, Job, Outcome, Shell, Stop, fail};
use crate::stream::{Input, Output, Streams};
use crate::syntax::{AndOr, Command, Compound, List, Stage, Timing};

/// Maximum number of jobs whose statuses are kept, as `wait` of bash keeps those of the last ones.
const MAX_JOBS: usize = 1024;

impl Shell {
    /// Runs commands before an `&` in a subshell, and keeps their status for `wait`. They have no input, unless they are a group or
    /// a pipeline, as in bash.
    pub(super) fn background(&mut self, and_or: &AndOr, io: &Streams) -> Outcome {
        let redirected = self.state.redirected.clone();
        let mut streams = redirected.as_deref().unwrap_or(io).clone();
        let keeps_input = match and_or.first.stages.as_slice() {
            [Stage { command: Command::Compound(compound, _), .. }] => {
                matches!(**compound, Compound::Group(_))
            }
            stages => stages.len() > 1,
        };
        if !keeps_input || !and_or.rest.is_empty() {
            streams.input = Input::default();
        }
        let status = self.subshell(&streams, |shell| shell.and_or(and_or, &streams))?;
        self.started_jobs = self.started_jobs.saturating_add(1);
        if self.state.jobs.len() == MAX_JOBS {
            self.state.jobs.remove(0);
        }
        // The id of the shell itself is 1.
        self.state.jobs.push(Job { id: self.started_jobs + 1, status, is_waited: false });
        self.state.status = 0;
        Ok(0)
    }

    /// Keeps the commands of `>( )` until the command that writes to them has ended. Returns their path.
    pub fn add_consumer(&mut self, list: &Rc<List>, io: &Streams) -> String {
        let input = Output::pipe();
        self.consumers.push(Consumer { input: input.clone(), list: Rc::clone(list), io: io.clone() });
        self.files.add_consumer(input)
    }

    /// Runs the consumers from an index on over what a command wrote to them. Returns the outcome of the command.
    pub(super) fn consume(&mut self, first: usize, outcome: Outcome) -> Outcome {
        let is_full = |consumer: &Consumer| consumer.input.is_full();
        let outcome = match outcome {
            Err(Stop::Pipe) if self.consumers[first..].iter().any(is_full) => Ok(141),
            outcome => outcome,
        };
        while self.consumers.len() > first {
            let consumer = self.consumers.remove(first);
            let written = consumer.input.take();
            let was_full = written.is_full();
            let streams = Streams { input: Input::of(written.bytes), ..consumer.io };
            match self.subshell(&streams, |shell| shell.list(&consumer.list, &streams)) {
                Ok(_) => {}
                Err(stop) if outcome.is_ok() => return Err(stop),
                Err(_) => break,
            }
            self.cut_pipe |= was_full && streams.input.is_at_end();
        }
        self.consumers.truncate(first);
        outcome
    }
}

/// Runs something, and writes how long it took to the errors. One thread does all, so it is the time of the user as well.
pub fn time(io: &Streams, timing: Timing, run: impl FnOnce() -> Outcome) -> Outcome {
    let start = SystemTime::now();
    let outcome = run();
    let spent = start.elapsed().unwrap_or_default();
    let write = |spent: Duration| match timing {
        Timing::Bash => {
            format!("\t{}m{}.{:03}s", spent.as_secs() / 60, spent.as_secs() % 60, spent.subsec_millis())
        }
        Timing::Posix => format!(" {:.2}", spent.as_secs_f64()),
    };
    let head = if matches!(timing, Timing::Bash) { "\n" } else { "" };
    let (spent, none) = (write(spent), write(Duration::ZERO));
    io.errors.write(format!("{head}real{spent}\nuser{spent}\nsys{none}\n").as_bytes())?;
    outcome
}

/// `time` where it is no word of the syntax, as after a bar.
pub fn time_command(call: &mut Call<'_>) -> Outcome {
    let options = call.options("p", "", true)?;
    let Some((name, arguments)) = options.rest.split_first() else { return fail("needs a command") };
    let io = call.io;
    time(io, Timing::Posix, || call.shell.call_command(name, arguments, io))
}

/// `wait`: every job has ended, so it only returns a status.
pub fn wait(call: &mut Call<'_>) -> Outcome {
    let options = call.options("nf", "", false)?;
    let (mut status, mut unknown) = (0, Vec::new());
    let jobs = &mut call.shell.state.jobs;
    if options.rest.is_empty() && options.has('n') {
        let next = jobs.iter_mut().find(|job| !job.is_waited);
        return Ok(next.map_or(127, |job| {
            job.is_waited = true;
            job.status
        }));
    }
    if options.rest.is_empty() {
        jobs.iter_mut().for_each(|job| job.is_waited = true);
    }
    for word in &options.rest {
        let found = match word.strip_prefix('%') {
            Some(number) => {
                number.parse().ok().and_then(|number: usize| jobs.get_mut(number.checked_sub(1)?))
            }
            None => jobs.iter_mut().find(|job| job.id.to_string() == *word),
        };
        match found {
            Some(job) => {
                job.is_waited = true;
                status = job.status;
            }
            None => {
                unknown.push(word.clone());
                status = 127;
            }
        }
    }
    for word in unknown {
        call.complain(&format!("pid {word} is not a child of this shell"))?;
    }
    Ok(status)
}

/// `kill`: there is no process that still runs.
pub fn kill(call: &mut Call<'_>) -> Outcome {
    let options = call.arguments.iter().take_while(|word| word.starts_with('-')).count();
    let has_value = call.arguments.first().is_some_and(|word| word == "-s" || word == "-n");
    let Some(ids) = call.arguments.get(options + usize::from(has_value)..).filter(|ids| !ids.is_empty())
    else {
        return Err(Stop::Fail(2, "needs the id of a process".to_owned()));
    };
    for id in ids {
        call.complain(&format!("({id}) - No such process"))?;
    }
    Ok(1)
}
