//! The exports of a component: converts between the contract's types and the author's function.
//!
//! A panic is a bug of the plugin: the hook writes it to the log, then the component traps, and the host reports a crash. The
//! standard hook would write it to standard error instead.

use std::marker::PhantomData;
use std::panic::{self, PanicHookInfo};

use crate::bindings::exports::toolgate::plugin::tools::{Failure, Guest, Outcome};
use crate::bindings::toolgate::plugin::{config, log};
use crate::describe::describe;
use crate::tool::{Plugin, ToolOutput};
use crate::{Context, Defined, Error};

impl<P: Plugin> Guest for P {
    fn describe() -> Result<String, Failure> {
        log_panics();
        describe(&P::FACTS).map_err(Failure::from)
    }

    fn call(tool: String, arguments: String) -> Result<Outcome, Failure> {
        log_panics();
        match P::call(&tool, &Context::of_instance(), &arguments) {
            Some(Ok(output)) => Ok(output.into()),
            Some(Err(error)) => Err(error.into()),
            None => Err(Error::new(format!("plugin `{}` has no tool `{tool}`", P::FACTS.name)).into()),
        }
    }
}

/// The exports of a component whose plugins are made from definitions.
pub struct DefinedExport<D>(PhantomData<D>);

impl<D: Defined> Guest for DefinedExport<D> {
    fn describe() -> Result<String, Failure> {
        log_panics();
        Ok(D::describe(&definition()?)?.to_string())
    }

    fn call(tool: String, arguments: String) -> Result<Outcome, Failure> {
        log_panics();
        let result = D::call(&tool, &definition()?, &Context::of_instance(), &arguments)?;
        Ok(Outcome::Output(result.to_string()))
    }
}

/// The exports of a component that is a plugin, and makes others of definitions.
pub struct PluginOrDefined<P, D>(PhantomData<(P, D)>);

impl<P: Plugin, D: Defined> Guest for PluginOrDefined<P, D> {
    fn describe() -> Result<String, Failure> {
        match config::definition() {
            Some(_) => DefinedExport::<D>::describe(),
            None => P::describe(),
        }
    }

    fn call(tool: String, arguments: String) -> Result<Outcome, Failure> {
        match config::definition() {
            Some(_) => DefinedExport::<D>::call(tool, arguments),
            None => <P as Guest>::call(tool, arguments),
        }
    }
}

fn definition() -> Result<String, Error> {
    config::definition().ok_or_else(|| Error::new("this component needs a definition to be a plugin"))
}

impl From<ToolOutput> for Outcome {
    fn from(output: ToolOutput) -> Self {
        match output {
            ToolOutput::Output(text) => Self::Output(text),
            ToolOutput::Client(text) => Self::Client(text),
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
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    log::write(log::Level::Error, "panic", message, &[("place".to_owned(), location)]);
}
