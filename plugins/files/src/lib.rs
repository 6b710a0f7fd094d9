//! The files of the session's workspace, for a model: to read, find, change, move and pack.
//!
//! Each tool is a file here, and a thin function over `Workspace`, which a test points at a folder of its own. The host
//! holds the wall around the workspace and its quota; what is checked here is checked for the sake of a message that a
//! model can act on. Each answer of a tool is capped, and says where to go on.
//!
//! A change is whole or not at all: the new content is written beside the old and takes its name (`replace`).

mod failure;
mod dir_walk;
mod similarity;
mod atomic_write;
mod output_budget;
mod text;
mod workspace;

mod read;
mod read_bytes;
mod stat;

mod glob;
mod list;
mod search;
mod tree;

mod append;
mod edit;
mod patch;
mod write;

mod copy;
mod delete;
mod move_path;

mod archive;
mod pack;
mod unpack;

use toolgate_sdk::plugin;

plugin! {
    "files",
    publisher = "Toolgate",
    category = "Files",
    capabilities(filesystem = workspace),
    read::read,
    write::write,
    list::list,
    search::search,
    read_bytes::read_bytes,
    stat::stat,
    tree::tree,
    glob::glob,
    append::append,
    edit::edit,
    patch::patch,
    move_path::move_path,
    copy::copy,
    delete::delete,
    pack::pack,
    unpack::unpack
}

#[cfg(test)]
mod tests;
