//! The plugin templates of `toolgate new`.
//!
//! The binary embeds the SDKs and the WIT contract and writes them next to the plugin, so that it builds without a published
//! package. Fields that the Rust SDK's manifests inherit from this workspace are replaced by their values.

use std::io;
use std::path::Path;

use toolgate_api::name::Namespace;

mod sdk {
    include!(concat!(env!("OUT_DIR"), "/sdk_files.rs"));
}

/// A programming language with a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// Rust, built by cargo.
    Rust,
    /// JavaScript, built by componentize-qjs of npm.
    #[value(alias = "javascript")]
    Js,
    /// TypeScript, checked by tsc and built as JavaScript is.
    #[value(alias = "ts")]
    Typescript,
    /// Python, built by componentize-py of PyPI.
    Python,
}

/// Pairs of a path and a text.
type Files = &'static [(&'static str, &'static str)];

/// The files of a plugin in Rust. In a template, `NAME` and `CRATE` are placeholders.
const RUST: Files = &[
    ("Cargo.toml", include_str!("scaffold/rust/Cargo.toml.in")),
    ("README.md", include_str!("scaffold/rust/README.md.in")),
    ("src/lib.rs", include_str!("scaffold/rust/lib.rs.in")),
    (".gitignore", "/target\n/toolgate-data\n"),
    ("rust-toolchain.toml", include_str!("../../rust-toolchain.toml")),
];

const JS: Files = &[
    ("package.json", include_str!("scaffold/js/package.json.in")),
    ("README.md", include_str!("scaffold/js/README.md.in")),
    ("src/plugin.js", include_str!("scaffold/js/plugin.js.in")),
    ("test/plugin.test.js", include_str!("scaffold/js/plugin.test.js.in")),
    (".gitignore", "/node_modules\n/*.wasm\n/toolgate-data\n"),
];

const TYPESCRIPT: Files = &[
    ("package.json", include_str!("scaffold/typescript/package.json.in")),
    ("README.md", include_str!("scaffold/typescript/README.md.in")),
    ("tsconfig.json", include_str!("scaffold/typescript/tsconfig.json")),
    ("src/plugin.ts", include_str!("scaffold/typescript/plugin.ts.in")),
    ("test/plugin.test.ts", include_str!("scaffold/typescript/plugin.test.ts.in")),
    ("test/node.d.ts", include_str!("scaffold/typescript/node.d.ts")),
    (".gitignore", "/node_modules\n/build\n/*.wasm\n/toolgate-data\n"),
];

const JS_SDK: Files = &[
    ("toolgate/build.mjs", include_str!("../../plugin-sdk/js/build.mjs")),
    ("toolgate/clone.js", include_str!("../../plugin-sdk/js/clone.js")),
    ("toolgate/component.js", include_str!("../../plugin-sdk/js/component.js")),
    ("toolgate/fetch.js", include_str!("../../plugin-sdk/js/fetch.js")),
    ("toolgate/globals.d.ts", include_str!("../../plugin-sdk/js/globals.d.ts")),
    ("toolgate/package.json", include_str!("../../plugin-sdk/js/package.json")),
    ("toolgate/runtime.js", include_str!("../../plugin-sdk/js/runtime.js")),
    ("toolgate/sdk.d.ts", include_str!("../../plugin-sdk/js/sdk.d.ts")),
    ("toolgate/sdk.js", include_str!("../../plugin-sdk/js/sdk.js")),
    ("toolgate/signal.js", include_str!("../../plugin-sdk/js/signal.js")),
    ("toolgate/testing.d.ts", include_str!("../../plugin-sdk/js/testing.d.ts")),
    ("toolgate/testing.js", include_str!("../../plugin-sdk/js/testing.js")),
    ("toolgate/url.js", include_str!("../../plugin-sdk/js/url.js")),
];

const PYTHON: Files = &[
    ("README.md", include_str!("scaffold/python/README.md.in")),
    ("plugin.py", include_str!("scaffold/python/plugin.py.in")),
    ("test_plugin.py", include_str!("scaffold/python/test_plugin.py.in")),
    ("requirements.txt", include_str!("scaffold/python/requirements.txt")),
    (".gitignore", "/.venv\n__pycache__\n/*.wasm\n/toolgate-data\n"),
];

const PYTHON_SDK: Files = &[
    ("toolgate/__init__.py", include_str!("../../plugin-sdk/python/toolgate/__init__.py")),
    ("toolgate/py.typed", ""),
    ("toolgate/component.py", include_str!("../../plugin-sdk/python/toolgate/component.py")),
];

/// The contract, and the worlds that the SDKs of scripting languages target.
const WIT: Files = &[
    ("toolgate/LICENSE", include_str!("../../LICENSE")),
    ("toolgate/wit/sdk.wit", include_str!("../../plugin-sdk/wit/sdk.wit")),
    ("toolgate/wit/deps/plugin.wit", include_str!("../../wit/plugin.wit")),
    ("toolgate/wit/describe.schema.json", include_str!("../../wit/describe.schema.json")),
];

/// Writes the plugin `name` into `folder`, which must be empty or not exist.
pub fn write(folder: &Path, name: &Namespace, language: Language) -> io::Result<()> {
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the folder exists and is not empty"));
    }
    let (template, sdk): (Files, &[Files]) = match language {
        Language::Rust => (RUST, &[]),
        Language::Js => (JS, &[JS_SDK, WIT]),
        Language::Typescript => (TYPESCRIPT, &[JS_SDK, WIT]),
        Language::Python => (PYTHON, &[PYTHON_SDK, WIT]),
    };
    for (path, text) in template {
        let text = text.replace("CRATE", &name.as_str().replace('-', "_")).replace("NAME", name.as_str());
        write_file(&folder.join(path), &text)?;
    }
    for (path, text) in sdk.iter().copied().flatten() {
        write_file(&folder.join(path), text)?;
    }
    if language == Language::Rust {
        write_rust_sdk(&folder.join("toolgate-sdk"))?;
    }
    Ok(())
}

fn write_rust_sdk(folder: &Path) -> io::Result<()> {
    for (path, text) in sdk::SDK_FILES {
        let text = match path.ends_with("Cargo.toml") {
            true => standalone(text),
            false => (*text).to_owned(),
        };
        write_file(&folder.join(path), &text)?;
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
        write(&folder.path().join("new"), &Namespace::parse(name).unwrap(), Language::Rust).unwrap();
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
        for language in [Language::Rust, Language::Js, Language::Typescript, Language::Python] {
            let refusal = write(folder.path(), &name, language).unwrap_err();
            assert_eq!(refusal.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        }
        write(&folder.path().join("new"), &name, Language::Js).unwrap();
    }
}
