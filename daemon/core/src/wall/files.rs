//! The paths that stay in reach behind the wall.
//!
//! Landlock knows files by what is there when the wall is raised. A file that is replaced later would be another one, so that
//! the folder of each configured file is readable, and of a link the folder of its target, too.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use toolgate_state::config::{Config, Listen, SecretFolders};

/// Folders and files of the system that the daemon and its libraries read while they run: the configuration of the resolver,
/// processors and memory of the machine and of the control group, and the process itself. Landlock keeps what `/proc` has of
/// other processes from it.
const SYSTEM: &[&str] = &[
    "/etc",
    "/proc",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/systemd/resolve",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/dev/random",
    "/dev/urandom",
];

/// The running program. The compile worker is started by this path, which stays right when a new version replaces the file.
pub const PROGRAM: &str = "/proc/self/exe";

/// The folder of what a package installs beside the program: `../lib/toolgate`.
pub fn packaged_folder() -> Option<PathBuf> {
    let program = fs::canonicalize(PROGRAM).ok()?;
    Some(program.parent()?.parent()?.join("lib/toolgate"))
}

/// Paths by what the process may do with them and, if they are folders, with everything below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileRules {
    /// Read files and list folders.
    pub read: Vec<PathBuf>,
    /// Start as a program.
    pub execute: Vec<PathBuf>,
    /// Everything but start as a program and make devices.
    pub write: Vec<PathBuf>,
    /// Remove files.
    pub remove: Vec<PathBuf>,
}

impl FileRules {
    /// The rules for a daemon with these settings and this data folder.
    pub(super) fn of(config: &Config, data: &Path) -> Self {
        let mut rules = Self::default();
        rules.read.extend(SYSTEM.iter().map(PathBuf::from));
        rules.read.extend(folders_of(Path::new("/etc/resolv.conf")));
        // Credentials of a service manager.
        rules.read.extend(std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from));
        rules.add_program(&fs::read_to_string("/proc/self/maps").unwrap_or_default());
        rules.read.extend(packaged_folder());
        rules.write.push(PathBuf::from("/dev/null"));
        rules.add_data(data);
        rules.add_store(&config.store_path().unwrap_or_default());
        let configured = config.named_files().into_iter().map(|file| file.path);
        rules.read.extend(configured.chain(config.file.clone()).flat_map(|file| folders_of(&file)));
        let secrets = config.credentials.file_references.as_deref().and_then(SecretFolders::parse);
        rules.read.extend(secrets.map(|folders| folders.all));
        if let Some(folder) = &config.plugins.folder {
            rules.add_plugins(folder);
        }
        if let Listen::Unix(socket) = &config.listen {
            // In the root folder the file stays behind; the next start replaces it.
            rules.remove.extend(parent(socket).filter(|folder| !is_root(folder)));
        }
        rules
    }

    /// Why the rules bound no file, if they do not.
    pub(super) fn gap(&self) -> Option<&'static str> {
        let is_everywhere = self.write.iter().any(|path| is_root(path));
        is_everywhere
            .then_some("files, since `store` lies in the root folder: move it into a folder of its own")
    }

    /// The program as its own compile worker, from the `maps` of the process: the program itself and the loader may be
    /// started, and the folders of its libraries may be read.
    fn add_program(&mut self, maps: &str) {
        self.execute.push(PathBuf::from(PROGRAM));
        let program = fs::read_link(PROGRAM).unwrap_or_default();
        let mapped = maps.lines().filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
        for library in mapped.filter(|path| *path != program) {
            let name = library.file_name().unwrap_or_default().as_bytes();
            if name.starts_with(b"ld-") && !self.execute.iter().any(|known| known == library) {
                self.execute.push(library.to_owned());
            }
            let folder = folder_of(library);
            if name.windows(3).any(|part| part == b".so") && !self.read.contains(&folder) {
                self.read.push(folder);
            }
        }
    }

    /// The data folder, and the targets of links in it: an operator may keep a part of it on another disk.
    fn add_data(&mut self, data: &Path) {
        self.write.push(data.to_owned());
        self.write.extend(targets_of_links(data));
    }

    /// The folder of the store, and that of the file that it is a link to: SQLite has further files beside it.
    fn add_store(&mut self, store: &Path) {
        let files = [Some(store.to_owned()), target_of(store)];
        let folders = files.into_iter().flatten().filter_map(|file| parent(&file));
        for folder in folders {
            if !self.write.contains(&folder) {
                self.write.push(folder);
            }
        }
    }

    /// The watched folder and its parent: it may be replaced as a whole, or be a mount point of a volume that comes later, and a
    /// rule for a folder does not hold for either. Also the folders of the files that links in it lead to.
    fn add_plugins(&mut self, folder: &Path) {
        self.read.push(folder.to_owned());
        self.read.extend(folder.canonicalize());
        self.read.extend(folders_of(folder));
        let files = targets_of_links(folder).filter(|target| target.is_file());
        let folders: BTreeSet<PathBuf> = files.map(|file| folder_of(&file)).collect();
        self.read.extend(folders);
    }
}

/// The targets of the links in a folder.
fn targets_of_links(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.filter_map(|link| link.path().canonicalize().ok())
}

/// The folder of a file, and of the file that it is a link to. A file in the root folder stands for itself.
fn folders_of(file: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder_of(file)];
    folders.extend(target_of(file).map(|target| folder_of(&target)));
    folders.dedup();
    folders
}

