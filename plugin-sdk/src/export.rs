//! The exports of a component: from the contract's texts to the author's function, and back.
//!
//! A panic is a bug of the plugin: it is written to the log and then traps, which the host reports as a crash. The hook
//! takes the place of the standard one, which would write to a standard error that nobody reads.

use std::panic::{self, PanicHookInfo};

use crate::bindings::exports::toolgate::plugin::tools::{Failure, Guest, Outcome};
use crate::bindings::toolgate::plugin::log;
use crate::describe::describe;
use crate::tool::{Answer, Plugin};
use crate::{Context, Error};

impl<P: Plugin> Guest for P {
    fn describe() -> Result<String, Failure> {
        log_panics();
        describe(&P::FACTS).map_err(Failure::from)
    }

    fn call(tool: String, arguments: String) -> Result<Outcome, Failure> {
        log_panics();
        match P::call(&tool, &Context::of_this_call(), &arguments) {
            Some(Ok(answer)) => Ok(answer.into()),
            Some(Err(error)) => Err(error.into()),
            None => Err(Error::new(format!("plugin `{}` has no tool `{tool}`", P::FACTS.name)).into()),
        }
    }
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Output(text) => Self::Output(text),
            Answer::Client(text) => Self::Client(text),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: error.code().to_owned(),
            message: error.message().to_owned(),
            retryable: error.is_retryable(),
            details: error.details().map(|details| details.to_string()),
        }
    }
}

fn log_panics() {
    panic::set_hook(Box::new(log_panic));
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("panic without a message");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    log::write(log::Level::Error, "panic", message, &[("place".to_owned(), place)]);
}
