//! The built-in plugins, compiled by the build script.

use toolgate_api::embedded::Embedded;

include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Without this, a change of a crate that plugins share with the host would leave old plugins in the binary.
    #[test]
    fn a_change_of_a_crate_that_built_in_plugins_use_compiles_them_again() {
        let output = std::fs::read_to_string(Path::new(env!("OUT_DIR")).with_file_name("output")).unwrap();
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        for source in [
            "daemon/api/src/lib.rs",
            "daemon/api/Cargo.toml",
            "plugin-sdk/macros/src/lib.rs",
            "plugins/readable/src/lib.rs",
        ] {
            let watched = format!("cargo::rerun-if-changed={}", workspace.join(source).display());
            assert!(output.lines().any(|line| line == watched), "`{source}` is not watched");
        }
    }
}
