//! Embeds the SDK and the WIT contract (`sdk_files.rs`, included by `scaffold`), so that plugin authors only need this binary.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

/// Folders to embed, each with its path below `toolgate-sdk/`.
const FOLDERS: &[(&str, &str)] =
    &[("plugin-sdk/src", "src"), ("plugin-sdk/macros/src", "macros/src"), ("wit", "wit")];
const FILES: &[(&str, &str)] = &[
    ("plugin-sdk/Cargo.toml", "Cargo.toml"),
    ("plugin-sdk/macros/Cargo.toml", "macros/Cargo.toml"),
    ("LICENSE", "LICENSE"),
];

fn main() -> ExitCode {
    let workspace = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    describe_build(&workspace);
    if let Err(error) = embed_sdk(&workspace) {
        println!("cargo::error=the SDK cannot be embedded: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Sets the variable of `src/main.rs`: in optimized builds the reflog of the checkout,
/// whose last line has the commit. `main.rs` includes the reflog, so that a commit does not run this script; other builds do
/// without it, since each commit would link them again.
fn describe_build(workspace: &Path) {
    println!("cargo::rustc-check-cfg=cfg(has_reflog)");
    let reflog = reflog(&workspace.join(".git"));
    if env::var_os("PROFILE").is_some_and(|profile| profile == "release") && reflog.is_file() {
        println!("cargo::rustc-cfg=has_reflog");
        println!("cargo::rustc-env=TOOLGATE_REFLOG={}", reflog.display());
    }
}

/// `git` is the folder of the repository; in further work trees it is a file with the path of their folder.
fn reflog(git: &Path) -> PathBuf {
    let text = fs::read_to_string(git).unwrap_or_default();
    let folder = text.strip_prefix("gitdir: ").map(|path| git.with_file_name(path.trim()));
    folder.unwrap_or_else(|| git.to_owned()).join("logs/HEAD")
}

/// Writes `pub(crate) const SDK_FILES`: pairs of a path below `toolgate-sdk/` and the text.
fn embed_sdk(workspace: &Path) -> io::Result<()> {
    let mut files: Vec<(String, PathBuf)> =
        FILES.iter().map(|(from, to)| ((*to).to_owned(), workspace.join(from))).collect();
    for (from, to) in FOLDERS {
        collect(&workspace.join(from), to, &mut files)?;
    }
    files.sort();
    let mut text = String::from("pub(crate) const SDK_FILES: &[(&str, &str)] = &[\n");
    for (name, path) in files {
        println!("cargo::rerun-if-changed={}", path.display());
        let _ = writeln!(text, "    ({name:?}, include_str!({:?})),", path.canonicalize()?);
    }
    text.push_str("];\n");
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("sdk_files.rs"), text)
}

fn collect(folder: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let inside = format!("{name}/{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => collect(&entry.path(), &inside, files)?,
            false => files.push((inside, entry.path())),
        }
    }
    Ok(())
}
