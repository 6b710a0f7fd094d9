//! Components that a build script compiled and embedded in a program.

/// A component that a build script compiled and embedded.
#[derive(Debug)]
pub struct Embedded {
    /// The name of its package, and the namespace of its plugin.
    pub name: &'static str,
    /// `sha256:` and 64 hexadecimal digits. Computed at build time: with a warm cache the pages of the component are
    /// never read from disk.
    pub digest: &'static str,
    /// The component binary.
    pub component: &'static [u8],
}
