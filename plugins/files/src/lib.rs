//! The files of the session's workspace, for a model: read, write, list and search.
//!
//! Each tool is a file here, and a thin function over `Workspace`, which a test points at a folder of its own. The host
//! holds the wall around the workspace and its quota; what is checked here is checked for the sake of a message that a
//! model can act on. Whatever a tool gives is capped, and says where to go on.

mod workspace;

mod list;
mod read;
mod search;
mod write;

use toolgate_sdk::plugin;

plugin! {
    "files",
    publisher = "Toolgate",
    category = "Files",
    capabilities(filesystem = workspace),
    read::read, write::write, list::list, search::search
}

#[cfg(test)]
mod tests;