/// The file behind links; that of the first one if it is not there yet.
fn target_of(file: &Path) -> Option<PathBuf> {
    let target = file.canonicalize().ok();
    target.or_else(|| Some(parent(file)?.join(fs::read_link(file).ok()?)))
}

fn folder_of(file: &Path) -> PathBuf {
    parent(file).filter(|folder| !is_root(folder)).unwrap_or_else(|| file.to_owned())
}

/// Whether a folder that is there is the root folder, which `.` may be, too.
fn is_root(folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|folder| folder.parent().is_none())
}

fn parent(file: &Path) -> Option<PathBuf> {
    let folder = file.parent()?;
    Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn rules(settings: &str, data: &Path) -> FileRules {
        let config = Config::parse(settings, Path::new("t.toml")).expect("settings");
        FileRules::of(&config, data)
    }

    #[test]
    fn only_the_data_and_the_folder_of_the_store_are_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let rules = rules("store = \"sqlite:/srv/a/state.db\"", folder.path());
        assert_eq!(rules.write, [Path::new("/dev/null"), folder.path(), Path::new("/srv/a")]);
        assert!(rules.remove.is_empty());
    }

    #[test]
    fn a_store_may_be_a_link_to_another_disk() {
        let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("another"));
        fs::write(other.path().join("state.db"), "").expect("a file");
        symlink(other.path().join("state.db"), folder.path().join("state.db")).expect("a link");
        let mut config = Config { data: folder.path().to_owned(), ..Config::default() };
        let target = other.path().canonicalize().expect("a path");
        assert!(FileRules::of(&config, folder.path()).write.contains(&target), "of the data folder");
        config.store = Some(format!("sqlite:{}", folder.path().join("state.db").display()));
        assert!(FileRules::of(&config, Path::new("/data")).write.contains(&target), "of the settings");
        // At the first start.
        fs::remove_file(other.path().join("state.db")).expect("removed");
        let rules = FileRules::of(&config, folder.path());
        assert!(rules.write.contains(&other.path().to_owned()), "{rules:?}");
    }

    #[test]
    fn a_file_in_the_root_folder_opens_no_other_file() {
        for root in ["/", "/./", "/usr/../"] {
            let settings =
                format!("listen = \"unix:{root}t.sock\"\n[credentials]\nca_file = \"{root}ca.pem\"");
            let found = rules(&settings, Path::new("/data"));
            let all = [&found.read, &found.write, &found.remove, &found.execute].into_iter().flatten();
            assert_eq!(all.filter(|path| is_root(path)).count(), 0, "{root}: {found:?}");
            assert_eq!(found.gap(), None);
            assert!(found.read.contains(&PathBuf::from(format!("{root}ca.pem"))), "{root}: {found:?}");
        }
        let found = rules("store = \"sqlite:/state.db\"", Path::new("/data"));
        assert!(found.gap().is_some_and(|gap| gap.contains("`store`")), "{found:?}");
    }

    #[test]
    fn a_part_of_the_data_may_lie_on_another_disk() {
        let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("another"));
        symlink(other.path(), folder.path().join("audit")).expect("a link");
        let target = other.path().canonicalize().expect("a path");
        assert!(rules("", folder.path()).write.contains(&target));
    }

    #[test]
    fn the_folders_of_a_configured_file_and_of_its_target_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a path");
        for name in ["live", "archive", "data"] {
            fs::create_dir(root.join(name)).expect("a folder");
        }
        fs::write(root.join("archive/ca.pem"), "").expect("a file");
        symlink("../archive/ca.pem", root.join("live/ca.pem")).expect("a link");
        let settings = format!("[credentials]\nca_file = \"{}\"", root.join("live/ca.pem").display());
        let rules = rules(&settings, &root.join("data"));
        for name in ["live", "archive"] {
            assert!(rules.read.contains(&root.join(name)), "{name}: {rules:?}");
        }
        assert!(!rules.read.contains(&root), "{rules:?}");
    }

    #[test]
    fn the_worker_may_start_the_program_and_its_loader_alone() {
        let maps = "55a0-55b0 r-xp 00000000 fe:01 1 /usr/bin/toolgate\n\
                    7f00-7f10 r-xp 00000000 fe:01 2 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f10-7f20 r--p 00000000 fe:01 2 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f20-7f30 r-xp 00000000 fe:01 3 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n\
                    7f30-7f40 rw-p 00000000 00:00 0 [heap]\n\
                    7f40-7f50 rw-s 00000000 00:01 4 /memfd:image (deleted)\n";
        let mut rules = FileRules::default();
        rules.add_program(maps);
        let loader = Path::new("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
        assert_eq!(rules.execute, [Path::new(PROGRAM), loader]);
        assert_eq!(rules.read, [Path::new("/usr/lib/x86_64-linux-gnu")]);
    }

    #[test]
    fn a_folder_of_plugins_may_be_replaced_or_mounted_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = format!("[plugins]\nfolder = \"{}\"", folder.path().join("plugins").display());
        assert!(rules(&settings, Path::new("/data")).read.contains(&folder.path().to_owned()));
    }

    #[test]
    fn files_of_plugins_may_be_links_to_another_folder() {
        let (folder, builds) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("another"));
        fs::write(builds.path().join("1.wasm"), "").expect("a file");
        symlink(builds.path().join("1.wasm"), folder.path().join("weather.wasm")).expect("a link");
        let settings = format!("[plugins]\nfolder = \"{}\"", folder.path().display());
        let target = builds.path().canonicalize().expect("a path");
        assert!(rules(&settings, Path::new("/data")).read.contains(&target));
    }
}
