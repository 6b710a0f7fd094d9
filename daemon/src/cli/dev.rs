//! `toolgate dev`: builds a plugin, checks it, and loads it into a running daemon, again after each change of its files.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use toolgate_cli::{Failure, Remote};

use super::check::{self, CheckOptions};
use super::inputs::InputOptions;

const EXAMPLES: &str = "\
Examples:
  toolgate dev                                     build and check the plugin in this folder
  toolgate dev --watch --load                      again after each change, and load it into the daemon
  toolgate dev --watch --build 'npm run build' --file weather.wasm";

/// Profile of `toolgate new` for fast builds.
const FAST_PROFILE: &str = "fast";

/// Environment variable that names the component of a build.
const FILE_VARIABLE: &str = "TOOLGATE_FILE";
/// Tests show a mistake in a plugin's own code without the backtrace of the compiler.
const PYTHON_BUILD: &str = r#". .venv/bin/activate && python3 -m unittest -q &&
    componentize-py -d toolgate/wit -w python componentize toolgate.component -o "$TOOLGATE_FILE""#;

/// Time between two looks at the files.
const INTERVAL: Duration = Duration::from_millis(500);

/// Folders that a build writes, and files that it changes.
const BUILT: [&str; 7] =
    ["target", "build", "node_modules", "__pycache__", "toolgate-data", "Cargo.lock", "package-lock.json"];

/// Most files that are looked at for changes.
const FILES: usize = 10_000;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DevOptions {
    #[command(flatten)]
    remote: Remote,
    /// The folder of the plugin
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Build again after each change of a file; ends with Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Load the component into the daemon, confirm its hints and approve its differences
    #[arg(long)]
    load: bool,
    /// The shell command that builds the component [default: `cargo build` with the profile `fast` if there is one, `npm run build`, or
    /// the tests and `componentize-py` in `.venv`]
    #[arg(long, value_name = "COMMAND", requires = "file")]
    build: Option<String>,
    /// The component that `--build` writes
    #[arg(long, value_name = "FILE.wasm", requires = "build")]
    file: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputOptions,
}

pub(super) fn run(options: &DevOptions, environment_token: Option<OsString>) -> Result<(), Failure> {
    if !options.folder.is_dir() {
        let message = format!("`{}` is not a folder", options.folder.display());
        return Err(Failure::wrong_usage(message, "name the folder of a plugin, as `toolgate new` makes it"));
    }
    let mut rounds = Rounds::default();
    loop {
        let before = fingerprint(&options.folder);
        let round = build_and_load(options, environment_token.clone());
        if !options.watch {
            return round;
        }
        let mut notes = anstream::stderr().lock();
        if let Err(failure) = round {
            failure.report(&mut notes);
        }
        std::io::Write::write_all(&mut notes, b"waiting for a change (Ctrl-C ends it)\n")?;
        drop(notes);
        wait_for_change(&options.folder, rounds.seen([before, fingerprint(&options.folder)]));
    }
}

/// Tells a change of the author from files that each build writes, which would start the next one for ever.
#[derive(Default)]
struct Rounds {
    last_changed: bool,
}

impl Rounds {
    /// Returns the state of the files that the next build must differ from, given the states before and after a build. Files that
    /// changed meanwhile are built once more; if that build changes files as well, they are its own.
    fn seen(&mut self, [before, after]: [u64; 2]) -> u64 {
        let is_own = std::mem::replace(&mut self.last_changed, before != after);
        if is_own { after } else { before }
    }
}

#[expect(clippy::disallowed_methods, reason = "the files are polled, and nothing else runs meanwhile")]
fn wait_for_change(folder: &Path, before: u64) {
    while fingerprint(folder) == before {
        std::thread::sleep(INTERVAL);
    }
}

fn build_and_load(options: &DevOptions, environment_token: Option<OsString>) -> Result<(), Failure> {
    let component = match (&options.build, &options.file) {
        (Some(command), Some(file)) => {
            run_build(Command::new("sh").args(["-c", command.as_str()]), &options.folder, Stdio::inherit())?;
            options.folder.join(file)
        }
        _ => match Script::of(&options.folder) {
            Some(script) => script.build(&options.folder)?,
            None => build_with_cargo(&options.folder)?,
        },
    };
    let check = CheckOptions::of(component.clone(), options.inputs.clone());
    super::here(false, async |printer| check::run(check, printer).await)?;
    if !options.load {
        return Ok(());
    }
    options.remote.run(environment_token, async |client, printer| {
        toolgate_cli::plugin::reload(client, printer, &component).await
    })
}

/// The build of a plugin in a scripting language, as its README shows it.
struct Script {
    command: &'static str,
    file: String,
}

impl Script {
    /// The build of a folder that `toolgate new` made; none for Rust.
    fn of(folder: &Path) -> Option<Self> {
        let has = |name: &str| folder.join(name).is_file();
        if has("Cargo.toml") {
            return None;
        }
        if has("package.json") {
            let package = fs::read_to_string(folder.join("package.json")).ok()?;
            let name = serde_json::from_str::<Value>(&package).ok()?["name"].as_str()?.to_owned();
            return Some(Self { command: "npm run --silent build", file: format!("{name}.wasm") });
        }
        let name = folder.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned();
        let command = PYTHON_BUILD;
        has("toolgate/component.py").then(|| Self { command, file: format!("{name}.wasm") })
    }

