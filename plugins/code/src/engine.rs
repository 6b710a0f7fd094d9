//! The JavaScript engine: boa, with the globals of a script.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use boa_engine::builtins::promise::{OperationType, Promise, PromiseState};
use boa_engine::context::HostHooks;
use boa_engine::object::JsObject;
use boa_engine::object::builtins::JsPromise;
use boa_engine::parser::Parser;
use boa_engine::property::Attribute;
use boa_engine::{
    Context, JsArgs as _, JsError, JsNativeError, JsResult, JsString, JsValue, NativeFunction, Source,
    js_string,
};
use serde::Deserialize;
use serde_json::Value;
use toolgate_sdk::{CallFailure, Calls, Error};

use crate::Output;
use crate::failure::{self, SCRIPT};
use crate::log::Log;

const PRELUDE: &str = include_str!("prelude.js");

/// The text before a script, on its first line so that the lines of the engine are those of the script.
pub const OPENING: &str = "(async()=>{";
const CLOSING: &str = "\n})";

/// Most nested calls of functions. Some take several frames of the guest's stack, which has 512 KiB.
const RECURSION: usize = 200;

/// What the functions of a script use.
struct Host {
    calls: Calls,
    log: RefCell<Log>,
}

/// A tool of the host's list.
#[derive(Deserialize)]
struct ListedTool {
    name: String,
}

/// Runs a script and returns its value and its log.
pub fn run(calls: Calls, script: &str, arguments: &Value) -> Result<Output, Error> {
    let hooks = Rc::new(Hooks::default());
    let mut context = Context::builder()
        .host_hooks(Rc::clone(&hooks))
        .can_block(false)
        .build()
        .map_err(|error| Error::new(format!("the engine does not start: {error}")))?;
    context.runtime_limits_mut().set_recursion_limit(RECURSION);
    context.insert_data(Host { calls, log: RefCell::default() });
    let body = parse(script, &mut context)?;
    let settled = start(&body, arguments, &mut context).and_then(|promise| {
        context.run_jobs()?;
        Ok(promise.state())
    });
    let result = match settled {
        Ok(PromiseState::Fulfilled(value)) => {
            hooks.log_unhandled(&mut context);
            read_value(&value)
        }
        Ok(PromiseState::Rejected(reason)) => {
            Err(failure::uncaught(JsError::from_opaque(reason), &mut context))
        }
        Ok(PromiseState::Pending) => Err(failure::pending()),
        Err(error) => Err(failure::uncaught(error, &mut context)),
    };
    let log = host(&context)?.log.borrow_mut().take();
    match result {
        Ok(value) => Ok(Output { value, log }),
        Err(failure) => Err(failure.with_log(log)),
    }
}

/// Returns the function whose body is the script.
fn parse(script: &str, context: &mut Context) -> Result<JsValue, Error> {
    let source = format!("{OPENING}{script}{CLOSING}");
    let parsed = context.eval(Source::from_bytes(&source).with_path(Path::new(SCRIPT)));
    parsed.map_err(|error| {
        // The text alone has the better error: in its brackets, a missing one is found after the end.
        let mut parser = Parser::new(Source::from_bytes(script));
        match parser.parse_function_body(context.interner_mut(), false, true) {
            Err(error) => failure::syntax(&error, script),
            Ok(_) => failure::syntax_around(&error),
        }
    })
}

/// Sets the globals, and starts the script. Returns the promise of its value as JSON text.
fn start(body: &JsValue, arguments: &Value, context: &mut Context) -> JsResult<JsPromise> {
    let describe = function(describe, context);
    let arguments = JsValue::from_json(arguments, context)?;
    context.register_global_property(js_string!("describe"), describe, Attribute::all())?;
    context.register_global_property(js_string!("args"), arguments, Attribute::all())?;
    let prelude = context.eval(Source::from_bytes(PRELUDE))?;
    let functions = [function(call, context), function(list, context), function(log, context)];
    let run = call_function(&prelude, &functions, context)?;
    let promise = call_function(&run, std::slice::from_ref(body), context)?;
    JsPromise::from_object(
        promise.as_object().ok_or_else(|| JsNativeError::typ().with_message("no promise"))?,
    )
}

fn call_function(function: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let function = function.as_callable();
    let function = function.ok_or_else(|| JsNativeError::typ().with_message("not a function"))?;
    function.call(&JsValue::undefined(), arguments, context)
}

