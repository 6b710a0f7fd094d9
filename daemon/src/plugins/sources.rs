//! Origins of plugin files beside uploads: a watched folder, and OCI registries.

mod folder;
mod registry;

pub(super) use folder::check_source;
pub use folder::PluginFolder;
pub use registry::{PasswordSource, Registries, Registry as PluginRegistry, read_password};
