//! Values of a script as JSON text.

use boa_engine::builtins::error::Error;
use boa_engine::object::JsObject;
use boa_engine::{Context, JsNativeError, JsResult, JsValue, js_string};

use crate::failure;
use crate::globals::host;

/// Returns the function `JSON.stringify`.
pub fn stringify(context: &mut Context) -> JsResult<JsObject> {
    let json = context.global_object().get(js_string!("JSON"), context)?.to_object(context)?;
    let stringify = json.get(js_string!("stringify"), context)?.as_callable();
    stringify.ok_or_else(|| JsNativeError::typ().with_message("there is no `JSON.stringify`").into())
}

/// Returns a value as JSON text; `None` for `undefined`, and for functions and symbols.
pub fn text(value: &JsValue, context: &mut Context) -> JsResult<Option<String>> {
    let stringify = host(context)?.stringify.clone();
    let text = stringify.call(&JsValue::undefined(), std::slice::from_ref(value), context)?;
    Ok(text.as_string().map(|text| replace_surrogates(text.to_std_string_lossy())))
}

/// Returns a value as `console.log` shows it: texts as they are, objects as JSON.
pub fn display(value: &JsValue, context: &mut Context) -> String {
    let object = value.as_object();
    if object.is_some_and(|object| !object.is::<Error>())
        && let Ok(Some(text)) = text(value, context)
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
