//! Makes plugins of definitions: a document says which requests an HTTP API takes, and each becomes a tool.
//!
//! There is no code of the API's in it, so there is one component for all of them. `describe` reads a document once,
//! strictly, and holds it to everything that a call relies on; what a call needs is left at each tool as a [`plan`]. A call
//! reads its plan and its arguments, sends one request and gives what the answer holds. Secrets are none of its business:
//! the document names a provider, and the host puts the credential into the request.
//!
//! In order: [`definition`] (the document), [`description`] (what `describe` answers), [`plan`] (what stands between the
//! two halves), [`request`] (plan and arguments become a request), [`answer`] (the answer becomes a result). [`path`] holds
//! what a path must be, in either half, and [`workspace`] reads and writes files.

mod definition;
mod description;

mod plan;

mod answer;
mod request;

mod path;
mod select;
mod workspace;

use serde_json::Value;
use toolgate_sdk::{Context, Defined, Error};

use definition::Definition;
use plan::Plan;
use request::Built;

/// The component behind declared HTTP tools.
pub struct Api;

impl Defined for Api {
    fn describe(definition: &str) -> Result<Value, Error> {
        description::describe(Definition::read(definition)?)
    }

    fn call(_tool: &str, definition: &str, context: &Context, arguments: &str) -> Result<Value, Error> {
        let plan: Plan = serde_json::from_str(definition)?;
        let Built { request, save_path } = request::build(&plan, arguments)?;
        answer::read(request.send()?, &plan, save_path.as_deref(), context)
    }
}

toolgate_sdk::export_defined!(Api);

#[cfg(test)]
mod tests;