fn function(
    pointer: fn(&JsValue, &[JsValue], &mut Context) -> JsResult<JsValue>,
    context: &mut Context,
) -> JsValue {
    NativeFunction::from_fn_ptr(pointer).to_js_function(context.realm()).into()
}

fn host(context: &Context) -> Result<&Host, JsNativeError> {
    context.get_data().ok_or_else(|| JsNativeError::error().with_message("the script's host is gone"))
}

/// `call("namespace/name", arguments as JSON text)`: calls a tool and returns its output.
fn call(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let tool = arguments.get_or_undefined(0).to_string(context)?.to_std_string_lossy();
    let input = arguments.get_or_undefined(1).to_string(context)?.to_std_string_lossy();
    let result = host(context)?.calls.call(&tool, &input);
    match result {
        Ok(output) => {
            let output = serde_json::from_str(&output).map_err(JsError::from_rust)?;
            JsValue::from_json(&output, context)
        }
        Err(failure) => Err(thrown(failure, context)?),
    }
}

/// `describe("namespace/name")`: returns the signature and the description of a tool.
fn describe(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let tool = arguments.get_or_undefined(0).to_string(context)?.to_std_string_lossy();
    let result = host(context)?.calls.describe(&tool);
    match result {
        Ok(text) => Ok(JsString::from(text).into()),
        Err(failure) => Err(thrown(failure, context)?),
    }
}

/// `list()`: returns the tools as an array of `[namespace, name]`.
fn list(_: &JsValue, _: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let tools = host(context)?.calls.tools();
    let tools: Vec<ListedTool> = serde_json::from_str(&tools).map_err(JsError::from_rust)?;
    let pairs = tools.iter().filter_map(|tool| tool.name.split_once('/'));
    JsValue::from_json(&pairs.map(|(space, name)| Value::from([space, name].as_slice())).collect(), context)
}

/// `log(line)`: adds a line to the log.
fn log(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let line = arguments.get_or_undefined(0).to_string(context)?.to_std_string_lossy();
    host(context)?.log.borrow_mut().write(&line);
    Ok(JsValue::undefined())
}

/// The `Error` of a failed call.
fn thrown(failure: CallFailure, context: &mut Context) -> JsResult<JsError> {
    let error = JsNativeError::error().with_message(failure.message).into_opaque(context);
    let details = JsValue::from_json(&failure.details.unwrap_or_default(), context)?;
    error.set(js_string!("code"), JsString::from(failure.code), true, context)?;
    error.set(js_string!("retryable"), failure.retryable, true, context)?;
    error.set(js_string!("details"), details, true, context)?;
    Ok(JsError::from_opaque(error.into()))
}

/// Reads the value of a script, JSON text or `undefined`.
fn read_value(value: &JsValue) -> Result<Value, failure::Failure> {
    let Some(text) = value.as_string() else { return Ok(Value::Null) };
    serde_json::from_str(&text.to_std_string_lossy()).map_err(|error| failure::unfit_value(&error))
}

/// Keeps the promises that failed while nothing awaited them: a script that forgets an `await` should learn of the failure.
#[derive(Default)]
struct Hooks {
    unhandled: RefCell<Vec<JsObject<Promise>>>,
}

impl Hooks {
    fn log_unhandled(&self, context: &mut Context) {
        for promise in self.unhandled.take() {
            let state = JsPromise::from_object(promise.upcast()).map(|promise| promise.state());
            if let Ok(PromiseState::Rejected(reason)) = state {
                let text = failure::text_of(&reason, context);
                if let Ok(host) = host(context) {
                    host.log.borrow_mut().write(&format!("a promise that nothing awaited failed: {text}"));
                }
            }
        }
    }
}

impl HostHooks for Hooks {
    fn promise_rejection_tracker(
        &self,
        promise: &JsObject<Promise>,
        operation: OperationType,
        _context: &mut Context,
    ) {
        let mut unhandled = self.unhandled.borrow_mut();
        match operation {
            OperationType::Reject => unhandled.push(promise.clone()),
            OperationType::Handle => unhandled.retain(|other| !JsObject::equals(other, promise)),
        }
    }

    /// Scripts run in UTC, wherever the daemon is.
    fn local_timezone_offset_seconds(&self, _unix_time_seconds: i64) -> i32 {
        0
    }
}
