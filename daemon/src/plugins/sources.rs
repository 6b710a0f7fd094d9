//! Origins of plugin files beside uploads: a watched folder, and OCI registries.

mod folder;
mod registry;

pub use folder::PluginFolder;
pub use registry::Registries;
