//! Components that serve many plugins, each made from a definition: a declared HTTP API, a mounted MCP server.
//!
//! Most plugins are code and use [`plugin!`](crate::plugin). Here one component serves many plugins whose definitions are
//! data. [`Defined::describe`] reads a definition once, when it is loaded, and attaches to each tool the data that its calls
//! need. A call parses only that part, however large the definition is.

use serde_json::Value;

use crate::{Context, Error};

/// A component that makes plugins from definitions. Export it with [`export_defined!`](crate::export_defined).
pub trait Defined {
    /// Describes the plugin that a definition makes, as JSON that matches `wit/describe.schema.json`. Each call of a tool
    /// receives the `definition` member of that tool.
    ///
    /// An invalid definition is an error whose details have `pointer`, a JSON pointer into the definition.
    fn describe(definition: &str) -> Result<Value, Error>;

    /// Performs one call. `definition` is the JSON text that [`describe`](Self::describe) attached to the tool, and
    /// `arguments` are the model's, validated against the tool's input schema.
    fn call(tool: &str, definition: &str, context: &Context, arguments: &str) -> Result<Value, Error>;
}

/// Exports a type that is [`Defined`] as the component's plugin.
#[macro_export]
macro_rules! export_defined {
    ($defined:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type ThisPlugin = $crate::__private::DefinedExport<$defined>;
    $crate::__private::bindings::export!(ThisPlugin with_types_in $crate::__private::bindings);
        };
    };
}
