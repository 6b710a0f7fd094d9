//! Reads an OpenAPI document into the definition of a plugin (C2): each operation becomes an action of kind `http`.
//!
//! The crate does no I/O and reads no clock: a text goes in, a JSON value comes out, and the same text gives the same value.
//! Nothing is changed silently: an operation that an action cannot express is left out with the reason, and one that loses
//! only a part is taken with a note of that part.
//!
//! Published documents are large and often invalid in details. A schema is therefore not copied but written anew, keyword by
//! keyword (`schema.rs`), and compiled by the daemon's own compiler before it is taken. Start reading at `import.rs`.
#![deny(unreachable_pub)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod import;
mod action;
mod paths;
mod arguments;
mod form_body;
mod body;
mod schema;
mod parameters;
mod security;
mod servers;
mod options;
mod select;
mod operations;
mod text;
mod document;
mod swagger;
mod report;

pub use document::COMMAND_DOCUMENT_BYTES;
pub use import::import;
pub use options::ImportOptions;
pub use report::{ImportError, Imported, LeftOut, Note};
pub use select::{Selector, SelectorError};
