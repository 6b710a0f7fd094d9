//! The globals of a script: `tools`, `describe`, `args` and `console`. They are made here, since parsing the same in JavaScript
//! takes twice the fuel of a small script.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use boa_engine::builtins::promise::ResolvingFunctions;
use boa_engine::object::builtins::{JsPromise, JsProxy};
use boa_engine::object::{JsObject, ObjectInitializer};
use boa_engine::property::{Attribute, PropertyDescriptor};
use boa_engine::{
    Context, JsArgs as _, JsError, JsNativeError, JsResult, JsString, JsValue, NativeFunction, js_string,
};
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_sdk::{CallFailure, Calls};

use crate::json::{self, Reader};
use crate::locale;
use crate::log::Log;

/// The state that the functions of a script use.
pub struct Host {
    pub calls: Calls,
    pub log: RefCell<Log>,
    /// The calls that the script has made, and that have not begun.
    pub pending: RefCell<VecDeque<PendingCall>>,
    /// The original `JSON.stringify`, also after the script replaced it.
    pub stringify: JsObject,
}

/// A call whose promise is not settled.
pub struct PendingCall {
    call: (String, String),
    resolve: ResolvingFunctions,
    /// The error of a failure.
    error: JsObject,
}

pub type Function = fn(&JsValue, &[JsValue], &mut Context) -> JsResult<JsValue>;

/// A tool of the host's list.
#[derive(Deserialize)]
struct ListedTool {
    name: String,
}

/// Most calls at once (`wit/plugin.wit`).
const AT_ONCE: usize = 8;

/// Names that an engine or a caller asks any object for.
const NO_TOOLS: [&str; 5] = ["then", "toJSON", "toString", "valueOf", "constructor"];

/// The property of a namespace with its name. A script does not see it.
const NAMESPACE: JsString = js_string!("namespace");

pub fn host(context: &Context) -> JsResult<&Host> {
    let host = context.get_data();
    host.ok_or_else(|| JsNativeError::error().with_message("the script has no host").into())
}

/// Sets the globals of a script.
pub fn set(calls: Calls, arguments: &Value, context: &mut Context) -> JsResult<()> {
    let stringify = json::stringify(context)?;
    context.insert_data(Host { calls, log: RefCell::default(), pending: RefCell::default(), stringify });
    let target = JsObject::with_object_proto(context.intrinsics());
    let tools = members(target, namespace, namespaces, context)?;
    let arguments = JsValue::from_json(arguments, context)?;
    let print = function(print, context);
    let mut console = ObjectInitializer::new(context);
    for name in ["log", "info", "debug", "warn", "error"] {
        console.property(JsString::from(name), print.clone(), Attribute::all());
    }
    let console = console.build();
    let describe = function(describe, context);
    for (name, value) in
        [("tools", tools), ("args", arguments), ("console", console.into()), ("describe", describe)]
    {
        context.register_global_property(JsString::from(name), value, Attribute::all())?;
    }
    let promises = context.intrinsics().constructors().promise().prototype();
    let refuse = function(refuse_promise, context);
    promises.create_data_property_or_throw(js_string!("toJSON"), refuse, context)?;
    locale::set(context)
}

/// Sets the tools that the script calls by the names of a model's list, such as `call_files_read`.
pub fn set_called(script: &str, context: &mut Context) -> JsResult<()> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$';
    let names: BTreeSet<&str> =
        script.split(|letter| !is_of_name(letter)).filter(|word| word.starts_with("call_")).collect();
    for name in names {
        let call = caller(JsString::from(name), context);
        context.register_global_property(JsString::from(name), call, Attribute::all())?;
    }
    Ok(())
}

/// A function that calls the tool of this id or name.
fn caller(tool: JsString, context: &Context) -> JsValue {
    let call = NativeFunction::from_copy_closure_with_captures(
        |_, arguments, tool, context| {
            call(&tool.to_std_string_lossy(), arguments.get_or_undefined(0), context)
        },
        tool,
    );
    call.to_js_function(context.realm()).into()
}

pub fn function(function: Function, context: &Context) -> JsValue {
    NativeFunction::from_fn_ptr(function).to_js_function(context.realm()).into()
}

/// An object whose members are made when they are read, and listed when they are asked for.
fn members(target: JsObject, get: Function, keys: Function, context: &mut Context) -> JsResult<JsValue> {
    let proxy = JsProxy::builder(target).get(get).own_keys(keys).get_own_property_descriptor(descriptor);
    Ok(proxy.build(context)?.into())
}

/// `Object.keys` lists what is enumerable.
fn descriptor(_: &JsValue, _: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    JsValue::from_json(&json!({"enumerable": true, "configurable": true}), context)
}

/// The name of the member that a script reads, if it can be the name of a tool or a namespace.
fn member_name(key: &JsValue) -> Option<JsString> {
    key.as_string().filter(|name| !NO_TOOLS.iter().any(|other| *name == *other))
}

/// `tools.namespace`
fn namespace(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let Some(name) = member_name(arguments.get_or_undefined(1)) else { return Ok(JsValue::undefined()) };
    let target = JsObject::with_object_proto(context.intrinsics());
    target.create_data_property_or_throw(NAMESPACE, name, context)?;
    members(target, tool, tools, context)
}

