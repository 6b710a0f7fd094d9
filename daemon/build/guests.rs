//! Compiles a folder of guest packages to components, and writes a constant that holds them with their digests:
//! whoever starts need not read a component to know which one it is.
//!
//! Included by every build script that needs guests. One `cargo build` makes all of a folder's packages, in a target
//! folder of its own that debug, release and clippy share: guests are the same in each of them. A package is named as
//! its folder, and the plugin as its package.
//!
//! The inner cargo must not see what the outer one was told about the host: flags, wrappers, profiles and targets are
//! taken from its environment. What says where crates come from stays.
//!
//! Which files a change of must compile them again is asked of the inner cargo, which writes it down beside each
//! component: a list kept here would miss the next crate that a guest shares with the host.

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

/// A profile of the workspace, made for guests.
const PROFILE: &str = "guest";

/// What every guest is made of beside its sources.
const SHARED: &[&str] = &["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];

/// Variables of cargo that say where crates come from, and how many jobs there may be.
const KEPT_VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "CARGO_MAKEFLAGS",
    "CARGO_NET_",
    "CARGO_HTTP_",
    "CARGO_REGISTR",
    "CARGO_SOURCE_",
    "CARGO_TERM_",
];

/// Compiles the packages in a folder of the workspace, and writes a file into the output folder with
/// `pub const CONSTANT: &[Embedded]`, in the order of names. Whoever includes it says what an `Embedded` is: `name`,
/// `digest` (`sha256:` and 64 digits) and `component`.
pub fn embed(folder: &str, constant: &str, file: &str) -> ExitCode {
    match try_embed(folder, constant, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo::error={error}");
            ExitCode::FAILURE
        }
    }
}

fn try_embed(folder: &str, constant: &str, file: &str) -> Result<()> {
    let workspace = workspace()?;
    let output = path_variable("OUT_DIR")?;
    for shared in SHARED.iter().chain([&folder]) {
        watch(&workspace.join(shared));
    }
    let names = packages(&workspace.join(folder))?;
    let components =
        if names.is_empty() { PathBuf::new() } else { compile(&workspace, folder, &output, &names)? };
    sources(&components, &names)?.iter().for_each(|source| watch(source));
    write_constant(&components, &output, constant, file, &names)
}

/// The root of the workspace: the folder above the package whose build script this is.
fn workspace() -> Result<PathBuf> {
    let package = path_variable("CARGO_MANIFEST_DIR")?;
    Ok(package.parent().ok_or("the package lies outside of a workspace")?.to_owned())
}

fn path_variable(name: &str) -> Result<PathBuf> {
    Ok(env::var_os(name).ok_or_else(|| format!("cargo did not set `{name}`"))?.into())
}

fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

/// The names of the packages in a folder, in order. A folder that does not exist has none.
fn packages(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if let (true, Some(name)) =
            (path.join("Cargo.toml").is_file(), path.file_name().and_then(OsStr::to_str))
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Compiles the packages. Gives the folder in which their components lie.
fn compile(workspace: &Path, folder: &str, output: &Path, names: &[String]) -> Result<PathBuf> {
    install_target()?;
    let target_folder = target_folder(output)?.join("guests");
    let mut cargo = Command::new(path_variable("CARGO")?);
    cargo.current_dir(workspace);
    cargo
        .args(["build", "--locked", "--target", TARGET, "--profile", PROFILE, "--target-dir"])
        .arg(&target_folder);
    for name in names {
        // By its place: a crate that the workspace depends on may have the same name, as `http`.
        let package = workspace.join(folder).join(name);
        cargo.args(["--package", &format!("path+file://{}", package.display())]);
    }
    forget_the_host(&mut cargo);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags().join("\u{1f}"));
    match cargo.status()?.success() {
        true => Ok(target_folder.join(TARGET).join(PROFILE)),
        false => Err(format!("the guests do not compile; to see it alone: {cargo:?}").into()),
    }
}

/// Adds the target of the guests where the toolchain lacks it, also on machines on which rustup installs nothing by
/// itself.
fn install_target() -> Result<()> {
    if has_target()? {
        return Ok(());
    }
    println!(
        "cargo::warning=the toolchain lacks the target `{TARGET}` for plugins: running `rustup target add {TARGET}`"
    );
    match Command::new("rustup").args(["target", "add", TARGET]).status() {
        Ok(status) if status.success() && has_target()? => Ok(()),
        Ok(_) => {
            Err(format!("`rustup target add {TARGET}` did not work: run it by hand, then build again").into())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Err(no_rustup().into()),
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

fn no_rustup() -> String {
    format!(
        "plugins need the target `{TARGET}`, and there is no `rustup` to add it: run `rustup target add {TARGET}` \
         where there is, or install your distribution's Rust standard library for `{TARGET}`"
    )
}

fn forget_the_host(cargo: &mut Command) {
    for (variable, _) in env::vars_os() {
        let Some(name) = variable.to_str() else { continue };
        let is_kept = KEPT_VARIABLES.iter().any(|kept| name.starts_with(kept));
        if name.starts_with("CARGO_") && !is_kept {
            cargo.env_remove(name);
        }
    }
    for wrapper in ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        cargo.env_remove(wrapper);
    }
}

/// The same source gives the same component on every machine: no path of this one may stand in its messages.
fn flags() -> Vec<String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    home.map(|home| format!("--remap-path-prefix={}=cargo", home.display())).into_iter().collect()
}

/// The target folder of the outer cargo, which marks it for backup programs.
fn target_folder(output: &Path) -> Result<&Path> {
    let found = output.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    Ok(found
        .or_else(|| output.ancestors().nth(4))
        .ok_or("the output folder lies outside of a target folder")?)
}

/// The files that the components were made of, in whichever package of the workspace, and the manifests of these packages,
/// which cargo does not list.
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

/// What the file is called that cargo makes of a package.
fn artifact(name: &str, extension: &str) -> String {
    format!("{}.{extension}", name.replace('-', "_"))
}

fn write_constant(
    components: &Path,
    output: &Path,
    constant: &str,
    file: &str,
    names: &[String],
) -> Result<()> {
    let mut source = format!("pub const {constant}: &[Embedded] = &[\n");
    for name in names {
        let component = artifact(name, "wasm");
        // Another build may compile the guests anew while this one goes on to embed them.
        let copy = output.join(&component);
        let content = fs::read(components.join(&component))?;
        write_if_changed(&copy, &content)?;
        let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(
            source,
            "    Embedded {{ name: {name:?}, digest: \"sha256:{digest}\", component: include_bytes!({copy:?}) }},"
        )?;
    }
    source.push_str("];\n");
    Ok(write_if_changed(&output.join(file), source.as_bytes())?)
}

/// An untouched file keeps the crate that includes it from being compiled again.
fn write_if_changed(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|current| current == content) { Ok(()) } else { fs::write(path, content) }
}
