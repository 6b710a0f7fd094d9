//! Components without the plugin contract: each exported function is a tool (T10).
//!
//! Everything about a function is read at load: its types, its name, and the index of its export. A call converts the arguments
//! (JSON) to values of the component model, calls the function and writes its result as JSON. Gate, limits and validation are those
//! of every plugin.

mod arguments;
mod describe;
mod docs;
mod program;
mod proxy;
mod result;
mod schema;
mod shape;
mod signature;

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use toolgate_api::descriptor::LeftOut;
use toolgate_api::name::name_collisions;
use toolgate_api::text::json_start;
use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, ComponentExportIndex, Instance, Val};
use wasmtime::{Engine, Store};

use crate::contract::{Failure, Outcome};
use crate::load_error::LoadError;
use crate::state::{CallState, ProgramInput};
use arguments::{Mismatch, to_parameters};
use result::to_json;
use shape::{Shape, ShapeReader};

pub use describe::FunctionsDescription;
pub(crate) use result::JsonTooLarge;

/// Prefix of our own interfaces. A component that exports one is made for the plugin contract, perhaps another version of it.
const CONTRACT: &str = "toolgate:plugin/";

/// Parameters of the function `init` of `componentize-py` and of `componentize-qjs`.
const INITIALIZERS: [&[&str]; 2] = [&["app-name", "symbols", "stub-wasi"], &["script", "shim", "disable-gc"]];

/// Most exported functions, as many as the tools of a plugin.
const FUNCTIONS: usize = 1_000;

/// Longest name of a function and of its interface, in bytes: the longest original name of a tool.
const NAME_BYTES: usize = 256;

/// Most parts of all types, which bounds memory and schemas.
const PARTS: usize = 20_000;

/// Largest error value in the details of a failure, in bytes.
const ERROR_BYTES: usize = 16 * 1024;

/// Longest excerpt of an error value in a message, in characters.
const ERROR_CHARS: usize = 500;

/// The functions of a component.
pub(crate) struct Functions {
    /// By their names in WIT, which are unique.
    by_name: HashMap<Box<str>, Function>,
    left_out: Vec<LeftOut>,
}

/// A function that is a tool.
struct Function {
    index: ComponentExportIndex,
    interface: Option<Box<str>>,
    name: Box<str>,
    parameters: Vec<(Box<str>, Shape)>,
    result: Option<Shape>,
    /// Parts of its types.
    parts: usize,
    kind: FunctionKind,
}

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FunctionKind {
    /// With the values that it names.
    Plain,
    /// It is `run` of `wasi:cli/run`: with the arguments and the input of a program.
    Program,
    /// It is `handle` of `wasi:http/incoming-handler`: with a request.
    Handler,
}

/// An exported function.
struct Export {
    index: ComponentExportIndex,
    interface: Option<Box<str>>,
    name: Box<str>,
    kind: ComponentFunc,
}

impl Export {
    /// `package:name/interface@1.0.0#function`, or the name alone.
    fn path(&self) -> String {
        path(self.interface.as_deref(), &self.name)
    }
}

fn path(interface: Option<&str>, name: &str) -> String {
    interface.map_or_else(|| name.to_owned(), |interface| format!("{interface}#{name}"))
}

impl Functions {
    /// Reads the exported functions. `None` for a component of the plugin contract.
    pub(crate) fn read(component: &Component, engine: &Engine) -> Result<Option<Self>, LoadError> {
        let Some(exports) = exports(component, engine)? else { return Ok(None) };
        let by_path: BTreeMap<String, &Export> =
            exports.iter().map(|export| (export.path(), export)).collect();
        let collisions = name_collisions(plain_names(&exports));
        let (mut by_name, mut left_out, mut parts_left) = (HashMap::new(), Vec::new(), PARTS);
        for (path, export) in by_path {
            let read = match collisions.get(&*export.name) {
                Some(name) => Err(format!("another function would be the tool `{name}` too")),
                None => Function::read(export).and_then(|function| {
                    parts_left = parts_left.checked_sub(function.parts).ok_or_else(|| {
                        format!("the types of all functions have more than {PARTS} parts together")
                    })?;
                    Ok(function)
                }),
            };
            match read {
                Ok(function) => drop(by_name.insert(function.name.clone(), function)),
                Err(why) => left_out.push(LeftOut { name: display_name(&path), why }),
            }
        }
        Ok(Some(Self { by_name, left_out }))
    }

    /// The error of a component without any function that can be a tool.
    pub(crate) fn check_not_empty(&self) -> Result<(), LoadError> {
        if !self.by_name.is_empty() {
            return Ok(());
        }
        let hint = "export the interface `tools` of `toolgate:plugin@0.1.0`, which each SDK does, or a function of plain values";
        let message = match self.left_out.first() {
            None => "the component exports neither the plugin contract nor a function".to_owned(),
            Some(LeftOut { name, why }) => format!(
                "the component does not export the plugin contract, and no function of it can be a tool: `{name}`: {why}"
            ),
        };
        Err(LoadError::new(message, hint))
    }

    /// The input of a program, which is in the arguments of its call; empty for another function.
    pub(crate) fn program_input(&self, name: &str, arguments: &Value) -> ProgramInput {
        let is_program =
            self.by_name.get(name).is_some_and(|function| function.kind == FunctionKind::Program);
        if is_program { program::input(name, arguments) } else { ProgramInput::default() }
    }

