//! Values of a script as JSON text. Nothing of a value is lost in silence: what JSON has no form for becomes what a reader
//! expects, or is told with its place.

use boa_engine::builtins::error::Error;
use boa_engine::object::JsObject;
use boa_engine::object::builtins::{JsArray, JsMap, JsSet, JsTypedArray};
use boa_engine::{
    Context, JsArgs as _, JsNativeError, JsResult, JsString, JsValue, NativeFunction, js_string,
};

use crate::failure;
use crate::globals::host;

/// The largest integer that a number of JavaScript has exactly.
const SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// The reader of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The model, which gets the value of the script.
    Model,
    /// A tool, which gets its arguments.
    Tool,
    /// The log.
    Log,
}

/// Returns the function `JSON.stringify`.
pub fn stringify(context: &mut Context) -> JsResult<JsObject> {
    let json = context.global_object().get(js_string!("JSON"), context)?.to_object(context)?;
    let stringify = json.get(js_string!("stringify"), context)?.as_callable();
    stringify.ok_or_else(|| JsNativeError::typ().with_message("there is no `JSON.stringify`").into())
}

/// Returns a value as JSON text; `None` for `undefined`, and for functions and symbols.
pub fn text(value: &JsValue, reader: Reader, context: &mut Context) -> JsResult<Option<String>> {
    let stringify = host(context)?.stringify.clone();
    let replace = move |_: &JsValue, arguments: &[JsValue], context: &mut Context| {
        replace(arguments.get_or_undefined(0), arguments.get_or_undefined(1), reader, context)
    };
    let replace = NativeFunction::from_copy_closure(replace).to_js_function(context.realm());
    let text = stringify.call(&JsValue::undefined(), &[value.clone(), replace.into()], context)?;
    Ok(text.as_string().map(|text| replace_surrogates(text.to_std_string_lossy())))
}

/// A member of a value in the form that JSON has for it.
fn replace(key: &JsValue, value: &JsValue, reader: Reader, context: &mut Context) -> JsResult<JsValue> {
    if let Some(number) = value.as_number() {
        return if number.is_finite() { Ok(value.clone()) } else { no_number(key, value, reader, context) };
    }
    if let Some(integer) = value.as_bigint() {
        let number = integer.to_f64();
        return Ok(match number.abs() <= SAFE_INTEGER {
            true => number.into(),
            false => JsString::from(integer.to_string()).into(),
        });
    }
    let Some(object) = value.as_object() else { return Ok(value.clone()) };
    if object.is::<Error>() {
        return error(&object, context);
    }
    if let Ok(set) = JsSet::from_object(object.clone()) {
        let mut items = Vec::new();
        set.for_each_native(|item| {
            items.push(item);
            Ok(())
        })?;
        return Ok(JsArray::from_iter(items, context).into());
    }
    if let Ok(bytes) = JsTypedArray::from_object(object.clone()) {
        let length = bytes.length(context)?;
        let items = (0..length).map(|at| bytes.at(at as i64, context)).collect::<JsResult<Vec<_>>>()?;
        return Ok(JsArray::from_iter(items, context).into());
    }
    match JsMap::from_object(object) {
        Ok(map) => entries(&map, context),
        Err(_) => Ok(value.clone()),
    }
}

/// `NaN` and `Infinity`.
fn no_number(key: &JsValue, value: &JsValue, reader: Reader, context: &mut Context) -> JsResult<JsValue> {
    let shown = value.to_string(context)?.to_std_string_lossy();
    let place = match key.to_string(context)?.to_std_string_lossy() {
        key if key.is_empty() => "it".to_owned(),
        key => format!("`{key}`"),
    };
    match reader {
        Reader::Log => Ok(JsString::from(shown).into()),
        Reader::Model => {
            let note = format!("{place} is {shown}, which JSON does not have: the value has `null`");
            host(context)?.log.borrow_mut().write(&note);
            Ok(JsValue::null())
        }
        Reader::Tool => {
            let message = format!("{place} is {shown}, which is no value for a tool");
            Err(JsNativeError::typ().with_message(message).into())
        }
    }
}

/// An error with its name, its message, and what the host adds to that of a failed call.
fn error(error: &JsObject, context: &mut Context) -> JsResult<JsValue> {
    let shown = JsObject::with_object_proto(context.intrinsics());
    for name in ["name", "message", "code", "retryable", "details", "cause"] {
        let value = error.get(JsString::from(name), context)?;
        if !value.is_undefined() {
            shown.create_data_property_or_throw(JsString::from(name), value, context)?;
        }
    }
    Ok(shown.into())
}

/// A map with texts as keys is an object, another one the list of its pairs.
fn entries(map: &JsMap, context: &mut Context) -> JsResult<JsValue> {
    let mut pairs = Vec::new();
    map.for_each_native(|key, value| {
        pairs.push((key, value));
        Ok(())
    })?;
    if pairs.iter().all(|(key, _)| key.is_string()) {
        let object = JsObject::with_object_proto(context.intrinsics());
        for (key, value) in pairs {
            object.create_data_property_or_throw(key.to_property_key(context)?, value, context)?;
        }
        return Ok(object.into());
    }
    let pairs: Vec<JsValue> =
        pairs.into_iter().map(|(key, value)| JsArray::from_iter([key, value], context).into()).collect();
    Ok(JsArray::from_iter(pairs, context).into())
}

/// Returns a value as `console.log` shows it: texts as they are, objects as JSON.
pub fn display(value: &JsValue, context: &mut Context) -> String {
    let object = value.as_object();
    if object.is_some_and(|object| !object.is::<Error>())
        && let Ok(Some(text)) = text(value, Reader::Log, context)
    {
        return text;
    }
    failure::text_of(value, context)
}

/// Replaces escaped halves of surrogate pairs, as a text cut in an emoji has: they are no JSON for others.
fn replace_surrogates(text: String) -> String {
    if !text.contains("\\ud") {
        return text;
    }
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        replaced.push_str(before);
        // `JSON.stringify` writes whole pairs as characters.
        let is_half = escape.starts_with("\\ud");
        let (escape, after) = escape.split_at_checked(if is_half { 6 } else { 2 }).unwrap_or((escape, ""));
        replaced.push_str(if is_half { "\u{fffd}" } else { escape });
        rest = after;
    }
    replaced + rest
}
