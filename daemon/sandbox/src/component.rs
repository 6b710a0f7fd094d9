//! A component that is ready to run: compiled, checked against the table of imports, linked.
//!
//! Linking happens here, once, and never on the way of a call. Compiled code is loaded only from bytes
//! that the caller vouches for; that is the one `unsafe` of the crate and it has a module of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use toolgate_admission::{CallError, Capabilities, ErrorType, FilesystemAccess};
use wasmtime::Engine;
use wasmtime::component::types::{self, ComponentItem};

use crate::contract::{Failure, Outcome, PluginPre};
use crate::engine::{Sandbox, one_line};
use crate::imports::{GrantKind, ImportClass, classify};
use crate::state::CallState;

/// The interface that a plugin exports, in any version of the series that is served.
const TOOLS: &str = "toolgate:plugin/tools@0.1.";

/// A loaded component. Cheap to clone; calls of it share code and nothing else.
#[derive(Clone)]
pub struct Component(Arc<Loaded>);

struct Loaded {
    plugin: PluginPre<CallState>,
    imports: Vec<String>,
    needs: BTreeSet<&'static str>,
}

impl std::fmt::Debug for Component {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Component").field("imports", &self.0.imports).finish()
    }
}

/// Why a file is not served as a plugin.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct LoadError {
    /// What is wrong with the file.
    pub message: String,
    /// What its author can do about it.
    pub hint: String,
    /// The import at fault, where one is.
    pub import: Option<String>,
}

impl LoadError {
    pub(crate) fn kind(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), import: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::kind(message, "build the plugin again and upload the whole file")
    }

    pub(crate) fn import(import: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { import: Some(import.to_owned()), ..Self::kind(message, hint) }
    }
}

impl From<LoadError> for CallError {
    fn from(error: LoadError) -> Self {
        CallError::new(ErrorType::InvalidPlugin, error.message, error.hint)
    }
}

impl Component {
    /// Refuses a component that imports what its plugin does not ask for (B5).
    pub fn check_manifest(&self, asked: &Capabilities) -> Result<(), LoadError> {
        let missing = self.0.needs.iter().find(|need| match **need {
            "filesystem" => asked.filesystem == FilesystemAccess::None,
            _ => asked.network.is_empty(),
        });
        match missing {
            None => Ok(()),
            Some(need) => {
                let form = match *need {
                    "filesystem" => "filesystem = workspace",
                    _ => r#"network = ["GET https://api.example.com/v1/"]"#,
                };
                Err(LoadError::kind(
                    format!("the component imports {need} interfaces that the plugin does not ask for"),
                    format!(
                        "write `capabilities({form})` in `plugin!` (without the SDK: ask for `{need}` in `capabilities` of the description), or remove what imports it"
                    ),
                ))
            }
        }
    }

    /// The capabilities that its imports can make use of: `filesystem`, `network`.
    pub fn needs(&self) -> impl Iterator<Item = &'static str> {
        self.0.needs.iter().copied()
    }

    pub(crate) fn plugin(&self) -> &PluginPre<CallState> {
        &self.0.plugin
    }
}

impl Sandbox {
    /// Loads compiled code and links it.
    ///
    /// `artifact` must be what [`precompile`](crate::precompile) made, unchanged: it is native code.
    /// The caller has authenticated these very bytes.
    pub fn load(&self, artifact: &[u8]) -> Result<Component, LoadError> {
        let component = trusted::deserialize(&self.inner.engine, artifact)
            .map_err(|error| LoadError::invalid(one_line(&error)))?;
        let kind = component.component_type();
        let imports: Vec<String> =
            kind.imports(&self.inner.engine).map(|(name, _)| name.to_owned()).collect();
        let mut needs = BTreeSet::new();
        for (name, item) in kind.imports(&self.inner.engine) {
            if !matches!(item.ty, ComponentItem::ComponentInstance(_)) {
                return Err(LoadError::import(
                    name,
                    format!("the component imports `{name}`, which is not an interface"),
                    "build it against the plugin contract",
                ));
            }
            match classify(name)? {
                ImportClass::Granted(GrantKind::Filesystem) => drop(needs.insert("filesystem")),
                ImportClass::Granted(GrantKind::Network) => drop(needs.insert("network")),
                ImportClass::Always | ImportClass::Denied => {}
            }
        }
        let linked = self
            .inner
            .linker
            .instantiate_pre(&component)
            .map_err(|error| LoadError::invalid(one_line(&error)))?;
        let plugin = PluginPre::new(linked).map_err(|error| {
            LoadError::kind(
                format!("the component does not export the plugin contract: {}", one_line(&error)),
                "export the interface `tools` of `toolgate:plugin@0.1.0`; the SDK's `plugin!` does it",
            )
        })?;
        check_signatures(&kind, &self.inner.engine)?;
        // The first instance would pay for this otherwise.
        component.initialize_copy_on_write_image().map_err(|error| LoadError::invalid(one_line(&error)))?;
        Ok(Component(Arc::new(Loaded { plugin, imports, needs })))
    }
}

/// Refuses functions that have the contract's names and another signature: the bindings look for names alone, and
/// would find the rest out when the first instance is made, in words that are not for plugin authors.
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
                LoadError::kind(
                    format!("the function `{name}` of `{interface}` has another signature than the plugin contract: {}", one_line(&error)),
                    "build it against `wit/` of version 0.1 of the plugin contract; the SDK's `plugin!` does it",
                )
            })?;
        }
    }
    Ok(())
}

#[allow(unsafe_code)]
mod trusted {
    //! The one door through which native code enters the process.

    use wasmtime::Engine;
    use wasmtime::component::Component;

    pub(super) fn deserialize(engine: &Engine, artifact: &[u8]) -> wasmtime::Result<Component> {
        // SAFETY: `Sandbox::load` documents that its caller authenticated these bytes as the unchanged
        // output of `precompile`; the daemon checks an HMAC over the same buffer before it calls.
        unsafe { Component::deserialize(engine, artifact) }
    }
}
