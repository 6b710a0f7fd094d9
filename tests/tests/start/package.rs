//! What `packaging` makes: the Debian package, installed into a folder; the unit; the container file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use toolgate_state::config::{Config, Overrides};
use toolgate_tests::daemon::Options;
use toolgate_tests::{Daemon, Value};

use super::PROGRAM;

/// Options of `dpkg` for a folder without other packages and without a shell of its own.
const DPKG: &[&str] = &["--force-script-chrootless", "--force-depends"];

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("packaging")
}

#[track_caller]
fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn debian_architecture() -> String {
    let printed = succeed(Command::new("dpkg").arg("--print-architecture"));
    String::from_utf8(printed.stdout).expect("a name").trim().to_owned()
}

/// A system that has no package but this one.
struct Installed {
    folder: TempDir,
    package: PathBuf,
}

impl Installed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        for name in ["updates", "info", "triggers"] {
            fs::create_dir_all(root.join("var/lib/dpkg").join(name)).expect("dpkg's folders");
        }
        fs::write(root.join("var/lib/dpkg/status"), "").expect("dpkg's list");
        let binary = folder.path().join("toolgate");
        succeed(Command::new("strip").arg("-o").args([binary.as_path(), Path::new(PROGRAM)]));
        let key = folder.path().join("key");
        let made = ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"];
        succeed(Command::new("ssh-keygen").args(made).arg(&key));
        let mut release = Command::new(packaging().join("release"));
        release.arg("--binary").arg(&binary).arg("--sign-key").arg(&key);
        let quick = [("DPKG_DEB_COMPRESSOR_TYPE", "none"), ("XZ_OPT", "-0")];
        release.env("DEBFULLNAME", "Ann").env("DEBEMAIL", "ann@example.com");
        succeed(release.env("CARGO_TARGET_DIR", folder.path()).envs(quick));
        let files = folder.path().join("release-files");
        let version = env!("CARGO_PKG_VERSION");
        let package = files.join(format!("toolgate_{version}-1_{}.deb", debian_architecture()));
        let installed = Self { folder, package };
        installed.expect_signed(&files);
        installed.dpkg(&["--install".as_ref(), installed.package.as_path()]);
        installed
    }

    /// The checksums are those of the files, and signed with the key; of changed ones the signature does not verify.
    fn expect_signed(&self, files: &Path) {
        let public = fs::read_to_string(self.folder.path().join("key.pub")).expect("a public key");
        fs::write(files.join("allowed_signers"), format!("releases {public}")).expect("written");
        let verify = |checksums: &str| {
            let script = format!(
                "ssh-keygen -Y verify -f allowed_signers -I releases -n toolgate-release -s SHA256SUMS.sig <{checksums}"
            );
            Command::new("sh").arg("-c").arg(script).current_dir(files).output().expect("it runs")
        };
        let verified = verify("SHA256SUMS");
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
        succeed(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(files));
        let text = fs::read_to_string(files.join("SHA256SUMS")).expect("checksums");
        assert_eq!(text.lines().count(), 3, "program, package and archive: {text}");
        fs::write(files.join("changed"), text.replacen(text.get(..1).unwrap_or_default(), "x", 1))
            .expect("written");
        assert!(!verify("changed").status.success(), "changed checksums verify");
    }

    fn path(&self, below_root: &str) -> PathBuf {
        self.folder.path().join("root").join(below_root)
    }

    #[track_caller]
    fn dpkg(&self, words: &[&Path]) {
        let root = format!("--root={}", self.path("").display());
        succeed(
            Command::new("dpkg").arg(root).args(DPKG).args(words).env("DEBIAN_FRONTEND", "noninteractive"),
        );
    }
}

/// Files below a folder, as paths from it.
fn files_below(root: &Path, folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        match entry.file_type().expect("a type").is_dir() {
            true => files_below(root, &path, found),
            false => found.push(path),
        }
    }
}

#[test]
#[cfg_attr(not(has = "dpkg"), ignore = "needs root, dpkg, systemd-sysusers, strip and lintian")]
fn the_package_installs_a_daemon_that_starts_and_keeps_settings_and_data() {
    let installed = Installed::new();
    // This package is not compressed, since that takes long.
    let uncompressed =
        "--suppress-tags=uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball";
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on=error,warning", uncompressed]).arg(&installed.package);
    let told = lintian.output().expect("it runs");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stdout));
    expect_files(&installed);
    let user = fs::read_to_string(installed.path("etc/passwd")).expect("users");
    assert!(user.lines().any(|line| line.starts_with("toolgate:") && line.ends_with("/nologin")), "{user}");

    // Nothing is compiled: each plugin comes from the package.
    let compiled = succeed(
        Command::new(installed.path("usr/bin/toolgate"))
            .args(["compile", "--data"])
            .arg(installed.folder.path().join("prepared")),
    );
    assert_eq!(String::from_utf8_lossy(&compiled.stderr), "", "{compiled:?}");

    // The shell replaces the program under test by the installed one.
    let script = format!(r#"exec {} "$@""#, installed.path("usr/bin/toolgate").display());
    let under = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let daemon = Daemon::start_with(PROGRAM, Options { under, ..Options::default() });
    daemon.operator().get("/v1/plugins").expect(200);
    drop(daemon);

    let settings = installed.path("etc/toolgate/toolgate.toml");
    fs::write(&settings, "# mine").expect("settings");
    installed.dpkg(&["--install".as_ref(), installed.package.as_path()]);
    assert_eq!(fs::read_to_string(&settings).expect("settings"), "# mine", "an update replaces settings");
    let data = installed.path("var/lib/toolgate/state.db");
    fs::create_dir_all(data.with_file_name("")).expect("the data folder");
    fs::write(&data, "").expect("data");
    installed.dpkg(&["--purge".as_ref(), "toolgate".as_ref()]);
    assert!(!installed.path("usr/bin/toolgate").exists() && !settings.exists(), "it was not removed");
    assert!(data.exists(), "the audit log was removed with the package");
}

