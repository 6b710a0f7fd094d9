//! Components that serve many plugins, each made by a definition: a declared HTTP API, a mounted server.
//!
//! Most plugins are code and use [`plugin!`](crate::plugin). Here one component stands behind many plugins, and what each
//! is comes as data. [`Defined::describe`] reads a definition once, when it comes into force, and puts at each tool what a
//! call of it needs; a call then reads that part alone, however large the whole is.

use serde_json::Value;

use crate::{Context, Error};

/// A component that makes plugins of definitions. Export it with [`export_defined!`](crate::export_defined).
pub trait Defined {
    /// Describes the plugin that the definition makes: JSON that fits `wit/describe.schema.json`. What stands at a tool as
    /// `definition` comes back with each call of it.
    ///
    /// A definition that makes no plugin is an error whose details have `pointer`, the place in it.
    fn describe(definition: &str) -> Result<Value, Error>;

    /// Performs one call. `definition` is what [`describe`](Self::describe) put at the tool, as JSON text, and
    /// `arguments` what the model sent, which fits the tool's input schema.
    fn call(tool: &str, definition: &str, context: &Context, arguments: &str) -> Result<Value, Error>;
}

/// Exports a type that is [`Defined`] as the component's plugin.
#[macro_export]
macro_rules! export_defined {
    ($defined:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type ThisPlugin = $crate::__private::Exported<$defined>;
    $crate::__private::bindings::export!(ThisPlugin with_types_in $crate::__private::bindings);
        };
    };
}
