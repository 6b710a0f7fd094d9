//! Compiles a folder of guest packages to components, and generates a static with the components and their digests, so
//! that a start need not hash them.
//!
//! Included by every build script that needs guests. One `cargo build` compiles all packages of a folder, in a separate
//! target folder that debug, release and clippy share. A package has the name of its folder, and the plugin the name of
//! its package.
//!
//! The inner cargo must not inherit settings for the host: flags, wrappers, profiles and targets are removed from its
//! environment. Settings about crate sources stay.
//!
//! The dependency files (`.d`) of the inner cargo list the sources that trigger a rebuild: a fixed list would miss a new
//! crate that guests share with the host.

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use sha2::{Digest, Sha256};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const TARGET: &str = "wasm32-wasip2";

/// The profile of the workspace for guests.
const PROFILE: &str = "guest";

/// Set to `fat`, guests are linked with fat LTO, for packages.
const LTO_VARIABLE: &str = "TOOLGATE_GUEST_LTO";

/// Files besides the sources that trigger a rebuild of every guest.
const SHARED: &[&str] = &["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];

/// Variables of cargo about crate sources and the number of jobs.
const INHERITED_VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "CARGO_MAKEFLAGS",
    "CARGO_NET_",
    "CARGO_HTTP_",
    "CARGO_REGISTR",
    "CARGO_SOURCE_",
    "CARGO_TERM_",
];

/// Compiles the packages in a folder of the workspace, and writes a file into the output folder with
/// `pub static NAME: &[Embedded]`, sorted by name. The including module imports `Embedded` (`toolgate-api`).
/// A static, since a constant is copied into each unit of code that names it.
pub(crate) fn embed(folder: &str, name: &str, file: &str) -> ExitCode {
    match try_embed(folder, name, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo::error={error}");
            ExitCode::FAILURE
        }
    }
}

fn try_embed(folder: &str, name: &str, file: &str) -> Result<()> {
    let workspace = workspace()?;
    let output = path_variable("OUT_DIR")?;
    for shared in SHARED.iter().chain([&folder]) {
        watch(&workspace.join(shared));
    }
    let names = packages(&workspace.join(folder))?;
    let components =
        if names.is_empty() { PathBuf::new() } else { compile(&workspace, folder, &output, &names)? };
    sources(&components, &names)?.iter().for_each(|source| watch(source));
    write_static(&components, &output, name, file, &names)
}

/// The root of the workspace, which has the lock file.
fn workspace() -> Result<PathBuf> {
    let package = path_variable("CARGO_MANIFEST_DIR")?;
    let root = package.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    Ok(root.ok_or("the package lies outside of a workspace")?.to_owned())
}

fn path_variable(name: &str) -> Result<PathBuf> {
    Ok(env::var_os(name).ok_or_else(|| format!("cargo did not set `{name}`"))?.into())
}

fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

