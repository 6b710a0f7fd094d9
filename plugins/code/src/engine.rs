//! The JavaScript engine: boa, with the globals of a script.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use boa_engine::builtins::promise::{OperationType, Promise, PromiseState};
use boa_engine::context::HostHooks;
use boa_engine::module::IdleModuleLoader;
use boa_engine::object::JsObject;
use boa_engine::object::builtins::JsPromise;
use boa_engine::{Context, JsError, JsNativeError, JsResult, JsValue, Source};
use serde_json::Value;
use toolgate_sdk::{Calls, Error};

use crate::failure::{self, Failure, SCRIPT};
use crate::form::{self, Script};
use crate::globals::host;
use crate::json::{self, Reader};
use crate::{Output, globals};

/// The text before a script, on its first line so that the lines of the engine are those of the script.
pub const OPENING: &str = "(async()=>{";
const CLOSING: &str = "\n})";

/// The log of a script that neither returned nor wrote anything.
const NOTHING_RETURNED: &str =
    "the script returned nothing: write `return …` with the value that is to come back";

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
    let script = form::read(script, &mut context)?;
    globals::set_called(&script.text, &mut context).map_err(|error| failure::engine(&error))?;
    let body = parse(&script, &mut context)?;
    let result = evaluate(&body, &script, &mut context);
    if result.is_ok() {
        hooks.log_unhandled(&mut context);
    }
    let log = host(&context).ok().and_then(|host| host.log.borrow_mut().take());
    match result {
        Ok(value) => {
            let log = log.or_else(|| value.is_none().then(|| NOTHING_RETURNED.to_owned()));
            Ok(Output { value: value.unwrap_or_default(), log })
        }
        Err(failure) => Err(failure.with_log(log)),
    }
}

/// Returns the function whose body is the script.
fn parse(script: &Script, context: &mut Context) -> Result<JsValue, Error> {
    let source = format!("{OPENING}{}{CLOSING}", script.text);
    let parsed = context.eval(Source::from_bytes(&source).with_path(Path::new(SCRIPT)));
    parsed.map_err(|error| failure::syntax_around(&error))
}

/// Returns what a script returns; none where that is `undefined`.
fn evaluate(body: &JsValue, script: &Script, context: &mut Context) -> Result<Option<Value>, Failure> {
    let mut settled = settle(body, context);
    // A function that nothing called is the script.
    if let Ok(PromiseState::Fulfilled(function)) = &settled
        && function.is_callable()
    {
        let function = function.clone();
        settled = settle(&function, context);
    }
    let text = match settled {
        Ok(PromiseState::Fulfilled(value)) => json::text(&value, Reader::Model, context),
        Ok(PromiseState::Rejected(reason)) => Err(JsError::from_opaque(reason)),
        Ok(PromiseState::Pending) => return Err(failure::pending()),
        Err(error) => Err(error),
    };
    match text {
        Ok(Some(text)) => serde_json::from_str(&text).map(Some).map_err(|error| failure::unfit_value(&error)),
        Ok(None) => Ok(None),
        Err(error) => Err(failure::uncaught(error, script, context)),
    }
}

/// Calls a function, and returns the state of its promise after everything that it started has ended.
fn settle(body: &JsValue, context: &mut Context) -> JsResult<PromiseState> {
    let body = body.as_callable().ok_or_else(|| JsNativeError::typ().with_message("no function"))?;
    let value = body.call(&JsValue::undefined(), &[], context)?;
    context.run_jobs()?;
    while globals::answer_calls(context)? {
        context.run_jobs()?;
    }
    match value.as_object().map(JsPromise::from_object) {
        Some(Ok(promise)) => Ok(promise.state()),
        _ => Ok(PromiseState::Fulfilled(value)),
    }
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
