//! The exports of a component: from the contract's texts to the author's function, and back.
//!
//! A panic is a bug of the plugin: it is written to the log and then traps, which the host reports as a crash. The hook
//! takes the place of the standard one, which would write to a standard error that nobody reads.

use std::marker::PhantomData;
use std::panic::{self, PanicHookInfo};

use crate::bindings::exports::toolgate::plugin::tools::{Failure, Guest, Outcome};
use crate::bindings::toolgate::plugin::{config, log};
use crate::describe::describe;
use crate::tool::{Answer, Plugin};
use crate::{Context, Defined, Error};

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

/// The exports of a component whose plugins are made by definitions.
pub struct Exported<D>(PhantomData<D>);

impl<D: Defined> Guest for Exported<D> {
    fn describe() -> Result<String, Failure> {
        log_panics();
        Ok(D::describe(&definition()?)?.to_string())
    }

    fn call(tool: String, arguments: String) -> Result<Outcome, Failure> {
        log_panics();
        let result = D::call(&tool, &definition()?, &Context::of_this_call(), &arguments)?;
        Ok(Outcome::Output(result.to_string()))
    }
}

fn definition() -> Result<String, Error> {
    config::definition().ok_or_else(|| Error::new("this component is a plugin only with a definition"))
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
