//! The plugin template of `toolgate new`.
//!
//! The binary embeds the SDK and the WIT contract and writes them next to the plugin, so that it builds without a published
//! crate. Fields that the SDK's manifests inherit from this workspace are replaced by their values.

use std::io;
use std::path::Path;

use toolgate_api::name::Namespace;

mod sdk {
    include!(concat!(env!("OUT_DIR"), "/sdk_files.rs"));
}

/// The files of the plugin. `NAME` and `CRATE` are placeholders.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("scaffold/Cargo.toml.in")),
    ("README.md", include_str!("scaffold/README.md.in")),
    ("src/lib.rs", include_str!("scaffold/lib.rs.in")),
    (".gitignore", "/target\n/toolgate-data\n"),
    ("rust-toolchain.toml", include_str!("../../rust-toolchain.toml")),
];

/// Writes the plugin `name` into `folder`, which must be empty or not exist.
pub fn write(folder: &Path, name: &Namespace) -> io::Result<()> {
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the folder exists and is not empty"));
    }
    for (path, text) in FILES {
        let text = text.replace("CRATE", &name.as_str().replace('-', "_")).replace("NAME", name.as_str());
        write_file(&folder.join(path), &text)?;
    }
    for (path, text) in sdk::SDK_FILES {
        let text = match path.ends_with("Cargo.toml") {
            true => standalone(text),
            false => (*text).to_owned(),
        };
        write_file(&folder.join("toolgate-sdk").join(path), &text)?;
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}

/// A manifest without `workspace = true` fields, lints and dev-dependencies.
fn standalone(manifest: &str) -> String {
    let mut text = String::new();
    let mut is_skipped = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_skipped = line == "[dev-dependencies]" || line == "[lints]";
        }
        if is_skipped {
            continue;
        }
        text += match line {
            "version.workspace = true" => concat!("version = \"", env!("CARGO_PKG_VERSION"), "\""),
            "edition.workspace = true" => "edition = \"2024\"",
            "rust-version.workspace = true" => {
                concat!("rust-version = \"", env!("CARGO_PKG_RUST_VERSION"), "\"")
            }
            "license.workspace = true" => concat!("license = \"", env!("CARGO_PKG_LICENSE"), "\""),
            "publish.workspace = true" => "publish = false",
            line => line,
        };
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaffold(name: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("new"), &Namespace::parse(name).unwrap()).unwrap();
        folder
    }

    #[test]
    fn no_manifest_that_is_written_needs_our_workspace() {
        let folder = scaffold("my-weather");
        for manifest in ["Cargo.toml", "toolgate-sdk/Cargo.toml", "toolgate-sdk/macros/Cargo.toml"] {
            let text = std::fs::read_to_string(folder.path().join("new").join(manifest)).unwrap();
            assert!(!text.contains("workspace = true") && !text.contains("lints"), "{manifest}:\n{text}");
            text.parse::<toml::Table>().unwrap();
        }
    }

    #[test]
    fn the_name_is_put_in() {
        let folder = scaffold("my-weather");
        let read = |file| std::fs::read_to_string(folder.path().join("new").join(file)).unwrap();
        assert!(read("Cargo.toml").contains("name = \"my-weather\""));
        assert!(read("src/lib.rs").contains("\"my-weather\""));
        assert!(read("README.md").contains("release/my_weather.wasm"));
        assert!(!read("README.md").contains("CRATE") && !read("README.md").contains("NAME"));
    }

    #[test]
    fn a_folder_with_something_in_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let name = Namespace::parse("weather").unwrap();
        std::fs::write(folder.path().join("mine"), "").unwrap();
        assert_eq!(write(folder.path(), &name).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        write(&folder.path().join("new"), &name).unwrap();
    }
}
