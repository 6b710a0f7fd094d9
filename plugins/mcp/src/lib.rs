//! Mounts a server of the Model Context Protocol (MCP, Streamable HTTP) as a plugin: its tools stand behind the gate like
//! all others.
//!
//! The tools of such a server are known only when it is asked, and `describe` may ask no server. So a mount has two lives. A
//! definition alone makes a plugin with one tool, `discover`, which asks the server and answers what it found. With that
//! beside the definition, `describe` makes the plugin with the server's tools. A server's words about itself change
//! nothing until an owner took them.
//!
//! Two families of the protocol are spoken. In 2026-07-28 each request stands for itself; up to 2025-11-25 there is a
//! session, and since a call runs in an instance of its own, each call opens one and ends it.
//!
//! A server is a stranger. All that is read of it is bounded; its texts reach a model as data, or cleaned of invisible
//! characters; its hints are its own word, and what it does not say is answered carefully.
//!
//! In order: [`document`] (what the owner writes), [`describe`] (the plugin of it), [`discover`] and [`call`] (what asks the
//! server), [`tool_list`] (what of an answer can be mounted), [`connection`] (the two families), [`channel`] (the oldest transport),
//! [`exchange`] (one message and its answer).

mod document;

mod describe;

mod call;
mod content;
mod discover;
mod header_params;
mod tool_list;
mod schema;

mod channel;
mod connection;
mod exchange;
mod failure;
mod stream;

mod address;
mod header;
mod text;

use toolgate_sdk::serde_json::{self, Value};
use toolgate_sdk::{Context, Defined, Error};

use crate::describe::Part;

/// Every mounted server.
pub struct Mcp;

impl Defined for Mcp {
    fn describe(definition: &str) -> Result<Value, Error> {
        let mut envelope: Value = serde_json::from_str(definition)?;
        let document = document::read(&envelope)?;
        match envelope.get_mut("discovered").map(Value::take) {
            None | Some(Value::Null) => Ok(describe::describe_undiscovered(&document)),
            Some(discovered) => describe::describe(&document, discovered),
        }
    }

    fn call(_: &str, definition: &str, context: &Context, arguments: &str) -> Result<Value, Error> {
        let part: Part = serde_json::from_str(definition)?;
        match &part.tool {
            Some(tool) => call::call(&part, tool, context, arguments),
            None => discover::discover(&part, context),
        }
    }
}

toolgate_sdk::export_defined!(Mcp);

#[cfg(test)]
mod tests;