    /// Calls a function by its name in WIT.
    pub(crate) async fn call(
        &self,
        instance: &Instance,
        store: &mut Store<CallState>,
        name: &str,
        arguments: &Value,
        result_bytes: usize,
    ) -> wasmtime::Result<Result<Outcome, Failure>> {
        let function = self.by_name.get(name).ok_or_else(|| wasmtime::format_err!("no function `{name}`"))?;
        match function.kind {
            FunctionKind::Plain => {}
            FunctionKind::Program => {
                return program::run(instance, store, function.index, result_bytes).await;
            }
            FunctionKind::Handler => {
                return proxy::request(instance, store, function.index, arguments, result_bytes).await;
            }
        }
        let parameters = match to_parameters(&function.parameters, arguments) {
            Ok(parameters) => parameters,
            Err(mismatch) => return Ok(Err(wrong_arguments(mismatch))),
        };
        let called = instance.get_func(&mut *store, function.index);
        let called = called.ok_or_else(|| wasmtime::format_err!("the function `{name}` is missing"))?;
        let mut results = vec![Val::Bool(false); function.result.iter().len()];
        called.call_async(&mut *store, &parameters, &mut results).await?;
        let result = results.pop();
        let output = match &result {
            Some(Val::Result(Err(error))) => return Ok(Err(failure(name, error.as_deref()))),
            Some(Val::Result(Ok(value))) => value.as_deref(),
            value => value.as_ref(),
        };
        let json = output.map_or_else(|| Ok("null".to_owned()), |value| to_json(value, result_bytes))?;
        Ok(Ok(Outcome::Output(json)))
    }
}

impl Function {
    /// Reads the types of a function, or returns the reason why it is no tool.
    fn read(export: &Export) -> Result<Self, String> {
        let Export { index, interface, name, kind } = export;
        if name.starts_with('[') {
            return Err("it belongs to a resource".to_owned());
        }
        if interface.as_deref().is_some_and(program::is_run) {
            return Ok(program::function(export));
        }
        if interface.as_deref().is_some_and(proxy::is_handler) {
            return Ok(proxy::function(export));
        }
        if is_initializer(export) {
            return Err("the tool that made the component has called it".to_owned());
        }
        if export.path().len() > NAME_BYTES {
            return Err(format!("its name is longer than {NAME_BYTES} bytes"));
        }
        if kind.async_() {
            return Err("it is asynchronous".to_owned());
        }
        let mut reader = ShapeReader::new();
        let parameters = kind.params().map(|(name, kind)| Ok((name.into(), reader.read(&kind)?)));
        let parameters = parameters.collect::<Result<_, String>>()?;
        let result = kind.results().next().map(|kind| reader.read(&kind)).transpose()?;
        let (interface, name, parts) = (interface.clone(), name.clone(), reader.parts());
        Ok(Self { index: *index, interface, name, parameters, result, parts, kind: FunctionKind::Plain })
    }
}

/// Whether this is the function by which `componentize-py` or `componentize-qjs` has made the state of its runtime. Both leave it in the
/// component.
fn is_initializer(export: &Export) -> bool {
    let has = |name: &str| export.kind.params().any(|(parameter, _)| parameter == name);
    export.path() == "init" && INITIALIZERS.iter().any(|names| names.iter().all(|name| has(name)))
}

/// The exported functions, at the root and in interfaces. `None` for a component of the plugin contract.
fn exports(component: &Component, engine: &Engine) -> Result<Option<Vec<Export>>, LoadError> {
    let kind = component.component_type();
    let mut exports = Vec::new();
    for (root, item) in kind.exports(engine) {
        if root.starts_with(CONTRACT) {
            return Ok(None);
        }
        match item.ty {
            ComponentItem::ComponentFunc(kind) => {
                let index = component.get_export_index(None, root);
                exports.extend(index.map(|index| Export { index, interface: None, name: root.into(), kind }));
            }
            ComponentItem::ComponentInstance(interface) => {
                let parent = component.get_export_index(None, root);
                for (name, item) in interface.exports(engine) {
                    let ComponentItem::ComponentFunc(kind) = item.ty else { continue };
                    let index = component.get_export_index(parent.as_ref(), name);
                    let interface = Some(root.into());
                    exports.extend(index.map(|index| Export { index, interface, name: name.into(), kind }));
                }
            }
            _ => {}
        }
        if exports.len() > FUNCTIONS {
            return Err(LoadError::new(
                format!("the component exports more than {FUNCTIONS} functions"),
                "make two components of it",
            ));
        }
    }
    Ok(Some(exports))
}

/// The names of functions outside of resources.
fn plain_names(exports: &[Export]) -> impl Iterator<Item = &str> {
    exports.iter().map(|export| &*export.name).filter(|name| !name.starts_with('['))
}

fn display_name(path: &str) -> String {
    toolgate_api::text::escape_for_display(path, NAME_BYTES)
}

fn wrong_arguments(mismatch: Mismatch) -> Failure {
    let Mismatch { pointer, message } = mismatch;
    Failure {
        code: "INVALID_ARGUMENTS".to_owned(),
        message: format!("`{pointer}`: {message}"),
        retryable: false,
        details: Some(serde_json::json!({"pointer": pointer}).to_string()),
    }
}

/// The failure of a function that returned an error value. The value is in the details.
fn failure(name: &str, error: Option<&Val>) -> Failure {
    let details = error.and_then(|error| to_json(error, ERROR_BYTES).ok());
    let message = match (error, &details) {
        (None, _) => format!("`{name}` returned an error without a value"),
        (Some(Val::String(text)), _) if !text.trim().is_empty() => text.clone(),
        (Some(_), Some(json)) => {
            let value = serde_json::from_str(json).unwrap_or(Value::Null);
            format!("`{name}` returned the error {}", json_start(&value, ERROR_CHARS))
        }
        (Some(_), None) => format!("`{name}` returned an error value of more than {ERROR_BYTES} bytes"),
    };
    Failure { code: "TOOL_FAILED".to_owned(), message, retryable: false, details }
}

#[cfg(test)]
mod tests;
