//! Plugins that a built-in component builds from a definition: declared HTTP APIs (C1), mounted MCP servers (M4) and shell
//! commands (T8b).
//!
//! The component parses and validates the definition; the daemon only reads its kind. The result is an ordinary plugin,
//! whose digest covers the component and the definition.

use std::sync::Arc;

use toolgate_admission::{Descriptor, Digest, Plugin};
use toolgate_api::definition::DefinitionKind;
use toolgate_api::error::{CallError, Details, ErrorType, PluginFailureDetails};
use toolgate_api::grant::{Capabilities, Grant};
use toolgate_api::name::{Name, Namespace};
use toolgate_api::network::{HostPattern, NetworkRule};
use toolgate_audit as audit;
use toolgate_macros::boxed;
use toolgate_sandbox::{Component, Slot};

use super::{FileHandle, Plugins};
use crate::registry::Snapshot;

/// The kind of definition that the built-in component `name` handles.
pub(super) fn kind_of_component(name: &str) -> Option<DefinitionKind> {
    match name {
        "api" => Some(DefinitionKind::Http),
        "mcp" => Some(DefinitionKind::Mcp),
        "shell" => Some(DefinitionKind::Shell),
        _ => None,
    }
}

/// The input from which a plugin is built.
pub struct Definition<'a> {
    /// The owner.
    pub organization: &'a Name,
    /// The prefix of its tools' names.
    pub namespace: &'a Namespace,
    /// Selects the built-in component.
    pub kind: DefinitionKind,
    /// The owner's document, JSON.
    pub document: &'a str,
    /// Whether its requests tell the service the trace of their call, unless a grant says so.
    pub trace_context: bool,
    /// The tool list of an MCP server, JSON.
    pub discovered: Option<&'a str>,
}

impl Definition<'_> {
    /// The JSON text that is passed to the component.
    fn component_input(&self) -> String {
        let Self { namespace, document, .. } = self;
        let discovered = self.discovered.map(|text| format!(r#","discovered":{text}"#)).unwrap_or_default();
        format!(r#"{{"namespace":"{namespace}","definition":{document}{discovered}}}"#)
    }
}

#[boxed]
impl Plugins {
    /// Builds a plugin from a definition; the caller serves it. Without a grant it may reach every host that its
    /// definition names. The sandbox slot is released before anything else is awaited.
    pub async fn build_from_definition(
        &self,
        definition: &Definition<'_>,
        granted: Option<Arc<Grant>>,
        slot: Slot,
    ) -> Result<Plugin<Component>, CallError> {
        let is_component =
            |namespace: &&Namespace| kind_of_component(namespace.as_str()) == Some(definition.kind);
        let needed =
            |snapshot: &Snapshot| snapshot.compiling().iter().filter(is_component).cloned().collect();
        self.0.registry.wait_for(needed).await;
        let (handle, component) = self.definition_component(definition.kind)?;
        let input = definition.component_input();
        let digest = audit::sha256(format!("{}\n{input}", handle.digest()).as_bytes());
        let digest = Digest::from_sha256(digest.0);
        let definition_text = toolgate_sandbox::Definition {
            text: input.into(),
            organization: definition.organization.as_str().into(),
        };
        let described =
            self.0.sandbox.describe(&component, Some(definition_text)).await.map_err(definition_error)?;
        drop(slot);
        self.0.compiler.check_schemas(&digest, &described).await.map_err(definition_error)?;
        // Off the runtime's threads: a large description takes a while to parse.
        let parsing = tokio::task::spawn_blocking(move || Descriptor::parse(&described));
        let parsed = parsing.await.map_err(|_| {
            CallError::new(
                ErrorType::Internal,
                "the daemon failed while it read the description",
                "tell the operator",
            )
        })?;
        let descriptor = parsed.map_err(|error| {
            let error = error.into_call_error(ErrorType::InvalidPlugin);
            definition_error(with_definition_pointer(error, definition.kind))
        })?;
        // No check of the manifest: the component serves definitions with files and without, and a call gets what is granted.
        let granted = match granted {
            Some(granted) => granted,
            None => Arc::new(default_grant(&descriptor.capabilities, definition.trace_context)?),
        };
        Ok(Plugin::with_trusted_hints(digest, granted, descriptor, component))
    }

    /// Removes the cache entries of a plugin that was built from a definition and is no longer served.
    pub async fn forget_built(&self, digest: &Digest) {
        self.0.files.release(self.0.files.handle(digest)).await;
    }

    fn definition_component(&self, kind: DefinitionKind) -> Result<(FileHandle, Component), CallError> {
        self.0.definition_components.lock().get(&kind).cloned().ok_or_else(|| {
            let message = format!("this daemon has no component for tools of kind `{}`", kind.as_str());
            CallError::new(ErrorType::Internal, message, "tell the operator")
        })
    }
}

/// The most that the owner can grant without an operator: the hosts that the definition names, with its credential.
fn default_grant(requested: &Capabilities, trace_context: bool) -> Result<Grant, CallError> {
    let names_one = |rule: &NetworkRule| matches!(rule.host, HostPattern::Exact(_));
    match requested.network.iter().all(names_one) {
        true => Ok(Grant { user_credentials: true, trace_context, ..Grant::from(requested.clone()) }),
        false => Err(CallError::new(
            ErrorType::InvalidPolicy,
            "the definition does not name one host",
            "write an address with one host",
        )),
    }
}

/// Turns an error of the component into the error of an invalid document.
fn definition_error(error: CallError) -> CallError {
    if matches!(error.error_type, ErrorType::Overloaded | ErrorType::Unavailable | ErrorType::Internal) {
        return error;
    }
    let message = error.message.strip_prefix("Validation Error: ").unwrap_or(&error.message);
    let PluginFailureDetails { pointer, hint, .. } = error.plugin_details();
    let pointer = pointer.or_else(|| error.pointer().map(str::to_owned)).unwrap_or_default();
    CallError::new(ErrorType::InvalidPolicy, message, hint.as_deref().unwrap_or(&error.hint))
        .with_pointer(pointer)
}

/// Maps the JSON pointer into the description to one into the definition: the tools of a declared API are its actions
/// in the same order, and the purpose is the owner's description.
fn with_definition_pointer(mut error: CallError, kind: DefinitionKind) -> CallError {
    let Some(Details::Pointer { pointer }) = &mut error.details else { return error };
    match (kind, pointer.strip_prefix("/tools/")) {
        (DefinitionKind::Http, Some(rest)) => *pointer = format!("/actions/{rest}"),
        (DefinitionKind::Shell, Some(rest)) => *pointer = format!("/commands/{rest}"),
        _ if pointer == "/purpose" => *pointer = "/description".to_owned(),
        _ => {}
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o5_a_definition_says_whether_its_service_is_told_the_trace() {
        for told in [false, true] {
            let granted = default_grant(&Capabilities::default(), told).expect("a grant");
            assert_eq!(granted.trace_context, told);
        }
    }
}