/// `tools.namespace.name`: a function that calls the tool.
fn tool(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let Some(name) = member_name(arguments.get_or_undefined(1)) else { return Ok(JsValue::undefined()) };
    let namespace = namespace_of(arguments.get_or_undefined(0), context)?;
    let id = JsString::from(format!("{namespace}/{}", name.to_std_string_lossy()));
    Ok(caller(id, context))
}

fn namespace_of(target: &JsValue, context: &mut Context) -> JsResult<String> {
    let target = target.to_object(context)?;
    Ok(target.get(NAMESPACE, context)?.to_string(context)?.to_std_string_lossy())
}

/// The keys of `tools`.
fn namespaces(_: &JsValue, _: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let listed = list_tools(context)?;
    let mut names: Vec<&str> = listed.iter().filter_map(|tool| Some(tool.name.split_once('/')?.0)).collect();
    names.dedup();
    JsValue::from_json(&json!(names), context)
}

/// The keys of `tools.namespace`.
fn tools(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let namespace = namespace_of(arguments.get_or_undefined(0), context)?;
    let listed = list_tools(context)?;
    let names = listed.iter().filter_map(|tool| tool.name.strip_prefix(&namespace)?.strip_prefix('/'));
    JsValue::from_json(&names.map(Value::from).collect(), context)
}

/// The tools that the script may call, sorted by name.
fn list_tools(context: &Context) -> JsResult<Vec<ListedTool>> {
    serde_json::from_str(&host(context)?.calls.tools()).map_err(JsError::from_rust)
}

/// Calls a tool. Returns a promise of its output. The call begins when the script waits, at the same time as others that it has made
/// until then.
fn call(tool: &str, input: &JsValue, context: &mut Context) -> JsResult<JsValue> {
    let input = json::text(input, Reader::Tool, context)?.unwrap_or_else(|| "{}".to_owned());
    // Made here, so that its stack has the place of the call.
    let constructor = context.intrinsics().constructors().error().constructor();
    let error = constructor.construct(&[], None, context)?;
    let (promise, resolve) = JsPromise::new_pending(context);
    let call = PendingCall { call: (tool.to_owned(), input), resolve, error };
    host(context)?.pending.borrow_mut().push_back(call);
    Ok(promise.into())
}

/// Makes the oldest calls that the script waits for, and settles their promises in the order of the calls. Returns whether there were
/// any.
pub fn answer_calls(context: &mut Context) -> JsResult<bool> {
    let host = host(context)?;
    let calls: Vec<PendingCall> = {
        let mut pending = host.pending.borrow_mut();
        let count = pending.len().min(AT_ONCE);
        pending.drain(..count).collect()
    };
    let (made, promises): (Vec<_>, Vec<_>) =
        calls.into_iter().map(|PendingCall { call, resolve, error }| (call, (resolve, error))).unzip();
    let results = if made.is_empty() { Vec::new() } else { host.calls.call_all(&made) };
    for ((resolve, error), result) in promises.into_iter().zip(results) {
        let (settle, value) = match result {
            Ok(output) => {
                let output = serde_json::from_str(&output).map_err(JsError::from_rust)?;
                (resolve.resolve, JsValue::from_json(&output, context)?)
            }
            Err(failure) => {
                fill_error(&error, failure, context)?;
                (resolve.reject, error.into())
            }
        };
        settle.call(&JsValue::undefined(), &[value], context)?;
    }
    Ok(!made.is_empty())
}

/// `describe("namespace/name")`: returns the signature and the description of a tool.
fn describe(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let tool = arguments.get_or_undefined(0).to_string(context)?.to_std_string_lossy();
    let result = host(context)?.calls.describe(&tool);
    match result {
        Ok(text) => Ok(JsString::from(text).into()),
        Err(failure) => Err(error(failure, context)?),
    }
}

/// `console.log(…)`: adds a line to the log.
fn print(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let shown: Vec<String> = arguments.iter().map(|value| json::display(value, context)).collect();
    host(context)?.log.borrow_mut().write(&shown.join(" "));
    Ok(JsValue::undefined())
}

/// `promise.toJSON()`: without it, a promise in a value is `{}`, and a forgotten `await` is hidden.
fn refuse_promise(_: &JsValue, _: &[JsValue], _: &mut Context) -> JsResult<JsValue> {
    let message = "a promise is not a value: write `await` before it";
    Err(JsNativeError::typ().with_message(message).into())
}

/// The `Error` of a failure, made by its constructor so that its stack has the place.
fn error(failure: CallFailure, context: &mut Context) -> JsResult<JsError> {
    let constructor = context.intrinsics().constructors().error().constructor();
    let error = constructor.construct(&[], None, context)?;
    fill_error(&error, failure, context)?;
    Ok(JsError::from_opaque(error.into()))
}

fn fill_error(error: &JsObject, failure: CallFailure, context: &mut Context) -> JsResult<()> {
    let details = JsValue::from_json(&failure.details.unwrap_or_default(), context)?;
    let message = PropertyDescriptor::builder()
        .value(JsString::from(failure.message))
        .writable(true)
        .enumerable(false)
        .configurable(true);
    error.define_property_or_throw(js_string!("message"), message, context)?;
    error.set(js_string!("code"), JsString::from(failure.code), true, context)?;
    error.set(js_string!("retryable"), failure.retryable, true, context)?;
    error.set(js_string!("details"), details, true, context)?;
    Ok(())
}