/// The names of the packages in a folder, sorted, without libraries that guests share. A missing folder has none.
fn packages(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_guest =
            fs::read_to_string(path.join("Cargo.toml")).is_ok_and(|manifest| manifest.contains("\"cdylib\""));
        names.extend(path.file_name().and_then(OsStr::to_str).filter(|_| is_guest).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Compiles the packages. Returns the folder of their components.
fn compile(workspace: &Path, folder: &str, output: &Path, names: &[String]) -> Result<PathBuf> {
    install_target()?;
    let target_folder = target_folder(output)?.join("guests");
    let mut cargo = Command::new(path_variable("CARGO")?);
    cargo.current_dir(workspace);
    cargo
        .args(["build", "--locked", "--target", TARGET, "--profile", PROFILE, "--target-dir"])
        .arg(&target_folder);
    for name in names {
        // By path, since a dependency may have the same name, such as `http`.
        let package = workspace.join(folder).join(name);
        cargo.args(["--package", &format!("path+file://{}", package.display())]);
    }
    println!("cargo::rerun-if-env-changed={LTO_VARIABLE}");
    if env::var_os(LTO_VARIABLE).is_some_and(|value| value == "fat") {
        cargo.args(["--config", "profile.guest.lto='fat'", "--config", "profile.guest.codegen-units=1"]);
    }
    clear_host_environment(&mut cargo);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags().join("\u{1f}"));
    match cargo.status()?.success() {
        true => Ok(target_folder.join(TARGET).join(PROFILE)),
        false => Err(format!("the guests do not compile; to reproduce it: {cargo:?}").into()),
    }
}

/// Adds the target of the guests if the toolchain lacks it, also if rustup's automatic installation is off.
fn install_target() -> Result<()> {
    if has_target()? {
        return Ok(());
    }
    println!(
        "cargo::warning=the toolchain lacks the target `{TARGET}` for plugins: running `rustup target add {TARGET}`"
    );
    match Command::new("rustup").args(["target", "add", TARGET]).status() {
        Ok(status) if status.success() && has_target()? => Ok(()),
        Ok(_) => Err(format!("`rustup target add {TARGET}` failed: run it by hand, then build again").into()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(missing_rustup_message().into()),
        Err(error) => Err(error.into()),
    }
}

fn has_target() -> Result<bool> {
    let found = Command::new(path_variable("RUSTC")?)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()?;
    let folder = String::from_utf8(found.stdout)?;
    Ok(found.status.success() && Path::new(folder.trim()).is_dir())
}

fn missing_rustup_message() -> String {
    format!(
        "plugins need the target `{TARGET}`, and there is no `rustup` to add it: run `rustup target add {TARGET}` \
         after installing rustup, or install your distribution's Rust standard library for `{TARGET}`"
    )
}

fn clear_host_environment(cargo: &mut Command) {
    for (variable, _) in env::vars_os() {
        let Some(name) = variable.to_str() else { continue };
        let is_inherited = INHERITED_VARIABLES.iter().any(|inherited| name.starts_with(inherited));
        if name.starts_with("CARGO_") && !is_inherited {
            cargo.env_remove(name);
        }
    }
    for wrapper in ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        cargo.env_remove(wrapper);
    }
}

/// Reproducible builds: removes the path of this machine's cargo home from panic messages.
fn flags() -> Vec<String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    home.map(|home| format!("--remap-path-prefix={}=cargo", home.display())).into_iter().collect()
}

/// The target folder of the outer cargo, which contains a `CACHEDIR.TAG`.
pub(crate) fn target_folder(output: &Path) -> Result<&Path> {
    let found = output.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    Ok(found
        .or_else(|| output.ancestors().nth(4))
        .ok_or("the output folder lies outside of a target folder")?)
}

/// The source files of the components in all packages of the workspace, and the manifests of these packages, which
/// cargo does not list.
fn sources(components: &Path, names: &[String]) -> Result<BTreeSet<PathBuf>> {
    let mut sources = BTreeSet::new();
    for name in names {
        let list = fs::read_to_string(components.join(artifact(name, "d")))?;
        // `COMPONENT: SOURCE SOURCE…`, with a space inside a path as `\ `.
        for path in list.trim_end().replace("\\ ", "\0").split(' ').skip(1) {
            let path = PathBuf::from(path.replace('\0', " "));
            let mut manifests = path.ancestors().skip(1).map(|folder| folder.join("Cargo.toml"));
            sources.extend(manifests.find(|manifest| manifest.is_file()));
            sources.insert(path);
        }
    }
    Ok(sources)
}

/// The file name of a build artifact of a package.
fn artifact(name: &str, extension: &str) -> String {
    format!("{}.{extension}", name.replace('-', "_"))
}

fn write_static(components: &Path, output: &Path, name: &str, file: &str, names: &[String]) -> Result<()> {
    let mut source = format!("/// The components, sorted by name.\npub static {name}: &[Embedded] = &[\n");
    for package in names {
        let component = artifact(package, "wasm");
        // A copy, since a parallel build may overwrite the components.
        let copy = output.join(&component);
        let content = fs::read(components.join(&component))?;
        write_if_changed(&copy, &content)?;
        let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(
            source,
            "    Embedded {{ name: {package:?}, digest: \"sha256:{digest}\", component: include_bytes!({copy:?}) }},"
        )?;
    }
    source.push_str("];\n");
    Ok(write_if_changed(&output.join(file), source.as_bytes())?)
}

/// An unchanged file is not written, so that the including crate is not compiled again.
fn write_if_changed(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|current| current == content) { Ok(()) } else { fs::write(path, content) }
}
