//! A component that is ready to run: compiled, checked against the import table, linked.
//!
//! Linking happens here, once, and never on the call path. Compiled code is loaded only from bytes that the caller has
//! authenticated ([`trusted`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_api::grant::Capabilities;
use wasmtime::component::InstancePre;
use wasmtime::component::types::{self, ComponentItem};
use wasmtime::{Engine, Store};

use crate::contract::{Failure, Outcome, Plugin, PluginPre};
use crate::engine::Sandbox;
use crate::functions::{Functions, FunctionsDescription};
use crate::imports::{GrantKind, ImportClass, classify};
use crate::load_error::{LoadError, one_line};
use crate::state::CallState;
use crate::trusted;

/// Prefix of the exported interface: every patch version of 0.1 is served.
const TOOLS: &str = "toolgate:plugin/tools@0.1.";

/// Prefix of the interface by which components of other hosts read settings.
const SETTINGS: &str = "wasi:config/store";

/// A loaded component. Cheap to clone; calls of it share code and nothing else.
#[derive(Clone)]
pub struct Component(Arc<Loaded>);

struct Loaded {
    linked: Linked,
    engine: Engine,
    needs: BTreeSet<GrantKind>,
    asks_for_settings: bool,
}

/// A component that is linked, and what it exports.
enum Linked {
    Contract(PluginPre<CallState>),
    Functions(InstancePre<CallState>, Functions),
}

/// An instance of a component.
pub(crate) enum Instance<'a> {
    Contract(Plugin),
    Functions(wasmtime::component::Instance, &'a Functions),
}

impl std::fmt::Debug for Component {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Component")
    }
}

impl Component {
    /// Returns an error if the component imports capabilities that its plugin neither requests nor declares unused (B5).
    pub fn check_manifest(&self, asked: &Capabilities) -> Result<(), LoadError> {
        let is_declared = |need: &GrantKind| need.is_asked(asked) || need.is_declared_unused(asked);
        let Some(need) = self.0.needs.iter().find(|need| !is_declared(need)) else { return Ok(()) };
        let name = need.name();
        Err(LoadError::new(
            format!("the component imports {name} interfaces that the plugin does not ask for"),
            format!(
                "ask for `{name}` in the plugin's `capabilities`, as its README shows; name it in `unused` there if only the language's runtime imports it; or remove what imports it"
            ),
        ))
    }

    /// The names of the capabilities that the imports need.
    pub fn needs(&self) -> impl Iterator<Item = &'static str> {
        self.0.needs.iter().map(|need| need.name())
    }

    /// The names of the capabilities that the plugin asks for and no import can use.
    pub fn unused_capabilities(&self, asked: &Capabilities) -> impl Iterator<Item = &'static str> {
        let kinds = [GrantKind::Filesystem, GrantKind::Network, GrantKind::Calls, GrantKind::Messages];
        let unused = kinds.into_iter().filter(|kind| kind.is_asked(asked) && !self.0.needs.contains(kind));
        unused.map(GrantKind::name).collect::<Vec<_>>().into_iter()
    }

    /// Describes the exported functions of a component without the plugin contract; `None` for one that has it.
    ///
    /// `file` is the component's file, which may carry docs. Without a namespace and version, those of its interfaces count.
    pub fn describe_functions(
        &self,
        file: &[u8],
        namespace: Option<&str>,
        version: Option<&str>,
    ) -> Option<FunctionsDescription> {
        match &self.0.linked {
            Linked::Contract(_) => None,
            Linked::Functions(_, functions) => {
                let described = functions.describe(file, namespace, version, &self.needed_capabilities());
                Some(described.asking_for_settings(self.0.asks_for_settings))
            }
        }
    }

    /// The request for everything that the imports need. A grant narrows it.
    fn needed_capabilities(&self) -> Value {
        let asked = self.0.needs.iter().map(|need| {
            let everything = match need {
                GrantKind::Filesystem => json!("workspace"),
                GrantKind::Network => json!([{"host": "*"}, {"scheme": "http", "host": "*"}]),
                GrantKind::Calls | GrantKind::Messages => json!(true),
            };
            (need.name().to_owned(), everything)
        });
        asked.collect()
    }

    /// The functions of a component without the plugin contract.
    pub(crate) fn functions(&self) -> Option<&Functions> {
        match &self.0.linked {
            Linked::Contract(_) => None,
            Linked::Functions(_, functions) => Some(functions),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) async fn instantiate(&self, store: &mut Store<CallState>) -> wasmtime::Result<Instance<'_>> {
        Ok(match &self.0.linked {
            Linked::Contract(plugin) => Instance::Contract(plugin.instantiate_async(store).await?),
            Linked::Functions(linked, functions) => {
                Instance::Functions(linked.instantiate_async(store).await?, functions)
            }
        })
    }
}

