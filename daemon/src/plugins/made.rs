//! Plugins that a built-in component makes of a definition: declared HTTP APIs (C1) and mounted MCP servers (M4).
//!
//! The component reads the definition and says what is wrong with it; nothing here knows its form beyond its kind. What
//! comes out is a plugin like any other, whose digest covers the component and the definition.

use std::sync::Arc;

use serde_json::json;
use toolgate_admission::{
    CallError, Capabilities, Descriptor, Digest, ErrorType, Grant, HostPattern, Name, Namespace, NetworkRule,
    Plugin,
};
use toolgate_sandbox::{Component, Slot};

use super::{Held, Plugins};
use crate::audit::Sha256;

/// What a definition defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An HTTP API.
    Http,
    /// A server of the Model Context Protocol.
    Mcp,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Http, Self::Mcp];

    /// As documents write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Mcp => "mcp",
        }
    }

    /// The kind of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// What the built-in component of that name makes plugins of.
    pub(super) fn of_component(name: &str) -> Option<Self> {
        match name {
            "api" => Some(Self::Http),
            "mcp" => Some(Self::Mcp),
            _ => None,
        }
    }
}

/// What a plugin is made of.
pub struct Definition<'a> {
    /// Whose it is.
    pub organization: &'a Name,
    /// What its tools are called by.
    pub namespace: &'a Namespace,
    /// Which component makes it.
    pub kind: Kind,
    /// JSON, as its owner wrote it.
    pub document: &'a str,
    /// JSON: what a server said that it has.
    pub discovered: Option<&'a str>,
}

impl Definition<'_> {
    /// The text that the component is given.
    fn envelope(&self) -> String {
        let Self { namespace, document, .. } = self;
        let discovered = self.discovered.map(|text| format!(r#","discovered":{text}"#)).unwrap_or_default();
        format!(r#"{{"namespace":"{namespace}","definition":{document}{discovered}}}"#)
    }
}

impl Plugins {
    /// Makes a plugin of a definition. It is served by whoever asked for it; without a grant it may reach what it asks
    /// for, which is no more than the definition names. `place` is one in the sandbox, and free again before anything
    /// else is waited for.
    pub async fn make(
        &self,
        definition: &Definition<'_>,
        granted: Option<Arc<Grant>>,
        place: Slot,
    ) -> Result<Plugin<Component>, CallError> {
        let (of_component, component) = self.maker(definition.kind)?;
        let envelope = definition.envelope();
        let made_of = format!("{}\n{envelope}", of_component.digest());
        let digest = Digest::from_sha256(Sha256::of(made_of.as_bytes()).0);
        let definition_text = toolgate_sandbox::Definition {
            text: envelope.into(),
            organization: definition.organization.as_str().into(),
        };
        let described = self.0.sandbox.describe(&component, Some(definition_text)).await.map_err(unsound)?;
        drop(place);
        self.0.compiler.vet_schemas(&digest, &described).await.map_err(unsound)?;
        // Beside the calls: a large description takes a while.
        let parsing = tokio::task::spawn_blocking(move || Descriptor::parse(&described));
        let parsed = parsing.await.map_err(|_| {
            CallError::new(ErrorType::Internal, "reading the description ended early", "tell the operator")
        })?;
        let descriptor = parsed.map_err(|error| unsound(at_the_definition(error.into(), definition.kind)))?;
        component.check_manifest(&descriptor.capabilities)?;
        let granted = match granted {
            Some(granted) => granted,
            None => Arc::new(derived(&descriptor.capabilities)?),
        };
        Ok(Plugin { digest, granted, component, disabled: false, descriptor: Arc::new(descriptor) })
    }

    /// Forgets what was kept of the making of a plugin that is no more.
    pub async fn forget_made(&self, digest: &Digest) {
        self.0.files.let_go(self.0.files.hold(digest)).await;
    }

    fn maker(&self, kind: Kind) -> Result<(Held, Component), CallError> {
        self.makers().get(&kind).cloned().ok_or_else(|| {
            let message = format!("this daemon has nothing that makes tools of kind `{}`", kind.as_str());
            CallError::new(ErrorType::Internal, message, "tell the operator")
        })
    }
}

/// What its owner alone can let such a plugin reach: the hosts that its definition names, with its credential.
fn derived(asked: &Capabilities) -> Result<Grant, CallError> {
    let names_one = |rule: &NetworkRule| matches!(rule.host, HostPattern::Exact(_));
    match asked.network.iter().all(names_one) {
        true => Ok(Grant { user_credentials: true, ..Grant::from(asked.clone()) }),
        false => Err(CallError::new(
            ErrorType::InvalidPolicy,
            "the definition does not name one host",
            "write an address with one host",
        )),
    }
}

/// What is wrong with a definition, in the words for documents.
fn unsound(error: CallError) -> CallError {
    if matches!(error.error_type, ErrorType::Overloaded | ErrorType::Unavailable | ErrorType::Internal) {
        return error;
    }
    let detail = |name: &str| error.details.as_ref().and_then(|details| details.get(name)?.as_str());
    let message = error.message.strip_prefix("Validation Error: ").unwrap_or(&error.message);
    let details = json!({"pointer": detail("pointer").unwrap_or_default()});
    CallError::new(ErrorType::InvalidPolicy, message, detail("hint").unwrap_or(&error.hint))
        .with_details(details)
}

/// What is wrong with the description, at its place in the definition: tools of a declared API are its actions, in the
/// same order, and its purpose is what its owner wrote as description.
fn at_the_definition(mut error: CallError, kind: Kind) -> CallError {
    let Some(pointer) = error.details.as_mut().and_then(|details| details.get_mut("pointer")) else {
        return error;
    };
    let text = pointer.as_str().unwrap_or_default();
    match (kind, text.strip_prefix("/tools/")) {
        (Kind::Http, Some(rest)) => *pointer = json!(format!("/actions/{rest}")),
        _ if text == "/purpose" => *pointer = json!("/description"),
        _ => {}
    }
    error
}
