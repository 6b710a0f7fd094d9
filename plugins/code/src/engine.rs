//! The JavaScript engine: boa, with the globals of a script.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use boa_engine::builtins::promise::{OperationType, Promise, PromiseState};
use boa_engine::context::HostHooks;
use boa_engine::module::IdleModuleLoader;
use boa_engine::object::JsObject;
use boa_engine::object::builtins::JsPromise;
use boa_engine::parser::Parser;
use boa_engine::{Context, JsError, JsNativeError, JsResult, JsValue, Source};
use serde_json::Value;
use toolgate_sdk::{Calls, Error};

use crate::failure::{self, Failure, SCRIPT};
use crate::globals::host;
use crate::{Output, globals, json};

/// The text before a script, on its first line so that the lines of the engine are those of the script.
pub const OPENING: &str = "(async()=>{";
const CLOSING: &str = "\n})";

/// Most nested calls of functions. Some take several frames of the guest's stack, which has 512 KiB.
const RECURSION: usize = 200;

/// Runs a script and returns its value and its log.
pub fn run(calls: Calls, script: &str, arguments: &Value) -> Result<Output, Error> {
    let hooks = Rc::new(Hooks::default());
    let builder = Context::builder()
        .host_hooks(Rc::clone(&hooks))
        .module_loader(Rc::new(IdleModuleLoader))
        .can_block(false);
    let mut context = builder.build().map_err(|error| failure::engine(&error))?;
    context.runtime_limits_mut().set_recursion_limit(RECURSION);
    globals::set(calls, arguments, &mut context).map_err(|error| failure::engine(&error))?;
    let body = parse(script, &mut context)?;
    let result = evaluate(&body, &mut context);
    if result.is_ok() {
        hooks.log_unhandled(&mut context);
    }
    let log = host(&context).ok().and_then(|host| host.log.borrow_mut().take());
    match result {
        Ok(value) => Ok(Output { value, log }),
        Err(failure) => Err(failure.with_log(log)),
    }
}

/// Returns the function whose body is the script.
fn parse(script: &str, context: &mut Context) -> Result<JsValue, Error> {
    // The text alone first: one that closes the brackets around it would run before it is called.
    let mut parser = Parser::new(Source::from_bytes(script));
    let alone = parser.parse_function_body(context.interner_mut(), false, true);
    alone.map_err(|error| failure::syntax(&error, script))?;
    let source = format!("{OPENING}{script}{CLOSING}");
    let parsed = context.eval(Source::from_bytes(&source).with_path(Path::new(SCRIPT)));
    parsed.map_err(|error| failure::syntax_around(&error))
}

/// Returns what a script returns.
fn evaluate(body: &JsValue, context: &mut Context) -> Result<Value, Failure> {
    let text = match settle(body, context) {
        Ok(PromiseState::Fulfilled(value)) => json::text(&value, context),
        Ok(PromiseState::Rejected(reason)) => Err(JsError::from_opaque(reason)),
        Ok(PromiseState::Pending) => return Err(failure::pending()),
        Err(error) => Err(error),
    };
    match text {
        Ok(Some(text)) => serde_json::from_str(&text).map_err(|error| failure::unfit_value(&error)),
        Ok(None) => Ok(Value::Null),
        Err(error) => Err(failure::uncaught(error, context)),
    }
}

/// Calls an async function, and returns the state of its promise after everything that it started has ended.
fn settle(body: &JsValue, context: &mut Context) -> JsResult<PromiseState> {
    let body = body.as_callable().ok_or_else(|| JsNativeError::typ().with_message("no function"))?;
    let promise = body.call(&JsValue::undefined(), &[], context)?.to_object(context)?;
    context.run_jobs()?;
    Ok(JsPromise::from_object(promise)?.state())
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
