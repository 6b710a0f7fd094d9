//! Origins of plugin files beside uploads: a watched folder, and OCI registries.

mod folder;
mod organization;
mod registry;

pub(super) use folder::check_source;
pub use organization::OrganizationRegistries;
pub use registry::{LoginSource, PluginRegistry, Registries};