    fn build(&self, folder: &Path) -> Result<PathBuf, Failure> {
        let mut shell = Command::new("sh");
        shell.args(["-c", self.command]).env(FILE_VARIABLE, &self.file);
        run_build(&mut shell, folder, Stdio::inherit())?;
        Ok(folder.join(&self.file))
    }
}

/// Builds with cargo, and returns the component that it names.
fn build_with_cargo(folder: &Path) -> Result<PathBuf, Failure> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).map_err(|error| {
        Failure::new(
            format!("`{}` has no readable `Cargo.toml`: {error}", folder.display()),
            "name the folder of a plugin as `toolgate new` makes it, or give `--build` and `--file`",
        )
    })?;
    let profile = format!("[profile.{FAST_PROFILE}]");
    let profile = if manifest.contains(&profile) { FAST_PROFILE } else { "release" };
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--target", "wasm32-wasip2", "--profile", profile]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let messages = run_build(&mut cargo, folder, Stdio::piped())?;
    component_of(&messages).ok_or_else(|| {
        Failure::new(
            "the build made no component",
            "write `crate-type = [\"cdylib\"]` below `[lib]` in `Cargo.toml`",
        )
    })
}

/// Runs a build in the folder. Returns its standard output, if that is piped.
fn run_build(command: &mut Command, folder: &Path, output: Stdio) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ended = command.current_dir(folder).stdout(output).stderr(Stdio::inherit()).output();
    let ended = ended.map_err(|error| {
        Failure::new(format!("`{name}` cannot be run: {error}"), "install it, or check the command")
    })?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        false => Err(Failure::new("the build failed", "fix the errors above")),
    }
}

/// The last component among cargo's messages: dependencies are built first.
fn component_of(messages: &str) -> Option<PathBuf> {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let files = artifacts.flat_map(|artifact| artifact["filenames"].as_array().cloned().unwrap_or_default());
    let mut files = files.filter_map(|file| file.as_str().map(PathBuf::from));
    files.rfind(|file| file.extension().is_some_and(|extension| extension == "wasm"))
}

/// A hash over names, sizes and times of the files that a build reads.
fn fingerprint(folder: &Path) -> u64 {
    fn add(folder: &Path, files: &mut usize, hasher: &mut DefaultHasher) {
        let Ok(entries) = folder.read_dir() else { return };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_built = name.starts_with('.') || name.ends_with(".wasm") || BUILT.contains(&name.as_str());
            let Ok(metadata) = entry.metadata() else { continue };
            if is_built || *files >= FILES {
                continue;
            }
            *files += 1;
            if metadata.is_dir() {
                add(&entry.path(), files, hasher);
            } else {
                (name, metadata.len(), metadata.modified().ok()).hash(hasher);
            }
        }
    }
    let mut hasher = DefaultHasher::new();
    add(folder, &mut 0, &mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_is_the_last_one_that_cargo_names() {
        let messages = "\
{\"reason\":\"compiler-artifact\",\"filenames\":[\"/t/libserde.rlib\"]}
not json
{\"reason\":\"compiler-artifact\",\"filenames\":[\"/t/fast/my_weather.wasm\",\"/t/fast/my_weather.d\"]}
{\"reason\":\"build-finished\",\"success\":true}
";
        assert_eq!(component_of(messages), Some("/t/fast/my_weather.wasm".into()));
        assert_eq!(component_of("{\"reason\":\"build-finished\"}"), None);
    }

    #[test]
    fn a_change_of_a_source_is_seen_and_one_of_a_build_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("written");
        };
        write("src/lib.rs", "1");
        let first = fingerprint(folder.path());
        write("target/x", "built");
        write("Cargo.lock", "built");
        assert_eq!(fingerprint(folder.path()), first);
        write("src/lib.rs", "12");
        assert_ne!(fingerprint(folder.path()), first);
    }

    #[test]
    fn a_build_that_writes_sources_ends_and_a_change_during_a_build_is_built() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.seen([1, 1]), 1);
        assert_eq!(rounds.seen([1, 2]), 1, "the author may have changed a file");
        assert_eq!(rounds.seen([2, 2]), 2);
        assert_eq!(rounds.seen([2, 3]), 2);
        assert_eq!(rounds.seen([3, 4]), 4, "the build writes into the folder each time");
    }

    #[test]
    fn the_build_of_a_scripting_language_is_known_by_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = || Script::of(folder.path()).map(|script| (script.command, script.file));
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
        assert_eq!(file(), None);
        fs::create_dir(folder.path().join("toolgate")).expect("a folder");
        write("toolgate/component.py", "");
        let name = folder.path().file_name().expect("a name").to_string_lossy().into_owned();
        assert_eq!(file(), Some((PYTHON_BUILD, format!("{name}.wasm"))));
        write("package.json", r#"{"name": "shop"}"#);
        assert_eq!(file(), Some(("npm run --silent build", "shop.wasm".to_owned())));
        write("Cargo.toml", "");
        assert_eq!(file(), None);
    }

    #[test]
    fn a_folder_without_a_manifest_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let failure = build_with_cargo(folder.path()).expect_err("nothing to build");
        assert!(
            failure.to_string().contains("Cargo.toml") && failure.hint().contains("--build"),
            "{failure}"
        );
    }
}