impl Sandbox {
    /// Loads compiled code and links it.
    ///
    /// `artifact` must be the unchanged output of [`precompile`](crate::precompile), since it is native code. The
    /// caller must have authenticated these bytes.
    pub fn load(&self, artifact: &[u8]) -> Result<Component, LoadError> {
        let (component, linker) = match trusted::deserialize(&self.inner.engine, artifact) {
            Ok(component) => (component, &self.inner.linker),
            Err(error) => {
                let (engine, linker) = self.concurrent()?;
                (trusted::deserialize(engine, artifact).map_err(|_| error)?, linker)
            }
        };
        let engine = component.engine().clone();
        let kind = component.component_type();
        let needs = needs_of(&kind, &engine)?;
        let linked = linker.instantiate_pre(&component)?;
        let linked = match Functions::read(&component, &engine)? {
            Some(functions) => {
                functions.check_not_empty()?;
                Linked::Functions(linked, functions)
            }
            None if !Engine::same(&engine, &self.inner.engine) => {
                return Err(LoadError::new(
                    "the component uses streams, futures or asynchronous functions, which the plugin contract does not have",
                    "build it for WASI 0.2, in Rust for the target `wasm32-wasip2`",
                ));
            }
            None => Linked::Contract(with_contract(linked, &kind, &engine)?),
        };
        // Done here, so that the first instance does not pay for it.
        component.initialize_copy_on_write_image()?;
        let asks_for_settings = kind.imports(&engine).any(|(name, _)| name.starts_with(SETTINGS));
        Ok(Component(Arc::new(Loaded { linked, engine, needs, asks_for_settings })))
    }
}

/// Returns the capabilities that the imports of a component need.
fn needs_of(kind: &types::Component, engine: &Engine) -> Result<BTreeSet<GrantKind>, LoadError> {
    let mut needs = BTreeSet::new();
    for (name, item) in kind.imports(engine) {
        if !matches!(item.ty, ComponentItem::ComponentInstance(_)) {
            return Err(LoadError::import(
                name,
                format!("the component imports `{name}`, which is not an interface"),
                "build it against the plugin contract",
            ));
        }
        match classify(name)? {
            ImportClass::Granted(kind) => drop(needs.insert(kind)),
            ImportClass::Always | ImportClass::Denied => {}
        }
    }
    Ok(needs)
}

fn with_contract(
    linked: InstancePre<CallState>,
    kind: &types::Component,
    engine: &Engine,
) -> Result<PluginPre<CallState>, LoadError> {
    let plugin = PluginPre::new(linked).map_err(|error| {
        LoadError::new(
            format!("the component does not export the plugin contract: {}", one_line(&error)),
            "export the interface `tools` of `toolgate:plugin@0.1.0`; each SDK does it",
        )
    })?;
    check_signatures(kind, engine)?;
    Ok(plugin)
}

/// Checks the signatures of the exported functions. The bindings match names alone; a wrong signature would otherwise
/// fail at the first instantiation, with a message that is not written for plugin authors.
fn check_signatures(kind: &types::Component, engine: &Engine) -> Result<(), LoadError> {
    let here = kind.instance_type();
    for (interface, item) in kind.exports(engine) {
        let ComponentItem::ComponentInstance(tools) = item.ty else { continue };
        if !interface.starts_with(TOOLS) {
            continue;
        }
        for (name, item) in tools.exports(engine) {
            let ComponentItem::ComponentFunc(function) = item.ty else { continue };
            let checked = match name {
                "describe" => function.typecheck::<(), (Result<String, Failure>,)>(&here),
                "call" => function.typecheck::<(&str, &str), (Result<Outcome, Failure>,)>(&here),
                _ => Ok(()),
            };
            checked.map_err(|error| {
                LoadError::new(
                    format!("the function `{name}` of `{interface}` has another signature than the plugin contract: {}", one_line(&error)),
                    "build it against `wit/` of version 0.1 of the plugin contract; each SDK does it",
                )
            })?;
        }
    }
    Ok(())
}
