//! Reads an OpenAPI document into the definition of a plugin (C2): each operation becomes an action of kind `http`.
//!
//! Nothing here opens a file, a socket or a clock: a text goes in, a JSON value comes out, and the same text gives the same
//! value. What the document says and an action cannot do is never bent silently. An operation that would not work is left out
//! with the reason; one that works but for a part is taken, with a note of the part.
//!
//! Documents lie about small things and are large. So a schema is not copied but written anew, keyword by keyword
//! (`schema.rs`), and each action's schema is compiled by the daemon's own compiler before it is taken: what comes out
//! loads. Where to begin: `import.rs` is the sequence.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod action;
mod arguments;
mod body;
mod document;
mod forms;
mod headers;
mod import;
mod operations;
mod parameters;
mod paths;
mod schema;
mod security;
mod select;
mod servers;
mod text;

pub use import::{ImportError, Imported, LeftOut, Note, Wanted, import};
pub use select::{Selector, SelectorError};
