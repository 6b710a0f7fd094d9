//! Programs (`wasi:cli/command`): the function `run` is a tool with arguments and standard input, which returns standard output.

use serde_json::{Value, json};
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, Instance};
use wasmtime_wasi::I32Exit;

use super::shape::Shape;
use super::{Export, Function, FunctionKind};
use crate::contract::{Failure, Outcome};
use crate::functions::JsonTooLarge;
use crate::state::{CallState, ProgramInput};

/// Prefix of the interface that a program exports.
const RUN: &str = "wasi:cli/run@0.2.";

/// Longest end of standard error in the message of a failure, in bytes.
const ERROR_BYTES: usize = 2_000;

/// Whether this is the interface of a program.
pub(super) fn is_run(interface: &str) -> bool {
    interface.starts_with(RUN)
}

/// The tool of a program, with the parameters that its function lacks.
pub(super) fn function(export: &Export) -> Function {
    let Export { index, interface, name, .. } = export;
    let option = |shape| Shape::Option(Box::new(shape));
    let args = option(Shape::List(Box::new(Shape::String)));
    Function {
        index: *index,
        interface: interface.clone(),
        name: name.clone(),
        parameters: vec![("args".into(), args), ("stdin".into(), option(Shape::String))],
        result: Some(Shape::String),
        parts: 4,
        kind: FunctionKind::Program,
    }
}

/// Reads the input of a program from the arguments, which are valid by their schema. The first argument is its name.
pub(super) fn input(name: &str, arguments: &Value) -> ProgramInput {
    let args = arguments["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let args = std::iter::once(name).chain(args).map(str::to_owned).collect();
    ProgramInput { args, stdin: arguments["stdin"].as_str().unwrap_or_default().to_owned() }
}

/// Runs a program. Its standard output is the result, if it ends with the code 0.
pub(super) async fn run(
    instance: &Instance,
    store: &mut Store<CallState>,
    index: ComponentExportIndex,
    result_bytes: usize,
) -> wasmtime::Result<Result<Outcome, Failure>> {
    let function = instance.get_typed_func::<(), (Result<(), ()>,)>(&mut *store, index)?;
    store.data().log.keep_output(result_bytes);
    let code = match function.call_async(&mut *store, ()).await {
        Ok((ended,)) => i32::from(ended.is_err()),
        Err(error) => error.downcast_ref::<I32Exit>().map(|exit| exit.0).ok_or(error)?,
    };
    let log = &store.data().log;
    let output = log.take_output().ok_or(JsonTooLarge)?;
    let output = String::from_utf8_lossy(&output);
    if code == 0 {
        return Ok(Ok(Outcome::Output(json!(output).to_string())));
    }
    let errors = log.last_errors(ERROR_BYTES);
    let separator = if errors.is_empty() { "" } else { ": " };
    Ok(Err(Failure {
        code: "TOOL_FAILED".to_owned(),
        message: format!("the program ended with the exit code {code}{separator}{errors}"),
        retryable: false,
        details: Some(json!({"exit_code": code, "stdout": output}).to_string()),
    }))
}