/// Every file belongs to root, who alone may write it.
#[track_caller]
fn expect_files(installed: &Installed) {
    let (root, mut files) = (installed.path(""), Vec::new());
    files_below(&root, "usr", &mut files);
    files_below(&root, "etc/toolgate", &mut files);
    for file in &files {
        let about = fs::metadata(root.join(file)).expect("a file");
        let mode = if file == "usr/bin/toolgate" { 0o755 } else { 0o644 };
        assert_eq!((about.mode() & 0o7777, about.uid(), about.gid()), (mode, 0, 0), "{file}");
        assert!(about.len() > 0, "{file} is empty");
    }
    for wanted in [
        "etc/toolgate/toolgate.toml",
        "usr/bin/toolgate",
        "usr/lib/systemd/system/toolgate.service",
        "usr/lib/toolgate/compiled.json",
        "usr/lib/toolgate/files.cwasm",
        "usr/lib/systemd/system/toolgate.socket",
        "usr/share/man/man1/toolgate.1.gz",
        "usr/share/man/man1/toolgate-serve.1.gz",
        "usr/share/bash-completion/completions/toolgate",
        "usr/share/zsh/vendor-completions/_toolgate",
        "usr/share/fish/vendor_completions.d/toolgate.fish",
        "usr/share/doc/toolgate/copyright",
        "usr/share/doc/toolgate/examples/policy/orgs/office/policy.json",
        "usr/share/doc/toolgate/examples/alerts.yml",
        "usr/share/doc/toolgate/examples/grafana.json",
    ] {
        assert!(files.iter().any(|file| file == wanted), "{wanted} is missing: {files:?}");
    }
}

#[test]
#[cfg_attr(not(has = "systemd"), ignore = "needs systemd-analyze")]
fn systemd_accepts_the_units_and_finds_them_hardened() {
    let folder = tempfile::tempdir().expect("a folder");
    let unit = |name: &str| {
        let text = fs::read_to_string(packaging().join(name)).expect("a unit");
        assert!(name != "toolgate.service" || text.contains("ExecStart=/usr/bin/toolgate serve --config "));
        let path = folder.path().join(name);
        fs::write(&path, text.replace("/usr/bin/toolgate", PROGRAM)).expect("a unit");
        path
    };
    let (service, socket) = (unit("toolgate.service"), unit("toolgate.socket"));
    let verified =
        succeed(Command::new("systemd-analyze").args(["--man=no", "verify"]).args([&service, &socket]));
    // A misspelled key is a warning.
    let told = String::from_utf8_lossy(&verified.stderr);
    assert!(!told.contains("toolgate."), "{told}");
    // Ten times the exposure: without hardening it is above 90.
    succeed(
        Command::new("systemd-analyze").args(["security", "--offline=yes", "--threshold=20"]).arg(&service),
    );
}

#[test]
fn the_packaged_settings_are_valid() {
    for name in ["toolgate.toml", "container.toml"] {
        let config = Config::load(Some(&packaging().join(name)), Overrides::default()).expect(name);
        assert_eq!(config.data, Path::new("/var/lib/toolgate"), "{name}");
        assert_eq!(config.listen.is_local(), name == "toolgate.toml", "{name}: {}", config.listen);
    }
}

/// Checks that need no container engine: files and commands exist, and the user is not root.
#[test]
fn the_container_file_names_files_and_commands_that_exist() {
    let text = fs::read_to_string(packaging().join("Containerfile")).expect("the container file");
    let text = text.replace("\\\n", " ");
    let instruction =
        |name: &'static str| text.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(' '));
    let sources: Vec<&str> = instruction("COPY")
        .filter(|words| !words.contains("--from="))
        .flat_map(|words| words.split_whitespace().rev().skip(1))
        .filter(|word| !word.starts_with("--"))
        .collect();
    assert!(sources.contains(&"packaging/container.toml"), "{sources:?}");
    for source in sources {
        assert!(packaging().with_file_name(source).exists(), "`{source}` does not exist");
    }
    let user = instruction("USER").next_back().expect("a user");
    assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "{user}");
    let words = |line: &str| -> Vec<String> {
        let list = line
            .get(line.find('[').expect("a list")..)
            .and_then(|list| serde_json::from_str::<Value>(list).ok());
        let list = list.and_then(|list| Some(list.as_array()?.clone())).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let check = words(instruction("HEALTHCHECK").next().expect("a check"));
    let (program, check) = check.split_first().expect("a program");
    let entry = words(instruction("ENTRYPOINT").next().expect("an entry point"));
    assert_eq!(entry, [program.as_str()]);
    let serve = words(instruction("CMD").next_back().expect("a command"));
    assert_eq!(serve, ["serve", "--config", "/etc/toolgate/toolgate.toml"]);
    for command in [check, &serve] {
        succeed(Command::new(PROGRAM).args(command).arg("--help"));
    }
}
