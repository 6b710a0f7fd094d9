//! The part of an answer that is the result: found by a JSON pointer or by JMESPath.
//!
//! What is not there is null, since APIs leave out what they have not.

use jmespath::ast::Ast;
use jmespath::{DEFAULT_RUNTIME, Variable};
use serde_json::Value;
use toolgate_api::json::parse_lenient;

use crate::plan::Selection;

/// How deep JSON may nest, as `serde_json` has it.
const JSON_LEVELS: usize = 127;

/// Longest JSON pointer, in bytes; the published schema says the same of others.
const POINTER_BYTES: usize = 1_000;

/// Longest JMESPath, in bytes. More than a screen of it is a program, and belongs into a plugin.
const JMESPATH_BYTES: usize = 2_000;

/// How deep a JMESPath may nest. A level takes up to two KiB of stack where it is read and where it is followed, and a
/// guest has 512 KiB.
const JMESPATH_LEVELS: usize = 100;

/// Takes the result out of an answer in JSON, and returns how many lone surrogates were replaced in it. The error says what is
/// wrong, for a model.
pub fn select(json: &[u8], selection: &Selection) -> Result<(Value, usize), String> {
    match selection {
        Selection::Whole | Selection::File(_) => read_json(json),
        Selection::Pointer(pointer) => {
            let (mut answer, replaced): (Value, _) = read_json(json)?;
            Ok((answer.pointer_mut(pointer).map(Value::take).unwrap_or_default(), replaced))
        }
        Selection::Jmespath(expression) => {
            let (answer, replaced) = read_json(json)?;
            Ok((search(answer, expression)?, replaced))
        }
    }
}

fn read_json<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<(T, usize), String> {
    parse_lenient(json).map_err(|error| {
        let error = error.to_string();
        match error.starts_with("recursion limit exceeded") {
            true => format!("it is nested too deeply: at most {JSON_LEVELS} levels are read"),
            false => format!("it says that it is JSON and is not: {error}"),
        }
    })
}

fn search(answer: Variable, expression: &str) -> Result<Value, String> {
    let failed = |error: jmespath::JmespathError| {
        format!("the JMESPath of this tool's definition does not fit it: {}", error.reason)
    };
    let compiled = jmespath::compile(expression).map_err(failed)?;
    let found = compiled.search(answer).map_err(failed)?;
    serde_json::to_value(&*found).map_err(|error| format!("the JMESPath gives no JSON: {error}"))
}

/// Why this is no JSON pointer; none where it is one.
pub fn refused_pointer(pointer: &str) -> Option<&'static str> {
    let escapes_well = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if pointer.len() > POINTER_BYTES {
        return Some("it is too long");
    }
    match escapes_well && (pointer.is_empty() || pointer.starts_with('/')) {
        true => None,
        false => Some("it begins with `/`, and `~` in it is written `~0` and `/` in a name `~1`"),
    }
}

/// Why this JMESPath cannot be used; none where it can.
pub fn refused_jmespath(expression: &str) -> Option<String> {
    if expression.len() > JMESPATH_BYTES {
        return Some(format!("it has more than {JMESPATH_BYTES} bytes"));
    }
    if levels(expression) > JMESPATH_LEVELS {
        return Some(format!("it nests deeper than {JMESPATH_LEVELS} levels"));
    }
    match jmespath::parse(expression) {
        Ok(ast) => unknown_function(&ast).map(|name| format!("there is no function `{name}`")),
        Err(error) => Some(format!("{}, at character {}", error.reason, error.offset + 1)),
    }
}

/// An upper bound of how deep an expression nests, before it is read: what stands between two commas goes one level deeper
/// with each operator.
fn levels(expression: &str) -> usize {
    let (mut level, mut deepest, mut opened) = (0, 0, Vec::new());
    for byte in expression.bytes() {
        match byte {
            b'(' | b'[' | b'{' => {
                level += 1;
                opened.push(level);
            }
            b')' | b']' | b'}' => level = opened.pop().unwrap_or(level),
            b',' => level = opened.last().copied().unwrap_or(0),
            b'.' | b'|' | b'&' | b'!' | b'=' | b'<' | b'>' => level += 1,
            _ => {}
        }
        deepest = deepest.max(level);
    }
    deepest
}

/// The first function in it that does not exist: that would be noticed by a call otherwise.
fn unknown_function(ast: &Ast) -> Option<&str> {
    match ast {
        Ast::Function { name, .. } if DEFAULT_RUNTIME.get_function(name).is_none() => Some(name),
        Ast::Function { args: parts, .. } | Ast::MultiList { elements: parts, .. } => {
            parts.iter().find_map(unknown_function)
        }
        Ast::MultiHash { elements, .. } => elements.iter().find_map(|pair| unknown_function(&pair.value)),
        Ast::Comparison { lhs, rhs, .. }
        | Ast::Projection { lhs, rhs, .. }
        | Ast::And { lhs, rhs, .. }
        | Ast::Or { lhs, rhs, .. }
        | Ast::Subexpr { lhs, rhs, .. }
        | Ast::Condition { predicate: lhs, then: rhs, .. } => {
            unknown_function(lhs).or_else(|| unknown_function(rhs))
        }
        Ast::Expref { ast: node, .. }
        | Ast::Flatten { node, .. }
        | Ast::Not { node, .. }
        | Ast::ObjectValues { node, .. } => unknown_function(node),
        Ast::Identity { .. }
        | Ast::Field { .. }
        | Ast::Index { .. }
        | Ast::Literal { .. }
        | Ast::Slice { .. } => None,
    }
}
